//! Generated files: the contract's TypeScript, and on request snapshots and pictures; the sources stay the only truth.

use crate::command::{cargo, run};
use crate::places::Places;
use crate::stages::{self, Stage};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the page expects the contract's types.
const TYPESCRIPT: &str = "ui/src/contract";

/// Writes all generated files anew.
pub fn write(places: &Places, snapshots: bool, pictures: bool) -> Result<()> {
    write_typescript(places, &places.root.join(TYPESCRIPT))?;
    if snapshots {
        run(cargo(&places.root).args(["test", "--workspace"]).env("INSTA_UPDATE", "always"))?;
    }
    if pictures {
        let folder = places.root.join("docs/pictures");
        fs::create_dir_all(&folder)?;
        stages::take_pictures(places, &folder, &[Stage::Window])?;
    }
    Ok(())
}

/// Fails when the generated files differ from what the sources give, naming each file.
pub fn check(places: &Places) -> Result<()> {
    let fresh = places.target.join("typescript-check");
    fs::remove_dir_all(&fresh).ok();
    fs::create_dir_all(&fresh)?;
    write_typescript(places, &fresh)?;
    let (wanted, found) = (read_folder(&fresh)?, read_folder(&places.root.join(TYPESCRIPT))?);
    let names: BTreeSet<_> = wanted.keys().chain(found.keys()).collect();
    let stale: Vec<_> = names.into_iter().filter(|name| wanted.get(*name) != found.get(*name)).collect();
    if !stale.is_empty() {
        let list: Vec<_> = stale.iter().map(|name| format!("{TYPESCRIPT}/{}", name.display())).collect();
        bail!("generated files are out of date: {}\nhint: cargo xtask gen", list.join(", "));
    }
    Ok(())
}

/// The one place that knows how the contract generates its types.
fn write_typescript(places: &Places, folder: &Path) -> Result<()> {
    // Chosen out of the workspace, so that it shares the dependencies with every other build.
    run(cargo(&places.root).args(["build", "--workspace", "--example", "typescript"]))?;
    let program = places.target.join("debug/examples").join(format!("typescript{EXE_SUFFIX}"));
    run(Command::new(program).arg(folder).current_dir(&places.root))
}

fn read_folder(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(current) = open.pop() {
        let entries =
            fs::read_dir(&current).with_context(|| format!("could not read {}", current.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder)?.to_path_buf();
                files.insert(name, fs::read(&path)?);
            }
        }
    }
    Ok(files)
}
