//! Editing `mcp.json` byte for byte: whatever a file's style, an edit writes in that style and nowhere else. Asks
//! nothing about what the entries mean.

use std::fs;

use evi_domain::{UpstreamName, UpstreamSpec};

use crate::{Scene, http, stdio};

fn name(text: &str) -> UpstreamName {
    text.into()
}

/// The file after an edit.
fn edited(text: &str, edit: impl Fn(&evi_store::ConfigStore)) -> String {
    let scene = Scene::with_mcp(text);
    edit(&scene.store());
    scene.mcp()
}

fn disabled(text: &str, server: &str) -> String {
    edited(text, |store| store.upstream_set_enabled(&name(server), false).unwrap())
}

fn removed(text: &str, server: &str) -> String {
    edited(text, |store| store.upstream_remove(&name(server)).unwrap())
}

fn renamed(text: &str, server: &str, to: &str) -> String {
    edited(text, |store| store.upstream_rename(&name(server), &name(to)).unwrap())
}

fn added(text: &str, spec: &UpstreamSpec, enabled: bool) -> String {
    edited(text, |store| store.upstream_add(spec, enabled, false).unwrap())
}

fn overwritten(text: &str, spec: &UpstreamSpec) -> String {
    edited(text, |store| store.upstream_add(spec, true, true).unwrap())
}

/// Each as it is, with CRLF, and with CRLF and a byte order mark.
fn each(cases: &[(&str, &str)], edit: impl Fn(&str) -> String) {
    for (before, after) in cases {
        assert_eq!(edit(before), *after, "from {before}");
        let crlf = |text: &str| text.replace('\n', "\r\n");
        assert_eq!(edit(&crlf(before)), crlf(after), "with CRLF, from {before}");
        let marked = |text: &str| format!("\u{feff}{}", crlf(text));
        assert_eq!(edit(&marked(before)), marked(after), "with a byte order mark, from {before}");
    }
}

#[test]
fn a_switch_that_is_not_there_is_put_in_the_entrys_own_style() {
    let cases = [
        (
            r#"{"a":{"command":"node","args":["x"],},}"#,
            r#"{"a":{"command":"node","args":["x"],"enabled":false,},}"#,
        ),
        (
            r#"{"a":{"command":"node","args":["x"]}}"#,
            r#"{"a":{"command":"node","args":["x"],"enabled":false}}"#,
        ),
        (r#"{"a": {"command": "x"}}"#, r#"{"a": {"command": "x", "enabled": false}}"#),
        (r#"{"a": { "command": "x" }}"#, r#"{"a": { "command": "x", "enabled": false }}"#),
        (
            r#"{"a" : {"command" : "x" , "args" : []}}"#,
            r#"{"a" : {"command" : "x" , "args" : [], "enabled" : false}}"#,
        ),
        (r#"{"a": {"command": "x" /* it */ }}"#, r#"{"a": {"command": "x" /* it */, "enabled": false }}"#),
        (
            "{\"a\": {\"command\": \"x\" // it\n}}",
            "{\"a\": {\"command\": \"x\", \"enabled\": false // it\n}}",
        ),
        (
            "{\"a\": {\"command\": \"x\", // it\n}}",
            "{\"a\": {\"command\": \"x\", \"enabled\": false, // it\n}}",
        ),
        (
            "{\n  \"b\": {},\n  \"a\": {\n    \"command\": \"x\"\n  }\n}\n",
            "{\n  \"b\": {},\n  \"a\": {\n    \"command\": \"x\",\n    \"enabled\": false\n  }\n}\n",
        ),
        (
            "{\n\t\"a\": {\n\t\t\"command\":\"x\", // it\n\t\t// last\n\t},\n}",
            "{\n\t\"a\": {\n\t\t\"command\":\"x\", // it\n\t\t\"enabled\":false,\n\t\t// last\n\t},\n}",
        ),
        (
            "{\n    \"a\": {\n        \"command\": \"x\" // it\n    }\n}",
            "{\n    \"a\": {\n        \"command\": \"x\", // it\n        \"enabled\": false\n    }\n}",
        ),
        (
            "{\n  \"a\": { \"command\": \"x\",\n         \"args\": [] }\n}",
            "{\n  \"a\": { \"command\": \"x\",\n         \"args\": [],\n         \"enabled\": false }\n}",
        ),
        ("{\"a\": {}}", "{\"a\": {\"enabled\": false}}"),
        ("{\"a\":{ }}", "{\"a\":{ \"enabled\":false }}"),
        ("{\n  \"a\": {\n  }\n}", "{\n  \"a\": {\n    \"enabled\": false\n  }\n}"),
        ("{\n  \"a\": {\n    // none\n  }\n}", "{\n  \"a\": {\n    // none\n    \"enabled\": false\n  }\n}"),
    ];
    let wrapped: Vec<(String, String)> = cases
        .iter()
        .map(|(a, b)| (format!("{{\"mcpServers\":{a}}}"), format!("{{\"mcpServers\":{b}}}")))
        .collect();
    let wrapped: Vec<(&str, &str)> = wrapped.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    each(&wrapped, |text| disabled(text, "a"));
    each(
        &[
            (r#"[{"name":"a","command":"x"}]"#, r#"[{"name":"a","command":"x","enabled":false}]"#),
            (
                "[\n  { \"name\": \"a\", \"command\": \"x\", }, // it\n]",
                "[\n  { \"name\": \"a\", \"command\": \"x\", \"enabled\": false, }, // it\n]",
            ),
            (
                "[{\n  \"name\": \"a\"\n}, {\n  \"name\": \"b\"\n}]",
                "[{\n  \"name\": \"a\",\n  \"enabled\": false\n}, {\n  \"name\": \"b\"\n}]",
            ),
        ],
        |text| disabled(text, "a"),
    );
}

#[test]
fn a_switch_that_is_there_is_turned_and_turned_back_to_the_byte() {
    let files = [
        r#"[{"name":"a","enabled":true}]"#,
        r#"[ { "name" : "a" , "enabled" : true , } , ]"#,
        r#"{"mcpServers":{"a":{"enabled":true,"command":"x",},},}"#,
        "{\"mcpServers\": {\"a\": {\"disabled\": false}}}",
        "{\"servers\":\n{\"a\"\n:\n{\"enabled\"\n:\ntrue\n}\n}\n}\n\n\n",
        "// top\n[\n\t{\n\t\t\"name\": \"a\", /* n */ \"command\": \"x\"\n\t\t, \"enabled\": /* on */ true // now\n\t}\n]",
        "[{\"name\": \"b\", \"x\": [1,2 , 3]},\n\n\n   {\"enabled\": true, \"name\": \"a\"   }]  // end",
        "{\"zoom\": 1.50, \"servers\": [{\"command\": \"\\u0078\", \"name\": \"\\u0061\", \"enabled\": true}]}",
        "{\"mcpServers\": {\"a\": {\"disabled\": false, \"enabled\": true}}}",
        "[\r\n  {\"name\": \"a\",\n   \"enabled\": true}\r\n]\n",
    ];
    for file in files {
        for text in [file.to_owned(), file.replace('\n', "\r\n"), format!("\u{feff}{file}")] {
            let scene = Scene::with_mcp(&text);
            let store = scene.store();
            store.upstream_set_enabled(&name("a"), false).unwrap();
            let off = scene.mcp();
            assert!(off != text && off.len().abs_diff(text.len()) == 1, "{off}");
            assert!(!store.current().config.upstreams.iter().any(|e| e.name == name("a") && e.enabled));
            store.upstream_set_enabled(&name("a"), true).unwrap();
            assert_eq!(scene.mcp(), text);
        }
    }
}

#[test]
fn a_switch_in_words_that_says_so_already_is_left() {
    let text = r#"[{"name": "a", "enabled": "off"}]"#;
    assert_eq!(disabled(text, "a"), text);
}

#[test]
fn a_removed_entry_takes_its_separator_and_no_more() {
    let cases = [
        // On one line: first, last, only.
        (r#"[{"name":"a"}, {"name":"b"}, {"name":"c"}]"#, r#"[{"name":"b"}, {"name":"c"}]"#),
        (r#"[{"name":"b"}, {"name":"a"}]"#, r#"[{"name":"b"}]"#),
        (r#"[{"name":"b"}, {"name":"a"}, ]"#, r#"[{"name":"b"}, ]"#),
        (r#"[ {"name":"a"} ]"#, r"[ ]"),
        (r#"[{"name":"a"},]"#, r"[]"),
        (r#"[{"name":"b"} /* b */, /* x */ {"name":"a"}]"#, r#"[{"name":"b"} /* b */ /* x */]"#),
        // By lines.
        ("[\n  {\"name\": \"a\"},\n  {\"name\": \"b\"}\n]\n", "[\n  {\"name\": \"b\"}\n]\n"),
        ("[\n  {\"name\": \"b\"},\n  {\"name\": \"a\"}\n]\n", "[\n  {\"name\": \"b\"}\n]\n"),
        ("[\n  {\"name\": \"b\"},\n  {\"name\": \"a\"},\n]\n", "[\n  {\"name\": \"b\"},\n]\n"),
        ("[\n\t{\"name\": \"b\"}, // b\n\t{\n\t\"name\": \"a\"\n\t}\n]", "[\n\t{\"name\": \"b\"} // b\n]"),
        ("[\n  {\"name\": \"a\"}\n]", "[\n]"),
        ("[\n  {\"name\": \"a\"}, // a\n  // all\n]", "[\n  // all\n]"),
        ("[{\n  \"name\": \"a\"\n}, {\n  \"name\": \"b\"\n}]", "[{\n  \"name\": \"b\"\n}]"),
        ("[{\n  \"name\": \"b\"\n}, {\n  \"name\": \"a\"\n}]", "[{\n  \"name\": \"b\"\n}]"),
        ("[{\"name\": \"b\"}, // b\n {\"name\": \"a\"}]", "[{\"name\": \"b\"} // b\n]"),
        (
            "[\n  {\"name\": \"b\"}\n  , {\"name\": \"a\"}\n  , {\"name\": \"c\"}\n]",
            "[\n  {\"name\": \"b\"}\n  , {\"name\": \"c\"}\n]",
        ),
        ("[\n  {\"name\": \"a\"}\n  , {\"name\": \"c\"}\n]", "[\n  {\"name\": \"c\"}\n]"),
        ("[\n  {\"name\": \"c\"}\n  , {\"name\": \"a\"}\n]", "[\n  {\"name\": \"c\"}\n]"),
        // In an object.
        (r#"{"mcpServers":{"a":{"command":"x"},"b":{}}}"#, r#"{"mcpServers":{"b":{}}}"#),
        (
            "{\n  \"mcpServers\": {\n    \"b\": {},\n    \"a\": {\n      \"command\": \"x\"\n    }\n  },\n  \"z\": 1\n}",
            "{\n  \"mcpServers\": {\n    \"b\": {}\n  },\n  \"z\": 1\n}",
        ),
    ];
    each(&cases, |text| removed(text, "a"));
}

#[test]
fn a_comment_above_goes_with_its_entry_only_where_it_can_be_of_no_other() {
    let gone = [
        ("[\n  {\"name\": \"b\"},\n  // of a\n  {\"name\": \"a\"}\n]", "[\n  {\"name\": \"b\"}\n]"),
        (
            "[\n  {\"name\": \"c\"},\n\n  // of a\n  {\"name\": \"a\"},\n\n  // of b\n  {\"name\": \"b\"}\n]",
            "[\n  {\"name\": \"c\"},\n\n\n  // of b\n  {\"name\": \"b\"}\n]",
        ),
    ];
    each(&gone, |text| removed(text, "a"));
    let stays = [
        // It may be the heading of what follows.
        (
            "[\n  // mine\n  {\"name\": \"a\"},\n  {\"name\": \"b\"}\n]",
            "[\n  // mine\n  {\"name\": \"b\"}\n]",
        ),
        // It is an entry that is switched off this way.
        (
            "[\n  {\"name\": \"b\"},\n  // {\"name\": \"c\"},\n  {\"name\": \"a\"}\n]",
            "[\n  {\"name\": \"b\"}\n  // {\"name\": \"c\"},\n]",
        ),
        // It may be about all that will be there.
        ("[\n  // mine\n  {\"name\": \"a\"}\n]", "[\n  // mine\n]"),
        ("[\n  // one\n  // two\n  {\"name\": \"a\"}\n]", "[\n  // one\n  // two\n]"),
        ("[\n  // apart\n\n  {\"name\": \"a\"}\n]", "[\n  // apart\n\n]"),
        ("[ // all\n  {\"name\": \"a\"}\n]", "[ // all\n]"),
    ];
    each(&stays, |text| removed(text, "a"));
}

#[test]
fn a_new_name_is_the_only_thing_that_is_new() {
    let cases = [
        (r#"{"mcpServers":{ "a" :{"command":"x",},},}"#, r#"{"mcpServers":{ "z" :{"command":"x",},},}"#),
        ("[{\"command\":\"x\",\n\"name\" : \"\\u0061\"}]", "[{\"command\":\"x\",\n\"name\" : \"z\"}]"),
    ];
    each(&cases, |text| renamed(text, "a", "z"));
    let without = [
        (r#"[{"command":"x"}]"#, r#"[{"name":"z","command":"x"}]"#),
        (r#"[{ "command": "x" }]"#, r#"[{ "name": "z", "command": "x" }]"#),
        (
            "[\n  {\n    // how\n    \"command\": \"x\"\n  }\n]",
            "[\n  {\n    \"name\": \"z\",\n    // how\n    \"command\": \"x\"\n  }\n]",
        ),
        ("[{}]", "[{\"name\": \"z\"}]"),
    ];
    each(&without, |text| renamed(text, "entry 1", "z"));
}

#[test]
fn a_new_entry_is_written_as_its_neighbours_are() {
    let cases = [
        (
            r#"{"mcpServers":{"a":{"command":"x"}}}"#,
            r#"{"mcpServers":{"a":{"command":"x"},"n":{"command":"npx","args":["-y","s"],"env":{"K":"v"},"enabled":false}}}"#,
        ),
        (
            "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" },\n  }\n}\n",
            "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" },\n    \"n\": { \"command\": \"npx\", \"args\": [\"-y\", \"s\"], \"env\": { \"K\": \"v\" }, \"enabled\": false },\n  }\n}\n",
        ),
        (
            "{\n\t\"mcpServers\": {\n\t\t\"a\": {\n\t\t\t\"command\": \"x\"\n\t\t} // a\n\t}\n}\n",
            "{\n\t\"mcpServers\": {\n\t\t\"a\": {\n\t\t\t\"command\": \"x\"\n\t\t}, // a\n\t\t\"n\": {\n\t\t\t\"command\": \"npx\",\n\t\t\t\"args\": [\"-y\", \"s\"],\n\t\t\t\"env\": {\n\t\t\t\t\"K\": \"v\"\n\t\t\t},\n\t\t\t\"enabled\": false\n\t\t}\n\t}\n}\n",
        ),
        (
            "{\n    \"mcpServers\": {}\n}",
            "{\n    \"mcpServers\": {\n        \"n\": {\n            \"command\": \"npx\",\n            \"args\": [\"-y\", \"s\"],\n            \"env\": {\n                \"K\": \"v\"\n            },\n            \"enabled\": false\n        }\n    }\n}",
        ),
        (
            "{\n  \"theme\": 1 // t\n}",
            "{\n  \"theme\": 1, // t\n  \"mcpServers\": {\n    \"n\": {\n      \"command\": \"npx\",\n      \"args\": [\"-y\", \"s\"],\n      \"env\": {\n        \"K\": \"v\"\n      },\n      \"enabled\": false\n    }\n  }\n}",
        ),
    ];
    let spec = stdio("n", "npx", &["-y", "s"], &[("K", "v")]);
    each(&cases, |text| added(text, &spec, false));

    let list = [
        (
            r#"[{"name":"a"},]"#,
            r#"[{"name":"a"},{"name":"n","transport":"http","url":"https://n/","enabled":true},]"#,
        ),
        (
            "[\n    {\"name\": \"a\"}\n    // {\"name\": \"off\"}\n]",
            "[\n    {\"name\": \"a\"},\n    {\"name\": \"n\", \"transport\": \"http\", \"url\": \"https://n/\", \"enabled\": true}\n    // {\"name\": \"off\"}\n]",
        ),
        (
            "[{\n  \"name\": \"a\"\n}, {\n  \"name\": \"b\"\n}]",
            "[{\n  \"name\": \"a\"\n}, {\n  \"name\": \"b\"\n}, {\n  \"name\": \"n\",\n  \"transport\": \"http\",\n  \"url\": \"https://n/\",\n  \"enabled\": true\n}]",
        ),
        (
            "// none yet\n[\n  // here\n]\n",
            "// none yet\n[\n  // here\n  {\n    \"name\": \"n\",\n    \"transport\": \"http\",\n    \"url\": \"https://n/\",\n    \"enabled\": true\n  }\n]\n",
        ),
        (
            "[]\n",
            "[\n  {\n    \"name\": \"n\",\n    \"transport\": \"http\",\n    \"url\": \"https://n/\",\n    \"enabled\": true\n  }\n]\n",
        ),
        (
            "// nothing yet\n",
            "// nothing yet\n[\n  {\n    \"name\": \"n\",\n    \"transport\": \"http\",\n    \"url\": \"https://n/\",\n    \"enabled\": true\n  }\n]\n",
        ),
    ];
    each(&list, |text| added(text, &http("n", "https://n/", &[]), true));
}

#[test]
fn what_is_new_in_an_entry_is_written_beside_what_is_old() {
    let cases = [
        (
            r#"{"servers":{"n":{"command":"npx","args":["-y","old","more"],"env":{"A":"1"}}}}"#,
            r#"{"servers":{"n":{"command":"npx","args":["-y","s"],"env":{"K":"v"}}}}"#,
        ),
        (
            "[\n  {\n    \"name\": \"n\",\n    \"command\": \"npx\",\n    \"args\": [\n      \"-y\" // yes\n    ]\n  }\n]",
            "[\n  {\n    \"name\": \"n\",\n    \"command\": \"npx\",\n    \"args\": [\n      \"-y\", // yes\n      \"s\"\n    ],\n    \"env\": {\n      \"K\": \"v\"\n    }\n  }\n]",
        ),
        (
            "[\n\t{ \"name\": \"n\", \"url\": \"https://n/\", \"transport\": \"sse\" }\n]",
            "[\n\t{ \"name\": \"n\", \"transport\": \"stdio\", \"command\": \"npx\", \"args\": [\"-y\", \"s\"], \"env\": { \"K\": \"v\" } }\n]",
        ),
    ];
    let spec = stdio("n", "npx", &["-y", "s"], &[("K", "v")]);
    each(&cases, |text| overwritten(text, &spec));
}

#[test]
fn a_value_that_moved_to_the_keychain_is_in_no_backup() {
    let text = "[\n  {\"name\": \"a\", \"command\": \"x\", \"env\": {\"K\": \"pl\\u0061in-1234\", \"O\": \"o\"}},\n  {\"name\": \"b\", \"command\": \"y\", \"args\": [\"plain-1234\"]} // b\n]\n";
    let spec = stdio("a", "x", &[], &[("K", "${secret:a.K}"), ("O", "o")]);
    let wanted = text.replace("pl\\u0061in-1234", "${secret:a.K}").replace("plain-1234", "${secret:a.K}");
    let backup = |scene: &Scene| fs::read_to_string(scene.home.root().join("mcp.json.bak"));

    // This edit would make the backup.
    let scene = Scene::with_mcp(text);
    scene.store().upstream_add(&spec, true, true).unwrap();
    assert_eq!(backup(&scene).unwrap(), wanted);
    assert!(scene.mcp().contains("[\"plain-1234\"]"), "only the named entry is edited");

    // An earlier one, by this process or another, made it.
    for same in [true, false] {
        let scene = Scene::with_mcp(text);
        let store = scene.store();
        store.upstream_rename(&name("a"), &name("c")).unwrap();
        assert_eq!(backup(&scene).unwrap(), text);
        let store = if same { store } else { scene.store() };
        let spec = UpstreamSpec { name: "c".into(), ..spec.clone() };
        store.upstream_add(&spec, true, true).unwrap();
        let kept = backup(&scene).unwrap();
        assert!(kept.contains("${secret:a.K}") && !kept.contains("1234"), "{kept}");
    }

    // What cannot be read cannot be cleaned.
    let scene = Scene::with_mcp(text);
    let store = scene.store();
    store.upstream_rename(&name("b"), &name("c")).unwrap();
    fs::write(scene.home.root().join("mcp.json.bak"), "[ \"plain-1234\"").unwrap();
    store.upstream_add(&spec, true, true).unwrap();
    assert!(backup(&scene).is_err());
}

#[test]
fn a_setting_of_a_server_is_written_alone_and_one_that_says_the_same_stays_as_it_is() {
    use evi_domain::EraChoice;
    let set = |before: &str, change: fn(&mut UpstreamSpec)| {
        let mut spec = stdio("a", "node", &["x"], &[]);
        change(&mut spec);
        overwritten(before, &spec)
    };
    let plain = "{\"mcpServers\": {\n  // mine\n  \"a\": {\"command\": \"node\", \"args\": [\"x\"], \"own\": 1}\n}}\n";
    assert_eq!(
        set(plain, |spec| spec.options.era = EraChoice::Modern),
        plain.replace("\"own\": 1", "\"own\": 1, \"era\": \"modern\"")
    );
    let timed = plain.replace("\"own\": 1", "\"timeout\": 60000, \"era\": \"legacy\"");
    assert_eq!(
        set(&timed, |spec| {
            spec.options.call_secs = Some(60);
            spec.options.era = EraChoice::Legacy;
        }),
        timed
    );
    assert_eq!(
        set(&timed, |spec| spec.options.call_secs = Some(5)),
        plain.replace("\"own\": 1", "\"tool_timeout_sec\": 5")
    );
}
