//! A bridge with backends that fail in every way, in memory and with time that is only told to pass.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use evi_attach::{AttachError, Backend, bridge};
use serde_json::{Value, json};
use tokio::{io::DuplexStream, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::support::{Client, Seen, serve_mcp};

/// What `connect` gives, one after the other; then nothing.
type Backends = VecDeque<Result<DuplexStream, &'static str>>;

fn start(backends: Backends) -> (Client<DuplexStream>, JoinHandle<Result<(), AttachError>>) {
    let (ours, theirs) = tokio::io::duplex(1024);
    let (read, write) = tokio::io::split(theirs);
    let backends = Arc::new(Mutex::new(backends));
    let connect = move || {
        let next = backends.lock().unwrap().pop_front();
        async move { next.unwrap_or(Err("nobody")).map(|stream| Box::new(stream) as Backend) }
    };
    (Client::new(ours), tokio::spawn(bridge(read, write, connect, CancellationToken::new())))
}

/// A backend that the test plays itself.
fn by_hand() -> (DuplexStream, Client<DuplexStream>) {
    let (theirs, ours) = tokio::io::duplex(1024);
    (theirs, Client::new(ours))
}

fn gateway(name: &'static str) -> (DuplexStream, Seen) {
    let (theirs, ours) = tokio::io::duplex(1024);
    let seen = Seen::default();
    let noted = seen.clone();
    tokio::spawn(async move { serve_mcp(ours, name, noted, |_| {}).await });
    (theirs, seen)
}

async fn answer_initialize(backend: &mut Client<DuplexStream>) {
    let initialize = backend.hears().await;
    assert_eq!(initialize["method"], "initialize");
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
    backend.say(&json!({"jsonrpc": "2.0", "id": initialize["id"], "result": result})).await;
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_a_backend_and_keep_their_order() {
    let (stream, seen) = gateway("late");
    let (mut client, _running) = start([Err("not yet"), Err("not yet"), Ok(stream)].into());
    for id in 1..=3 {
        client.request(id, "tools/call", json!({})).await;
    }
    for id in 1..=3 {
        assert_eq!(client.hears().await["id"], id);
    }
    assert_eq!(seen.all().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_nobody_serves_fails_and_then_the_bridge_gives_up() {
    let (mut client, running) = start(Backends::new());
    client.request(1, "ping", json!({})).await;
    let failed = client.hears().await;
    assert_eq!((failed["id"].as_u64(), failed["error"]["code"].as_i64()), (Some(1), Some(-32000)));
    let gave_up = running.await.unwrap();
    assert!(
        matches!(gave_up, Err(AttachError::NoBackend { ref reason, .. }) if reason == "nobody"),
        "{gave_up:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_initialize_without_an_answer_goes_to_the_next_backend() {
    let (first, mut played) = by_hand();
    let (second, seen) = gateway("second");
    let (mut client, _running) = start([Ok(first), Ok(second)].into());
    client.request(1, "initialize", json!({})).await;
    assert_eq!(played.hears().await["method"], "initialize");
    drop(played);
    let answer = client.hears().await;
    assert_eq!(
        (answer["id"].as_u64(), answer["result"]["serverInfo"]["name"].as_str()),
        (Some(1), Some("second"))
    );
    assert_eq!(seen.methods(), ["initialize"]);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_refuses_the_handshake_is_passed_over() {
    let (first, mut played) = by_hand();
    let (second, mut refusing) = by_hand();
    let (third, seen) = gateway("third");
    let (mut client, _running) = start([Ok(first), Ok(second), Ok(third)].into());
    client.request(1, "initialize", json!({})).await;
    answer_initialize(&mut played).await;
    client.hears().await;
    drop(played);
    let replay = refusing.hears().await;
    refusing
        .say(&json!({"jsonrpc": "2.0", "id": replay["id"], "error": {"code": -1, "message": "no"}}))
        .await;
    client.request(2, "ping", json!({})).await;
    assert_eq!(client.hears().await["result"]["by"], "third");
    // It never said `initialized`, so there is nothing to list again.
    assert_eq!(seen.methods(), ["initialize", "ping"]);
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_is_replayed_nothing() {
    let (first, mut played) = by_hand();
    let (second, seen) = gateway("second");
    let (mut client, _running) = start([Ok(first), Ok(second)].into());
    client.request(1, "server/discover", json!({})).await;
    played.hears().await;
    drop(played);
    assert_eq!(client.hears().await["error"]["message"], "the owner ended");
    client.request(2, "tools/list", json!({})).await;
    assert_eq!(client.hears().await["result"]["by"], "second");
    assert_eq!(seen.methods(), ["tools/list"]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_for_a_former_backend_does_not_reach_the_next() {
    let (first, mut a) = by_hand();
    let (second, mut b) = by_hand();
    let (mut client, _running) = start([Ok(first), Ok(second)].into());
    client.request(1, "initialize", json!({})).await;
    answer_initialize(&mut a).await;
    client.hears().await;
    let asks =
        |what: &str| json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list", "params": {"by": what}});
    a.say(&asks("a")).await;
    assert_eq!(client.hears().await["params"]["by"], "a");
    drop(a);

    // The client is told that nobody waits for its answer any more.
    let cancelled = client.hears().await;
    assert_eq!(cancelled["method"], "notifications/cancelled");
    assert_eq!(cancelled["params"]["requestId"], 1);
    answer_initialize(&mut b).await;
    b.say(&asks("b")).await;
    let asked = client.hears().await;
    assert_eq!(asked["params"]["by"], "b");
    assert_ne!(asked["id"], 1);
    let answers = |id: &Value, roots: &str| json!({"jsonrpc": "2.0", "id": id, "result": {"roots": roots}});
    client.say(&answers(&json!(1), "for a")).await;
    client.say(&answers(&asked["id"], "for b")).await;
    let got = b.hears().await;
    assert_eq!((got["id"].as_u64(), got["result"]["roots"].as_str()), (Some(1), Some("for b")));
}

#[tokio::test(start_paused = true)]
async fn answers_under_way_still_arrive_when_the_client_ended_its_side() {
    let (stream, _seen) = gateway("only");
    let (mut client, running) = start([Err("not yet"), Ok(stream)].into());
    client.request(1, "ping", json!({})).await;
    client.request(2, "ping", json!({})).await;
    client.end().await;
    assert_eq!(client.hears().await["id"], 1);
    assert_eq!(client.hears().await["id"], 2);
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_not_failed_afterwards() {
    let (first, mut played) = by_hand();
    let (mut client, _running) = start([Ok(first)].into());
    client.request(1, "tools/call", json!({})).await;
    client.request(2, "tools/call", json!({})).await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    client.say(&cancel).await;
    for _ in 0..3 {
        played.hears().await;
    }
    drop(played);
    assert_eq!(client.hears().await["id"], 2);
}
