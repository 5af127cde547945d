//! Calls the commands of the application that owns the home, from another process; knows no command by name.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::StreamExt;
use serde_json::Value;
use tokio::{
    io::{AsyncWriteExt, ReadHalf, WriteHalf},
    sync::{broadcast, mpsc, oneshot},
};
use tokio_util::{bytes::Bytes, codec::FramedRead, sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    AttachError, Connection,
    app_wire::{Asked, Told, line},
    lines::{Line, LineCodec},
};

/// How many lines may wait to be written.
const LINES: usize = 64;
/// How many events a slow reader may be behind before it loses some.
const EVENTS: usize = 1024;

/// Why a command has no result.
#[derive(Debug, thiserror::Error)]
pub enum AppCallError {
    /// The application's own answer, as its contract has it (`code`, `message`, …).
    #[error("the command failed: {0}")]
    Problem(Value),
    /// The owner is gone or could not be reached.
    #[error(transparent)]
    Attach(#[from] AttachError),
}

type Answers = Mutex<HashMap<u64, oneshot::Sender<Result<Value, Value>>>>;

/// A connection of kind `app`. Dropping it ends the connection, and with it every call under way.
#[derive(Debug)]
pub struct AppClient {
    next: AtomicU64,
    lines: mpsc::Sender<Bytes>,
    answers: Arc<Answers>,
    events: broadcast::Sender<Value>,
    ended: CancellationToken,
    _tasks: [AbortOnDropHandle<()>; 2],
}

impl AppClient {
    /// Takes over a connection that said hello as [`crate::Kind::App`]. Needs a tokio runtime.
    pub fn new(connection: Connection) -> Self {
        let (read, write) = tokio::io::split(connection);
        let (lines, queue) = mpsc::channel(LINES);
        let (events, _) = broadcast::channel(EVENTS);
        let answers = Arc::new(Answers::default());
        let ended = CancellationToken::new();
        let reading = tokio::spawn(listen(read, answers.clone(), events.clone(), ended.clone()));
        let writing = tokio::spawn(speak(write, queue, ended.clone()));
        Self {
            next: AtomicU64::new(1),
            lines,
            answers,
            events,
            ended,
            _tasks: [AbortOnDropHandle::new(reading), AbortOnDropHandle::new(writing)],
        }
    }

    /// Runs a command. It takes as long as the application lets it take; dropping the future cancels it there.
    ///
    /// # Errors
    /// `Problem` when the application says so, `Attach` with `Ended` when the owner ended meanwhile.
    pub async fn call(&self, command: &str, params: Value) -> Result<Value, AppCallError> {
        let ended = || AttachError::Ended(None);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let asked = line(&Asked::Call { id, command: command.into(), params })
            .ok_or(AttachError::Malformed { what: "command" })?;
        let (sender, answer) = oneshot::channel();
        lock(&self.answers).insert(id, sender);
        let mut open = Open { client: self, id, answered: false };
        tokio::select! {
            biased;
            () = self.ended.cancelled() => return Err(ended().into()),
            sent = self.lines.send(asked) => sent.map_err(|_| ended())?,
        }
        let answer = tokio::select! {
            // An answer that came just before the end counts.
            biased;
            answer = answer => answer,
            () = self.ended.cancelled() => return Err(ended().into()),
        };
        open.answered = true;
        answer.map_err(|_| ended())?.map_err(AppCallError::Problem)
    }

    /// The application's events from now on. A reader that is more than 1024 behind loses the oldest.
    pub fn events(&self) -> broadcast::Receiver<Value> {
        self.events.subscribe()
    }

    /// Cancelled when the owner is gone.
    pub fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }
}

/// A call that waits for its answer.
struct Open<'a> {
    client: &'a AppClient,
    id: u64,
    answered: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        lock(&self.client.answers).remove(&self.id);
        if !self.answered
            && let Some(line) = line(&Asked::Cancel { cancel: self.id })
        {
            // With the queue full the call runs on to its own end, which is no harm.
            let _ = self.client.lines.try_send(line);
        }
    }
}

async fn listen(
    read: ReadHalf<Connection>,
    answers: Arc<Answers>,
    events: broadcast::Sender<Value>,
    ended: CancellationToken,
) {
    let _ended = ended.drop_guard();
    let mut lines = FramedRead::new(read, LineCodec::default());
    while let Some(Ok(line)) = lines.next().await {
        let Line::Whole(line) = line else {
            tracing::warn!("the owner sent a line of more than 64 MiB");
            return;
        };
        let (id, outcome) = match serde_json::from_slice(&line) {
            Ok(Told::Result { id, result }) => (id, Ok(result)),
            Ok(Told::Problem { id, problem }) => (id, Err(problem)),
            Ok(Told::Event { event }) => {
                // Nobody listening is no error.
                let _ = events.send(event);
                continue;
            }
            Err(error) => {
                tracing::warn!(%error, "the owner sent something that is no answer");
                continue;
            }
        };
        let waiting = lock(&answers).remove(&id);
        if let Some(waiting) = waiting {
            let _ = waiting.send(outcome);
        }
    }
}

async fn speak(mut write: WriteHalf<Connection>, mut queue: mpsc::Receiver<Bytes>, ended: CancellationToken) {
    let _ended = ended.clone().drop_guard();
    loop {
        let line = tokio::select! {
            () = ended.cancelled() => return,
            line = queue.recv() => line,
        };
        let Some(line) = line else { return };
        if write.write_all(&line).await.is_err() || write.flush().await.is_err() {
            return;
        }
    }
}

fn lock(answers: &Answers) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Result<Value, Value>>>> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}
