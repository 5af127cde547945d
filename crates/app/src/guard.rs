//! The one path of every tool call: exposure → policy → approval → time limit → journal. Nothing calls a tool
//! past it.

use std::{
    borrow::Cow,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use evi_builtins::Builtins;
use evi_contract::{ApprovalView, Tag};
use evi_domain::{
    BoxFuture, CallContext, CallError, CallId, Caller, Catalog, CatalogCache, Decision, Journal,
    JournalEntry, Owner, Progress, PromptText, ResourceText, Surface, SurfaceTool, ToolDef, ToolHost,
    ToolResult, UpstreamName, policy,
};
use evi_store::{ConfigStore, Home, Redactor};
use evi_upstreams::Upstreams;
use serde_json::{Value, value::RawValue};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    approvals::{Approvals, Verdict},
    events::Events,
    exposure::{self, Stock},
};

/// How long a client of the gateway waits for the person.
pub const APPROVAL_LIMIT: Duration = Duration::from_secs(45);
/// How long a call waits for a server that is on its way.
pub const START_LIMIT: Duration = Duration::from_secs(60);
const OWN_TOOL_LIMIT: Duration = Duration::from_secs(120);
const ARGUMENTS_KEPT: usize = 4096;

/// Runs calls for whoever asks.
pub struct Guard {
    pub(crate) home: Home,
    pub(crate) config: ConfigStore,
    pub(crate) upstreams: Upstreams,
    pub(crate) builtins: Builtins,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) journal: Arc<dyn Journal>,
    /// What servers offered the last time.
    pub(crate) last_known: Arc<dyn CatalogCache>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) events: Events,
    /// Ticks when any surface may have changed.
    pub(crate) generation: watch::Sender<u64>,
    /// Whether a person can be asked: a window, a browser, or a terminal that shows questions.
    pub(crate) someone_to_ask: bool,
    pub(crate) cache: Mutex<Vec<Cached>>,
}

/// A surface and what it was made from.
pub(crate) struct Cached {
    caller: Caller,
    made_from: MadeFrom,
    surface: Arc<Surface>,
}

type MadeFrom = (u64, Option<SystemTime>, Option<SystemTime>);

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(0))
}

impl Guard {
    /// Says that surfaces may have changed.
    pub fn touch(&self) {
        self.generation.send_modify(|n| *n += 1);
    }

    /// eVi's own tools with their categories.
    pub fn own_tools(&self) -> Vec<(String, ToolDef)> {
        self.builtins.tools().into_iter().map(|t| (t.category.to_owned(), t.def)).collect()
    }

    fn build(&self, caller: &Caller) -> Surface {
        let loaded = self.config.current();
        let stock = Stock {
            config: &loaded.config,
            catalog: &self.catalog(),
            own: &self.own_tools(),
            resources: self.builtins.resources(),
            prompts: self.builtins.prompts(),
        };
        exposure::surface(stock, caller)
    }

    /// What is there, and for servers that are on their way what was there last time: a client that lists once,
    /// right at the start or while the owner changes, sees what it may call a moment later.
    fn catalog(&self) -> Catalog {
        let mut catalog = Catalog::clone(&self.upstreams.catalog());
        for status in self.upstreams.statuses() {
            if status.state.is_on_its_way()
                && !catalog.upstreams.contains_key(&status.name)
                && let Some(offer) = self.last_known.get(&status.name)
            {
                catalog.upstreams.insert(status.name, Arc::new(offer));
            }
        }
        catalog
    }

    /// Waits for a server that is on its way; the call itself then says what became of it.
    pub(crate) async fn wait_for(&self, name: &UpstreamName, cancel: &CancellationToken, within: Duration) {
        if self.upstreams.catalog().upstreams.contains_key(name) {
            return;
        }
        let mut changed = self.upstreams.changed();
        let coming = async {
            while self.upstreams.status(name).is_some_and(|s| s.state.is_on_its_way()) {
                if changed.changed().await.is_err() {
                    break;
                }
            }
        };
        tokio::select! {
            () = cancel.cancelled() => {}
            _ = tokio::time::timeout(within, coming) => {}
        }
    }

    /// What a tool takes, for a call by the person.
    pub fn schema_for_person(&self, tool: &str) -> Option<Value> {
        self.surface(&Caller::Person).tool(tool).map(|t| t.def.input_schema())
    }

    fn find(&self, caller: &Caller, name: &str) -> Result<SurfaceTool, CallError> {
        let surface = self.surface(caller);
        surface.tool(name).cloned().ok_or_else(|| CallError::UnknownTool {
            name: name.to_owned(),
            near: exposure::near(name, surface.tools.iter().map(|t| &*t.name)),
        })
    }

    async fn run(
        &self,
        caller: &Caller,
        tool: &SurfaceTool,
        id: &CallId,
        arguments: &RawValue,
        context: &CallContext,
    ) -> Result<ToolResult, CallError> {
        self.permit(caller, tool, id, arguments, context).await?;
        match &tool.address.owner {
            Owner::Upstream(name) => {
                self.wait_for(name, &context.cancel, START_LIMIT).await;
                self.upstreams.call(name, &tool.address.tool, arguments, context).await
            }
            Owner::Builtin(_) => {
                let call = self.builtins.call(caller, &tool.address.tool, arguments);
                let result = tokio::select! {
                    biased;
                    () = context.cancel.cancelled() => Err(CallError::Cancelled),
                    result = tokio::time::timeout(OWN_TOOL_LIMIT, call) => result.unwrap_or_else(|_| {
                        Err(CallError::TimedOut { address: tool.address.clone(), after: OWN_TOOL_LIMIT })
                    }),
                };
                if !self.is_read_only(tool) {
                    self.touch();
                }
                result
            }
        }
    }

    fn is_read_only(&self, tool: &SurfaceTool) -> bool {
        matches!(tool.address.owner, Owner::Builtin(_)) && tool.def.hint("readOnlyHint") == Some(true)
    }

    async fn permit(
        &self,
        caller: &Caller,
        tool: &SurfaceTool,
        id: &CallId,
        arguments: &RawValue,
        context: &CallContext,
    ) -> Result<(), CallError> {
        let address = &tool.address;
        let loaded = self.config.current();
        let facts = policy::Facts {
            address,
            arguments: arguments.get(),
            own_read_only: self.is_read_only(tool),
            share: match caller {
                Caller::Client { exposure, .. } => exposure::share(&loaded.config, exposure, &address.owner),
                _ => None,
            },
            allowed_for_chat: match caller {
                Caller::Chat { chat } => self.approvals.allowed_for_chat(chat, address),
                _ => false,
            },
        };
        let reason = match policy::decide(&loaded.config.policy, caller, facts) {
            Decision::Allow => return Ok(()),
            Decision::Deny(reason) => return Err(CallError::Forbidden { address: address.clone(), reason }),
            Decision::Ask(reason) => reason,
        };
        let denied = |reason: &str| CallError::Denied { address: address.clone(), reason: reason.to_owned() };
        if !self.someone_to_ask {
            return Err(denied(&format!(
                "{reason}, and there is no window to ask in; open eVi, or share the server without the question"
            )));
        }
        let limit = matches!(caller, Caller::Client { .. }).then_some(APPROVAL_LIMIT);
        let view = self.question(caller, tool, id, arguments, reason, limit);
        let scope = match caller {
            Caller::Chat { chat } => Some((chat.clone(), address.clone())),
            _ => None,
        };
        let asked = self.approvals.ask(id, view, scope, limit, &context.cancel);
        let verdict = tokio::select! {
            verdict = asked => verdict,
            () = tell_that_we_wait(context) => Verdict::Cancelled,
        };
        match verdict {
            Verdict::Allowed => Ok(()),
            Verdict::Denied => Err(denied("the person said no")),
            Verdict::Unanswered => {
                Err(denied("nobody answered within 45 s; answer in eVi's window, then call again"))
            }
            Verdict::Cancelled => Err(CallError::Cancelled),
        }
    }

    /// A server may repeat in its error what it was given in confidence.
    pub(crate) fn without_secrets(&self, error: CallError) -> CallError {
        let Ok(text) = serde_json::to_string(&error) else { return error };
        match self.redactor.redact(&text) {
            Cow::Borrowed(_) => error,
            Cow::Owned(clean) => serde_json::from_str(&clean).unwrap_or_else(|_| CallError::Internal {
                message: "the server's error held a secret and is not shown".to_owned(),
            }),
        }
    }

    fn question(
        &self,
        caller: &Caller,
        tool: &SurfaceTool,
        id: &CallId,
        arguments: &RawValue,
        reason: String,
        limit: Option<Duration>,
    ) -> ApprovalView {
        ApprovalView {
            call: id.to_string(),
            chat: match caller {
                Caller::Chat { chat } => Some(chat.to_string()),
                _ => None,
            },
            caller: caller_name(caller),
            tool: tool.address.to_string(),
            server: server_of(&tool.address.owner),
            arguments: serde_json::from_str(arguments.get()).unwrap_or_default(),
            reason,
            until_ms: limit.map(|limit| now_ms() + u64::try_from(limit.as_millis()).unwrap_or(0)),
        }
    }

    fn record(&self, caller: &Caller, id: &CallId, arguments: &str, ended: Ended<'_>) {
        let mut arguments = self.redactor.redact(arguments).into_owned();
        if arguments.len() > ARGUMENTS_KEPT {
            let cut = (0..=ARGUMENTS_KEPT).rev().find(|n| arguments.is_char_boundary(*n)).unwrap_or(0);
            arguments.truncate(cut);
            arguments.push('…');
        }
        self.journal.record(JournalEntry {
            id: id.clone(),
            at_ms: ended.at_ms,
            caller: caller_name(caller),
            tool: ended.tool,
            arguments,
            outcome: ended.outcome.to_owned(),
            took_ms: u64::try_from(ended.took.as_millis()).unwrap_or(u64::MAX),
        });
        self.events.invalidate(&[Tag::Activity]);
    }
}

/// How a call ended, for the journal.
struct Ended<'a> {
    tool: String,
    outcome: &'a str,
    at_ms: u64,
    took: Duration,
}

/// Tells a caller that asked for progress that the person is being asked; never ends.
async fn tell_that_we_wait(context: &CallContext) {
    if let Some(progress) = &context.progress {
        let mut beat = tokio::time::interval(Duration::from_secs(10));
        for n in 0u32.. {
            beat.tick().await;
            let message = Some("waiting for the person to allow this call in eVi".to_owned());
            // A full queue has news enough.
            let _ = progress.try_send(Progress { progress: f64::from(n) / 1000.0, total: None, message });
        }
    }
    std::future::pending::<()>().await;
}

/// `chat`, `person`, or the client's name.
pub fn caller_name(caller: &Caller) -> String {
    match caller {
        Caller::Chat { .. } => "chat".to_owned(),
        Caller::Client { name, .. } => name.to_string(),
        Caller::Person => "person".to_owned(),
    }
}

/// The server's name, for tools of servers.
pub fn server_of(owner: &Owner) -> Option<String> {
    match owner {
        Owner::Upstream(name) => Some(name.to_string()),
        Owner::Builtin(_) => None,
    }
}

impl ToolHost for Guard {
    fn surface(&self, caller: &Caller) -> Arc<Surface> {
        // What a client calls itself does not change what it sees.
        let caller = match caller {
            Caller::Client { exposure, .. } => Caller::Client { name: "".into(), exposure: exposure.clone() },
            other => other.clone(),
        };
        let made_from =
            (*self.generation.borrow(), modified(&self.home.memory()), self.builtins.commands_modified());
        {
            let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(hit) = cache.iter().find(|c| c.caller == caller && c.made_from == made_from) {
                return hit.surface.clone();
            }
        }
        let surface = Arc::new(self.build(&caller));
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.retain(|c| c.made_from == made_from && c.caller != caller);
        cache.truncate(64);
        cache.push(Cached { caller, made_from, surface: surface.clone() });
        surface
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        name: &'a str,
        arguments: Box<RawValue>,
        context: CallContext,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let (at_ms, began) = (now_ms(), Instant::now());
            let id = context.id.clone().unwrap_or_else(CallId::fresh);
            let found = self.find(caller, name);
            let shown = found.as_ref().map_or_else(|_| name.to_owned(), |t| t.address.to_string());
            let result = match found {
                Ok(tool) => self.run(caller, &tool, &id, &arguments, &context).await,
                Err(error) => Err(error),
            }
            .map_err(|error| self.without_secrets(error));
            let outcome = match &result {
                Ok(result) if result.is_error() => "tool_error",
                Ok(_) => "ok",
                Err(error) => error.code(),
            };
            let ended = Ended { tool: shown, outcome, at_ms, took: began.elapsed() };
            self.record(caller, &id, arguments.get(), ended);
            result
        })
    }

    fn read_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ResourceText, CallError>> {
        Box::pin(async move {
            if !self.surface(caller).resources.iter().any(|r| &*r.uri == uri) {
                return Err(not_there("resource", uri));
            }
            self.builtins.read_resource(uri).await
        })
    }

    fn get_prompt<'a>(
        &'a self,
        caller: &'a Caller,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, Result<PromptText, CallError>> {
        Box::pin(async move {
            if !self.surface(caller).prompts.iter().any(|p| &*p.name == name) {
                return Err(not_there("prompt", name));
            }
            self.builtins.get_prompt(name, arguments).await
        })
    }
}

/// When a folder last changed: files put there by hand show up without a watcher.
fn modified(folder: &Path) -> Option<SystemTime> {
    folder.metadata().and_then(|m| m.modified()).ok()
}

fn not_there(what: &str, name: &str) -> CallError {
    CallError::Rpc { code: -32602, message: format!("no such {what}: {name}"), data: None }
}
