//! The application: the one API that every shell calls, and the owner of all live state. Shells hold windows and
//! sockets only.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod approvals;
pub mod arguments;
mod calls;
mod commands;
mod connect;
mod endpoint;
mod events;
mod exposure;
mod front;
mod guard;
mod launcher;
pub mod logging;
pub mod logs;
pub mod look;
mod parse;
mod problem;
mod remote;
mod schema;
mod turns;
mod windows;

use std::{ops::Deref, sync::Arc, time::Duration};

use evi_builtins::Builtins;
use evi_contract::{Code, Event, Tag};
use evi_domain::{
    Secret, SecretId, SecretStore, ToolHost, UpstreamName, UpstreamSpec, UpstreamState, reference,
};
use evi_store::{
    ChatStore, ConfigStore, ConfigValue, Db, DiskCatalog, DiskResults, Prompting, SqliteJournal, Vault,
    Watching,
};
use evi_upstreams::Upstreams;
use serde_json::Value;
use tokio::sync::broadcast;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use approvals::Approvals;
use calls::Calls;
use endpoint::Endpoint;
use events::Events;
use guard::Guard;
use turns::Turns;

pub use commands::offer::save_content;
pub use evi_attach::Rank;
pub use evi_contract as contract;
pub use evi_contract::Problem;
pub use evi_domain as domain;
pub use evi_gateway::{GatewayError, HttpGateway, HttpSettings};
pub use evi_store::{Home, MemoryVault, Redactor, StoreError};
pub use front::Front;
pub use launcher::{Launched, Launcher, ProcessLauncher};
pub use parse::split as split_line;
pub use problem::gateway as gateway_problem;

/// Which program this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// The window.
    Desktop,
    /// `evi web`.
    Web,
    /// `evi mcp serve`.
    Serve,
    /// Any other `evi …`.
    Command,
}

impl Shell {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Desktop => "desktop",
            Self::Web => "web",
            Self::Serve => "serve",
            Self::Command => "command",
        }
    }
    /// Its place in the order of owners.
    pub fn rank(self) -> Rank {
        match self {
            Self::Desktop => Rank::Desktop,
            Self::Web => Rank::Web,
            Self::Serve => Rank::Serve,
            Self::Command => Rank::Command,
        }
    }
    /// Only a window may let the keychain ask on the screen.
    fn prompting(self) -> Prompting {
        if self == Self::Desktop { Prompting::Allowed } else { Prompting::Never }
    }
    fn someone_to_ask(self) -> bool {
        matches!(self, Self::Desktop | Self::Web)
    }
}

/// What becomes of the configured servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// They run where `[tools] mcp` is on.
    Run,
    /// They run for this command, also where it is off.
    Forced,
    /// They are not touched: for commands that only change files.
    Leave,
}

/// How an application is started.
#[derive(Clone)]
pub struct Options {
    /// The home.
    pub home: Home,
    /// Which program it is.
    pub shell: Shell,
    /// What becomes of the servers.
    pub servers: Servers,
    /// How the command `evi` is started.
    pub launcher: Arc<dyn Launcher>,
    /// Known secret values; the log's writer shares it.
    pub redactor: Arc<Redactor>,
    /// In place of the system's keychain.
    pub vault: Option<Arc<dyn SecretStore>>,
    /// How long the start of a server may take; the usual minute without it.
    pub start_limit: Option<Duration>,
}

impl Options {
    /// The usual ones.
    pub fn new(home: Home, shell: Shell) -> Self {
        Self {
            home,
            shell,
            servers: Servers::Run,
            launcher: Arc::new(ProcessLauncher),
            redactor: Arc::default(),
            vault: None,
            start_limit: None,
        }
    }
}

/// A running application; clones share it.
#[derive(Clone)]
pub struct App {
    inner: Arc<Inner>,
}

/// The state, seen by the commands only.
pub struct Inner {
    pub(crate) options: Options,
    pub(crate) home: Home,
    pub(crate) config: ConfigStore,
    pub(crate) vault: Arc<dyn SecretStore>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) upstreams: Upstreams,
    pub(crate) builtins: Builtins,
    pub(crate) guard: Arc<Guard>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) calls: Calls,
    pub(crate) chats: ChatStore,
    pub(crate) results: Arc<DiskResults>,
    pub(crate) windows: windows::Windows,
    pub(crate) turns: Arc<Turns>,
    pub(crate) endpoint: Endpoint,
    pub(crate) events: Events,
    pub(crate) cancel: CancellationToken,
    tasks: TaskTracker,
    journal: Arc<SqliteJournal>,
    /// What the person should know of the database.
    pub(crate) db_notice: Option<String>,
    watching: std::sync::Mutex<Option<Watching>>,
}

impl Deref for App {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.inner
    }
}

impl App {
    /// Starts: reads the files, starts the servers, restores the endpoint. Returns before they are ready.
    ///
    /// # Errors
    /// When the home cannot be prepared or its database not opened.
    pub async fn start(options: Options) -> Result<Self, Problem> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let home = options.home.clone();
        let active = options.servers != Servers::Leave;
        let opened = {
            let home = home.clone();
            problem::blocking(move || {
                if active {
                    home.prepare()?;
                }
                Db::open(&home).map(|db| (db, ConfigStore::open(home)))
            })
            .await?
        };
        let (db, config) = opened;
        let redactor = options.redactor.clone();
        let vault: Arc<dyn SecretStore> = match &options.vault {
            Some(vault) => vault.clone(),
            None => Arc::new(Vault::open(home.clone(), redactor.clone(), options.shell.prompting())),
        };
        let events = Events::default();
        let cancel = CancellationToken::new();
        let tasks = TaskTracker::new();
        let cache = Arc::new(DiskCatalog::new(home.clone()));
        let usual = evi_upstreams::Settings::default();
        let settings = evi_upstreams::Settings {
            log_dir: active.then(|| home.logs()),
            leftovers: active.then(|| home.run().join("children.json")),
            start_limit: options.start_limit.unwrap_or(usual.start_limit),
            ..usual
        };
        let upstreams = Upstreams::new(settings, vault.clone(), cache.clone());
        let results = Arc::new(DiskResults::new(home.clone()));
        let builtins = Builtins::with_results(home.memory(), home.commands(), results.clone());
        let approvals = Arc::new(Approvals::new(events.clone()));
        let journal = Arc::new(db.journal().map_err(|e| problem::store(&e))?);
        let guard = Arc::new(Guard {
            home: home.clone(),
            config: config.clone(),
            upstreams: upstreams.clone(),
            builtins: builtins.clone(),
            approvals: approvals.clone(),
            journal: journal.clone(),
            last_known: cache,
            redactor: redactor.clone(),
            events: events.clone(),
            generation: tokio::sync::watch::channel(0).0,
            someone_to_ask: options.shell.someone_to_ask(),
            cache: std::sync::Mutex::default(),
        });
        let chats = db.chats();
        let turns = Arc::new(Turns::new(
            chats.clone(),
            guard.clone(),
            approvals.clone(),
            events.clone(),
            results.clone(),
            tasks.clone(),
            cancel.clone(),
        ));
        let endpoint = Endpoint::new(guard.clone(), vault.clone(), events.clone());
        if active {
            let old = results.clone();
            tasks.spawn_blocking(move || old.prune());
        }
        let (mut guests, told, over) = (endpoint.guests.changed(), events.clone(), cancel.clone());
        tasks.spawn(over.run_until_cancelled_owned(async move {
            while guests.changed().await.is_ok() {
                told.invalidate(&[Tag::Gateway]);
            }
        }));
        let app = Self {
            inner: Arc::new(Inner {
                options,
                home,
                config,
                vault,
                redactor,
                upstreams,
                builtins,
                guard,
                approvals,
                calls: Calls::default(),
                chats,
                results,
                windows: windows::Windows::default(),
                turns,
                endpoint,
                events,
                cancel,
                tasks,
                journal,
                db_notice: db.notice(),
                watching: std::sync::Mutex::default(),
            }),
        };
        app.apply_plugins();
        if active {
            app.follow_files();
            app.apply_config();
            app.follow_endpoint();
        }
        Ok(app)
    }

    /// Runs a command of the contract.
    ///
    /// # Errors
    /// The command's problem.
    pub async fn dispatch(&self, command: &str, params: Value) -> Result<Value, Problem> {
        let result = evi_contract::dispatch(self, command, params).await;
        if let (Ok(_), Some(info)) = (&result, evi_contract::info(command))
            && info.kind == evi_contract::Kind::Mutation
        {
            self.events.invalidate(info.tags);
        }
        result
    }

    /// Events from now on.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    /// What runs calls, for a gateway that a shell starts itself.
    pub fn host(&self) -> Arc<dyn ToolHost> {
        self.guard.clone()
    }

    /// Waits until no server is on its way, bounded.
    pub async fn settled(&self, within: Duration) {
        self.upstreams.settled(within).await;
    }

    /// Ends everything: turns, endpoint, servers. Bounded to about 15 s.
    pub async fn shutdown(&self) {
        self.cancel.cancel();
        self.watching.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        self.endpoint.stop().await;
        self.upstreams.shutdown().await;
        self.tasks.close();
        if tokio::time::timeout(Duration::from_secs(3), self.tasks.wait()).await.is_err() {
            tracing::warn!("some tasks did not end in time");
        }
        let journal = self.journal.clone();
        let _ = tokio::task::spawn_blocking(move || journal.flush()).await;
    }

    /// Brings what runs in line with the configuration.
    pub(crate) fn apply_config(&self) {
        if self.options.servers == Servers::Leave {
            return;
        }
        self.apply_plugins();
        let loaded = self.config.current();
        let tools = &loaded.config.tools;
        let run = tools.mcp || self.options.servers == Servers::Forced;
        let specs: Vec<UpstreamSpec> = loaded
            .config
            .upstreams
            .iter()
            .filter(|u| run && u.enabled)
            .filter(|u| tools.mcp_allow.is_empty() || tools.mcp_allow.iter().any(|a| a == u.name.as_str()))
            .filter_map(|u| u.spec.as_ref().ok().cloned())
            .collect();
        self.upstreams.apply(specs);
        self.guard.touch();
    }

    /// The commands of plugins that are on are prompts.
    fn apply_plugins(&self) {
        let loaded = self.config.current();
        let on = loaded.config.plugins.iter().filter(|p| p.enabled);
        self.builtins.set_plugin_commands(on.map(|p| (p.name.clone(), self.home.plugin_commands(&p.name))));
    }

    /// Changes `config.toml` and brings what runs in line.
    pub(crate) async fn write_config(
        &self,
        changes: Vec<(Vec<&'static str>, ConfigValue)>,
    ) -> Result<(), Problem> {
        let config = self.config.clone();
        problem::blocking(move || {
            let changes: Vec<(&[&str], ConfigValue)> =
                changes.iter().map(|(path, value)| (path.as_slice(), value.clone())).collect();
            config.config_set(&changes)
        })
        .await?;
        self.apply_config();
        Ok(())
    }

    /// Expands a template of the configuration.
    pub(crate) async fn expand(&self, template: String) -> Result<Secret, Problem> {
        let vault = self.vault.clone();
        let redactor = self.redactor.clone();
        let expanded = problem::blocking(move || {
            let secret = |id: &SecretId| match vault.get(id) {
                Ok(Some(value)) => Ok(value),
                Ok(None) => Err(reference::ReferenceError::SecretMissing(id.clone())),
                Err(_) => Err(reference::ReferenceError::SecretLocked(id.clone())),
            };
            reference::expand(&template, |name| std::env::var(name).ok(), secret).map_err(|e| {
                let code = match e {
                    reference::ReferenceError::SecretLocked(_) => Code::SecretLocked,
                    _ => Code::InvalidInput,
                };
                Problem::new(code, e.to_string())
            })
        })
        .await?;
        redactor.add(&expanded);
        Ok(expanded)
    }

    /// Follows the files and the servers, and tells who looks.
    fn follow_files(&self) {
        *self.watching.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
            Some(self.config.start_watching());
        let mut config = self.config.watch();
        let mut status = self.upstreams.changed();
        let mut catalog = self.upstreams.catalog_changed();
        let app = self.clone();
        let cancel = self.cancel.clone();
        self.tasks.spawn(async move {
            let mut states: Vec<(UpstreamName, UpstreamState)> = Vec::new();
            loop {
                tokio::select! {
                    () = cancel.cancelled() => break,
                    Ok(()) = config.changed() => {
                        app.apply_config();
                        app.events.invalidate(&[Tag::App, Tag::Settings, Tag::Upstreams, Tag::Tools, Tag::Gateway]);
                    }
                    Ok(()) = catalog.changed() => {
                        app.guard.touch();
                        app.events.invalidate(&[Tag::Tools, Tag::Gateway]);
                    }
                    Ok(()) = status.changed() => {
                        // What is offered of a server depends on whether it is on its way, not on its log.
                        let now = app.upstreams.statuses().into_iter().map(|s| (s.name, s.state)).collect();
                        if now != states {
                            states = now;
                            app.guard.touch();
                        }
                        app.events.invalidate(&[Tag::Upstreams, Tag::Logs]);
                    }
                    else => break,
                }
            }
        });
    }

    /// The endpoint comes back in the state it was left in, where a person can see it, and follows the file.
    fn follow_endpoint(&self) {
        if !self.options.shell.someone_to_ask() {
            return;
        }
        let app = self.clone();
        let mut config = self.config.watch();
        let following = async move {
            let mut before = (false, 0);
            loop {
                let now = {
                    let loaded = config.borrow_and_update();
                    (loaded.config.gateway.enabled, loaded.config.gateway.port)
                };
                // Only a change: what failed at a busy port is not tried again with every edit.
                if now != before && now.0 {
                    if let Err(problem) = app.endpoint.start(now.1).await {
                        tracing::warn!(%problem, "the gateway did not start");
                    }
                } else if before.0 && !now.0 {
                    app.endpoint.stop().await;
                }
                before = now;
                if config.changed().await.is_err() {
                    return;
                }
            }
        };
        // Not to start anything any more while everything ends.
        self.tasks.spawn(self.cancel.clone().run_until_cancelled_owned(following));
    }
}

/// Reads the configuration of a home and writes nothing, not even its folder.
pub fn read_config(home: &Home) -> (evi_domain::Config, Vec<evi_domain::ConfigProblem>) {
    ConfigStore::open(home.clone()).load()
}

/// Checks what `evi mcp serve` was told to expose, before anything is started.
///
/// # Errors
/// Names what matches nothing.
pub fn check_exposure(home: &Home, exposure: &evi_domain::Exposure) -> Result<(), Problem> {
    let own: Vec<_> = Builtins::new(home.memory(), home.commands())
        .tools()
        .into_iter()
        .map(|tool| (tool.category.to_owned(), tool.def))
        .collect();
    exposure::check(exposure, &read_config(home).0, &own)
}

/// The block that connects another application, without starting anything.
///
/// # Errors
/// An application that is not known, or that cannot do what is asked.
pub fn connect_text(
    home: &Home,
    query: &evi_contract::ConnectQuery,
) -> Result<evi_contract::ConnectText, Problem> {
    let port = read_config(home).0.gateway.port;
    let facts = connect::Facts {
        program: ProcessLauncher.program(),
        home: home.root().to_path_buf(),
        address: format!("http://127.0.0.1:{port}/mcp"),
    };
    connect::text(query, &facts)
}

/// What `[web] auth_token` says: a literal or a reference to the environment.
pub async fn web_token(home: &Home) -> Option<Secret> {
    let template = read_config(home).0.web_token.filter(|t| !t.is_empty())?;
    let vault = Vault::open(home.clone(), Arc::default(), Prompting::Never);
    problem::blocking(move || {
        let secret = |id: &SecretId| match vault.get(id) {
            Ok(Some(value)) => Ok(value),
            _ => Err(reference::ReferenceError::SecretMissing(id.clone())),
        };
        reference::expand(&template, |name| std::env::var(name).ok(), secret)
            .map_err(|e| Problem::new(Code::InvalidInput, e.to_string()))
    })
    .await
    .ok()
    .filter(|token| !token.is_empty())
}

/// A token of 256 random bits.
pub fn random_token() -> String {
    endpoint::random_hex(32)
}
