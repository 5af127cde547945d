//! Starting, stopping and starting again, and what is left behind: nothing.

use std::time::{Duration, Instant};

use evi_domain::{CallContext, CallError, UpstreamState};
use evi_upstreams::Settings;

use crate::support::{LONG, alive, command, fixture, house, house_with, raw, server, until};

#[tokio::test]
async fn i15_a_server_that_ignores_every_request_to_end_is_killed_with_its_children() {
    let house = house();
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("pids");
    house.ready(server("a", &["stubborn", notes.to_str().unwrap()])).await;
    let pids: Vec<u32> =
        std::fs::read_to_string(&notes).unwrap().split_whitespace().map(|p| p.parse().unwrap()).collect();
    assert!(pids.len() == 2 && pids.iter().all(|p| alive(*p)));
    let begun = Instant::now();
    house.upstreams.shutdown().await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    until("both are gone", || !pids.iter().any(|p| alive(*p))).await;
    assert!(house.upstreams.catalog().upstreams.is_empty());
}

#[tokio::test]
async fn a_start_that_hangs_can_be_stopped_and_leaves_nothing() {
    let house = house();
    house.upstreams.apply(vec![server("a", &["hang"])]);
    let pid = house.wait("a", |s| s.pid.is_some()).await.pid.unwrap();
    assert!(alive(pid));
    house.upstreams.apply(vec![]);
    assert!(house.upstreams.statuses().is_empty());
    until("it is gone", || !alive(pid)).await;
}

#[tokio::test]
async fn with_the_last_handle_every_process_ends() {
    let house = house();
    let pid = house.ready(server("a", &["plain"])).await.pid.unwrap();
    drop(house);
    until("it is gone", || !alive(pid)).await;
}

#[tokio::test]
async fn only_what_changed_is_restarted() {
    let house = house();
    let specs = |b: &str| vec![server("a", &["plain"]), server("b", &["plain", b])];
    house.upstreams.apply(specs("1"));
    house.upstreams.settled(LONG).await;
    let pids = || house.upstreams.statuses().iter().map(|s| s.pid).collect::<Vec<_>>();
    let before = pids();
    house.upstreams.apply(specs("2"));
    house.upstreams.settled(LONG).await;
    let after = pids();
    assert_eq!(before[0], after[0]);
    assert_ne!(before[1], after[1]);
    house.upstreams.restart(&"a".into());
    house.upstreams.settled(LONG).await;
    assert_ne!(pids()[0], after[0]);
    assert!(!alive(before[1].unwrap()) && !alive(before[0].unwrap()));
}

#[tokio::test]
async fn a_name_that_comes_back_waits_for_its_old_process() {
    let house = house();
    let first = house.ready(server("a", &["plain"])).await.pid.unwrap();
    house.upstreams.apply(vec![]);
    let second = house.ready(server("a", &["plain"])).await.pid.unwrap();
    assert!(first != second && !alive(first));
}

#[tokio::test]
async fn a_running_call_may_finish_when_its_server_is_stopped() {
    let house = house();
    house.ready(server("a", &["plain"])).await;
    let upstreams = house.upstreams.clone();
    let (send, mut progress) = tokio::sync::mpsc::channel(100);
    let context = CallContext { progress: Some(send), ..CallContext::default() };
    let running = tokio::spawn(async move {
        let arguments = raw(r#"{"steps": 20, "pause": 0.02, "progress": true}"#);
        upstreams.call(&"a".into(), "slow", &arguments, &context).await
    });
    progress.recv().await.unwrap();
    house.upstreams.apply(vec![]);
    // It left the catalogue first.
    assert!(house.upstreams.catalog().upstreams.is_empty());
    let late = house.upstreams.call(&"a".into(), "echo", &raw("{}"), &CallContext::default()).await;
    assert!(matches!(late, Err(CallError::Unavailable { .. })));
    assert_eq!(running.await.unwrap().unwrap().to_model_text(), "done");
}

#[tokio::test]
async fn i27_a_crash_loop_is_left_alone_until_somebody_restarts_it() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_with(Settings { log_dir: Some(folder.path().join("logs")), ..Settings::default() });
    house.run(server("a", &["exit"])).await;
    let status = house.wait("a", |s| s.failure.as_ref().is_some_and(|f| f.code == "crash_loop")).await;
    assert_eq!(status.state, UpstreamState::Parked);
    let failure = status.failure.unwrap();
    assert!(failure.hint.as_ref().unwrap().contains("restart it by hand"), "{failure:?}");
    assert!(failure.message.contains("5 times") && failure.message.contains("code 2"), "{}", failure.message);
    assert_eq!(failure.stderr, ["first line", "no API key"]);
    house.upstreams.restart(&"a".into());
    assert_eq!(house.upstreams.status(&"a".into()).unwrap().state, UpstreamState::Starting);
    let again = house.wait("a", |s| s.failure.is_some()).await.failure.unwrap();
    assert_eq!(again.code, "exited");
    let file = folder.path().join("logs/a.log");
    until("the file", || std::fs::read_to_string(&file).unwrap_or_default().contains("stderr no API key"))
        .await;
}

#[tokio::test]
async fn i27_a_server_that_talks_and_ends_over_and_over_writes_a_few_lines() {
    let folder = tempfile::tempdir().unwrap();
    let house = house_with(Settings { log_dir: Some(folder.path().to_owned()), ..Settings::default() });
    house.run(server("a", &["exits_talking"])).await;
    house.wait("a", |s| s.state == UpstreamState::Parked).await;
    let bytes = || {
        std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().metadata().unwrap().len()).sum::<u64>()
    };
    until("the file", || bytes() > 5 * 1024).await;
    // Five tries, each of them 2 KB, and what we say of it; then nothing, however long one waits.
    assert!(bytes() < 64 * 1024, "{}", bytes());
}

#[tokio::test]
async fn i12_a_hundred_servers_all_come_up_without_a_hand() {
    let house = house();
    let quick = |n| command(&format!("s{n}"), "sh", vec![fixture("adversary/quick.sh")]);
    house.upstreams.apply((0..100).map(quick).collect());
    house.upstreams.settled(LONG).await;
    let statuses = house.upstreams.statuses();
    assert!(
        statuses.len() == 100 && statuses.iter().all(|s| s.state == UpstreamState::Ready),
        "{statuses:?}"
    );
    house.upstreams.shutdown().await;
    assert!(!statuses.iter().any(|s| alive(s.pid.unwrap())), "and all end");
}

#[tokio::test]
async fn i20_a_server_that_hangs_after_a_pause_is_found_out_and_replaced_and_others_are_left_alone() {
    let house = house_with(Settings { check_limit: Duration::from_secs(2), ..Settings::default() });
    house.upstreams.apply(vec![server("a", &["plain"]), server("b", &["plain"])]);
    let pid = house.wait("a", |s| s.state == UpstreamState::Ready).await.pid.unwrap();
    let other = house.wait("b", |s| s.state == UpstreamState::Ready).await.pid;
    let stop = std::process::Command::new("kill").args(["-STOP", &pid.to_string()]).status().unwrap();
    assert!(stop.success());
    house.upstreams.check();
    let again = house.wait("a", |s| s.state == UpstreamState::Ready && s.pid != Some(pid)).await;
    assert_ne!(again.pid, Some(pid));
    assert!(!alive(pid));
    assert!(house.log("a").contains("stopped: it did not answer within 2 s"), "{}", house.log("a"));
    house.upstreams.call(&"a".into(), "echo", &raw("{}"), &CallContext::default()).await.unwrap();
    assert_eq!(house.upstreams.status(&"b".into()).unwrap().pid, other);
}

#[tokio::test]
async fn i20_a_check_waits_for_the_call_that_runs() {
    let house = house_with(Settings { check_limit: Duration::from_millis(200), ..Settings::default() });
    let pid = house.ready(server("a", &["plain"])).await.pid;
    let context = CallContext::default();
    let (name, arguments) = ("a".into(), raw(r#"{"seconds": 4}"#));
    let call = house.upstreams.call(&name, "block", &arguments, &context);
    let (result, ()) = tokio::join!(call, async { house.upstreams.check() });
    assert_eq!(result.unwrap().to_model_text(), "done");
    assert_eq!(house.upstreams.status(&"a".into()).unwrap().pid, pid);
}

#[tokio::test]
async fn i11_no_more_start_at_once_than_allowed_and_all_come_up() {
    let house = house_with(Settings { max_starts: 2, ..Settings::default() });
    house.upstreams.apply((0..8).map(|n| server(&format!("s{n}"), &["plain"])).collect());
    let mut changed = house.upstreams.changed();
    loop {
        let statuses = house.upstreams.statuses();
        let starting =
            statuses.iter().filter(|s| s.state == UpstreamState::Starting && s.pid.is_some()).count();
        assert!(starting <= 2, "{starting}");
        if statuses.iter().all(|s| s.state == UpstreamState::Ready) {
            break;
        }
        tokio::time::timeout(LONG, changed.changed()).await.unwrap().unwrap();
    }
}
