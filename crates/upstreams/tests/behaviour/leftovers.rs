//! What an eVi that was killed leaves behind, and that the next one ends it.

#![cfg(target_os = "linux")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use evi_upstreams::Settings;

use crate::support::{House, alive, house_with, server, until};

const PLACE: &str = "EVI_TEST_LEFTOVERS";

fn house_at(file: PathBuf) -> House {
    house_with(Settings { leftovers: Some(file), ..Settings::default() })
}

/// The eVi that is killed: a process of its own, which the test below starts.
#[tokio::test]
async fn plays_the_host_that_is_killed() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let house = house_at(place.join("run/children.json"));
    house.ready(server("a", &["stubborn", place.join("pids").to_str().unwrap()])).await;
    std::fs::write(place.join("ready"), "").unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn i15_what_a_killed_evi_left_behind_is_ended_at_the_next_start_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (place, file) = (folder.path(), folder.path().join("run/children.json"));
    let mut host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "leftovers::plays_the_host_that_is_killed"])
        .env(PLACE, place)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the host is ready", || place.join("ready").exists()).await;
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let pids: Vec<u32> =
        read(&place.join("pids")).split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    // While it runs, another one leaves its children alone.
    house_at(file.clone()).upstreams.shutdown().await;
    assert!(pids.iter().all(|pid| alive(*pid)));
    host.kill().unwrap();
    host.wait().unwrap();
    assert!(
        pids.len() == 2 && pids.iter().all(|pid| alive(*pid)),
        "a server that ignores the end of its input"
    );

    // The same id with another start time is another process.
    let noted = read(&file);
    let entries: serde_json::Value = serde_json::from_str(&noted).unwrap();
    let started = entries[0]["started"].as_u64().unwrap();
    let other = place.join("other.json");
    std::fs::write(&other, noted.replace(&format!("\"started\":{started}"), "\"started\":1")).unwrap();
    let house = house_at(other.clone());
    until("the list is cleared", || read(&other) == "[]").await;
    assert!(pids.iter().all(|pid| alive(*pid)));
    drop(house);

    let house = house_at(file.clone());
    // A start waits for the end of what may hold its port.
    house.ready(server("b", &["plain"])).await;
    assert!(!pids.iter().any(|pid| alive(*pid)));
    assert_eq!(serde_json::from_str::<Vec<serde_json::Value>>(&read(&file)).unwrap().len(), 1);
    house.upstreams.shutdown().await;
    assert_eq!(read(&file), "[]");
}
