//! The machine and its processes, as far as a benchmark needs them (Linux's `/proc`).

use std::{
    fs,
    net::TcpListener,
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

/// Cores, processor, memory, system.
pub fn describe() -> String {
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split_whitespace().take(3).collect();
    format!(
        "{} {}, {cores} cores of {cpu}, {memory}, load {}",
        std::env::consts::OS,
        std::env::consts::ARCH,
        load.join(" ")
    )
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Processor time of this process so far, in seconds: that of all its threads, to the nanosecond.
pub fn cpu_seconds() -> f64 {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds = |text: String| text.split_whitespace().next()?.parse::<f64>().ok();
    let each = threads.filter_map(|t| nanoseconds(fs::read_to_string(t.path().join("schedstat")).ok()?));
    each.sum::<f64>() / 1e9
}

/// Resident memory of one process, in MB.
pub fn resident(pid: u32) -> f64 {
    kilobytes(&format!("/proc/{pid}/status"), "VmRSS") / 1024.0
}

fn kilobytes(file: &str, name: &str) -> f64 {
    field(file, name).and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

/// Proportional memory of a process and all below it, in MB, once it no longer grows.
pub fn settled_tree(pid: u32, within: Duration) -> f64 {
    let began = Instant::now();
    let mut last = 0.0;
    loop {
        thread::sleep(Duration::from_secs(2));
        let now: f64 =
            tree(pid).iter().map(|p| kilobytes(&format!("/proc/{p}/smaps_rollup"), "Pss:") / 1024.0).sum();
        if (now - last).abs() < 1.0 && now > 0.0 || began.elapsed() > within {
            return now;
        }
        last = now;
    }
}

fn tree(root: u32) -> Vec<u32> {
    let mut all = vec![root];
    let mut next = 0;
    while next < all.len() {
        let pid = all[next];
        next += 1;
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let of_threads = threads.filter_map(|t| fs::read_to_string(t.path().join("children")).ok());
        for list in std::iter::once(children).chain(of_threads) {
            for child in list.split_whitespace().filter_map(|c| c.parse().ok()) {
                if !all.contains(&child) {
                    all.push(child);
                }
            }
        }
    }
    all
}

/// A port that nobody has now.
pub fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Asks a process to end, and makes it end after 15 s.
pub fn terminate(child: &mut Child) {
    let _ = Command::new("kill").arg(child.id().to_string()).status();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(15) {
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
}
