//! Notices that the configuration's files changed and says so, debounced. Reads none of them.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::{Home, atomic};

/// A change is told when this long nothing more happened,
const QUIET: Duration = Duration::from_millis(100);
/// or at the latest after this long.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often to look where the system cannot tell.
const POLL: Duration = Duration::from_secs(2);
/// How often to wake up for nothing where it can: network folders tell only of changes from here.
const IDLE: Duration = Duration::from_secs(30);

/// Watches until dropped.
#[must_use = "watching ends when this is dropped"]
pub struct Watching {
    stop: Arc<AtomicBool>,
    wake: SyncSender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Watching {
    /// Calls `changed` on a thread of its own after each change of `config.toml`, `mcp.json` or a plugin, and now and
    /// then without one. With `poll` the system's notices are not used.
    pub(crate) fn start(home: Home, poll: bool, changed: impl FnMut() + Send + 'static) -> Self {
        // One place: a second notice while one waits says nothing new.
        let (wake, woken) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let body = Loop { home, poll, wake: wake.clone(), woken, stop: Arc::clone(&stop) };
        let thread = thread::Builder::new().name("evi-config".to_owned()).spawn(move || body.run(changed));
        if let Err(error) = &thread {
            tracing::warn!(%error, "changes of the configuration are not noticed");
        }
        Self { stop, wake, thread: thread.ok() }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.wake.try_send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Loop {
    home: Home,
    poll: bool,
    wake: SyncSender<()>,
    woken: Receiver<()>,
    stop: Arc<AtomicBool>,
}

impl Loop {
    fn run(self, mut changed: impl FnMut()) {
        let mut watches = Watches::new(&self.home, self.wake.clone(), self.poll);
        // What happened before the watches stood.
        changed();
        loop {
            let wait = if watches.complete { IDLE } else { POLL };
            match self.woken.recv_timeout(wait) {
                Ok(()) => self.settle(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            watches.refresh(&self.home);
            changed();
        }
    }

    /// Waits until it is quiet.
    fn settle(&self) {
        let end = Instant::now() + PATIENCE;
        while !self.stop.load(Ordering::Acquire) && Instant::now() < end {
            if self.woken.recv_timeout(QUIET).is_err() {
                return;
            }
        }
    }
}

/// The folders under watch. Folders and not files, because editors rename.
struct Watches {
    watcher: Option<RecommendedWatcher>,
    now: Vec<(PathBuf, RecursiveMode)>,
    complete: bool,
}

impl Watches {
    fn new(home: &Home, wake: SyncSender<()>, poll: bool) -> Self {
        let relevant = relevant(home);
        let handler = move |event: notify::Result<Event>| {
            let matters = match &event {
                // Reading is an event, too, and it is we who read.
                Ok(e) if matches!(e.kind, EventKind::Access(_)) => false,
                Ok(e) => e.need_rescan() || e.paths.iter().any(|p| relevant(p)),
                Err(_) => true,
            };
            if matters {
                let _ = wake.try_send(());
            }
        };
        let watcher = if poll { None } else { notify::recommended_watcher(handler).ok() };
        let mut watches = Self { watcher, now: Vec::new(), complete: false };
        watches.refresh(home);
        watches
    }

    /// Follows folders that came and went.
    fn refresh(&mut self, home: &Home) {
        let Some(watcher) = &mut self.watcher else { return };
        let wanted = wanted(home);
        if wanted == self.now && self.complete {
            return;
        }
        for (path, _) in self.now.drain(..) {
            let _ = watcher.unwatch(&path);
        }
        self.complete = true;
        for (path, mode) in wanted {
            match watcher.watch(&path, mode) {
                Ok(()) => self.now.push((path, mode)),
                Err(error) => {
                    tracing::debug!(path = %path.display(), %error, "cannot be watched");
                    self.complete = false;
                }
            }
        }
    }
}

fn wanted(home: &Home) -> Vec<(PathBuf, RecursiveMode)> {
    let mut wanted = Vec::new();
    let mut add = |path: PathBuf, mode| {
        if path.is_dir() && !wanted.iter().any(|(p, _)| *p == path) {
            wanted.push((path, mode));
        }
    };
    if home.root().is_dir() {
        add(home.root().to_owned(), RecursiveMode::NonRecursive);
        add(home.plugins(), RecursiveMode::Recursive);
        for file in [home.config_toml(), home.mcp_json()] {
            if let Some(folder) = atomic::follow(&file).parent() {
                add(folder.to_owned(), RecursiveMode::NonRecursive);
            }
        }
    } else if let Some(near) = home.root().ancestors().find(|a| a.is_dir()) {
        add(near.to_owned(), RecursiveMode::NonRecursive);
    }
    wanted
}

/// Whether a path that changed has to do with the configuration: one of its files, or a folder above them.
fn relevant(home: &Home) -> impl Fn(&Path) -> bool + Send + 'static {
    let home = home.clone();
    move |path| {
        // Some systems tell the path without its symbolic links.
        let real = home.root().canonicalize().map(Home::at).ok();
        [Some(&home), real.as_ref()].into_iter().flatten().any(|home| {
            let (config, mcp) = (home.config_toml(), home.mcp_json());
            home.root().starts_with(path)
                || path.starts_with(home.plugins())
                || [&config, &mcp, &atomic::follow(&config), &atomic::follow(&mcp)]
                    .into_iter()
                    .any(|f| f == path)
        })
    }
}
