//! The rules that need no test run: formatting, lints, licences, generated files and the repository's own rules.

use crate::command::{cargo, npm, run};
use crate::places::Places;
use crate::tools::CARGO_DENY;
use crate::{generate, page};
use anyhow::{Result, bail};

/// Stops at the first rule that is broken.
pub fn check(places: &Places) -> Result<()> {
    let root = &places.root;
    run(cargo(root).args(["fmt", "--all", "--check"]))?;
    // The desktop package embeds the built page, so that it must be there before any cargo command looks at it.
    page::install_packages(places)?;
    page::build(places)?;
    lock_files_are_current(places)?;
    run(cargo(root).args(["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]))?;
    let deny = CARGO_DENY.install(places)?;
    // Advisories change from day to day without a change here; a workflow looks at them.
    run(std::process::Command::new(deny).current_dir(root).args(["check", "bans", "licenses", "sources"]))?;
    generate::check(places)?;
    check_page(places)?;
    run(cargo(root).args(["test", "--workspace", "--test", "architecture"]))
}

/// On CI a changed lock file means that the committed one was stale; a person at work may change it.
fn lock_files_are_current(places: &Places) -> Result<()> {
    if std::env::var_os("CI").is_none() {
        return Ok(());
    }
    let diff = ["diff", "--exit-code", "--stat", "--", "Cargo.lock", "ui/package-lock.json"];
    run(std::process::Command::new("git").current_dir(&places.root).args(diff))
}

/// The page's own scripts; ui/package.json must have each of them.
fn check_page(places: &Places) -> Result<()> {
    let ui = places.ui();
    let scripts = std::fs::read_to_string(ui.join("package.json"))?;
    for script in ["format:check", "lint", "check"] {
        if !scripts.contains(&format!("\"{script}\":")) {
            bail!("ui/package.json has no script \"{script}\"");
        }
        run(npm(&ui).args(["run", "--silent", script]))?;
    }
    Ok(())
}
