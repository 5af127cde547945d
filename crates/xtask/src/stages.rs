//! The test stages in their order, each timed; the first failure stops the run, and nothing is skipped silently.

use crate::command::{cargo, is_on_path, output, run, without_own_variables};
use crate::places::Places;
use crate::{check, page, peers, system};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A whole run should stay below this; longer gives a warning.
const BUDGET: Duration = Duration::from_secs(60 * 60);

/// One part of the test run; the order here is the order of a whole run.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Stage {
    /// System packages
    Setup,
    /// npm packages of the page
    UiInstall,
    /// The built page
    UiBuild,
    /// Everything that `cargo xtask check` checks
    Check,
    /// Unit tests and the tests of each crate
    Rust,
    /// Foreign programs for the stages below
    Peers,
    /// Journeys against real servers, through application, command line and web
    Flows,
    /// The real keychain in a private session (Linux)
    Keychain,
    /// The page in headless Chromium (Linux)
    Browser,
    /// The real window and its tray (Linux)
    Window,
}

/// Runs the named stages, or all; prints a table of times and, last, what failed.
pub fn test(places: &Places, named: &[Stage]) -> Result<()> {
    let stages = if named.is_empty() { Stage::value_variants() } else { named };
    run_all(places, stages, &places.target.join("pictures"))
}

/// Runs the named stages with their pictures going to `folder`.
pub fn take_pictures(places: &Places, folder: &Path, stages: &[Stage]) -> Result<()> {
    run_all(places, stages, folder)
}

fn run_all(places: &Places, stages: &[Stage], pictures: &Path) -> Result<()> {
    let started = Instant::now();
    let mut table = Vec::new();
    let mut failure = None;
    for &stage in stages {
        let name = name_of(stage);
        if !stage.is_for_this_system() {
            table.push(format!("{name:<12} {:>8}  needs Linux", "–"));
            continue;
        }
        println!("\n=== {name} ===");
        let stage_started = Instant::now();
        let result = stage.run(places, pictures);
        let seconds = stage_started.elapsed().as_secs_f64();
        let end = if result.is_ok() { "passed" } else { "FAILED" };
        println!("=== {name}: {end} in {seconds:.1} s ===");
        table.push(format!("{name:<12} {seconds:>6.1} s  {end}"));
        if let Err(error) = result {
            failure = Some(error.context(format!("stage {name} failed")));
            break;
        }
    }
    let total = started.elapsed();
    println!(
        "\nstage            time  end\n{}\n{:<12} {:>6.1} s",
        table.join("\n"),
        "total",
        total.as_secs_f64()
    );
    if total > BUDGET {
        println!("warning: the run took {:.0} minutes; it should stay below 60", total.as_secs_f64() / 60.0);
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn name_of(stage: Stage) -> String {
    stage.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

impl Stage {
    fn is_for_this_system(self) -> bool {
        !matches!(self, Self::Keychain | Self::Browser | Self::Window) || cfg!(target_os = "linux")
    }

    fn run(self, places: &Places, pictures: &Path) -> Result<()> {
        match self {
            Self::Setup => system::install(true, false),
            Self::UiInstall => page::install_packages(places),
            Self::UiBuild => page::build(places),
            Self::Check => check::check(places),
            Self::Rust => rust(places),
            Self::Peers => peers::install(places),
            Self::Flows => flows(places),
            Self::Keychain => keychain(places),
            Self::Browser => browser(places),
            Self::Window => window(places, pictures),
        }
    }
}

/// The flows need peers, so they have a stage of their own. Every stage asks for the whole workspace, because cargo
/// would build the dependencies once more for another choice of packages.
fn rust(places: &Places) -> Result<()> {
    let mut tests = cargo(&places.root);
    if has_nextest(places) {
        tests.args(["nextest", "run", "--workspace", "--no-fail-fast", "-E", "not binary(flows)"]);
        run(&mut tests)?;
        run(cargo(&places.root).args(["test", "--workspace", "--doc"]))
    } else {
        tests.args(["test", "--workspace", "--no-fail-fast", "--exclude", "evi-tests"]);
        run(&mut tests)?;
        run(cargo(&places.root).args(["test", "--workspace", "--test", "architecture"]))
    }
}

/// In a session, because the real `evi` that flows start would otherwise reach into the person's own keychain.
fn flows(places: &Places) -> Result<()> {
    page::build_programs(places)?;
    let choice: &[&str] = if has_nextest(places) {
        &["nextest", "run", "--workspace", "--no-fail-fast", "--test", "flows"]
    } else {
        &["test", "--workspace", "--no-fail-fast", "--test", "flows"]
    };
    run(cargo(&places.root).args(["test", "--workspace", "--test", "flows", "--no-run"]))?;
    run(in_session(places, "cargo").args(choice).envs(peers::environment(places)?))
}

fn has_nextest(places: &Places) -> bool {
    is_on_path("cargo-nextest") && output(cargo(&places.root).args(["nextest", "--version"])).is_some()
}

fn keychain(places: &Places) -> Result<()> {
    let test = places.root.join("crates/store/tests/keychain.rs");
    if !test.is_file() {
        bail!("{} is missing", test.display());
    }
    // Built outside, so that the session holds no compiler.
    run(cargo(&places.root).args(["test", "--workspace", "--test", "keychain", "--no-run"]))?;
    let mut tests = in_session(places, "cargo");
    tests.args(["test", "--workspace", "--test", "keychain"]);
    run(tests.env("EVI_TEST_KEYCHAIN", "1"))
}

fn browser(places: &Places) -> Result<()> {
    files_ending_with(&places.ui().join("tests"), ".spec.ts")?;
    page::build_programs(places)?;
    let mut tests = in_session(places, "npm");
    run(tests.args(["run", "test:browser"]).current_dir(places.ui()).envs(peers::environment(places)?))
}

fn window(places: &Places, pictures: &Path) -> Result<()> {
    let files = files_ending_with(&places.root.join("tests/window"), ".test.mjs")?;
    page::build(places)?;
    page::build_programs(places)?;
    fs::create_dir_all(pictures)?;
    let mut tests = in_session(places, "node");
    // One screen, one tray and one instance of the application: one file after the other.
    tests.args(["--test", "--test-concurrency=1", "--test-reporter=spec"]).args(files);
    run(tests.envs(peers::environment(places)?).env("EVI_PICTURES", pictures))
}

/// The program, to be run in a desktop session of its own where that is possible: on Linux.
fn in_session(places: &Places, program: &str) -> Command {
    let mut command = if cfg!(target_os = "linux") { Command::new("bash") } else { Command::new(program) };
    if cfg!(target_os = "linux") {
        command.arg(places.session_script()).arg(program);
    }
    without_own_variables(command.current_dir(&places.root));
    command
}

/// Files of a test stage, sorted; none is an error, because a stage without tests proves nothing.
fn files_ending_with(folder: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect();
    if files.is_empty() {
        bail!("no test *{ending} lies in {}", folder.display());
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_without_test_files_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(files_ending_with(&folder.path().join("missing"), ".test.mjs").is_err());
        fs::write(folder.path().join("driver.mjs"), "").unwrap();
        assert!(files_ending_with(folder.path(), ".test.mjs").unwrap_err().to_string().contains(".test.mjs"));
        fs::write(folder.path().join("b.test.mjs"), "").unwrap();
        fs::write(folder.path().join("a.test.mjs"), "").unwrap();
        let found = files_ending_with(folder.path(), ".test.mjs").unwrap();
        assert_eq!(found, [folder.path().join("a.test.mjs"), folder.path().join("b.test.mjs")]);
    }

    #[test]
    fn a_whole_run_has_every_stage_under_the_name_that_ci_and_people_use() {
        let names: Vec<_> = Stage::value_variants().iter().map(|stage| name_of(*stage)).collect();
        let wanted = [
            "setup",
            "ui-install",
            "ui-build",
            "check",
            "rust",
            "peers",
            "flows",
            "keychain",
            "browser",
            "window",
        ];
        assert_eq!(names, wanted);
    }
}
