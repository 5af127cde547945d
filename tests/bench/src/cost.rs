//! What one call costs in the client side of eVi, beside a raw round trip to the same server: time, processor time and,
//! where something counts them, instructions.

use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use evi_domain::{
    CallContext, CatalogCache, Offer, Secret, SecretError, SecretId, SecretStore, TransportSpec,
    UpstreamName, UpstreamSpec,
};
use evi_upstreams::{Settings, Upstreams};
use serde_json::{json, value::RawValue};

use crate::{client::Lines, machine, peer};

const CALLS: usize = 3000;
/// Calls of the two runs whose difference is counted: counting makes them many times slower.
const FEW: usize = 100;
const MANY: usize = 600;

/// Makes that many calls, raw or through eVi, and prints the median in nanoseconds and the processor time of this
/// process in nanoseconds a call.
pub fn run(kind: &str, calls: usize) -> Result<()> {
    let (times, cpu) = match kind {
        "raw" => raw(calls)?,
        "evi" => tokio::runtime::Runtime::new()?.block_on(through_evi(calls))?,
        other => bail!("unknown kind {other}"),
    };
    let mut times = times;
    times.sort_unstable();
    println!("{} {}", times[times.len() / 2].as_nanos(), (cpu * 1e9 / to_f64(calls)).round());
    Ok(())
}

fn raw(calls: usize) -> Result<(Vec<Duration>, f64)> {
    let mut client = Lines::start(peer::command()?)?;
    client.initialize()?;
    client.request("tools/list", &json!({}))?;
    let params = json!({"name": "echo", "arguments": {"message": "a message"}});
    let before = machine::cpu_seconds();
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let began = Instant::now();
        client.request("tools/call", &params)?;
        times.push(began.elapsed());
    }
    let cpu = machine::cpu_seconds() - before;
    client.end();
    Ok((times, cpu))
}

async fn through_evi(calls: usize) -> Result<(Vec<Duration>, f64)> {
    let upstreams = Upstreams::new(Settings::default(), Arc::new(Nothing), Arc::new(Nothing));
    let words = peer::words(0.0, None)?;
    let name = UpstreamName::from("peer");
    let (command, args) = (words[0].clone(), words[1..].to_vec());
    let transport = TransportSpec::Stdio { command, args, env: BTreeMap::new(), cwd: None };
    upstreams.apply(vec![UpstreamSpec::new(name.clone(), transport)]);
    upstreams.settled(Duration::from_secs(60)).await;
    let arguments = RawValue::from_string(r#"{"message":"a message"}"#.to_owned())?;
    let context = CallContext::default();
    let before = machine::cpu_seconds();
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let began = Instant::now();
        upstreams.call(&name, "echo", &arguments, &context).await?;
        times.push(began.elapsed());
    }
    let cpu = machine::cpu_seconds() - before;
    upstreams.shutdown().await;
    Ok((times, cpu))
}

/// Measures and prints.
pub fn print() -> Result<()> {
    let (raw, evi) = (measured("raw")?, measured("evi")?);
    println!("one call in the client ({CALLS} calls of the quickest server there can be, one after another)");
    let row = |what: &str, raw: f64, evi: f64, unit: &str| {
        println!("  {what:<28} raw {raw:>10.1} {unit}  eVi {evi:>10.1} {unit}  ratio {:.2}", evi / raw);
    };
    row("round trip, median", raw.0 / 1e3, evi.0 / 1e3, "µs");
    row("processor time of the client", raw.1 / 1e3, evi.1 / 1e3, "µs");
    match (instructions("raw"), instructions("evi")) {
        (Some((raw, by)), Some((evi, _))) => {
            row(&format!("instructions ({by})"), raw / 1e3, evi / 1e3, "k ");
        }
        _ => println!("  instructions: not counted (neither perf's counters nor valgrind work here)"),
    }
    println!();
    Ok(())
}

/// In a process of its own: median and processor time, nanoseconds.
fn measured(kind: &str) -> Result<(f64, f64)> {
    let output = calls_of(&[], kind, CALLS)?;
    let mut numbers = output.0.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(median)), Some(Ok(cpu))) => Ok((median, cpu)),
        _ => bail!("the run of {kind} printed {}", output.0),
    }
}

/// Output and error output of a run under `counter`.
fn calls_of(counter: &[&str], kind: &str, calls: usize) -> Result<(String, String)> {
    let me = std::env::current_exe()?.display().to_string();
    let calls = calls.to_string();
    let words: Vec<&str> = counter.iter().copied().chain([&*me, "calls", kind, &calls]).collect();
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        bail!("{} ended with {}", words.join(" "), output.status);
    }
    Ok((text(&output.stdout), text(&output.stderr)))
}

/// Instructions of one call in the client's own process, and who counted them.
fn instructions(kind: &str) -> Option<(f64, &'static str)> {
    let per_call =
        |count: &dyn Fn(usize) -> Option<f64>| Some((count(MANY)? - count(FEW)?) / to_f64(MANY - FEW));
    if let Some(count) = per_call(&|calls| by_perf(kind, calls)) {
        return Some((count, "perf"));
    }
    Some((per_call(&|calls| by_valgrind(kind, calls))?, "valgrind"))
}

fn by_perf(kind: &str, calls: usize) -> Option<f64> {
    // Not those of its children: the server is one.
    let perf = ["perf", "stat", "--no-inherit", "-x", ",", "-e", "instructions:u", "--"];
    let (_, said) = calls_of(&perf, kind, calls).ok()?;
    said.lines().find(|line| line.contains("instructions"))?.split(',').next()?.parse().ok()
}

fn by_valgrind(kind: &str, calls: usize) -> Option<f64> {
    let valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"];
    let (_, said) = calls_of(&valgrind, kind, calls).ok()?;
    let line = said.lines().find(|line| line.contains("I refs") || line.contains("I   refs"))?;
    line.rsplit(':').next()?.trim().replace(',', "").parse().ok()
}

/// Counts here are small enough to be exact.
#[allow(clippy::cast_precision_loss)]
fn to_f64(count: usize) -> f64 {
    count as f64
}

/// A home without secrets and without memory.
struct Nothing;

impl SecretStore for Nothing {
    fn get(&self, _: &SecretId) -> Result<Option<Secret>, SecretError> {
        Ok(None)
    }
    fn set(&self, _: &SecretId, _: &Secret) -> Result<(), SecretError> {
        Err(SecretError::NoKeychain)
    }
    fn delete(&self, _: &SecretId) -> Result<(), SecretError> {
        Ok(())
    }
    fn ids(&self) -> Vec<SecretId> {
        Vec::new()
    }
    fn probe(&self) -> Result<(), SecretError> {
        Ok(())
    }
}

impl CatalogCache for Nothing {
    fn get(&self, _: &UpstreamName) -> Option<Offer> {
        None
    }
    fn put(&self, _: &UpstreamName, _: &Offer) {}
    fn remove(&self, _: &UpstreamName) {}
    fn noted(&self, _: &UpstreamName) -> Option<String> {
        None
    }
    fn note(&self, _: &UpstreamName, _: &str) {}
}
