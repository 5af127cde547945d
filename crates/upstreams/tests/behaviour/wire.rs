//! What a server may do to the connection: answers in any order, twice, too long, half, or never. Each call has its
//! own end, and the next one works.

use std::time::{Duration, Instant};

use evi_domain::{CallContext, CallError, ToolResult};
use evi_upstreams::Settings;
use tokio::sync::mpsc;

use crate::support::{House, house, house_with, raw, server, until};

async fn call(house: &House, tool: &str, arguments: &str) -> Result<ToolResult, CallError> {
    house.upstreams.call(&"a".into(), tool, &raw(arguments), &CallContext::default()).await
}

async fn still_works(house: &House) {
    assert_eq!(call(house, "echo", r#"{"n": 1}"#).await.unwrap().to_model_text(), r#"{"n": 1}"#);
}

#[tokio::test]
async fn answers_in_any_order_reach_the_calls_that_they_are_for() {
    let house = house();
    house.ready(server("a", &["plain"])).await;
    let hold = || call(&house, "hold", r#"{"until": 3}"#);
    let (a, b, c) = tokio::join!(hold(), hold(), hold());
    let mut texts = [a, b, c].map(|result| result.unwrap().to_model_text());
    assert!(texts[0] == "held 0" || texts[2] == "held 2", "the first to be held is answered last: {texts:?}");
    texts.sort();
    assert_eq!(texts, ["held 0", "held 1", "held 2"]);
}

#[tokio::test]
async fn answers_that_nobody_asked_for_or_that_come_twice_are_nobodys() {
    let house = house();
    house.ready(server("a", &["plain"])).await;
    for _ in 0..3 {
        assert_eq!(call(&house, "unasked", "{}").await.unwrap().to_model_text(), "once");
        still_works(&house).await;
    }
}

#[tokio::test]
async fn i34_bytes_that_are_no_text_and_lines_that_are_no_message_are_skipped() {
    let house = house();
    house.ready(server("a", &["plain"])).await;
    assert_eq!(call(&house, "binary", "{}").await.unwrap().to_model_text(), "ok");
    still_works(&house).await;
    assert!(house.log("a").contains("Stdout [1, 2"), "{}", house.log("a"));
    assert!(!house.log("a").contains('\u{1b}'), "a log line steers no terminal: {:?}", house.log("a"));
}

#[tokio::test]
async fn a_line_that_is_too_long_is_an_error_for_its_call_and_the_session_goes_on() {
    let house = house();
    house.ready(server("a", &["plain"])).await;
    for place in ["first", "last"] {
        let error = call(&house, "huge", &format!(r#"{{"id": "{place}"}}"#)).await.unwrap_err();
        assert!(error.to_string().contains("longer than 64 MiB"), "{place}: {error}");
        still_works(&house).await;
    }
    let after = call(&house, "huge", r#"{"id": "none"}"#).await.unwrap();
    assert_eq!(after.to_model_text(), "after the line");
    assert!(house.log("a").contains("a message longer than 64 MiB was skipped"), "{}", house.log("a"));
}

#[tokio::test]
async fn progress_never_falls_is_never_anothers_and_is_over_with_the_answer() {
    let house = house();
    house.ready(server("a", &["plain"])).await;
    let (send, mut receive) = mpsc::channel(100);
    let context = CallContext { progress: Some(send), ..CallContext::default() };
    house.upstreams.call(&"a".into(), "told_late", &raw("{}"), &context).await.unwrap();
    let mut steps = Vec::new();
    while let Ok(step) = receive.try_recv() {
        steps.push(step.progress);
    }
    // The last one is told after the answer: it may have come in before the answer went on.
    assert!(steps == [5.0, 7.0] || steps == [5.0, 7.0, 8.0], "{steps:?}");
    still_works(&house).await;
    assert!(receive.try_recv().is_err(), "nothing comes for a call that is over");
}

#[tokio::test]
async fn a_call_without_an_answer_ends_at_its_limit_and_one_that_is_no_answer_at_once() {
    let house = house_with(Settings { call_limit: Duration::from_secs(1), ..Settings::default() });
    house.ready(server("a", &["plain"])).await;
    let error = call(&house, "never", "{}").await.unwrap_err();
    assert_eq!(error.code(), "timed_out", "{error:?}");
    for fields in
        [r#"{"error": "boom"}"#, r#"{"result": "text"}"#, r#"{"result": null}"#, r#"{"result": [1]}"#, "{}"]
    {
        let begun = Instant::now();
        let error = call(&house, "broken", fields).await.unwrap_err();
        assert_eq!(error.code(), "rpc", "{fields}: {error:?}");
        assert!(begun.elapsed() < Duration::from_millis(900), "{fields}: it waited for its limit");
    }
    assert_eq!(call(&house, "as_text", "{}").await.unwrap().to_model_text(), "as text");
    still_works(&house).await;
}

#[tokio::test]
async fn a_server_that_ends_within_a_message_fails_its_call_and_comes_back() {
    let house = house();
    let first = house.ready(server("a", &["plain"])).await.pid;
    let error = call(&house, "half", "{}").await.unwrap_err();
    assert_eq!(error.code(), "unavailable", "{error:?}");
    house.wait("a", |s| s.pid.is_some() && s.pid != first && s.tools == 4).await;
    still_works(&house).await;
}

#[tokio::test]
async fn a_server_is_answered_when_it_asks_and_refused_what_was_never_offered() {
    let house = house();
    house.ready(server("a", &["plain"])).await;
    let said = call(&house, "asks", "{}").await.unwrap().to_model_text();
    assert_eq!(said, r#"[["q0", "result"], ["q1", "error"], ["q2", "error"], ["q3", "error"]]"#);
}

#[tokio::test]
async fn i54_each_shape_of_a_result_comes_back_whole() {
    let house = house();
    house.ready(server("a", &["plain"])).await;
    for result in [
        r#"{"content": [{"type": "text", "text": "only text"}]}"#,
        r#"{"content": [], "structuredContent": {"rows": [1, 2.5, null]}}"#,
        r#"{"content": [{"type": "text", "text": "{\"n\": 1}"}], "structuredContent": {"n": 1}}"#,
        r#"{"content": [{"type": "text", "text": "a summary"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}], "structuredContent": [{"rich": true}], "isError": false, "x-own": {"a": 1}}"#,
    ] {
        let got = call(&house, "given", &format!(r#"{{"result": {result}}}"#)).await.unwrap();
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(json(got.raw().get()), json(result));
    }
    let only =
        call(&house, "given", r#"{"result": {"content": [], "structuredContent": {"rows": [1]}}}"#).await;
    assert!(only.unwrap().to_model_text().contains("rows"), "structured content that is all there is");
}

#[tokio::test]
async fn a_thousand_lines_of_stderr_a_second_do_not_slow_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_with(Settings { log_dir: Some(folder.path().to_owned()), ..Settings::default() });
    house.ready(server("a", &["plain"])).await;
    let hundred = async || {
        let begun = Instant::now();
        for _ in 0..100 {
            call(&house, "echo", "{}").await.unwrap();
        }
        begun.elapsed()
    };
    let quiet = hundred().await;
    call(&house, "flood", r#"{"lines": 2000}"#).await.unwrap();
    until("the flood", || house.log("a").contains("a line of the flood")).await;
    let loud = hundred().await;
    // Five milliseconds a call is far more than it takes, on a machine that is busy with other tests, too.
    assert!(loud < quiet + Duration::from_millis(500), "{quiet:?} without, {loud:?} with");
    assert!(house.upstreams.log(&"a".into()).len() <= 2000, "the ring is bounded");
}
