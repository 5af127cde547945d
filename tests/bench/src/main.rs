//! Measures the built `evi` from outside and prints ratios with the machine beside them; it tests nothing.
//!
//! `evi mcp serve` is put between a client and the reference server `server-everything`; the same call is made to
//! that server directly; many servers and one call's cost are measured with a server of its own. `EVI_BIN`, `EVI_PEER_SERVERS` and, for the window's memory, `EVI_DESKTOP` name what is run.

mod client;
mod cost;
mod machine;
mod peer;
mod servers;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use client::{Http, Lines};
use serde_json::json;

const CALLS: usize = 2000;
const STARTS: usize = 10;

struct Programs {
    evi: PathBuf,
    server: PathBuf,
    desktop: Option<PathBuf>,
}

fn main() -> Result<()> {
    // It is its own server, and its own client for a count of instructions.
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => measure(),
        ["serve", seconds] => peer::serve(seconds.parse()?, None),
        ["serve", seconds, notes] => peer::serve(seconds.parse()?, Some(Path::new(notes))),
        ["calls", kind, calls] => cost::run(kind, calls.parse()?),
        other => anyhow::bail!("unknown arguments: {other:?}"),
    }
}

fn measure() -> Result<()> {
    let named = |name: &str| env::var_os(name).map(PathBuf::from);
    let programs = Programs {
        evi: named("EVI_BIN").context("EVI_BIN is not set; run cargo xtask bench")?,
        server: named("EVI_PEER_SERVERS")
            .context("EVI_PEER_SERVERS is not set; run cargo xtask bench")?
            .join("@modelcontextprotocol/server-everything/dist/index.js"),
        desktop: named("EVI_DESKTOP"),
    };
    println!("machine: {}", machine::describe());
    println!("calls: {CALLS} of server-everything's echo, one after another; starts: {STARTS}, median\n");
    let home = tempfile::tempdir()?;
    configure(home.path(), &programs.server)?;

    starts(&programs, home.path())?;
    let direct = direct_calls(&programs.server)?;
    through_stdio(&programs, home.path(), &direct)?;
    through_http(&programs, home.path(), &direct)?;
    cost::print()?;
    servers::print(&programs)?;
    idle_window(&programs)?;
    Ok(())
}

/// A home with the one server, shared with clients.
fn configure(home: &Path, server: &Path) -> Result<()> {
    let entry =
        json!([{"name": "everything", "command": "node", "args": [server, "stdio"], "enabled": true}]);
    fs::write(home.join("mcp.json"), entry.to_string())?;
    fs::write(
        home.join("config.toml"),
        "[tools]\nmcp = true\n\n[serve.profiles.default]\ncategories = [\"memory\"]\nservers = [\"everything\"]\n",
    )?;
    Ok(())
}

fn evi(programs: &Programs, home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(&programs.evi);
    command.args(["mcp", "serve"]).args(args).env("EVI_HOME", home).stderr(Stdio::null());
    command
}

fn starts(programs: &Programs, home: &Path) -> Result<()> {
    let empty = tempfile::tempdir()?;
    let ours = median_start(|| evi(programs, empty.path(), &[]))?;
    let with_server = median_start(|| evi(programs, home, &[]))?;
    let alone = median_start(|| {
        let mut command = Command::new("node");
        command.arg(&programs.server).arg("stdio").stderr(Stdio::null());
        command
    })?;
    println!("start to the first tools/list answer");
    println!("  evi mcp serve, own tools      {:>9.1} ms", ms(ours));
    println!(
        "  evi mcp serve, one server     {:>9.1} ms  (its tools follow with list_changed)",
        ms(with_server)
    );
    println!("  server-everything, directly   {:>9.1} ms", ms(alone));
    println!("  ratio own tools / directly    {:>9.2}\n", ours.as_secs_f64() / alone.as_secs_f64());
    Ok(())
}

fn median_start(command: impl Fn() -> Command) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        let mut client = Lines::start(command())?;
        client.initialize()?;
        client.request("tools/list", &json!({}))?;
        times.push(began.elapsed());
        client.end();
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Sorted times of [`CALLS`] calls.
struct Times(Vec<Duration>);

impl Times {
    fn of(mut call: impl FnMut(usize) -> Result<()>) -> Result<Self> {
        for n in 0..100 {
            call(n)?;
        }
        let mut times = Vec::with_capacity(CALLS);
        for n in 0..CALLS {
            let began = Instant::now();
            call(n)?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        Ok(Self(times))
    }
    fn at(&self, share: f64) -> Duration {
        // A share of the length; both are small enough for f64 to be exact.
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let index = (self.0.len() as f64 * share) as usize;
        self.0[index.min(self.0.len() - 1)]
    }
    fn print(&self, what: &str, direct: Option<&Self>) {
        let (p50, p99) = (self.at(0.5), self.at(0.99));
        let ratio = direct.map_or(String::new(), |d| {
            format!(
                "  ratio {:.2} / {:.2}",
                p50.as_secs_f64() / d.at(0.5).as_secs_f64(),
                p99.as_secs_f64() / d.at(0.99).as_secs_f64()
            )
        });
        println!("  {what:<28} median {:>8.1} µs  p99 {:>8.1} µs{ratio}", us(p50), us(p99));
    }
}

fn echo(name: &str, n: usize) -> serde_json::Value {
    json!({"name": name, "arguments": {"message": format!("message {n}")}})
}

fn direct_calls(server: &Path) -> Result<Times> {
    let mut command = Command::new("node");
    command.arg(server).arg("stdio").stderr(Stdio::null());
    let mut client = Lines::start(command)?;
    client.initialize()?;
    let times = Times::of(|n| client.request("tools/call", &echo("echo", n)).map(drop))?;
    client.end();
    println!("tools/call");
    times.print("directly, stdio", None);
    Ok(times)
}

fn through_stdio(programs: &Programs, home: &Path, direct: &Times) -> Result<()> {
    let mut client = Lines::start(evi(programs, home, &[]))?;
    client.initialize()?;
    client.wait_for_tool("everything.echo")?;
    let idle = machine::resident(client.pid());
    let times = Times::of(|n| client.request("tools/call", &echo("everything.echo", n)).map(drop))?;
    times.print("through evi, stdio", Some(direct));
    let busy = machine::resident(client.pid());
    client.end();
    println!(
        "  evi mcp serve resident: {idle:.1} MB idle, {busy:.1} MB after the calls (servers not counted)"
    );
    Ok(())
}

fn through_http(programs: &Programs, home: &Path, direct: &Times) -> Result<()> {
    let port = machine::free_port()?;
    let mut child = evi(programs, home, &["--http", "--port", &port.to_string()])
        .env("EVI_MCP_TOKEN", "bench")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let measured = (|| {
        let mut client = Http::connect(port, "bench", Duration::from_secs(20))?;
        client.initialize()?;
        client.wait_for_tool("everything.echo")?;
        Times::of(|n| client.request("tools/call", &echo("everything.echo", n)).map(drop))
    })();
    machine::terminate(&mut child);
    measured?.print("through evi, HTTP", Some(direct));
    println!();
    Ok(())
}

/// Needs a display: run it inside `tests/support/session/session.sh`.
fn idle_window(programs: &Programs) -> Result<()> {
    let (Some(desktop), Some(_)) = (&programs.desktop, env::var_os("DISPLAY")) else {
        println!("idle window: not measured (no display, or EVI_DESKTOP is not set)");
        return Ok(());
    };
    let home = tempfile::tempdir()?;
    let mut child = Command::new(desktop)
        .env("EVI_HOME", home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let pid = child.id();
    let settled = machine::settled_tree(pid, Duration::from_secs(30));
    let (own, tree) = (machine::resident(pid), settled);
    machine::terminate(&mut child);
    println!(
        "idle window: {own:.1} MB resident in evi-desktop itself, {tree:.1} MB proportional with the system's webview processes"
    );
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
