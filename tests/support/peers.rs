//! The foreign programs and eVi's own command, found through the variables of `cargo xtask test`. One that is missing
//! fails the flow.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::Value;

use crate::{House, LIMIT, Program};

fn named(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable)
        .map(PathBuf::from)
        .unwrap_or_else(|| panic!("{variable} is not set; run the flows with: cargo xtask test peers flows"));
    assert!(
        path.exists(),
        "{variable} names {}, which is not there; run: cargo xtask test peers",
        path.display()
    );
    path
}

/// The command `evi`.
pub fn evi() -> PathBuf {
    named("EVI_BIN")
}

/// The reference server for files, over the house's folder.
pub fn filesystem(house: &House) -> Program {
    let script = named("EVI_PEER_SERVERS").join("@modelcontextprotocol/server-filesystem/dist/index.js");
    Program::new("node").arg(script.display()).arg(house.folder().display())
}

/// The reference server that remembers, in a file of the house's folder.
pub fn memory(house: &House) -> Program {
    let script = named("EVI_PEER_SERVERS").join("@modelcontextprotocol/server-memory/dist/index.js");
    let file = house.folder().join("memory.jsonl");
    Program::new("node").arg(script.display()).env("MEMORY_FILE_PATH", file.display())
}

/// The reference server for git, over this repository.
pub fn git(repository: &Path) -> Program {
    let python = named("EVI_PEER_PYTHON");
    Program::new(python.display())
        .arg("-m")
        .arg("mcp_server_git")
        .arg("--repository")
        .arg(repository.display())
}

/// The reference server for the time, which believes to be in UTC.
pub fn time() -> Program {
    let python = named("EVI_PEER_PYTHON");
    Program::new(python.display()).arg("-m").arg("mcp_server_time").arg("--local-timezone").arg("UTC")
}

fn everything_script() -> PathBuf {
    named("EVI_PEER_SERVERS").join("@modelcontextprotocol/server-everything/dist/index.js")
}

/// The reference server with everything, as a process on standard input and output.
pub fn everything() -> Program {
    Program::new("node").arg(everything_script().display()).arg("stdio")
}

/// The same behind an address. It ends when this is dropped.
pub struct Everything {
    child: tokio::process::Child,
    port: u16,
    kind: &'static str,
    /// Where it is.
    pub url: String,
}

/// Starts it on a free port, over the older HTTP+SSE, and waits until it listens.
///
/// # Panics
/// When it does not.
pub async fn everything_sse() -> Everything {
    Everything::starts("sse", crate::Door::free_port()).await
}

/// Starts it on a free port, over streamable HTTP, and waits until it listens.
///
/// # Panics
/// When it does not.
pub async fn everything_http() -> Everything {
    Everything::starts("streamableHttp", crate::Door::free_port()).await
}

impl Everything {
    async fn starts(kind: &'static str, port: u16) -> Self {
        let child = tokio::process::Command::new("node")
            .arg(everything_script())
            .arg(kind)
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let listens = || async { tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok().map(drop) };
        crate::until("server-everything to listen", listens).await;
        let path = if kind == "sse" { "sse" } else { "mcp" };
        Self { child, port, kind, url: format!("http://127.0.0.1:{port}/{path}") }
    }

    /// It ends, and another one listens at its address, which knows nothing of what was.
    ///
    /// # Panics
    /// When it does not.
    pub async fn restarts(mut self) -> Self {
        self.child.kill().await.unwrap();
        Self::starts(self.kind, self.port).await
    }
}

/// Runs MCP Inspector's command line and gives what it printed as JSON.
///
/// # Panics
/// When it fails.
pub async fn inspector(arguments: &[&str]) -> Value {
    let (status, out, err) = run_inspector(arguments).await;
    assert_eq!(status, 0, "mcp-inspector {arguments:?} failed\n{out}\n{err}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("mcp-inspector printed no JSON: {e}\n{out}\n{err}"))
}

/// Runs MCP Inspector's command line: exit status, output, error output.
pub async fn run_inspector(arguments: &[&str]) -> (i32, String, String) {
    let settings = tempfile::tempdir().unwrap();
    let run = tokio::process::Command::new(named("EVI_PEER_NODE24"))
        .arg(named("EVI_PEER_INSPECTOR"))
        .arg("--cli")
        .args(arguments)
        // Its own files must not come from, or go to, the person's home.
        .env("MCP_CATALOG_PATH", settings.path().join("mcp.json"))
        .env("MCP_CLIENT_CONFIG_PATH", settings.path().join("client.json"))
        .env("HOME", settings.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(LIMIT, run).await.expect("mcp-inspector ends in time").unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}
