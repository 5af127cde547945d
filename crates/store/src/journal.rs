//! The record of calls: entries go through a bounded channel to one writer, in batches. Never makes a call wait.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use evi_domain::{CallId, Journal, JournalEntry};
use rusqlite::{Connection, TransactionBehavior, params};

use crate::{
    StoreError,
    chats::{signed, unsigned},
    db::Db,
};

/// How many rows are kept.
const CAP: i64 = 50_000;
/// How many entries may wait for the writer.
const WAITING: usize = 4096;
/// The most that go into one transaction.
const BATCH: usize = 512;
/// How long reading waits until what was recorded before is written.
const FLUSH: Duration = Duration::from_secs(1);

/// The record in the database. Cheap to clone; the last clone writes what is left when it goes.
#[derive(Clone)]
pub struct SqliteJournal {
    inner: Arc<Inner>,
}

struct Inner {
    db: Db,
    /// `None` where nothing may be written.
    sender: Mutex<Option<SyncSender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    dropped: AtomicU64,
}

enum Job {
    Record(JournalEntry),
    /// Answers when everything before is written.
    Flush(SyncSender<()>),
}

impl SqliteJournal {
    pub(crate) fn start(db: Db, writer: Option<Connection>) -> Self {
        Self::start_with(db, writer, WAITING, CAP)
    }

    fn start_with(db: Db, writer: Option<Connection>, waiting: usize, cap: i64) -> Self {
        let (sender, jobs) = sync_channel(waiting);
        let thread = writer.and_then(|connection| {
            let body = move || write(connection, &jobs, cap);
            thread::Builder::new().name("evi-journal".to_owned()).spawn(body).ok()
        });
        let sender = thread.is_some().then_some(sender);
        let inner =
            Inner { db, sender: Mutex::new(sender), thread: Mutex::new(thread), dropped: AtomicU64::new(0) };
        Self { inner: Arc::new(inner) }
    }

    /// How many entries were dropped because the writer did not keep up or may not write.
    pub fn dropped(&self) -> u64 {
        self.inner.dropped.load(Ordering::Relaxed)
    }

    /// Waits until what was recorded before is written, 1 s at most; says whether it is.
    pub fn flush(&self) -> bool {
        let end = Instant::now() + FLUSH;
        loop {
            let (done, written) = sync_channel(1);
            if self.send(Job::Flush(done)) {
                return written.recv_timeout(end.saturating_duration_since(Instant::now())).is_ok();
            }
            if self.inner.db.writable().is_err() || Instant::now() >= end {
                return false;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn send(&self, job: Job) -> bool {
        let sender = self.inner.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().is_some_and(|s| s.try_send(job).is_ok())
    }

    fn read(&self, limit: usize) -> Result<Vec<JournalEntry>, StoreError> {
        let connection = self.inner.db.connection();
        let mut statement = connection
            .prepare_cached(
                "SELECT id, at_ms, caller, tool, arguments, outcome, took_ms FROM calls ORDER BY seq DESC LIMIT ?1",
            )
            .map_err(StoreError::db("read"))?;
        let rows = statement
            .query_map([i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
                Ok(JournalEntry {
                    id: CallId::new(row.get::<_, String>(0)?),
                    at_ms: unsigned(row.get(1)?),
                    caller: row.get(2)?,
                    tool: row.get(3)?,
                    arguments: row.get(4)?,
                    outcome: row.get(5)?,
                    took_ms: unsigned(row.get(6)?),
                })
            })
            .map_err(StoreError::db("read"))?;
        rows.collect::<Result<_, _>>().map_err(StoreError::db("read"))
    }
}

impl Journal for SqliteJournal {
    fn record(&self, entry: JournalEntry) {
        if !self.send(Job::Record(entry)) {
            self.inner.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Touches the disk: use a blocking thread.
    fn recent(&self, limit: usize) -> Vec<JournalEntry> {
        self.flush();
        self.read(limit).unwrap_or_else(|error| {
            tracing::warn!(%error, "the record of calls cannot be read");
            Vec::new()
        })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

fn write(mut connection: Connection, jobs: &Receiver<Job>, cap: i64) {
    while let Ok(first) = jobs.recv() {
        let mut entries = Vec::new();
        let mut waiting = Vec::new();
        for job in std::iter::once(first).chain(jobs.try_iter().take(BATCH - 1)) {
            match job {
                Job::Record(entry) => entries.push(entry),
                Job::Flush(done) => waiting.push(done),
            }
        }
        if let Err(error) = insert(&mut connection, &entries, cap) {
            tracing::warn!(%error, lost = entries.len(), "the record of calls cannot be written");
        }
        for done in waiting {
            let _ = done.try_send(());
        }
    }
}

fn insert(connection: &mut Connection, entries: &[JournalEntry], cap: i64) -> rusqlite::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut statement = transaction.prepare_cached(
            "INSERT INTO calls (id, at_ms, caller, tool, arguments, outcome, took_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        for e in entries {
            let (at, took) = (signed(e.at_ms), signed(e.took_ms));
            statement.execute(params![e.id.as_str(), at, e.caller, e.tool, e.arguments, e.outcome, took])?;
        }
    }
    transaction.execute("DELETE FROM calls WHERE seq <= (SELECT max(seq) FROM calls) - ?1", [cap])?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Home;

    fn entry(n: u64) -> JournalEntry {
        JournalEntry {
            id: CallId::new(n.to_string()),
            at_ms: n,
            caller: "person".into(),
            tool: "remember".into(),
            arguments: "{}".into(),
            outcome: "ok".into(),
            took_ms: 1,
        }
    }

    #[test]
    fn the_newest_come_first_and_the_oldest_beyond_the_cap_go() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let db = Db::open(&home).unwrap();
        let writer = Connection::open(home.db()).unwrap();
        let journal = SqliteJournal::start_with(db.clone(), Some(writer), WAITING, 100);
        for n in 0..1000 {
            journal.record(entry(n));
        }
        let recent = journal.recent(3);
        assert_eq!(recent, vec![entry(999), entry(998), entry(997)]);
        assert_eq!((journal.recent(usize::MAX).len(), journal.dropped()), (100, 0));
        journal.record(entry(1000));
        drop(journal);
        let count: i64 = db.connection().query_row("SELECT max(at_ms) FROM calls", [], |r| r.get(0)).unwrap();
        assert_eq!(count, 1000, "what was left was not written");
    }

    #[test]
    fn a_full_channel_drops_and_counts_and_never_waits() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let db = Db::open(&home).unwrap();
        let writer = Connection::open(home.db()).unwrap();
        writer.busy_timeout(Duration::from_secs(30)).unwrap();
        let journal = SqliteJournal::start_with(db.clone(), Some(writer), 2, CAP);
        {
            let blocker = Connection::open(home.db()).unwrap();
            blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
            // One batch is with the writer, which waits for the lock; two more wait in the channel.
            while journal.dropped() == 0 {
                journal.record(entry(1));
            }
        }
        assert!(!journal.recent(10).is_empty());
    }
}
