//! The least client that can measure: blocking, one request at a time, over lines or HTTP/1.1. Not a model of a
//! real client: it checks only that an answer has a result.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// How long a server may take to show a tool.
const TOOL: Duration = Duration::from_secs(60);

fn message(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn hello() -> Value {
    json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "evi-bench", "version": "1"}})
}

fn has_tool(result: &Value, name: &str) -> bool {
    result["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == name))
}

fn result_of(mut answer: Value) -> Result<Value> {
    if answer.get("result").is_none() || answer["result"]["isError"] == true {
        bail!("the answer is no result: {answer}");
    }
    Ok(answer["result"].take())
}

/// Over a child's standard input and output.
pub struct Lines {
    child: Child,
    write: Option<ChildStdin>,
    read: BufReader<ChildStdout>,
    id: u64,
}

impl Lines {
    /// Starts a server.
    pub fn start(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let write = child.stdin.take();
        let read = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { child, write, read, id: 0 })
    }
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
    /// Shakes hands.
    pub fn initialize(&mut self) -> Result<()> {
        self.request("initialize", &hello())?;
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)
    }
    fn send(&mut self, line: &str) -> Result<()> {
        let write = self.write.as_mut().context("ended")?;
        write.write_all(line.as_bytes())?;
        write.write_all(b"\n")?;
        Ok(write.flush()?)
    }
    /// Asks, and waits for the answer with the same id.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.id += 1;
        let id = self.id;
        self.send(&message(id, method, params))?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.read.read_line(&mut line)? == 0 {
                bail!("the server ended");
            }
            let answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == id {
                return result_of(answer);
            }
        }
    }
    /// Waits until a tool is listed.
    pub fn wait_for_tool(&mut self, name: &str) -> Result<()> {
        wait_for_tool(name, || self.request("tools/list", &json!({})))
    }
    /// Ends the server.
    pub fn end(mut self) {
        self.write.take();
        let _ = self.child.wait();
    }
}

fn wait_for_tool(name: &str, mut list: impl FnMut() -> Result<Value>) -> Result<()> {
    let began = Instant::now();
    while !has_tool(&list()?, name) {
        if began.elapsed() > TOOL {
            bail!("{name} did not appear");
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Over one HTTP/1.1 connection that is kept open.
pub struct Http {
    stream: BufReader<TcpStream>,
    head: String,
    session: Option<String>,
    id: u64,
}

impl Http {
    /// Connects to a server of this machine that may still be starting.
    pub fn connect(port: u16, token: &str, within: Duration) -> Result<Self> {
        let began = Instant::now();
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => break stream,
                Err(error) if began.elapsed() > within => return Err(error.into()),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        );
        Ok(Self { stream: BufReader::new(stream), head, session: None, id: 0 })
    }
    /// Shakes hands.
    pub fn initialize(&mut self) -> Result<()> {
        self.request("initialize", &hello())?;
        let session = self.session.clone().context("no session")?;
        self.head.push_str(&format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-06-18\r\n"));
        self.post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).map(drop)
    }
    /// Asks.
    pub fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.id += 1;
        let body = self.post(&message(self.id, method, params))?;
        result_of(serde_json::from_slice(&body)?)
    }
    /// Waits until a tool is listed.
    pub fn wait_for_tool(&mut self, name: &str) -> Result<()> {
        wait_for_tool(name, || self.request("tools/list", &json!({})))
    }
    fn post(&mut self, body: &str) -> Result<Vec<u8>> {
        let request = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut length, mut line) = (0, String::new());
        let mut first = true;
        loop {
            line.clear();
            if self.stream.read_line(&mut line)? == 0 {
                bail!("the connection ended");
            }
            if first && !line.contains(" 200 ") && !line.contains(" 202 ") {
                bail!("the gateway answered {}", line.trim());
            }
            first = false;
            let Some((name, value)) = line.trim().split_once(": ") else {
                if line.trim().is_empty() {
                    break;
                }
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse::<usize>()?,
                "mcp-session-id" => self.session = Some(value.to_owned()),
                "transfer-encoding" => bail!("the answer is a stream, which this client does not read"),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }
}
