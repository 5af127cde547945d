//! The older HTTP+SSE of 2024-11-05, client side: messages come on one event stream and go out as POSTs to the
//! address that its first event names. It follows that address to no other origin, never reconnects by itself (a new
//! stream is a new session, which is the actor's affair), and never sends a message twice.
//! <https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse>

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use evi_domain::LogStream;
use http::{
    HeaderMap, HeaderValue,
    header::{ACCEPT, CONTENT_TYPE},
};
use reqwest::{Response, Url};
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::time::timeout;

use crate::{
    error::Fault,
    http::{Endpoint, HttpError, explain},
    log::Log,
    message::{ENDS, MESSAGE_CAP, Messages, Noise},
    wire::Wire,
};

const EVENT_STREAM: &str = "text/event-stream";
/// How long a POST may take. The answer comes on the stream, and some servers end the POST only after it; so this
/// only ends what nobody waits for any more.
const POST_LIMIT: Duration = Duration::from_secs(300);
/// What the body of a POST's answer may take, so that its connection can be used again.
const REST_LIMIT: Duration = Duration::from_secs(1);
const REST_CAP: usize = 64 << 10;
/// Bytes of an event that is no message.
const WORD_CAP: usize = 16 << 10;

/// An open stream whose endpoint is known.
pub(crate) struct EventStream {
    client: reqwest::Client,
    headers: HeaderMap,
    post: Url,
    /// `None` once it ended.
    stream: Option<Response>,
    decoder: Decoder,
    messages: Messages,
    /// Whether the server ever answered on this stream.
    heard: Arc<AtomicBool>,
    wire: Arc<Wire>,
    log: Log,
}

/// Opens the stream and waits for its endpoint. Takes as long as the server does: bound it.
pub(crate) async fn open(endpoint: &Endpoint, log: &Log) -> Result<EventStream, Fault> {
    let (client, headers, host) = (endpoint.client()?, endpoint.headers(), endpoint.host());
    let get = client.get(endpoint.url().clone()).headers(headers.clone()).header(ACCEPT, EVENT_STREAM);
    let broken = |error: reqwest::Error| explain(&HttpError::Client(error), &host);
    let mut response = get.send().await.map_err(broken)?;
    let status = response.status();
    if !status.is_success() {
        return Err(Fault::Status { host, status: status.as_u16() });
    }
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("nothing");
    if !kind.trim_start().to_ascii_lowercase().starts_with(EVENT_STREAM) {
        let kind: String = kind.chars().take(60).collect();
        return Err(Fault::NotMcp { what: format!("it sends {kind} instead of an event stream") });
    }
    let (mut decoder, mut first) = (Decoder::default(), None);
    while first.is_none() {
        let Some(bytes) = response.chunk().await.map_err(broken)? else {
            return Err(Fault::NotMcp { what: "its event stream ended without an endpoint".to_owned() });
        };
        decoder.feed(&bytes);
        first = decoder.events.pop_front();
        if let Some(Event::Whole { kind, .. }) = &first
            && kind != b"endpoint"
        {
            first = None;
        }
    }
    let Some(Event::Whole { data, .. }) = first else {
        return Err(Fault::NotMcp { what: "its event stream begins with something very long".to_owned() });
    };
    let post = same_origin(endpoint, response.url(), &data)?;
    let wire = Wire::new();
    Ok(EventStream {
        client,
        headers,
        post,
        stream: Some(response),
        decoder,
        messages: Messages::new(Arc::clone(&wire), log.clone(), Noise::Event),
        heard: Arc::default(),
        wire,
        log: log.clone(),
    })
}

/// Where to send messages: only ever to the origin that the person named, as they carry its token.
fn same_origin(endpoint: &Endpoint, stream: &Url, data: &[u8]) -> Result<Url, Fault> {
    let text = String::from_utf8_lossy(data);
    let post = stream
        .join(text.trim())
        .map_err(|_| Fault::NotMcp { what: "the endpoint that it names is no address".to_owned() })?;
    if post.origin() == endpoint.url().origin() {
        return Ok(post);
    }
    let other = post.origin().ascii_serialization().chars().take(200).collect();
    Err(Fault::ForeignEndpoint { host: endpoint.host(), other })
}

impl EventStream {
    /// The shared side of this connection.
    pub(crate) fn wire(&self) -> Arc<Wire> {
        Arc::clone(&self.wire)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
        while let Some(event) = self.decoder.events.pop_front() {
            match event {
                Event::Whole { kind, data } if kind.is_empty() || kind == b"message" => {
                    self.messages.accept(&data);
                }
                // Some servers send events of their own to keep the connection open.
                Event::Whole { .. } => {}
                Event::TooLong { head, tail } => self.messages.too_long(&head, &tail),
            }
        }
    }
}

impl Transport<RoleClient> for EventStream {
    type Error = HttpError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let body = self.messages.encode(&item);
        let heard = Arc::clone(&self.heard);
        let open = self.stream.is_some();
        let json = HeaderValue::from_static("application/json");
        let post =
            self.client.post(self.post.clone()).headers(self.headers.clone()).header(CONTENT_TYPE, json);
        async move {
            let body = body?;
            if !open {
                return Err(HttpError::UnexpectedEndOfStream);
            }
            let Ok(sent) = timeout(POST_LIMIT, post.body(body).send()).await else { return Ok(()) };
            let mut response = sent.map_err(HttpError::Client)?;
            match response.status().as_u16() {
                200..=299 => {}
                // The address names the session, so it did not take the message.
                404 | 410 if heard.load(Ordering::Relaxed) => return Err(HttpError::SessionExpired),
                status => {
                    return Err(HttpError::UnexpectedServerResponse(format!("HTTP {status}").into()));
                }
            }
            let rest = async {
                let mut room = REST_CAP;
                while let Ok(Some(bytes)) = response.chunk().await {
                    room = room.saturating_sub(bytes.len());
                    if room == 0 {
                        return;
                    }
                }
            };
            let _ = timeout(REST_LIMIT, rest).await;
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.messages.next() {
                self.heard.store(true, Ordering::Relaxed);
                return Some(message);
            }
            match self.stream.as_mut()?.chunk().await {
                Ok(Some(bytes)) => self.take(&bytes),
                Ok(None) => self.stream = None,
                Err(error) => {
                    let error = error.without_url();
                    self.log.push(LogStream::Evi, &format!("its event stream broke: {error}"));
                    self.stream = None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.stream = None;
        Ok(())
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Whole { kind: Vec<u8>, data: Vec<u8> },
    TooLong { head: Vec<u8>, tail: Vec<u8> },
}

/// Takes a stream of bytes apart into events, none longer than [`MESSAGE_CAP`].
/// <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>
#[derive(Default)]
struct Decoder {
    events: VecDeque<Event>,
    line: Vec<u8>,
    kind: Vec<u8>,
    data: Vec<u8>,
    /// The last bytes of an event that grew too long.
    tail: Option<Vec<u8>>,
    after_cr: bool,
    begun: bool,
}

impl Decoder {
    fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr)
                && let Some(rest) = bytes.strip_prefix(b"\n")
            {
                bytes = rest;
                continue;
            }
            let Some(end) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                self.push(bytes);
                return;
            };
            self.push(&bytes[..end]);
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line();
        }
    }

    fn push(&mut self, part: &[u8]) {
        if let Some(tail) = &mut self.tail {
            tail.extend_from_slice(part);
            let over = tail.len().saturating_sub(ENDS);
            tail.drain(..over);
        }
        let data = self.line.starts_with(b"data");
        let cap = match self.tail {
            // Only to see whether the line is empty.
            Some(_) => 1,
            None if data || self.line.len() < 4 => MESSAGE_CAP.saturating_sub(self.data.len()).max(WORD_CAP),
            None => WORD_CAP,
        };
        let room = cap.saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        if part.len() > room && self.tail.is_none() && self.line.starts_with(b"data") {
            let text = if self.data.is_empty() { value(&self.line, b"data") } else { Some(&self.data[..]) };
            let head = text.unwrap_or_default().iter().copied().take(ENDS).collect();
            let rest = &part[room..];
            self.tail = Some(rest[rest.len().saturating_sub(ENDS)..].to_vec());
            self.data = head;
            self.line = vec![b'x'];
        }
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.begun, true) && line.starts_with("\u{feff}".as_bytes()) {
            line.drain(..3);
        }
        if line.is_empty() {
            let (kind, data) = (std::mem::take(&mut self.kind), std::mem::take(&mut self.data));
            match self.tail.take() {
                Some(tail) => self.events.push_back(Event::TooLong { head: data, tail }),
                None if data.is_empty() => {}
                None => self.events.push_back(Event::Whole { kind, data }),
            }
        } else if self.tail.is_some() {
            // It is too long already.
        } else if let Some(value) = value(&line, b"data") {
            if self.data.is_empty() {
                let start = line.len() - value.len();
                line.drain(..start);
                self.data = line;
            } else {
                self.data.push(b'\n');
                self.data.extend_from_slice(value);
                if self.data.len() > MESSAGE_CAP {
                    self.tail = Some(self.data[self.data.len() - ENDS..].to_vec());
                    self.data.truncate(ENDS);
                }
            }
        } else if let Some(value) = value(&line, b"event") {
            self.kind = value.to_vec();
        }
    }
}

/// What a line says for a field.
fn value<'a>(line: &'a [u8], field: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(field)?;
    if rest.is_empty() {
        return Some(rest);
    }
    let value = rest.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(kind: &str, data: &str) -> Event {
        Event::Whole { kind: kind.into(), data: data.into() }
    }

    #[test]
    fn events_are_the_same_however_their_bytes_arrive() {
        let text = "\u{feff}: hello\r\nevent: endpoint\r\ndata: /m?s=1\r\n\r\nid: 3\ndata:{\"a\":\ndata:  1}\n\n\rdata: x\r\r\nevent: ping\n\ndata: unfinished";
        let expected = [whole("endpoint", "/m?s=1"), whole("", "{\"a\":\n 1}"), whole("", "x")];
        for size in [1, 2, 3, 7, 1000] {
            let mut decoder = Decoder::default();
            text.as_bytes().chunks(size).for_each(|part| decoder.feed(part));
            assert_eq!(decoder.events, expected, "{size}");
        }
    }

    #[test]
    fn an_event_that_is_too_long_keeps_its_ends_and_the_next_one_comes() {
        let mut decoder = Decoder::default();
        decoder.feed(b"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"");
        let part = vec![b'x'; 1 << 20];
        (0..65).for_each(|_| decoder.feed(&part));
        assert!(decoder.line.len() + decoder.data.len() < 2 * ENDS);
        decoder.feed(b"\"}\n\nevent: message\ndata: {}\n\n");
        let Some(Event::TooLong { head, tail }) = decoder.events.pop_front() else { panic!("no event") };
        assert!(head.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":7") && head.len() == ENDS);
        assert!(tail.ends_with(b"x\"}") && tail.len() == ENDS);
        assert_eq!(decoder.events, [whole("message", "{}")]);
        let mut decoder = Decoder::default();
        (0..65).for_each(|_| decoder.feed(&part));
        assert!(decoder.line.len() <= MESSAGE_CAP, "a line that is no field is not kept");
    }

    #[test]
    fn messages_go_to_the_origin_that_the_person_named_and_to_no_other() {
        use evi_domain::Secret;
        let endpoint =
            Endpoint::new(&Secret::new("https://h/a/sse?key=k"), &Default::default()).ok().unwrap();
        let to =
            |data: &str| same_origin(&endpoint, endpoint.url(), data.as_bytes()).map(|url| url.to_string());
        assert_eq!(to("/m?s=1").ok().unwrap(), "https://h/m?s=1");
        assert_eq!(to("m").ok().unwrap(), "https://h/a/m");
        assert_eq!(to("https://h:443/m").ok().unwrap(), "https://h/m");
        for foreign in ["https://other/m", "//other/m", "http://h/m", "https://h:444/m"] {
            assert_eq!(to(foreign).err().unwrap().code(), "foreign_endpoint", "{foreign}");
        }
    }
}
