//! The process that owns a home: holds the lock, listens, and lets others of the same user in; serves nothing itself.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use interprocess::local_socket::{
    GenericFilePath, ListenerOptions, ToFsName,
    tokio::{Listener, Stream},
    traits::tokio::Listener as _,
};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use uuid::Uuid;

use crate::{
    AttachError, Connection, Hello, Kind, OwnerInfo, PROTO, Rank, address,
    connection::FIRST_LINE_WAIT,
    hello::{Answer, HelloProto, Reason},
};

/// How many newcomers may be saying hello at once; more wait in the socket's queue.
const GREETINGS: usize = 64;
/// How many may have said it and wait for [`Owner::accept`].
const ACCEPTED: usize = 16;

/// Somebody who came in.
#[derive(Debug)]
pub struct Incoming {
    /// Who, and what for; never a handover.
    pub hello: Hello,
    /// Everything behind the first lines.
    pub stream: Connection,
}

/// The right to a home's upstreams. Dropping it gives the home free; [`Owner::release`] does so in good order.
#[derive(Debug)]
pub struct Owner {
    info: OwnerInfo,
    incoming: mpsc::Receiver<Incoming>,
    handover: CancellationToken,
    closed: CancellationToken,
    listening: Option<AbortOnDropHandle<()>>,
    record: PathBuf,
    // Released last: whoever gets it finds neither our socket nor our record.
    lock: Option<File>,
}

impl Owner {
    /// Starts to listen; `lock` is held.
    pub(crate) fn open(run_dir: &Path, rank: Rank, lock: File) -> Result<Self, AttachError> {
        let record = record_path(run_dir);
        if let Some(former) = read_record(run_dir) {
            address::remove_socket(&former.socket);
            address::remove_own_folder(&former.socket);
        }
        let id = Uuid::new_v4();
        let socket = address::choose(run_dir, id)?;
        address::remove_socket(&socket);
        let info = OwnerInfo {
            id,
            pid: std::process::id(),
            rank,
            version: env!("CARGO_PKG_VERSION").into(),
            socket,
        };
        let listener = listen(&info.socket)
            .map_err(|source| AttachError::Listen { address: info.socket.clone(), source })?;
        let (sender, incoming) = mpsc::channel(ACCEPTED);
        let handover = CancellationToken::new();
        let closed = CancellationToken::new();
        let door = Door {
            #[cfg(unix)]
            uid: socket_uid(&info.socket),
            info: info.clone(),
            sender,
            handover: handover.clone(),
        };
        let listening = tokio::spawn(door.stand_open(listener, closed.clone()));
        let owner = Self {
            info,
            incoming,
            handover,
            closed,
            listening: Some(AbortOnDropHandle::new(listening)),
            record,
            lock: Some(lock),
        };
        write_record(run_dir, &owner.info)
            .map_err(|source| AttachError::Folder { path: run_dir.into(), source })?;
        tracing::info!(rank = ?rank, socket = owner.info.socket, "this process owns the home");
        Ok(owner)
    }

    /// The next one who came in; waits as long as it takes. Cancel safe.
    pub async fn accept(&mut self) -> Incoming {
        match self.incoming.recv().await {
            Some(incoming) => incoming,
            None => std::future::pending().await,
        }
    }

    /// Cancelled when one of higher rank asked for the home: stop the upstreams, then [`Owner::release`].
    pub fn handover(&self) -> CancellationToken {
        self.handover.clone()
    }

    /// What others read about this owner.
    pub fn info(&self) -> &OwnerInfo {
        &self.info
    }

    /// Gives the home free, once the upstreams are stopped: closes the socket, removes it, unlocks.
    pub async fn release(mut self) {
        self.closed.cancel();
        if let Some(listening) = self.listening.take() {
            // Ends at its next wait, which is now.
            if timeout(FIRST_LINE_WAIT, listening).await.is_err() {
                tracing::warn!("the listener did not end in time");
            }
        }
        self.clear();
    }

    /// Takes away what others find, while the lock is still held; then unlocks.
    fn clear(&mut self) {
        let Some(lock) = self.lock.take() else { return };
        if let Err(error) = fs::remove_file(&self.record)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, "could not remove the owner's record");
        }
        address::remove_socket(&self.info.socket);
        address::remove_own_folder(&self.info.socket);
        drop(lock);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.closed.cancel();
        self.clear();
    }
}

/// What the listening task needs to know.
struct Door {
    info: OwnerInfo,
    #[cfg(unix)]
    uid: Option<u32>,
    sender: mpsc::Sender<Incoming>,
    handover: CancellationToken,
}

impl Door {
    async fn stand_open(self, listener: Listener, closed: CancellationToken) {
        let door = std::sync::Arc::new(self);
        let mut greetings = JoinSet::new();
        loop {
            tokio::select! {
                () = closed.cancelled() => return,
                Some(ended) = greetings.join_next(), if !greetings.is_empty() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a greeting failed");
                    }
                }
                accepted = listener.accept(), if greetings.len() < GREETINGS => match accepted {
                    Ok(stream) => {
                        let door = door.clone();
                        greetings.spawn(async move { door.greet(stream).await });
                    }
                    Err(error) => {
                        // Mostly a lack of file handles, which passes.
                        tracing::warn!(%error, "could not accept a connection");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
            }
        }
    }

    async fn greet(&self, stream: Stream) {
        let mut stream = Connection::new(stream);
        #[cfg(unix)]
        if let (Some(theirs), Some(ours)) = (stream.peer_uid(), self.uid)
            && theirs != ours
        {
            tracing::warn!(uid = theirs, "another user's process was turned away");
            return;
        }
        let greeted = timeout(FIRST_LINE_WAIT, async {
            let line = stream.read_first().await?;
            match self.judge(&line) {
                Err(reason) => stream.write_first(&self.answer(Some(reason))).await.map(|()| None),
                Ok(hello) if hello.kind == Kind::Handover => {
                    tracing::info!(pid = hello.pid, rank = ?hello.rank, "the home is asked for");
                    self.handover.cancel();
                    stream.write_first(&self.answer(None)).await.map(|()| None)
                }
                Ok(hello) => {
                    // Room first: who was told yes is not turned away afterwards.
                    let Ok(room) = self.sender.reserve().await else { return Ok(None) };
                    stream.write_first(&self.answer(None)).await?;
                    Ok::<_, io::Error>(Some((room, hello)))
                }
            }
        })
        .await;
        match greeted {
            Ok(Ok(Some((room, hello)))) => room.send(Incoming { hello, stream }),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => tracing::debug!(%error, "a newcomer left before its first line was answered"),
            Err(_) => tracing::debug!("a newcomer's first line took too long"),
        }
    }

    fn judge(&self, line: &[u8]) -> Result<Hello, Reason> {
        let HelloProto { proto } = serde_json::from_slice(line).map_err(|_| Reason::Malformed)?;
        if proto != PROTO {
            return Err(Reason::Proto);
        }
        let hello: Hello = serde_json::from_slice(line).map_err(|_| Reason::Malformed)?;
        if hello.kind == Kind::Handover {
            return if hello.rank > self.info.rank { Ok(hello) } else { Err(Reason::Rank) };
        }
        if self.handover.is_cancelled() { Err(Reason::Ending) } else { Ok(hello) }
    }

    fn answer(&self, reason: Option<Reason>) -> Answer {
        Answer {
            ok: reason.is_none(),
            proto: PROTO,
            version: self.info.version.clone(),
            reason,
            owner: Some(self.info.clone()),
        }
    }
}

#[cfg(unix)]
fn listen(address: &str) -> io::Result<Listener> {
    use std::os::unix::fs::PermissionsExt;
    // The name is taken away by `Owner`, which knows whether it still is ours.
    let listener = ListenerOptions::new()
        .name(Path::new(address).to_fs_name::<GenericFilePath>()?)
        .reclaim_name(false)
        .create_tokio()?;
    // Nobody else gets this far before: the folder is private.
    fs::set_permissions(address, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

#[cfg(windows)]
fn listen(address: &str) -> io::Result<Listener> {
    use interprocess::os::windows::{
        local_socket::ListenerOptionsExt, security_descriptor::SecurityDescriptor,
    };
    // Everything to the pipe's owner, nothing to anybody else, nothing inherited.
    let only_me = SecurityDescriptor::deserialize(widestring::u16cstr!("D:P(A;;GA;;;OW)"))?;
    ListenerOptions::new()
        .name(Path::new(address).to_fs_name::<GenericFilePath>()?)
        .security_descriptor(only_me)
        .create_tokio()
}

/// Our own user, as the system wrote it to the socket that we just made.
#[cfg(unix)]
fn socket_uid(address: &str) -> Option<u32> {
    fs::symlink_metadata(address).ok().map(|meta| std::os::unix::fs::MetadataExt::uid(&meta))
}

pub(crate) fn record_path(run_dir: &Path) -> PathBuf {
    run_dir.join("owner.json")
}

/// What the present or a former owner wrote.
pub(crate) fn read_record(run_dir: &Path) -> Option<OwnerInfo> {
    serde_json::from_slice(&fs::read(record_path(run_dir)).ok()?).ok()
}

fn write_record(run_dir: &Path, info: &OwnerInfo) -> io::Result<()> {
    // Only the holder of the lock writes here, so one name for the new file is enough.
    let next = run_dir.join("owner.json.new");
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&next)?;
    file.write_all(&serde_json::to_vec(info)?)?;
    drop(file);
    fs::rename(&next, record_path(run_dir))
}
