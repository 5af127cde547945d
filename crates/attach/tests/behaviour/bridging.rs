//! A client keeps its session while owners come and go: real owners, real sockets, and a killed process.

use std::{sync::Arc, time::Duration};

use evi_attach::{AttachError, Backend, Entry, Hello, Kind, Owner, Place, Rank, bridge};
use evi_domain::Exposure;
use serde_json::json;
use tokio::{
    io::DuplexStream,
    sync::Notify,
    task::{JoinHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;

use crate::support::{Client, Peer, Seen, own, serve_mcp, soon};

fn hello() -> Hello {
    Hello::new(Kind::Mcp, Rank::Serve, Exposure::default())
}

/// Serves until told to end; then gives the home free.
fn serve(
    mut owner: Owner,
    name: &'static str,
    seen: Seen,
    called: Arc<Notify>,
    end: CancellationToken,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut serving = JoinSet::new();
        loop {
            tokio::select! {
                incoming = owner.accept() => {
                    let (seen, called) = (seen.clone(), called.clone());
                    serving.spawn(async move {
                        serve_mcp(incoming.stream, name, seen, |_| called.notify_one()).await;
                    });
                }
                () = end.cancelled() => break,
            }
        }
        serving.shutdown().await;
        owner.release().await;
    })
}

fn start_bridge(place: Place) -> (Client<DuplexStream>, JoinHandle<Result<(), AttachError>>) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (read, write) = tokio::io::split(theirs);
    let connect = move || {
        let place = place.clone();
        async move {
            match place.enter(hello(), Duration::from_secs(10)).await? {
                Entry::Attached(connection) => Ok::<Backend, AttachError>(Box::new(connection)),
                Entry::Owner(owner) => {
                    let (ours, theirs) = tokio::io::duplex(64 * 1024);
                    tokio::spawn(async move {
                        serve_mcp(theirs, "bridge", Seen::default(), |_| {}).await;
                        owner.release().await;
                    });
                    Ok(Box::new(ours) as Backend)
                }
            }
        }
    };
    let running = tokio::spawn(bridge(read, write, connect, CancellationToken::new()));
    (Client::new(ours), running)
}

#[tokio::test]
async fn a_session_survives_a_change_of_owner() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    let (seen_a, seen_b) = (Seen::default(), Seen::default());
    let (called, end_a) = (Arc::new(Notify::new()), CancellationToken::new());
    let a = own(&place, Rank::Serve).await;
    let handover = a.handover();
    let a = serve(a, "a", seen_a.clone(), called.clone(), handover);

    let (mut client, running) = start_bridge(place.clone());
    client.shake_hands().await;
    client.request(2, "logging/setLevel", json!({"level": "info"})).await;
    assert_eq!(client.hears().await["result"]["by"], "a");
    client.request(3, "tools/call", json!({"name": "hang"})).await;
    soon(called.notified()).await;

    let b = own(&place, Rank::Desktop).await;
    soon(a).await.unwrap();
    let b = serve(b, "b", seen_b.clone(), called, end_a.clone());

    let ended = client.hears().await;
    assert_eq!((ended["id"].as_u64(), ended["error"]["code"].as_i64()), (Some(3), Some(-32000)));
    assert_eq!(ended["error"]["message"], "the owner ended");
    assert_eq!(client.hears().await["method"], "notifications/tools/list_changed");
    assert_eq!(client.hears().await["method"], "notifications/prompts/list_changed");
    client.request(4, "tools/call", json!({"name": "add"})).await;
    let next = client.hears().await;
    assert_eq!((next["id"].as_u64(), next["result"]["by"].as_str()), (Some(4), Some("b")));
    assert_eq!(seen_a.methods()[0], "initialize");
    assert_eq!(
        seen_b.methods(),
        ["initialize", "notifications/initialized", "logging/setLevel", "tools/call"]
    );

    client.end().await;
    soon(running).await.unwrap().unwrap();
    end_a.cancel();
    soon(b).await.unwrap();
}

#[tokio::test]
async fn a_bridge_takes_the_home_itself_when_the_owner_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    let mut peer = Peer::start(folder.path(), Rank::Desktop);
    assert_eq!(peer.says().await, "owner");
    let (mut client, running) = start_bridge(place.clone());
    client.shake_hands().await;
    client.request(2, "tools/call", json!({"name": "hang"})).await;
    assert_eq!(peer.says().await, "hang");
    peer.process.kill().await.unwrap();
    assert_eq!(client.hears().await["error"]["message"], "the owner ended");
    client.request(3, "tools/call", json!({"name": "add"})).await;
    loop {
        let heard = client.hears().await;
        if heard["id"] == 3 {
            assert_eq!(heard["result"]["by"], "bridge");
            break;
        }
    }
    assert_eq!(place.present().unwrap().pid, std::process::id());
    client.end().await;
    soon(running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_large_result_passes_unchanged_through_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    let mut owner = own(&place, Rank::Serve).await;
    let serving = tokio::spawn(async move {
        let incoming = owner.accept().await;
        let (read, mut write) = tokio::io::split(incoming.stream);
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(read));
        while let Ok(Some(line)) = lines.next_line().await {
            // The arguments come back, whatever they are.
            let line = line.replace("\"method\":\"tools/call\",\"params\"", "\"result\"");
            tokio::io::AsyncWriteExt::write_all(&mut write, format!("{line}\n").as_bytes()).await.unwrap();
        }
    });
    let (mut client, running) = start_bridge(place);
    let text = "é\u{2028}".repeat(2_000_000);
    client.request(1, "tools/call", json!({"text": text})).await;
    assert_eq!(client.hears().await["result"]["text"], *text);
    client.end().await;
    soon(running).await.unwrap().unwrap();
    soon(serving).await.unwrap();
}
