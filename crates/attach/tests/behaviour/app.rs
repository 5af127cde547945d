//! The application's commands and events through a real socket.

use std::sync::Arc;

use evi_attach::{AppCallError, AppClient, AttachError, Hello, Kind, Place, Rank, events_of, serve_app};
use evi_domain::{BoxFuture, Exposure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use crate::support::{own, soon};

struct Told(Arc<Notify>);
impl Drop for Told {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

struct Fixture {
    client: AppClient,
    events: broadcast::Sender<Value>,
    started: Arc<Notify>,
    dropped: Arc<Notify>,
    cancel: CancellationToken,
    _folder: TempDir,
}

async fn attached() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path());
    let mut owner = own(&place, Rank::Desktop).await;
    let (events, receiver) = broadcast::channel(16);
    let (started, dropped) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let cancel = CancellationToken::new();
    let (start, drop) = (started.clone(), dropped.clone());
    let call = move |command: String, params: Value| -> BoxFuture<'static, Result<Value, Value>> {
        let (start, told) = (start.clone(), Told(drop.clone()));
        Box::pin(async move {
            match command.as_str() {
                "echo" => Ok(params),
                "panic" => panic!("on purpose"),
                "wait" => {
                    let _told = told;
                    start.notify_one();
                    std::future::pending().await
                }
                _ => Err(json!({"code": "unknown_command", "message": command})),
            }
        })
    };
    let until = cancel.clone();
    tokio::spawn(async move {
        let incoming = owner.accept().await;
        assert_eq!(incoming.hello.kind, Kind::App);
        serve_app(incoming.stream, call, events_of(receiver), until).await;
    });
    let hello = Hello::new(Kind::App, Rank::Command, Exposure::default());
    let client = AppClient::new(place.connect(hello).await.unwrap());
    Fixture { client, events, started, dropped, cancel, _folder: folder }
}

#[tokio::test]
async fn a_command_has_its_result_or_its_problem_and_events_arrive() {
    let app = attached().await;
    let mut events = app.client.events();
    let big = json!({"text": "y".repeat(3_000_000)});
    let (first, second) =
        tokio::join!(app.client.call("echo", big.clone()), app.client.call("echo", Value::Null));
    assert_eq!(first.unwrap(), big);
    assert_eq!(second.unwrap(), Value::Null);

    let problem = soon(app.client.call("nonsense", json!({}))).await;
    assert!(matches!(problem, Err(AppCallError::Problem(problem)) if problem["code"] == "unknown_command"));

    app.events.send(json!({"type": "catalog_changed"})).unwrap();
    assert_eq!(soon(events.recv()).await.unwrap(), json!({"type": "catalog_changed"}));
}

#[tokio::test]
async fn a_command_that_panics_ends_alone() {
    let app = attached().await;
    let problem = soon(app.client.call("panic", json!({}))).await;
    assert!(matches!(problem, Err(AppCallError::Problem(problem)) if problem["code"] == "internal"));
    assert_eq!(soon(app.client.call("echo", json!(1))).await.unwrap(), json!(1));
}

#[tokio::test]
async fn a_call_that_is_dropped_is_dropped_at_the_owner_too() {
    let app = attached().await;
    // What the commands that were not `wait` leave behind comes first.
    tokio::select! {
        answer = app.client.call("wait", json!({})) => panic!("{answer:?}"),
        () = app.started.notified() => {}
    }
    soon(app.dropped.notified()).await;
    assert_eq!(soon(app.client.call("echo", json!(2))).await.unwrap(), json!(2));
}

#[tokio::test]
async fn a_call_under_way_fails_when_the_owner_ends() {
    let app = attached().await;
    let end = async {
        app.started.notified().await;
        app.cancel.cancel();
    };
    let (answer, ()) = soon(async { tokio::join!(app.client.call("wait", json!({})), end) }).await;
    assert!(matches!(answer, Err(AppCallError::Attach(AttachError::Ended(_)))), "{answer:?}");
    soon(app.client.ended().cancelled()).await;
}
