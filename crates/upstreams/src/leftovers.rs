//! Children that outlived an eVi that was killed: noted in a file while they run, ended at the next start. It ends a
//! process only when its id, its start time and its arguments are those that were noted, in the same run of the system,
//! and when the eVi that started it is gone; never by name.
//!
//! Linux only. On Windows the job object of a child ends with the process that holds it; on macOS nothing is noted,
//! as a process's arguments cannot be read there without `unsafe`.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use evi_domain::Secret;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::platform::{Look, boot_id, end_group, look_at};

/// Children in the file.
const CAP: usize = 512;
/// Bytes of a file that is read.
const FILE_CAP: u64 = 1 << 20;
/// How often a child's arguments may be seen to change: `npx` gives itself a title.
const LOOKS: usize = 4;
/// How long a leftover may take to end after it was asked, and after it was killed. Its input is closed already.
const ASKED: Duration = Duration::from_secs(2);
const KILLED: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(50);
/// How long a start waits for the leftovers, which may hold a port or a lock.
const WAIT: Duration = Duration::from_secs(5);

/// A process of this run of the system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    pid: u32,
    /// As the system counts it.
    started: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    child: Identity,
    /// The eVi that started it.
    host: Identity,
    boot: String,
    /// Hashes of the whole command line, as seen so far: it may hold a secret.
    seen: Vec<u64>,
    /// How many arguments it was given, and their hash: a script's interpreter comes before them.
    given: (usize, u64),
}

/// What is noted; one for a home.
pub(crate) struct Leftovers {
    place: Option<Place>,
    entries: Mutex<Vec<Entry>>,
    /// Held while the file is written, so that an older state does not come last.
    writing: Mutex<()>,
    reaped: CancellationToken,
}

struct Place {
    file: PathBuf,
    host: Identity,
    boot: String,
}

/// A child that is noted, until this is dropped.
pub(crate) struct Noted {
    child: Identity,
    leftovers: Arc<Leftovers>,
}

impl Leftovers {
    /// Reads what an earlier run left in `file`. Without a file, or where processes cannot be told apart, nothing is
    /// ever noted.
    pub(crate) fn open(file: Option<PathBuf>) -> Arc<Self> {
        let me = std::process::id();
        let place = file.and_then(|file| {
            let host = Identity { pid: me, started: look_at(me)?.started };
            Some(Place { file, host, boot: boot_id()? })
        });
        let mut entries = place.as_ref().map(|place| read(&place.file)).unwrap_or_default();
        // An earlier set in this very process ended its children itself.
        entries.retain(|entry| place.as_ref().is_some_and(|place| entry.host != place.host));
        Arc::new(Self {
            place,
            entries: Mutex::new(entries),
            writing: Mutex::default(),
            reaped: CancellationToken::new(),
        })
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what an earlier run left. At most about 3 s.
    pub(crate) async fn reap(self: Arc<Self>) {
        let _over = self.reaped.clone().drop_guard();
        let Some(place) = &self.place else { return };
        let old: Vec<Entry> = self.entries().iter().filter(|e| e.host != place.host).cloned().collect();
        if old.is_empty() {
            return;
        }
        let left = || old.iter().filter(|entry| entry.is_left(&place.boot)).map(|entry| entry.child.pid);
        for (kill, within) in [(false, ASKED), (true, KILLED)] {
            for pid in left() {
                tracing::info!(pid, kill, "ending a server that an earlier eVi left behind");
                let _ = end_group(pid, kill);
            }
            let end = Instant::now() + within;
            while left().next().is_some() && Instant::now() < end {
                sleep(POLL).await;
            }
        }
        // Those of an eVi that still runs are its own.
        let keep =
            |entry: &Entry| entry.host == place.host || entry.host.is_alive() || entry.is_left(&place.boot);
        self.entries().retain(keep);
        self.write().await;
    }

    /// Waits for [`Leftovers::reap`], at most 5 s.
    pub(crate) async fn until_reaped(&self) {
        let _ = timeout(WAIT, self.reaped.cancelled()).await;
    }

    /// Notes a child that was just started with `args`.
    pub(crate) async fn note(self: &Arc<Self>, pid: Option<u32>, args: &[Secret]) -> Option<Noted> {
        let (place, pid) = (self.place.as_ref()?, pid?);
        let look = look_at(pid)?;
        let child = Identity { pid, started: look.started };
        let given = (args.len(), hash(args.iter().map(|arg| arg.expose().as_bytes())));
        let entry = Entry {
            child: child.clone(),
            host: place.host.clone(),
            boot: place.boot.clone(),
            seen: look.hash().into_iter().collect(),
            given,
        };
        {
            let mut entries = self.entries();
            if entries.len() >= CAP {
                entries.retain(|entry| entry.child.is_alive());
            }
            let over = entries.len().saturating_sub(CAP - 1);
            entries.drain(..over);
            entries.push(entry);
        }
        let noted = Noted { child, leftovers: Arc::clone(self) };
        self.write().await;
        Some(noted)
    }

    /// Brings the file up to date. A file that cannot be written is no reason not to run a server.
    async fn write(self: &Arc<Self>) {
        let me = Arc::clone(self);
        let writing = tokio::task::spawn_blocking(move || {
            let Some(place) = &me.place else { return };
            let _order = me.writing.lock().unwrap_or_else(PoisonError::into_inner);
            let entries = me.entries().clone();
            if let Err(error) = write(&place.file, &entries) {
                tracing::warn!(path = %place.file.display(), %error, "the running servers were not noted");
            }
        });
        let _ = writing.await;
    }
}

impl Noted {
    /// Its arguments may have changed since.
    pub(crate) async fn look_again(&self) {
        let Some(look) = look_at(self.child.pid).filter(|look| look.started == self.child.started) else {
            return;
        };
        let Some(hash) = look.hash() else { return };
        {
            let mut entries = self.leftovers.entries();
            let Some(entry) = entries.iter_mut().find(|entry| entry.child == self.child) else { return };
            if entry.seen.contains(&hash) {
                return;
            }
            if entry.seen.len() == LOOKS {
                entry.seen.remove(0);
            }
            entry.seen.push(hash);
        }
        self.leftovers.write().await;
    }

    /// It ended.
    pub(crate) async fn forget(self) {
        let leftovers = Arc::clone(&self.leftovers);
        drop(self);
        leftovers.write().await;
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.leftovers.entries().retain(|entry| entry.child != self.child);
    }
}

impl Identity {
    fn is_alive(&self) -> bool {
        look_at(self.pid).is_some_and(|look| look.started == self.started)
    }
}

impl Entry {
    /// Whether it still runs, and is what was noted, and nobody owns it.
    fn is_left(&self, boot: &str) -> bool {
        if self.boot != boot || self.host.is_alive() {
            return false;
        }
        // We made it the leader of a group, which is what is ended.
        let Some(look) = look_at(self.child.pid).filter(|look| look.group == self.child.pid) else {
            return false;
        };
        look.started == self.child.started
            && (look.hash().is_some_and(|hash| self.seen.contains(&hash)) || self.was_given(&look))
    }

    fn was_given(&self, look: &Look) -> bool {
        let (count, expected) = self.given;
        let tail = look.argv.len().checked_sub(count).map(|start| &look.argv[start..]);
        count > 0 && tail.is_some_and(|tail| hash(tail.iter().map(Vec::as_slice)) == expected)
    }
}

impl Look {
    /// `None` while the system has not put the arguments in place yet.
    fn hash(&self) -> Option<u64> {
        self.argv.iter().any(|word| !word.is_empty()).then(|| hash(self.argv.iter().map(Vec::as_slice)))
    }
}

/// FNV-1a: only to tell command lines apart.
fn hash<'a>(words: impl Iterator<Item = &'a [u8]>) -> u64 {
    let bytes = words.flat_map(|word| word.iter().copied().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

fn read(file: &Path) -> Vec<Entry> {
    if fs::metadata(file).map_or(true, |meta| meta.len() > FILE_CAP) {
        return Vec::new();
    }
    let entries = fs::read(file).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
    let mut entries: Vec<Entry> = entries.unwrap_or_else(|error| {
        tracing::warn!(path = %file.display(), %error, "the list of running servers could not be read");
        Vec::new()
    });
    entries.truncate(CAP);
    entries
}

fn write(file: &Path, entries: &[Entry]) -> io::Result<()> {
    let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let fresh = file.with_extension("json.new");
    let mut options = fs::OpenOptions::new();
    options.create(true).write(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(&fresh)?.write_all(&serde_json::to_vec(entries)?)?;
    fs::rename(&fresh, file)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_the_noted_process_of_a_gone_host_is_a_leftover() {
        use std::os::unix::process::CommandExt;
        let mut child = std::process::Command::new("sleep").arg("100").process_group(0).spawn().unwrap();
        let end = std::time::Instant::now() + Duration::from_secs(10);
        let look = loop {
            let look = look_at(child.id()).unwrap();
            if look.hash().is_some() {
                break look;
            }
            assert!(std::time::Instant::now() < end);
            std::thread::yield_now();
        };
        let boot = boot_id().unwrap();
        let given = (1, hash([b"100".as_slice()].into_iter()));
        let entry = Entry {
            child: Identity { pid: child.id(), started: look.started },
            host: Identity { pid: child.id(), started: 1 },
            boot: boot.clone(),
            seen: vec![],
            given,
        };
        assert!(entry.is_left(&boot));
        let but = |change: &dyn Fn(&mut Entry)| {
            let mut entry = entry.clone();
            change(&mut entry);
            entry.is_left(&boot)
        };
        assert!(but(&|e| (e.seen, e.given) = (vec![look.hash().unwrap()], (0, 0))));
        assert!(!but(&|e| e.given = (1, 5)));
        assert!(!but(&|e| e.given = (0, hash([].into_iter()))));
        assert!(!but(&|e| e.child.started += 1));
        assert!(!but(&|e| e.boot = "another".into()));
        assert!(!but(&|e| e.child.pid = std::process::id()));
        let me = std::process::id();
        assert!(!but(&|e| e.host = Identity { pid: me, started: look_at(me).unwrap().started }));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!entry.is_left(&boot));
    }

    #[tokio::test]
    async fn the_file_is_bounded_and_nonsense_in_it_is_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run/children.json");
        let leftovers = Leftovers::open(Some(file.clone()));
        let me = Some(std::process::id());
        let mut noted = Vec::new();
        for _ in 0..CAP + 3 {
            noted.extend(leftovers.note(me, &[]).await);
        }
        assert_eq!(read(&file).len(), CAP);
        drop(noted);
        leftovers.note(me, &[]).await.unwrap().forget().await;
        assert_eq!(fs::read_to_string(&file).unwrap(), "[]");
        fs::write(&file, "{nonsense").unwrap();
        Leftovers::open(Some(file)).reap().await;
    }
}
