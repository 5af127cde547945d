//! All upstreams: reconciles them with what is configured, and answers for them. It waits for none of them.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use evi_domain::{
    CallContext, CallError, Catalog, CatalogCache, Completes, LogLine, Offer, SecretStore, ToolResult,
    UpstreamName, UpstreamOptions, UpstreamSpec, UpstreamStatus,
};
use rmcp::model::Implementation;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc, watch},
    task::AbortHandle,
    time::timeout,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    actor::Actor,
    board::Board,
    call::{self, Limits},
    health::Health,
    leftovers::Leftovers,
    log::{FileQueue, Log, file_name},
    pulse::Pulse,
};

/// Notes of calls waiting for one actor.
const NOTES: usize = 64;
/// How long an orderly end of everything may take.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(12);

/// How upstreams are run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where each upstream's log file goes; none are written without it.
    pub log_dir: Option<PathBuf>,
    /// The file that notes running children, so that the next start ends what a killed one left; nothing is noted
    /// without it. At most one process may run upstreams with this file.
    pub leftovers: Option<PathBuf>,
    /// How long a start may take. A program that downloads what it runs (`npx`, `uvx`, …) has three times that.
    pub start_limit: Duration,
    /// How long a call may take; starts again with each progress that the server reports.
    pub call_limit: Duration,
    /// How long a call may take however much progress the server reports.
    pub total_limit: Duration,
    /// How long a server may take to show after a pause that it is still there.
    pub check_limit: Duration,
    /// How many may start at once.
    pub max_starts: usize,
    /// What we call ourselves.
    pub client_name: String,
    /// Our version.
    pub client_version: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            log_dir: None,
            leftovers: None,
            start_limit: Duration::from_secs(60),
            call_limit: Duration::from_secs(120),
            total_limit: Duration::from_secs(30 * 60),
            check_limit: Duration::from_secs(10),
            max_starts: 4,
            client_name: "evi".to_owned(),
            client_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// What actors share.
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) secrets: Arc<dyn SecretStore>,
    pub(crate) starts: Semaphore,
    pub(crate) leftovers: Arc<Leftovers>,
    pub(crate) health: Health,
    cache: Arc<dyn CatalogCache>,
    pulse: Pulse,
    catalog: Mutex<Arc<Catalog>>,
    catalog_count: watch::Sender<u64>,
}

impl Core {
    /// What we call ourselves to a server.
    pub(crate) fn me(&self) -> Implementation {
        Implementation::new(&self.settings.client_name, &self.settings.client_version)
    }

    /// This is what a server offers that is ready.
    pub(crate) fn publish(&self, name: &UpstreamName, offer: Arc<Offer>) {
        let (cache, key, kept) = (Arc::clone(&self.cache), name.clone(), Arc::clone(&offer));
        // The cache may write to the disk; nobody waits for it.
        drop(tokio::task::spawn_blocking(move || cache.put(&key, &kept)));
        self.edit_catalog(|catalog| {
            catalog.upstreams.insert(name.clone(), offer);
            true
        });
    }

    /// What was noted of a server at its last runs.
    pub(crate) async fn noted(&self, name: &UpstreamName) -> Option<String> {
        let (cache, name) = (Arc::clone(&self.cache), name.clone());
        tokio::task::spawn_blocking(move || cache.noted(&name)).await.ok().flatten()
    }

    /// Notes it for the next ones.
    pub(crate) fn note(&self, name: &UpstreamName, line: String) {
        let (cache, name) = (Arc::clone(&self.cache), name.clone());
        drop(tokio::task::spawn_blocking(move || cache.note(&name, &line)));
    }

    /// How long calls to a server may take.
    pub(crate) fn limits(&self, options: &UpstreamOptions) -> Limits {
        let call = options.call_secs.map_or(self.settings.call_limit, seconds);
        // Whoever sets only the one does not mean the other to be shorter.
        let total = options.total_secs.map_or_else(|| self.settings.total_limit.max(call), seconds);
        Limits { call, total }
    }

    /// Its offer is not there any more.
    pub(crate) fn withdraw(&self, name: &UpstreamName) {
        self.edit_catalog(|catalog| catalog.upstreams.remove(name).is_some());
    }

    fn edit_catalog(&self, edit: impl FnOnce(&mut Catalog) -> bool) {
        let mut current = lock(&self.catalog);
        let mut next = Catalog::clone(&current);
        if edit(&mut next) {
            *current = Arc::new(next);
            drop(current);
            self.catalog_count.send_modify(|n| *n += 1);
            self.pulse.tick();
        }
    }
}

/// A limit of the person's.
pub(crate) fn seconds(secs: u32) -> Duration {
    Duration::from_secs(u64::from(secs))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All upstreams of a home. A clone is the same set; with the last one every upstream is told to end.
#[derive(Clone)]
pub struct Upstreams {
    inner: Arc<Inner>,
}

struct Inner {
    core: Arc<Core>,
    table: Mutex<Table>,
    tasks: TaskTracker,
    runtime: Handle,
    files: Option<FileQueue>,
    pulse_task: AbortHandle,
    cancel: CancellationToken,
    _cancel_on_drop: DropGuard,
}

#[derive(Default)]
struct Table {
    entries: BTreeMap<UpstreamName, Entry>,
    /// Upstreams that are on their way out: a new one of the same name waits for the old.
    leaving: HashMap<UpstreamName, CancellationToken>,
}

struct Entry {
    board: Arc<Board>,
    orders: watch::Sender<UpstreamSpec>,
    cancel: CancellationToken,
    done: CancellationToken,
    abort: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.pulse_task.abort();
    }
}

impl Upstreams {
    /// An empty set. Must be called inside a tokio runtime, on which everything then runs.
    pub fn new(settings: Settings, secrets: Arc<dyn SecretStore>, cache: Arc<dyn CatalogCache>) -> Self {
        // A client without a provider panics, even for plain http. An error means that there already is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (pulse, drive) = Pulse::new();
        let cancel = CancellationToken::new();
        let files = settings.log_dir.is_some().then(FileQueue::start);
        let core = Core {
            starts: Semaphore::new(settings.max_starts.max(1)),
            leftovers: Leftovers::open(settings.leftovers.clone()),
            health: Health::new(),
            settings,
            secrets,
            cache,
            pulse,
            catalog: Mutex::default(),
            catalog_count: watch::Sender::new(0),
        };
        let core = Arc::new(core);
        let tasks = TaskTracker::new();
        let (watching, over) = (Arc::clone(&core), cancel.clone());
        tasks.spawn(async move { over.run_until_cancelled(watching.health.watch()).await });
        tasks.spawn(Arc::clone(&core.leftovers).reap());
        let inner = Inner {
            core,
            table: Mutex::default(),
            tasks,
            runtime: Handle::current(),
            files,
            pulse_task: tokio::spawn(drive).abort_handle(),
            _cancel_on_drop: cancel.clone().drop_guard(),
            cancel,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Makes the running set that of `specs`, by name: starts what is new, stops what is gone, restarts what
    /// changed, and leaves the rest alone. Returns at once.
    pub fn apply(&self, specs: Vec<UpstreamSpec>) {
        if self.inner.cancel.is_cancelled() {
            return;
        }
        let mut wanted: BTreeMap<UpstreamName, UpstreamSpec> = BTreeMap::new();
        for spec in specs {
            // The first of a name counts, as in a file.
            wanted.entry(spec.name.clone()).or_insert(spec);
        }
        let mut table = lock(&self.inner.table);
        let gone: Vec<UpstreamName> =
            table.entries.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect();
        for name in gone {
            if let Some(entry) = table.entries.remove(&name) {
                self.inner.core.withdraw(&name);
                entry.cancel.cancel();
                table.leaving.insert(name, entry.done);
            }
        }
        table.leaving.retain(|_, done| !done.is_cancelled());
        for (name, spec) in wanted {
            match table.entries.get(&name) {
                Some(entry) if *entry.orders.borrow() == spec => {}
                Some(entry) => entry.order(Some(spec)),
                None => {
                    let after = table.leaving.get(&name).cloned();
                    let entry = self.inner.start(spec, after);
                    table.entries.insert(name, entry);
                }
            }
        }
        drop(table);
        self.inner.core.pulse.tick();
    }

    /// How each is doing, by name.
    pub fn statuses(&self) -> Vec<UpstreamStatus> {
        lock(&self.inner.table).entries.values().map(|entry| entry.board.status()).collect()
    }

    /// How one is doing.
    pub fn status(&self, name: &UpstreamName) -> Option<UpstreamStatus> {
        self.board(name).map(|board| board.status())
    }

    /// What those offer that are ready.
    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&lock(&self.inner.core.catalog))
    }

    /// Ticks after a change of any status, log or the catalogue; a storm of changes is one tick.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.inner.core.pulse.subscribe()
    }

    /// Ticks after a change of [`Upstreams::catalog`] only.
    pub fn catalog_changed(&self) -> watch::Receiver<u64> {
        self.inner.core.catalog_count.subscribe()
    }

    /// The last lines of its log, oldest first.
    pub fn log(&self, name: &UpstreamName) -> Vec<LogLine> {
        self.board(name).map(|board| board.log.lines()).unwrap_or_default()
    }

    /// Calls a tool under the name that its owner gave it. `arguments` is a JSON object and arrives as the same
    /// bytes. A call that is dropped is cancelled at the server.
    ///
    /// # Errors
    /// `Unavailable` with the reason when it is not ready or goes away, `TimedOut`, `Cancelled`, `Rpc` for the
    /// server's own error, `InvalidArguments` for anything but an object.
    pub async fn call(
        &self,
        name: &UpstreamName,
        tool: &str,
        arguments: &RawValue,
        context: &CallContext,
    ) -> Result<ToolResult, CallError> {
        let link = self.link(name)?;
        call::call(&link, name, tool, arguments, context, link.limits.call).await
    }

    /// Reads a resource. Gives the whole result object, by the same rules as [`Upstreams::call`].
    ///
    /// # Errors
    /// As of a call; a resource that is not there is the server's own error.
    pub async fn read_resource(
        &self,
        name: &UpstreamName,
        uri: &str,
        context: &CallContext,
    ) -> Result<Box<RawValue>, CallError> {
        self.request(name, "resources/read", uri, &json!({"uri": uri}), context).await
    }

    /// Gets a prompt with its arguments filled in. Gives the whole result object.
    ///
    /// # Errors
    /// As of a call.
    pub async fn get_prompt(
        &self,
        name: &UpstreamName,
        prompt: &str,
        arguments: &BTreeMap<String, String>,
        context: &CallContext,
    ) -> Result<Box<RawValue>, CallError> {
        let params = json!({"name": prompt, "arguments": arguments});
        self.request(name, "prompts/get", prompt, &params, context).await
    }

    /// Asks for values of `argument` that begin with `value`; `others` are the arguments that have one already. Gives
    /// the whole result object.
    ///
    /// # Errors
    /// As of a call.
    pub async fn complete(
        &self,
        name: &UpstreamName,
        of: &Completes,
        (argument, value): (&str, &str),
        others: &BTreeMap<String, String>,
        context: &CallContext,
    ) -> Result<Box<RawValue>, CallError> {
        let (subject, reference) = match of {
            Completes::Prompt(prompt) => (prompt, json!({"type": "ref/prompt", "name": prompt})),
            Completes::Template(uri) => (uri, json!({"type": "ref/resource", "uri": uri})),
        };
        let mut params = json!({"ref": reference, "argument": {"name": argument, "value": value}});
        if !others.is_empty() {
            params["context"] = json!({"arguments": others});
        }
        self.request(name, "completion/complete", subject, &params, context).await
    }

    async fn request(
        &self,
        name: &UpstreamName,
        method: &str,
        subject: &str,
        params: &Value,
        context: &CallContext,
    ) -> Result<Box<RawValue>, CallError> {
        let link = self.link(name)?;
        let params = serde_json::value::to_raw_value(params)
            .map_err(|error| CallError::Internal { message: error.to_string() })?;
        let ask = call::Ask { method, subject, params };
        call::request(&link, name, ask, context, link.limits.call).await
    }

    fn link(&self, name: &UpstreamName) -> Result<Arc<call::Link>, CallError> {
        let unavailable = |reason| CallError::Unavailable { upstream: name.to_string(), reason };
        let Some(board) = self.board(name) else {
            return Err(unavailable("it is not running".to_owned()));
        };
        board.link().ok_or_else(|| unavailable(board.unavailable()))
    }

    /// Ends its process or session and starts it anew, also after it was left alone.
    pub fn restart(&self, name: &UpstreamName) {
        if let Some(entry) = lock(&self.inner.table).entries.get(name) {
            entry.order(None);
        }
    }

    /// Asks every server that is ready whether it still is, as after a pause of the machine, and tries those again at
    /// once that wait for their next try. One that does not answer is restarted. Returns at once.
    pub fn check(&self) {
        self.inner.core.health.wake();
    }

    /// Waits until none is on its first way up, at most `within`: one that failed and is tried again is not waited for.
    pub async fn settled(&self, within: Duration) {
        let mut changed = self.changed();
        let waiting = async {
            loop {
                changed.mark_unchanged();
                let starting = lock(&self.inner.table).entries.values().any(|entry| entry.board.is_untried());
                if !starting || changed.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(within, waiting).await;
    }

    /// Ends every upstream in order and waits for it, at most about 12 s; what then still runs is killed.
    /// Nothing starts afterwards.
    pub async fn shutdown(&self) {
        self.inner.cancel.cancel();
        let entries = std::mem::take(&mut lock(&self.inner.table).entries);
        for name in entries.keys() {
            self.inner.core.withdraw(name);
        }
        self.inner.tasks.close();
        if timeout(SHUTDOWN_LIMIT, self.inner.tasks.wait()).await.is_err() {
            for entry in entries.values() {
                entry.abort.abort();
            }
            let _ = timeout(Duration::from_secs(1), self.inner.tasks.wait()).await;
        }
    }

    fn board(&self, name: &UpstreamName) -> Option<Arc<Board>> {
        lock(&self.inner.table).entries.get(name).map(|entry| Arc::clone(&entry.board))
    }
}

impl Inner {
    fn start(&self, spec: UpstreamSpec, after: Option<CancellationToken>) -> Entry {
        let name = spec.name.clone();
        let file = self.core.settings.log_dir.as_ref().map(|folder| folder.join(file_name(name.as_str())));
        let log = Log::new(file.zip(self.files.clone()), Some(self.core.pulse.clone()));
        let board = Arc::new(Board::new(name, log, self.core.pulse.clone()));
        let (orders, receiver) = watch::channel(spec);
        let (note_sender, notes) = mpsc::channel(NOTES);
        let (cancel, done) = (self.cancel.child_token(), CancellationToken::new());
        let actor = Actor {
            core: Arc::clone(&self.core),
            board: Arc::clone(&board),
            orders: receiver,
            notes,
            note_sender,
            cancel: cancel.clone(),
            era: None,
        };
        let on_end = done.clone().drop_guard();
        let leftovers = Arc::clone(&self.core.leftovers);
        let life = async move {
            let _on_end = on_end;
            leftovers.until_reaped().await;
            if let Some(after) = after {
                let _ = timeout(SHUTDOWN_LIMIT, after.cancelled()).await;
            }
            actor.run().await;
        };
        let abort = self.tasks.spawn_on(life, &self.runtime).abort_handle();
        Entry { board, orders, cancel, done, abort }
    }
}

impl Entry {
    fn order(&self, spec: Option<UpstreamSpec>) {
        // Shown at once, so that whoever waits for the end of the start does not see the old state.
        self.board.begin();
        self.orders.send_modify(|order| {
            if let Some(spec) = spec {
                *order = spec;
            }
        });
    }
}
