//! MCP over lines of JSON, for one client: stdin and stdout, or the local socket of a bridge. It opens nothing itself.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::{Buf, Bytes, BytesMut};
use evi_domain::{Caller, Exposure, ToolHost};
use futures::StreamExt;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::JoinSet,
};
use tokio_util::{
    codec::{Decoder, FramedRead},
    sync::CancellationToken,
};

use crate::{
    answer::{self, Asked},
    changes::{self, Marks, Wanted},
    error::GatewayError,
    flights::{Flights, MAX_IN_FLIGHT},
    guests::{Guest, Guests},
    message::{self, Identity, Incoming, Notification, Request, RpcError},
    protocol::{self, Era, Standing, code},
};

/// How long a line may be.
const MAX_LINE: usize = 64 * 1024 * 1024;
/// How many messages wait for a slow reader.
const WAITING: usize = 64;
/// After the client's last word: how long requests may still end by themselves, how long once cancelled, and how long
/// the last answers may take to be written. Under a second in all.
const LAST_ANSWERS: Duration = Duration::from_millis(300);
const WIND_UP: Duration = Duration::from_millis(300);
const LAST_WRITES: Duration = Duration::from_millis(300);

/// Serves one client over a byte stream until its end, or until `cancel`. What is under way then is cancelled.
///
/// # Errors
/// [`GatewayError::Broken`] when reading or writing fails.
pub async fn serve_stream(
    host: Arc<dyn ToolHost>,
    exposure: Exposure,
    read: impl AsyncRead + Send,
    write: impl AsyncWrite + Send,
    cancel: CancellationToken,
) -> Result<(), GatewayError> {
    serve_guest(host, exposure, read, write, cancel, &Guests::default()).await
}

/// [`serve_stream`] for a client that is listed among `guests` as long as it is connected.
///
/// # Errors
/// As there.
pub async fn serve_guest(
    host: Arc<dyn ToolHost>,
    exposure: Exposure,
    read: impl AsyncRead + Send,
    write: impl AsyncWrite + Send,
    cancel: CancellationToken,
    guests: &Guests,
) -> Result<(), GatewayError> {
    let (out, messages) = mpsc::channel(WAITING);
    let writing = write_lines(write, messages);
    tokio::pin!(writing);
    let talk = Talk {
        host,
        exposure,
        flights: Arc::default(),
        out,
        cancel: cancel.child_token(),
        tasks: JoinSet::new(),
        session: None,
        guests: guests.clone(),
        guest: None,
    };
    // Dropping the conversation ends its requests.
    let talked = tokio::select! {
        talked = talk.run(read) => talked,
        written = &mut writing => return written.map_err(GatewayError::Broken),
    };
    let written = tokio::time::timeout(LAST_WRITES, writing).await.unwrap_or(Ok(()));
    talked.and(written).map_err(GatewayError::Broken)
}

async fn write_lines(write: impl AsyncWrite, mut messages: mpsc::Receiver<Bytes>) -> io::Result<()> {
    tokio::pin!(write);
    while let Some(message) = messages.recv().await {
        write.write_all(&message::one_line(message)).await?;
        write.write_all(b"\n").await?;
        if messages.is_empty() {
            write.flush().await?;
        }
    }
    write.flush().await
}

struct Talk {
    host: Arc<dyn ToolHost>,
    exposure: Exposure,
    flights: Arc<Flights>,
    out: mpsc::Sender<Bytes>,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
    session: Option<Session>,
    guests: Guests,
    /// Once it has said who it is.
    guest: Option<Guest>,
}

/// What `initialize` opened.
struct Session {
    caller: Caller,
    seen: Arc<Mutex<Marks>>,
    followed: bool,
}

impl Talk {
    async fn run(mut self, read: impl AsyncRead) -> io::Result<()> {
        let lines = FramedRead::new(read, Lines::up_to(MAX_LINE));
        tokio::pin!(lines);
        let ended = loop {
            tokio::select! {
                () = self.cancel.cancelled() => break Ok(()),
                Some(_) = self.tasks.join_next(), if !self.tasks.is_empty() => {}
                line = lines.next() => match line {
                    Some(Ok(line)) => self.take(line).await,
                    Some(Err(error)) => break Err(error),
                    None => break Ok(()),
                },
            }
        };
        let over = self.cancel.clone();
        let _late = tokio::time::timeout(LAST_ANSWERS, over.run_until_cancelled(self.idle())).await;
        self.cancel.cancel();
        let _late =
            tokio::time::timeout(WIND_UP, async { while self.tasks.join_next().await.is_some() {} }).await;
        ended
    }

    /// Waits until no request is under way.
    async fn idle(&mut self) {
        while !self.flights.is_empty() && self.tasks.join_next().await.is_some() {}
    }

    async fn take(&mut self, line: Line) {
        let parsed = match line {
            Line::Text(text) => message::parse(&text),
            Line::TooLong => {
                let message = format!("a line may have {} MiB", MAX_LINE / 1024 / 1024);
                Err(message::Malformed { id: None, error: RpcError::new(code::PARSE, message) })
            }
        };
        match parsed {
            Ok(Incoming::Request(request)) => self.request(request).await,
            Ok(Incoming::Notification(notification)) => self.notification(&notification),
            Ok(Incoming::Response) => {}
            Err(malformed) => self.say(message::error_message(malformed.id.as_ref(), &malformed.error)).await,
        }
    }

    async fn say(&self, message: Bytes) {
        // A writer that is gone ends the conversation by itself, and a stuck one must not keep it.
        let _gone = self.cancel.run_until_cancelled(self.out.send(message)).await;
    }

    async fn request(&mut self, request: Request) {
        let id = request.id.clone();
        let error = match self.admit(request) {
            Ok(None) => return,
            Ok(Some(message)) => return self.say(message).await,
            Err(error) => error,
        };
        self.say(message::error_message(Some(&id), &error)).await;
    }

    /// Starts a request, or answers it at once.
    fn admit(&mut self, request: Request) -> Result<Option<Bytes>, RpcError> {
        let (caller, era) = match protocol::standing(&request)? {
            Standing::Initialize => return self.initialize(&request).map(Some),
            Standing::Modern => {
                let who = Identity::read(request.meta.client_info.as_deref());
                self.guest.get_or_insert_with(|| self.guests.enter(&who));
                (self.caller(who), Era::Modern)
            }
            Standing::Legacy => match &self.session {
                Some(session) => (session.caller.clone(), Era::Legacy),
                None if request.method == "ping" => (self.caller(Identity::read(None)), Era::Legacy),
                None => return Err(RpcError::new(code::INVALID_REQUEST, "send initialize first")),
            },
        };
        if era == Era::Legacy && request.method != "ping" {
            self.follow();
        }
        if request.method == "tools/call"
            && let Some(guest) = &self.guest
        {
            guest.calls();
        }
        let listening = era == Era::Modern && request.method == "subscriptions/listen";
        let wanted = listening.then(|| Wanted::read(&request)).transpose()?;
        let Some(flight) = self.flights.start(&request.id, &self.cancel) else {
            let message = format!("too many requests at once: {MAX_IN_FLIGHT} are under way");
            return Err(RpcError::new(code::BUSY, message));
        };
        let (host, out, stop) = (Arc::clone(&self.host), self.out.clone(), self.cancel.clone());
        self.tasks.spawn(async move {
            let id = request.id.clone();
            if let Some(wanted) = wanted {
                return changes::listen(&*host, &caller, &id, wanted, &out, &flight.cancel, &stop).await;
            }
            let (caller, cancel, progress) = (&caller, flight.cancel.clone(), Some(out.clone()));
            let reply = answer::answer(Asked { host: &*host, caller, era, request, cancel, progress }).await;
            if let Some(message) = reply.encode(&id, era) {
                let _gone = out.send(message).await;
            }
            drop(flight);
        });
        Ok(None)
    }

    fn caller(&self, who: Identity) -> Caller {
        Caller::Client { name: who.name, exposure: self.exposure.clone() }
    }

    fn initialize(&mut self, request: &Request) -> Result<Bytes, RpcError> {
        let version = protocol::negotiate(&request.params.protocol_version()?);
        let who = Identity::read(request.params.client_info.as_deref());
        let guest = self.guests.enter(&who);
        let caller = self.caller(who);
        let surface = self.host.surface(&caller);
        let result = answer::initialize_result(version, &surface).to_string();
        if self.session.is_some() {
            return Err(RpcError::new(code::INVALID_REQUEST, "initialize was sent before"));
        }
        let seen = Arc::new(Mutex::new(Marks::of(&surface)));
        self.session = Some(Session { caller, seen, followed: false });
        self.guest = Some(guest);
        Ok(message::result_message(&request.id, "", &result))
    }

    fn notification(&mut self, notification: &Notification) {
        match (notification.method.as_str(), &notification.params.request_id) {
            ("notifications/initialized", _) => self.follow(),
            ("notifications/cancelled", Some(id)) => self.flights.cancel(id.get()),
            _ => {}
        }
    }

    /// Starts to send change notices, once the client shows that it has read our answer to `initialize`.
    fn follow(&mut self) {
        let Some(session) = self.session.as_mut().filter(|s| !s.followed) else { return };
        session.followed = true;
        let (host, out, over) = (Arc::clone(&self.host), self.out.clone(), self.cancel.clone());
        let (caller, seen) = (session.caller.clone(), Arc::clone(&session.seen));
        self.tasks.spawn(async move {
            let following = changes::follow(&*host, &caller, &seen, Wanted::ALL, None, &out);
            over.run_until_cancelled(following).await;
        });
    }
}

/// What stands between two line ends.
#[derive(Debug)]
enum Line {
    Text(Bytes),
    TooLong,
}

/// Splits bytes into lines. A line that is too long is reported once and skipped; empty ones are nothing.
#[derive(Debug)]
struct Lines {
    limit: usize,
    searched: usize,
    skipping: bool,
}

impl Lines {
    fn up_to(limit: usize) -> Self {
        Self { limit, searched: 0, skipping: false }
    }
}

impl Decoder for Lines {
    type Item = Line;
    type Error = io::Error;

    fn decode(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Line>> {
        loop {
            let found = buffer[self.searched..].iter().position(|b| *b == b'\n').map(|n| n + self.searched);
            let Some(end) = found else {
                if self.skipping || buffer.len() > self.limit {
                    // What is too long is not kept, either.
                    let report = !self.skipping;
                    self.skipping = true;
                    self.searched = 0;
                    *buffer = BytesMut::new();
                    return Ok(report.then_some(Line::TooLong));
                }
                self.searched = buffer.len();
                return Ok(None);
            };
            self.searched = 0;
            let line = buffer.split_to(end);
            buffer.advance(1);
            if std::mem::take(&mut self.skipping) || line.trim_ascii().is_empty() {
                continue;
            }
            if line.len() > self.limit {
                return Ok(Some(Line::TooLong));
            }
            return Ok(Some(Line::Text(line.freeze())));
        }
    }

    fn decode_eof(&mut self, buffer: &mut BytesMut) -> io::Result<Option<Line>> {
        if let Some(line) = self.decode(buffer)? {
            return Ok(Some(line));
        }
        self.searched = 0;
        let rest = buffer.split();
        let nothing = self.skipping || rest.trim_ascii().is_empty();
        Ok((!nothing).then(|| Line::Text(rest.freeze())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(pieces: &[&str]) -> Vec<String> {
        let (mut lines, mut buffer, mut out) = (Lines::up_to(8), BytesMut::new(), Vec::new());
        let text = |line| match line {
            Line::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
            Line::TooLong => "too long".to_owned(),
        };
        for piece in pieces {
            buffer.extend_from_slice(piece.as_bytes());
            while let Some(line) = lines.decode(&mut buffer).unwrap() {
                out.push(text(line));
            }
        }
        while let Some(line) = lines.decode_eof(&mut buffer).unwrap() {
            out.push(text(line));
        }
        out
    }

    #[test]
    fn lines_are_found_however_the_bytes_come() {
        assert_eq!(split(&["a", "b\n\n \r\nc", "d\n", "e"]), ["ab", "cd", "e"]);
        assert_eq!(split(&["12345678\n", "\n"]), ["12345678"]);
    }

    #[test]
    fn a_line_that_is_too_long_is_reported_once_and_the_next_one_is_read() {
        assert_eq!(split(&["123456789\nok\n"]), ["too long", "ok"]);
        assert_eq!(split(&["1234567", "89", "0", "1234567890\nok", "\n"]), ["too long", "ok"]);
        assert_eq!(split(&["1234567890", "12345"]), ["too long"]);
    }
}
