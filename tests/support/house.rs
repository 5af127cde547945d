//! A home with its files, and a folder for servers to work on. Everything lies in a temporary place.

use std::{
    fmt::Display,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::peers;

/// A new house: an empty home, and a folder with two files.
pub fn house() -> House {
    // A path with a space, as people have them.
    let place = tempfile::Builder::new().prefix("evi flow ").tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let folder = root.join("some folder");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("apples.txt"), "red\n").unwrap();
    fs::write(folder.join("pears.txt"), "green\n").unwrap();
    House { home: root.join("home"), folder, root, _place: place }
}

/// A home, and what belongs to it.
pub struct House {
    root: PathBuf,
    home: PathBuf,
    folder: PathBuf,
    _place: TempDir,
}

/// A program that is a server.
#[derive(Clone, Debug)]
pub struct Program {
    /// What is started.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, beside what it inherits.
    pub env: Vec<(String, String)>,
}

impl Program {
    /// Without arguments.
    pub fn new(command: impl Display) -> Self {
        Self { command: command.to_string(), args: Vec::new(), env: Vec::new() }
    }

    /// With one more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Display) -> Self {
        self.args.push(arg.to_string());
        self
    }

    /// With one more environment value.
    #[must_use]
    pub fn env(mut self, key: &str, value: impl Display) -> Self {
        self.env.push((key.to_owned(), value.to_string()));
        self
    }

    /// As a draft of the contract.
    pub fn draft(&self, name: &str) -> Value {
        let env: Vec<Value> = self.env.iter().map(|(k, v)| json!({"key": k, "value": v})).collect();
        json!({"name": name, "transport": "stdio", "command": self.command, "args": self.args, "env": env})
    }
}

impl House {
    /// With servers switched on.
    #[must_use]
    pub fn with_servers_on(self) -> Self {
        self.with_config("[tools]\nmcp = true\n")
    }

    /// With this `config.toml`.
    #[must_use]
    pub fn with_config(self, text: &str) -> Self {
        self.writes("config.toml", text);
        self
    }

    /// With this server in `mcp.json`, after those that are there.
    #[must_use]
    pub fn with_server(self, name: &str, program: &Program) -> Self {
        let mut entry = json!({
            "name": name, "command": program.command, "args": program.args, "enabled": true,
        });
        if !program.env.is_empty() {
            entry["env"] =
                program.env.iter().map(|(k, v)| (k.clone(), json!(v))).collect::<Map<_, _>>().into();
        }
        self.with_entry(entry)
    }

    /// With this entry in `mcp.json`, after those that are there.
    #[must_use]
    pub fn with_entry(self, entry: Value) -> Self {
        let old = fs::read_to_string(self.home.join("mcp.json")).unwrap_or_else(|_| "[]".to_owned());
        let mut all: Vec<Value> = serde_json::from_str(&old).unwrap();
        all.push(entry);
        self.writes("mcp.json", &serde_json::to_string_pretty(&all).unwrap());
        self
    }

    /// Writes a file of the home, as an editor would.
    pub fn writes(&self, name: &str, text: &str) {
        let path = self.home.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A file of the home as it is now.
    pub fn reads(&self, name: &str) -> String {
        let path = self.home.join(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// The home.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The folder for servers to work on.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The adversarial server of `tests/adversary`, of this kind, with these words.
    pub fn adversary<S: Display>(kind: &str, words: impl IntoIterator<Item = S>) -> Program {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo names this package's folder");
        let script = Path::new(&package).join("adversary");
        let python = Program::new(if cfg!(windows) { "python" } else { "python3" });
        let program = python.arg("-I").arg("-S").arg("-B").arg(script.display()).arg(kind);
        words.into_iter().fold(program, Program::arg)
    }

    /// The flows' own server, noting what happens to it under `name`.
    pub fn server(&self, name: &str, mode: &str) -> Program {
        Self::adversary("box", [&self.notes_file(name).display().to_string(), mode])
    }

    /// Where the flows' own server `name` writes.
    pub fn notes_file(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}.notes"))
    }

    /// What happened to the flows' own server `name` so far, a line each.
    pub fn notes(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.notes_file(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The command `evi` in this house. There is no keychain for it, whatever this machine has.
    pub fn command(&self) -> Command {
        let mut command = Command::new(peers::evi());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("EVI_") {
                command.env_remove(name);
            }
        }
        command
            .env("EVI_HOME", &self.home)
            .env("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}/nobody", self.root.display()))
            .env_remove("XDG_RUNTIME_DIR")
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// The names of all files below the home whose bytes contain `text`.
    pub fn files_with(&self, text: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.home.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(bytes) = fs::read(&path)
                    && bytes.windows(text.len()).any(|window| window == text.as_bytes())
                {
                    found.push(path);
                }
            }
        }
        found
    }
}
