//! What travels beside rmcp on a connection: raw parameters and results, and progress in the order it came. It
//! knows nothing of processes and URLs.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
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
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

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
    #[expect(dead_code, reason = "the transport over HTTP takes it for the header Mcp-Name")]
    pub(crate) subject: Option<Arc<str>>,
}

impl Mark {
    /// A request of `method` that carries this mark.
    ///
    /// # Errors
    /// Only where the transport takes trees: the parameters are not valid JSON.
    pub(crate) fn request(self, method: &str, raw: bool) -> serde_json::Result<ClientRequest> {
        // A transport of our own takes the parameters from the mark, byte for byte.
        let tree = match &self.params {
            Some(params) if !raw => Some(serde_json::from_str(params.get())?),
            _ => None,
        };
        let mut request = CustomRequest::new(method, tree);
        request.extensions.insert(self);
        Ok(ClientRequest::CustomRequest(request))
    }
}

/// The shared side of one connection.
pub(crate) struct Wire {
    state: Mutex<State>,
    next: AtomicI64,
    /// Whether the transport takes parameters as they came in, or a tree.
    pub(crate) raw: bool,
    /// Cancelled when nothing more comes from the server.
    pub(crate) ended: CancellationToken,
}

#[derive(Default)]
struct State {
    progress: HashMap<i64, Listener>,
    /// Ticket by the id that rmcp gave.
    sent: HashMap<i64, i64>,
    results: HashMap<i64, Box<RawValue>>,
}

struct Listener {
    last: f64,
    send: mpsc::Sender<Progress>,
}

impl Wire {
    /// For a transport of our own.
    pub(crate) fn new() -> Arc<Self> {
        Self::with(true)
    }

    /// For a transport of rmcp's, which takes trees.
    pub(crate) fn typed() -> Arc<Self> {
        Self::with(false)
    }

    fn with(raw: bool) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            next: AtomicI64::new(FIRST_TICKET),
            raw,
            ended: CancellationToken::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
