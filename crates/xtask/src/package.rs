//! Installable packages: the window with the `evi` command inside it as a sidecar; it signs and publishes nothing.

use crate::command::{cargo, npm, output, run};
use crate::places::Places;
use crate::{page, system};
use anyhow::{Context, Result};
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::process::Command;

/// Tauri's bundler, prebuilt, from npm.
const BUNDLER: &str = "@tauri-apps/cli@2.12.5";

/// Adds the sidecar to the configuration. It is not in tauri.conf.json, where it would break every plain cargo command
/// until the sidecar is built.
const CONFIGURATION: &str = "tauri.package.json";

/// Builds release programs and packages them; the results lie in `<target>/release/bundle`.
pub fn package(places: &Places, bundles: &[String]) -> Result<()> {
    system::install(false, true)?;
    page::install_packages(places)?;
    page::build(places)?;
    run(cargo(&places.root).args(["build", "--release", "--package", "evi-cli"]))?;
    copy_sidecar(places)?;
    let bundles = if bundles.is_empty() { default_bundles().to_owned() } else { bundles.join(",") };
    let mut bundler = npm(&places.root);
    bundler.args([
        "exec",
        "--yes",
        "--package",
        BUNDLER,
        "--",
        "tauri",
        "build",
        "--ci",
        "--config",
        CONFIGURATION,
    ]);
    run(bundler.args(["--bundles", &bundles]))?;
    println!("packages: {}", places.target.join("release/bundle").display());
    Ok(())
}

fn default_bundles() -> &'static str {
    if cfg!(windows) {
        "nsis"
    } else if cfg!(target_os = "macos") {
        "dmg"
    } else {
        "deb,rpm"
    }
}

/// The bundler looks for a sidecar by name and target triple.
fn copy_sidecar(places: &Places) -> Result<()> {
    let version = output(Command::new("rustc").arg("-vV")).context("rustc does not tell its version")?;
    let triple =
        version.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let folder = places.root.join("binaries");
    fs::create_dir_all(&folder)?;
    let built = places.target.join(format!("release/evi{EXE_SUFFIX}"));
    fs::copy(&built, folder.join(format!("evi-{triple}{EXE_SUFFIX}")))
        .with_context(|| format!("could not copy {}", built.display()))?;
    Ok(())
}
