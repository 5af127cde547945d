//! Many servers at once: how long until all are there, beside starting them directly, and what each of them costs eVi.

use std::{
    fs,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use serde_json::json;

use crate::{Programs, client::Lines, evi, machine, ms, peer};

const COUNTS: [usize; 4] = [1, 10, 50, 100];
/// As many start at once in eVi.
const AT_ONCE: usize = 4;
/// All of them, however slow the machine is.
const LIMIT: Duration = Duration::from_secs(600);

/// Measures and prints.
pub fn print(programs: &Programs) -> Result<()> {
    println!("servers until each has listed its tools ({AT_ONCE} start at once)");
    let mut memory = Vec::new();
    for count in COUNTS {
        let direct = directly(count)?;
        let home = home_with(count, 0.0, None)?;
        let (ours, resident) = until_ready(programs, home.path(), count)?;
        memory.push((count, resident));
        println!(
            "  {count:>3}  directly {:>8.1} ms  eVi, with its own start {:>8.1} ms  ratio {:.2}",
            ms(direct),
            ms(ours),
            ours.as_secs_f64() / direct.as_secs_f64()
        );
    }
    if let (Some((few, least)), Some((many, most))) = (memory.first(), memory.last()) {
        let more = f64::from(u32::try_from(many - few)?);
        println!(
            "  evi mcp serve resident: {least:.1} MB with {few}, {most:.1} MB with {many}: {:.0} KB for each idle server",
            (most - least) * 1024.0 / more
        );
    }
    slow(programs)
}

/// A hundred that need a second of processor time each: longer together than one alone may take.
fn slow(programs: &Programs) -> Result<()> {
    const COUNT: usize = 100;
    let notes = tempfile::NamedTempFile::new()?;
    let home = home_with(COUNT, 1.0, Some(notes.path()))?;
    let (took, _) = until_ready(programs, home.path(), COUNT)?;
    let starts = fs::read_to_string(notes.path())?.lines().count();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let least = f64::from(u32::try_from(COUNT)?) / f64::from(u32::try_from(cores)?);
    println!(
        "  {COUNT} that need 1 s of processor time each: all ready after {:.1} s without a hand, ratio {:.2} to {least:.1} s \
         of work on {cores} cores; {starts} starts\n",
        took.as_secs_f64(),
        took.as_secs_f64() / least
    );
    Ok(())
}

fn home_with(count: usize, cpu_seconds: f64, notes: Option<&Path>) -> Result<tempfile::TempDir> {
    let home = tempfile::tempdir()?;
    let words = peer::words(cpu_seconds, notes)?;
    let names: Vec<String> = (0..count).map(|n| format!("s{n}")).collect();
    let entry = |name| json!({"name": name, "command": words[0], "args": words[1..], "enabled": true});
    let entries: Vec<_> = names.iter().map(entry).collect();
    fs::write(home.path().join("mcp.json"), json!(entries).to_string())?;
    let config = format!(
        "[tools]\nmcp = true\n\n[serve.profiles.default]\ncategories = []\nservers = {}\n",
        json!(names)
    );
    fs::write(home.path().join("config.toml"), config)?;
    Ok(home)
}

/// From the start of eVi until every tool is listed; then its resident memory in MB.
fn until_ready(programs: &Programs, home: &Path, count: usize) -> Result<(Duration, f64)> {
    let began = Instant::now();
    let mut client = Lines::start(evi(programs, home, &[]))?;
    client.initialize()?;
    loop {
        let list = client.request("tools/list", &json!({}))?;
        let there = list["tools"].as_array().map_or(0, Vec::len);
        if there >= count {
            break;
        }
        if began.elapsed() > LIMIT {
            bail!("only {there} of {count} servers were ready after {} s", LIMIT.as_secs());
        }
        thread::sleep(Duration::from_millis(10));
    }
    let took = began.elapsed();
    let resident = machine::resident(client.pid());
    client.end();
    Ok((took, resident))
}

/// The same servers, started by threads that do nothing else.
fn directly(count: usize) -> Result<Duration> {
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let one = || -> Result<Lines> {
        let mut client = Lines::start(peer::command()?)?;
        client.initialize()?;
        client.request("tools/list", &json!({}))?;
        Ok(client)
    };
    let began = Instant::now();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    let client = one();
                    if let Ok(mut all) = all.lock() {
                        all.push(client);
                    }
                }
            });
        }
    });
    let took = began.elapsed();
    for client in all.into_inner().unwrap_or_default() {
        client?.end();
    }
    Ok(took)
}
