//! Failed starts leave nothing behind. In a process of its own, because it counts the open files of the process.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, dead_code)]

#[path = "behaviour/support.rs"]
mod support;

use std::time::Duration;

use evi_upstreams::Settings;
use support::{LONG, house_with, server, until};

#[tokio::test]
async fn i16_failed_starts_leave_no_process_and_no_open_file() {
    let limit = Duration::from_millis(300);
    let house = house_with(Settings { start_limit: limit, max_starts: 8, ..Settings::default() });
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let children = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let of_each = threads.map(|t| std::fs::read_to_string(t.path().join("children")).unwrap_or_default());
        of_each.map(|list| list.split_whitespace().count()).sum::<usize>()
    };
    let round = async || {
        let spec = |n: usize| match n % 3 {
            0 => server(&format!("s{n}"), &["hang"]),
            1 => server(&format!("s{n}"), &["exit"]),
            _ => support::command(&format!("s{n}"), "evi-no-such-tool", vec![]),
        };
        house.upstreams.apply((0..9).map(spec).collect());
        house.upstreams.settled(LONG).await;
        house.upstreams.apply(vec![]);
        until("the processes are gone", || children() == 0).await;
    };
    round().await;
    let before = files();
    for _ in 0..3 {
        round().await;
    }
    until("the files are closed again", || files() <= before).await;
}
