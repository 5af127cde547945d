//! Lists what a connection offers: every page of every list, each name once. It keeps an entry's JSON as it came
//! wherever the transport lets it, and gives up a list that fails, not its server.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use evi_domain::{LogStream, Offer, PromptDef, ResourceDef, TemplateDef, ToolDef};
use rmcp::{
    RoleClient,
    model::{ClientRequest, CustomRequest, ErrorCode, ServerPeerInfo},
    service::{Peer, PeerRequestOptions, ServiceError},
};
use serde_json::{Map, Value};
use tokio::{sync::Notify, time::timeout};

use crate::{
    log::Log,
    wire::{Mark, Wire},
};

/// Pages of one list.
const PAGES: usize = 200;
/// Entries of one list.
const ENTRIES: usize = 20_000;
/// How long a list may take beside that of tools, which has all the time of its start.
const LIST_LIMIT: Duration = Duration::from_secs(15);

/// One of a server's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl List {
    const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    /// The method, the list's field in the answer, and what tells its entries apart.
    fn wire(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Tools => ("tools/list", "tools", "name"),
            Self::Resources => ("resources/list", "resources", "uri"),
            Self::Templates => ("resources/templates/list", "resourceTemplates", "uriTemplate"),
            Self::Prompts => ("prompts/list", "prompts", "name"),
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Resources => "resource",
            Self::Templates => "resource template",
            Self::Prompts => "prompt",
        }
    }
}

/// A set of lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists(u8);

impl Lists {
    pub(crate) const RESOURCES: Self = Self(1 << List::Resources as u8 | 1 << List::Templates as u8);

    pub(crate) fn has(self, list: List) -> bool {
        self.0 & 1 << list as u8 != 0
    }

    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }

    #[must_use]
    pub(crate) fn and(self, other: impl Into<Self>) -> Self {
        Self(self.0 | other.into().0)
    }

    fn set(&mut self, list: List, whether: bool) {
        let bit = 1 << list as u8;
        self.0 = if whether { self.0 | bit } else { self.0 & !bit };
    }
}

impl From<List> for Lists {
    fn from(list: List) -> Self {
        Self(1 << list as u8)
    }
}

/// Lists that a server said have changed, until somebody takes them.
#[derive(Default)]
pub(crate) struct Changes {
    lists: Mutex<Lists>,
    notify: Notify,
}

impl Changes {
    pub(crate) fn add(&self, lists: impl Into<Lists>) {
        let mut all = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        *all = all.and(lists);
        drop(all);
        self.notify.notify_one();
    }

    pub(crate) async fn some(&self) {
        self.notify.notified().await;
    }

    pub(crate) fn take(&self) -> Lists {
        std::mem::take(&mut self.lists.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Why there is no list.
pub(crate) enum ListError {
    /// The connection is gone or broken.
    Transport(ServiceError),
    /// The server says no, or says nonsense.
    Answer(String),
}

struct Entries {
    entries: Vec<Map<String, Value>>,
    left_out: usize,
}

/// What one round of asking gave, list by list; a text is why there is none.
pub(crate) struct Fresh(Vec<(List, Result<Entries, String>)>);

impl Fresh {
    /// Why there is nothing at all, when every list that was asked for failed.
    fn failure(&self) -> Option<&str> {
        let reasons = self.0.iter().map(|(_, listed)| listed.as_ref().err().map(String::as_str));
        reasons.reduce(|a, b| a.and(b).and(a)).flatten()
    }

    /// The same as an error, for who needs proof that the server answers.
    pub(crate) fn proven(self) -> Result<Self, ListError> {
        match self.failure() {
            Some(reason) => Err(ListError::Answer(reason.to_owned())),
            None => Ok(self),
        }
    }
}

/// What a server offers, as far as it could be listed.
pub(crate) struct Inventory {
    pub(crate) offer: Arc<Offer>,
    /// What it has lists of.
    pub(crate) declared: Lists,
    /// Of which of them it tells changes.
    pub(crate) announced: Lists,
    left_out: [usize; List::ALL.len()],
    /// Those that could not be listed the last time.
    failed: Lists,
}

impl Inventory {
    /// Nothing yet but what the handshake said; `server` is what the server said of itself.
    pub(crate) fn new(info: &ServerPeerInfo, server: Map<String, Value>) -> Self {
        let capabilities = &info.capabilities;
        // Tools are asked for in any case: some servers have them and do not say so, and only an answer proves that a
        // server works.
        let (mut declared, mut announced) = (Lists::from(List::Tools), Lists::default());
        let tells = |flag: Option<bool>| flag.unwrap_or(false);
        if capabilities.tools.as_ref().is_some_and(|c| tells(c.list_changed)) {
            announced = announced.and(List::Tools);
        }
        if let Some(resources) = &capabilities.resources {
            declared = declared.and(Lists::RESOURCES);
            if tells(resources.list_changed) {
                announced = announced.and(Lists::RESOURCES);
            }
        }
        if let Some(prompts) = &capabilities.prompts {
            declared = declared.and(List::Prompts);
            if tells(prompts.list_changed) {
                announced = announced.and(List::Prompts);
            }
        }
        let offer = Offer {
            instructions: info.instructions.clone().filter(|text| !text.trim().is_empty()),
            server: Some(server).filter(|server| !server.is_empty()),
            completes: capabilities.completions.is_some(),
            ..Offer::default()
        };
        let left_out = Default::default();
        Self { offer: Arc::new(offer), declared, announced, left_out, failed: Lists::default() }
    }

    /// Puts fresh lists in place of the old ones; one that failed leaves the old one. Tells whether anything is
    /// different.
    pub(crate) fn update(&mut self, fresh: Fresh, log: &Log) -> bool {
        let mut offer = Offer::clone(&self.offer);
        for (list, listed) in fresh.0 {
            self.failed.set(list, listed.is_err());
            let Entries { entries, left_out } = match listed {
                Ok(entries) => entries,
                Err(reason) => {
                    warn(log, &format!("its {}s could not be listed: {reason}", list.noun()));
                    continue;
                }
            };
            self.left_out[list as usize] = left_out;
            let entries = entries.into_iter();
            match list {
                List::Tools => offer.tools = entries.filter_map(ToolDef::new).collect(),
                List::Resources => offer.resources = entries.filter_map(ResourceDef::new).collect(),
                List::Templates => offer.templates = entries.filter_map(TemplateDef::new).collect(),
                List::Prompts => offer.prompts = entries.filter_map(PromptDef::new).collect(),
            }
        }
        let changed = offer != *self.offer;
        if changed {
            self.offer = Arc::new(offer);
        }
        changed
    }

    fn count(&self, list: List) -> usize {
        match list {
            List::Tools => self.offer.tools.len(),
            List::Resources => self.offer.resources.len(),
            List::Templates => self.offer.templates.len(),
            List::Prompts => self.offer.prompts.len(),
        }
    }

    /// `14 tools`, `4 tools, 2 prompts, 2 left out (see its log)`, `1 tool, no resources (see its log)`.
    pub(crate) fn detail(&self) -> String {
        let mut parts = Vec::new();
        for list in List::ALL {
            let (noun, count) = (list.noun(), self.count(list));
            if self.failed.has(list) && count == 0 {
                parts.push(format!("no {noun}s (see its log)"));
            } else if count == 1 {
                parts.push(format!("1 {noun}"));
            } else if count > 1 {
                parts.push(format!("{count} {noun}s"));
            }
        }
        if parts.is_empty() {
            parts.push("0 tools".to_owned());
        }
        match self.left_out.iter().sum::<usize>() {
            0 => {}
            left_out => parts.push(format!("{left_out} left out (see its log)")),
        }
        parts.join(", ")
    }
}

/// Asks for `lists`. Takes as long as the server does: bound it.
pub(crate) async fn list(
    peer: &Peer<RoleClient>,
    wire: &Arc<Wire>,
    log: &Log,
    lists: Lists,
) -> Result<Fresh, ServiceError> {
    let mut fresh = Vec::new();
    for list in List::ALL.into_iter().filter(|list| lists.has(*list)) {
        let listing = list_all(peer, wire, log, list);
        let listed = if list == List::Tools {
            listing.await
        } else {
            let late = || ListError::Answer(format!("no answer within {} s", LIST_LIMIT.as_secs()));
            timeout(LIST_LIMIT, listing).await.unwrap_or_else(|_| Err(late()))
        };
        match listed {
            Ok(entries) => fresh.push((list, Ok(entries))),
            Err(ListError::Answer(reason)) => fresh.push((list, Err(reason))),
            Err(ListError::Transport(error)) => return Err(error),
        }
    }
    Ok(Fresh(fresh))
}

async fn list_all(
    peer: &Peer<RoleClient>,
    wire: &Arc<Wire>,
    log: &Log,
    list: List,
) -> Result<Entries, ListError> {
    let noun = list.noun();
    let mut listed = Entries { entries: Vec::new(), left_out: 0 };
    let mut names = HashSet::new();
    let mut cursors = HashSet::new();
    let mut cursor = None;
    for _ in 0..PAGES {
        let Some((entries, next)) = list_page(peer, wire, list, cursor).await? else { return Ok(listed) };
        for entry in entries {
            take(list, entry, &mut listed, &mut names, wire, log);
        }
        if listed.entries.len() > ENTRIES {
            listed.left_out += listed.entries.len() - ENTRIES;
            listed.entries.truncate(ENTRIES);
            warn(log, &format!("it lists more than {ENTRIES} {noun}s; the rest is left out"));
            return Ok(listed);
        }
        let Some(next) = next.filter(|next| !next.is_empty()) else { return Ok(listed) };
        if !cursors.insert(next.clone()) {
            warn(log, &format!("its list of {noun}s repeats a page; the list ends there"));
            return Ok(listed);
        }
        cursor = Some(next);
    }
    warn(log, &format!("its list of {noun}s has more than {PAGES} pages; the rest is left out"));
    Ok(listed)
}

fn take(list: List, entry: Value, listed: &mut Entries, names: &mut HashSet<String>, wire: &Wire, log: &Log) {
    let (noun, (_, _, key)) = (list.noun(), list.wire());
    let Value::Object(mut json) = entry else {
        listed.left_out += 1;
        warn(log, &format!("an entry of its list of {noun}s is not an object and is left out"));
        return;
    };
    // A tool without a schema takes anything: readers expect an object.
    if list == List::Tools && !json.get("inputSchema").is_some_and(Value::is_object) {
        json.insert("inputSchema".to_owned(), open_object());
    }
    match json.get(key).and_then(Value::as_str).filter(|name| !name.is_empty()) {
        None => {
            listed.left_out += 1;
            warn(log, &format!("a {noun} without a {key} is left out"));
        }
        Some(name) if !names.insert(name.to_owned()) => {
            listed.left_out += 1;
            warn(log, &format!("it lists the {noun} {name} twice; the first one counts"));
        }
        Some(name) => {
            if list == List::Tools
                && let Err(reason) = wire.learn(name, json.get("inputSchema").and_then(Value::as_object))
            {
                listed.left_out += 1;
                warn(log, &format!("the tool {name} is left out: {reason}"));
                return;
            }
            listed.entries.push(json);
        }
    }
}

fn open_object() -> Value {
    Value::Object(Map::from_iter([("type".to_owned(), Value::from("object"))]))
}

fn warn(log: &Log, text: &str) {
    log.push(LogStream::Evi, text);
}

/// One page and the next one's cursor; `None` when the server has no such list at all.
async fn list_page(
    peer: &Peer<RoleClient>,
    wire: &Arc<Wire>,
    list: List,
    cursor: Option<String>,
) -> Result<Option<(Vec<Value>, Option<String>)>, ListError> {
    let (method, field, _) = list.wire();
    let (ticket, _) = wire.open(false);
    let params = cursor.map(|cursor| serde_json::json!({"cursor": cursor}));
    let mut request = CustomRequest::new(method, params);
    request.extensions.insert(Mark { ticket: ticket.number, progress: false, params: None, subject: None });
    let handle = peer
        .send_request_with_option(ClientRequest::CustomRequest(request), PeerRequestOptions::no_options())
        .await
        .map_err(ListError::Transport)?;
    let result = match handle.rx.await {
        Ok(Ok(result)) => result,
        Ok(Err(ServiceError::McpError(error))) if error.code == ErrorCode::METHOD_NOT_FOUND => {
            return Ok(None);
        }
        Ok(Err(ServiceError::McpError(error))) => {
            return Err(ListError::Answer(error.message.chars().take(300).collect()));
        }
        Ok(Err(error)) => return Err(ListError::Transport(error)),
        Err(_) => return Err(ListError::Transport(ServiceError::TransportClosed)),
    };
    let nonsense =
        |what: &dyn std::fmt::Display| ListError::Answer(format!("the answer has no list: {what}"));
    let raw = ticket.result(&result).map_err(|error| nonsense(&error))?;
    let mut page: Map<String, Value> = serde_json::from_str(raw.get()).map_err(|error| nonsense(&error))?;
    let Some(Value::Array(entries)) = page.remove(field) else {
        return Err(nonsense(&format!("missing field `{field}`")));
    };
    let next = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
    Ok(Some((entries, next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(keys: &[&str], key: &str) -> Result<Entries, String> {
        let entry = |name: &&str| Map::from_iter([(key.to_owned(), Value::from(*name))]);
        Ok(Entries { entries: keys.iter().map(entry).collect(), left_out: 0 })
    }

    fn inventory() -> Inventory {
        Inventory::new(&ServerPeerInfo::new(Default::default(), Default::default()), Map::new())
    }

    #[test]
    fn the_detail_counts_what_there_is_and_says_what_could_not_be_listed() {
        let log = Log::new(None, None);
        let mut inventory = inventory();
        assert_eq!(inventory.detail(), "0 tools");
        let tools = (List::Tools, entries(&["a"], "name"));
        let prompts = (List::Prompts, entries(&["p", "q"], "name"));
        assert!(inventory.update(Fresh(vec![tools, prompts, (List::Resources, Err("boom".into()))]), &log));
        assert_eq!(inventory.detail(), "1 tool, no resources (see its log), 2 prompts");
        assert_eq!(log.lines()[0].text, "its resources could not be listed: boom");
        // A later failure leaves what is known.
        assert!(!inventory.update(Fresh(vec![(List::Prompts, Err("boom".into()))]), &log));
        assert!(inventory.update(Fresh(vec![(List::Resources, entries(&["x:1"], "uri"))]), &log));
        assert_eq!(inventory.detail(), "1 tool, 1 resource, 2 prompts");
    }

    #[test]
    fn only_when_every_list_failed_is_there_nothing() {
        let failed = || (List::Tools, Err("boom".to_owned()));
        assert_eq!(Fresh(vec![failed()]).failure(), Some("boom"));
        assert_eq!(Fresh(vec![failed(), (List::Prompts, Err("no".into()))]).failure(), Some("boom"));
        assert_eq!(Fresh(vec![failed(), (List::Prompts, entries(&[], "name"))]).failure(), None);
        assert_eq!(Fresh(Vec::new()).failure(), None);
    }
}
