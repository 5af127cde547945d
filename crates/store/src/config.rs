//! The configuration of a home: loading that never fails, watching, and edits of one entry at a time. The only
//! writer of `config.toml` and `mcp.json`.

mod json_layout;
mod json_text;
mod mcp_edit;
mod mcp_options;
mod mcp_read;
mod plugins;
mod source;
mod toml_read;
mod toml_write;
mod watching;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use evi_domain::{
    Config, ConfigProblem, PluginSwitches, ShareMode, UpstreamEntry, UpstreamName, UpstreamSpec,
};
use tokio::sync::watch;

use crate::{Home, StoreError, atomic};
use mcp_edit::{McpEdit, Moved};
pub(crate) use mcp_read::dialect;
use source::Source;
use toml_write::TomlEdit;

pub use toml_write::ConfigValue;
pub use watching::Watching;

/// The configuration at one moment.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Loaded {
    /// What was clear.
    pub config: Config,
    /// Everything that was not, those of single servers included.
    pub problems: Vec<ConfigProblem>,
}

/// The configuration of one home. Cheap to clone; clones share what is loaded. Loading and editing touch the disk
/// and wait for locks (10 s at most): call them on a blocking thread.
#[derive(Clone)]
pub struct ConfigStore {
    inner: Arc<Inner>,
}

struct Inner {
    home: Home,
    loaded: watch::Sender<Arc<Loaded>>,
    reloading: Mutex<()>,
    /// Whether this process has put a copy of `mcp.json` aside.
    backed_up: AtomicBool,
}

impl ConfigStore {
    /// Opens a home, which need not exist, and loads it.
    pub fn open(home: Home) -> Self {
        let loaded = watch::Sender::new(Arc::new(load(&home, None)));
        Self {
            inner: Arc::new(Inner {
                home,
                loaded,
                reloading: Mutex::new(()),
                backed_up: AtomicBool::new(false),
            }),
        }
    }

    /// The home.
    pub fn home(&self) -> &Home {
        &self.inner.home
    }

    /// Reads the files now, without changing what is current and without what was read before.
    pub fn load(&self) -> (Config, Vec<ConfigProblem>) {
        let Loaded { config, problems } = load(&self.inner.home, None);
        (config, problems)
    }

    /// What was loaded last. While a file cannot be read as a whole, what it said before stays in effect here,
    /// beside the problem.
    pub fn current(&self) -> Arc<Loaded> {
        self.inner.loaded.borrow().clone()
    }

    /// Tells of every change of what is loaded.
    pub fn watch(&self) -> watch::Receiver<Arc<Loaded>> {
        self.inner.loaded.subscribe()
    }

    /// Reads the files; watchers hear of it when something is different.
    pub fn reload(&self) -> Arc<Loaded> {
        // One at a time, so that an older state never goes over a newer one; and not inside of `send_if_modified`,
        // where readers would wait for the disk.
        let turn = self.inner.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Arc::new(load(&self.inner.home, Some(&self.current().config)));
        self.inner.loaded.send_if_modified(|current| {
            let differs = *current != fresh;
            if differs {
                *current = Arc::clone(&fresh);
            }
            differs
        });
        drop(turn);
        fresh
    }

    /// Reloads whenever a file changes, until the guard is dropped.
    pub fn start_watching(&self) -> Watching {
        let store = self.clone();
        Watching::start(self.inner.home.clone(), false, move || drop(store.reload()))
    }

    #[cfg(test)]
    fn start_polling(&self) -> Watching {
        let store = self.clone();
        Watching::start(self.inner.home.clone(), true, move || drop(store.reload()))
    }

    /// Adds a server to `mcp.json`; with `overwrite` an entry of that name is changed and keeps its unknown keys.
    ///
    /// # Errors
    /// `Exists`, `InvalidName`, `PluginOwned`; `Malformed` for a file that cannot be read; what the system says.
    pub fn upstream_add(
        &self,
        spec: &UpstreamSpec,
        enabled: bool,
        overwrite: bool,
    ) -> Result<(), StoreError> {
        self.refuse_plugins(&spec.name)?;
        if !overwrite || !self.has_own(&spec.name) {
            check_name(spec.name.as_str())?;
        }
        self.edit_mcp(|file| file.add(spec, enabled, overwrite))
    }

    /// Takes a server out of `mcp.json`.
    ///
    /// # Errors
    /// `Unknown`, `PluginOwned`, `Malformed`; what the system says.
    pub fn upstream_remove(&self, name: &UpstreamName) -> Result<(), StoreError> {
        self.refuse_plugins(name)?;
        self.edit_mcp(|file| file.remove(name.as_str()))
    }

    /// Switches a server on or off.
    ///
    /// # Errors
    /// `Unknown`, `PluginOwned`, `Malformed`, `Unclear` for an entry that is no object; what the system says.
    pub fn upstream_set_enabled(&self, name: &UpstreamName, enabled: bool) -> Result<(), StoreError> {
        self.refuse_plugins(name)?;
        self.edit_mcp(|file| file.set_enabled(name.as_str(), enabled))
    }

    /// Gives a server another name; everything else of it stays, references to secrets included.
    ///
    /// # Errors
    /// `Unknown`, `Exists`, `InvalidName`, `PluginOwned`, `Malformed`; what the system says.
    pub fn upstream_rename(&self, old: &UpstreamName, new: &UpstreamName) -> Result<(), StoreError> {
        self.refuse_plugins(old)?;
        self.refuse_plugins(new)?;
        check_name(new.as_str())?;
        self.edit_mcp(|file| file.rename(old.as_str(), new.as_str()))
    }

    /// Sets keys of `config.toml`, all or none.
    ///
    /// # Errors
    /// `Malformed` for a file that cannot be read, `Unclear` where a table is expected; what the system says.
    pub fn config_set(&self, changes: &[(&[&str], ConfigValue)]) -> Result<(), StoreError> {
        self.edit_toml(|file| changes.iter().try_for_each(|(path, value)| file.set(path, value)))
    }

    /// Takes a key out of `config.toml`; none is no error.
    ///
    /// # Errors
    /// As [`ConfigStore::config_set`].
    pub fn config_unset(&self, path: &[&str]) -> Result<(), StoreError> {
        self.edit_toml(|file| file.unset(path))
    }

    /// Shares a server with the clients of a profile, or with `None` no longer. A profile that is not in the file
    /// yet is written with the four default categories.
    ///
    /// # Errors
    /// As [`ConfigStore::config_set`].
    pub fn share_set(
        &self,
        profile: &str,
        upstream: &UpstreamName,
        mode: Option<ShareMode>,
    ) -> Result<(), StoreError> {
        self.edit_toml(|file| file.share(profile, upstream, mode))
    }

    /// Switches a plugin on or off; `config.toml` keeps the choice.
    ///
    /// # Errors
    /// `UnknownPlugin`; as [`ConfigStore::config_set`].
    pub fn plugin_set_enabled(&self, name: &str, enabled: bool) -> Result<(), StoreError> {
        plugins::read(&self.inner.home, &PluginSwitches::default()).find(name)?;
        self.edit_toml(|file| {
            file.list(&["plugins", "enabled"], name, enabled)?;
            file.list(&["plugins", "disabled"], name, !enabled)
        })
    }

    /// Moves a plugin's folder into `plugins/.trash/` and forgets the person's choice about it. Gives its new place.
    ///
    /// # Errors
    /// `UnknownPlugin`, `PluginPlace`; as [`ConfigStore::config_set`]. Then the plugin is where it was, off at most.
    pub fn plugin_remove(&self, name: &str) -> Result<PathBuf, StoreError> {
        plugins::read(&self.inner.home, &PluginSwitches::default()).find(name)?;
        plugins::own_folder(&self.inner.home, name)?;
        // Off first: its servers end, and a removal that stops half way leaves nothing running.
        self.plugin_set_enabled(name, false)?;
        let place = plugins::discard(&self.inner.home, name)?;
        self.edit_toml(|file| {
            file.list(&["plugins", "enabled"], name, false)?;
            file.list(&["plugins", "disabled"], name, false)
        })?;
        Ok(place)
    }

    fn has_own(&self, name: &UpstreamName) -> bool {
        self.current().config.upstreams.iter().any(|e| e.plugin.is_none() && e.name == *name)
    }

    fn refuse_plugins(&self, name: &UpstreamName) -> Result<(), StoreError> {
        let found = plugins::read(&self.inner.home, &PluginSwitches::default());
        match found.entries.into_iter().find(|e| e.name == *name).and_then(|e| e.plugin) {
            Some(plugin) if !self.has_own(name) => {
                Err(StoreError::PluginOwned { name: name.to_string(), plugin })
            }
            _ => Ok(()),
        }
    }

    fn edit_mcp(&self, edit: impl Fn(&mut McpEdit) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let path = self.inner.home.mcp_json();
        self.edit(&path, |source, old| {
            let mut file = McpEdit::open(source, path.display().to_string())?;
            edit(&mut file)?;
            let new = source.encode(file.text());
            if let Some(old) = old.filter(|old| *old != new) {
                let first = !self.inner.backed_up.swap(true, Ordering::AcqRel);
                self.back_up(&path, first.then_some(old), file.moved());
            }
            Ok(new)
        })
    }

    fn edit_toml(&self, edit: impl Fn(&mut TomlEdit) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let path = self.inner.home.config_toml();
        self.edit(&path, |source, _| {
            let mut file = TomlEdit::open(source, path.display().to_string())?;
            edit(&mut file)?;
            Ok(source.encode(&file.text()))
        })
    }

    fn edit(
        &self,
        path: &Path,
        change: impl Fn(&Source, Option<&[u8]>) -> Result<Vec<u8>, StoreError>,
    ) -> Result<(), StoreError> {
        self.inner.home.prepare()?;
        let lock = atomic::FileLock::take(&self.inner.home.run().join("config.lock"))?;
        let result = atomic::update(path, |old| {
            let source = match old {
                Some(bytes) => Source::decode(path, bytes).map_err(StoreError::Malformed)?,
                None => Source::empty(path),
            };
            let new = change(&source, old)?;
            // An edit that changes nothing makes no file.
            Ok::<_, StoreError>((old.is_some() || !new.is_empty()).then_some(new))
        });
        drop(lock);
        self.reload();
        result.map(|_| ())
    }

    /// Keeps the file as it was before this process changed it first (`bytes`), or what was kept already, without
    /// plain values that moved to the keychain. Best effort: the edit itself is atomic.
    fn back_up(&self, path: &Path, bytes: Option<&[u8]>, moved: &[Moved]) {
        let backup: PathBuf = path.with_extension("json.bak");
        let result = if moved.is_empty() {
            bytes.map_or(Ok(()), |bytes| atomic::write(&backup, bytes))
        } else {
            let kept = bytes.map_or_else(|| atomic::read(&backup), |bytes| Ok(Some(bytes.to_owned())));
            let kept = kept.ok().flatten().and_then(|bytes| Source::decode(&backup, &bytes).ok());
            match kept.and_then(|kept| mcp_edit::without_plain(&kept, moved)) {
                Some(clean) => atomic::write(&backup, &clean),
                None => atomic::remove(&backup),
            }
        };
        if let Err(error) = result {
            tracing::warn!(%error, "the backup is not as it should be");
        }
    }
}

/// Reads the files. What a file that cannot be read as a whole said last stays in effect: a slip of the pen in an
/// editor must neither stop every server nor drop what is denied.
fn load(home: &Home, last: Option<&Config>) -> Loaded {
    let mut problems = Vec::new();
    let mut config = match Source::read(&home.config_toml()).and_then(|s| toml_read::read(s.as_ref())) {
        Ok((config, more)) => {
            problems.extend(more);
            config
        }
        Err(problem) => {
            problems.push(problem);
            last.cloned().unwrap_or_else(toml_read::unknown)
        }
    };
    match Source::read(&home.mcp_json()).and_then(|s| s.as_ref().map(mcp_read::read).transpose()) {
        Ok(file) => {
            let file = file.unwrap_or_default();
            config.upstreams = file.entries;
            problems.extend(file.problems);
        }
        Err(problem) => {
            problems.push(problem);
            config.upstreams = last.map_or_else(Vec::new, |l| l.upstreams.clone());
            config.upstreams.retain(|e| e.plugin.is_none());
        }
    }
    let found = plugins::read(home, &config.plugin_switches);
    let free: Vec<UpstreamEntry> =
        found.entries.into_iter().filter(|e| config.upstreams.iter().all(|own| own.name != e.name)).collect();
    config.upstreams.extend(free);
    config.plugins = found.plugins;
    problems.extend(found.problems);
    Loaded { config, problems }
}

/// What a new name may be: it stands in tool names, in references and on one line.
fn check_name(name: &str) -> Result<(), StoreError> {
    let reason = if name.trim().is_empty() {
        "it is empty"
    } else if name.trim() != name {
        "it begins or ends with a space"
    } else if name.chars().count() > 64 {
        "it is longer than 64 characters"
    } else if name.contains(':') {
        "a colon stands between a plugin and its server"
    } else if name.chars().any(char::is_control) {
        "it holds a control character"
    } else {
        return Ok(());
    };
    Err(StoreError::InvalidName { name: name.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn without_the_systems_notices_changes_are_found_by_looking() {
        let dir = tempfile::tempdir().unwrap();
        let store = ConfigStore::open(Home::at(dir.path().join("home")));
        let _watching = store.start_polling();
        let mut seen = store.watch();
        std::fs::create_dir(store.home().root()).unwrap();
        std::fs::write(store.home().config_toml(), "[tools]\nmcp = true\n").unwrap();
        let found = seen.wait_for(|l| l.config.tools.mcp);
        tokio::time::timeout(Duration::from_secs(30), found).await.unwrap().unwrap();
    }
}
