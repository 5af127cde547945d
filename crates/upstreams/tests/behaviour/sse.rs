//! Servers behind the older HTTP+SSE.

use std::time::Duration;

use evi_domain::{CallContext, CallError, ToolResult, UpstreamState};
use evi_upstreams::Settings;
use tokio::sync::mpsc;

use crate::support::{House, Web, details, house, house_with, http_spec, raw, until};

async fn call(house: &House, tool: &str, arguments: &str) -> Result<ToolResult, CallError> {
    house.upstreams.call(&"a".into(), tool, &raw(arguments), &CallContext::default()).await
}

#[tokio::test]
async fn an_older_server_is_reached_with_its_headers_on_every_request() {
    for mode in ["plain", "lines", "late"] {
        let web = Web::start_sse(mode);
        let house = house();
        let status = house.ready(web.sse_spec("a")).await;
        assert_eq!(
            details(&status)[1..],
            ["Started Done reached", "Handshake Done protocol 2024-11-05", "Discovery Done 5 tools"]
        );
        assert_eq!(call(&house, "echo", r#"{"f": 1.0}"#).await.unwrap().to_model_text(), r#"{"f": 1.0}"#);
        assert_eq!(call(&house, "junk", "{}").await.unwrap().to_model_text(), "{}");
        assert!(house.log("a").contains("an event that is no message was skipped"));
        until("all requests", || web.requests.lock().unwrap().len() >= 6).await;
        let requests = web.requests.lock().unwrap().clone();
        assert!(requests.iter().all(|line| line.ends_with(" key")), "{requests:?}");
        assert!(!requests.iter().any(|line| line.contains("server/discover")), "{requests:?}");
    }
}

#[tokio::test]
async fn an_address_of_the_older_kind_is_found_behind_the_newer_transport() {
    let web = Web::start_sse("plain");
    let house = house();
    let status = house.ready(http_spec("a", &format!("http://127.0.0.1:{}/sse", web.port))).await;
    assert_eq!(status.protocol.as_deref(), Some("2024-11-05"));
    assert!(web.saw("POST server/discover") >= 1 && web.saw("POST initialize") >= 2);
    assert!(house.log("a").contains("older HTTP+SSE"));
    call(&house, "echo", "{}").await.unwrap();
    // Nothing of the kind elsewhere: the first answer counts.
    let nothing = house.run(http_spec("b", &format!("http://127.0.0.1:{}/mcp", web.port))).await;
    assert_eq!(nothing.failure.unwrap().code, "not_found");
}

#[tokio::test]
async fn progress_cancel_and_the_time_limit_work_over_an_event_stream() {
    let web = Web::start_sse("plain");
    let house = house_with(Settings { call_limit: Duration::from_secs(1), ..Settings::default() });
    house.ready(web.sse_spec("a")).await;
    let (send, mut receive) = mpsc::channel(200);
    let context = CallContext { progress: Some(send), ..CallContext::default() };
    let long = raw(r#"{"steps": 80}"#);
    house.upstreams.call(&"a".into(), "slow", &long, &context).await.unwrap();
    drop(context);
    let mut steps = Vec::new();
    while let Some(step) = receive.recv().await {
        steps.push(step.progress);
    }
    assert_eq!(steps, (1..=80).map(f64::from).collect::<Vec<_>>());

    let (send, mut receive) = mpsc::channel(200);
    let context = CallContext { progress: Some(send), ..CallContext::default() };
    let cancel = context.cancel.clone();
    let endless = raw(r#"{"steps": 100000}"#);
    let name = "a".into();
    let (result, ()) = tokio::join!(house.upstreams.call(&name, "slow", &endless, &context), async {
        receive.recv().await.unwrap();
        cancel.cancel();
    });
    assert!(matches!(result, Err(CallError::Cancelled)), "{result:?}");
    until("the server stops", || web.saw("cancelled") == 1).await;
}

#[tokio::test]
async fn a_stream_that_ends_fails_its_calls_at_once_and_a_new_session_follows() {
    let web = Web::start_sse("plain");
    let house = house();
    house.ready(web.sse_spec("a")).await;
    let error = call(&house, "drop", "{}").await.unwrap_err();
    assert_eq!(error.code(), "unavailable", "{error:?}");
    assert_eq!(web.saw("POST tools/call"), 1);
    until("a new stream", || web.saw("GET /sse") == 2).await;
    house.wait("a", |s| s.state == UpstreamState::Ready).await;
    call(&house, "echo", "{}").await.unwrap();
}

#[tokio::test]
async fn i23_a_forgotten_stream_session_is_opened_again_and_no_call_is_sent_twice() {
    let web = Web::start_sse("plain");
    let house = house();
    house.ready(web.sse_spec("a")).await;
    call(&house, "forget", "{}").await.unwrap();
    let error = call(&house, "echo", "{}").await.unwrap_err();
    assert!(error.to_string().contains("call again"), "{error}");
    until("a new stream", || web.saw("GET /sse") == 2).await;
    house.wait("a", |s| s.state == UpstreamState::Ready).await;
    assert_eq!(web.saw("POST tools/call"), 2);
    call(&house, "echo", "{}").await.unwrap();
}

#[tokio::test]
async fn what_is_no_event_stream_is_named_and_a_foreign_endpoint_gets_nothing() {
    let house = house();
    for (mode, code) in [("401", "unauthorized"), ("404", "not_found"), ("html", "not_mcp")] {
        let web = Web::start_sse(mode);
        let failure = house.run(web.sse_spec("a")).await.failure.unwrap();
        assert_eq!(failure.code, code, "{failure:?}");
        assert!(failure.hint.is_some() && !failure.message.contains("secret stuff"), "{failure:?}");
    }
    let web = Web::start_sse("foreign");
    let failure = house.run(web.sse_spec("b")).await.failure.unwrap();
    assert_eq!(failure.code, "foreign_endpoint");
    assert!(failure.message.contains("http://localhost:1"), "{}", failure.message);
    let short = house_with(Settings { start_limit: Duration::from_secs(1), ..Settings::default() });
    let web = Web::start_sse("mute");
    assert_eq!(short.run(web.sse_spec("c")).await.failure.unwrap().code, "start_timeout");
}
