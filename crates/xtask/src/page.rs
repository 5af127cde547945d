//! The page and the window: it installs and builds only what changed since the last time, and never edits ui/.

use crate::command::{cargo, npm, run as run_command};
use crate::places::Places;
use crate::system;
use anyhow::{Context, Result, bail};
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::Hasher;
use std::path::Path;
use std::process::Command;

/// What in ui/ does not go into the built page.
const NOT_THE_PAGE: [&str; 6] =
    ["node_modules", "dist", "tests", "test-results", "playwright-report", ".svelte-kit"];

/// Everything from a fresh checkout to the open window; a second run only checks stamps.
pub fn run(places: &Places, arguments: &[String]) -> Result<()> {
    system::install(false, false)?;
    install_packages(places)?;
    build(places)?;
    build_programs(places)?;
    let window = places.debug_program("evi-desktop");
    let status = Command::new(&window).args(arguments).current_dir(&places.root).status()?;
    if !status.success() {
        bail!("{} ended with {status}", window.display());
    }
    Ok(())
}

/// The window and the command line, built for debugging.
pub fn build_programs(places: &Places) -> Result<()> {
    run_command(cargo(&places.root).args(["build", "--package", "evi-desktop", "--package", "evi-cli"]))
}

/// `npm ci` in ui/, unless the lock file is the one that was installed last.
pub fn install_packages(places: &Places) -> Result<()> {
    install_locked(&places.ui(), npm)
}

/// `npm ci` in a project with a lock file, unless exactly that lock file was installed there before.
pub fn install_locked(project: &Path, npm: impl Fn(&Path) -> Command) -> Result<()> {
    let pins = ["package.json", "package-lock.json"].map(|name| project.join(name));
    install_once(&[&pins[0], &pins[1]], &project.join("node_modules/.evi-installed"), || {
        run_command(npm(project).args(["ci", "--no-audit", "--no-fund"]))
    })
}

/// Installs, unless exactly these pins were installed before, as the stamp says.
pub fn install_once(pins: &[&Path], stamp: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut hash = DefaultHasher::new();
    for path in pins {
        hash.write(&fs::read(path).with_context(|| format!("could not read {}", path.display()))?);
    }
    if is_stamped(stamp, hash.finish()) {
        return Ok(());
    }
    install()?;
    write_stamp(stamp, hash.finish())
}

/// `npm run build` in ui/, unless nothing that goes into the page changed.
pub fn build(places: &Places) -> Result<()> {
    let ui = places.ui();
    let hash = page_hash(&ui)?;
    let stamp = ui.join("node_modules/.evi-page");
    if ui.join("dist/index.html").is_file() && is_stamped(&stamp, hash) {
        return Ok(());
    }
    run_command(npm(&ui).args(["run", "build"]))?;
    write_stamp(&stamp, hash)
}

/// A number that changes with the name or content of any file the page is made of.
fn page_hash(ui: &Path) -> Result<u64> {
    let mut hash = DefaultHasher::new();
    hash_folder(ui, true, &mut hash)?;
    Ok(hash.finish())
}

fn hash_folder(folder: &Path, is_top: bool, hash: &mut DefaultHasher) -> Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name();
        if is_top && NOT_THE_PAGE.iter().any(|skipped| name == *skipped) {
            continue;
        }
        hash.write(name.as_encoded_bytes());
        if entry.file_type()?.is_dir() {
            hash_folder(&entry.path(), false, hash)?;
        } else {
            hash.write(&fs::read(entry.path())?);
        }
    }
    Ok(())
}

fn is_stamped(stamp: &Path, hash: u64) -> bool {
    fs::read_to_string(stamp).is_ok_and(|found| found == hash.to_string())
}

fn write_stamp(stamp: &Path, hash: u64) -> Result<()> {
    fs::write(stamp, hash.to_string()).with_context(|| format!("could not write {}", stamp.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_built_again_only_when_something_in_it_changed() {
        let ui = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = ui.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("src/main.ts", "a");
        let before = page_hash(ui.path()).unwrap();
        for harmless in ["dist/index.html", "node_modules/x.js", "tests/chat.spec.ts", "test-results/x.png"] {
            write(harmless, "x");
        }
        assert_eq!(page_hash(ui.path()).unwrap(), before);
        write("src/main.ts", "b");
        let edited = page_hash(ui.path()).unwrap();
        assert_ne!(edited, before);
        fs::rename(ui.path().join("src/main.ts"), ui.path().join("src/start.ts")).unwrap();
        assert_ne!(page_hash(ui.path()).unwrap(), edited);
    }

    #[test]
    fn a_stamp_holds_only_for_the_hash_it_was_written_with() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = folder.path().join("stamp");
        assert!(!is_stamped(&stamp, 7));
        write_stamp(&stamp, 7).unwrap();
        assert!(is_stamped(&stamp, 7) && !is_stamped(&stamp, 8));
    }
}
