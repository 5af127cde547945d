//! One request on a live connection, such as the call of a tool: time limit, cancel and progress are ours; the bytes
//! go through rmcp's session. It never sends a request twice.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use evi_domain::{CallContext, CallError, Progress, ToolAddress, ToolResult, UpstreamName};
use rmcp::{
    RoleClient,
    model::{CancelledNotification, CancelledNotificationParam, ClientNotification, RequestId, ServerResult},
    service::{Peer, PeerRequestOptions, ServiceError},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    actor::Note,
    error::Fault,
    wire::{Mark, Ticket, Wire},
};

/// How long calls to a server may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Without a sign of life; starts again with every progress.
    pub(crate) call: Duration,
    /// However much progress it reports.
    pub(crate) total: Duration,
}

/// How long telling the server about a cancel may take.
const CANCEL_LIMIT: Duration = Duration::from_secs(1);
/// How long to wait for the reason of a connection that just ended.
const REASON_LIMIT: Duration = Duration::from_secs(2);

/// The way in to a server that is ready.
pub(crate) struct Link {
    pub(crate) peer: Peer<RoleClient>,
    pub(crate) wire: Arc<Wire>,
    /// Host and port, for a server behind HTTP.
    pub(crate) host: Option<String>,
    pub(crate) notes: mpsc::Sender<Note>,
    pub(crate) limits: Limits,
    running: watch::Sender<usize>,
    closed: CancellationToken,
    reason: Mutex<String>,
}

impl Link {
    pub(crate) fn new(
        peer: Peer<RoleClient>,
        wire: Arc<Wire>,
        host: Option<String>,
        notes: mpsc::Sender<Note>,
        limits: Limits,
    ) -> Self {
        Self {
            peer,
            wire,
            host,
            notes,
            limits,
            running: watch::Sender::new(0),
            closed: CancellationToken::new(),
            reason: Mutex::default(),
        }
    }

    /// Waits until no call runs, at most `within`.
    pub(crate) async fn drain(&self, within: Duration) {
        let mut running = self.running.subscribe();
        let _ = timeout(within, running.wait_for(|n| *n == 0)).await;
    }

    /// Ends every call that still runs, with this reason.
    pub(crate) fn close(&self, reason: String) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
        self.closed.cancel();
    }

    fn unavailable(&self, name: &UpstreamName) -> CallError {
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let reason = if reason.is_empty() { "it went away during the call".to_owned() } else { reason };
        CallError::Unavailable { upstream: name.to_string(), reason }
    }

    async fn unavailable_soon(&self, name: &UpstreamName) -> CallError {
        let _ = timeout(REASON_LIMIT, self.closed.cancelled()).await;
        self.unavailable(name)
    }

    /// Tells the server that nobody waits for this any more.
    pub(crate) async fn tell_cancelled(peer: &Peer<RoleClient>, id: RequestId, reason: &str) {
        let params = CancelledNotificationParam::new(Some(id), Some(reason.to_owned()));
        let note = ClientNotification::CancelledNotification(CancelledNotification::new(params));
        let _ = timeout(CANCEL_LIMIT, peer.send_notification(note)).await;
    }
}

struct Running<'a>(&'a Link);

impl<'a> Running<'a> {
    fn new(link: &'a Link) -> Self {
        link.running.send_modify(|n| *n += 1);
        Self(link)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.send_modify(|n| *n -= 1);
    }
}

/// Cancels at the server when the caller drops the call.
struct Abandon<'a> {
    link: &'a Link,
    id: Option<RequestId>,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let _ = self.link.notes.try_send(Note::TellCancelled(id));
        }
    }
}

/// What is asked of a server.
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    /// The tool, prompt or resource that it is about.
    pub(crate) subject: &'a str,
    /// A JSON object without `_meta`.
    pub(crate) params: Box<RawValue>,
}

/// Calls `tool` and waits for its end.
pub(crate) async fn call(
    link: &Link,
    name: &UpstreamName,
    tool: &str,
    arguments: &RawValue,
    context: &CallContext,
    limit: Duration,
) -> Result<ToolResult, CallError> {
    #[derive(Serialize)]
    struct Params<'a> {
        name: &'a str,
        arguments: &'a RawValue,
    }
    if !arguments.get().trim_start().starts_with('{') {
        let address = ToolAddress::upstream(name.clone(), tool);
        let reason = "the arguments are not a JSON object".to_owned();
        return Err(CallError::InvalidArguments { address, reason });
    }
    let params = serde_json::value::to_raw_value(&Params { name: tool, arguments }).map_err(internal)?;
    let ask = Ask { method: "tools/call", subject: tool, params };
    request(link, name, ask, context, limit).await.map(ToolResult::from_raw)
}

/// Sends a request and waits for its result object. `limit` starts again with every progress.
pub(crate) async fn request(
    link: &Link,
    name: &UpstreamName,
    ask: Ask<'_>,
    context: &CallContext,
    limit: Duration,
) -> Result<Box<RawValue>, CallError> {
    let address = || ToolAddress::upstream(name.clone(), ask.subject);
    let _running = Running::new(link);
    let (ticket, mut progress) = link.wire.open(true);
    let mark = Mark {
        ticket: ticket.number,
        progress: true,
        params: Some(Arc::from(ask.params)),
        subject: Some(Arc::from(ask.subject)),
    };
    let request = mark.request(ask.method);
    let sending = link.peer.send_request_with_option(request, PeerRequestOptions::no_options());
    let mut handle = tokio::select! {
        biased;
        () = link.closed.cancelled() => return Err(link.unavailable(name)),
        () = context.cancel.cancelled() => return Err(CallError::Cancelled),
        sent = sending => match sent {
            Ok(handle) => handle,
            Err(_) => return Err(link.unavailable_soon(name).await),
        },
    };
    let mut abandon = Abandon { link, id: Some(handle.id.clone()) };
    let hard = Instant::now() + link.limits.total;
    let mut idle = Instant::now() + limit;
    let answer = loop {
        tokio::select! {
            biased;
            Some(step) = progress.recv() => {
                idle = Instant::now() + limit;
                forward(context, step);
            }
            answer = &mut handle.rx => break answer,
            () = link.closed.cancelled() => {
                abandon.id = None;
                return Err(link.unavailable(name));
            }
            () = context.cancel.cancelled() => {
                abandon.id = None;
                Link::tell_cancelled(&link.peer, handle.id.clone(), "the caller cancelled").await;
                return Err(CallError::Cancelled);
            }
            () = sleep_until(idle.min(hard)) => {
                abandon.id = None;
                Link::tell_cancelled(&link.peer, handle.id.clone(), "no answer in time").await;
                let after = if idle <= hard { limit } else { link.limits.total };
                return Err(CallError::TimedOut { address: address(), after });
            }
        }
    };
    abandon.id = None;
    // What was told before the answer is forwarded before it.
    while let Ok(step) = progress.try_recv() {
        forward(context, step);
    }
    match answer {
        Ok(Ok(result)) => finish(name, &ticket, &result),
        Ok(Err(error)) => Err(explain(link, name, error).await),
        Err(_) => Err(link.unavailable_soon(name).await),
    }
}

fn forward(context: &CallContext, step: Progress) {
    if let Some(send) = &context.progress {
        // A reader that is behind misses a step rather than hold up the answer.
        let _ = send.try_send(step);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn internal(error: serde_json::Error) -> CallError {
    CallError::Internal { message: error.to_string() }
}

fn finish(name: &UpstreamName, ticket: &Ticket, result: &ServerResult) -> Result<Box<RawValue>, CallError> {
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(rename = "resultType", borrow)]
        kind: Option<std::borrow::Cow<'a, str>>,
    }
    let raw = ticket.result(result).map_err(internal)?;
    let Ok(Kind { kind }) = serde_json::from_str::<Kind<'_>>(raw.get()) else {
        return Err(CallError::Rpc {
            code: -32603,
            message: format!("{name} answered with something that is not a result"),
            data: None,
        });
    };
    match kind.as_deref() {
        None | Some("complete") => Ok(raw),
        Some(other) => Err(CallError::Unavailable {
            upstream: name.to_string(),
            reason: format!("it asks for more ({other}), which eVi does not give yet"),
        }),
    }
}

async fn explain(link: &Link, name: &UpstreamName, error: ServiceError) -> CallError {
    match error {
        ServiceError::McpError(error) => {
            if link.host.is_some() && error.message.to_ascii_lowercase().contains("session") {
                // Some servers that forgot the session say so in a body of their own.
                let _ = link.notes.try_send(Note::Suspect(Fault::SessionDoubtful));
            }
            CallError::Rpc {
                code: i64::from(error.code.0),
                message: error.message.into_owned(),
                data: error.data,
            }
        }
        ServiceError::Cancelled { .. } => CallError::Cancelled,
        ServiceError::TransportSend(error) => {
            let Some(fault) = sent_fault(error) else {
                return link.unavailable_soon(name).await;
            };
            let reason = match fault {
                Fault::SessionExpired => {
                    "it had forgotten the session; a new one is opened, call again".to_owned()
                }
                ref fault => fault.to_string(),
            };
            let _ = link.notes.try_send(Note::Suspect(fault));
            CallError::Unavailable { upstream: name.to_string(), reason }
        }
        ServiceError::TransportClosed => link.unavailable_soon(name).await,
        other => CallError::Internal { message: other.to_string() },
    }
}

/// What a failed send over HTTP means; `None` for a pipe.
pub(crate) fn sent_fault(error: rmcp::transport::DynamicTransportError) -> Option<Fault> {
    error.error.downcast().ok().map(|fault| *fault)
}
