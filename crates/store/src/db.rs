//! The database file: opening, its version, forward migrations after a copy. What the tables mean is with those who
//! use them.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::{ChatStore, Home, SqliteJournal, StoreError, atomic::FileLock};

/// Each takes the database one version further; the version is how many have run.
const MIGRATIONS: &[&str] = &["
    CREATE TABLE chats (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL
    );
    CREATE TABLE messages (
        chat TEXT NOT NULL REFERENCES chats (id) ON DELETE CASCADE,
        id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (chat, id)
    );
    CREATE INDEX messages_in_order ON messages (chat, seq);
    CREATE TABLE calls (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL,
        at_ms INTEGER NOT NULL,
        caller TEXT NOT NULL,
        tool TEXT NOT NULL,
        arguments TEXT NOT NULL,
        outcome TEXT NOT NULL,
        took_ms INTEGER NOT NULL
    );
"];

/// How long a write waits for that of another process.
const BUSY: Duration = Duration::from_secs(5);

/// The database of chats and activity. Cheap to clone; its calls touch the disk: use a blocking thread.
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

struct Inner {
    path: PathBuf,
    connection: Mutex<Connection>,
    /// The file's version, when it is newer than what is known here.
    newer: Option<i64>,
    /// Where a damaged file was put, for which a new one was begun.
    damaged: Option<PathBuf>,
}

impl Db {
    /// Opens `state/evi.db`, making it where there is none and bringing an older one up to date, after a copy.
    ///
    /// A file that is no database any more is put aside as `evi.db.damaged-<seconds>`, and a new one begun: without
    /// that nothing of eVi would start.
    ///
    /// # Errors
    /// What SQLite or the system says; nothing of the file is lost then.
    pub fn open(home: &Home) -> Result<Self, StoreError> {
        home.prepare()?;
        match Self::open_with(home.db(), MIGRATIONS) {
            Err(error) if is_damaged(&error) => {}
            result => return result,
        }
        let _lock = FileLock::take(&home.run().join("db.lock"))?;
        let damaged = match Self::open_with(home.db(), MIGRATIONS) {
            Err(error) if is_damaged(&error) => put_aside(&home.db())?,
            // Another process was quicker.
            result => return result,
        };
        tracing::error!(kept = %damaged.display(), "the database was damaged; a new one is begun");
        let mut db = Self::open_with(home.db(), MIGRATIONS)?;
        if let Some(inner) = Arc::get_mut(&mut db.inner) {
            inner.damaged = Some(damaged);
        }
        Ok(db)
    }

    fn open_with(path: PathBuf, migrations: &[&str]) -> Result<Self, StoreError> {
        make_private(&path)?;
        let mut connection = connect(&path)?;
        let known = version_of(migrations);
        let found = version(&connection)?;
        let newer = (found > known).then_some(found);
        if newer.is_some() {
            connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)
                .map_err(StoreError::db("open"))?;
            connection.busy_timeout(BUSY).map_err(StoreError::db("set up"))?;
            tracing::warn!(found, known, "the database is of a newer version and is only read");
        } else {
            set_up(&connection)?;
            if found > 0 && found < known {
                copy(&connection, &path, found)?;
            }
            migrate(&mut connection, migrations)?;
        }
        Ok(Self { inner: Arc::new(Inner { path, connection: Mutex::new(connection), newer, damaged: None }) })
    }

    /// What the person should know: that a newer eVi wrote the file and it is read-only here, or that it was damaged
    /// and where it is kept.
    pub fn notice(&self) -> Option<String> {
        let damaged = self.inner.damaged.as_ref();
        let damaged = damaged.map(|kept| {
            format!("it was damaged, so conversations begin anew; the old file is kept as {}", kept.display())
        });
        damaged.or_else(|| self.writable().err().map(|e| e.to_string()))
    }

    /// The chats in it.
    pub fn chats(&self) -> ChatStore {
        ChatStore::new(self.clone())
    }

    /// The record of calls in it, written by a thread of its own.
    ///
    /// # Errors
    /// When a second connection cannot be had.
    pub fn journal(&self) -> Result<SqliteJournal, StoreError> {
        let writer = match self.inner.newer {
            Some(_) => None,
            None => {
                let connection = connect(&self.inner.path)?;
                set_up(&connection)?;
                Some(connection)
            }
        };
        Ok(SqliteJournal::start(self.clone(), writer))
    }

    pub(crate) fn writable(&self) -> Result<(), StoreError> {
        match self.inner.newer {
            Some(found) => Err(StoreError::NewerDb { found, known: version_of(MIGRATIONS) }),
            None => Ok(()),
        }
    }

    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        // A panic in between rolled its transaction back.
        self.inner.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_damaged(error: &StoreError) -> bool {
    let StoreError::Db { source, .. } = error else { return false };
    matches!(source.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

/// Renames the file and its side files, and gives the new name.
fn put_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let kept = PathBuf::from(format!("{}.damaged-{}", path.display(), since.as_secs()));
    for side in ["", "-wal", "-shm"] {
        let (from, to) = (format!("{}{side}", path.display()), format!("{}{side}", kept.display()));
        match std::fs::rename(&from, &to) {
            Err(error) if side.is_empty() || error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::io("put aside", from)(error));
            }
            _ => {}
        }
    }
    Ok(kept)
}

fn version_of(migrations: &[&str]) -> i64 {
    i64::try_from(migrations.len()).unwrap_or(i64::MAX)
}

/// SQLite gives its side files the mode of the main one.
fn make_private(path: &Path) -> Result<(), StoreError> {
    let mut options = std::fs::OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop).map_err(StoreError::io("open", path))
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path).map_err(StoreError::db("open"))?;
    connection.busy_timeout(BUSY).map_err(StoreError::db("set up"))?;
    Ok(connection)
}

fn set_up(connection: &Connection) -> Result<(), StoreError> {
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON;")
        .map_err(StoreError::db("set up"))
}

fn version(connection: &Connection) -> Result<i64, StoreError> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(StoreError::db("read"))
}

/// `evi.db.v<N>.bak`: the database before it left that version.
fn copy(connection: &Connection, path: &Path, found: i64) -> Result<(), StoreError> {
    let backup = path.with_extension(format!("db.v{found}.bak"));
    if backup.exists() {
        return Ok(());
    }
    make_private(&backup)?;
    connection.execute("VACUUM INTO ?1", [backup.to_string_lossy()]).map(drop).map_err(StoreError::db("copy"))
}

fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), StoreError> {
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(StoreError::db("migrate"))?;
    // Another process may have been quicker.
    let found = usize::try_from(version(&transaction)?).unwrap_or_default();
    for migration in migrations.iter().skip(found) {
        transaction.execute_batch(migration).map_err(StoreError::db("migrate"))?;
    }
    if found < migrations.len() {
        transaction
            .pragma_update(None, "user_version", version_of(migrations))
            .map_err(StoreError::db("migrate"))?;
    }
    transaction.commit().map_err(StoreError::db("migrate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_database_is_copied_and_then_brought_up_to_date() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("evi.db");
        let old = &["CREATE TABLE a (x)"][..];
        Db::open_with(path.clone(), old)
            .unwrap()
            .connection()
            .execute("INSERT INTO a VALUES (1)", [])
            .unwrap();
        let new = &["CREATE TABLE a (x)", "ALTER TABLE a ADD COLUMN y DEFAULT 2"][..];
        let db = Db::open_with(path.clone(), new).unwrap();
        let sum: i64 = db.connection().query_row("SELECT x + y FROM a", [], |r| r.get(0)).unwrap();
        assert_eq!(sum, 3);
        let copy = Connection::open(dir.path().join("evi.db.v1.bak")).unwrap();
        assert_eq!(version(&copy).unwrap(), 1);
        assert_eq!(copy.query_row("SELECT count(*) FROM a", [], |r| r.get::<_, i64>(0)).unwrap(), 1);
    }

    #[test]
    fn a_migration_that_fails_leaves_the_version_it_had() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("evi.db");
        Db::open_with(path.clone(), &["CREATE TABLE a (x)"]).unwrap();
        let broken = &["CREATE TABLE a (x)", "CREATE TABLE b (x); CREATE TABLE b (x)"][..];
        assert!(Db::open_with(path.clone(), broken).is_err());
        let connection = connect(&path).unwrap();
        assert_eq!(version(&connection).unwrap(), 1);
        assert!(connection.execute("SELECT * FROM b", []).is_err());
    }

    #[test]
    fn a_damaged_file_is_kept_aside_and_a_new_one_begun() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        home.prepare().unwrap();
        let rubbish = "not a database ".repeat(1000);
        std::fs::write(home.db(), &rubbish).unwrap();
        let db = Db::open(&home).unwrap();
        let notice = db.notice().unwrap();
        let kept = notice.split("kept as ").nth(1).unwrap();
        assert_eq!(std::fs::read_to_string(kept).unwrap(), rubbish);
        db.chats().chat_create(&"c".into(), "title").unwrap();
        assert_eq!(Db::open(&home).unwrap().notice(), None, "told once, by whoever found it");
    }

    #[cfg(unix)]
    #[test]
    fn the_database_and_its_side_files_are_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let db = Db::open(&home).unwrap();
        db.connection().execute("DELETE FROM calls", []).unwrap();
        for file in
            std::fs::read_dir(home.state()).unwrap().map(Result::unwrap).filter(|f| f.path().is_file())
        {
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o077, 0, "{:?}", file.path());
        }
    }
}
