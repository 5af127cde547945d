//! Editing `mcp.json`: one entry changes and nothing else does; what cannot be read is not written.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use evi_domain::UpstreamName;
use evi_store::{ConfigStore, Home, StoreError};

use crate::{Scene, http, stdio};

const LIST: &str = r#"// servers of this house
[
    // files
    {
        "name": "fs", /* the name */
        "command": "npx",
        "args": [
            "-y", // yes
            "server",
        ],
        "env": {"B": "2", /* two */ "A": "env:TOK"},
        "x-own": {"b": 1, "a": [1,2]},
        "enabled": true
    },
    {"name": "lin", "transport": "streamable-http", "url": "https://l/", "enabled": "false"} // remote
]
"#;

const OBJECT: &str = r#"{
  "theme": "dark", // mine
  "mcpServers": {
    "fs": { "command": "npx", "args": "-y server" }
  },
  "zoom": 1.50
}
"#;

fn name(text: &str) -> UpstreamName {
    text.into()
}

#[test]
fn the_first_server_makes_a_private_file_in_the_originals_shape() {
    let scene = Scene::new();
    let store = scene.store();
    store
        .upstream_add(&stdio("fs", "npx", &["-y", "server"], &[("K", "${secret:fs.k}")]), true, false)
        .unwrap();
    store.upstream_add(&http("lin", "https://l/", &[]), false, false).unwrap();
    let wanted = r#"[
  {
    "name": "fs",
    "command": "npx",
    "args": ["-y", "server"],
    "env": {
      "K": "${secret:fs.k}"
    },
    "enabled": true
  },
  {
    "name": "lin",
    "transport": "http",
    "url": "https://l/",
    "enabled": false
  }
]
"#;
    assert_eq!(scene.mcp(), wanted);
    assert_eq!(store.current().config.upstreams.len(), 2, "what is current follows the edit");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |p: &std::path::Path| fs::metadata(p).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&scene.home.mcp_json()), mode(scene.home.root())), (0o600, 0o700));
    }
}

#[test]
fn i63_adding_to_a_list_leaves_every_byte_before_it() {
    let scene = Scene::with_mcp(LIST);
    scene.store().upstream_add(&stdio("new", "x", &[], &[]), true, false).unwrap();
    let added = r#"{"name": "lin", "transport": "streamable-http", "url": "https://l/", "enabled": "false"}, // remote
    {
        "name": "new",
        "command": "x",
        "args": [],
        "enabled": true
    }
]
"#;
    let (kept, _) = LIST.split_once(r#"{"name": "lin""#).unwrap();
    assert_eq!(scene.mcp(), format!("{kept}{added}"));
    assert_eq!(fs::read_to_string(scene.home.root().join("mcp.json.bak")).unwrap(), LIST);
}

#[test]
fn an_object_stays_an_object() {
    let scene = Scene::with_mcp(OBJECT);
    let store = scene.store();
    store.upstream_add(&http("lin", "https://l/", &[("A", "b")]), true, false).unwrap();
    store.upstream_set_enabled(&name("fs"), false).unwrap();
    let wanted = r#"{
  "theme": "dark", // mine
  "mcpServers": {
    "fs": { "command": "npx", "args": "-y server", "enabled": false },
    "lin": { "type": "http", "url": "https://l/", "headers": { "A": "b" } }
  },
  "zoom": 1.50
}
"#;
    assert_eq!(scene.mcp(), wanted);
    store.upstream_rename(&name("fs"), &name("fi\"les")).unwrap();
    store.upstream_remove(&name("lin")).unwrap();
    let names: Vec<_> = store.current().config.upstreams.iter().map(|e| e.name.to_string()).collect();
    assert_eq!(names, ["fi\"les"]);
}

#[test]
fn an_object_without_servers_gets_them_beside_what_it_has() {
    let scene = Scene::with_mcp("{\"other\": 1}");
    scene.store().upstream_add(&stdio("a", "x", &[], &[]), true, false).unwrap();
    assert_eq!(scene.store().current().config.upstreams.len(), 1);
    assert!(scene.mcp().contains("\"other\": 1"));
    let scene = Scene::with_mcp("{\"mcpServers\": 7}");
    let refused = scene.store().upstream_add(&stdio("a", "x", &[], &[]), true, false);
    assert!(matches!(refused, Err(StoreError::Unclear(_))));
    assert_eq!(scene.mcp(), "{\"mcpServers\": 7}");
}

#[test]
fn overwriting_keeps_unknown_keys_comments_and_what_says_the_same() {
    let scene = Scene::with_mcp(LIST);
    let store = scene.store();
    let again = stdio("fs", "npx", &["-y", "server"], &[("A", "${env:TOK}"), ("B", "3")]);
    store.upstream_add(&again, true, true).unwrap();
    assert_eq!(scene.mcp(), LIST.replace("\"B\": \"2\"", "\"B\": \"3\""));

    store.upstream_add(&http("fs", "https://f/", &[]), false, true).unwrap();
    let text = scene.mcp();
    for kept in
        ["// servers of this house", "// files", "/* the name */", "\"x-own\": {\"b\": 1, \"a\": [1,2]}"]
    {
        assert!(text.contains(kept), "{kept} is gone: {text}");
    }
    let entry = store.current().config.upstreams[0].clone();
    assert_eq!((entry.spec.unwrap(), entry.enabled), (http("fs", "https://f/", &[]), false));
    assert!(!text.contains("npx"));
}

#[test]
fn an_existing_name_is_refused_without_overwrite_and_nothing_is_written() {
    let scene = Scene::with_mcp(LIST);
    let refused = scene.store().upstream_add(&stdio("lin", "x", &[], &[]), true, false);
    assert!(matches!(refused, Err(StoreError::Exists { name }) if name == "lin"));
    assert_eq!(scene.mcp(), LIST);
}

#[test]
fn switching_and_removing_touch_their_entry_only() {
    let scene = Scene::with_mcp(LIST);
    let store = scene.store();
    store.upstream_set_enabled(&name("fs"), true).unwrap();
    assert_eq!(scene.mcp(), LIST, "what was so already is not written");
    store.upstream_set_enabled(&name("lin"), true).unwrap();
    assert_eq!(scene.mcp(), LIST.replace("\"enabled\": \"false\"", "\"enabled\": true"));
    store.upstream_remove(&name("lin")).unwrap();
    assert_eq!(store.current().config.upstreams.len(), 1);
    assert!(scene.mcp().starts_with(LIST.split_once("\"enabled\": true").unwrap().0));
    assert!(matches!(store.upstream_remove(&name("lin")), Err(StoreError::Unknown { .. })));
    assert!(matches!(store.upstream_set_enabled(&name("lin"), true), Err(StoreError::Unknown { .. })));
}

#[test]
fn the_opposite_switch_is_the_one_that_is_turned() {
    let scene = Scene::with_mcp(r#"[{"name": "a", "command": "x", "disabled": true}]"#);
    let store = scene.store();
    store.upstream_set_enabled(&name("a"), true).unwrap();
    assert_eq!(scene.mcp(), r#"[{"name": "a", "command": "x", "disabled": false}]"#);
    let scene = Scene::with_mcp(r#"[{"name": "a", "command": "x", "disabled": true, "enabled": true}]"#);
    scene.store().upstream_set_enabled(&name("a"), true).unwrap();
    assert!(scene.store().current().config.upstreams[0].enabled);
}

#[test]
fn i67_renaming_changes_the_name_and_keeps_every_value() {
    let scene = Scene::with_mcp(LIST);
    let store = scene.store();
    store.upstream_rename(&name("fs"), &name("files")).unwrap();
    assert_eq!(scene.mcp(), LIST.replace("\"name\": \"fs\"", "\"name\": \"files\""));
    assert!(matches!(store.upstream_rename(&name("files"), &name("lin")), Err(StoreError::Exists { .. })));
    assert!(matches!(store.upstream_rename(&name("fs"), &name("x")), Err(StoreError::Unknown { .. })));
    for bad in ["", " a", "a:b", "a\nb", &"x".repeat(65)] {
        let refused = store.upstream_rename(&name("files"), &name(bad));
        assert!(matches!(refused, Err(StoreError::InvalidName { .. })), "{bad:?}");
    }
}

#[test]
fn entries_that_are_not_clear_can_be_switched_renamed_replaced_and_removed() {
    let text = r#"[{"name": "a"}, {"name": "a", "command": "x"}, {"command": "y"}, 7]"#;
    let scene = Scene::with_mcp(text);
    let store = scene.store();
    store.upstream_set_enabled(&name("a"), false).unwrap();
    store.upstream_rename(&name("a (2)"), &name("b")).unwrap();
    store.upstream_rename(&name("entry 3"), &name("c")).unwrap();
    assert!(matches!(store.upstream_set_enabled(&name("entry 4"), false), Err(StoreError::Unclear(_))));
    store.upstream_remove(&name("entry 4")).unwrap();
    store.upstream_add(&stdio("a", "z", &[], &[]), true, true).unwrap();
    let loaded = store.current();
    let names: Vec<_> = loaded.config.upstreams.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(loaded.problems, vec![]);
}

#[test]
fn a_malformed_file_is_refused_with_line_and_column_and_left_as_it_is() {
    for text in [&b"[\n  {\"name\": \"a\",, }\n]"[..], b"{\"mcpServers\": {", b"[\xff]", b"true"] {
        let scene = Scene::with_mcp(text);
        let store = scene.store();
        let edits: [&dyn Fn() -> Result<(), StoreError>; 4] = [
            &|| store.upstream_add(&stdio("b", "x", &[], &[]), true, true),
            &|| store.upstream_remove(&name("a")),
            &|| store.upstream_set_enabled(&name("a"), true),
            &|| store.upstream_rename(&name("a"), &name("c")),
        ];
        for edit in edits {
            match edit() {
                Err(StoreError::Malformed(problem)) => assert!(problem.at.is_some() && problem.whole_file),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(fs::read(scene.home.mcp_json()).unwrap(), text);
        let files: Vec<_> =
            fs::read_dir(scene.home.root()).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert_eq!(files.len(), 2, "{files:?}");
    }
}

#[test]
fn crlf_and_a_byte_order_mark_are_kept() {
    let text = format!("\u{feff}{}", LIST.replace('\n', "\r\n"));
    let scene = Scene::with_mcp(&text);
    let store = scene.store();
    store.upstream_add(&stdio("new", "x", &[], &[("K", "v")]), true, false).unwrap();
    let added = scene.mcp();
    assert!(added.starts_with("\u{feff}// servers"));
    assert_eq!(added.matches('\n').count(), added.matches("\r\n").count());
    store.upstream_remove(&name("new")).unwrap();
    let names = store.current().config.upstreams.len();
    assert_eq!((names, scene.mcp().matches('\u{feff}').count()), (2, 1));
}

#[test]
fn a_server_of_a_plugin_is_changed_by_the_plugin_only() {
    let scene = Scene::with_mcp("[]");
    let folder = scene.home.plugins().join("p");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("mcp.json"), r#"[{"name": "s", "command": "x"}]"#).unwrap();
    let store = scene.store();
    let owned = |result: Result<(), StoreError>| match result {
        Err(StoreError::PluginOwned { plugin, .. }) => assert_eq!(plugin, "p"),
        other => panic!("{other:?}"),
    };
    owned(store.upstream_remove(&name("p:s")));
    owned(store.upstream_set_enabled(&name("p:s"), false));
    owned(store.upstream_rename(&name("p:s"), &name("s")));
    owned(store.upstream_add(&stdio("p:s", "y", &[], &[]), true, true));
    assert_eq!(scene.mcp(), "[]");
}

#[cfg(unix)]
#[test]
fn i64_mode_and_symbolic_link_of_the_file_stay() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::with_mcp("[]");
    let real = scene.home.root().join("dotfiles.json");
    fs::rename(scene.home.mcp_json(), &real).unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o664)).unwrap();
    std::os::unix::fs::symlink("dotfiles.json", scene.home.mcp_json()).unwrap();
    scene.store().upstream_add(&stdio("a", "x", &[], &[]), true, false).unwrap();
    assert!(fs::symlink_metadata(scene.home.mcp_json()).unwrap().is_symlink());
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o664);
    assert!(fs::read_to_string(real).unwrap().contains("\"a\""));
}

#[test]
fn i64_two_writers_with_500_edits_lose_nothing() {
    let scene = Scene::with_mcp(OBJECT);
    thread::scope(|scope| {
        for who in ["a", "b"] {
            // Stores of their own, as two processes have.
            let store = ConfigStore::open(scene.home.clone());
            scope.spawn(move || {
                for n in 0..125 {
                    let server = format!("{who}{n}");
                    store.upstream_add(&stdio(&server, "x", &[], &[]), true, false).unwrap();
                    match n % 3 {
                        0 => store.upstream_remove(&name(&server)).unwrap(),
                        1 => store.upstream_set_enabled(&name(&server), false).unwrap(),
                        _ => store.upstream_rename(&name(&server), &name(&format!("{server}r"))).unwrap(),
                    }
                }
            });
        }
    });
    let (config, problems) = scene.store().load();
    assert_eq!(problems, vec![]);
    // Of 125 each: 42 removed, the rest stay beside the one that was there.
    assert_eq!(config.upstreams.len(), 1 + 2 * 83);
    assert_eq!(config.upstreams.iter().filter(|e| !e.enabled).count(), 2 * 42);
    assert!(scene.mcp().starts_with("{\n  \"theme\": \"dark\", // mine\n"));
}

const WRITER: &str = "EVI_TEST_WRITER";

/// The other process that writes, and is killed at it. It notes what it was told is saved.
#[test]
fn plays_the_writer_that_is_killed() {
    use std::io::Write as _;
    let Some(place) = std::env::var_os(WRITER) else { return };
    let store = ConfigStore::open(Home::at(&place));
    let mut noted =
        fs::OpenOptions::new().append(true).create(true).open(Path::new(&place).join("noted")).unwrap();
    for n in 0.. {
        let server = format!("k{}-{n}", std::process::id());
        store.upstream_add(&stdio(&server, "x", &[], &[]), true, false).unwrap();
        writeln!(noted, "{server}").unwrap();
    }
}

#[test]
fn i64_a_writer_that_is_killed_at_it_loses_nothing_and_holds_up_nobody() {
    let scene = Scene::with_mcp(OBJECT);
    let (store, noted) = (scene.store(), scene.home.root().join("noted"));
    let said = || fs::read_to_string(&noted).unwrap_or_default();
    let mut own = 0;
    for _ in 0..10 {
        let before = said().lines().count();
        let mut writer = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "editing::plays_the_writer_that_is_killed"])
            .env(WRITER, scene.home.root())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Both write; it is killed wherever it is by then.
        let begun = Instant::now();
        while said().lines().count() < before + 3 {
            assert!(begun.elapsed() < Duration::from_secs(60), "the other one writes, too");
            store.upstream_add(&stdio(&format!("own{own}"), "x", &[], &[]), true, false).unwrap();
            own += 1;
        }
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert_eq!(scene.store().load().1, vec![], "the file is whole");
    }
    let (config, _) = scene.store().load();
    let has = |name: &str| config.upstreams.iter().any(|entry| entry.name.as_str() == name);
    assert!((0..own).all(|n| has(&format!("own{n}"))));
    assert!(said().lines().all(has), "what was said to be saved is");
    assert!(scene.mcp().starts_with("{\n  \"theme\": \"dark\", // mine\n"));
}

#[test]
fn i64_a_writer_that_knows_no_lock_is_read_again() {
    let scene = Scene::with_mcp("[]");
    thread::scope(|scope| {
        let path = scene.home.mcp_json();
        // It writes whole files of its own, each once, and looks at nothing.
        scope.spawn(move || {
            for n in 0..50 {
                let text = format!("[{{\"name\": \"foreign{n}\", \"command\": \"x\"}}]");
                let temp = path.with_extension("foreign");
                fs::write(&temp, text).unwrap();
                fs::rename(&temp, &path).unwrap();
            }
        });
        let store = scene.store();
        for n in 0..50 {
            match store.upstream_add(&stdio(&format!("own{n}"), "x", &[], &[]), true, false) {
                Ok(()) | Err(StoreError::Changing { .. }) => {}
                other => other.unwrap(),
            }
        }
    });
    assert_eq!(scene.store().load().1, vec![], "the file is whole");
}
