//! The folder of memories: reads, writes and moves entries under a lock; never touches a file that is not one of
//! its own, and never lets a name become a path unchecked.

pub(crate) mod entry;
pub(crate) mod search;
pub(crate) mod tools;

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant, SystemTime},
};

use entry::{Entry, is_name, is_reserved, normalize_tags};
use time::OffsetDateTime;

/// The largest text that `remember` takes, in bytes.
pub(crate) const MAX_CONTENT: usize = 1 << 20;
/// The largest file that is read, in bytes; the person may have put it there.
const MAX_FILE: u64 = 8 << 20;
/// The most tags of an entry.
const MAX_TAGS: usize = 64;
/// How long to wait for another writer.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Why nothing was read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MemoryError {
    #[error("invalid memory name \"{}\": use letters, digits, dash and underscore, at most 64", shown(name))]
    BadName { name: String },
    #[error("the name INDEX is taken by the list of memories: choose another")]
    Reserved,
    #[error("no memory named \"{name}\"")]
    NotFound { name: String },
    #[error("content is {size} bytes, more than the limit of {MAX_CONTENT}: split it over several memories")]
    TooLarge { size: usize },
    #[error("the memory \"{name}\" is larger than {MAX_FILE} bytes and is not read")]
    FileTooLarge { name: String },
    #[error("too many tags: {count}, the limit is {MAX_TAGS}")]
    TooManyTags { count: usize },
    #[error("another program has been writing to the memories for {} s: try again", LOCK_WAIT.as_secs())]
    Busy,
    #[error("could not {what}: {source}")]
    Io { what: String, source: io::Error },
}

/// What a list shows of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) name: String,
    pub(crate) summary: String,
    pub(crate) tags: Vec<String>,
    pub(crate) size: u64,
}

/// What `remember` did.
pub(crate) struct Saved {
    pub(crate) created: bool,
    pub(crate) tags: Vec<String>,
}

/// When a file changes, one of these does.
type Stamp = (Option<SystemTime>, u64, u64);

/// The folder `memory/` of a home.
#[derive(Debug)]
pub(crate) struct MemoryFolder {
    root: PathBuf,
    /// The last seen heads by name, so that a list opens only the files that changed.
    heads: Mutex<HashMap<String, (Stamp, Head)>>,
}

impl MemoryFolder {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root, heads: Mutex::default() }
    }

    /// Every memory's head, by name. Files with other names are left alone; one that cannot be read is left out.
    pub(crate) fn list(&self) -> Result<Vec<Head>, MemoryError> {
        let files = self.files()?;
        let mut known = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = HashMap::with_capacity(files.len());
        let mut heads = Vec::with_capacity(files.len());
        for (name, stamp) in files {
            let head = match known.remove(&name) {
                Some((seen, head)) if seen == stamp => head,
                _ => match self.read_file(&name) {
                    Ok(entry) => {
                        Head { summary: entry.summary(), tags: entry.tags, size: stamp.1, name: name.clone() }
                    }
                    Err(problem) => {
                        tracing::warn!(%problem, "a memory is left out of the list");
                        continue;
                    }
                },
            };
            fresh.insert(name, (stamp, head.clone()));
            heads.push(head);
        }
        *known = fresh;
        Ok(heads)
    }

    /// Every memory, by name.
    pub(crate) fn read_all(&self) -> Result<Vec<Entry>, MemoryError> {
        let mut entries = Vec::new();
        for (name, _) in self.files()? {
            match self.read_file(&name) {
                Ok(entry) => entries.push(entry),
                Err(problem) => tracing::warn!(%problem, "a memory is left out of a search"),
            }
        }
        Ok(entries)
    }

    /// One memory.
    pub(crate) fn read(&self, name: &str) -> Result<Entry, MemoryError> {
        check_name(name)?;
        self.read_file(name)
    }

    /// Writes a memory, over an older one of its name. `tags` of `None` keeps the older one's; a line of tags at
    /// the end of `content` counts as tags.
    pub(crate) fn write(
        &self,
        name: &str,
        content: &str,
        tags: Option<&[&str]>,
    ) -> Result<Saved, MemoryError> {
        check_name(name)?;
        if content.len() > MAX_CONTENT {
            return Err(MemoryError::TooLarge { size: content.len() });
        }
        let mut entry = Entry::parse(name, content);
        let _lock = self.lock()?;
        let older = match self.read_file(name) {
            Ok(older) => Some(older),
            Err(MemoryError::NotFound { .. }) => None,
            Err(problem) => return Err(problem),
        };
        let more = match (tags, &older) {
            (Some(tags), _) => normalize_tags(tags.iter().copied()),
            (None, Some(older)) if entry.tags.is_empty() => older.tags.clone(),
            (None, _) => Vec::new(),
        };
        entry.tags.extend(more);
        entry.tags = normalize_tags(entry.tags.iter().map(String::as_str));
        if entry.tags.len() > MAX_TAGS {
            return Err(MemoryError::TooManyTags { count: entry.tags.len() });
        }
        self.replace(&self.path(name), &entry.render())?;
        self.forget_head(name);
        self.write_index()?;
        Ok(Saved { created: older.is_none(), tags: entry.tags })
    }

    /// Moves a memory to `.attic` and says under which name it lies there.
    pub(crate) fn forget(&self, name: &str) -> Result<String, MemoryError> {
        check_name(name)?;
        if !self.root.is_dir() {
            return Err(MemoryError::NotFound { name: name.to_owned() });
        }
        let _lock = self.lock()?;
        let path = self.path(name);
        if !path.is_file() {
            return Err(MemoryError::NotFound { name: name.to_owned() });
        }
        let attic = self.root.join(".attic");
        create_dir(&attic)?;
        let now = OffsetDateTime::now_local().unwrap_or_else(|_| OffsetDateTime::now_utc());
        let stamp = format!(
            "{:04}{:02}{:02}_{:02}{:02}{:02}",
            now.year(),
            u8::from(now.month()),
            now.day(),
            now.hour(),
            now.minute(),
            now.second()
        );
        let mut kept = format!("{name}-{stamp}.md");
        let mut count = 1;
        // Two within one second: the first must not be lost.
        while attic.join(&kept).exists() {
            count += 1;
            kept = format!("{name}-{stamp}-{count}.md");
        }
        fs::rename(&path, attic.join(&kept)).map_err(|e| io_error("move the memory to .attic", e))?;
        self.forget_head(name);
        self.write_index()?;
        Ok(kept)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.md"))
    }

    /// The names that are memories, sorted, each with what tells a changed file.
    fn files(&self) -> Result<Vec<(String, Stamp)>, MemoryError> {
        let entries = match fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(io_error("list the memories", e)),
        };
        let mut files = Vec::new();
        for file in entries.flatten() {
            let file_name = file.file_name();
            let Some(name) = file_name.to_str().and_then(|n| n.strip_suffix(".md")) else { continue };
            if !is_name(name) || is_reserved(name) {
                continue;
            }
            let Ok(meta) = fs::metadata(file.path()) else { continue };
            if meta.is_file() {
                files.push((name.to_owned(), stamp(&meta)));
            }
        }
        files.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(files)
    }

    fn read_file(&self, name: &str) -> Result<Entry, MemoryError> {
        let what = || format!("read the memory \"{name}\"");
        let path = self.path(name);
        // Opening a pipe would wait for its other end.
        if fs::metadata(&path).is_ok_and(|meta| !meta.is_file()) {
            return Err(MemoryError::NotFound { name: name.to_owned() });
        }
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(MemoryError::NotFound { name: name.to_owned() });
            }
            Err(e) => return Err(io_error(what(), e)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|e| io_error(what(), e))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(MemoryError::FileTooLarge { name: name.to_owned() });
        }
        let text = String::from_utf8_lossy(&bytes);
        Ok(Entry::parse(name, text.trim_start_matches('\u{feff}')))
    }

    fn forget_head(&self, name: &str) {
        self.heads.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Rewrites the list that people and other programs read. The caller holds the lock.
    fn write_index(&self) -> Result<(), MemoryError> {
        let mut text = "# eVi memory index\n\n".to_owned();
        for head in self.list()? {
            text.push_str(&format!("- `{}` — {}", head.name, head.summary));
            if !head.tags.is_empty() {
                text.push_str(&format!("  [{}]", head.tags.join(", ")));
            }
            text.push('\n');
        }
        self.replace(&self.root.join("INDEX.md"), &text)
    }

    /// Puts a whole file in place at once: a reader sees the old text or the new.
    fn replace(&self, path: &Path, text: &str) -> Result<(), MemoryError> {
        let write = || -> io::Result<()> {
            // A name that is no memory's, so that nobody lists it half written.
            let mut temp = tempfile::Builder::new().prefix(".evi-").suffix(".tmp").tempfile_in(&self.root)?;
            temp.write_all(text.as_bytes())?;
            temp.as_file().sync_all()?;
            temp.persist(path).map_err(|e| e.error)?;
            Ok(())
        };
        write().map_err(|e| io_error(format!("write {}", path.display()), e))
    }

    /// The lock that every writer of this folder takes, in this process or another; gone when it is dropped.
    fn lock(&self) -> Result<File, MemoryError> {
        create_dir(&self.root)?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).read(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let what = "lock the memories";
        let file = options.open(self.root.join(".lock")).map_err(|e| io_error(what, e))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if begun.elapsed() < LOCK_WAIT => {
                    thread::sleep(Duration::from_millis(2));
                }
                Err(TryLockError::WouldBlock) => return Err(MemoryError::Busy),
                Err(TryLockError::Error(e)) => return Err(io_error(what, e)),
            }
        }
    }
}

fn check_name(name: &str) -> Result<(), MemoryError> {
    if !is_name(name) {
        return Err(MemoryError::BadName { name: name.to_owned() });
    }
    if is_reserved(name) {
        return Err(MemoryError::Reserved);
    }
    Ok(())
}

/// Memories are private: the folder is the person's alone.
fn create_dir(path: &Path) -> Result<(), MemoryError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|e| io_error(format!("create {}", path.display()), e))
}

fn stamp(meta: &fs::Metadata) -> Stamp {
    // A replaced file is a new one, even when its time and size are the same.
    #[cfg(unix)]
    let id = std::os::unix::fs::MetadataExt::ino(meta);
    #[cfg(not(unix))]
    let id = 0;
    (meta.modified().ok(), meta.len(), id)
}

fn io_error(what: impl Into<String>, source: io::Error) -> MemoryError {
    MemoryError::Io { what: what.into(), source }
}

/// A hostile name in a message: short, and without what would move a terminal's cursor.
fn shown(name: &str) -> String {
    name.chars().take(80).flat_map(char::escape_debug).collect()
}
