//! Between an MCP client on lines and whichever backend serves now; relays bytes, answers only for a backend that is gone.

use std::{
    fmt::Display,
    future::Future,
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf},
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::{bytes::Bytes, codec::FramedRead, sync::CancellationToken};

use crate::{
    AttachError,
    lines::{Line, LineCodec},
    peek::{self, Message},
    session::{Action, Session, error},
};

/// One attempt to get a backend, and the new backend's answer to the handshake.
const ATTEMPT: Duration = Duration::from_secs(15);
/// All attempts together.
const PATIENCE: Duration = Duration::from_secs(45);
/// How long a request waits for a backend.
const REQUEST_WAIT: Duration = Duration::from_secs(15);
/// How long answers under way are waited for when the client ended its side.
const DRAIN: Duration = Duration::from_secs(5);
/// A backend that served for less was none: the next attempt waits a little.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// How long what a dead backend still had to say is waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Both directions of a stream.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// Where the lines of the client go: a [`crate::Connection`], or a gateway in this process.
pub type Backend = Box<dyn Duplex>;

type ClientLines<R> = FramedRead<R, LineCodec>;
type BackendLines = FramedRead<ReadHalf<Backend>, LineCodec>;

/// Relays lines until the client ends its side (then waits up to 5 s for answers under way) or `cancel`.
///
/// When the backend ends, every request under way fails with code -32000 and "the owner ended", `connect` is asked
/// for the next one, again and again for up to 45 s, and what a legacy client said once (`initialize`,
/// `initialized`, its log level, its subscriptions) is said to the new backend. Requests that come meanwhile wait up
/// to 15 s. An `initialize` that was not answered yet is not failed but asked again. Ids of a new backend's requests
/// that the client has still open from a former one are replaced; everything else goes through unchanged.
///
/// # Errors
/// `NoBackend` when no attempt succeeded in time.
pub async fn bridge<R, W, F, Fut, E>(
    client_read: R,
    client_write: W,
    connect: F,
    cancel: CancellationToken,
) -> Result<(), AttachError>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
    F: FnMut() -> Fut + Send,
    Fut: Future<Output = Result<Backend, E>> + Send,
    E: Display,
{
    let session = Mutex::new(Session::default());
    let client = FramedRead::new(client_read, LineCodec::default());
    let mut bridge = Bridge { client, out: client_write, session: &session, connect, ended: false };
    tokio::select! {
        () = cancel.cancelled() => Ok(()),
        done = bridge.run() => match done {
            Ok(()) | Err(Stop::Client) => Ok(()),
            Err(Stop::NoBackend { reason, waited }) => Err(AttachError::NoBackend { reason, waited }),
        },
    }
}

/// Why there is nothing more to do.
enum Stop {
    /// The client does not read any more.
    Client,
    /// Nobody serves.
    NoBackend { reason: String, waited: Duration },
}

/// How a backend's time ended.
enum Ended {
    /// The client is done.
    Client,
    /// The backend served and went.
    Backend,
    /// It never came to serving.
    Unfit(String),
}

struct Bridge<'a, R, W, F> {
    client: ClientLines<R>,
    out: W,
    session: &'a Mutex<Session>,
    connect: F,
    /// The client ended its side.
    ended: bool,
}

impl<R, W, F, Fut, E> Bridge<'_, R, W, F>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin,
    F: FnMut() -> Fut + Send,
    Fut: Future<Output = Result<Backend, E>> + Send,
    E: Display,
{
    async fn run(&mut self) -> Result<(), Stop> {
        let mut searching: Option<Instant> = None;
        let mut pause = Duration::ZERO;
        loop {
            let since = *searching.get_or_insert_with(Instant::now);
            let reason = match self.next_backend(pause).await? {
                Some(Ok(backend)) => {
                    let came = Instant::now();
                    match self.serve(backend).await? {
                        Ended::Client => return Ok(()),
                        Ended::Backend if came.elapsed() >= SHORT_LIFE => {
                            self.report_end().await?;
                            (searching, pause) = (None, Duration::ZERO);
                            continue;
                        }
                        Ended::Backend => "the owner ended at once".into(),
                        Ended::Unfit(reason) => reason,
                    }
                }
                Some(Err(reason)) => reason,
                None => return Ok(()),
            };
            tracing::debug!(reason, "no backend yet");
            self.report_end().await?;
            if since.elapsed() >= PATIENCE {
                let lines = lock(self.session).expire(Instant::now());
                write_all(&mut self.out, &lines).await?;
                return Err(Stop::NoBackend { reason, waited: since.elapsed() });
            }
            pause = (pause * 2).clamp(Duration::from_millis(20), Duration::from_secs(1));
        }
    }

    async fn report_end(&mut self) -> Result<(), Stop> {
        let lines = lock(self.session).backend_ended();
        write_all(&mut self.out, &lines).await
    }

    /// One attempt, while the client's lines are kept. `None` when the client is done.
    async fn next_backend(&mut self, pause: Duration) -> Result<Option<Result<Backend, String>>, Stop> {
        let connect = &mut self.connect;
        let mut attempt = Box::pin(async move {
            sleep(pause).await;
            match timeout(ATTEMPT, connect()).await {
                Ok(Ok(backend)) => Ok(backend),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err(format!("no answer within {} s", ATTEMPT.as_secs())),
            }
        });
        loop {
            let (room, idle, expiry) = {
                let session = lock(self.session);
                let expiry = session.oldest_request().map(|since| since + REQUEST_WAIT);
                (session.has_room(), session.nothing_waits(), expiry)
            };
            if self.ended && idle {
                return Ok(None);
            }
            tokio::select! {
                backend = &mut attempt => return Ok(Some(backend)),
                line = self.client.next(), if room && !self.ended => match line {
                    Some(Ok(Line::Whole(line))) => lock(self.session).wait(line),
                    Some(Ok(Line::TooLong(_))) => write_all(&mut self.out, &[too_long()]).await?,
                    Some(Err(_)) | None => self.ended = true,
                },
                () = sleep_until(expiry.unwrap_or_else(Instant::now)), if expiry.is_some() => {
                    let then = Instant::now().checked_sub(REQUEST_WAIT).unwrap_or_else(Instant::now);
                    let lines = lock(self.session).expire(then);
                    write_all(&mut self.out, &lines).await?;
                }
            }
        }
    }

    /// The time of one backend.
    async fn serve(&mut self, backend: Backend) -> Result<Ended, Stop> {
        let (read, mut write) = tokio::io::split(backend);
        let mut backend = FramedRead::new(read, LineCodec::default());
        let replay = lock(self.session).replay();
        if let Some(replay) = replay {
            match timeout(ATTEMPT, shake_hands(&replay, &mut backend, &mut write)).await {
                Ok(Ok(early)) => {
                    let mut lines = lock(self.session).list_changes();
                    lines.extend(early);
                    for line in lines {
                        pass_on(Line::Whole(line), self.session, &mut self.out).await?;
                    }
                }
                Ok(Err(reason)) => return Ok(Ended::Unfit(reason)),
                Err(_) => return Ok(Ended::Unfit("the new owner did not answer the handshake".into())),
            }
        }

        let (notices, told) = mpsc::channel(4);
        let (dead, draining) = (CancellationToken::new(), AtomicBool::new(false));
        let up = up(&mut self.client, &mut self.ended, self.session, write, notices);
        let down = down(&mut backend, &mut self.out, self.session, told, &dead, &draining);
        tokio::pin!(up, down);
        tokio::select! {
            ended = &mut down => ended,
            side = &mut up => match side {
                Up::ClientEnded => {
                    draining.store(true, Ordering::Release);
                    if lock(self.session).is_idle() {
                        return Ok(Ended::Client);
                    }
                    timeout(DRAIN, down).await.unwrap_or(Ok(Ended::Client))
                }
                Up::BackendFailed => {
                    dead.cancel();
                    down.await
                }
            },
        }
    }
}

/// How the direction to the backend ended.
enum Up {
    ClientEnded,
    BackendFailed,
}

/// Client to backend. What is dropped here in the middle of a line is known as under way.
async fn up<R: AsyncRead + Unpin>(
    client: &mut ClientLines<R>,
    client_ended: &mut bool,
    session: &Mutex<Session>,
    mut write: WriteHalf<Backend>,
    notices: mpsc::Sender<Bytes>,
) -> Up {
    loop {
        let waited = lock(session).next_waiting();
        let line = match waited {
            Some(line) => line,
            None if *client_ended => return Up::ClientEnded,
            None => match client.next().await {
                Some(Ok(Line::Whole(line))) => line,
                Some(Ok(Line::TooLong(_))) => {
                    if notices.send(too_long()).await.is_err() {
                        return Up::BackendFailed;
                    }
                    continue;
                }
                Some(Err(_)) | None => {
                    *client_ended = true;
                    return Up::ClientEnded;
                }
            },
        };
        let action = lock(session).client_said(&line);
        let line = match action {
            Action::Relay => line,
            Action::Replace(line) => line,
            Action::Drop => continue,
        };
        if write_line(&mut write, &line).await.is_err() {
            return Up::BackendFailed;
        }
    }
}

/// Backend to client.
async fn down<W: AsyncWrite + Unpin>(
    backend: &mut BackendLines,
    out: &mut W,
    session: &Mutex<Session>,
    mut notices: mpsc::Receiver<Bytes>,
    dead: &CancellationToken,
    draining: &AtomicBool,
) -> Result<Ended, Stop> {
    loop {
        tokio::select! {
            biased;
            Some(notice) = notices.recv() => write_line(out, &notice).await.map_err(|_| Stop::Client)?,
            line = backend.next() => match line {
                Some(Ok(line)) => pass_on(line, session, out).await?,
                Some(Err(_)) | None => return Ok(Ended::Backend),
            },
            () = async { dead.cancelled().await; sleep(LAST_WORDS).await } => return Ok(Ended::Backend),
        }
        if draining.load(Ordering::Acquire) && lock(session).is_idle() {
            return Ok(Ended::Client);
        }
    }
}

async fn pass_on<W: AsyncWrite + Unpin>(
    line: Line,
    session: &Mutex<Session>,
    out: &mut W,
) -> Result<(), Stop> {
    let line = match line {
        Line::Whole(line) => {
            let action = lock(session).backend_said(&line);
            match action {
                Action::Relay => Some(line),
                Action::Replace(line) => Some(line),
                Action::Drop => None,
            }
        }
        Line::TooLong(head) => {
            tracing::warn!("a line of more than 64 MiB was dropped");
            lock(session).too_long_backend_said(&head)
        }
    };
    match line {
        Some(line) => write_line(out, &line).await.map_err(|_| Stop::Client),
        None => Ok(()),
    }
}

/// Says to a new backend what the client said to the first one. Gives what came before its answer.
async fn shake_hands(
    replay: &crate::session::Replay,
    backend: &mut BackendLines,
    write: &mut WriteHalf<Backend>,
) -> Result<Vec<Bytes>, String> {
    /// A backend says next to nothing before it answers.
    const EARLY: usize = 64;

    let failed = |error: io::Error| error.to_string();
    write_line(write, &replay.initialize).await.map_err(failed)?;
    let mut early = Vec::new();
    loop {
        let line = match backend.next().await {
            Some(Ok(Line::Whole(line))) => line,
            Some(Ok(Line::TooLong(_))) => continue,
            Some(Err(error)) => return Err(failed(error)),
            None => return Err("the new owner ended in the handshake".into()),
        };
        if peek::messages(&line) == [Message::Answer { id: replay.id.clone() }] {
            if peek::offers(&line).is_none() {
                return Err("the new owner refused the handshake".into());
            }
            break;
        }
        if early.len() == EARLY {
            return Err("the new owner did not answer the handshake".into());
        }
        early.push(line);
    }
    for line in &replay.then {
        write_line(write, line).await.map_err(failed)?;
    }
    Ok(early)
}

async fn write_line<W: AsyncWrite + Unpin>(out: &mut W, line: &[u8]) -> io::Result<()> {
    out.write_all(line).await?;
    out.flush().await
}

async fn write_all<W: AsyncWrite + Unpin>(out: &mut W, lines: &[Bytes]) -> Result<(), Stop> {
    for line in lines {
        write_line(out, line).await.map_err(|_| Stop::Client)?;
    }
    Ok(())
}

/// The id of a line that is too long is not known.
fn too_long() -> Bytes {
    error("null", "a line is longer than 64 MiB")
}

fn lock(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    // A panic cannot leave it half changed in a way that matters: it ends the bridge.
    session.lock().unwrap_or_else(PoisonError::into_inner)
}
