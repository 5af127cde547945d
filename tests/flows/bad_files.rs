//! Files that are not clear: eVi starts, says where, writes nothing to them, and loses nothing.

use std::fs;

use evi_tests::{House, Program, house};
use serde_json::{Value, json};

fn problem_about<'v>(info: &'v Value, file: &str) -> &'v Value {
    let problems = info["config_problems"].as_array().unwrap();
    let about = |p: &&Value| p["file"].as_str().unwrap().ends_with(file);
    problems.iter().find(about).unwrap_or_else(|| panic!("no problem about {file}: {info}"))
}

const BROKEN_JSON: &str =
    "[\n  {\"name\": \"fs\", \"command\": \"npx\"},\n  {\"name\": \"git\" \"command\": \"uvx\"}\n]\n";
const BROKEN_TOML: &str = "[tools]\nmcp = true\n\n[llm]\nmodel = \"unclosed\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_mcp_json_is_shown_with_line_and_column_and_left_as_it_is() {
    // Fault 6 of the original: an addition erased a file that did not parse.
    let house = house().with_config("[tools]\nmcp = true\n");
    house.writes("mcp.json", BROKEN_JSON);
    let person = house.opens().await;
    let info = person.asks("app_info").await;
    let problem = problem_about(&info, "mcp.json");
    assert_eq!((&problem["line"], &problem["whole_file"]), (&json!(3), &json!(true)), "{problem}");
    assert!(problem["column"].as_u64().unwrap() > 1 && !problem["message"].as_str().unwrap().is_empty());

    let program = house.server("box", "plain");
    for (command, params) in [
        ("upstream_add", json!({"draft": program.draft("box")})),
        ("upstream_add", json!({"draft": program.draft("fs"), "overwrite": true})),
    ] {
        let problem = person.is_refused(command, params).await;
        assert_eq!(json!(problem.code), "config_unreadable", "{problem:?}");
        assert!(problem.message.contains("mcp.json") && problem.message.contains(":3:"), "{problem:?}");
        assert!(problem.hint.as_deref().unwrap().contains("nothing was written"), "{problem:?}");
    }
    for command in ["upstream_remove", "upstream_restart"] {
        person.is_refused(command, json!({"name": "fs"})).await;
    }
    person.is_refused("upstream_set_enabled", json!({"name": "fs", "enabled": false})).await;
    assert_eq!(house.reads("mcp.json"), BROKEN_JSON);

    // Own tools work all the same, and mending the file is enough.
    person.calls("remember", json!({"name": "a", "content": "b"})).await;
    house.writes("mcp.json", "[]");
    let clear = |info: &Value| info["config_problems"] == json!([]);
    person.waits_for("the mended file to be read", "app_info", json!({}), clear).await;
    person.adds("box", &program).await;
    person.sees("box", "ready").await;

    // A file that becomes malformed leaves in effect what it said before.
    house.writes("mcp.json", BROKEN_JSON);
    let unclear = |info: &Value| info["config_problems"] != json!([]);
    person.waits_for("the problem", "app_info", json!({}), unclear).await;
    assert_eq!(person.server("box").await["state"], "ready");
    person.quits().await;
    assert_eq!(house.reads("mcp.json"), BROKEN_JSON);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_config_toml_is_shown_with_line_and_column_and_left_as_it_is() {
    // Fault 11 of the original: it was a traceback.
    let house = house().with_config(BROKEN_TOML);
    let person = house.opens().await;
    let info = person.asks("app_info").await;
    let problem = problem_about(&info, "config.toml");
    assert_eq!((&problem["line"], &problem["whole_file"]), (&json!(5), &json!(true)), "{problem}");
    for (command, params) in [
        ("settings_update", json!({"mcp_on": true})),
        ("gateway_set_port", json!({"port": 9999})),
        ("gateway_set_enabled", json!({"enabled": true})),
        ("category_set", json!({"category": "memory", "shared": false})),
        ("tool_set_enabled", json!({"tool": "recall", "enabled": false})),
        ("model_key_set", json!({"key": "sk-planted-key"})),
    ] {
        let problem = person.is_refused(command, params).await;
        assert_eq!(json!(problem.code), "config_unreadable", "{command}: {problem:?}");
    }
    assert!(
        person.secrets().is_empty(),
        "what was put into the keychain is taken back: {:?}",
        person.secrets()
    );
    assert_eq!(house.reads("config.toml"), BROKEN_TOML);
    // A server can be added; that servers cannot be switched on is said, and nothing is half done.
    let draft = house.server("box", "plain").draft("box");
    let problem = person.is_refused("upstream_add", json!({"draft": draft, "turn_on_mcp": true})).await;
    assert_eq!(json!(problem.code), "config_unreadable");
    assert!(!house.home().join("mcp.json").exists(), "a refused addition adds nothing");
    person.quits().await;
    assert_eq!(house.reads("config.toml"), BROKEN_TOML);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_terminal_says_the_same_and_writes_nothing() {
    let house = house();
    house.writes("mcp.json", BROKEN_JSON);
    let file = house.home().join("mcp.json").display().to_string();
    for arguments in [
        &["mcp", "add", "x", "y"][..],
        &["mcp", "add-http", "x", "https://e.org/mcp"],
        &["mcp", "add", "fs", "y", "--overwrite"],
    ] {
        let err = house.evi(arguments).await.failed(1);
        assert!(err.starts_with(&format!("error: {file}:3:")), "{arguments:?}: {err}");
    }
    for arguments in [&["mcp", "remove", "fs"][..], &["mcp", "enable", "fs"], &["mcp", "disable", "fs"]] {
        let said = house.evi(arguments).await;
        assert_eq!(said.status, 1, "{arguments:?}: {}", said.err);
    }
    let said = house.evi(["mcp", "list-servers"]).await;
    assert_eq!(said.status, 1);
    assert!(said.err.contains(&format!("{file}:3:")), "{}", said.err);
    for arguments in [&["mcp", "list-tools"][..], &["mcp", "call", "fs.x"]] {
        let said = house.evi(arguments).await;
        assert_eq!(said.status, 1, "{arguments:?}: servers that cannot be read are a failure: {}", said.err);
        assert!(said.err.contains(&format!("{file}:3:")), "{arguments:?}: {}", said.err);
    }
    assert_eq!(house.reads("mcp.json"), BROKEN_JSON);

    // Serving goes on with what there is, and says so.
    house.writes("config.toml", BROKEN_TOML);
    let mut client = house.serves(&[]).await;
    client.greets().await;
    assert_eq!(client.tools().await.len(), 6);
    let (status, err) = client.leaves().await;
    assert_eq!(status, 0);
    assert!(err.contains("config.toml:5:") && err.contains("mcp.json:3:"), "{err}");
    assert_eq!(
        (house.reads("mcp.json").as_str(), house.reads("config.toml").as_str()),
        (BROKEN_JSON, BROKEN_TOML)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_clear_in_a_lenient_file_is_used_and_the_rest_is_reported_and_kept() {
    // Fault 7 of the original: all of these were dropped without a word.
    let text = "\u{feff}// servers of this machine\n{\n  \"mcpServers\": {\n    \"one\": {\"command\": \"no-such-program-x\", \"args\": \"-y 'a b'\", \"x-own\": 1},\n    \"two\": {\"url\": \"https://e.org/mcp\", \"transport\": \"streamable-http\", \"enabled\": \"false\"},\n    \"three\": {\"args\": [\"no command\"]}, // unclear\n  },\n  \"other\": {\"kept\": true}\n}\n";
    let house = house();
    house.writes("mcp.json", text);
    let person = house.opens().await;
    let rows = person.asks("upstream_list").await;
    assert_eq!(evi_tests::names(&rows), ["one", "two", "three"], "every entry stays visible");
    assert_eq!(rows[0]["args"], json!(["-y", "a b"]));
    assert_eq!((&rows[1]["transport"], &rows[1]["enabled"]), (&json!("http"), &json!(false)));
    assert_eq!(rows[2]["state"], "invalid");
    assert!(rows[2]["problem"]["message"].as_str().unwrap().contains(":6:"), "{}", rows[2]);

    person.does("upstream_set_enabled", json!({"name": "one", "enabled": false})).await;
    person.does("upstream_add", json!({"draft": Program::new("node").draft("four")})).await;
    person.does("upstream_remove", json!({"name": "four"})).await;
    let now = house.reads("mcp.json");
    assert!(now.starts_with("\u{feff}// servers of this machine\n"), "{now}");
    for kept in
        ["\"x-own\": 1", "// unclear", "\"other\": {\"kept\": true}", "\"streamable-http\"", "no command"]
    {
        assert!(now.contains(kept), "{kept} is gone from {now}");
    }
    person.quits().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn what_evi_makes_is_for_this_user_only_and_a_files_own_mode_is_kept() {
    // Fault 5 of the original: secrets in files readable by everybody.
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |house: &House, name: &str| {
        fs::metadata(house.home().join(name)).unwrap().permissions().mode() & 0o777
    };
    let house = house();
    house.evi(["mcp", "add", "x", "y", "--env", "TOKEN=abc"]).await;
    assert_eq!((mode(&house, ""), mode(&house, "mcp.json")), (0o700, 0o600));
    let person = house.opens().await;
    person.does("settings_update", json!({"mcp_on": false})).await;
    for folder in ["state", "state/run", "state/logs", "state/catalog", "state/results"] {
        assert_eq!(mode(&house, folder), 0o700, "{folder}");
    }
    for file in ["config.toml", "state/evi.db"] {
        assert_eq!(mode(&house, file), 0o600, "{file}");
    }
    fs::set_permissions(house.home().join("mcp.json"), fs::Permissions::from_mode(0o644)).unwrap();
    person.does("upstream_set_enabled", json!({"name": "x", "enabled": false})).await;
    assert_eq!(mode(&house, "mcp.json"), 0o644);
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unreadable_template_leaves_the_others_in_the_list() {
    // Fault 11 of the original: it broke the list for everybody.
    let house = house();
    house.writes("commands/good.md", "---\ndescription: Good\n---\nSay $1\n");
    house.writes("commands/bad.md", "---\ndescription: [unclosed\n---\nx\n");
    fs::write(house.home().join("commands/worse.md"), [0xff, 0xfe, 0x00, 0x80]).unwrap();
    let mut client = house.serves(&[]).await;
    client.greets().await;
    let answer = client.asks("prompts/list", json!({})).await;
    let prompts = evi_tests::names(&answer["result"]["prompts"]);
    assert!(prompts.contains(&"good".to_owned()), "{answer}");
    assert_eq!(client.leaves().await.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_database_keeps_nothing_from_starting_and_is_kept() {
    let house = house();
    let rubbish = "this is no database any more ".repeat(500);
    house.writes("state/evi.db", &rubbish);
    let person = house.opens().await;
    let info = person.asks("app_info").await;
    let problem = problem_about(&info, "evi.db");
    assert!(problem["message"].as_str().unwrap().contains("evi.db.damaged-"), "{problem}");
    let chat = person.says(None, "/call list_memories").await;
    person.reads_to_the_end(&chat).await;
    assert_eq!(house.files_with(&rubbish).len(), 1, "the old file is kept");
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_home_that_cannot_be_made_is_an_error_that_says_what_to_do() {
    let house = house();
    let file = house.folder().join("apples.txt").display().to_string();
    for arguments in
        [&["mcp", "add", "x", "y"][..], &["mcp", "call", "list_memories"], &["mcp", "serve"], &["web"]]
    {
        let said = house.evi_with(arguments, &[("EVI_HOME", &file)]).await;
        assert_eq!(said.status, 1, "{arguments:?}: {}", said.err);
        let err = said.err;
        assert!(err.contains("error: could not ") && err.contains(&file), "{arguments:?}: {err}");
        assert!(err.contains("hint: ") && err.contains("EVI_HOME"), "{arguments:?}: {err}");
        assert!(!err.contains("panicked"), "{err}");
    }
}
