//! Kept results, a file each under `state/results/`: a line that says whose it is, then the result as it came. It is
//! read by whom it was kept for and by nobody else; the oldest go when there are too many.

use std::{
    fs::{self, DirEntry},
    io::{self, BufRead as _, BufReader, Write as _},
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

use evi_domain::{
    Caller, KeptError, KeptResults, ResultId, ToolResult,
    kept::{Form, Page},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Home, atomic};

/// The most bytes of all results.
const MOST_BYTES: u64 = 1 << 30;
/// How long one is kept.
const MOST_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// After so many new bytes the oldest are looked at.
const PRUNE_EVERY: u64 = 64 << 20;

/// The results under `state/results/`.
#[derive(Debug)]
pub struct DiskResults {
    home: Home,
    /// Written since the last look at what is old.
    written: AtomicU64,
}

/// The first line of a file.
#[derive(Serialize, Deserialize)]
struct Head {
    reader: String,
    /// Of the result that follows: a file that broke off is not there.
    bytes: usize,
}

/// Whose it is. A client is known by the name that it gives itself.
fn reader(caller: &Caller) -> String {
    match caller {
        Caller::Chat { chat } => format!("chat:{chat}"),
        Caller::Client { name, .. } => format!("client:{name}"),
        Caller::Person => "person".to_owned(),
    }
}

impl DiskResults {
    /// The results of a home; makes no folder before something is kept.
    pub fn new(home: Home) -> Self {
        Self { home, written: AtomicU64::new(0) }
    }

    /// A handle that a model made up must not lead out of the folder.
    fn path(&self, id: &ResultId) -> Option<PathBuf> {
        let text = id.as_str();
        (text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit()))
            .then(|| self.home.results().join(text))
    }

    fn load(&self, caller: &Caller, id: &ResultId) -> Result<ToolResult, KeptError> {
        let not_there = || KeptError::NotThere(id.clone());
        let path = self.path(id).ok_or_else(not_there)?;
        let bytes =
            atomic::read(&path).map_err(|e| KeptError::Failed(e.to_string()))?.ok_or_else(not_there)?;
        let text = String::from_utf8(bytes).map_err(|_| not_there())?;
        let (head, body) = text.split_once('\n').ok_or_else(not_there)?;
        let head: Head = serde_json::from_str(head).map_err(|_| not_there())?;
        if head.reader != reader(caller) || head.bytes != body.len() {
            return Err(not_there());
        }
        RawValue::from_string(body.to_owned()).map(ToolResult::from_raw).map_err(|_| not_there())
    }

    /// Removes what is too old and, beyond the most bytes, the oldest first. Touches the disk.
    pub fn prune(&self) {
        self.prune_to(MOST_BYTES, MOST_AGE, SystemTime::now());
    }

    fn prune_to(&self, most_bytes: u64, most_age: Duration, now: SystemTime) {
        self.written.store(0, Ordering::Relaxed);
        let mut files: Vec<(SystemTime, u64, PathBuf)> = self
            .files()
            .filter_map(|entry| {
                let about = entry.metadata().ok()?;
                Some((about.modified().ok()?, about.len(), entry.path()))
            })
            .collect();
        // The newest first; of one age by name, which sorts by time, too.
        files.sort_unstable_by(|a, b| (b.0, &b.2).cmp(&(a.0, &a.2)));
        let mut bytes = 0u64;
        for (made, size, path) in files {
            bytes = bytes.saturating_add(size);
            let old = now.duration_since(made).is_ok_and(|age| age > most_age);
            if (old || bytes > most_bytes)
                && let Err(error) = atomic::remove(&path)
            {
                tracing::warn!(%error, "an old result could not be removed");
            }
        }
    }

    fn files(&self) -> impl Iterator<Item = DirEntry> {
        fs::read_dir(self.home.results()).into_iter().flatten().flatten()
    }
}

impl KeptResults for DiskResults {
    fn keep(&self, caller: &Caller, result: &ToolResult) -> Result<ResultId, KeptError> {
        let failed =
            |e: &dyn std::fmt::Display| KeptError::Failed(format!("the result could not be kept: {e}"));
        let id = ResultId::fresh();
        let body = result.raw().get();
        let head = serde_json::to_string(&Head { reader: reader(caller), bytes: body.len() })
            .map_err(|e| failed(&e))?;
        self.home.prepare().map_err(|e| failed(&e))?;
        let path = self.path(&id).ok_or_else(|| failed(&"its name is none"))?;
        // Without a sync: one that is lost in a crash is a result that has gone.
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        atomic::private(&mut options);
        let written = options.open(&path).and_then(|mut file| {
            file.write_all(head.as_bytes())?;
            file.write_all(b"\n")?;
            file.write_all(body.as_bytes())
        });
        if let Err(error) = written {
            // Half of a result helps nobody and takes what room there is.
            let _ = fs::remove_file(&path);
            return Err(failed(&error));
        }
        let size = body.len() as u64;
        if self.written.fetch_add(size, Ordering::Relaxed) + size > PRUNE_EVERY {
            self.prune();
        }
        Ok(id)
    }

    fn read(
        &self,
        caller: &Caller,
        id: &ResultId,
        form: Form,
        offset: usize,
        limit: usize,
    ) -> Result<Page, KeptError> {
        let result = self.load(caller, id)?;
        Ok(match form {
            Form::Text => Page::of(&result.to_model_text(), offset, limit),
            Form::Raw => Page::of(result.raw().get(), offset, limit),
        })
    }

    fn forget(&self, caller: &Caller) {
        let gone = reader(caller);
        for entry in self.files() {
            let path = entry.path();
            if head(&path).is_ok_and(|head| head.reader == gone)
                && let Err(error) = atomic::remove(&path)
            {
                tracing::warn!(%error, "a result could not be removed");
            }
        }
    }
}

fn head(path: &std::path::Path) -> io::Result<Head> {
    let mut line = String::new();
    BufReader::new(fs::File::open(path)?).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

#[cfg(test)]
mod tests {
    use evi_domain::{ChatId, ids::Exposure};

    use super::*;

    fn chat(id: &str) -> Caller {
        Caller::Chat { chat: ChatId::new(id) }
    }
    fn all(results: &DiskResults, caller: &Caller, id: &ResultId) -> Result<String, KeptError> {
        results.read(caller, id, Form::Text, 0, usize::MAX).map(|page| page.text)
    }

    #[test]
    fn i55_a_kept_result_is_read_by_page_by_whom_it_was_kept_for_and_looks_gone_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let results = DiskResults::new(Home::at(dir.path().join("h")));
        let text = "äb\n".repeat(1000);
        let client = |name: &str| Caller::Client { name: name.into(), exposure: Exposure::default() };
        for (own, other) in
            [(chat("a"), chat("b")), (client("a"), client("b")), (Caller::Person, chat("person"))]
        {
            let id = results.keep(&own, &ToolResult::text(text.clone())).unwrap();
            let page = results.read(&own, &id, Form::Text, 1, 3).unwrap();
            assert_eq!((page.text.as_str(), page.next, page.total), ("b\nä", Some(4), 3000));
            assert_eq!(all(&results, &own, &id).unwrap(), text);
            assert!(results.read(&own, &id, Form::Raw, 0, 9).unwrap().text.starts_with('{'));
            assert_eq!(all(&results, &other, &id), Err(KeptError::NotThere(id.clone())));
            fs::write(results.path(&id).unwrap(), "{").unwrap();
            assert_eq!(all(&results, &own, &id), Err(KeptError::NotThere(id)));
        }
        for made_up in ["", "../../x", "/etc/passwd", &"0".repeat(32)] {
            let id = ResultId::new(made_up);
            assert_eq!(all(&results, &chat("a"), &id), Err(KeptError::NotThere(id)));
        }
    }

    #[cfg(unix)]
    #[test]
    fn kept_results_are_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("h"));
        let results = DiskResults::new(home.clone());
        let id = results.keep(&Caller::Person, &ToolResult::text("x")).unwrap();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(home.results()), mode(results.path(&id).unwrap())), (0o700, 0o600));
    }

    #[test]
    fn the_oldest_go_first_and_those_of_a_conversation_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let results = DiskResults::new(Home::at(dir.path().join("h")));
        let keep = |caller: &Caller| results.keep(caller, &ToolResult::text("x".repeat(1000))).unwrap();
        let there = |caller: &Caller, id: &ResultId| all(&results, caller, id).is_ok();
        let (a, b) = (chat("a"), chat("b"));
        let ids: Vec<ResultId> = (0..4).map(|_| keep(&a)).collect();
        results.prune_to(2500, MOST_AGE, SystemTime::now());
        assert_eq!(ids.iter().map(|id| there(&a, id)).collect::<Vec<_>>(), [false, false, true, true]);
        let other = keep(&b);
        results.forget(&a);
        assert!(!there(&a, &ids[3]) && there(&b, &other));
        results.prune_to(u64::MAX, MOST_AGE, SystemTime::now() + MOST_AGE + Duration::from_secs(60));
        assert!(!there(&b, &other));
    }
}
