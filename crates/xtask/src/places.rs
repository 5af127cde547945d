//! Where things lie: the checkout, cargo's target folder and the cache that outlives a checkout.

use anyhow::{Context, Result, anyhow};
use std::env;
use std::path::{Path, PathBuf};

/// The folders every developer command works with; all are absolute.
pub struct Places {
    /// The repository's root.
    pub root: PathBuf,
    /// Cargo's target folder (`CARGO_TARGET_DIR`, or `target/`).
    pub target: PathBuf,
    /// `$EVI_CACHE`, else `evi-dev` in the user's cache folder: test peers and tools, kept between checkouts.
    pub cache: PathBuf,
}

impl Places {
    pub fn find() -> Result<Self> {
        // Not env!(): a target folder that two checkouts share may give this program as the other one built it.
        let manifest = env::var_os("CARGO_MANIFEST_DIR").context("start this program as cargo xtask")?;
        let root = Path::new(&manifest)
            .ancestors()
            .nth(2)
            .context("the xtask crate is not two folders below the repository's root")?
            .to_path_buf();
        // This program was built into the target folder that the commands below will build into.
        let target = env::current_exe()?
            .ancestors()
            .nth(2)
            .ok_or_else(|| anyhow!("this program does not lie in a target folder; start it as cargo xtask"))?
            .to_path_buf();
        Ok(Self { root, target, cache: cache()? })
    }

    /// The page's project.
    pub fn ui(&self) -> PathBuf {
        self.root.join("ui")
    }

    /// Programs that `cargo install` puts into the cache.
    pub fn tools(&self) -> PathBuf {
        self.cache.join("tools")
    }

    /// The foreign programs that the tests talk to; see `peers`.
    pub fn peers(&self) -> PathBuf {
        self.cache.join("peers")
    }

    /// A program of this workspace, built for debugging.
    pub fn debug_program(&self, name: &str) -> PathBuf {
        self.target.join("debug").join(format!("{name}{}", env::consts::EXE_SUFFIX))
    }

    /// The script that gives a command a desktop session of its own (Linux only).
    pub fn session_script(&self) -> PathBuf {
        self.root.join("tests/support/session/session.sh")
    }
}

fn cache() -> Result<PathBuf> {
    if let Some(chosen) = env::var_os("EVI_CACHE").filter(|path| !path.is_empty()) {
        return Ok(std::path::absolute(PathBuf::from(chosen))?);
    }
    let user_cache = if cfg!(windows) {
        env::var_os("LOCALAPPDATA").map(PathBuf::from)
    } else {
        let xdg = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        xdg.or_else(|| env::home_dir().map(|home| home.join(".cache")))
    };
    let user_cache = user_cache.context("no cache folder found; set EVI_CACHE to a folder")?;
    Ok(user_cache.join("evi-dev"))
}
