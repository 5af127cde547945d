//! A home in a temporary folder, child processes that own it, and a gateway of ten lines; asserts nothing.

use std::{
    path::Path,
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use evi_attach::{Claim, Kind, Owner, Place, Rank};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
    time::timeout,
};

/// Enough for a machine that is busy with other things.
pub const SOON: Duration = Duration::from_secs(15);

pub async fn soon<F: Future>(what: F) -> F::Output {
    timeout(SOON, what).await.expect("it took too long")
}

pub async fn claim(place: &Place, rank: Rank) -> Claim {
    place.claim(rank, Duration::from_secs(10)).await.unwrap()
}

pub async fn own(place: &Place, rank: Rank) -> Owner {
    match claim(place, rank).await {
        Claim::Owner(owner) => owner,
        Claim::Other(info) => panic!("{info:?} owns it"),
    }
}

/// This test binary once more, as a process that claims `run_dir` and reports on its standard error.
pub struct Peer {
    pub process: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Peer {
    pub fn start(run_dir: &Path, rank: Rank) -> Self {
        Self::start_with(run_dir, rank, &[])
    }

    pub fn start_with(run_dir: &Path, rank: Rank, env: &[(&str, &Path)]) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "support::peer", "--ignored", "--nocapture"])
            .env("EVI_ATTACH_RUN_DIR", run_dir)
            .env("EVI_ATTACH_RANK", serde_json::to_string(&rank).unwrap())
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        Self { process, lines }
    }

    /// The next thing it says.
    pub async fn says(&mut self) -> String {
        soon(self.lines.next_line()).await.unwrap().expect("the peer ended")
    }
}

/// The other process: says `owner` or `other`, serves MCP while it owns, says `released` after a handover.
#[tokio::test]
#[ignore = "the body of a child process"]
async fn peer() {
    let Some(run_dir) = std::env::var_os("EVI_ATTACH_RUN_DIR") else { return };
    let rank = serde_json::from_str(&std::env::var("EVI_ATTACH_RANK").unwrap()).unwrap();
    let mut told_to_end = tokio::io::stdin();
    let owned = async {
        let mut owner = match claim(&Place::new(run_dir), rank).await {
            Claim::Owner(owner) => owner,
            Claim::Other(_) => {
                eprintln!("other");
                return std::future::pending().await;
            }
        };
        eprintln!("owner");
        let handover = owner.handover();
        let mut serving = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                incoming = owner.accept() => {
                    assert_eq!(incoming.hello.kind, Kind::Mcp);
                    serving.spawn(serve_mcp(incoming.stream, "child", Seen::default(), |line| eprintln!("{line}")));
                }
                () = handover.cancelled() => break,
            }
        }
        serving.shutdown().await;
        owner.release().await;
        eprintln!("released");
    };
    tokio::select! {
        () = owned => {}
        _ = tokio::io::AsyncReadExt::read_u8(&mut told_to_end) => {}
        () = tokio::time::sleep(Duration::from_secs(30)) => {}
    }
    // Reading standard input has a thread of its own that would keep the process.
    std::process::exit(0);
}

/// What a backend got.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<Vec<Value>>>);

impl Seen {
    pub fn all(&self) -> Vec<Value> {
        self.0.lock().unwrap().clone()
    }

    pub fn methods(&self) -> Vec<String> {
        self.all().iter().filter_map(|line| line["method"].as_str().map(Into::into)).collect()
    }
}

/// A gateway: answers everything with its name, but never a call of `hang`. `note` hears the name of every tool.
pub async fn serve_mcp<S: AsyncRead + AsyncWrite>(stream: S, name: &str, seen: Seen, note: impl Fn(&str)) {
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let line: Value = serde_json::from_str(&line).unwrap();
        seen.0.lock().unwrap().push(line.clone());
        if let Some(tool) = line["params"]["name"].as_str() {
            note(tool);
        }
        if line["id"].is_null() || line["method"].is_null() || line["params"]["name"] == "hang" {
            continue;
        }
        let result = match line["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": true}, "prompts": {}},
                "serverInfo": {"name": name, "version": "1"},
            }),
            _ => json!({"by": name}),
        };
        let answer = json!({"jsonrpc": "2.0", "id": line["id"], "result": result});
        if write.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A client of the gateway, on lines.
pub struct Client<S> {
    write: tokio::io::WriteHalf<S>,
    lines: Lines<BufReader<tokio::io::ReadHalf<S>>>,
}

impl<S: AsyncRead + AsyncWrite> Client<S> {
    pub fn new(stream: S) -> Self {
        let (read, write) = tokio::io::split(stream);
        Self { write, lines: BufReader::new(read).lines() }
    }

    pub async fn say(&mut self, line: &Value) {
        self.write.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    pub async fn request(&mut self, id: u64, method: &str, params: Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    pub async fn hears(&mut self) -> Value {
        let line =
            timeout(Duration::from_secs(120), self.lines.next_line()).await.expect("nothing was heard");
        serde_json::from_str(&line.unwrap().expect("the bridge ended")).unwrap()
    }

    /// The handshake of a legacy client, with id 1.
    pub async fn shake_hands(&mut self) {
        self.request(1, "initialize", json!({"protocolVersion": "2025-11-25"})).await;
        assert_eq!(self.hears().await["id"], 1);
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }

    pub async fn end(&mut self) {
        self.write.shutdown().await.unwrap();
    }
}
