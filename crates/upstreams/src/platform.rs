//! What differs between systems when a process tree is started, asked to end, described and recognised; nothing else.

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
        if let Some(path) = registry_path(&String::from_utf8_lossy(&output), &|name| std::env::var(name).ok())
        {
            whole.push_str(&path);
            whole.push(';');
        }
    }
    (!whole.is_empty()).then(|| whole.into())
}

/// The path in what `reg query` prints, with what it refers to.
#[cfg(any(windows, test))]
fn registry_path(printed: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let kinds = ["REG_EXPAND_SZ", "REG_SZ"];
    let value =
        printed.lines().find_map(|line| kinds.iter().find_map(|kind| line.split_once(kind)))?.1.trim();
    Some(expand_percent(value, variable)).filter(|path| !path.is_empty())
}

#[cfg(any(windows, test))]
fn expand_percent(path: &str, variable: &dyn Fn(&str) -> Option<String>) -> String {
    let (mut out, mut rest) = (String::new(), path);
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        match after.split_once('%').and_then(|(name, after)| Some((variable(name)?, after))) {
            Some((value, after)) => {
                out.push_str(&value);
                rest = after;
            }
            // It refers to nothing: it may be part of a folder's name.
            None => {
                out.push('%');
                rest = after;
            }
        }
    }
    out + rest
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

/// What the system tells of a process.
pub(crate) struct Look {
    /// When it started, as the system counts it.
    pub(crate) started: u64,
    /// Its process group.
    pub(crate) group: u32,
    /// Its arguments, the program first.
    pub(crate) argv: Vec<Vec<u8>>,
}

/// Looks at a process that runs; `None` when it ended, or where the system does not tell.
#[cfg(target_os = "linux")]
pub(crate) fn look_at(pid: u32) -> Option<Look> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    let argv = line.split(|b| *b == 0).map(<[u8]>::to_vec).collect();
    Some(Look { started: fields.get(19)?.parse().ok()?, group: fields.get(2)?.parse().ok()?, argv })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn look_at(_pid: u32) -> Option<Look> {
    None
}

/// What tells this run of the system from every other.
#[cfg(target_os = "linux")]
pub(crate) fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|id| !id.is_empty())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn boot_id() -> Option<String> {
    None
}

/// Asks a process group to end, or ends it.
#[cfg(target_os = "linux")]
pub(crate) fn end_group(group: u32, kill: bool) -> io::Result<()> {
    use nix::{
        sys::signal::{Signal, killpg},
        unistd::Pid,
    };
    // Everything, and our own group, have the numbers that no child can have.
    let group = i32::try_from(group).ok().filter(|group| *group > 1).ok_or(io::ErrorKind::InvalidInput)?;
    killpg(Pid::from_raw(group), if kill { Signal::SIGKILL } else { Signal::SIGTERM })
        .map_err(io::Error::from)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn end_group(_group: u32, _kill: bool) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i03_the_path_of_machine_and_user_is_read_from_what_the_registry_tells() {
        let printed = "\r\nHKEY_CURRENT_USER\\Environment\r\n    Path    REG_EXPAND_SZ    \
                       %USERPROFILE%\\.local\\bin;C:\\Program Files\\nodejs\\;C:\\100% wool;%NONE%\\x\r\n\r\n";
        let variable = |name: &str| (name == "USERPROFILE").then(|| r"C:\Users\A Person".to_owned());
        assert_eq!(
            registry_path(printed, &variable).unwrap(),
            r"C:\Users\A Person\.local\bin;C:\Program Files\nodejs\;C:\100% wool;%NONE%\x"
        );
        assert_eq!(registry_path("    Path    REG_SZ    C:\\bin\r\n", &variable).unwrap(), r"C:\bin");
        assert_eq!(registry_path("ERROR: The system was unable to find the key.\r\n", &variable), None);
    }
}
