//! What differs between systems when a process tree is started, asked to end and described; nothing else.

use std::{ffi::OsString, io, process::ExitStatus, time::Duration};

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop};
use tokio::process::Command;

/// How long the session may take to tell its `PATH`.
const SESSION_PATH_LIMIT: Duration = Duration::from_secs(2);

/// Makes a command the root of a tree that can be ended as a whole.
pub(crate) fn as_tree(command: Command) -> CommandWrap {
    let mut wrap = CommandWrap::from(command);
    wrap.wrap(KillOnDrop);
    #[cfg(unix)]
    wrap.wrap(process_wrap::tokio::ProcessGroup::leader());
    #[cfg(windows)]
    {
        use windows::Win32::System::Threading::CREATE_NO_WINDOW;
        wrap.wrap(process_wrap::tokio::CreationFlags(CREATE_NO_WINDOW));
        wrap.wrap(process_wrap::tokio::JobObject);
    }
    wrap
}

/// Asks every process of the tree to end. Windows has no such request for a process without a window: there
/// the closed input is the request, and the kill that follows is the end.
#[cfg(unix)]
pub(crate) fn ask_to_end(child: &dyn ChildWrapper) -> io::Result<()> {
    const SIGTERM: i32 = 15;
    child.signal(SIGTERM)
}

#[cfg(not(unix))]
pub(crate) fn ask_to_end(_child: &dyn ChildWrapper) -> io::Result<()> {
    Ok(())
}

/// How a process ended, in words.
pub(crate) fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        if let Some(signal) = status.signal() {
            return format!("signal {signal}");
        }
    }
    status.code().map_or_else(|| "an unknown status".to_owned(), |code| format!("code {code}"))
}

/// The `PATH` of a login shell, which a program started from a desktop does not have. `None` when the shell
/// does not tell within 2 s.
#[cfg(unix)]
pub(crate) fn session_path() -> Option<OsString> {
    use std::{
        os::unix::{ffi::OsStringExt, process::CommandExt},
        process::Stdio,
    };

    let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| "/bin/sh".into());
    let mut command = std::process::Command::new(shell);
    // A group of its own: an interactive shell would otherwise take the terminal that we may run in.
    command.args(["-l", "-c", "echo; echo EVI_PATH_BEGIN; env; echo EVI_PATH_END"]).process_group(0);
    command.env("EVI_READS_PATH", "1").stdin(Stdio::null()).stderr(Stdio::null());
    let output = bounded_output(command)?;
    let text = output.split(|b| *b == b'\n').skip_while(|l| *l != b"EVI_PATH_BEGIN");
    let mut lines = text.take_while(|l| *l != b"EVI_PATH_END");
    lines.find_map(|line| line.strip_prefix(b"PATH=")).map(|path| OsString::from_vec(path.to_vec()))
}

/// The `PATH` of machine and user as the registry has it: a program started before an installation, or by a
/// service, runs with an older or shorter one.
#[cfg(windows)]
pub(crate) fn session_path() -> Option<OsString> {
    use std::os::windows::process::CommandExt;
    const CREATE_NO_WINDOW: u32 = 0x0800_0000;
    let keys = [r"HKLM\SYSTEM\CurrentControlSet\Control\Session Manager\Environment", r"HKCU\Environment"];
    let mut whole = String::new();
    for key in keys {
        let mut command = std::process::Command::new("reg");
        command.args(["query", key, "/v", "Path"]).creation_flags(CREATE_NO_WINDOW);
        let Some(output) = bounded_output(command) else { continue };
        let output = String::from_utf8_lossy(&output).into_owned();
        let value =
            output.lines().find_map(|line| line.split_once("REG_").and_then(|(_, v)| v.split_once("SZ")));
        if let Some((_, path)) = value {
            whole.push_str(&expand_percent(path.trim()));
            whole.push(';');
        }
    }
    (!whole.is_empty()).then(|| whole.into())
}

#[cfg(windows)]
fn expand_percent(path: &str) -> String {
    let mut out = String::new();
    let mut parts = path.split('%');
    out.push_str(parts.next().unwrap_or_default());
    while let Some(name) = parts.next() {
        match std::env::var(name) {
            Ok(value) => out.push_str(&value),
            Err(_) => out.push_str(&format!("%{name}%")),
        }
        out.push_str(parts.next().unwrap_or_default());
    }
    out
}

#[cfg(not(any(unix, windows)))]
pub(crate) fn session_path() -> Option<OsString> {
    None
}

/// What a program prints, if it ends in time; a program that does not is killed.
fn bounded_output(mut command: std::process::Command) -> Option<Vec<u8>> {
    use std::{io::Read, process::Stdio, sync::mpsc, thread};
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let mut stdout = child.stdout.take()?;
    let (send, receive) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut output = Vec::new();
        // More than a megabyte is no environment.
        let _ = Read::by_ref(&mut stdout).take(1 << 20).read_to_end(&mut output);
        let _ = send.send(output);
    });
    let output = receive.recv_timeout(SESSION_PATH_LIMIT).ok();
    let _ = child.kill();
    let _ = child.wait();
    output
}
