//! The bundled command `evi`, started as another application would start it, through the shell plugin's sidecar.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use evi_app::{Launched, Launcher, ProcessLauncher};
use tauri::AppHandle;
use tauri_plugin_shell::{
    ShellExt,
    process::{CommandChild, CommandEvent},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::mpsc,
};

/// Starts the sidecar.
pub struct Sidecar {
    app: AppHandle,
}

impl Sidecar {
    /// Of this application.
    pub fn new(app: AppHandle) -> Self {
        Self { app }
    }
}

impl Launcher for Sidecar {
    fn program(&self) -> PathBuf {
        // The sidecar lies beside this executable, installed or not.
        ProcessLauncher.program()
    }

    fn launch(&self, args: Vec<String>, env: Vec<(String, String)>) -> Result<Launched, String> {
        let command = self.app.shell().sidecar("evi").map_err(|e| e.to_string())?;
        let (mut events, child) =
            command.args(args).envs(env).set_raw_out(true).spawn().map_err(|e| e.to_string())?;
        let child = Arc::new(Mutex::new(Some(child)));
        let (ours, theirs) = tokio::io::duplex(256 * 1024);
        let (mut from_client, mut to_client) = tokio::io::split(ours);
        let (lines, stderr) = mpsc::channel(256);
        let output = tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    CommandEvent::Stdout(bytes) => match to_client.write_all(&bytes).await {
                        Ok(()) => {}
                        Err(_) => break,
                    },
                    CommandEvent::Stderr(bytes) => {
                        for line in String::from_utf8_lossy(&bytes).lines() {
                            // A full queue has enough to show.
                            let _ = lines.try_send(line.to_owned());
                        }
                    }
                    CommandEvent::Terminated(_) => break,
                    _ => {}
                }
            }
            let _ = to_client.shutdown().await;
        });
        let writer = child.clone();
        let input = tokio::spawn(async move {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(count) = from_client.read(&mut buffer).await {
                if count == 0 || write(&writer, &buffer[..count]).is_err() {
                    break;
                }
            }
        });
        let (read, write) = tokio::io::split(theirs);
        Ok(Launched {
            read: Box::new(read),
            write: Box::new(write),
            stderr,
            end: Box::pin(async move {
                input.abort();
                let child = child.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(Err(error)) = child.map(CommandChild::kill) {
                    tracing::debug!(%error, "the checked command had ended");
                }
                output.abort();
            }),
        })
    }
}

fn write(child: &Mutex<Option<CommandChild>>, bytes: &[u8]) -> Result<(), tauri_plugin_shell::Error> {
    match child.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        Some(child) => child.write(bytes),
        None => Ok(()),
    }
}
