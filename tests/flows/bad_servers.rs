//! Servers that do not come up: each has its state and its reason, and the others do not notice.

use std::time::Duration;

use evi_app::{MemoryVault, Shell};
use evi_tests::{House, Person, Program, house, until};
use serde_json::{Value, json};

fn python() -> &'static str {
    if cfg!(windows) { "python" } else { "python3" }
}

/// Opens the window with a start limit that a test can wait for.
async fn opens_soon_impatient(house: &House) -> Person {
    let impatient = |options: &mut evi_app::Options| options.start_limit = Some(Duration::from_secs(4));
    house
        .opens_with(Shell::Desktop, |redactor| std::sync::Arc::new(MemoryVault::new(redactor)), impatient)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_way_not_to_come_up_is_a_state_with_its_reason_and_the_others_go_on() {
    let house = house().with_servers_on();
    let server = |name: &str, mode: &str| house.server(name, mode);
    let all = [
        ("missing", Program::new("no-such-program-x"), "program_not_found"),
        ("exits", server("exits", "exits"), "exited"),
        ("junk", server("junk", "junk"), "handshake_timeout"),
        ("hangs", server("hangs", "hangs"), "handshake_timeout"),
        ("version", server("version", "version").arg("2099-01-01"), "unsupported_version"),
        ("other", Program::new(python()).arg("-c").arg("print('hello')"), "exited"),
        ("folder", Program::new(house.folder().display()), "program_not_found"),
    ];
    let good = house.server("good", "plain");
    let mut house = house;
    for (name, program, _) in &all {
        house = house.with_server(name, program);
    }
    let house = house.with_server("good", &good);
    let person = opens_soon_impatient(&house).await;

    let good = person.sees("good", "ready").await;
    assert_eq!(
        person.calls("good.look", json!({"what": "x"})).await,
        r#"{"what": "x"}"#,
        "while others are on their way"
    );
    for (name, _, wanted) in &all {
        // One that was tried again and again has a word for that.
        let failed = |row: &Value| {
            let reason =
                row["failure"] == **wanted || (*wanted == "exited" && row["failure"] == "crash_loop");
            // While it is tried again its last failure is there, and its steps are those of the new try.
            reason && !["starting", "installing"].contains(&row["state"].as_str().unwrap())
        };
        let row =
            person.waits_for(&format!("{name} to fail"), "upstream_get", json!({"name": name}), failed).await;
        let problem = &row["problem"];
        let message = problem["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("could not start \"{name}\": ")), "{message}");
        assert!(!problem["hint"].as_str().unwrap().is_empty(), "{problem}");
        let stages = row["stages"].as_array().unwrap();
        assert_eq!(stages[0]["state"], "done", "it was saved");
        assert!(stages.iter().any(|s| s["state"] == "failed"), "the step that failed is marked: {row}");
        assert_eq!(row["tools"], json!(0));
    }
    let said = |row: &Value| row["stderr"] == json!(["no API key"]);
    person.waits_for("its last lines", "upstream_get", json!({"name": "exits"}), said).await;
    let version = person.server("version").await["problem"]["message"].as_str().unwrap().to_owned();
    assert!(version.contains("2099-01-01"), "{version}");
    let missing = person.server("missing").await["problem"].clone();
    assert!(missing["hint"].as_str().unwrap().contains("searched: "), "{missing}");
    let log = person.does("upstream_log", json!({"name": "junk"})).await;
    assert!(log.to_string().contains("this is not the protocol"), "junk is in the log");

    // The list of tools says whose are missing and why, and so does a call.
    let list = person.asks("tool_list").await;
    let missing = list["missing"].as_array().unwrap();
    assert_eq!(missing.len(), all.len(), "{missing:?}");
    assert!(person.tools().await.contains(&"good.look".to_owned()));
    let problem = person.is_refused("tool_call", json!({"tool": "exits.look", "arguments": {}})).await;
    assert_eq!(json!(problem.code), "unknown_tool");

    // Switching a failed one off ends the attempts, and fixing it brings it up.
    let fixed = house.server("fixed", "plain").draft("exits");
    person.does("upstream_edit", json!({"name": "exits", "draft": fixed})).await;
    person.sees("exits", "ready").await;
    for (name, ..) in &all {
        person.does("upstream_set_enabled", json!({"name": name, "enabled": false})).await;
    }
    for name in ["junk", "hangs"] {
        let marker = house.notes_file(name).display().to_string();
        until("no process of a server that is off", || async {
            evi_tests::running_with(&marker, "adversary").is_empty().then_some(())
        })
        .await;
    }
    assert_eq!(person.server("good").await["pid"], good["pid"], "it never noticed");
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_out_of_reach_say_why() {
    // Fault 8 of the original: empty reasons for 401, refused and timeout.
    let router = axum::Router::new()
        .route("/secured", axum::routing::any(async || axum::http::StatusCode::UNAUTHORIZED))
        .route("/broken", axum::routing::any(async || axum::http::StatusCode::INTERNAL_SERVER_ERROR));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let house = house();
    let person = house.opens().await;
    let closed = evi_tests::Door::free_port();
    for (name, url, failure) in [
        ("secured", format!("http://{address}/secured"), "unauthorized"),
        ("broken", format!("http://{address}/broken"), "server_error"),
        ("nowhere", format!("http://{address}/nowhere"), "not_found"),
        ("closed", format!("http://127.0.0.1:{closed}/mcp"), "refused"),
    ] {
        let draft = json!({"name": name, "transport": "http", "url": url});
        person.does("upstream_add", json!({"draft": draft, "turn_on_mcp": true})).await;
        let failed = |row: &Value| row["failure"] == failure;
        let row =
            person.waits_for(&format!("{name} to fail"), "upstream_get", json!({"name": name}), failed).await;
        assert!(row["problem"]["message"].as_str().unwrap().contains(name), "{row}");
        assert!(row["problem"]["hint"].is_string(), "{row}");
    }
    serving.abort();
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_with_a_mistake_names_its_field_and_saves_nothing() {
    let house = house();
    let person = house.opens().await;
    for (draft, field) in [
        (json!({"name": "", "transport": "stdio", "command": "x"}), "name"),
        (json!({"name": "a\nb", "transport": "stdio", "command": "x"}), "name"),
        (json!({"name": "x", "transport": "stdio", "command": " "}), "command"),
        (json!({"name": "x", "transport": "http", "url": "ftp://e.org"}), "url"),
        (json!({"name": "x", "transport": "pigeon", "url": "https://e.org"}), "transport"),
        (
            json!({"name": "x", "transport": "stdio", "command": "y", "env": [{"key": "A=B", "value": "c"}]}),
            "env",
        ),
        (
            json!({"name": "x", "transport": "http", "url": "https://e.org", "headers": [{"key": "A"}]}),
            "headers",
        ),
    ] {
        let problem = person.is_refused("upstream_add", json!({"draft": draft, "turn_on_mcp": true})).await;
        assert_eq!(
            (json!(problem.code), problem.field.as_deref()),
            (json!("invalid_input"), Some(field)),
            "{draft}"
        );
    }
    assert!(!house.home().join("mcp.json").exists());
    assert_eq!(person.asks("app_info").await["mcp_on"], json!(false));
    person.adds("x", &Program::new("node")).await;
    let problem = person.is_refused("upstream_add", json!({"draft": Program::new("other").draft("x")})).await;
    assert_eq!((json!(problem.code), problem.field.as_deref()), (json!("already_exists"), Some("name")));
    assert!(house.reads("mcp.json").contains("\"node\""));
    person.quits().await;
}
