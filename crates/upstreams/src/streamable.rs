//! Streamable HTTP, client side: a POST for every message, for older servers also a session that ends with a DELETE
//! and a stream for what nobody asked for. It never opens a session again by itself (that is the actor's affair), and
//! never sends a message twice.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http>

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{ACCEPT, CONTENT_TYPE},
};
use reqwest::{Response, Url};
use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ClientNotification, ClientRequest, GetExtensions, GetMeta, NumberOrString,
        ProtocolVersion, ServerJsonRpcMessage, ServerResult,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{sync::mpsc, time::sleep};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    error::Fault,
    events::{Decoder, Event},
    exchange::{Outgoing, plain_post},
    http::{EVENT_STREAM, Endpoint, JSON, explain, kind_of},
    log::Log,
    message::{Messages, Noise},
    mirror,
    wire::{Mark, Wire},
};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Requests whose subject is a header as well.
const NAMED: [&str; 3] = ["tools/call", "resources/read", "prompts/get"];
/// Messages of the server waiting to be taken.
const QUEUE: usize = 64;
/// How long the end of a session may take.
const DELETE_LIMIT: Duration = Duration::from_secs(2);
/// The pause before the stream of notices is opened again; doubles until the other.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The transport.
pub(crate) struct Streamable {
    post: Arc<Post>,
    incoming: mpsc::Receiver<ServerJsonRpcMessage>,
    _listening: AbortOnDropHandle<()>,
}

/// What every exchange with the server needs.
pub(crate) struct Post {
    pub(crate) client: reqwest::Client,
    pub(crate) url: Url,
    pub(crate) host: String,
    pub(crate) wire: Arc<Wire>,
    pub(crate) log: Log,
    headers: HeaderMap,
    deliver: mpsc::Sender<ServerJsonRpcMessage>,
    session: Mutex<Session>,
    /// Requests under way.
    running: Mutex<HashMap<NumberOrString, CancellationToken>>,
    /// The handshake with a session is over.
    opened: CancellationToken,
    /// Whether the stream of notices is open.
    listens: AtomicBool,
}

#[derive(Default)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Streamable {
    /// Opens nothing yet; must be called inside a runtime.
    pub(crate) fn new(endpoint: &Endpoint, wire: Arc<Wire>, log: Log) -> Result<Self, Fault> {
        let (deliver, incoming) = mpsc::channel(QUEUE);
        let post = Arc::new(Post {
            client: endpoint.client()?,
            url: endpoint.url().clone(),
            host: endpoint.host(),
            headers: endpoint.headers(),
            wire,
            log,
            deliver,
            session: Mutex::default(),
            running: Mutex::default(),
            opened: CancellationToken::new(),
            listens: AtomicBool::new(false),
        });
        let listening = Arc::clone(&post);
        let listening = AbortOnDropHandle::new(tokio::spawn(async move { listening.listen().await }));
        Ok(Self { post, incoming, _listening: listening })
    }
}

impl Transport<RoleClient> for Streamable {
    type Error = Fault;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let post = Arc::clone(&self.post);
        let outgoing = post.outgoing(&item);
        async move {
            match outgoing? {
                Sending::Request(outgoing) => post.exchange(outgoing).await,
                Sending::Notice { body, headers, opens, ends } => {
                    let sent = match body {
                        Some(body) => plain_post(&post, body, headers).await,
                        None => Ok(()),
                    };
                    if let Some(ends) = ends {
                        ends.cancel();
                    }
                    if opens && sent.is_ok() {
                        post.opened.cancel();
                    }
                    sent
                }
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        let (id, headers) = {
            let mut session = lock(&self.post.session);
            let mut headers = self.post.headers.clone();
            headers.extend(session.version.clone().map(|version| (VERSION, version)));
            (session.id.take(), headers)
        };
        if let Some(id) = id {
            let delete = self.post.client.delete(self.post.url.clone()).headers(headers).header(SESSION, id);
            // Some servers do not know the method; nobody can do anything about it here.
            let _ = tokio::time::timeout(DELETE_LIMIT, delete.send()).await;
        }
        Ok(())
    }
}

/// A message made ready.
enum Sending {
    Request(Outgoing),
    /// A notification, or an answer to the server. Without a body nothing is sent.
    Notice {
        body: Option<Vec<u8>>,
        headers: HeaderMap,
        opens: bool,
        ends: Option<CancellationToken>,
    },
}

impl Post {
    /// The two sides of a message: its bytes and its headers.
    fn outgoing(&self, item: &ClientJsonRpcMessage) -> Result<Sending, Fault> {
        let ClientJsonRpcMessage::Request(request) = item else { return self.notice(item) };
        let mut headers = self.request_headers();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let version = request.request.get_meta().protocol_version();
        let modern = version.as_ref().is_some_and(|version| *version >= ProtocolVersion::STANDARD_HEADERS);
        if modern {
            headers.remove(SESSION);
            self.modern_headers(&request.request, version.as_ref(), &mut headers);
        }
        let initializes = matches!(request.request, ClientRequest::InitializeRequest(_));
        if initializes {
            headers.remove(SESSION);
            headers.remove(VERSION);
        }
        let stop = CancellationToken::new();
        lock(&self.running).insert(request.id.clone(), stop.clone());
        let has_session = headers.contains_key(SESSION);
        let body = self.messages(Noise::Body).encode(item).map_err(Fault::unwritable)?;
        Ok(Sending::Request(Outgoing {
            id: request.id.clone(),
            body,
            headers,
            stop,
            modern,
            initializes,
            discovers: matches!(request.request, ClientRequest::DiscoverRequest(_)),
            unlimited: matches!(request.request, ClientRequest::SubscriptionsListenRequest(_))
                || request.request.extensions().get::<Mark>().is_some_and(|mark| mark.progress),
            has_session,
        }))
    }

    fn notice(&self, item: &ClientJsonRpcMessage) -> Result<Sending, Fault> {
        let mut headers = self.request_headers();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let mut body = Some(self.messages(Noise::Body).encode(item).map_err(Fault::unwritable)?);
        let (mut opens, mut ends) = (false, None);
        if let ClientJsonRpcMessage::Notification(notice) = item {
            match &notice.notification {
                ClientNotification::InitializedNotification(_) => opens = true,
                ClientNotification::CancelledNotification(cancelled) => {
                    let id = cancelled.params.request_id.as_ref();
                    ends = id.and_then(|id| lock(&self.running).get(id).cloned());
                    // Without a session, closing the response is what tells the server.
                    if !self.opened.is_cancelled() {
                        body = None;
                    }
                }
                _ => {}
            }
        }
        Ok(Sending::Notice { body, headers, opens, ends })
    }

    fn modern_headers(
        &self,
        request: &ClientRequest,
        version: Option<&ProtocolVersion>,
        headers: &mut HeaderMap,
    ) {
        let version = version.and_then(|version| HeaderValue::from_str(version.as_str()).ok());
        headers.extend(version.map(|version| (VERSION, version)));
        headers.extend(HeaderValue::from_str(request.method()).ok().map(|method| (METHOD, method)));
        let Some(mark) = request.extensions().get::<Mark>() else { return };
        let Some(subject) = mark.subject.as_ref().filter(|_| NAMED.contains(&request.method())) else {
            return;
        };
        headers.extend(mirror::header_value(subject).map(|subject| (NAME, subject)));
        if let Some(params) = mark.params.as_ref().filter(|_| request.method() == "tools/call") {
            mirror::add(&self.wire.mirrored(subject), params, headers);
        }
    }

    fn request_headers(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let session = lock(&self.session);
        headers.extend(session.id.clone().map(|id| (SESSION, id)));
        headers.extend(session.version.clone().map(|version| (VERSION, version)));
        headers
    }

    pub(crate) fn messages(&self, noise: Noise) -> Messages {
        Messages::new(Arc::clone(&self.wire), self.log.clone(), noise)
    }

    /// The session that the answer to `initialize` opened.
    pub(crate) fn remember_session(&self, response: &Response) {
        lock(&self.session).id = response.headers().get(SESSION).cloned();
    }

    /// Passes a message on, and looks at what the handshake agreed on.
    pub(crate) async fn deliver(&self, message: ServerJsonRpcMessage, outgoing: Option<&Outgoing>) {
        if let ServerJsonRpcMessage::Response(answer) = &message
            && let Some(outgoing) = outgoing
        {
            match &answer.result {
                ServerResult::InitializeResult(result) if outgoing.initializes => {
                    // A server that echoes a version without `initialize` cannot mean it.
                    let version = Some(&result.protocol_version).filter(|version| version.has_initialize());
                    let version = version.unwrap_or(&ProtocolVersion::LATEST_WITH_INITIALIZE);
                    lock(&self.session).version = HeaderValue::from_str(version.as_str()).ok();
                }
                _ if outgoing.discovers => self.wire.mirror_arguments(),
                _ => {}
            }
        }
        let _ = self.deliver.send(message).await;
    }

    /// The request is over.
    pub(crate) fn over(&self, id: &NumberOrString) {
        lock(&self.running).remove(id);
    }

    /// Whether an answer may still come another way than on its own response.
    pub(crate) fn is_listening(&self) -> bool {
        self.listens.load(Ordering::Relaxed)
    }

    /// Opens a stream, at its beginning or where another one ended.
    ///
    /// # Errors
    /// `NotMcp` for a server that has none.
    pub(crate) async fn get(&self, last: Option<&[u8]>) -> Result<Response, Fault> {
        let mut headers = self.request_headers();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        let last = last.and_then(|last| HeaderValue::from_bytes(last).ok());
        headers.extend(last.map(|last| (LAST_EVENT, last)));
        let sent = self.client.get(self.url.clone()).headers(headers).send().await;
        let response = sent.map_err(|error| explain(&error, &self.host))?;
        if !response.status().is_success() {
            return Err(Fault::Status { host: self.host.clone(), status: response.status().as_u16() });
        }
        if kind_of(&response) != EVENT_STREAM {
            return Err(Fault::NotMcp { what: "it has no event stream".to_owned() });
        }
        Ok(response)
    }

    /// Takes what nobody asked for, as long as the server has a stream for it.
    async fn listen(&self) {
        self.opened.cancelled().await;
        let (mut decoder, mut messages) = (Decoder::default(), self.messages(Noise::Event));
        let (mut pause, mut worked) = (FIRST_PAUSE, false);
        loop {
            match self.get(decoder.last_id.as_deref()).await {
                Ok(mut response) => {
                    worked = true;
                    self.listens.store(true, Ordering::Relaxed);
                    while let Ok(Some(bytes)) = response.chunk().await {
                        pause = FIRST_PAUSE;
                        decoder.feed(&bytes);
                        while let Some(event) = decoder.events.pop_front() {
                            take(event, &mut messages, None);
                        }
                        while let Some(message) = messages.next() {
                            self.deliver(message, None).await;
                        }
                    }
                    self.listens.store(false, Ordering::Relaxed);
                }
                // It worked before, so the server is another one now, or does not know us any more.
                Err(fault @ Fault::Status { status: 401 | 403, .. }) => return self.wire.doubt(fault),
                Err(Fault::Status { status: 400 | 404 | 410, .. }) if worked => {
                    return self.wire.doubt(Fault::SessionDoubtful);
                }
                Err(Fault::Status { status: 500..=599 | 408 | 429, .. }) => {}
                // Many servers have none.
                Err(Fault::Status { .. } | Fault::NotMcp { .. }) => return,
                Err(fault) => self.wire.doubt(fault),
            }
            decoder = decoder.resumed();
            sleep(decoder.retry.unwrap_or_default().max(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// An event of a stream; `asked` is the request whose stream it is.
pub(crate) fn take(event: Event, messages: &mut Messages, asked: Option<&NumberOrString>) {
    match event {
        Event::Whole { kind, data } if Event::is_message(&kind) => messages.accept(&data),
        Event::Whole { .. } => {}
        Event::TooLong { head, tail } => messages.too_long(&head, &tail, asked),
    }
}
