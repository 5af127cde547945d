//! Servers behind streamable HTTP.

use std::collections::BTreeMap;

use evi_domain::{CallContext, CallError, Completes, ToolResult, TransportSpec, UpstreamState};
use tokio::sync::mpsc;

use crate::support::{House, Web, details, house, http_spec, raw, until};

async fn call(house: &House, tool: &str, arguments: &str) -> Result<ToolResult, CallError> {
    house.upstreams.call(&"a".into(), tool, &raw(arguments), &CallContext::default()).await
}

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
    until("the first call", || web.saw("POST tools/call") == 1).await;
    let error = call("echo").await.unwrap_err();
    assert!(
        matches!(&error, CallError::Unavailable { reason, .. } if reason.contains("call again")),
        "{error:?}"
    );
    until("a new session", || web.saw("POST initialize") == 2).await;
    house.wait("a", |s| s.state == UpstreamState::Ready).await;
    assert_eq!(web.saw("POST tools/call"), 2);
    call("echo").await.unwrap();
}

#[tokio::test]
async fn i23_other_words_for_a_forgotten_session_are_understood_too() {
    for mode in ["says400", "says401", "says503", "says200"] {
        let web = Web::start(mode);
        let house = house();
        house.ready(web.spec("a")).await;
        let call = async |tool: &str| {
            house.upstreams.call(&"a".into(), tool, &raw("{}"), &CallContext::default()).await
        };
        call("forget").await.unwrap();
        until("the first call", || web.saw("POST tools/call") == 1).await;
        call("echo").await.unwrap_err();
        until(mode, || web.saw("POST initialize") == 2).await;
        house.wait("a", |s| s.state == UpstreamState::Ready).await;
        assert_eq!(web.saw("POST tools/call"), 2, "{mode}");
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

#[tokio::test]
async fn i51_arguments_and_results_cross_http_as_they_are_and_unknown_fields_stay() {
    let web = Web::start("plain");
    let house = house();
    house.ready(web.spec("a")).await;
    let arguments = r#"{"big": 123456789012345678901234567890, "f": 1.0,  "z": null, "a": {"b": []}}"#;
    let result = call(&house, "bytes", arguments).await.unwrap();
    let sent = result.to_model_text();
    assert!(sent.contains(arguments), "{sent}");
    assert!(result.raw().get().contains(r#""vendor": [1.0]"#), "{}", result.raw().get());
    let catalog = house.upstreams.catalog();
    let echo = catalog.upstreams[&"a".into()].tools.iter().find(|tool| tool.name() == "echo").unwrap();
    assert_eq!(echo.json()["vendorField"], serde_json::json!({"kept": 1.0}));
}

#[tokio::test]
async fn a_stream_that_ends_early_is_gone_on_with_and_one_without_a_place_is_an_error() {
    let web = Web::start("plain");
    let house = house();
    let mut spec = web.spec("a");
    if let TransportSpec::Http { headers, .. } = &mut spec.transport {
        headers.insert("X-Key".into(), "k".into());
    }
    house.ready(spec).await;
    let result = call(&house, "resume", "{}").await.unwrap();
    assert!(result.raw().get().contains(r#""resumed": "place-7""#));
    until("what it saw", || web.saw("GET place-7 k") == 1).await;
    assert_eq!(web.saw("POST tools/call"), 1);
    let error = call(&house, "cut", "{}").await.unwrap_err();
    assert!(
        matches!(&error, CallError::Unavailable { reason, .. } if reason.contains("ended before the answer")),
        "{error:?}"
    );
    assert_eq!(web.saw("POST tools/call"), 2);
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_an_error_for_its_call_and_the_next_call_works() {
    let web = Web::start("plain");
    let house = house();
    house.ready(web.spec("a")).await;
    for tool in ["huge", "huge_event"] {
        let error = call(&house, tool, "{}").await.unwrap_err();
        assert!(
            matches!(&error, CallError::Rpc { message, .. } if message == "the answer is longer than 64 MiB"),
            "{tool}: {error:?}"
        );
        call(&house, "echo", "{}").await.unwrap();
    }
}

#[tokio::test]
async fn i38_a_notice_on_the_stream_has_the_tools_listed_again() {
    let web = Web::start("notices");
    let house = house();
    house.ready(web.spec("a")).await;
    until("the stream of notices", || web.saw("GET None") == 1).await;
    call(&house, "change", "{}").await.unwrap();
    house.wait("a", |status| status.tools == 4).await;
    assert!(house.tools("a").contains(&"new".to_owned()));
}

#[tokio::test]
async fn a_modern_server_gets_its_headers_and_tools_with_wrong_marks_are_left_out() {
    let web = Web::start("modern");
    let house = house();
    let status = house.ready(web.spec("a")).await;
    assert_eq!(
        details(&status)[2..],
        ["Handshake Done protocol 2026-07-28", "Discovery Done 3 tools, 1 left out (see its log)"]
    );
    assert!(
        house.log("a").contains("the tool wrong is left out: x-mcp-header is on n"),
        "{}",
        house.log("a")
    );
    call(&house, "echo", r#"{"region": "Zürich"}"#).await.unwrap();
    let (a, context, none) = ("a".into(), CallContext::default(), BTreeMap::new());
    house.upstreams.read_resource(&a, "x:ü", &context).await.unwrap();
    house.upstreams.get_prompt(&a, "greet", &none, &context).await.unwrap();
    let of = Completes::Prompt("greet".to_owned());
    house.upstreams.complete(&a, &of, ("who", ""), &none, &context).await.unwrap();
    let version = "MCP-Protocol-Version=2026-07-28 Mcp-Session-Id=None";
    for (method, name, region) in [
        ("server/discover", "None", "None"),
        ("tools/list", "None", "None"),
        ("tools/call", "echo", "=?base64?WsO8cmljaA==?="),
        ("resources/read", "=?base64?eDrDvA==?=", "None"),
        ("prompts/get", "greet", "None"),
        ("completion/complete", "None", "None"),
    ] {
        let line = format!(
            "HEADERS {method} Mcp-Method={method} Mcp-Name={name} Mcp-Param-Region={region} {version}"
        );
        until(&line, || web.saw(&line) == 1).await;
    }
    assert_eq!(web.saw("GET") + web.saw("POST initialize"), 0);
}

#[tokio::test]
async fn a_cancel_closes_a_modern_response_and_tells_an_older_server() {
    for (mode, tells) in [("modern", 0), ("plain", 1)] {
        let web = Web::start(mode);
        let house = house();
        house.ready(web.spec("a")).await;
        let context = CallContext::default();
        let cancel = context.cancel.clone();
        let (name, arguments) = ("a".into(), raw("{}"));
        let calling = house.upstreams.call(&name, "hang", &arguments, &context);
        let cancelling = async {
            until("the call", || web.saw("POST tools/call") == 1).await;
            cancel.cancel();
        };
        let (called, ()) = tokio::join!(calling, cancelling);
        assert!(matches!(called, Err(CallError::Cancelled)), "{called:?}");
        until("the end of the response", || web.saw("closed") == 1).await;
        assert_eq!(web.saw("POST notifications/cancelled"), tells, "{mode}");
    }
}
