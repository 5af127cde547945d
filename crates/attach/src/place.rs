//! A home's run folder: takes it, or finds who has it; does not know what an owner does with it.
//!
//! Two locks. `owner.lock` is held by the owner. `door.lock` is held by whoever is taking the home, for as long as
//! that takes: while a newcomer waits for a handover nobody else can slip in, and least of all the old owner.

use std::{
    fs::{File, TryLockError},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use evi_domain::Exposure;
use interprocess::local_socket::{GenericFilePath, ToFsName, tokio::Stream, traits::tokio::Stream as _};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use crate::{
    AttachError, Connection, Hello, Kind, Owner, OwnerInfo, Rank, address,
    connection::FIRST_LINE_WAIT,
    hello::{Answer, Reason},
    owner::read_record,
};

/// How long it is tried to reach an owner, and a good bound for [`Place::claim`].
pub const REACH: Duration = Duration::from_secs(10);

/// The folder `$EVI_HOME/state/run` of one home.
#[derive(Clone, Debug)]
pub struct Place {
    run_dir: PathBuf,
}

/// Who owns the home after [`Place::claim`].
#[derive(Debug)]
pub enum Claim {
    /// This process.
    Owner(Owner),
    /// Another one, of equal or higher rank.
    Other(OwnerInfo),
}

/// How this process got in after [`Place::enter`].
#[derive(Debug)]
pub enum Entry {
    /// It owns the home.
    Owner(Owner),
    /// It is connected to the owner.
    Attached(Connection),
}

impl Place {
    /// The place of `run_dir`, which is made, for this user only, when the home is first claimed.
    pub fn new(run_dir: impl Into<PathBuf>) -> Self {
        Self { run_dir: run_dir.into() }
    }

    /// Takes the home, or says who has it. An owner of lower rank is asked to hand it over.
    ///
    /// Needs a tokio runtime. Dropping the future gives up and leaves nothing behind.
    ///
    /// # Errors
    /// `Silent` when the owner neither answers nor lets go within `wait`; `Proto` when it speaks another version;
    /// `Folder`, `Lock`, `Listen` when the system does not let us.
    pub async fn claim(&self, rank: Rank, wait: Duration) -> Result<Claim, AttachError> {
        let run_dir = address::private_folder(&self.run_dir)?;
        let started = Instant::now();
        let mut door: Option<File> = None;
        let mut promised: Option<Uuid> = None;
        let mut pause = Pause::new();
        loop {
            if door.is_none() {
                door = try_lock(&run_dir.join("door.lock"))?;
            }
            if door.is_some() {
                if let Some(lock) = try_lock(&run_dir.join("owner.lock"))? {
                    return Owner::open(&run_dir, rank, lock).map(Claim::Owner);
                }
                // Somebody has it. Ask each owner once; a new one has a new id.
                if promised.is_none() || promised != read_record(&run_dir).map(|info| info.id) {
                    match self.ask_for_handover(rank).await {
                        Ok(Asked::Promised(id)) => promised = Some(id),
                        Ok(Asked::Kept(info)) => return Ok(Claim::Other(info)),
                        Err(error @ AttachError::Proto { .. }) => return Err(error),
                        // It is starting or ending; let others try meanwhile.
                        Err(_) if promised.is_none() => door = None,
                        Err(_) => {}
                    }
                }
            }
            if started.elapsed() >= wait {
                return Err(AttachError::Silent { waited: started.elapsed() });
            }
            sleep(pause.next()).await;
        }
    }

    /// Connects to the present owner and says `hello`; tries again for up to 10 s while one takes over.
    ///
    /// # Errors
    /// `NoOwner` when nobody holds the home; `Proto`; `Refused`; `Silent` when the owner never answered.
    pub async fn connect(&self, hello: Hello) -> Result<Connection, AttachError> {
        self.connect_within(&hello, REACH).await
    }

    /// Claims the home, or connects to who has it: whichever comes true first within `wait`, whoever comes and goes
    /// meanwhile.
    ///
    /// # Errors
    /// As [`Place::claim`] and [`Place::connect`].
    pub async fn enter(&self, hello: Hello, wait: Duration) -> Result<Entry, AttachError> {
        let started = Instant::now();
        loop {
            let left = wait.saturating_sub(started.elapsed());
            match self.claim(hello.rank, left).await? {
                Claim::Owner(owner) => return Ok(Entry::Owner(owner)),
                Claim::Other(_) => {}
            }
            let left = wait.saturating_sub(started.elapsed());
            match self.connect_within(&hello, left).await {
                Ok(connection) => return Ok(Entry::Attached(connection)),
                Err(AttachError::NoOwner) if started.elapsed() < wait => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Who owns the home now, as it wrote it; `None` when nobody does.
    pub fn present(&self) -> Option<OwnerInfo> {
        if is_free(&self.run_dir) { None } else { read_record(&self.run_dir) }
    }

    async fn connect_within(&self, hello: &Hello, wait: Duration) -> Result<Connection, AttachError> {
        let started = Instant::now();
        let mut pause = Pause::new();
        loop {
            match self.knock(hello).await {
                Ok((connection, answer)) if answer.ok => return Ok(connection),
                Ok((_, Answer { reason: Some(reason), .. })) if reason != Reason::Ending => {
                    return Err(AttachError::Refused { reason: reason.to_string() });
                }
                Err(error @ AttachError::Proto { .. }) => return Err(error),
                Ok(_) | Err(_) => {}
            }
            if is_free(&self.run_dir) {
                return Err(AttachError::NoOwner);
            }
            if started.elapsed() >= wait {
                return Err(AttachError::Silent { waited: started.elapsed() });
            }
            sleep(pause.next()).await;
        }
    }

    async fn ask_for_handover(&self, rank: Rank) -> Result<Asked, AttachError> {
        let (_, answer) = self.knock(&Hello::new(Kind::Handover, rank, Exposure::default())).await?;
        match (answer.ok, answer.owner, answer.reason) {
            (true, Some(owner), _) => Ok(Asked::Promised(owner.id)),
            (false, Some(owner), Some(Reason::Rank)) => Ok(Asked::Kept(owner)),
            _ => Err(AttachError::Malformed { what: "answer to a handover" }),
        }
    }

    /// One attempt: connect, hello, answer.
    async fn knock(&self, hello: &Hello) -> Result<(Connection, Answer), AttachError> {
        let owner = read_record(&self.run_dir).ok_or(AttachError::NoOwner)?;
        let attempt = timeout(FIRST_LINE_WAIT, async {
            let name = Path::new(&owner.socket).to_fs_name::<GenericFilePath>()?;
            let mut connection = Connection::new(Stream::connect(name).await?);
            #[cfg(unix)]
            self.check_peer(&connection)?;
            let answer: Answer = connection.ask(hello).await?;
            Ok::<_, io::Error>((connection, answer))
        });
        let (connection, answer) = match attempt.await {
            Ok(Ok(reached)) => reached,
            Ok(Err(error)) => return Err(AttachError::Ended(Some(error))),
            Err(_) => return Err(AttachError::Silent { waited: FIRST_LINE_WAIT }),
        };
        if answer.proto != hello.proto {
            return Err(AttachError::Proto { theirs: answer.proto, ours: hello.proto });
        }
        Ok((connection, answer))
    }

    /// Who listens must be who wrote the record: a socket in a shared folder may have got another master.
    #[cfg(unix)]
    fn check_peer(&self, connection: &Connection) -> io::Result<()> {
        let record = std::fs::metadata(crate::owner::record_path(&self.run_dir))?;
        let wrote = std::os::unix::fs::MetadataExt::uid(&record);
        match connection.peer_uid() {
            Some(listens) if listens != wrote => Err(io::ErrorKind::PermissionDenied.into()),
            _ => Ok(()),
        }
    }
}

enum Asked {
    /// It lets go as soon as its upstreams are stopped.
    Promised(Uuid),
    /// It does not.
    Kept(OwnerInfo),
}

/// Short at first: most waits are for a process that is just starting or ending.
struct Pause(Duration);

impl Pause {
    fn new() -> Self {
        Self(Duration::from_millis(5))
    }

    fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(Duration::from_millis(50));
        now
    }
}

/// The lock, or `None` when another has it.
fn try_lock(path: &Path) -> Result<Option<File>, AttachError> {
    let failed = |source| AttachError::Lock { path: path.into(), source };
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Whether nobody holds the home. Takes a shared lock for a moment, which no other look hinders.
fn is_free(run_dir: &Path) -> bool {
    match File::open(run_dir.join("owner.lock")) {
        Ok(file) => file.try_lock_shared().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}
