//! Rust programs that only developers need, at pinned versions in the cache; it never touches the person's own cargo home.

use crate::command::{cargo, output, run};
use crate::places::Places;
use anyhow::Result;
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A program from crates.io.
pub struct Tool {
    pub name: &'static str,
    pub version: &'static str,
}

/// Licences, bans and sources of all dependencies. Its first build takes minutes.
pub const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };

/// Speaks WebDriver for the real window.
pub const TAURI_DRIVER: Tool = Tool { name: "tauri-driver", version: "2.1.0" };

impl Tool {
    /// Where the program lies, or will lie once installed.
    pub fn path(&self, places: &Places) -> PathBuf {
        places.tools().join("bin").join(format!("{}{EXE_SUFFIX}", self.name))
    }

    /// The program's path, after installing it when this version is not in the cache.
    pub fn install(&self, places: &Places) -> Result<PathBuf> {
        let path = self.path(places);
        let listed = output(Command::new("cargo").args(["install", "--list", "--root"]).arg(places.tools()));
        let wanted = format!("{} v{}:", self.name, self.version);
        if path.is_file() && listed.is_some_and(|list| list.lines().any(|line| line == wanted)) {
            return Ok(path);
        }
        eprintln!("note: building {} {} once, for the cache", self.name, self.version);
        let build = places.tools().join("build");
        let version = format!("={}", self.version);
        run(cargo(&places.root)
            .args(["install", self.name, "--locked", "--version", &version, "--root"])
            .arg(places.tools())
            .env("CARGO_TARGET_DIR", &build))?;
        // Only the program is kept; its build folder is larger than all peers together.
        fs::remove_dir_all(&build).ok();
        Ok(path)
    }
}
