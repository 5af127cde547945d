//! Neither failed starts nor a thousand good ones leave anything behind. In a process of its own, because it counts
//! the open files, threads and children of the process; its tests wait for each other.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, dead_code)]

#[path = "behaviour/support.rs"]
mod support;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use evi_domain::UpstreamState;
use evi_upstreams::Settings;
use support::{LONG, command, fixture, house_with, server, until};

static ALONE: Mutex<()> = Mutex::new(());

/// Names of the threads, but of the one that the other test waits in.
fn threads() -> Vec<String> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = threads.map(|t| std::fs::read_to_string(t.path().join("comm")).unwrap_or_default());
    names.filter(|name| !name.starts_with("i16_")).collect()
}

/// Names of the open files.
fn files() -> Vec<String> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    files.map(|file| std::fs::read_link(file.path()).unwrap_or_default().display().to_string()).collect()
}

/// Children, also those that ended and were not waited for.
fn children() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of_each = threads.map(|t| std::fs::read_to_string(t.path().join("children")).unwrap_or_default());
    of_each.map(|list| list.split_whitespace().count()).sum()
}

/// Runs alone, with threads for blocking work that go soon after it.
fn alone(test: impl Future<Output = ()>) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().thread_keep_alive(Duration::from_millis(50)).build().unwrap().block_on(test);
}

#[test]
fn i16_failed_starts_leave_no_process_and_no_open_file() {
    alone(async {
        let limit = Duration::from_millis(300);
        let house = house_with(Settings { start_limit: limit, max_starts: 8, ..Settings::default() });
        let round = async || {
            let spec = |n: usize| match n % 3 {
                0 => server(&format!("s{n}"), &["hang"]),
                1 => server(&format!("s{n}"), &["exit"]),
                _ => command(&format!("s{n}"), "evi-no-such-tool", vec![]),
            };
            house.upstreams.apply((0..9).map(spec).collect());
            house.upstreams.settled(LONG).await;
            house.upstreams.apply(vec![]);
            until("the processes are gone", || children() == 0).await;
        };
        round().await;
        let before = files().len();
        for _ in 0..3 {
            round().await;
        }
        until("the files are closed again", || files().len() <= before).await;
    });
}

#[test]
fn a_thousand_restarts_leave_as_many_open_files_threads_and_processes_as_there_were() {
    const SERVERS: usize = 10;
    alone(async {
        let folder = tempfile::tempdir().unwrap();
        // Those of the test, and the one that writes logs.
        let most = threads().len() + 1;
        let house = house_with(Settings {
            log_dir: Some(folder.path().join("logs")),
            leftovers: Some(folder.path().join("run/children.json")),
            ..Settings::default()
        });
        let specs = || -> Vec<_> {
            (0..SERVERS)
                .map(|n| command(&format!("s{n}"), "sh", vec![fixture("adversary/quick.sh")]))
                .collect()
        };
        let restart_all = async |round: usize| {
            if round % 4 == 3 {
                // Switched off and on again.
                house.upstreams.apply(vec![]);
                house.upstreams.apply(specs());
            } else {
                specs().iter().for_each(|spec| house.upstreams.restart(&spec.name));
            }
            house.upstreams.settled(LONG).await;
            for status in house.upstreams.statuses() {
                assert_eq!((status.state, status.tools), (UpstreamState::Ready, 1), "round {round}");
            }
        };
        house.upstreams.apply(specs());
        house.upstreams.settled(LONG).await;
        for round in 0..4 {
            restart_all(round).await;
        }
        until("the old ones are gone", || children() == SERVERS).await;
        let open = files().len();
        let pids: Vec<_> = house.upstreams.statuses().iter().map(|s| s.pid).collect();
        for round in 0..1000 / SERVERS {
            restart_all(round).await;
        }
        assert!(house.upstreams.statuses().iter().zip(&pids).all(|(now, old)| now.pid != *old));
        until("only the running ones are there", || children() == SERVERS).await;
        let end = Instant::now() + LONG;
        while files().len() > open || threads().len() > most {
            let (files, threads) = (files(), threads());
            assert!(Instant::now() < end, "more than {open} of {files:?} or more than {most} of {threads:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        house.upstreams.shutdown().await;
        assert_eq!(children(), 0);
    });
}
