//! Processes of this machine, by an argument that only one test uses. It ends only those that it is given by id.

use std::process::Command;

/// The processes that have `word` as one of their arguments and `part` in another.
pub fn running_with(word: &str, part: &str) -> Vec<u32> {
    all()
        .into_iter()
        .filter(|(_, arguments)| {
            arguments.iter().any(|a| a == word) && arguments.iter().any(|a| a.contains(part))
        })
        .map(|(pid, _)| pid)
        .collect()
}

/// Whether a process is there and does more than wait to be noticed to have ended.
pub fn is_running(pid: u32) -> bool {
    let runs = |arguments: &[String]| arguments.iter().any(|a| !a.is_empty());
    all().iter().any(|(other, arguments)| *other == pid && runs(arguments))
}

#[cfg(target_os = "linux")]
fn all() -> Vec<(u32, Vec<String>)> {
    let folders = std::fs::read_dir("/proc").unwrap();
    folders
        .filter_map(|folder| {
            let folder = folder.ok()?;
            let pid = folder.file_name().to_str()?.parse().ok()?;
            // One that has ended and was not waited for has no arguments any more.
            let line = std::fs::read(folder.path().join("cmdline")).ok()?;
            let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
            Some((pid, line.split(|b| *b == 0).map(text).collect()))
        })
        .collect()
}

#[cfg(all(unix, not(target_os = "linux")))]
fn all() -> Vec<(u32, Vec<String>)> {
    let output = Command::new("ps").args(["-axww", "-o", "pid=,command="]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().map(str::to_owned);
            Some((words.next()?.parse().ok()?, words.collect()))
        })
        .collect()
}

#[cfg(windows)]
fn all() -> Vec<(u32, Vec<String>)> {
    let script = "Get-CimInstance Win32_Process | ForEach-Object { \"$($_.ProcessId) $($_.CommandLine)\" }";
    let output = Command::new("powershell").args(["-NoProfile", "-Command", script]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().map(|word| word.trim_matches('"').to_owned());
            Some((words.next()?.parse().ok()?, words.collect()))
        })
        .collect()
}

/// The process that started another, if both are there.
#[cfg(unix)]
pub fn parent(pid: u32) -> Option<u32> {
    let output = Command::new("ps").args(["-o", "ppid=", "-p", &pid.to_string()]).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

/// Asks a process to end.
pub fn terminate(pid: u32) {
    signal(pid, "-TERM");
}

/// Interrupts a process, as Ctrl-C does.
pub fn interrupt(pid: u32) {
    signal(pid, "-INT");
}

/// Ends a process without a word.
pub fn kill(pid: u32) {
    signal(pid, "-KILL");
}

fn signal(pid: u32, name: &str) {
    let pid = pid.to_string();
    let mut command = if cfg!(windows) { Command::new("taskkill") } else { Command::new("kill") };
    if cfg!(windows) {
        command.args(["/F", "/PID", &pid])
    } else {
        command.args([name, &pid])
    };
    assert!(command.status().unwrap().success(), "could not end process {pid}");
}
