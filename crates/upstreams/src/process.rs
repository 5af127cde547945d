//! A child process and everything it started: spawned with the right environment, ended as a whole.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use evi_domain::{LogStream, Secret};
use process_wrap::tokio::ChildWrapper;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    error::Fault,
    leftovers::{Leftovers, Noted},
    log::Log,
    path, platform,
};

/// How long it may take to end after its input closed, and then after it was asked.
const STEP: Duration = Duration::from_secs(2);
/// How long the system may take to end it once it was killed.
const KILL_LIMIT: Duration = Duration::from_secs(1);
/// How long the rest of stderr may take after the end: a grandchild may hold it open.
const STDERR_REST: Duration = Duration::from_millis(300);
/// Bytes of a line of stderr; the log caps it further.
const STDERR_LINE: usize = 64 << 10;
/// Our own secrets, which no server needs.
const OWN_SECRETS: [&str; 2] = ["EVI_MCP_TOKEN", "EVI_VAULT_PASSPHRASE"];

/// What to run.
pub(crate) struct Program {
    pub(crate) command: String,
    pub(crate) args: Vec<Secret>,
    pub(crate) env: BTreeMap<String, Secret>,
    pub(crate) cwd: Option<PathBuf>,
}

/// A running process tree. Dropping it kills the tree; [`Process::stop`] is the orderly way.
pub(crate) struct Process {
    child: Box<dyn ChildWrapper>,
    pid: Option<u32>,
    stderr: Option<JoinHandle<()>>,
    over: bool,
    noted: Option<Noted>,
}

impl Program {
    /// Starts it.
    pub(crate) async fn spawn(
        &self,
        log: &Log,
        leftovers: &Arc<Leftovers>,
    ) -> Result<(Process, ChildStdin, ChildStdout), Fault> {
        if let Some(cwd) = &self.cwd
            && !cwd.is_dir()
        {
            return Err(Fault::FolderNotFound { folder: cwd.display().to_string() });
        }
        let (file, search) = self.locate().await?;
        let mut command = Command::new(&file);
        command.args(self.args.iter().map(Secret::expose));
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if OWN_SECRETS.contains(&&*text) || text.starts_with("EVI_SECRET_") {
                command.env_remove(&name);
            }
        }
        command.envs(self.env.iter().map(|(k, v)| (k.as_str(), v.expose())));
        command.env("PATH", search);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = platform::as_tree(command).spawn().map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Fault::NotExecutable { program: self.command.clone() },
            // `InvalidInput` is also how Windows says that an argument cannot be quoted for a batch file.
            _ => Fault::Spawn { reason: error.to_string() },
        })?;
        let pipes = (child.stdin().take(), child.stdout().take());
        let stderr = child.stderr().take().map(|stderr| tokio::spawn(read_stderr(stderr, log.clone())));
        let mut process = Process { pid: child.id(), child, stderr, over: false, noted: None };
        process.noted = leftovers.note(process.pid, &self.args).await;
        match pipes {
            (Some(stdin), Some(stdout)) => Ok((process, stdin, stdout)),
            _ => Err(Fault::Spawn { reason: "it has no pipes".to_owned() }),
        }
    }

    /// The file, and the `PATH` that it gets. On a thread of its own: the login shell may be asked.
    async fn locate(&self) -> Result<(PathBuf, std::ffi::OsString), Fault> {
        let (command, cwd) = (self.command.clone(), self.cwd.clone());
        let own = self.env.get("PATH").map(|p| p.expose().to_owned());
        let found = tokio::task::spawn_blocking(move || {
            let file = path::resolve_in(&command, own.as_deref(), cwd.as_deref())?;
            let search = path::child_path(&file, own.as_deref());
            Ok((absolute(file), search))
        });
        match found.await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(path::NotFound { program, searched })) => {
                Err(Fault::ProgramNotFound { program, searched })
            }
            Err(error) => Err(Fault::Spawn { reason: error.to_string() }),
        }
    }
}

/// A relative program would be looked up from the child's folder.
fn absolute(file: PathBuf) -> PathBuf {
    std::path::absolute(&file).unwrap_or(file)
}

impl Process {
    /// Its process id.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Waits for its end. May be dropped and called again.
    pub(crate) async fn ended(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    /// How it ended, if it does within `within`; then also everything that it wrote to stderr is in the log.
    pub(crate) async fn end_within(&mut self, within: Duration) -> Option<String> {
        let status = timeout(within, self.ended()).await.ok()??;
        self.finish_stderr().await;
        Some(platform::describe(status))
    }

    /// Ends the tree. Its input must be closed by now, which is the first request. At most about 5 s.
    pub(crate) async fn stop(&mut self) {
        if timeout(STEP, self.ended()).await.is_err() {
            let _ = platform::ask_to_end(self.child.as_ref());
            if timeout(STEP, self.ended()).await.is_err() {
                let _ = self.child.start_kill();
                let _ = timeout(KILL_LIMIT, self.ended()).await;
            }
        }
        // What it started and left behind.
        let _ = self.child.start_kill();
        self.over = true;
        self.finish_stderr().await;
        if let Some(noted) = self.noted.take() {
            noted.forget().await;
        }
    }

    /// Its arguments may have changed while it started.
    pub(crate) async fn look_again(&self) {
        if let Some(noted) = &self.noted {
            noted.look_again().await;
        }
    }

    async fn finish_stderr(&mut self) {
        if let Some(mut reading) = self.stderr.take()
            && timeout(STDERR_REST, &mut reading).await.is_err()
        {
            reading.abort();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.over {
            let _ = self.child.start_kill();
        }
        if let Some(reading) = &self.stderr {
            reading.abort();
        }
    }
}

async fn read_stderr(stderr: ChildStderr, log: Log) {
    let mut read = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let Ok(chunk) = read.fill_buf().await else { return };
        if chunk.is_empty() {
            break;
        }
        let end = chunk.iter().position(|b| matches!(b, b'\n' | b'\r'));
        let part = &chunk[..end.unwrap_or(chunk.len())];
        let room = STDERR_LINE.saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        read.consume(used);
        if end.is_some() && !line.is_empty() {
            log.push(LogStream::Stderr, &String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    if !line.is_empty() {
        log.push(LogStream::Stderr, &String::from_utf8_lossy(&line));
    }
}

/// Whether a program fetches what it runs, and so may need much longer the first time.
pub(crate) fn fetches_first(command: &str) -> bool {
    let name = Path::new(command).file_stem().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    ["npx", "uvx", "npm", "pnpm", "bunx", "pipx", "uv", "bun", "yarn", "docker", "podman"]
        .contains(&name.as_str())
}
