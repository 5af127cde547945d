//! A person shares tools with other applications over HTTP; a foreign client uses them.

use evi_tests::{Door, House, Person, house, names, peers};
use reqwest::StatusCode;
use serde_json::{Value, json};

/// Switches the gateway on at a free port and gives its door.
pub async fn opened(person: &Person) -> Door {
    person.does("gateway_set_port", json!({"port": Door::free_port()})).await;
    let view = person.does("gateway_set_enabled", json!({"enabled": true})).await;
    assert_eq!((&view["state"], &view["enabled"]), (&json!("running"), &json!(true)), "{view}");
    let token = person.asks("gateway_token_copy").await["token"].as_str().unwrap().to_owned();
    Door::new(view["address"].as_str().unwrap(), Some(&token))
}

async fn with_box(house: &House) -> Person {
    let person = house.opens().await;
    person.adds("box", &house.server("box", "plain")).await;
    person.sees("box", "ready").await;
    person
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_inspector_sees_memories_then_what_is_shared_and_calls_both_without_a_question() {
    let house = house();
    let person = house.opens().await;
    person.adds("filesystem", &peers::filesystem(&house)).await;
    let door = opened(&person).await;
    assert_eq!(person.asks("gateway_get").await["token_kept"], json!(true));
    let header = format!("Authorization: Bearer {}", door.token.as_deref().unwrap());
    let inspect = async |arguments: &[&str]| {
        let mut all = vec![door.address.as_str(), "--transport", "http", "--header", &header];
        all.extend(arguments);
        peers::inspector(&all).await
    };

    let memory = ["forget", "list_memories", "recall", "recall_by_tag", "remember", "search_memories"];
    let mut seen = names(&inspect(&["--method", "tools/list"]).await["tools"]);
    seen.sort();
    assert_eq!(seen, memory, "nothing of a server before it is shared");

    person.sees("filesystem", "ready").await;
    let view = person.does("share_set", json!({"server": "filesystem", "mode": "full"})).await;
    assert_eq!(view["shares"][0], json!({"server": "filesystem", "tools": 14, "mode": "full"}));
    assert_eq!(view["tools"], json!(20));
    let mut seen = names(&inspect(&["--method", "tools/list"]).await["tools"]);
    seen.sort();
    let mut wanted: Vec<String> = memory.map(str::to_owned).to_vec();
    wanted.extend(crate::servers::FILESYSTEM_TOOLS.map(|tool| format!("filesystem.{tool}")));
    wanted.sort();
    assert_eq!(seen, wanted);

    let path = format!("path={}", house.folder().display());
    let listed =
        inspect(&["--method", "tools/call", "--tool-name", "filesystem.list_directory", "--tool-arg", &path])
            .await;
    assert_eq!(listed["content"][0]["text"], "[FILE] apples.txt\n[FILE] pears.txt");
    let kept = inspect(&[
        "--method",
        "tools/call",
        "--tool-name",
        "remember",
        "--tool-args-json",
        r#"{"name": "fruit", "content": "apples are red", "tags": "food"}"#,
        "--protocol-era",
        "modern",
    ])
    .await;
    assert_ne!(kept["isError"], json!(true), "{kept}");
    assert_eq!(house.reads("memory/fruit.md"), "apples are red\n\n<!-- tags: food -->\n");
    assert_eq!(person.asks("approval_list").await, json!([]), "sharing was the consent");

    let activity = person.asks("activity_list").await;
    let tools: Vec<&str> =
        activity.as_array().unwrap().iter().map(|row| row["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["remember", "filesystem.list_directory"]);
    assert_ne!(activity[0]["caller"], "person", "the record names the client");

    let memories = inspect(&["--method", "resources/list"]).await;
    assert_eq!(memories["resources"][0]["uri"], "evi://memory/fruit");
    let (status, _, err) = peers::run_inspector(&[
        &door.address,
        "--transport",
        "http",
        "--stored-auth-only",
        "--method",
        "tools/list",
    ])
    .await;
    assert_ne!(status, 0, "without the token: {err}");
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_door_asks_for_the_token_and_turns_foreign_pages_away() {
    let house = house();
    let person = house.opens().await;
    let door = opened(&person).await;
    assert_eq!(door.post(&Door::hello()).send().await.unwrap().status(), StatusCode::OK);

    let stranger = Door::new(&door.address, None);
    let refused = stranger.post(&Door::hello()).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert!(refused.headers().contains_key("www-authenticate"));
    // Fault 3 of the original.
    for origin in ["https://evil.example", "null"] {
        let refused = door.post(&Door::hello()).header("origin", origin).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "Origin {origin}");
    }
    let refused = door.post(&Door::hello()).header("host", "evil.example").send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let refused = door.post(&Door::hello()).header("mcp-session-id", "../../x").send().await.unwrap();
    assert!(refused.status().is_client_error() || refused.status() == StatusCode::OK, "{}", refused.status());
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let lost = door.post(&call).header("mcp-session-id", "../../x").send().await.unwrap();
    assert_eq!(lost.status(), StatusCode::NOT_FOUND, "an unknown session is 404");
    let elsewhere = Door::new(&format!("{}/", door.address), door.token.as_deref());
    let missing = elsewhere.post(&Door::hello()).send().await.unwrap();
    assert!(missing.status() == StatusCode::NOT_FOUND, "exactly /mcp and no redirect: {}", missing.status());

    // A new token ends the old one at once.
    let hint = person.asks("gateway_get").await["token_hint"].clone();
    let view = person.asks("gateway_token_replace").await;
    assert_ne!(view["token_hint"], hint);
    let old = door.post(&Door::hello()).send().await.unwrap();
    assert_eq!(old.status(), StatusCode::UNAUTHORIZED);
    let token = person.asks("gateway_token_copy").await["token"].as_str().unwrap().to_owned();
    let door = Door::new(&door.address, Some(&token));
    assert_eq!(door.post(&Door::hello()).send().await.unwrap().status(), StatusCode::OK);

    // Off is off; after a restart it is in the state it was left in, with the same token.
    let vault = person.vault();
    person.quits().await;
    assert!(door.post(&Door::hello()).send().await.is_err(), "nobody listens any more");
    let person = house.opens_again(vault).await;
    let running = |view: &Value| view["state"] == "running";
    person.waits_for("the gateway to come back", "gateway_get", json!({}), running).await;
    assert_eq!(door.post(&Door::hello()).send().await.unwrap().status(), StatusCode::OK);
    assert!(house.files_with(&token).is_empty(), "the token is in no file");
    let view = person.does("gateway_set_enabled", json!({"enabled": false})).await;
    assert_eq!(view["state"], "off");
    assert!(door.post(&Door::hello()).send().await.is_err(), "nobody listens any more");
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_port_is_an_error_in_the_switch_and_in_the_view_and_no_other_port_is_tried() {
    let house = house();
    let person = house.opens().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    person.does("gateway_set_port", json!({"port": port})).await;
    let problem = person.is_refused("gateway_set_enabled", json!({"enabled": true})).await;
    assert_eq!(json!(problem.code), "port_busy");
    assert_eq!(problem.message, format!("port {port} is in use by another program"));
    assert!(problem.hint.is_some());
    let view = person.asks("gateway_get").await;
    assert_eq!(
        (&view["state"], &view["problem"]["code"], &view["port"]),
        (&json!("failed"), &json!("port_busy"), &json!(port))
    );
    drop(taken);
    let view = person.does("gateway_set_enabled", json!({"enabled": true})).await;
    assert_eq!((&view["state"], &view["port"]), (&json!("running"), &json!(port)));
    for wrong in [0, 65536] {
        let problem = person.is_refused("gateway_set_port", json!({"port": wrong})).await;
        assert_eq!(problem.field.as_deref(), Some("port"));
    }
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_switch_in_the_file_is_followed_without_a_restart() {
    let house = house();
    let person = house.opens().await;
    let state = |wanted: &'static str| move |view: &Value| view["state"] == wanted;
    for port in [Door::free_port(), Door::free_port()] {
        house.writes("config.toml", &format!("[gateway]\nenabled = true\nport = {port}\n"));
        let running = |view: &Value| view["state"] == "running" && view["port"] == json!(port);
        let view = person.waits_for("the gateway to start", "gateway_get", json!({}), running).await;
        let door = Door::new(view["address"].as_str().unwrap(), None);
        let knock = || async {
            let answer = door.post(&Door::hello()).send().await.ok()?;
            (answer.status() == StatusCode::UNAUTHORIZED).then_some(())
        };
        evi_tests::until("the door at the new port", knock).await;
    }
    house.writes("config.toml", "[gateway]\nenabled = false\n");
    person.waits_for("the gateway to stop", "gateway_get", json!({}), state("off")).await;
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i38_a_connected_client_hears_of_each_switch_exactly_once() {
    let house = house();
    let person = with_box(&house).await;
    let door = opened(&person).await;
    let client = door.enters().await;
    assert!(!client.tools().await.contains(&"box.look".to_owned()));

    // Each change is one notice: the next one's notice comes after it, and none comes between.
    let heard_one_more = async |before: usize| {
        client.hears_of_changed_tools(before + 1).await;
        assert_eq!(client.notices_of_changed_tools(), before + 1);
    };
    person.does("share_set", json!({"server": "box", "mode": "full"})).await;
    heard_one_more(0).await;
    assert!(client.tools().await.contains(&"box.look".to_owned()));
    person.does("tool_set_enabled", json!({"tool": "box.look", "enabled": false})).await;
    heard_one_more(1).await;
    assert!(!client.tools().await.contains(&"box.look".to_owned()));
    let unknown = client.calls("box.look", json!({})).await;
    assert_eq!(unknown["error"]["code"], json!(-32602), "switched off looks like unknown: {unknown}");
    person.does("tool_set_enabled", json!({"tool": "box.look", "enabled": true})).await;
    heard_one_more(2).await;
    assert_eq!(client.calls("box.grow", json!({})).await["result"]["content"][0]["text"], "grown");
    heard_one_more(3).await;
    assert!(
        client.tools().await.contains(&"box.late".to_owned()),
        "the server's own change reaches the client"
    );
    person.does("upstream_set_enabled", json!({"name": "box", "enabled": false})).await;
    heard_one_more(4).await;
    assert!(client.tools().await.iter().all(|tool| !tool.starts_with("box.")));
    // What the client cannot see is no news to it.
    person.does("share_set", json!({"server": "box", "mode": null})).await;
    person.does("upstream_set_enabled", json!({"name": "box", "enabled": true})).await;
    person.sees("box", "ready").await;
    person.does("category_set", json!({"category": "memory", "shared": false})).await;
    heard_one_more(5).await;
    assert!(client.tools().await.is_empty());

    let view = person.asks("gateway_get").await;
    assert_eq!(
        (&view["clients"][0]["name"], &view["clients"][0]["transport"]),
        (&json!("an agent"), &json!("http"))
    );
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_cancels_and_what_ends_with_the_gateway_is_cancelled_at_the_server() {
    let house = house();
    let person = with_box(&house).await;
    person.does("share_set", json!({"server": "box", "mode": "full"})).await;
    let door = opened(&person).await;
    let client = std::sync::Arc::new(door.enters().await);
    let times = |line: &'static str, wanted: usize| {
        let house = &house;
        let look = move || async move {
            let count = house.notes("box").iter().filter(|n| *n == line).count();
            (count >= wanted).then_some(())
        };
        evi_tests::until("a note of the server", look)
    };
    for (round, by_the_client) in [(1, true), (2, false)] {
        let calling = client.clone();
        let call =
            tokio::spawn(async move { calling.begins("tools/call", json!({"name": "box.wait"})).await });
        times("waiting", round).await;
        if by_the_client {
            client.tells("notifications/cancelled", json!({"requestId": 1})).await;
        } else {
            person.does("gateway_set_enabled", json!({"enabled": false})).await;
        }
        times("cancelled", round).await;
        call.abort();
    }
    person.quits().await;
}
