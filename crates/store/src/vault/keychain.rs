//! The system's keychain behind a time limit: one thread talks to it, callers wait so long and no longer. Knows
//! nothing of ids and lists.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::Duration,
};

use evi_domain::SecretError;
use keyring::Entry;

/// The service under which all entries are.
const SERVICE: &str = "evi";
/// How long a keychain may take,
const LIMIT: Duration = Duration::from_secs(2);
/// and how long a person in front of its prompt.
const PERSON: Duration = Duration::from_secs(90);
/// How many calls may wait.
const WAITING: usize = 16;

/// Whether a locked keychain may ask on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompting {
    /// A process with a window: the person is asked to unlock it.
    Allowed,
    /// A process without: locked is an answer.
    Never,
}

/// Entries of bytes by account.
pub(super) trait Keychain: Send + Sync {
    /// `None` where there is none, or where a locked keychain hides it.
    fn get(&self, account: &str) -> Result<Option<Vec<u8>>, SecretError>;
    fn set(&self, account: &str, value: &[u8]) -> Result<(), SecretError>;
    /// None is no error.
    fn delete(&self, account: &str) -> Result<(), SecretError>;
    /// Sets and deletes an entry: only a write tells a locked keychain from an empty one. Asks nobody.
    fn probe(&self, account: &str) -> Result<(), SecretError>;
}

type Work = Box<dyn FnOnce() + Send>;

/// The real one. Its thread begins with the first call and ends with this.
pub(super) struct SystemKeychain {
    prompting: Prompting,
    worker: Mutex<Option<SyncSender<Work>>>,
}

impl SystemKeychain {
    pub(super) fn new(prompting: Prompting) -> Self {
        Self { prompting, worker: Mutex::new(None) }
    }

    /// Runs `work` on the thread. One that hangs there makes later calls fail after their time, and they do not run
    /// when it comes back: their callers have gone.
    fn run<T: Send + 'static>(
        &self,
        prompting: Prompting,
        work: impl FnOnce() -> Result<T, SecretError> + Send + 'static,
    ) -> Result<T, SecretError> {
        let (answer, answered) = sync_channel(1);
        let gone = Arc::new(AtomicBool::new(false));
        let job: Work = {
            let gone = Arc::clone(&gone);
            Box::new(move || {
                if !gone.load(Ordering::Acquire) {
                    let result = if prompting == Prompting::Never { unlocked() } else { Ok(()) };
                    let _ = answer.try_send(result.and_then(|()| work()));
                }
            })
        };
        let slow = || SecretError::Failed("it does not answer".to_owned());
        self.sender()?.try_send(job).map_err(|_| slow())?;
        let limit = if prompting == Prompting::Never { LIMIT } else { PERSON };
        answered.recv_timeout(limit).map_err(|_| {
            gone.store(true, Ordering::Release);
            slow()
        })?
    }

    fn sender(&self) -> Result<SyncSender<Work>, SecretError> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = &*worker {
            return Ok(sender.clone());
        }
        let (sender, jobs): (_, Receiver<Work>) = sync_channel(WAITING);
        thread::Builder::new()
            .name("evi-keychain".to_owned())
            .spawn(move || jobs.into_iter().for_each(|job| job()))
            .map_err(|e| SecretError::Failed(e.to_string()))?;
        Ok(worker.insert(sender).clone())
    }
}

impl Keychain for SystemKeychain {
    fn get(&self, account: &str) -> Result<Option<Vec<u8>>, SecretError> {
        let account = account.to_owned();
        self.run(self.prompting, move || match entry(&account)?.get_secret() {
            Ok(value) => Ok(Some(value)),
            Err(keyring::Error::NoEntry) => Ok(None),
            Err(other) => Err(words(&other)),
        })
    }

    fn set(&self, account: &str, value: &[u8]) -> Result<(), SecretError> {
        let (account, value) = (account.to_owned(), value.to_vec());
        self.run(self.prompting, move || entry(&account)?.set_secret(&value).map_err(|e| words(&e)))
    }

    fn delete(&self, account: &str) -> Result<(), SecretError> {
        let account = account.to_owned();
        self.run(self.prompting, move || match entry(&account)?.delete_credential() {
            Ok(()) | Err(keyring::Error::NoEntry) => Ok(()),
            Err(other) => Err(words(&other)),
        })
    }

    fn probe(&self, account: &str) -> Result<(), SecretError> {
        let account = account.to_owned();
        self.run(Prompting::Never, move || {
            let entry = entry(&account)?;
            entry.set_secret(b"probe").and_then(|()| entry.delete_credential()).map_err(|e| words(&e))
        })
    }
}

fn entry(account: &str) -> Result<Entry, SecretError> {
    Entry::new(SERVICE, account).map_err(|e| words(&e))
}

/// An error without the bytes that some of them carry.
fn words(error: &keyring::Error) -> SecretError {
    match error {
        keyring::Error::NoDefaultStore => SecretError::NoKeychain,
        keyring::Error::NoStorageAccess(_) => SecretError::Locked,
        keyring::Error::PlatformFailure(cause) => SecretError::Failed(cause.to_string()),
        keyring::Error::BadEncoding(_) | keyring::Error::BadDataFormat(..) => {
            SecretError::Failed("an entry is not readable".to_owned())
        }
        keyring::Error::Ambiguous(_) => {
            SecretError::Failed("there are several entries of one name".to_owned())
        }
        other => SecretError::Failed(other.to_string()),
    }
}

/// Asks the Secret Service whether its default collection is locked, because every call of `keyring` would open a
/// prompt then. A service that is not there is found out by `keyring` itself.
#[cfg(target_os = "linux")]
fn unlocked() -> Result<(), SecretError> {
    let Ok(bus) = zbus::blocking::Connection::session() else { return Ok(()) };
    let ask = || -> zbus::Result<bool> {
        let service = zbus::blocking::Proxy::new(
            &bus,
            "org.freedesktop.secrets",
            "/org/freedesktop/secrets",
            "org.freedesktop.Secret.Service",
        )?;
        let path: zbus::zvariant::OwnedObjectPath = service.call("ReadAlias", &"default")?;
        if path.as_str() == "/" {
            return Ok(true);
        }
        let collection = zbus::blocking::Proxy::new(
            &bus,
            "org.freedesktop.secrets",
            path,
            "org.freedesktop.Secret.Collection",
        )?;
        collection.get_property("Locked")
    };
    match ask() {
        Ok(true) => Err(SecretError::Locked),
        Ok(false) | Err(_) => Ok(()),
    }
}

/// The keychains of macOS and Windows are open while the person is logged in.
#[cfg(not(target_os = "linux"))]
fn unlocked() -> Result<(), SecretError> {
    Ok(())
}
