//! The server that is measured against: this program itself, as quick as a server can be, so that what remains is
//! the client's. It serves one tool, `echo`.

use std::{
    fs,
    io::{self, BufRead, Write},
    path::Path,
    process::Command,
};

use anyhow::Result;
use serde_json::{Value, json};

use crate::machine;

/// Serves until its input ends. It first burns that many seconds of processor time and notes its start in a file.
pub fn serve(cpu_seconds: f64, notes: Option<&Path>) -> Result<()> {
    if let Some(notes) = notes {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(notes)?;
        file.write_all(b"start\n")?;
    }
    while machine::cpu_seconds() < cpu_seconds {
        std::hint::black_box((0..100_000u64).fold(0, |a, b| std::hint::black_box(a ^ b)));
    }
    let (input, mut output) = (io::stdin().lock(), io::stdout().lock());
    for line in input.lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let Some(id) = message.get("id") else { continue };
        let result = match message["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "peer", "version": "1"},
            }),
            Some("tools/list") => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            Some("tools/call") => {
                json!({"content": [{"type": "text", "text": message["params"]["arguments"]["message"]}]})
            }
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                writeln!(output, "{}", json!({"jsonrpc": "2.0", "id": id, "error": error}))?;
                continue;
            }
        };
        writeln!(output, "{}", json!({"jsonrpc": "2.0", "id": id, "result": result}))?;
    }
    Ok(())
}

/// How it is started: the program and its arguments.
pub fn words(cpu_seconds: f64, notes: Option<&Path>) -> Result<Vec<String>> {
    let program = std::env::current_exe()?.display().to_string();
    let mut words = vec![program, "serve".to_owned(), cpu_seconds.to_string()];
    words.extend(notes.map(|path| path.display().to_string()));
    Ok(words)
}

/// The same as a command.
pub fn command() -> Result<Command> {
    let words = words(0.0, None)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    Ok(command)
}
