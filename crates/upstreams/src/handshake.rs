//! Finds out which era a server speaks and agrees on a version, on one connection. It never starts anything:
//! whoever calls decides whether a fresh start is worth it.
//!
//! Modern servers (2026-07-28) answer `server/discover`. Legacy ones answer it with an error, with nonsense, not
//! at all, or die of it, and want `initialize`. rmcp's own negotiation gives up on nonsense, and takes the late
//! answer of a server that is slow to start (`npx` downloads first) for a violation; so the messages are rmcp's
//! and the order is ours.

use std::{future::pending, time::Duration};

use rmcp::{
    RoleClient,
    model::{
        ClientCapabilities, ClientJsonRpcMessage, ClientNotification, ClientRequest, ClientResult,
        DiscoverRequest, DiscoverRequestParams, DiscoverResult, ErrorCode, ErrorData, Implementation,
        InitializeRequest, InitializeRequestParams, InitializedNotification, NumberOrString, ProtocolVersion,
        RequestId, RequestMetaObject, ServerJsonRpcMessage, ServerPeerInfo, ServerRequest, ServerResult,
    },
    transport::Transport,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::error::Fault;

// Far from the ids that rmcp counts from zero on the same connection.
const DISCOVER: i64 = 900_000_001;
const INITIALIZE: i64 = 900_000_002;

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Era {
    /// With a session that `initialize` opens.
    Legacy,
    /// Stateless, from 2026-07-28.
    Modern,
}

/// What is tried first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// `server/discover`, then `initialize`.
    Auto,
    /// `initialize` at once, and nothing else.
    Initialize,
    /// `server/discover`, and nothing else.
    Discover,
}

/// What to do when `server/discover` stays without an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OnSilence {
    /// Send `initialize` as well and take whichever is answered first.
    Overlap(Duration),
    /// Give up: [`Broken::Silent`]. For connections that answer one request at a time.
    GiveUp(Duration),
}

/// The end of a handshake that worked.
pub(crate) struct Agreed {
    pub(crate) info: ServerPeerInfo,
    pub(crate) era: Era,
    /// As the server wrote it.
    pub(crate) version: String,
}

/// The end of one that did not.
#[derive(Debug)]
pub(crate) enum Broken<E> {
    /// The connection ended; the flag tells whether `initialize` had been sent.
    Closed { initialize_sent: bool },
    /// Nothing came.
    Silent,
    /// A message could not be sent.
    Send(E),
    /// The server answered, and the answer will not get better.
    Fault(Fault),
}

/// Agrees with the server behind `transport`. Takes as long as the server does: bound it. `heard` is called when
/// the first answer has come.
pub(crate) async fn shake<T: Transport<RoleClient>>(
    transport: &mut T,
    lead: Lead,
    client: &Implementation,
    on_silence: OnSilence,
    heard: impl FnOnce() + Send,
) -> Result<Agreed, Broken<T::Error>> {
    let mut shaking = Shaking {
        transport,
        client,
        initialize_sent: false,
        heard: Some(heard),
        sending: JoinSet::new(),
        lead,
    };
    match on_silence {
        _ if lead == Lead::Initialize => {
            shaking.send_initialize()?;
            shaking.receive(None).await
        }
        OnSilence::Overlap(after) => {
            shaking.send_discover();
            shaking.receive(Some(Instant::now() + after)).await
        }
        OnSilence::GiveUp(after) => {
            // Over HTTP the answer belongs to the sending.
            let probe = async {
                shaking.send_discover();
                shaking.next().await
            };
            let first = tokio::time::timeout(after, probe).await.map_err(|_| Broken::Silent)??;
            shaking.hear();
            match shaking.judge(first).await? {
                Some(agreed) => Ok(agreed),
                None => shaking.receive(None).await,
            }
        }
    }
}

struct Shaking<'a, T, F, E> {
    transport: &'a mut T,
    client: &'a Implementation,
    initialize_sent: bool,
    heard: Option<F>,
    /// Over HTTP a request is sent until its answer was read, so sending and receiving go on side by side.
    sending: JoinSet<Result<(), E>>,
    lead: Lead,
}

impl<T: Transport<RoleClient>, F: FnOnce() + Send> Shaking<'_, T, F, T::Error> {
    fn hear(&mut self) {
        if let Some(heard) = self.heard.take() {
            heard();
        }
    }

    fn send(&mut self, message: ClientJsonRpcMessage) {
        self.sending.spawn(self.transport.send(message));
    }

    /// The next message, unless something cannot be sent.
    async fn next(&mut self) -> Result<ServerJsonRpcMessage, Broken<T::Error>> {
        loop {
            tokio::select! {
                biased;
                message = self.transport.receive() => {
                    return message.ok_or(Broken::Closed { initialize_sent: self.initialize_sent });
                }
                Some(sent) = self.sending.join_next(), if !self.sending.is_empty() => {
                    // A task of ours neither panics nor is aborted before its set.
                    sent.unwrap_or(Ok(())).map_err(Broken::Send)?;
                }
            }
        }
    }

    fn send_discover(&mut self) {
        let mut discover = DiscoverRequest::new(DiscoverRequestParams {});
        discover.extensions.insert(RequestMetaObject::with_client_context(
            ProtocolVersion::LATEST,
            self.client.clone(),
            ClientCapabilities::default(),
        ));
        self.send(ClientJsonRpcMessage::request(ClientRequest::DiscoverRequest(discover), id(DISCOVER)));
    }

    fn send_initialize(&mut self) -> Result<(), Broken<T::Error>> {
        if self.lead == Lead::Discover {
            let what = "it does not speak the era modern that its settings ask for".to_owned();
            return Err(Broken::Fault(Fault::NotMcp { what }));
        }
        self.initialize_sent = true;
        let mut params = InitializeRequestParams::new(ClientCapabilities::default(), self.client.clone());
        params.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        let request = InitializeRequest::new(params);
        self.send(ClientJsonRpcMessage::request(ClientRequest::InitializeRequest(request), id(INITIALIZE)));
        Ok(())
    }

    /// Until there is an agreement; `overlap_at` is when to send `initialize` unasked.
    async fn receive(&mut self, mut overlap_at: Option<Instant>) -> Result<Agreed, Broken<T::Error>> {
        loop {
            let message = tokio::select! {
                message = self.next() => message?,
                () = async { match overlap_at { Some(at) => sleep_until(at).await, None => pending().await } } => {
                    overlap_at = None;
                    if !self.initialize_sent && self.lead == Lead::Auto {
                        self.send_initialize()?;
                    }
                    continue;
                }
            };
            self.hear();
            if let Some(agreed) = self.judge(message).await? {
                return Ok(agreed);
            }
        }
    }

    async fn judge(&mut self, message: ServerJsonRpcMessage) -> Result<Option<Agreed>, Broken<T::Error>> {
        match message {
            ServerJsonRpcMessage::Response(answer) if is(&answer.id, DISCOVER) => {
                match discovered(answer.result) {
                    Some(Ok(agreed)) => return Ok(Some(agreed)),
                    Some(Err(fault)) => return Err(Broken::Fault(fault)),
                    // A success that says nothing, or one that knows only legacy versions.
                    None if !self.initialize_sent => self.send_initialize()?,
                    None => {}
                }
            }
            ServerJsonRpcMessage::Response(answer) if is(&answer.id, INITIALIZE) => {
                return self.initialized(answer.result).await.map(Some);
            }
            ServerJsonRpcMessage::Error(answer) => {
                // An error without an id answers what was sent last.
                let of_initialize =
                    answer.id.as_ref().map_or(self.initialize_sent, |answered| is(answered, INITIALIZE));
                let of_discover =
                    answer.id.as_ref().map_or(!self.initialize_sent, |answered| is(answered, DISCOVER));
                if of_initialize {
                    return Err(Broken::Fault(rejected(&answer.error)));
                }
                if of_discover && !self.initialize_sent {
                    if let Some(fault) = final_rejection(&answer.error) {
                        return Err(Broken::Fault(fault));
                    }
                    self.send_initialize()?;
                }
            }
            ServerJsonRpcMessage::Request(request)
                if matches!(request.request, ServerRequest::PingRequest(_)) =>
            {
                self.send(ClientJsonRpcMessage::response(ClientResult::empty(()), request.id));
            }
            // Log messages and the like may come before the handshake is over.
            _ => {}
        }
        Ok(None)
    }

    async fn initialized(&mut self, result: ServerResult) -> Result<Agreed, Broken<T::Error>> {
        let ServerResult::InitializeResult(mut result) = result else {
            return Err(Broken::Fault(Fault::NotMcp {
                what: "its answer to initialize has no version".into(),
            }));
        };
        let version = result.protocol_version.to_string();
        if !ProtocolVersion::KNOWN_VERSIONS.contains(&result.protocol_version) {
            return Err(Broken::Fault(Fault::UnsupportedVersion {
                version: version.chars().take(40).collect(),
            }));
        }
        if !result.protocol_version.has_initialize() {
            // It echoes a version that has no `initialize`, so it cannot mean it.
            result.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        }
        let done = InitializedNotification { method: Default::default(), extensions: Default::default() };
        let done = ClientJsonRpcMessage::notification(ClientNotification::InitializedNotification(done));
        self.transport.send(done).await.map_err(Broken::Send)?;
        Ok(Agreed { info: result.into(), era: Era::Legacy, version })
    }
}

fn id(number: i64) -> RequestId {
    NumberOrString::Number(number)
}

fn is(answered: &RequestId, number: i64) -> bool {
    match answered {
        NumberOrString::Number(n) => *n == number,
        NumberOrString::String(s) => s.parse() == Ok(number),
    }
}

/// `None` when the answer is not that of a modern server.
fn discovered(result: ServerResult) -> Option<Result<Agreed, Fault>> {
    let result = match result {
        ServerResult::DiscoverResult(result) => result,
        other => {
            // Fields that we do not use may be missing.
            let value = serde_json::to_value(&other).ok()?;
            let versions = serde_json::from_value(value.get("supportedVersions")?.clone()).ok()?;
            let capabilities =
                value.get("capabilities").cloned().unwrap_or_else(|| Value::Object(Default::default()));
            DiscoverResult::new(versions, serde_json::from_value(capabilities).ok()?)
        }
    };
    if result.supported_versions.contains(&ProtocolVersion::LATEST) {
        let version = ProtocolVersion::LATEST;
        let info = ServerPeerInfo::from_discover_result(version.clone(), result);
        return Some(Ok(Agreed { info, era: Era::Modern, version: version.to_string() }));
    }
    if result.supported_versions.iter().any(|v| ProtocolVersion::KNOWN_VERSIONS.contains(v))
        || result.supported_versions.is_empty()
    {
        return None;
    }
    Some(Err(Fault::UnsupportedVersion { version: listed(&result.supported_versions) }))
}

fn listed(versions: &[ProtocolVersion]) -> String {
    let versions: Vec<_> =
        versions.iter().take(5).map(|v| v.as_str().chars().take(40).collect::<String>()).collect();
    versions.join(", ")
}

/// An error to `server/discover` after which `initialize` makes no sense.
fn final_rejection(error: &ErrorData) -> Option<Fault> {
    match error.code {
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => {
            let supported: Vec<ProtocolVersion> = error
                .data
                .as_ref()
                .and_then(|data| data.get("supported"))
                .and_then(|list| serde_json::from_value(list.clone()).ok())
                .unwrap_or_default();
            let shared =
                supported.is_empty() || supported.iter().any(|v| ProtocolVersion::KNOWN_VERSIONS.contains(v));
            (!shared).then(|| Fault::UnsupportedVersion { version: listed(&supported) })
        }
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY | ErrorCode::HEADER_MISMATCH => Some(rejected(error)),
        _ => None,
    }
}

fn rejected(error: &ErrorData) -> Fault {
    if error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION {
        return final_rejection(error)
            .unwrap_or(Fault::UnsupportedVersion { version: "that it does not name".into() });
    }
    Fault::Rejected { code: i64::from(error.code.0), message: error.message.chars().take(300).collect() }
}
