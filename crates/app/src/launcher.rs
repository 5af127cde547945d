//! Starts eVi's own command the way another application would, for the check of a connection.

use std::{path::PathBuf, process::Stdio};

use evi_domain::BoxFuture;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader},
    sync::mpsc,
};

/// A started command.
pub struct Launched {
    /// Its standard output.
    pub read: Box<dyn AsyncRead + Send + Unpin>,
    /// Its standard input.
    pub write: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its standard error, line by line.
    pub stderr: mpsc::Receiver<String>,
    /// Ends it.
    pub end: BoxFuture<'static, ()>,
}

/// How a shell starts the command `evi`. The desktop uses its bundled sidecar.
pub trait Launcher: Send + Sync + 'static {
    /// The absolute path of the command.
    fn program(&self) -> PathBuf;
    /// Starts it.
    ///
    /// # Errors
    /// Why it did not start, in words.
    fn launch(&self, args: Vec<String>, env: Vec<(String, String)>) -> Result<Launched, String>;
}

/// Starts the `evi` beside this executable, or this executable itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessLauncher;

impl Launcher for ProcessLauncher {
    fn program(&self) -> PathBuf {
        let me = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("evi"));
        if me.file_stem().is_some_and(|stem| stem == "evi") {
            return me;
        }
        let beside = me.with_file_name(if cfg!(windows) { "evi.exe" } else { "evi" });
        if beside.is_file() { beside } else { me }
    }

    fn launch(&self, args: Vec<String>, env: Vec<(String, String)>) -> Result<Launched, String> {
        let mut child = tokio::process::Command::new(self.program())
            .args(args)
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| e.to_string())?;
        let (Some(write), Some(read), Some(err)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("its pipes could not be opened".to_owned());
        };
        let (lines, stderr) = mpsc::channel(256);
        let reader = tokio::spawn(async move {
            let mut all = BufReader::new(err).lines();
            while let Ok(Some(line)) = all.next_line().await {
                if lines.send(line).await.is_err() {
                    break;
                }
            }
        });
        Ok(Launched {
            read: Box::new(read),
            write: Box::new(write),
            stderr,
            end: Box::pin(async move {
                let _ = child.kill().await;
                reader.abort();
            }),
        })
    }
}
