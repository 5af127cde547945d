//! What is under way when a person looks, changes their mind, or leaves: a start holds up nobody and leaves nothing.

use std::time::{Duration, Instant};

use evi_tests::{House, Person, Program, house, is_running, until};
use serde_json::{Value, json};

/// A server that never comes up, and that has, like its child, to be killed.
fn late(house: &House) -> Program {
    House::adversary("lines", ["late_child", &house.notes_file("late").display().to_string()])
}

/// Its processes, once they are there.
async fn tree(house: &House) -> Vec<u32> {
    let noted = || async {
        let words = house.notes("late").join(" ");
        let pids: Vec<u32> = words.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        (pids.len() == 2).then_some(pids)
    };
    let pids = until("the server and its child", noted).await;
    assert!(pids.iter().all(|pid| is_running(*pid)), "{pids:?}");
    pids
}

async fn begun() -> (House, Person, Vec<u32>) {
    let house = house().with_servers_on();
    let program = late(&house);
    let house = house.with_server("late", &program);
    let person = house.opens().await;
    let pids = tree(&house).await;
    assert_eq!(person.server("late").await["state"], "starting");
    (house, person, pids)
}

async fn all_are_gone(pids: &[u32]) {
    let gone = || async { (!pids.iter().any(|pid| is_running(*pid))).then_some(()) };
    until("no process of the tree", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_quitting_while_a_server_starts_leaves_no_process_of_it() {
    let (_house, person, pids) = begun().await;
    person.quits().await;
    assert!(!pids.iter().any(|pid| is_running(*pid)), "quitting waits for the end of the whole tree");
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_switching_a_server_off_while_it_starts_leaves_no_process_of_it() {
    let (_house, person, pids) = begun().await;
    person.does("upstream_set_enabled", json!({"name": "late", "enabled": false})).await;
    person.sees("late", "off").await;
    all_are_gone(&pids).await;
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_removing_a_server_while_it_starts_leaves_no_process_of_it() {
    let (_house, person, pids) = begun().await;
    person.does("upstream_remove", json!({"name": "late"})).await;
    assert_eq!(person.asks("upstream_list").await, json!([]));
    all_are_gone(&pids).await;
    person.quits().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn i15_a_command_that_is_interrupted_while_a_server_starts_leaves_no_process_of_it() {
    let ways =
        [&["mcp", "list-tools"][..], &["mcp", "call", "late.tool"]].into_iter().flat_map(|arguments| {
            [(arguments, evi_tests::interrupt as fn(u32)), (arguments, evi_tests::terminate)]
        });
    let all = ways.map(|(arguments, stop)| async move {
        let house = house().with_servers_on();
        let program = late(&house);
        let house = house.with_server("late", &program);
        let child = house.command().args(arguments).spawn().unwrap();
        let pids = tree(&house).await;
        stop(child.id().unwrap());
        let ended = child.wait_with_output();
        let output = tokio::time::timeout(evi_tests::LIMIT, ended).await.unwrap().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!pids.iter().any(|pid| is_running(*pid)), "the command waits for the end of the whole tree");
    });
    futures::future::join_all(all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_window_answers_at_once_while_ten_servers_hang() {
    let mut house = house().with_servers_on();
    for n in 0..10 {
        let program = house.server(&format!("s{n}"), "hangs");
        house = house.with_server(&format!("s{n}"), &program);
    }
    let person = house.opens().await;
    let has_started = || async { house.notes("s3").first().map(drop) };
    until("four of them to start", has_started).await;
    for (query, params) in [
        ("upstream_list", json!({})),
        ("upstream_get", json!({"name": "s9"})),
        ("upstream_log", json!({"name": "s0"})),
        ("tool_list", json!({})),
        ("settings_get", json!({})),
        ("gateway_get", json!({})),
        ("activity_list", json!({})),
        ("app_info", json!({})),
        ("upstream_set_enabled", json!({"name": "s9", "enabled": false})),
    ] {
        // The best of three, because the machine may be busy with other tests.
        let mut best = Duration::MAX;
        let mut answer = Value::Null;
        for _ in 0..3 {
            let begun = Instant::now();
            answer = person.does(query, params.clone()).await;
            best = best.min(begun.elapsed());
        }
        assert!(best < Duration::from_millis(100), "{query} took {best:?}: {answer}");
    }
    let rows = person.asks("upstream_list").await;
    assert!(rows.as_array().unwrap()[..9].iter().all(|row| row["state"] == "starting"), "{rows}");
    person.quits().await;
}
