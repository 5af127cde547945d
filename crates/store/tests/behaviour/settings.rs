//! `config.toml`: what is of the right type is used, the rest is told by line; edits keep the file's face.

use std::fs;

use evi_domain::{ShareMode, UpstreamName};
use evi_store::{ConfigValue, StoreError};

use crate::Scene;

const FILE: &str = r#"# eVi
[tools]
mcp = true   # servers
mcp_allow = ["fs"]
shell = false
tool_search_threshold = 30

[llm]
backend = "ollama"
api_key = "env:KEY"
temperature = 1
request_timeout = 12.5

[auto]
rules = ["deny shell.* rm*", "allow remember"]
hard_deny = ["format_disk"]
mode = "ask"

[web]
auth_token = "t"
"#;

#[test]
fn the_originals_file_is_read_and_its_other_keys_ignored() {
    let scene = Scene::with_toml(FILE);
    let (config, problems) = scene.store().load();
    assert_eq!(problems, vec![]);
    assert!(config.tools.mcp);
    assert_eq!(config.tools.mcp_allow, ["fs"]);
    assert_eq!(config.llm.api_key.as_deref(), Some("${env:KEY}"));
    assert_eq!((config.llm.temperature, config.llm.request_timeout), (Some(1.0), Some(13)));
    assert_eq!(config.policy.rules.len(), 2);
    assert_eq!(config.policy.auto_approve, ["fs", "code", "memory", "skills", "image"]);
    assert_eq!(config.web_token.as_deref(), Some("t"));
    assert_eq!((config.gateway.enabled, config.gateway.port), (false, 8765));
    assert_eq!(config.profiles["default"].categories, ["memory", "index", "calendar", "git"]);
    assert_eq!(scene.toml(), FILE);
}

#[test]
fn a_wrong_type_is_a_problem_with_line_and_column_and_the_rest_is_used() {
    let text = r#"[tools]
mcp = "yes"
mcp_allow = ["a", 2]
[llm]
model = "m"
max_tokens = -1
[auto]
auto_approve = "fs"
rules = ["maybe x", "deny y"]
[gateway]
port = 99999
[serve.profiles.default]
categories = ["memory"]
servers = ["a", 7, {name = "b", mode = "sometimes"}, {name = "c", mode = "ask"}]
[serve.profiles]
odd = 1
"#;
    let (config, problems) = Scene::with_toml(text).store().load();
    let at: Vec<_> = problems.iter().map(|p| p.at.unwrap()).collect();
    assert_eq!(
        at,
        [(2, 7), (3, 19), (6, 14), (8, 16), (9, 10), (11, 8), (14, 17), (14, 20), (16, 7)],
        "{problems:#?}"
    );
    assert!(problems.iter().all(|p| !p.whole_file));
    assert!(!config.tools.mcp);
    assert_eq!(config.tools.mcp_allow, ["a"]);
    assert_eq!(config.llm.model.as_deref(), Some("m"));
    assert!(config.policy.auto_approve.is_empty(), "a list that cannot be read allows nothing");
    assert_eq!(config.policy.rules.len(), 1);
    assert_eq!(config.gateway.port, 8765);
    let default = &config.profiles["default"];
    assert_eq!(default.categories, ["memory"]);
    let servers: Vec<_> = default.servers.iter().map(|(n, m)| (n.as_str(), *m)).collect();
    assert_eq!(servers, [("a", ShareMode::Full), ("c", ShareMode::Ask)]);
}

#[test]
fn a_profile_may_be_read_only_as_a_whole_or_for_some() {
    let text = r#"[serve.profiles.a]
read_only = true
servers = ["x", {name = "y", mode = "full"}]
resources = false
[serve.profiles.b]
read_only = ["x"]
servers = ["x", "y"]
prompts = false
tools = ["remember"]
"#;
    let (config, problems) = Scene::with_toml(text).store().load();
    assert_eq!(problems, vec![]);
    for profile in ["a", "b"] {
        let modes: Vec<_> = config.profiles[profile].servers.values().copied().collect();
        assert_eq!(modes, [ShareMode::ReadOnly, ShareMode::Full]);
    }
    assert!(!config.profiles["a"].resources && config.profiles["a"].prompts);
    assert!(!config.profiles["b"].prompts);
    assert_eq!(config.profiles["b"].tools, ["remember"]);
}

#[test]
fn a_malformed_file_is_told_by_line_and_never_written() {
    for (text, at) in [("[tools\nmcp = 1", (1, 7)), ("a = 1\na = 2\n", (2, 1)), ("x = \n", (1, 5))] {
        let scene = Scene::with_toml(text);
        let store = scene.store();
        let loaded = store.current();
        assert_eq!((loaded.problems[0].at, loaded.problems[0].whole_file), (Some(at), true), "{text}");
        assert!(loaded.config.policy.auto_approve.is_empty(), "what is not known is not approved");
        let refused = store.config_set(&[(&["tools", "mcp"], true.into())]);
        assert!(matches!(refused, Err(StoreError::Malformed(p)) if p.at == Some(at)));
        assert!(matches!(store.config_unset(&["a"]), Err(StoreError::Malformed(_))));
        let refused = store.share_set("default", &"a".into(), Some(ShareMode::Full));
        assert!(matches!(refused, Err(StoreError::Malformed(_))));
        assert_eq!(scene.toml(), text);
    }
}

#[test]
fn setting_a_key_keeps_comments_order_and_unknown_keys() {
    let scene = Scene::with_toml(FILE);
    let store = scene.store();
    store
        .config_set(&[
            (&["tools", "mcp"], false.into()),
            (&["llm", "model"], "qwen3".into()),
            (&["llm", "temperature"], 0.5.into()),
            (&["gateway", "port"], 9000_u16.into()),
            (&["auto", "hard_deny"], ConfigValue::List(vec!["a".into(), "b".into()])),
        ])
        .unwrap();
    let wanted = FILE
        .replace("mcp = true   # servers", "mcp = false   # servers")
        .replace(
            "temperature = 1\nrequest_timeout = 12.5\n",
            "temperature = 0.5\nrequest_timeout = 12.5\nmodel = \"qwen3\"\n",
        )
        .replace("[\"format_disk\"]", "[\"a\", \"b\"]");
    assert_eq!(scene.toml(), format!("{wanted}\n[gateway]\nport = 9000\n"));
    assert_eq!(store.current().config.gateway.port, 9000);
    store.config_unset(&["llm", "model"]).unwrap();
    store.config_unset(&["nothing", "here"]).unwrap();
    assert!(!scene.toml().contains("qwen3") && !scene.toml().contains("nothing"));
}

#[test]
fn a_table_in_the_way_is_not_replaced() {
    let scene = Scene::with_toml("tools = 1\n[llm.model]\nx = 1\n");
    let store = scene.store();
    assert!(matches!(store.config_set(&[(&["tools", "mcp"], true.into())]), Err(StoreError::Unclear(_))));
    assert!(matches!(store.config_set(&[(&["llm", "model"], "m".into())]), Err(StoreError::Unclear(_))));
    assert_eq!(scene.toml(), "tools = 1\n[llm.model]\nx = 1\n");
}

#[test]
fn crlf_and_a_byte_order_mark_are_kept() {
    let scene = Scene::with_toml(format!("\u{feff}{}", FILE.replace('\n', "\r\n")));
    let store = scene.store();
    assert!(store.current().config.tools.mcp);
    store.config_set(&[(&["gateway", "enabled"], true.into())]).unwrap();
    let wanted = format!("\u{feff}{FILE}\n[gateway]\nenabled = true\n").replace('\n', "\r\n");
    assert_eq!(scene.toml(), wanted);
}

#[test]
fn sharing_the_first_server_writes_the_default_categories_too() {
    let scene = Scene::new();
    let store = scene.store();
    let fs = UpstreamName::new("fs");
    store.share_set("default", &fs, None).unwrap();
    assert!(!scene.home.config_toml().exists(), "nothing to take back");
    store.share_set("default", &fs, Some(ShareMode::Full)).unwrap();
    assert_eq!(
        scene.toml(),
        "[serve.profiles.default]\ncategories = [\"memory\", \"index\", \"calendar\", \"git\"]\nservers = [\"fs\"]\n"
    );
    store.share_set("default", &"lin".into(), Some(ShareMode::ReadOnly)).unwrap();
    assert!(scene.toml().contains("servers = [\"fs\", { name = \"lin\", mode = \"read_only\" }]"));
    store.share_set("default", &fs, Some(ShareMode::Ask)).unwrap();
    let modes = |store: &evi_store::ConfigStore| {
        let loaded = store.current();
        loaded.config.profiles["default"].servers.iter().map(|(n, m)| (n.to_string(), *m)).collect::<Vec<_>>()
    };
    assert_eq!(modes(&store), [("fs".to_owned(), ShareMode::Ask), ("lin".to_owned(), ShareMode::ReadOnly)]);
    store.share_set("default", &fs, None).unwrap();
    store.share_set("default", &"lin".into(), Some(ShareMode::Full)).unwrap();
    assert_eq!(modes(&store), [("lin".to_owned(), ShareMode::Full)]);
}

#[test]
fn sharing_keeps_the_face_of_the_list() {
    let text = "[serve.profiles.default]\n# what is seen\nservers = [\n    # files\n    \"fs\", # mine\n    # web\n    {name = \"lin\", note = \"x\"},\n]\nread_only = true\n";
    let scene = Scene::with_toml(text);
    let store = scene.store();
    store.share_set("default", &"fs".into(), Some(ShareMode::ReadOnly)).unwrap();
    store.share_set("default", &"lin".into(), Some(ShareMode::Full)).unwrap();
    store.share_set("default", &"git".into(), Some(ShareMode::Full)).unwrap();
    let found = scene.toml();
    for kept in ["# what is seen", "# files", "# mine", "# web", "note = \"x\"", "read_only = true"] {
        assert!(found.contains(kept), "{kept} is gone: {found}");
    }
    assert!(found.contains("\n    { name = \"git\", mode = \"full\" },\n]"), "{found}");
    let loaded = store.current();
    let servers: Vec<_> =
        loaded.config.profiles["default"].servers.iter().map(|(n, m)| (n.as_str(), *m)).collect();
    assert_eq!(servers, [("fs", ShareMode::ReadOnly), ("git", ShareMode::Full), ("lin", ShareMode::Full)]);
    assert!(!found.contains("categories"), "a profile that is there is not widened");
}

#[test]
fn both_files_are_edited_under_one_lock_and_a_new_file_is_private() {
    let scene = Scene::new();
    std::thread::scope(|scope| {
        for who in ["a", "b"] {
            let store = scene.store();
            scope.spawn(move || {
                for n in 0..50_i64 {
                    store.config_set(&[(&["x", &format!("{who}{n}")], n.into())]).unwrap();
                }
            });
        }
    });
    assert_eq!(scene.toml().lines().count(), 101);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(scene.home.config_toml()).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn a_slip_of_the_pen_stops_no_server_and_allows_nothing_that_was_denied() {
    let scene = Scene::with_toml(FILE);
    fs::write(scene.home.mcp_json(), r#"[{"name": "fs", "command": "x"}]"#).unwrap();
    let store = scene.store();
    let before = store.current();
    fs::write(scene.home.config_toml(), "[tools").unwrap();
    fs::write(scene.home.mcp_json(), "[{").unwrap();
    let after = store.reload();
    assert_eq!(after.config, before.config);
    assert_eq!(after.problems.iter().filter(|p| p.whole_file).count(), 2);
    assert!(store.load().0.upstreams.is_empty(), "a fresh look knows only the files");
    fs::write(scene.home.mcp_json(), "[]").unwrap();
    assert!(store.reload().config.upstreams.is_empty());
}

#[test]
fn a_persons_choice_goes_before_a_plugins_own_word_and_no_choice_that_is_unclear_switches_one_on() {
    let on = |toml: &str| {
        let scene = Scene::with_toml(toml);
        for (name, manifest) in [("a", ""), ("b", "default_enabled = false"), ("c", "version = ")] {
            let folder = scene.home.plugins().join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("plugin.toml"), manifest).unwrap();
        }
        let plugins = scene.store().load().0.plugins;
        plugins.into_iter().filter(|p| p.enabled).map(|p| p.name).collect::<Vec<_>>()
    };
    assert_eq!(on(""), ["a"], "one that is unclear about itself is off");
    assert_eq!(on("[plugins]\nenabled = [\"b\", \"c\"]\n"), ["a", "b", "c"]);
    assert_eq!(on("[plugins]\nenabled = [\"a\", \"b\"]\ndisabled = [\"a\"]\n"), ["b"], "off wins");
    for unclear in ["[plugins", "plugins = 1\n", "[plugins]\ndisabled = \"a\"\n"] {
        assert!(on(unclear).is_empty(), "{unclear}");
    }
}
