//! Values that must not be seen: planted in every place where one can enter, looked for in every place where one
//! could come out.

use std::sync::Arc;

use evi_app::{MemoryVault, Shell};
use evi_tests::{House, NoKeychain, Person, Program, house, until};
use serde_json::{Value, json};

const ENV_VALUE: &str = "planted-env-value-7f3a";
const HEADER_VALUE: &str = "planted-header-value-91bc";
const CHANGED_VALUE: &str = "planted-changed-value-55de";

/// Asks every question that has no parameters, and those about a server.
async fn asks_everything(person: &Person, servers: &[&str]) {
    for query in [
        "app_info",
        "settings_get",
        "upstream_list",
        "tool_list",
        "activity_list",
        "gateway_get",
        "connect_clients",
        "connect_text",
        "chat_list",
        "approval_list",
    ] {
        person.asks(query).await;
    }
    for name in servers {
        person.does("upstream_get", json!({"name": name})).await;
        person.does("upstream_log", json!({"name": name})).await;
    }
}

fn is_nowhere(house: &House, person: &Person, value: &str) {
    assert!(house.files_with(value).is_empty(), "{value} is in {:?}", house.files_with(value));
    assert!(!person.ever_heard(value), "{value} was in an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_entered_as_secret_is_in_the_keychain_and_nowhere_else() {
    let house = house();
    let person = house.opens().await;
    let mut events = person.front().events();
    let mut draft = house.server("box", "plain").draft("box");
    draft["env"] = json!([
        {"key": "SECRET", "value": ENV_VALUE, "secret": true},
        {"key": "LEVEL", "value": "debug"},
        {"key": "HOME_OF", "value": "${env:HOME}", "secret": true},
    ]);
    person.does("upstream_add", json!({"draft": draft, "turn_on_mcp": true})).await;
    person.sees("box", "ready").await;
    let file: Value = serde_json::from_str(&house.reads("mcp.json")).unwrap();
    let reference = file[0]["env"]["SECRET"].as_str().unwrap();
    let id =
        reference.strip_prefix("${secret:").and_then(|r| r.strip_suffix('}')).expect(reference).to_owned();
    assert_eq!(
        (&file[0]["env"]["LEVEL"], &file[0]["env"]["HOME_OF"]),
        (&json!("debug"), &json!("${env:HOME}"))
    );
    assert_eq!(person.secrets().get(&id).map(String::as_str), Some(ENV_VALUE));
    let row = person.server("box").await;
    assert_eq!(
        (&row["env_keys"], &row["secret_keys"]),
        (&json!(["HOME_OF", "LEVEL", "SECRET"]), &json!(["SECRET"]))
    );

    // The server gets the value; what it prints and what it says when it fails is redacted.
    assert_eq!(person.calls("box.env", json!({"name": "LEVEL"})).await, "debug");
    let problem =
        person.is_refused("tool_call", json!({"tool": "box.leak", "arguments": {"given": ENV_VALUE}})).await;
    assert!(problem.message.contains("could not use"), "{problem:?}");
    let printed = |log: &Value| log.to_string().contains("my secret is");
    person.waits_for("the printed line", "upstream_log", json!({"name": "box"}), printed).await;
    asks_everything(&person, &["box"]).await;
    is_nowhere(&house, &person, ENV_VALUE);

    // One that refuses the handshake, and says with what.
    let mut refusing = house.server("refusing", "refuses").draft("refusing");
    refusing["env"] = json!([{"key": "SECRET", "value": ENV_VALUE, "secret": true}]);
    person.does("upstream_add", json!({"draft": refusing})).await;
    let row = person.sees("refusing", "failed").await;
    assert!(row["problem"]["message"].as_str().unwrap().contains("bad key [secret]"), "{row}");
    asks_everything(&person, &["refusing"]).await;
    is_nowhere(&house, &person, ENV_VALUE);
    person.does("upstream_remove", json!({"name": "refusing"})).await;

    // A header of a server that cannot be reached.
    let closed = evi_tests::Door::free_port();
    let draft = json!({
        "name": "far", "transport": "http", "url": format!("http://127.0.0.1:{closed}/mcp"),
        "headers": [{"key": "Authorization", "value": format!("Bearer {HEADER_VALUE}"), "secret": true}],
    });
    person.does("upstream_add", json!({"draft": draft})).await;
    person.sees("far", "failed").await;
    asks_everything(&person, &["box", "far"]).await;
    is_nowhere(&house, &person, HEADER_VALUE);

    // I67: an edit keeps what is not given, replaces what is, and a rename moves nothing.
    let mut draft = house.server("box", "plain").draft("box");
    draft["env"] = json!([{"key": "SECRET"}]);
    person.does("upstream_edit", json!({"name": "box", "draft": draft})).await;
    assert_eq!(person.secrets().get(&id).map(String::as_str), Some(ENV_VALUE), "kept");
    person.does("upstream_rename", json!({"name": "box", "to": "chest"})).await;
    person.sees("chest", "ready").await;
    draft["name"] = json!("chest");
    draft["env"] = json!([{"key": "SECRET", "value": CHANGED_VALUE, "secret": true}]);
    person.does("upstream_edit", json!({"name": "chest", "draft": draft})).await;
    person.sees("chest", "ready").await;
    let values: Vec<String> = person.secrets().into_values().collect();
    assert!(
        values.contains(&CHANGED_VALUE.to_owned()) && !values.contains(&ENV_VALUE.to_owned()),
        "{values:?}"
    );
    is_nowhere(&house, &person, CHANGED_VALUE);

    // Removing a server removes its values.
    person.does("upstream_remove", json!({"name": "chest"})).await;
    person.does("upstream_remove", json!({"name": "far"})).await;
    let left: Vec<String> = person.secrets().into_keys().collect();
    assert_eq!(left, ["gateway.token"], "nothing of a server is left");
    while let Ok(event) = events.try_recv() {
        let event = event.to_string();
        assert!(!event.contains("planted-"), "{event}");
    }
    person.quits().await;
    for value in [ENV_VALUE, HEADER_VALUE, CHANGED_VALUE] {
        assert!(house.files_with(value).is_empty(), "{value} is in {:?}", house.files_with(value));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_of_evi_writes_no_secret_into_any_log() {
    let house = house().with_servers_on();
    let house = {
        let program = house.server("box", "plain");
        let house = house.with_server("box", &program);
        let text = house.reads("mcp.json").replace(
            "\"enabled\": true",
            "\"enabled\": true, \"env\": {\"SECRET\": \"${secret:box.secret}\"}",
        );
        house.writes("mcp.json", &text);
        house
    };
    // EVI_SECRET_<ID> stands in for the keychain.
    let environment = [("EVI_SECRET_BOX_SECRET", ENV_VALUE), ("EVI_LOG", "trace")];
    let said = house.evi_with(["mcp", "call", "box.leak"], &environment).await;
    let err = said.failed(1);
    assert!(err.contains("could not use [redacted]"), "{err}");
    let said = house.evi_with(["mcp", "list-tools"], &environment).await;
    assert!(said.out.contains("box.leak") && !said.out.contains(ENV_VALUE));
    assert!(house.files_with(ENV_VALUE).is_empty(), "{:?}", house.files_with(ENV_VALUE));
    assert!(!house.files_with("my secret is [secret]").is_empty(), "the line itself is in the server's log");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_keychain_evi_starts_says_so_and_refuses_a_secret_before_it_writes() {
    let house = house();
    let person = house.opens_with(Shell::Desktop, |_| Arc::new(NoKeychain), |_| {}).await;
    let info = person.asks("app_info").await;
    assert_eq!(info["keychain_problem"]["code"], "no_keychain");
    assert!(info["keychain_problem"]["hint"].as_str().unwrap().contains("gnome-keyring"), "{info}");
    let mut draft = house.server("box", "plain").draft("box");
    draft["env"] = json!([{"key": "SECRET", "value": ENV_VALUE, "secret": true}]);
    let problem = person.is_refused("upstream_add", json!({"draft": draft, "turn_on_mcp": true})).await;
    assert_eq!((json!(problem.code), problem.field.as_deref()), (json!("no_keychain"), Some("env")));
    assert!(!house.home().join("mcp.json").exists(), "nothing was written");
    assert_eq!(person.asks("app_info").await["mcp_on"], json!(false));
    person.is_refused("model_key_set", json!({"key": "sk-planted-key"})).await;
    assert!(!house.home().join("config.toml").exists(), "nothing was written");
    // A plain value still works, and the gateway has a token for as long as eVi runs.
    draft["env"][0]["secret"] = json!(false);
    draft["env"][0]["value"] = json!("plain");
    person.does("upstream_add", json!({"draft": draft, "turn_on_mcp": true})).await;
    person.sees("box", "ready").await;
    assert_eq!(person.calls("box.env", json!({"name": "SECRET"})).await, "plain");
    assert_eq!(person.asks("gateway_get").await["token_kept"], json!(false));
    person.quits().await;
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_without_a_keychain_refuses_a_secret_and_writes_nothing() {
    let house = house();
    let pair = format!("SECRET={ENV_VALUE}");
    let err = house.evi(["mcp", "add", "box", "node", "--secret", "--env", &pair]).await.failed(1);
    assert!(err.starts_with("error: no keychain is available") && err.contains("\nhint: "), "{err}");
    assert!(!err.contains(ENV_VALUE));
    assert!(!house.home().join("mcp.json").exists());
    assert!(house.files_with(ENV_VALUE).is_empty());
    let page = house.opens_page().await;
    assert_eq!(page.does("app_info", json!({})).await["keychain_problem"]["code"], "no_keychain");
    page.closes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i68_a_server_whose_secret_is_missing_or_locked_does_not_start_and_the_others_do() {
    let house = house().with_servers_on();
    let good = house.server("good", "plain");
    let bad = house.server("bad", "plain");
    let house = house.with_server("bad", &bad).with_server("good", &good);
    let text = house.reads("mcp.json").replacen(
        "\"enabled\": true",
        "\"enabled\": true, \"env\": {\"SECRET\": \"${secret:nowhere}\"}",
        1,
    );
    house.writes("mcp.json", &text);
    let person = house.opens().await;
    person.sees("good", "ready").await;
    let row = person.sees("bad", "failed").await;
    assert!(row["problem"]["message"].as_str().unwrap().contains("nowhere"), "{row}");
    assert_eq!(house.notes("bad"), Vec::<String>::new(), "it was never started with an empty value");
    person.quits().await;

    // A keychain that is not there now: locked, not missing.
    let person = house.opens_with(Shell::Desktop, |_| Arc::new(NoKeychain), |_| {}).await;
    let row = person.sees("bad", "secret_locked").await;
    assert_eq!(row["problem"]["code"], "secret_locked");
    person.sees("good", "ready").await;
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i66_an_unset_variable_is_named_and_a_default_is_used() {
    let house = house().with_servers_on();
    let program = house.server("box", "plain");
    let house = house
        .with_server("box", &program)
        .with_server("unset", &Program::new("node").arg("${env:NO_SUCH_VARIABLE_X}"));
    let text = house.reads("mcp.json").replacen(
        "\"enabled\": true",
        "\"enabled\": true, \"env\": {\"A\": \"${NO_SUCH_VARIABLE_X:-by default}\", \"B\": \"$HOME and $${x}\"}",
        1,
    );
    house.writes("mcp.json", &text);
    let person = house.opens_with(Shell::Desktop, |r| Arc::new(MemoryVault::new(r)), |_| {}).await;
    person.sees("box", "ready").await;
    assert_eq!(person.calls("box.env", json!({"name": "A"})).await, "by default");
    assert_eq!(person.calls("box.env", json!({"name": "B"})).await, "$HOME and ${x}");
    let row = person.sees("unset", "failed").await;
    assert!(row["problem"].to_string().contains("NO_SUCH_VARIABLE_X"), "{row}");
    until("nothing more to start", || async { Some(()) }).await;
    person.quits().await;
}
