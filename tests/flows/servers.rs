//! A person adds a server, watches it come up, and uses its tools.

use evi_tests::{house, peers};
use serde_json::{Value, json};

/// The tools of the reference server for files, at the pinned version.
pub const FILESYSTEM_TOOLS: [&str; 14] = [
    "create_directory",
    "directory_tree",
    "edit_file",
    "get_file_info",
    "list_allowed_directories",
    "list_directory",
    "list_directory_with_sizes",
    "move_file",
    "read_file",
    "read_media_file",
    "read_multiple_files",
    "read_text_file",
    "search_files",
    "write_file",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_person_adds_the_filesystem_server_watches_its_stages_and_lists_a_directory() {
    let house = house();
    let person = house.opens().await;
    assert_eq!(person.asks("upstream_list").await, json!([]));
    assert_eq!(person.asks("app_info").await["mcp_on"], json!(false));

    let added = person.adds("filesystem", &peers::filesystem(&house)).await;
    assert_eq!(
        added["turned_on_mcp"],
        json!(true),
        "adding the first server in a window switches servers on"
    );
    assert!(added["summary"].as_str().unwrap().starts_with("node "), "{added}");

    let row = person.sees("filesystem", "ready").await;
    let stages = row["stages"].as_array().unwrap();
    let kinds: Vec<&str> = stages.iter().map(|s| s["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["saved", "started", "handshake", "discovery"]);
    for stage in stages {
        assert_eq!(stage["state"], "done", "{stage}");
    }
    for stage in &stages[1..] {
        assert!(stage["took_ms"].is_u64(), "a stage says how long it took: {stage}");
        assert!(stage["detail"].is_string(), "a stage says what it gave: {stage}");
    }
    assert!(stages[2]["detail"].as_str().unwrap().contains(row["protocol"].as_str().unwrap()), "{row}");
    assert!(stages[3]["detail"].as_str().unwrap().contains("14"), "{row}");
    assert_eq!(row["tools"], json!(14));
    assert!(row["pid"].is_u64());

    let list = person.asks("tool_list").await;
    let mut names: Vec<String> = list["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|tool| tool["server"] == "filesystem")
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, FILESYSTEM_TOOLS.map(|tool| format!("filesystem.{tool}")));
    let tool = find(&list, "filesystem.list_directory");
    assert_eq!(tool["input_schema"]["properties"]["path"]["type"], "string");
    assert!(!tool["description"].as_str().unwrap().is_empty());
    assert_eq!(tool["model_name"], "filesystem__list_directory");

    let text = person.calls("filesystem.list_directory", json!({"path": house.folder()})).await;
    assert_eq!(text, "[FILE] apples.txt\n[FILE] pears.txt");
    let activity = person.asks("activity_list").await;
    assert_eq!(activity[0]["tool"], "filesystem.list_directory");
    assert_eq!((&activity[0]["caller"], &activity[0]["outcome"]), (&json!("person"), &json!("ok")));

    // A tool's own failure is a result, not a problem.
    let failed = person
        .does("tool_call", json!({"tool": "filesystem.list_directory", "arguments": {"path": "/"}}))
        .await;
    assert_eq!(failed["outcome"], "tool_error");
    assert!(failed["text"].as_str().unwrap().contains("denied"), "{failed}");

    person.quits().await;
    let marker = house.folder().display().to_string();
    assert!(
        evi_tests::running_with(&marker, "server-filesystem").is_empty(),
        "quitting leaves no server behind"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_pastes_is_split_and_its_program_found() {
    let house = house();
    let person = house.opens().await;
    let line = "npx -y @modelcontextprotocol/server-filesystem /some/folder";
    let parsed = person.does("upstream_parse", json!({"text": line})).await;
    let draft = &parsed["drafts"][0];
    assert_eq!((&draft["name"], &draft["command"]), (&json!("filesystem"), &json!("npx")));
    assert_eq!(draft["args"], json!(["-y", "@modelcontextprotocol/server-filesystem", "/some/folder"]));
    assert!(parsed["resolved"].as_str().unwrap().contains("npx"), "{parsed}");
    let missing = person.does("upstream_parse", json!({"text": "no-such-program-x --flag"})).await;
    assert!(missing["problem"]["message"].as_str().unwrap().contains("no-such-program-x"), "{missing}");
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_crashes_or_changes_its_tools_needs_no_restart_of_evi() {
    let house = house();
    let person = house.opens().await;
    person.adds("box", &house.server("box", "plain")).await;
    person.sees("box", "ready").await;

    // Fault 10 of the original: a change of its tools was ignored.
    person.calls("box.grow", json!({})).await;
    let has = |name: &'static str| {
        move |list: &Value| list["tools"].as_array().unwrap().iter().any(|t| t["name"] == name)
    };
    person.waits_for("the new tool", "tool_list", json!({}), has("box.late")).await;

    // Fault 10 again: a crashed server stayed dead.
    let before = person.server("box").await["pid"].clone();
    let problem = person.is_refused("tool_call", json!({"tool": "box.crash", "arguments": {}})).await;
    assert!(problem.message.contains("box"), "{problem:?}");
    let back = |row: &Value| row["state"] == "ready" && row["pid"] != before;
    person.waits_for("the server to come back", "upstream_get", json!({"name": "box"}), back).await;
    assert_eq!(person.calls("box.look", json!({"what": "again"})).await, r#"{"what": "again"}"#);

    // A restart by hand is a new process, and switching off leaves none.
    let before = person.server("box").await["pid"].clone();
    person.does("upstream_restart", json!({"name": "box"})).await;
    let new = |row: &Value| row["state"] == "ready" && row["pid"] != before;
    person.waits_for("a new process", "upstream_get", json!({"name": "box"}), new).await;
    person.does("upstream_set_enabled", json!({"name": "box", "enabled": false})).await;
    person.sees("box", "off").await;
    let marker = house.notes_file("box").display().to_string();
    evi_tests::until("no process of the server", || async {
        evi_tests::running_with(&marker, "adversary").is_empty().then_some(())
    })
    .await;
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_server_is_used_over_the_older_transport_by_either_name_of_it() {
    let (house, server) = (house(), peers::everything_sse().await);
    let person = house.opens().await;
    // `http` is what a person writes who does not know; the stream is found all the same.
    for (name, transport) in [("old", "sse"), ("guess", "http")] {
        let draft = json!({"name": name, "transport": transport, "url": server.url});
        person.does("upstream_add", json!({"draft": draft, "turn_on_mcp": true})).await;
        let row = person.sees(name, "ready").await;
        assert!(row["tools"].as_u64().unwrap() > 5, "{row}");
        let said = person.calls(&format!("{name}.echo"), json!({"message": "grüß dich"})).await;
        assert!(said.contains("grüß dich"), "{said}");
        let sum = person.calls(&format!("{name}.get-sum"), json!({"a": 2, "b": 40})).await;
        assert!(sum.contains("42"), "{sum}");
    }
    // A new session by hand is another stream.
    person.does("upstream_restart", json!({"name": "old"})).await;
    person.sees("old", "ready").await;
    person.calls("old.echo", json!({"message": "again"})).await;
    // The server ends: the next call says so, and nothing hangs.
    drop(server);
    person.sees("old", "failed").await;
    person.is_refused("tool_call", json!({"tool": "old.echo", "arguments": {"message": "x"}})).await;
    person.quits().await;
}

fn find<'v>(list: &'v Value, name: &str) -> &'v Value {
    list["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).expect(name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_servers_own_settings_are_saved_alone_and_a_wrong_one_names_its_field() {
    let house = house().with_servers_on();
    let text = "[\n  // mine\n  {\"name\": \"box\", \"command\": \"no-such-program-x\", \"args\": [], \"own\": 1}\n]\n";
    house.writes("mcp.json", text);
    let person = house.opens().await;
    let draft = |options: Value| json!({"name": "box", "draft": {"name": "box", "transport": "stdio", "command": "no-such-program-x", "options": options}});
    let row = person.does("upstream_edit", draft(json!({"tool_timeout_sec": 30}))).await;
    assert_eq!(row["options"], json!({"tool_timeout_sec": 30}));
    let saved = text.replace("\"own\": 1", "\"own\": 1, \"tool_timeout_sec\": 30");
    assert_eq!(house.reads("mcp.json"), saved);
    for (wrong, field) in
        [(json!({"era": "old"}), "era"), (json!({"startup_timeout_sec": 0}), "startup_timeout_sec")]
    {
        let problem = person.is_refused("upstream_edit", draft(wrong)).await;
        assert_eq!(problem.field.as_deref(), Some(field));
    }
    // Whoever knows nothing of them leaves them as they are.
    let plain = json!({"name": "box", "transport": "stdio", "command": "no-such-program-x"});
    person.does("upstream_edit", json!({"name": "box", "draft": plain})).await;
    assert_eq!(house.reads("mcp.json"), saved);
    person.quits().await;
}
