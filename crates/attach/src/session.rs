//! What a bridge remembers of its client over a change of backend; reads and writes no stream.

use std::collections::{HashMap, HashSet, VecDeque};

use tokio::time::Instant;
use tokio_util::bytes::Bytes;

use crate::peek::{self, Id, Message, Offers};

/// JSON-RPC's code for what the owner did not live to answer.
const ENDED_CODE: i32 = -32000;
/// How many lines may wait for a backend, and how many bytes.
const WAITING_LINES: usize = 64;
const WAITING_BYTES: usize = 64 * 1024 * 1024;
/// How many requests of former backends are remembered that the client has not answered.
const STALE: usize = 256;

/// What to do with a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// As it is.
    Relay,
    /// This instead.
    Replace(Bytes),
    /// Not at all.
    Drop,
}

/// A line that came while no backend was there.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub since: Instant,
    pub line: Bytes,
    pub requests: Vec<Id>,
}

/// The client's side of the bridge.
#[derive(Debug, Default)]
pub(crate) struct Session {
    handshake: Option<Handshake>,
    /// Requests of the client that the present backend has not answered.
    under_way: HashSet<Id>,
    /// Requests of the present backend that the client has not answered, and the id that the client knows.
    asked: HashMap<Id, Id>,
    /// Ids that the client may still answer although who asked is gone.
    stale: VecDeque<Id>,
    /// Answers to what the bridge itself said to the present backend.
    swallow: HashSet<Id>,
    waiting: VecDeque<Waiting>,
    own_ids: u64,
}

/// What a legacy client said once and must not say again.
#[derive(Debug)]
struct Handshake {
    id: Id,
    initialize: Bytes,
    answered: bool,
    offers: Option<Offers>,
    initialized: Option<Bytes>,
    level: Option<Bytes>,
    subscriptions: HashMap<String, Bytes>,
}

/// What a new backend must hear before anything else.
#[derive(Debug)]
pub(crate) struct Replay {
    /// The answer that must come first.
    pub id: Id,
    pub initialize: Bytes,
    /// To be said after that.
    pub then: Vec<Bytes>,
}

impl Session {
    /// A line of the client, on its way to the present backend.
    pub(crate) fn client_said(&mut self, line: &Bytes) -> Action {
        let messages = peek::messages(line);
        let mut action = if messages.is_empty() { Action::Relay } else { Action::Drop };
        for message in messages {
            match message {
                Message::Request { id, method } => {
                    self.remember_request(&id, &method, line);
                    self.under_way.insert(id);
                    action = Action::Relay;
                }
                Message::Notification { method } => {
                    self.remember_notification(&method, line);
                    action = Action::Relay;
                }
                Message::Answer { id } => {
                    let asked =
                        self.asked.iter().find(|(_, shown)| **shown == id).map(|(own, _)| own.clone());
                    let Some(own) = asked else {
                        // Who asked is gone, or nobody did.
                        self.stale.retain(|stale| *stale != id);
                        continue;
                    };
                    self.asked.remove(&own);
                    if own == id {
                        action = Action::Relay;
                    } else if let Some(line) = peek::with_id(line, &own) {
                        action = Action::Replace(line.into());
                    }
                }
            }
        }
        action
    }

    fn remember_request(&mut self, id: &Id, method: &str, line: &Bytes) {
        if method == "initialize" {
            self.handshake = Some(Handshake {
                id: id.clone(),
                initialize: line.clone(),
                answered: false,
                offers: None,
                initialized: None,
                level: None,
                subscriptions: HashMap::new(),
            });
        }
        let Some(handshake) = &mut self.handshake else { return };
        match method {
            "logging/setLevel" => handshake.level = Some(line.clone()),
            "resources/subscribe" => {
                if let Some(uri) = peek::uri(line) {
                    handshake.subscriptions.insert(uri, line.clone());
                }
            }
            "resources/unsubscribe" => {
                if let Some(uri) = peek::uri(line) {
                    handshake.subscriptions.remove(&uri);
                }
            }
            _ => {}
        }
    }

    fn remember_notification(&mut self, method: &str, line: &Bytes) {
        match method {
            "notifications/initialized" => {
                if let Some(handshake) = &mut self.handshake {
                    handshake.initialized = Some(line.clone());
                }
            }
            // A cancelled request gets no answer any more, also not from us.
            "notifications/cancelled" => {
                if let Some(id) = peek::cancelled_id(line) {
                    self.under_way.remove(&id);
                }
            }
            _ => {}
        }
    }

    /// A line of the present backend, on its way to the client.
    pub(crate) fn backend_said(&mut self, line: &[u8]) -> Action {
        let mut action = Action::Relay;
        for message in peek::messages(line) {
            match message {
                Message::Answer { id } => {
                    self.under_way.remove(&id);
                    if self.swallow.remove(&id) {
                        action = Action::Drop;
                    } else if let Some(handshake) =
                        self.handshake.as_mut().filter(|h| !h.answered && h.id == id)
                    {
                        handshake.offers = peek::offers(line);
                        handshake.answered = handshake.offers.is_some();
                    }
                }
                Message::Request { id, .. } => {
                    let mut shown = id.clone();
                    if self.stale.contains(&id) {
                        // The client still has one of this id open: its answer must not be taken for this one's.
                        let other = self.own_id();
                        if let Some(line) = peek::with_id(line, &other) {
                            action = Action::Replace(line.into());
                            shown = other;
                        }
                    }
                    self.asked.insert(id, shown);
                }
                Message::Notification { method } if method == "notifications/cancelled" => {
                    let Some(own) = peek::cancelled_id(line) else { continue };
                    if let Some(shown) = self.asked.remove(&own)
                        && shown != own
                    {
                        action = Action::Replace(cancelled(&shown, "the backend cancelled it"));
                    }
                }
                Message::Notification { .. } => {}
            }
        }
        action
    }

    /// The backend's answer was too long to relay: what the client gets instead.
    pub(crate) fn too_long_backend_said(&mut self, head: &[u8]) -> Option<Bytes> {
        let id = peek::id_of_head(head)?;
        self.under_way.remove(&id).then(|| error(&id, "the answer is larger than 64 MiB"))
    }

    /// Whether the client still waits for an answer.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// The backend is gone: what to tell the client. An unanswered `initialize` goes to the next one instead.
    pub(crate) fn backend_ended(&mut self) -> Vec<Bytes> {
        self.swallow.clear();
        let mut lines = Vec::new();
        if let Some(handshake) = self.handshake.take_if(|handshake| !handshake.answered)
            && self.under_way.remove(&handshake.id)
        {
            let (since, requests) = (Instant::now(), vec![handshake.id]);
            self.waiting.push_front(Waiting { since, line: handshake.initialize, requests });
        }
        lines.extend(self.under_way.drain().map(|id| error(&id, "the owner ended")));
        for (_, shown) in self.asked.drain() {
            lines.push(cancelled(&shown, "the owner ended"));
            self.stale.push_back(shown);
        }
        while self.stale.len() > STALE {
            self.stale.pop_front();
        }
        lines
    }

    /// What the next backend must hear first; `None` when the client shook no hands (yet, or never does).
    pub(crate) fn replay(&mut self) -> Option<Replay> {
        let handshake = self.handshake.as_ref().filter(|handshake| handshake.answered)?;
        let requests: Vec<Bytes> =
            handshake.level.iter().chain(handshake.subscriptions.values()).cloned().collect();
        let (initialize, initialized) = (handshake.initialize.clone(), handshake.initialized.clone());
        let (id, initialize) = self.under_own_id(&initialize)?;
        let mut then: Vec<Bytes> = initialized.into_iter().collect();
        if !then.is_empty() {
            for line in requests {
                if let Some((id, line)) = self.under_own_id(&line) {
                    self.swallow.insert(id);
                    then.push(line);
                }
            }
        }
        Some(Replay { id, initialize, then })
    }

    /// What the client must ask for again after a replay.
    pub(crate) fn list_changes(&self) -> Vec<Bytes> {
        let Some(handshake) = self.handshake.as_ref().filter(|handshake| handshake.initialized.is_some())
        else {
            return Vec::new();
        };
        let offers = handshake.offers.unwrap_or(Offers { tools: true, resources: true, prompts: true });
        [("tools", offers.tools), ("resources", offers.resources), ("prompts", offers.prompts)]
            .into_iter()
            .filter(|(_, offered)| *offered)
            .map(|(what, _)| {
                format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/{what}/list_changed\"}}\n").into()
            })
            .collect()
    }

    fn under_own_id(&mut self, line: &[u8]) -> Option<(Id, Bytes)> {
        let id = self.own_id();
        peek::with_id(line, &id).map(|line| (id, line.into()))
    }

    fn own_id(&mut self) -> Id {
        self.own_ids += 1;
        format!("\"evi-bridge-{}\"", self.own_ids)
    }

    /// Whether another line can wait for a backend.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_LINES
            && self.waiting.iter().map(|waiting| waiting.line.len()).sum::<usize>() < WAITING_BYTES
    }

    /// Keeps a line of the client until a backend is there. Answers are to nobody then, and dropped.
    pub(crate) fn wait(&mut self, line: Bytes) {
        let messages = peek::messages(&line);
        if !messages.is_empty() && messages.iter().all(|m| matches!(m, Message::Answer { .. })) {
            return;
        }
        let requests = messages.into_iter().filter_map(|message| match message {
            Message::Request { id, .. } => Some(id),
            _ => None,
        });
        self.waiting.push_back(Waiting { since: Instant::now(), requests: requests.collect(), line });
    }

    /// The next line that waited.
    pub(crate) fn next_waiting(&mut self) -> Option<Bytes> {
        self.waiting.pop_front().map(|waiting| waiting.line)
    }

    /// Whether nothing waits.
    pub(crate) fn nothing_waits(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Since when the oldest request waits.
    pub(crate) fn oldest_request(&self) -> Option<Instant> {
        self.waiting.iter().filter(|waiting| !waiting.requests.is_empty()).map(|waiting| waiting.since).min()
    }

    /// Gives up on requests that came at or before `then`: what to tell the client.
    pub(crate) fn expire(&mut self, then: Instant) -> Vec<Bytes> {
        let mut lines = Vec::new();
        self.waiting.retain(|waiting| {
            let expired = !waiting.requests.is_empty() && waiting.since <= then;
            if expired {
                lines.extend(
                    waiting.requests.iter().map(|id| error(id, "the owner ended, and no other came in time")),
                );
            }
            !expired
        });
        lines
    }
}

/// A failed answer.
pub(crate) fn error(id: &str, message: &str) -> Bytes {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{ENDED_CODE},\"message\":\"{message}\"}}}}\n"
    )
    .into()
}

fn cancelled(id: &str, reason: &str) -> Bytes {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\
         \"params\":{{\"requestId\":{id},\"reason\":\"{reason}\"}}}}\n"
    )
    .into()
}
