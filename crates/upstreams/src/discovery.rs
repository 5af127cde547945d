//! Lists the tools of a connection: every page, each name once. It keeps a tool's JSON as it came wherever the
//! transport lets it.

use std::collections::HashSet;

use evi_domain::{LogStream, ToolDef};
use rmcp::{
    RoleClient,
    model::{ClientRequest, CustomRequest, ErrorCode},
    service::{Peer, PeerRequestOptions, ServiceError},
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    board::tool_count,
    log::Log,
    wire::{Mark, Wire},
};

/// Pages of one list.
const PAGES: usize = 200;
/// Tools of one server.
const TOOLS: usize = 20_000;

#[derive(Deserialize)]
struct Page {
    tools: Vec<Value>,
    #[serde(rename = "nextCursor")]
    next: Option<String>,
}

/// Why there is no list.
pub(crate) enum ListError {
    /// The connection is gone or broken.
    Transport(ServiceError),
    /// The server says no, or says nonsense.
    Answer(String),
}

/// A server's tools, and how many entries of its list are not among them.
pub(crate) struct Listed {
    pub(crate) tools: Vec<ToolDef>,
    pub(crate) left_out: usize,
}

impl Listed {
    /// `14 tools`, `4 tools, 2 left out (see its log)`.
    pub(crate) fn detail(&self) -> String {
        let count = tool_count(self.tools.len());
        match self.left_out {
            0 => count,
            left_out => format!("{count}, {left_out} left out (see its log)"),
        }
    }
}

/// Lists every tool. Takes as long as the server does: bound it.
pub(crate) async fn list_tools(
    peer: &Peer<RoleClient>,
    wire: &std::sync::Arc<Wire>,
    log: &Log,
) -> Result<Listed, ListError> {
    let mut listed = Listed { tools: Vec::new(), left_out: 0 };
    let mut names = HashSet::new();
    let mut cursors = HashSet::new();
    let mut cursor = None;
    for _ in 0..PAGES {
        let Some(page) = list_page(peer, wire, cursor).await? else { return Ok(listed) };
        for tool in page.tools {
            take(tool, &mut listed, &mut names, wire, log);
        }
        if listed.tools.len() > TOOLS {
            listed.left_out += listed.tools.len() - TOOLS;
            listed.tools.truncate(TOOLS);
            warn(log, &format!("it lists more than {TOOLS} tools; the rest is left out"));
            return Ok(listed);
        }
        let Some(next) = page.next.filter(|next| !next.is_empty()) else { return Ok(listed) };
        if !cursors.insert(next.clone()) {
            warn(log, "its list of tools repeats a page; the list ends there");
            return Ok(listed);
        }
        cursor = Some(next);
    }
    warn(log, &format!("its list of tools has more than {PAGES} pages; the rest is left out"));
    Ok(listed)
}

fn take(tool: Value, listed: &mut Listed, names: &mut HashSet<String>, wire: &Wire, log: &Log) {
    let Value::Object(mut json) = tool else {
        listed.left_out += 1;
        warn(log, "an entry of its list of tools is not an object and is left out");
        return;
    };
    // A tool without a schema takes anything: readers expect an object.
    if !json.get("inputSchema").is_some_and(Value::is_object) {
        json.insert("inputSchema".to_owned(), open_object());
    }
    match ToolDef::new(json).filter(|def| !def.name().is_empty()) {
        None => {
            listed.left_out += 1;
            warn(log, "a tool without a name is left out");
        }
        Some(def) if !names.insert(def.name().to_owned()) => {
            listed.left_out += 1;
            warn(log, &format!("it lists the tool {} twice; the first one counts", def.name()));
        }
        Some(def) => match wire.learn(def.name(), def.json().get("inputSchema").and_then(Value::as_object)) {
            Ok(()) => listed.tools.push(def),
            Err(reason) => {
                listed.left_out += 1;
                warn(log, &format!("the tool {} is left out: {reason}", def.name()));
            }
        },
    }
}

fn open_object() -> Value {
    Value::Object(Map::from_iter([("type".to_owned(), Value::from("object"))]))
}

fn warn(log: &Log, text: &str) {
    log.push(LogStream::Evi, text);
}

/// One page; `None` when the server has no tools at all.
async fn list_page(
    peer: &Peer<RoleClient>,
    wire: &std::sync::Arc<Wire>,
    cursor: Option<String>,
) -> Result<Option<Page>, ListError> {
    let (ticket, _) = wire.open(false);
    let params = cursor.map(|cursor| serde_json::json!({"cursor": cursor}));
    let mut request = CustomRequest::new("tools/list", params);
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
    let page = ticket.result(&result).and_then(|raw| serde_json::from_str(raw.get()));
    page.map(Some).map_err(|error| ListError::Answer(format!("the answer has no list: {error}")))
}
