//! One client over lines: order, bad input, cancel, and the end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use evi_domain::{Exposure, ToolHost};
use evi_gateway::{GatewayError, serve_stream};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    host::{BIG, BOUND, Host},
    web::{call, initialize, modern, notification, request},
};

struct Talk {
    host: Arc<Host>,
    cancel: CancellationToken,
    serving: JoinHandle<Result<(), GatewayError>>,
    write: WriteHalf<DuplexStream>,
    read: Lines<BufReader<ReadHalf<DuplexStream>>>,
}

impl Talk {
    fn start() -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (host, cancel) = (Host::new(), CancellationToken::new());
        let (read, write) = tokio::io::split(theirs);
        let tool_host: Arc<dyn ToolHost> = host.clone();
        let serving = tokio::spawn(serve_stream(tool_host, Exposure::default(), read, write, cancel.clone()));
        let (read, write) = tokio::io::split(ours);
        Self { host, cancel, serving, write, read: BufReader::new(read).lines() }
    }

    async fn open() -> Self {
        let mut talk = Self::start();
        talk.say(&initialize("2025-06-18")).await;
        assert_eq!(talk.hear().await["result"]["protocolVersion"], "2025-06-18");
        talk.say(&notification("notifications/initialized", json!({}))).await;
        talk
    }

    async fn say(&mut self, message: &Value) {
        self.say_raw(&format!("{message}\n")).await;
    }

    async fn say_raw(&mut self, text: &str) {
        self.write.write_all(text.as_bytes()).await.unwrap();
    }

    async fn hear_raw(&mut self) -> Option<String> {
        tokio::time::timeout(BOUND, self.read.next_line()).await.expect("a line in time").unwrap()
    }

    async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.hear_raw().await.expect("a line")).unwrap()
    }

    async fn ended(self) -> Duration {
        let began = Instant::now();
        tokio::time::timeout(BOUND, self.serving).await.expect("in time").unwrap().unwrap();
        began.elapsed()
    }
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_the_session_goes_on() {
    let mut talk = Talk::open().await;
    talk.say_raw("{\"jsonrpc\n\n   \r\n").await;
    let answer = talk.hear().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32700)));
    talk.say_raw("[]\n").await;
    assert_eq!(talk.hear().await["error"]["code"], -32600);
    talk.say_raw("{\"jsonrpc\":\"2.0\",\"id\":5}\n").await;
    let answer = talk.hear().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(5), &json!(-32600)));
    talk.say(&request("x", "ping", json!({}))).await;
    assert_eq!(talk.hear().await, json!({"jsonrpc": "2.0", "id": "x", "result": {}}));
}

#[tokio::test]
async fn a_request_before_initialize_is_refused_but_a_ping_is_not() {
    let mut talk = Talk::start();
    talk.say(&request(1, "tools/list", json!({}))).await;
    assert_eq!(talk.hear().await["error"]["code"], -32600);
    talk.say(&request(2, "ping", json!({}))).await;
    assert_eq!(talk.hear().await["result"], json!({}));
    talk.say(&initialize("2025-06-18")).await;
    assert!(talk.hear().await["result"].is_object());
    talk.say(&initialize("2025-06-18")).await;
    assert_eq!(talk.hear().await["error"]["code"], -32600);
}

#[tokio::test]
async fn i36_the_version_that_the_client_asked_for_is_the_answer() {
    for (asked, given) in
        [("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2099-01-01", "2025-11-25")]
    {
        let mut talk = Talk::start();
        talk.say(&initialize(asked)).await;
        assert_eq!(talk.hear().await["result"]["protocolVersion"], given);
    }
}

#[tokio::test]
async fn i37_a_probe_in_the_modern_way_leaves_both_ways_open() {
    let mut talk = Talk::start();
    talk.say(&request(0, "server/discover", json!({}))).await;
    assert_eq!(talk.hear().await["error"]["code"], -32602);
    talk.say(&modern(1, "server/discover", json!({}))).await;
    assert_eq!(talk.hear().await["result"]["resultType"], "complete");
    talk.say(&modern(2, "tools/call", json!({"name": "up.echo"}))).await;
    assert_eq!(talk.hear().await["result"]["resultType"], "complete");
    let mut future = modern(3, "tools/list", json!({}));
    future["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    talk.say(&future).await;
    assert_eq!(talk.hear().await["error"]["code"], -32022);
    talk.say(&initialize("2025-06-18")).await;
    assert!(talk.hear().await["result"]["resultType"].is_null());
    talk.say(&call(4, "up.echo")).await;
    assert!(talk.hear().await["result"]["resultType"].is_null());
}

#[tokio::test]
async fn calls_run_side_by_side() {
    let mut talk = Talk::open().await;
    talk.say(&call(1, "slow")).await;
    talk.say(&call(2, "panics")).await;
    assert_eq!(talk.hear().await["error"]["code"], -32603);
    talk.say(&call(3, "up.echo")).await;
    assert_eq!(talk.hear().await["id"], 3);
}

#[tokio::test]
async fn a_cancelled_call_gets_no_answer() {
    let mut talk = Talk::open().await;
    for (id, tool) in [(json!(1), "slow"), (json!("1"), "slow"), (json!(2), "deaf")] {
        talk.say(&call(id, tool)).await;
    }
    talk.host.until(|s| s.started == 3).await;
    talk.say(&notification("notifications/cancelled", json!({"requestId": 1, "reason": "no"}))).await;
    talk.say(&notification("notifications/cancelled", json!({"requestId": 2}))).await;
    talk.host.until(|s| s.cancelled == 1 && s.ended == 2).await;
    talk.say(&request(3, "ping", json!({}))).await;
    assert_eq!(talk.hear().await["id"], 3);
}

#[tokio::test]
async fn too_many_calls_are_told_so() {
    let mut talk = Talk::open().await;
    for id in 0..65 {
        talk.say(&call(id, "slow")).await;
    }
    let answer = talk.hear().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(64), &json!(-32000)));
}

#[tokio::test]
async fn progress_comes_before_the_result() {
    let mut talk = Talk::open().await;
    talk.say(&request(1, "tools/call", json!({"name": "steps", "_meta": {"progressToken": "t"}}))).await;
    for step in [1.0, 2.0, 3.0, 4.0] {
        assert_eq!(talk.hear().await["params"]["progress"], step);
    }
    assert_eq!(talk.hear().await["id"], 1);
}

#[tokio::test]
async fn a_result_with_line_ends_stays_one_line_and_a_big_one_its_bytes() {
    let mut talk = Talk::open().await;
    talk.say(&call(1, "pretty")).await;
    assert_eq!(talk.hear().await["result"], json!({"content": [], "x": "a\nb"}));
    talk.say(&call(2, "big")).await;
    assert!(talk.hear_raw().await.unwrap() == format!(r#"{{"jsonrpc":"2.0","id":2,"result":{}}}"#, *BIG));
}

#[tokio::test]
async fn i38_changes_are_told_once_after_the_handshake() {
    let mut talk = Talk::open().await;
    talk.host.add_tool("new_a");
    talk.host.add_tool("new_b");
    assert_eq!(talk.hear().await, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    talk.host.tick();
    talk.host.change(|s| s.prompts.clear());
    assert_eq!(talk.hear().await["method"], "notifications/prompts/list_changed");
}

#[tokio::test]
async fn a_modern_listener_over_lines_is_ended_by_cancelling_it() {
    let mut talk = Talk::start();
    talk.say(&modern(9, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))).await;
    assert_eq!(talk.hear().await["method"], "notifications/subscriptions/acknowledged");
    talk.host.add_tool("new_a");
    assert_eq!(talk.hear().await["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 9);
    talk.say(&notification("notifications/cancelled", json!({"requestId": 9}))).await;
    talk.say(&modern(10, "tools/list", json!({}))).await;
    assert_eq!(talk.hear().await["id"], 10);
    talk.host.add_tool("new_b");
    talk.say(&modern(11, "tools/list", json!({}))).await;
    assert_eq!(talk.hear().await["id"], 11);
}

#[tokio::test]
async fn the_end_of_input_cancels_what_runs_and_ends_within_a_second() {
    let mut talk = Talk::open().await;
    talk.say(&call(1, "slow")).await;
    talk.say(&call(2, "deaf")).await;
    let host = Arc::clone(&talk.host);
    host.until(|s| s.started == 2).await;
    talk.write.shutdown().await.unwrap();
    assert!(talk.ended().await < Duration::from_secs(1));
    host.until(|s| s.cancelled == 1 && s.ended == 2).await;
}

#[tokio::test]
async fn what_was_asked_just_before_the_end_of_input_is_answered() {
    let mut talk = Talk::start();
    let last = format!("{}\n{}", initialize("2025-06-18"), request(1, "tools/list", json!({})));
    talk.say_raw(&last).await;
    talk.write.shutdown().await.unwrap();
    assert_eq!(talk.hear().await["id"], 0);
    assert_eq!(talk.hear().await["id"], 1);
    assert_eq!(talk.hear_raw().await, None);
    assert!(talk.ended().await < Duration::from_secs(1));
}

#[tokio::test]
async fn a_client_that_reads_nothing_does_not_keep_us() {
    let mut talk = Talk::open().await;
    talk.say(&call(0, "big")).await;
    talk.host.until(|s| s.ended == 1).await;
    // More than may wait and more than may run.
    for id in 1..200 {
        talk.say(&call(id, "up.echo")).await;
    }
    talk.host.until(|s| s.ended > 60).await;
    talk.cancel.cancel();
    assert!(talk.ended().await < Duration::from_secs(1));
}
