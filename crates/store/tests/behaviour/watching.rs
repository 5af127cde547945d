//! Changes of the files are noticed: made by an editor, by another process, before the home was there.

use std::{fs, time::Duration};

use evi_store::{ConfigStore, Loaded};

use crate::{Scene, stdio};

async fn until(store: &ConfigStore, wanted: impl Fn(&Loaded) -> bool) {
    let mut seen = store.watch();
    let found = seen.wait_for(|loaded| wanted(loaded));
    tokio::time::timeout(Duration::from_secs(20), found).await.expect("the change was not noticed").unwrap();
}

fn count(n: usize) -> impl Fn(&Loaded) -> bool {
    move |loaded| loaded.config.upstreams.len() == n
}

#[tokio::test]
async fn a_home_that_comes_later_is_noticed() {
    let scene = Scene::new();
    let store = scene.store();
    let _watching = store.start_watching();
    fs::create_dir(scene.home.root()).unwrap();
    fs::write(scene.home.mcp_json(), r#"[{"name": "a", "command": "x"}]"#).unwrap();
    until(&store, count(1)).await;
}

#[tokio::test]
async fn what_another_process_writes_and_what_an_editor_renames_is_noticed() {
    let scene = Scene::with_mcp("[]");
    let store = scene.store();
    let _watching = store.start_watching();
    scene.store().upstream_add(&stdio("a", "x", &[], &[]), true, false).unwrap();
    until(&store, count(1)).await;
    let temp = scene.home.root().join("mcp.json~");
    fs::write(&temp, r#"[{"name": "a", "command": "x"}, {"name": "b", "command": "x"}]"#).unwrap();
    fs::rename(&temp, scene.home.mcp_json()).unwrap();
    until(&store, count(2)).await;
    fs::write(scene.home.mcp_json(), "[").unwrap();
    until(&store, |loaded| loaded.problems.iter().any(|p| p.whole_file)).await;
    fs::remove_file(scene.home.mcp_json()).unwrap();
    until(&store, |loaded| loaded.problems.is_empty() && loaded.config.upstreams.is_empty()).await;
    fs::write(scene.home.config_toml(), "[tools]\nmcp = true\n").unwrap();
    until(&store, |loaded| loaded.config.tools.mcp).await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_behind_a_symbolic_link_is_watched_where_it_lies() {
    let scene = Scene::with_mcp("[]");
    let elsewhere = tempfile::tempdir().unwrap();
    let real = elsewhere.path().join("servers.json");
    fs::rename(scene.home.mcp_json(), &real).unwrap();
    std::os::unix::fs::symlink(&real, scene.home.mcp_json()).unwrap();
    let store = scene.store();
    let _watching = store.start_watching();
    fs::write(&real, r#"[{"name": "a", "command": "x"}]"#).unwrap();
    until(&store, count(1)).await;
}

#[tokio::test]
async fn a_plugin_that_is_put_in_is_noticed() {
    let scene = Scene::with_mcp("[]");
    let store = scene.store();
    let _watching = store.start_watching();
    let folder = scene.home.plugins().join("p");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mcp.json"), r#"[{"name": "a", "command": "x"}]"#).unwrap();
    until(&store, count(1)).await;
    assert_eq!(store.current().config.upstreams[0].name.as_str(), "p:a");
}

#[tokio::test]
async fn an_edit_of_ones_own_needs_no_watching() {
    let scene = Scene::new();
    let store = scene.store();
    let mut seen = store.watch();
    store.upstream_add(&stdio("a", "x", &[], &[]), true, false).unwrap();
    assert!(seen.has_changed().unwrap());
    assert_eq!(seen.borrow_and_update().config.upstreams.len(), 1);
    store.reload();
    assert!(!seen.has_changed().unwrap(), "the same again is no change");
}

#[test]
fn watching_ends_with_its_guard() {
    let scene = Scene::with_mcp("[]");
    let store = scene.store();
    drop(store.start_watching());
    let seen = store.watch();
    fs::write(scene.home.mcp_json(), r#"[{"name": "a", "command": "x"}]"#).unwrap();
    assert!(!seen.has_changed().unwrap());
}
