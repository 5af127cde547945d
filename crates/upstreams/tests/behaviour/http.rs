//! Servers behind streamable HTTP.

use std::collections::BTreeMap;

use evi_domain::{CallContext, CallError, TransportSpec, UpstreamState};
use tokio::sync::mpsc;

use crate::support::{Web, details, house, http_spec, raw, until};

#[tokio::test]
async fn a_server_is_reached_with_its_headers_and_its_session_is_deleted() {
    let web = Web::start("single");
    let house = house();
    house.vault.0.lock().unwrap().insert("k".into(), Ok("key-from-vault".into()));
    let mut spec = web.spec("a");
    if let TransportSpec::Http { headers, .. } = &mut spec.transport {
        *headers = BTreeMap::from([("X-Key".to_owned(), "${secret:k}".to_owned())]);
    }
    let status = house.ready(spec).await;
    assert_eq!(
        details(&status)[1..],
        ["Started Done reached", "Handshake Done protocol 2025-06-18", "Discovery Done 3 tools"]
    );
    assert_eq!(web.saw("POST initialize key-from-vault"), 1);
    let result = house
        .upstreams
        .call(&"a".into(), "echo", &raw(r#"{"f": 1.0, "n": null}"#), &CallContext::default())
        .await
        .unwrap();
    assert_eq!(result.to_model_text(), r#"{"f": 1.0, "n": null}"#);
    // i25: the server allows one session.
    house.upstreams.restart(&"a".into());
    house.wait("a", |s| s.state == UpstreamState::Ready).await;
    assert_eq!(web.saw("DELETE s1"), 1);
    house.upstreams.shutdown().await;
    until("the second session is deleted", || web.saw("DELETE s2") == 1).await;
}

#[tokio::test]
async fn progress_over_http_comes_in_order() {
    let web = Web::start("plain");
    let house = house();
    house.ready(web.spec("a")).await;
    let (send, mut receive) = mpsc::channel(100);
    let context = CallContext { progress: Some(send), ..CallContext::default() };
    house.upstreams.call(&"a".into(), "progress", &raw("{}"), &context).await.unwrap();
    drop(context);
    let mut steps = Vec::new();
    while let Some(step) = receive.recv().await {
        steps.push(step.progress);
    }
    assert_eq!(steps, (1..=20).map(f64::from).collect::<Vec<_>>());
}

#[tokio::test]
async fn i23_a_forgotten_session_is_opened_again_and_no_call_is_sent_twice() {
    let web = Web::start("plain");
    let house = house();
    house.ready(web.spec("a")).await;
    let call =
        async |tool: &str| house.upstreams.call(&"a".into(), tool, &raw("{}"), &CallContext::default()).await;
    call("forget").await.unwrap();
    let sent = web.saw("POST tools/call");
    let error = call("echo").await.unwrap_err();
    assert!(
        matches!(&error, CallError::Unavailable { reason, .. } if reason.contains("call again")),
        "{error:?}"
    );
    until("a new session", || web.saw("POST initialize") == 2).await;
    house.wait("a", |s| s.state == UpstreamState::Ready).await;
    assert_eq!(web.saw("POST tools/call"), sent + 1);
    call("echo").await.unwrap();
}

#[tokio::test]
async fn i23_other_words_for_a_forgotten_session_are_understood_too() {
    for mode in ["says400", "says503", "says200"] {
        let web = Web::start(mode);
        let house = house();
        house.ready(web.spec("a")).await;
        let call = async |tool: &str| {
            house.upstreams.call(&"a".into(), tool, &raw("{}"), &CallContext::default()).await
        };
        call("forget").await.unwrap();
        let sent = web.saw("POST tools/call");
        call("echo").await.unwrap_err();
        until(mode, || web.saw("POST initialize") == 2).await;
        house.wait("a", |s| s.state == UpstreamState::Ready).await;
        assert_eq!(web.saw("POST tools/call"), sent + 1, "{mode}");
        call("echo").await.unwrap();
    }
}

#[tokio::test]
async fn every_refusal_has_its_own_code_and_nothing_of_the_body() {
    let house = house();
    for (mode, code) in [
        ("401", "unauthorized"),
        ("403", "forbidden"),
        ("404", "not_found"),
        ("429", "rate_limited"),
        ("503", "server_error"),
        ("307", "redirected"),
        ("html", "not_mcp"),
    ] {
        let web = Web::start(mode);
        let status = house.run(web.spec("a")).await;
        let failure = status.failure.clone().unwrap_or_else(|| panic!("{mode}: {status:?}"));
        assert_eq!(failure.code, code, "{mode}: {failure:?}");
        assert!(failure.hint.is_some() && !failure.message.contains("secret stuff"), "{failure:?}");
        assert!(details(&status)[1].starts_with("Started Done"), "{mode}: {status:?}");
    }
}

#[tokio::test]
async fn a_port_without_a_server_and_a_host_without_an_address_are_told_apart() {
    let house = house();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refused = house.run(http_spec("a", &format!("http://127.0.0.1:{port}/mcp?token=t0ken-value"))).await;
    let failure = refused.failure.unwrap();
    assert_eq!(failure.code, "refused");
    assert_eq!(failure.message, format!("could not start \"a\": 127.0.0.1:{port} refused the connection"));
    let unknown = house.run(http_spec("b", "http://no-such-host.invalid/mcp")).await.failure.unwrap();
    assert_eq!(unknown.code, "host_not_found", "{unknown:?}");
    let plain = Web::start("plain");
    let tls =
        house.run(http_spec("c", &format!("https://127.0.0.1:{}/mcp", plain.port))).await.failure.unwrap();
    assert_eq!(tls.code, "tls", "{tls:?}");
}

#[tokio::test]
async fn a_server_that_goes_down_is_found_out_by_the_next_call_and_found_again() {
    let web = Web::start("plain");
    let house = house();
    house.ready(web.spec("a")).await;
    drop(web);
    let error =
        house.upstreams.call(&"a".into(), "echo", &raw("{}"), &CallContext::default()).await.unwrap_err();
    assert_eq!(error.code(), "unavailable");
    let failure = house.wait("a", |s| s.failure.is_some()).await.failure.unwrap();
    assert_eq!(failure.code, "refused", "{failure:?}");
}
