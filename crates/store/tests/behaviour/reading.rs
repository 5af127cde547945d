//! Reading `mcp.json`: every lenient form, and a place for every problem.

use std::fs;

use evi_domain::{TransportSpec, UpstreamEntry};

use crate::{Scene, http, stdio, texts};

fn entries(text: impl AsRef<[u8]>) -> Vec<UpstreamEntry> {
    Scene::with_mcp(text).store().load().0.upstreams
}

/// The one entry of a file, understood.
fn spec(entry: &str) -> TransportSpec {
    entries(format!("[{entry}]")).remove(0).spec.unwrap().transport
}

/// Where in the file the one entry's problem is, and what it says.
fn problem(text: &str) -> ((usize, usize), String) {
    let problem = entries(text).into_iter().find_map(|e| e.spec.err()).unwrap();
    (problem.at.unwrap(), problem.message)
}

#[test]
fn a_home_that_is_not_there_is_an_empty_configuration_and_stays_away() {
    let scene = Scene::new();
    let (config, problems) = scene.store().load();
    assert_eq!((config.upstreams.len(), problems.len()), (0, 0));
    assert!(config.profiles.contains_key("default"));
    assert!(!scene.home.root().exists());
}

#[test]
fn the_originals_own_shape_is_read_as_it_is() {
    let text = r#"[
  {
    "name": "fs",
    "command": "npx",
    "args": ["-y", "@modelcontextprotocol/server-filesystem", "/data"],
    "env": {},
    "enabled": true
  },
  {"name": "lin", "transport": "http", "url": "https://mcp.linear.app/mcp", "headers": {"Authorization": "env:LINEAR"}, "enabled": false},
  {"name": "old", "transport": "sse", "url": "http://127.0.0.1:9/sse", "enabled": true}
]
"#;
    let scene = Scene::with_mcp(text);
    let (config, problems) = scene.store().load();
    assert_eq!(problems, vec![]);
    let [fs, lin, old] = &config.upstreams[..] else { panic!("not three") };
    let args = ["-y", "@modelcontextprotocol/server-filesystem", "/data"];
    assert_eq!((fs.spec.clone().unwrap(), fs.enabled), (stdio("fs", "npx", &args, &[]), true));
    let wanted = http("lin", "https://mcp.linear.app/mcp", &[("Authorization", "${env:LINEAR}")]);
    assert_eq!((lin.spec.clone().unwrap(), lin.enabled), (wanted, false));
    assert_eq!(old.spec.clone().unwrap().transport.kind(), "sse");
    assert_eq!(scene.mcp(), text);
    assert!(!scene.home.state().exists(), "reading made files");
}

#[test]
fn the_object_form_comments_trailing_commas_and_a_byte_order_mark_are_read() {
    for key in ["mcpServers", "servers"] {
        let text = format!(
            "\u{feff}// mine\n{{\n  /* all */ \"{key}\": {{\n    \"b\": {{\"command\": \"x\",}}, // last\n    \"a\": {{\"url\": \"http://h/\"}},\n  }},\n}}\n"
        );
        let names: Vec<_> = entries(text).into_iter().map(|e| (e.name.to_string(), e.spec.is_ok())).collect();
        assert_eq!(names, [("b".to_owned(), true), ("a".to_owned(), true)]);
    }
    assert_eq!(entries(r#"{"servers": [{"name": "l", "command": "x"}]}"#)[0].name.as_str(), "l");
}

#[test]
fn a_url_without_transport_and_every_spelling_of_it_mean_http() {
    assert_eq!(spec(r#"{"name": "a", "url": "http://h/"}"#).kind(), "http");
    assert_eq!(spec(r#"{"name": "a", "command": "", "url": "http://h/"}"#).kind(), "http");
    for word in ["http", "HTTP", "streamable-http", "streamable_http", "streamableHttp"] {
        for key in ["transport", "type"] {
            let entry = format!(r#"{{"name": "a", "{key}": "{word}", "url": "http://h/"}}"#);
            assert_eq!(spec(&entry).kind(), "http", "{entry}");
        }
    }
    assert_eq!(spec(r#"{"name": "a", "type": "sse", "url": "http://h/"}"#).kind(), "sse");
    assert_eq!(spec(r#"{"name": "a", "type": "stdio", "command": "x"}"#).kind(), "stdio");
}

#[test]
fn arguments_as_one_text_are_split_as_a_shell_does_and_numbers_are_their_text() {
    let args = |entry: &str| match spec(entry) {
        TransportSpec::Stdio { args, env, cwd, .. } => (args, env, cwd),
        other => panic!("{other:?}"),
    };
    let (split, env, cwd) = args(
        r#"{"name": "a", "command": "x", "args": "-y 'a b' \"c\"", "env": {"N": 1, "B": true}, "cwd": "/w"}"#,
    );
    assert_eq!(split, ["-y", "a b", "c"]);
    assert_eq!((env, cwd.as_deref()), (texts(&[("N", "1"), ("B", "true")]), Some("/w")));
    assert_eq!(args(r#"{"name": "a", "command": "x", "args": [1, "2"]}"#).0, ["1", "2"]);
    assert!(args(r#"{"name": "a", "command": "x", "args": null, "env": null}"#).0.is_empty());
}

#[test]
fn the_switch_is_understood_as_a_text_and_as_its_opposite() {
    let on = |fields: &str| entries(format!(r#"[{{"name": "a", "command": "x"{fields}}}]"#))[0].enabled;
    assert!(
        on("") && on(r#", "enabled": "true""#) && on(r#", "enabled": 1"#) && on(r#", "disabled": false"#)
    );
    assert!(!on(r#", "enabled": false"#) && !on(r#", "enabled": "false""#) && !on(r#", "enabled": "False""#));
    assert!(!on(r#", "disabled": true"#) && !on(r#", "disabled": "true", "enabled": true"#));
}

#[test]
fn i66_env_references_of_the_original_are_translated_and_others_kept() {
    let TransportSpec::Stdio { env, .. } = spec(
        r#"{"name": "a", "command": "x", "env": {"A": "env:TOK", "B": "${TOK:-d}", "C": "env:not a name", "D": "env:"}}"#,
    ) else {
        panic!()
    };
    let wanted = [("A", "${env:TOK}"), ("B", "${TOK:-d}"), ("C", "env:not a name"), ("D", "env:")];
    assert_eq!(env, texts(&wanted));
}

#[test]
fn what_is_not_clear_keeps_its_place_with_line_and_column() {
    let text = r#"[
  {"name": "good", "command": "x"},
  {"name": "args", "command": "x", "args": "'open"},
  "text",
  {"name": "env", "command": "x", "env": {"K": ["v"]}},
  {"command": "x"},
  {"name": "kind", "type": "carrier-pigeon", "url": "http://h/"},
  {"name": "none"},
  {"name": "both", "command": "x", "url": "http://h/"},
  {"name": "on", "command": "x", "enabled": "maybe"},
  {"name": "good", "command": "y"}
]"#;
    let (config, problems) = Scene::with_mcp(text).store().load();
    let found: Vec<_> = config
        .upstreams
        .iter()
        .map(|e| (e.name.to_string(), e.spec.as_ref().err().map(|p| (p.at.unwrap(), p.message.clone()))))
        .collect();
    let bad =
        |name: &str, at: (usize, usize), message: &str| (name.to_owned(), Some((at, message.to_owned())));
    assert_eq!(
        found,
        [
            ("good".to_owned(), None),
            bad("args", (3, 44), "a quote in \"args\" is not closed"),
            bad("entry 3", (4, 3), "a server must be an object, found text"),
            bad("env", (5, 48), "\"K\" in \"env\" must be text, found a list"),
            bad("entry 5", (6, 3), "this server has no name"),
            bad("kind", (7, 28), "unknown type \"carrier-pigeon\": expected stdio, http or sse"),
            bad("none", (8, 3), "neither \"command\" nor \"url\" is given"),
            bad("both", (9, 3), "both \"command\" and \"url\" are given: say which with \"transport\""),
            bad("on", (10, 45), "\"enabled\" must be true or false, found text"),
            bad("good (2)", (11, 3), "another server has the name \"good\""),
        ]
    );
    assert_eq!(problems.len(), 9);
    assert!(problems.iter().all(|p| !p.whole_file));
    assert!(!config.upstreams[8].enabled, "a switch that is not clear is off");
}

#[test]
fn an_object_without_servers_says_so_and_the_empty_one_does_not() {
    let (config, problems) = Scene::with_mcp("{\n  \"fs\": {\"command\": \"x\"}\n}").store().load();
    assert_eq!((config.upstreams.len(), problems[0].at), (0, Some((2, 3))));
    for text in ["{}", "[]", "", "// nothing\n", "{\"mcpServers\": null, \"x\": 1}"] {
        let problems = Scene::with_mcp(text).store().load().1;
        assert!(problems.iter().all(|p| !p.whole_file), "{text}");
    }
}

#[test]
fn a_malformed_file_is_one_problem_with_line_and_column() {
    for (text, at) in [
        ("[\n  {\"name\": \"a\" \"command\": \"x\"}\n]", (2, 15)),
        ("[\n  {\"name\": \"a\"", (2, 3)),
        ("{\n  name: 1}", (2, 3)),
        ("\u{feff}[} ", (1, 2)),
        ("7", (1, 1)),
        ("[] []", (1, 4)),
    ] {
        let (config, problems) = Scene::with_mcp(text).store().load();
        assert!(config.upstreams.is_empty());
        let [problem] = &problems[..] else { panic!("{text}: {problems:?}") };
        assert_eq!((problem.at, problem.whole_file), (Some(at), true), "{text}: {problem}");
        assert!(problem.file.ends_with("mcp.json"));
    }
    let problem = Scene::with_mcp(b"[\n\xff]").store().load().1.remove(0);
    assert_eq!((problem.at, problem.whole_file), (Some((2, 1)), true));
}

#[test]
fn a_folder_in_the_files_place_is_a_problem_and_no_panic() {
    let scene = Scene::new();
    fs::create_dir_all(scene.home.mcp_json()).unwrap();
    fs::create_dir_all(scene.home.config_toml()).unwrap();
    let problems = scene.store().load().1;
    assert_eq!(problems.iter().filter(|p| p.whole_file).count(), 2);
}

#[test]
fn deep_nesting_is_refused_and_does_not_end_the_process() {
    let scene = Scene::with_mcp("[".repeat(200_000));
    assert!(scene.store().load().1[0].whole_file);
    let scene = Scene::with_toml(format!("a = {}", "[".repeat(200_000)));
    assert!(scene.store().load().1[0].whole_file);
}

#[test]
fn the_servers_of_a_plugin_bear_its_name_and_run_from_its_folder() {
    let scene = Scene::with_mcp("[]");
    let folder = scene.home.plugins().join("tools");
    fs::create_dir_all(folder.join("bin")).unwrap();
    fs::write(
        folder.join("mcp.json"),
        r#"[{"name": "a", "command": "./bin/a"}, {"name": "b", "command": "npx"}, {"name": "c"}]"#,
    )
    .unwrap();
    let read = || scene.store().load();
    let (config, problems) = read();
    let [a, b, c] = &config.upstreams[..] else { panic!("not three") };
    assert_eq!((a.name.as_str(), a.plugin.as_deref(), a.enabled), ("tools:a", Some("tools"), true));
    let own = folder.join("bin/a");
    assert_eq!(a.spec.clone().unwrap(), stdio("tools:a", &own.to_string_lossy(), &[], &[]));
    assert_eq!(b.spec.clone().unwrap(), stdio("tools:b", "npx", &[], &[]));
    assert!(c.spec.is_err());
    assert_eq!(problems.len(), 1);
    fs::write(folder.join("plugin.toml"), "name = \"tools\"\ndefault_enabled = false\n").unwrap();
    assert!(read().0.upstreams.iter().all(|e| !e.enabled));
    fs::write(folder.join("plugin.toml"), "default_enabled = 1\n").unwrap();
    let (config, problems) = read();
    assert_eq!((config.upstreams[0].enabled, problems[0].at), (false, Some((1, 19))));
}

#[test]
fn problems_count_columns_in_characters_behind_a_byte_order_mark() {
    assert_eq!(problem("\u{feff}[{\"name\": \"é\", \"command\": 1}]").0, (1, 27));
}

#[test]
fn the_settings_of_a_server_are_read_under_the_words_that_people_bring_along() {
    use evi_domain::{EraChoice, UpstreamOptions};
    let options = |keys: &str| {
        entries(format!(r#"[{{"name":"a","command":"x",{keys}}}]"#)).remove(0).spec.unwrap().options
    };
    assert_eq!(
        options(
            r#""era":"Legacy","startup_timeout_sec":20.5,"tool_timeout_sec":"90","tool_total_timeout_sec":600,"ca":"~/ca.pem""#
        ),
        UpstreamOptions {
            era: EraChoice::Legacy,
            start_secs: Some(21),
            call_secs: Some(90),
            total_secs: Some(600),
            ca: Some("~/ca.pem".into()),
        }
    );
    // Seconds where others mean seconds, milliseconds where nothing else makes sense.
    assert_eq!(options(r#""timeout":60"#).call_secs, Some(60));
    assert_eq!(options(r#""timeout":600000"#).call_secs, Some(600));
    assert_eq!(options(r#""timeout":600000,"tool_timeout_sec":5"#).call_secs, Some(5));
    assert_eq!(options(r#""era":null,"ca":"""#), UpstreamOptions::default());
    assert_eq!(
        problem("[{\"name\":\"a\",\"command\":\"x\",\n \"era\": \"ancient\"}]"),
        ((2, 9), "unknown era \"ancient\": expected auto, legacy or modern".into())
    );
    for wrong in ["0", "-1", "true", "\"soon\"", "86401"] {
        let (at, message) =
            problem(&format!("[{{\"name\":\"a\",\"command\":\"x\",\n \"tool_timeout_sec\": {wrong}}}]"));
        assert_eq!(at, (2, 22), "{wrong}");
        assert!(message.contains("tool_timeout_sec"), "{message}");
    }
}
