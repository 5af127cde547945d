//! The vault: secrets in the system's keychain, their ids in `state/secrets.json`. Never writes a value to a file and
//! never puts one into an error.

mod keychain;
mod memory;

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use evi_domain::{Secret, SecretError, SecretId, SecretStore};
use serde::{Deserialize, Serialize};

use crate::{
    Home, Redactor, StoreError,
    atomic::{self, FileLock},
};
use keychain::{Keychain, SystemKeychain};

pub use keychain::Prompting;
pub use memory::MemoryVault;

/// Windows takes 2,560 bytes an entry.
const PART: usize = 2000;
/// How an entry begins that only says where the parts are.
const SPLIT: &str = "evi-split:1:";
/// How long an answer of the probe holds.
const PROBE_GOOD: Duration = Duration::from_secs(60);
const PROBE_BAD: Duration = Duration::from_secs(3);

type Lookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Secrets in the system's keychain, service `evi`, account `<home id>/<secret id>`. Calls wait for the keychain
/// (2 s, or for a person's answer where prompting is allowed): use a blocking thread.
pub struct Vault {
    home: Home,
    keychain: Arc<dyn Keychain>,
    redactor: Arc<Redactor>,
    env: Lookup,
    probed: Mutex<Option<(Instant, Result<(), SecretError>)>>,
}

/// `state/secrets.json`.
#[derive(Serialize, Deserialize, Default)]
struct Listed {
    home_id: String,
    ids: BTreeSet<SecretId>,
}

impl Vault {
    /// The vault of a home. Nothing is asked of the keychain yet, and no file is made before a value is set.
    /// `redactor` hears of every value that is read or set.
    pub fn open(home: Home, redactor: Arc<Redactor>, prompting: Prompting) -> Self {
        let env = Arc::new(|name: &str| std::env::var(name).ok());
        Self::with(home, redactor, Arc::new(SystemKeychain::new(prompting)), env)
    }

    fn with(home: Home, redactor: Arc<Redactor>, keychain: Arc<dyn Keychain>, env: Lookup) -> Self {
        Self { home, keychain, redactor, env, probed: Mutex::new(None) }
    }

    fn listed(&self) -> Result<Listed, SecretError> {
        match atomic::read(&self.home.secrets_json()).map_err(|e| failed(&e))? {
            None => Ok(Listed::default()),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|e| {
                SecretError::Failed(format!("{} is damaged: {e}", self.home.secrets_json().display()))
            }),
        }
    }

    /// Changes the list under its lock; `change` says whether there is something to write.
    fn list(&self, change: impl Fn(&mut Listed) -> bool) -> Result<Listed, SecretError> {
        self.home.prepare().map_err(|e| failed(&e))?;
        let _lock = FileLock::take(&self.home.run().join("secrets.lock")).map_err(|e| failed(&e))?;
        let mut listed = self.listed()?;
        let fresh = listed.home_id.is_empty();
        if fresh {
            listed.home_id = uuid::Uuid::new_v4().simple().to_string();
        }
        if change(&mut listed) || fresh {
            let bytes = serde_json::to_vec_pretty(&listed).map_err(|e| SecretError::Failed(e.to_string()))?;
            atomic::write(&self.home.secrets_json(), &bytes).map_err(|e| failed(&e))?;
        }
        Ok(listed)
    }

    fn read(&self, account: &str) -> Result<Option<String>, SecretError> {
        let text =
            |bytes| String::from_utf8(bytes).map_err(|_| SecretError::Failed("an entry is no text".into()));
        let Some(head) = self.keychain.get(account)?.map(text).transpose()? else { return Ok(None) };
        let Some(split) = Split::parse(&head) else { return Ok(Some(head)) };
        let mut value = Vec::new();
        for part in split.accounts(account) {
            let missing = || SecretError::Failed("a part of the entry is missing".into());
            value.extend(self.keychain.get(&part)?.ok_or_else(missing)?);
        }
        text(value).map(Some)
    }

    /// Writes the parts of a long value first and then the entry that names them, so that a crash in between leaves
    /// the old value readable.
    fn write(&self, account: &str, value: &str) -> Result<(), SecretError> {
        let old = self.keychain.get(account)?.and_then(|head| Split::parse(std::str::from_utf8(&head).ok()?));
        if value.len() <= PART && !value.starts_with(SPLIT) {
            self.keychain.set(account, value.as_bytes())?;
        } else {
            let parts: Vec<&[u8]> = value.as_bytes().chunks(PART).collect();
            let split = Split { generation: uuid::Uuid::new_v4().simple().to_string(), parts: parts.len() };
            let written = split
                .accounts(account)
                .zip(parts)
                .try_for_each(|(account, part)| self.keychain.set(&account, part))
                .and_then(|()| self.keychain.set(account, split.to_string().as_bytes()));
            if written.is_err() {
                self.forget(&split, account);
            }
            written?;
        }
        if let Some(old) = old {
            self.forget(&old, account);
        }
        Ok(())
    }

    /// Best effort: what is left is part of nothing.
    fn forget(&self, split: &Split, account: &str) {
        for part in split.accounts(account) {
            if let Err(error) = self.keychain.delete(&part) {
                tracing::debug!(%error, "a part of an old secret stays in the keychain");
            }
        }
    }
}

/// The entry of a value in several parts.
struct Split {
    generation: String,
    parts: usize,
}

impl std::fmt::Display for Split {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{SPLIT}{}:{}", self.parts, self.generation)
    }
}

impl Split {
    fn parse(head: &str) -> Option<Self> {
        let (parts, generation) = head.strip_prefix(SPLIT)?.split_once(':')?;
        Some(Self { generation: generation.to_owned(), parts: parts.parse().ok()? })
    }

    fn accounts(&self, account: &str) -> impl Iterator<Item = String> {
        (0..self.parts).map(move |n| format!("{account}#{}.{n}", self.generation))
    }
}

/// Two processes that probe at once must not see each other's entry go.
fn probe_account() -> String {
    format!("probe/{}", std::process::id())
}

fn account(listed: &Listed, id: &SecretId) -> String {
    format!("{}/{id}", listed.home_id)
}

fn failed(error: &StoreError) -> SecretError {
    SecretError::Failed(error.to_string())
}

/// `EVI_SECRET_<ID>`: the id in capitals, what is neither letter nor digit as `_`.
fn variable(id: &SecretId) -> String {
    let id =
        id.as_str().chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' });
    "EVI_SECRET_".chars().chain(id).collect()
}

impl SecretStore for Vault {
    /// The variable `EVI_SECRET_<ID>` before the keychain; an id that is not listed is not asked for.
    fn get(&self, id: &SecretId) -> Result<Option<Secret>, SecretError> {
        let value = match (self.env)(&variable(id)).filter(|v| !v.is_empty()) {
            Some(value) => Some(value),
            None => {
                let listed = self.listed()?;
                if !listed.ids.contains(id) {
                    return Ok(None);
                }
                // A keychain that is locked says the same as one that never had it.
                Some(self.read(&account(&listed, id))?.ok_or(SecretError::Locked)?)
            }
        };
        let secret = value.map(Secret::new);
        if let Some(secret) = &secret {
            self.redactor.add(secret);
        }
        Ok(secret)
    }

    fn set(&self, id: &SecretId, value: &Secret) -> Result<(), SecretError> {
        self.redactor.add(value);
        let listed = self.list(|_| false)?;
        let account = account(&listed, id);
        self.write(&account, value.expose())?;
        if listed.ids.contains(id) {
            return Ok(());
        }
        if let Err(error) = self.list(|l| l.ids.insert(id.clone())) {
            let _ = self.keychain.delete(&account);
            return Err(error);
        }
        Ok(())
    }

    fn delete(&self, id: &SecretId) -> Result<(), SecretError> {
        let listed = self.listed()?;
        if !listed.ids.contains(id) {
            return Ok(());
        }
        let account = account(&listed, id);
        let Some(head) = self.keychain.get(&account)? else {
            // Hidden by a lock, or taken out by hand: only a write tells.
            self.keychain.probe(&probe_account())?;
            return self.list(|l| l.ids.remove(id)).map(drop);
        };
        let split = std::str::from_utf8(&head).ok().and_then(Split::parse);
        self.keychain.delete(&account)?;
        if let Some(split) = split {
            self.forget(&split, &account);
        }
        self.list(|l| l.ids.remove(id)).map(drop)
    }

    fn ids(&self) -> Vec<SecretId> {
        self.listed().map(|l| l.ids.into_iter().collect()).unwrap_or_else(|error| {
            tracing::warn!(%error, "the list of secrets cannot be read");
            Vec::new()
        })
    }

    /// Takes 2 s at most and never asks on the screen; the answer is kept for a while.
    fn probe(&self) -> Result<(), SecretError> {
        let mut probed = self.probed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, result)) = &*probed
            && at.elapsed() < if result.is_ok() { PROBE_GOOD } else { PROBE_BAD }
        {
            return result.clone();
        }
        let result = self.keychain.probe(&probe_account());
        *probed = Some((Instant::now(), result.clone()));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A keychain in memory that can be locked, and that as the real one then says "no such entry".
    #[derive(Default)]
    struct Fake {
        entries: Mutex<BTreeMap<String, Vec<u8>>>,
        locked: std::sync::atomic::AtomicBool,
    }

    impl Fake {
        fn locked(&self) -> bool {
            self.locked.load(std::sync::atomic::Ordering::Relaxed)
        }
        fn lock(&self, locked: bool) {
            self.locked.store(locked, std::sync::atomic::Ordering::Relaxed);
        }
    }

    impl Keychain for Fake {
        fn get(&self, account: &str) -> Result<Option<Vec<u8>>, SecretError> {
            Ok(self.entries.lock().unwrap().get(account).filter(|_| !self.locked()).cloned())
        }
        fn set(&self, account: &str, value: &[u8]) -> Result<(), SecretError> {
            if self.locked() {
                return Err(SecretError::Locked);
            }
            assert!(value.len() <= PART);
            self.entries.lock().unwrap().insert(account.to_owned(), value.to_vec());
            Ok(())
        }
        fn delete(&self, account: &str) -> Result<(), SecretError> {
            if !self.locked() {
                self.entries.lock().unwrap().remove(account);
            }
            Ok(())
        }
        fn probe(&self, account: &str) -> Result<(), SecretError> {
            self.set(account, b"probe")?;
            self.delete(account)
        }
    }

    struct Scene {
        dir: tempfile::TempDir,
        fake: Arc<Fake>,
        redactor: Arc<Redactor>,
    }

    impl Scene {
        fn new() -> Self {
            Self { dir: tempfile::tempdir().unwrap(), fake: Arc::default(), redactor: Redactor::new() }
        }
        fn vault(&self) -> Vault {
            let env = Arc::new(|name: &str| (name == "EVI_SECRET_CI_TOKEN_1").then(|| "from-env".to_owned()));
            let home = Home::at(self.dir.path().join("home"));
            Vault::with(home, Arc::clone(&self.redactor), Arc::<Fake>::clone(&self.fake), env)
        }
    }

    fn get(vault: &Vault, id: &str) -> Result<Option<String>, SecretError> {
        vault.get(&id.into()).map(|v| v.map(|s| s.expose().to_owned()))
    }

    #[test]
    fn a_value_comes_back_and_only_its_id_is_in_the_home() {
        let scene = Scene::new();
        let vault = scene.vault();
        assert_eq!(get(&vault, "github.token"), Ok(None));
        assert!(!scene.dir.path().join("home").exists(), "reading made files");
        vault.set(&"github.token".into(), &Secret::new("ghp_value")).unwrap();
        let other = scene.vault();
        assert_eq!(get(&other, "github.token"), Ok(Some("ghp_value".into())));
        assert_eq!(other.ids(), vec![SecretId::new("github.token")]);
        let list = std::fs::read_to_string(scene.dir.path().join("home/state/secrets.json")).unwrap();
        assert!(list.contains("github.token") && !list.contains("ghp_value"));
        assert_eq!(scene.redactor.redact("a ghp_value"), "a [redacted]");
        other.delete(&"github.token".into()).unwrap();
        other.delete(&"github.token".into()).unwrap();
        assert_eq!(get(&vault, "github.token"), Ok(None));
        assert!(scene.fake.entries.lock().unwrap().is_empty());
    }

    #[test]
    fn i68_listed_without_an_entry_is_locked_and_not_missing() {
        let scene = Scene::new();
        let vault = scene.vault();
        vault.set(&"a".into(), &Secret::new("value")).unwrap();
        scene.fake.lock(true);
        assert_eq!(get(&vault, "a"), Err(SecretError::Locked));
        assert_eq!(get(&vault, "b"), Ok(None));
        assert_eq!(vault.set(&"b".into(), &Secret::new("value")), Err(SecretError::Locked));
        assert_eq!(vault.ids(), vec![SecretId::new("a")]);
        assert_eq!(scene.vault().delete(&"a".into()), Err(SecretError::Locked));
        scene.fake.lock(false);
        assert_eq!(get(&vault, "a"), Ok(Some("value".into())));
    }

    #[test]
    fn a_long_value_is_split_and_replacing_it_leaves_nothing_behind() {
        let scene = Scene::new();
        let vault = scene.vault();
        let id = SecretId::new("oauth");
        for value in ["é".repeat(5000), "x".repeat(2001), "short".to_owned(), format!("{SPLIT}9:x")] {
            vault.set(&id, &Secret::new(value.as_str())).unwrap();
            assert_eq!(get(&vault, "oauth"), Ok(Some(value.clone())));
            let parts = if value == "short" { 0 } else { value.len().div_ceil(PART) };
            assert_eq!(scene.fake.entries.lock().unwrap().len(), 1 + parts);
        }
        vault.delete(&id).unwrap();
        assert!(scene.fake.entries.lock().unwrap().is_empty());
    }

    #[test]
    fn an_environment_variable_stands_before_the_keychain() {
        let scene = Scene::new();
        assert_eq!(get(&scene.vault(), "ci.token-1"), Ok(Some("from-env".into())));
        assert_eq!(scene.redactor.redact("from-env"), "[redacted]");
    }

    #[test]
    fn a_probe_writes_and_its_answer_is_kept_for_a_while() {
        let scene = Scene::new();
        let vault = scene.vault();
        assert_eq!(vault.probe(), Ok(()));
        assert!(scene.fake.entries.lock().unwrap().is_empty());
        scene.fake.lock(true);
        assert_eq!(vault.probe(), Ok(()));
        assert_eq!(scene.vault().probe(), Err(SecretError::Locked));
    }

    #[test]
    fn two_vaults_of_one_home_that_set_at_once_lose_no_id() {
        let scene = Scene::new();
        std::thread::scope(|scope| {
            for who in ["a", "b"] {
                let vault = scene.vault();
                scope.spawn(move || {
                    for n in 0..20 {
                        vault.set(&format!("{who}.{n}").into(), &Secret::new("value")).unwrap();
                    }
                });
            }
        });
        assert_eq!(scene.vault().ids().len(), 40);
    }
}
