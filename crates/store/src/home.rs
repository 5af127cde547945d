//! Where the files of an eVi home lie. Knows paths and makes the state's folders; reads and writes no file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::StoreError;

/// An eVi home. It need not exist: only [`Home::prepare`] creates anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// `EVI_HOME`, else `~/.evi`; a leading `~` is the person's home folder.
    ///
    /// # Errors
    /// When a home folder is needed and none is known.
    pub fn from_env() -> Result<Self, StoreError> {
        Self::resolve(
            std::env::var_os("EVI_HOME").filter(|v| !v.is_empty()).map(PathBuf::from),
            dirs::home_dir(),
        )
    }

    fn resolve(given: Option<PathBuf>, person: Option<PathBuf>) -> Result<Self, StoreError> {
        let root = match given {
            None => person.ok_or(StoreError::NoHome)?.join(".evi"),
            Some(path) => match path.strip_prefix("~") {
                Ok(rest) => person.ok_or(StoreError::NoHome)?.join(rest),
                Err(_) => path,
            },
        };
        Ok(Self::at(root))
    }

    /// The home at `path`, made absolute.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let root: PathBuf = std::path::absolute(&path).unwrap_or(path).components().collect();
        Self { root }
    }

    /// `home-<digits>`, different for each home, when this is not the person's usual `~/.evi`.
    pub fn other_than_usual(&self) -> Option<String> {
        let usual = Self::resolve(None, dirs::home_dir()).ok();
        if usual.is_some_and(|usual| usual.root == self.root) {
            return None;
        }
        let digest = Sha256::digest(self.root.as_os_str().as_encoded_bytes());
        Some(format!("home-{}", digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect::<String>()))
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }
    /// Settings.
    pub fn config_toml(&self) -> PathBuf {
        self.root.join("config.toml")
    }
    /// The configured servers.
    pub fn mcp_json(&self) -> PathBuf {
        self.root.join("mcp.json")
    }
    /// Memories, one Markdown file each.
    pub fn memory(&self) -> PathBuf {
        self.root.join("memory")
    }
    /// Command templates.
    pub fn commands(&self) -> PathBuf {
        self.root.join("commands")
    }
    /// Plugins, a folder each.
    pub fn plugins(&self) -> PathBuf {
        self.root.join("plugins")
    }
    /// Command templates of a plugin.
    pub fn plugin_commands(&self, plugin: &str) -> PathBuf {
        self.plugins().join(plugin).join("commands")
    }
    /// Machine state, 0700.
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }
    /// Locks and sockets.
    pub fn run(&self) -> PathBuf {
        self.state().join("run")
    }
    /// Logs.
    pub fn logs(&self) -> PathBuf {
        self.state().join("logs")
    }
    /// The last known tools of each upstream.
    pub fn catalog(&self) -> PathBuf {
        self.state().join("catalog")
    }
    /// Large results.
    pub fn results(&self) -> PathBuf {
        self.state().join("results")
    }
    /// The database of chats and activity.
    pub fn db(&self) -> PathBuf {
        self.state().join("evi.db")
    }
    /// The list of the vault's ids.
    pub(crate) fn secrets_json(&self) -> PathBuf {
        self.state().join("secrets.json")
    }

    /// Creates the state's folders, 0700 each, and the root, 0700 where it is new. An existing root keeps its mode.
    ///
    /// # Errors
    /// When a folder could not be made.
    pub fn prepare(&self) -> Result<(), StoreError> {
        if !self.root.is_dir() {
            if let Some(parent) = self.root.parent() {
                fs::create_dir_all(parent).map_err(StoreError::io("create", parent))?;
            }
            private_dir(&self.root)?;
        }
        for dir in [self.state(), self.run(), self.logs(), self.catalog(), self.results()] {
            private_dir(&dir)?;
        }
        Ok(())
    }
}

#[cfg(unix)]
fn private_dir(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => {
            // One that was made by hand or by an older version may be open to others.
            let mode = fs::metadata(path).map_err(StoreError::io("read", path))?.permissions().mode();
            if mode & 0o077 != 0 {
                fs::set_permissions(path, fs::Permissions::from_mode(0o700))
                    .map_err(StoreError::io("protect", path))?;
            }
            Ok(())
        }
        Err(e) => Err(StoreError::io("create", path)(e)),
    }
}

#[cfg(not(unix))]
fn private_dir(path: &Path) -> Result<(), StoreError> {
    // The profile folder of a Windows user is closed to others by inheritance.
    fs::create_dir_all(path).map_err(StoreError::io("create", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leading_tilde_is_the_persons_home_folder() {
        let person = Some(PathBuf::from("/home/p"));
        let at = |given: Option<&str>| {
            Home::resolve(given.map(PathBuf::from), person.clone()).map(|h| h.root().to_owned()).ok()
        };
        assert_eq!(at(None), Some("/home/p/.evi".into()));
        assert_eq!(at(Some("~/x")), Some("/home/p/x".into()));
        assert_eq!(at(Some("~")), Some("/home/p".into()));
        assert_eq!(at(Some("/a/~")), Some("/a/~".into()));
        assert!(Home::resolve(None, None).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn prepare_closes_the_state_and_leaves_an_existing_root_as_it_is() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |p: &Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
        let dir = tempfile::tempdir().unwrap();
        let fresh = Home::at(dir.path().join("a/b"));
        fresh.prepare().unwrap();
        assert_eq!((mode(fresh.root()), mode(&fresh.run())), (0o700, 0o700));

        let root = dir.path().join("open");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(root.join("state")).unwrap();
        fs::set_permissions(root.join("state"), fs::Permissions::from_mode(0o755)).unwrap();
        let old = Home::at(&root);
        old.prepare().unwrap();
        assert_eq!((mode(old.root()), mode(&old.state())), (0o755, 0o700));
    }
}
