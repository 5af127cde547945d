//! Serves the application's commands and events to one attached process; runs what it is given and decides nothing.

use std::{collections::HashMap, panic::AssertUnwindSafe, pin::pin};

use evi_domain::BoxFuture;
use futures::{FutureExt, Stream, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt, WriteHalf},
    sync::{broadcast, mpsc},
    task::{AbortHandle, JoinSet},
};
use tokio_util::{bytes::Bytes, codec::FramedRead, sync::CancellationToken};

use crate::{
    Connection,
    app_wire::{Asked, Told, line},
    lines::{Line, LineCodec},
};

/// How many commands of one process may run at once; more wait.
const CALLS: usize = 256;
/// How many lines may wait to be written.
const LINES: usize = 64;

/// Events as [`serve_app`] takes them, from a channel. What a slow reader misses is skipped: events are hints.
pub fn events_of(receiver: broadcast::Receiver<Value>) -> impl Stream<Item = Value> + Send {
    futures::stream::unfold(receiver, |mut receiver| async move {
        loop {
            match receiver.recv().await {
                Ok(event) => return Some((event, receiver)),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    })
}

/// Serves a connection of kind `app` until the other side ends it or `cancel`; then drops every call under way.
///
/// `call` runs one command; its error is a problem as the application's contract has it.
pub async fn serve_app<C, S>(stream: Connection, call: C, events: S, cancel: CancellationToken)
where
    C: Fn(String, Value) -> BoxFuture<'static, Result<Value, Value>> + Send + Sync,
    S: Stream<Item = Value> + Send,
{
    let (read, write) = tokio::io::split(stream);
    let (lines, queue) = mpsc::channel(LINES);
    tokio::select! {
        () = cancel.cancelled() => {}
        () = speak(write, queue) => {}
        () = tell(events, lines.clone()) => {}
        () = answer(FramedRead::new(read, LineCodec::default()), call, lines) => {}
    }
}

/// Events, as fast as the other side reads. Never ends: without events the calls go on.
async fn tell(events: impl Stream<Item = Value> + Send, lines: mpsc::Sender<Bytes>) {
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        if let Some(line) = line(&Told::Event { event })
            && lines.send(line).await.is_err()
        {
            break;
        }
    }
    std::future::pending::<()>().await;
}

async fn answer<C>(
    mut asked: FramedRead<tokio::io::ReadHalf<Connection>, LineCodec>,
    call: C,
    lines: mpsc::Sender<Bytes>,
) where
    C: Fn(String, Value) -> BoxFuture<'static, Result<Value, Value>>,
{
    let mut calls = JoinSet::new();
    let mut open: HashMap<u64, AbortHandle> = HashMap::new();
    loop {
        let next = tokio::select! {
            Some(done) = calls.join_next(), if !calls.is_empty() => {
                if let Ok(id) = done {
                    open.remove(&id);
                }
                continue;
            }
            next = asked.next(), if calls.len() < CALLS => next,
        };
        let Some(Ok(Line::Whole(line))) = next else { return };
        match serde_json::from_slice(&line) {
            Ok(Asked::Call { id, command, params }) => {
                let running = run(call(command, params), id, lines.clone());
                open.insert(id, calls.spawn(running));
            }
            Ok(Asked::Cancel { cancel }) => {
                if let Some(call) = open.remove(&cancel) {
                    call.abort();
                }
            }
            Err(error) => tracing::warn!(%error, "an attached process sent something that is no command"),
        }
    }
}

async fn run(call: BoxFuture<'static, Result<Value, Value>>, id: u64, lines: mpsc::Sender<Bytes>) -> u64 {
    let told = match AssertUnwindSafe(call).catch_unwind().await {
        Ok(Ok(result)) => Told::Result { id, result },
        Ok(Err(problem)) => Told::Problem { id, problem },
        Err(_) => {
            Told::Problem { id, problem: json!({"code": "internal", "message": "the command panicked"}) }
        }
    };
    if let Some(line) = line(&told) {
        // A closed queue means that nobody waits any more.
        let _ = lines.send(line).await;
    }
    id
}

async fn speak(mut write: WriteHalf<Connection>, mut queue: mpsc::Receiver<Bytes>) {
    while let Some(line) = queue.recv().await {
        if write.write_all(&line).await.is_err() || write.flush().await.is_err() {
            return;
        }
    }
}
