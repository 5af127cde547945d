//! What happens to a call on its way there and back.

use std::{sync::Arc, time::Duration};

use evi_domain::{CallContext, CallError, ToolResult, UpstreamState};
use evi_upstreams::Settings;
use tokio::sync::mpsc;

use crate::support::{House, LONG, alive, house, house_with, raw, server, until, with_env};

async fn call(house: &House, tool: &str, arguments: &str) -> Result<ToolResult, CallError> {
    house.upstreams.call(&"a".into(), tool, &raw(arguments), &CallContext::default()).await
}

#[tokio::test]
async fn i51_arguments_arrive_with_their_types_and_results_come_back_as_they_are() {
    let house = house();
    house.ready(server("a", &["plain"])).await;
    let result = call(&house, "echo", "{\n\"i\": 8, \"f\": 1.0, \"n\": null, \"o\": {\"a\": [1]}, \"s\": \"8\", \"big\": 12345678901234567890123}").await.unwrap();
    assert_eq!(
        result.to_model_text(),
        r#"{"i": 8, "f": 1.0, "n": null, "o": {"a": [1]}, "s": "8", "big": 12345678901234567890123}"#
    );
    assert!(result.raw().get().contains(r#""x-own": 1.0"#), "{}", result.raw());
    assert!(result.raw().get().contains(r#""meta": ["progressToken"]"#), "{}", result.raw());
    let wrong = call(&house, "echo", "[1]").await.unwrap_err();
    assert_eq!(wrong.code(), "invalid_arguments");
}

#[tokio::test]
async fn a_modern_server_gets_its_metadata_with_every_call() {
    let house = house();
    house.ready(server("a", &["modern"])).await;
    let result = call(&house, "echo", r#"{"a": 1}"#).await.unwrap();
    assert!(result.raw().get().contains("io.modelcontextprotocol/protocolVersion"), "{}", result.raw());
    assert_eq!(result.to_model_text(), r#"{"a": 1}"#);
}

#[tokio::test]
async fn the_servers_own_error_is_passed_on() {
    let house = house();
    house.ready(with_env(server("a", &["many"]), "TOKEN", "abc-secret-xyz")).await;
    let error = call(&house, "leak", "{}").await.unwrap_err();
    let CallError::Rpc { code, message, data } = error else { panic!("{error:?}") };
    assert_eq!((code, message.as_str()), (-32602, "no"));
    assert_eq!(data.unwrap()["why"][0], 1);
    // The value that a server prints is not in its log.
    until("the line", || house.log("a").contains("my token is")).await;
    assert!(house.log("a").contains("my token is [secret]"), "{}", house.log("a"));
}

#[tokio::test]
async fn i34_a_stray_line_in_the_middle_of_a_session_is_skipped() {
    let house = house();
    house.ready(server("a", &["many"])).await;
    assert_eq!(call(&house, "stray", "{}").await.unwrap().to_model_text(), "ok");
    assert!(house.log("a").contains("Stdout a stray line"));
    let big = call(&house, "big", r#"{"size": 20000000}"#).await.unwrap();
    assert!(big.raw().get().len() > 20_000_000);
}

#[tokio::test]
async fn a_secret_reaches_the_environment_of_its_server() {
    let house = house();
    house.vault.0.lock().unwrap().insert("k".into(), Ok("from the vault".into()));
    house.ready(with_env(server("a", &["many"]), "KEY", "${secret:k}")).await;
    let env = async |name: &str| {
        call(&house, "env", &format!(r#"{{"name": "{name}"}}"#)).await.unwrap().to_model_text()
    };
    assert_eq!(env("KEY").await, "from the vault");
    assert!(env("PATH").await.contains("/usr/bin"));
}

#[tokio::test]
async fn progress_comes_in_order_and_before_the_result() {
    let house = house();
    house.ready(server("a", &["plain"])).await;
    let (send, mut receive) = mpsc::channel(200);
    let context = CallContext { progress: Some(send), ..CallContext::default() };
    let arguments = raw(r#"{"steps": 50, "pause": 0.001, "progress": true}"#);
    house.upstreams.call(&"a".into(), "slow", &arguments, &context).await.unwrap();
    drop(context);
    let mut steps = Vec::new();
    while let Some(step) = receive.recv().await {
        assert_eq!((step.total, step.message.as_deref()), (Some(100.5), Some("m")));
        steps.push(step.progress);
    }
    assert_eq!(steps, (1..=50).map(f64::from).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_call_ends_at_its_limit_and_progress_puts_the_limit_off() {
    let house = house_with(Settings { call_limit: Duration::from_millis(1500), ..Settings::default() });
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    house.ready(server("a", &["plain", notes.to_str().unwrap()])).await;
    let moving = r#"{"steps": 12, "pause": 0.2, "progress": true}"#;
    assert_eq!(call(&house, "slow", moving).await.unwrap().to_model_text(), "done");
    let error = call(&house, "slow", r#"{"steps": 200, "pause": 0.1}"#).await.unwrap_err();
    assert!(
        matches!(error, CallError::TimedOut { after, .. } if after == Duration::from_millis(1500)),
        "{error:?}"
    );
    until("the server is told", || std::fs::read_to_string(&notes).unwrap_or_default().contains("cancelled"))
        .await;
}

#[tokio::test]
async fn a_cancelled_call_and_a_dropped_one_are_cancelled_at_the_server() {
    let house = Arc::new(house());
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let noted = || std::fs::read_to_string(&notes).unwrap_or_default().lines().count();
    house.ready(server("a", &["plain", notes.to_str().unwrap()])).await;
    let (send, mut progress) = mpsc::channel(200);
    let context = CallContext { progress: Some(send), ..CallContext::default() };
    let cancel = context.cancel.clone();
    let arguments = raw(r#"{"steps": 1000, "pause": 0.02, "progress": true}"#);
    let running = {
        let (house, arguments) = (house.clone(), arguments.clone());
        tokio::spawn(async move { house.upstreams.call(&"a".into(), "slow", &arguments, &context).await })
    };
    progress.recv().await.unwrap();
    cancel.cancel();
    assert!(matches!(running.await.unwrap(), Err(CallError::Cancelled)));
    until("the cancel arrives", || noted() == 1).await;

    let (send, mut progress) = mpsc::channel(200);
    let context = CallContext { progress: Some(send), ..CallContext::default() };
    let running = {
        let house = house.clone();
        tokio::spawn(async move { house.upstreams.call(&"a".into(), "slow", &arguments, &context).await })
    };
    progress.recv().await.unwrap();
    running.abort();
    until("the second cancel arrives", || noted() == 2).await;
}

#[tokio::test]
async fn a_crash_in_a_call_fails_it_at_once_and_the_server_comes_back() {
    let house = house();
    let first = house.ready(server("a", &["plain"])).await.pid.unwrap();
    let begun = std::time::Instant::now();
    let error = call(&house, "crash", "{}").await.unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(10));
    let CallError::Unavailable { reason, .. } = error else { panic!("{error:?}") };
    assert!(reason.contains("code 7"), "{reason}");
    let again = house.wait("a", |s| s.state == UpstreamState::Ready && s.pid != Some(first)).await;
    assert_ne!(again.pid, Some(first));
    let log = house.log("a");
    assert!(log.contains("Stderr boom") && log.contains("stopped: it exited with code 7"), "{log}");
    assert!(!alive(first));
    assert!(call(&house, "echo", "{}").await.is_ok());
}

#[tokio::test]
async fn i38_changed_tools_are_listed_again() {
    let house = house();
    house.ready(server("a", &["plain"])).await;
    let mut changed = house.upstreams.catalog_changed();
    changed.mark_unchanged();
    call(&house, "grow", "{}").await.unwrap();
    tokio::time::timeout(LONG, changed.changed()).await.unwrap().unwrap();
    assert!(house.tools("a").contains(&"late".to_owned()));
    house.wait("a", |s| s.tools == 5).await;
}

#[tokio::test]
async fn a_call_to_what_is_not_there_says_why() {
    let house = house();
    let error = call(&house, "echo", "{}").await.unwrap_err();
    assert_eq!(error.to_string(), "a is not available: it is not running");
    house.run(server("a", &["exit"])).await;
    let error = call(&house, "echo", "{}").await.unwrap_err();
    assert!(error.to_string().contains("code 2"), "{error}");
}
