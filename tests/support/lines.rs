//! An application that started `evi mcp serve` and talks to it in lines, without any library's help.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin},
    task::JoinHandle,
};

use crate::{House, LIMIT, processes, until};

/// A client on standard input and output.
pub struct Lines {
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Arc<Mutex<Heard>>,
    stderr: JoinHandle<String>,
    next: u64,
}

#[derive(Default)]
struct Heard {
    answers: HashMap<u64, Value>,
    notices: Vec<Value>,
    closed: bool,
}

impl House {
    /// An application starts `evi mcp serve` with these arguments.
    pub async fn serves(&self, arguments: &[&str]) -> Lines {
        let mut command = self.command();
        command.args(["mcp", "serve"]).args(arguments).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let writing = heard.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let message: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
                let mut heard = writing.lock().unwrap();
                match (message["id"].as_u64(), message["method"].as_str()) {
                    (Some(id), None) => drop(heard.answers.insert(id, message)),
                    (_, Some(_)) => heard.notices.push(message),
                    (None, None) => panic!("neither an answer nor a notice: {line}"),
                }
            }
            writing.lock().unwrap().closed = true;
        });
        let stderr = tokio::spawn(async move {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text).await;
            text
        });
        Lines { child, stdin, heard, stderr, next: 0 }
    }
}

impl Lines {
    async fn writes(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("the client has not left");
        stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        stdin.flush().await.unwrap();
    }

    /// Sends a request and does not wait for its answer.
    pub async fn begins(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.writes(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// The whole answer to a request, once it is there.
    pub async fn answer(&self, id: u64) -> Value {
        let look = || async {
            let mut heard = self.heard.lock().unwrap();
            assert!(
                !heard.closed || heard.answers.contains_key(&id),
                "evi mcp serve ended without an answer"
            );
            heard.answers.remove(&id)
        };
        until("an answer of evi mcp serve", look).await
    }

    /// Sends a request and gives its whole answer.
    pub async fn asks(&mut self, method: &str, params: Value) -> Value {
        let id = self.begins(method, params).await;
        self.answer(id).await
    }

    /// Opens a session, and gives what the server says of itself.
    pub async fn greets(&mut self) -> Value {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "a desktop client", "version": "1"},
        });
        let answer = self.asks("initialize", params).await;
        self.writes(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer["result"].clone()
    }

    /// The names of the tools it sees now.
    pub async fn tools(&mut self) -> Vec<String> {
        let answer = self.asks("tools/list", json!({})).await;
        crate::names(&answer["result"]["tools"])
    }

    /// Lists the tools until this one is among them.
    pub async fn waits_for_tool(&mut self, name: &str) {
        let began = std::time::Instant::now();
        while !self.tools().await.iter().any(|tool| tool == name) {
            assert!(began.elapsed() < LIMIT, "waited in vain for the tool {name}");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// Calls a tool and gives the whole answer.
    pub async fn calls(&mut self, tool: &str, arguments: Value) -> Value {
        self.asks("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Begins a call.
    pub async fn begins_call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.begins("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// How many notices of this kind came so far.
    pub fn notices(&self, method: &str) -> usize {
        self.told(method).len()
    }

    /// What the notices of this kind said so far.
    pub fn told(&self, method: &str) -> Vec<Value> {
        let heard = self.heard.lock().unwrap();
        heard.notices.iter().filter(|n| n["method"] == method).map(|n| n["params"].clone()).collect()
    }

    /// Sends a notification.
    pub async fn tells(&mut self, method: &str, params: Value) {
        self.writes(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Waits until there are at least this many notices of changed tools.
    pub async fn hears_of_changed_tools(&self, times: usize) {
        let look = || async {
            let count = self.notices("notifications/tools/list_changed");
            (count >= times).then_some(())
        };
        until("a notice that the tools changed", look).await;
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Closes its side, as a client does that quits; gives exit status and error output.
    pub async fn leaves(mut self) -> (i32, String) {
        self.stdin = None;
        self.ends().await
    }

    /// Is ended by the system.
    pub async fn is_terminated(self) -> (i32, String) {
        processes::terminate(self.pid());
        self.ends().await
    }

    /// Waits for the process to end by itself.
    pub async fn ends(mut self) -> (i32, String) {
        let ended = tokio::time::timeout(LIMIT, self.child.wait()).await.expect("evi mcp serve ends in time");
        let said = tokio::time::timeout(LIMIT, self.stderr).await.expect("its error output ends").unwrap();
        (ended.unwrap().code().unwrap_or(-1), said)
    }
}
