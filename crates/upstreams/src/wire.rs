//! What travels beside rmcp on a connection: raw parameters and results, and progress in the order it came. It
//! knows nothing of processes and URLs.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

use evi_domain::Progress;
use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ClientRequest, CustomRequest, GetExtensions, GetMeta, JsonRpcMessage,
        NumberOrString, ProgressToken, ServerJsonRpcMessage, ServerNotification, ServerResult,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::{Map, Value, value::RawValue};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::{
    error::Fault,
    mirror::{self, Mirrored},
};

/// The first ticket; rmcp's own progress tokens count from zero.
const FIRST_TICKET: i64 = 1_000_000;
/// Progress that waits to be taken; what does not fit is left out, as a later one says more.
const PROGRESS_QUEUE: usize = 64;

/// Rides in the extensions of a request: what the typed message cannot carry.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// Tells the request from every other of the connection; also its progress token.
    pub(crate) ticket: i64,
    /// Whether progress is wanted.
    pub(crate) progress: bool,
    /// The parameters as they are to go out, a JSON object without `_meta`.
    pub(crate) params: Option<Arc<RawValue>>,
    /// The tool, prompt or resource that it is about, for transports that say so beside the message.
    pub(crate) subject: Option<Arc<str>>,
}

impl Mark {
    /// A request of `method` that carries this mark. The transport takes the parameters from it, byte for byte.
    pub(crate) fn request(self, method: &str) -> ClientRequest {
        let mut request = CustomRequest::new(method, None);
        request.extensions.insert(self);
        ClientRequest::CustomRequest(request)
    }
}

/// The shared side of one connection.
pub(crate) struct Wire {
    state: Mutex<State>,
    next: AtomicI64,
    /// Whether arguments are repeated in headers.
    mirrors: AtomicBool,
    doubted: Notify,
    /// Cancelled when nothing more comes from the server.
    pub(crate) ended: CancellationToken,
}

#[derive(Default)]
struct State {
    progress: HashMap<i64, Listener>,
    /// Ticket by the id that rmcp gave.
    sent: HashMap<i64, i64>,
    results: HashMap<i64, Box<RawValue>>,
    /// By tool.
    mirrored: HashMap<String, Arc<[Mirrored]>>,
    doubt: Option<Fault>,
    server: Map<String, Value>,
}

struct Listener {
    last: f64,
    send: mpsc::Sender<Progress>,
}

impl Wire {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            next: AtomicI64::new(FIRST_TICKET),
            mirrors: AtomicBool::new(false),
            doubted: Notify::new(),
            ended: CancellationToken::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the server says of itself, as it came; the last one counts.
    pub(crate) fn introduce(&self, server: Map<String, Value>) {
        self.state().server = server;
    }

    /// What the server said of itself; empty when it said nothing.
    pub(crate) fn server(&self) -> Map<String, Value> {
        self.state().server.clone()
    }

    /// Opens a ticket; with `progress`, what the server tells about it comes out of the receiver.
    pub(crate) fn open(self: &Arc<Self>, progress: bool) -> (Ticket, mpsc::Receiver<Progress>) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (send, receive) = mpsc::channel(PROGRESS_QUEUE);
        if progress {
            self.state().progress.insert(number, Listener { last: f64::NEG_INFINITY, send });
        }
        (Ticket { number, wire: Arc::clone(self) }, receive)
    }

    /// A marked request goes out under this id: its result is to be kept raw.
    pub(crate) fn expect(&self, id: &NumberOrString, ticket: i64) {
        if let Some(id) = number(id) {
            self.state().sent.insert(id, ticket);
        }
    }

    /// Whether the answer with this id is to be kept raw; then `keep` is called with its ticket.
    pub(crate) fn take_expected(&self, id: &NumberOrString) -> Option<i64> {
        self.state().sent.remove(&number(id)?)
    }

    /// Keeps a raw result for whoever holds the ticket.
    pub(crate) fn keep(&self, ticket: i64, result: Box<RawValue>) {
        self.state().results.insert(ticket, result);
    }

    /// Whether any marked request is under way.
    pub(crate) fn expects_any(&self) -> bool {
        !self.state().sent.is_empty()
    }

    /// From now on arguments are repeated in headers where a tool wants it.
    pub(crate) fn mirror_arguments(&self) {
        self.mirrors.store(true, Ordering::Relaxed);
    }

    /// Reads from a tool's schema which arguments it wants in headers.
    ///
    /// # Errors
    /// What is wrong with its marks: it must not be offered.
    pub(crate) fn learn(&self, tool: &str, schema: Option<&Map<String, Value>>) -> Result<(), String> {
        if !self.mirrors.load(Ordering::Relaxed) {
            return Ok(());
        }
        let marks = schema.map(mirror::marks).transpose();
        let mut state = self.state();
        match marks?.filter(|marks| !marks.is_empty()) {
            Some(marks) => state.mirrored.insert(tool.to_owned(), marks.into()),
            None => state.mirrored.remove(tool),
        };
        Ok(())
    }

    /// The arguments of a tool that are repeated in headers.
    pub(crate) fn mirrored(&self, tool: &str) -> Arc<[Mirrored]> {
        self.state().mirrored.get(tool).cloned().unwrap_or_default()
    }

    /// The transport found this wrong with the connection beside any request.
    pub(crate) fn doubt(&self, fault: Fault) {
        self.state().doubt = Some(fault);
        self.doubted.notify_one();
    }

    /// Waits for the next doubt.
    pub(crate) async fn doubted(&self) -> Fault {
        loop {
            if let Some(fault) = self.state().doubt.take() {
                return fault;
            }
            self.doubted.notified().await;
        }
    }

    fn report(&self, token: &ProgressToken, progress: Progress) -> bool {
        let Some(token) = number(&token.0) else { return false };
        let mut state = self.state();
        let Some(listener) = state.progress.get_mut(&token) else { return token >= FIRST_TICKET };
        // The protocol wants it to rise; some servers repeat themselves.
        if progress.progress > listener.last {
            listener.last = progress.progress;
            let _ = listener.send.try_send(progress);
        }
        true
    }
}

/// A number, also when a server gave it back as text.
fn number(id: &NumberOrString) -> Option<i64> {
    match id {
        NumberOrString::Number(n) => Some(*n),
        NumberOrString::String(s) => s.parse().ok(),
    }
}

/// An open ticket; dropping it forgets everything about it.
pub(crate) struct Ticket {
    pub(crate) number: i64,
    wire: Arc<Wire>,
}

impl Ticket {
    /// The result of its request, once: as it came where the transport keeps it so, else what rmcp made of it.
    ///
    /// # Errors
    /// Only for what rmcp made and cannot write.
    pub(crate) fn result(&self, typed: &ServerResult) -> serde_json::Result<Box<RawValue>> {
        let raw = self.wire.state().results.remove(&self.number);
        raw.map_or_else(|| serde_json::value::to_raw_value(typed), Ok)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.wire.state();
        state.progress.remove(&self.number);
        state.results.remove(&self.number);
        state.sent.retain(|_, ticket| *ticket != self.number);
    }
}

/// Puts the tokens on marked requests and takes progress off the stream before rmcp, which would hand each
/// notification to a task of its own and so lose the order.
pub(crate) struct Tap<T> {
    inner: T,
    wire: Arc<Wire>,
}

impl<T> Tap<T> {
    pub(crate) fn new(inner: T, wire: Arc<Wire>) -> Self {
        Self { inner, wire }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let ClientJsonRpcMessage::Request(request) = &mut item
            && let Some(mark) = request.request.extensions().get::<Mark>()
            && mark.progress
        {
            let token = ProgressToken(NumberOrString::Number(mark.ticket));
            request.request.get_meta_mut().set_progress_token(token);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.wire.ended.cancel();
                return None;
            };
            if let Some((token, progress)) = progress_of(&message)
                && self.wire.report(token, progress)
            {
                continue;
            }
            return Some(message);
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

impl<T> Drop for Tap<T> {
    fn drop(&mut self) {
        self.wire.ended.cancel();
    }
}

fn progress_of(message: &ServerJsonRpcMessage) -> Option<(&ProgressToken, Progress)> {
    let JsonRpcMessage::Notification(notification) = message else { return None };
    let ServerNotification::ProgressNotification(progress) = &notification.notification else { return None };
    let params = &progress.params;
    let progress =
        Progress { progress: params.progress, total: params.total, message: params.message.clone() };
    Some((&params.progress_token, progress))
}
