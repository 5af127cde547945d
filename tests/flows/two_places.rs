//! One home, two places: a change made in one shows in the other without a restart.

use evi_tests::{Model, Reply, house, until};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_change_made_in_a_terminal_shows_in_the_open_window() {
    let house = house().with_servers_on();
    let person = house.opens().await;
    let program = house.server("box", "plain");
    let mut add =
        vec!["mcp".to_owned(), "add".to_owned(), "box".to_owned(), program.command.clone(), "--".to_owned()];
    add.extend(program.args.iter().cloned());
    assert_eq!(house.evi(&add).await.status, 0);
    person.sees("box", "ready").await;

    house.evi(["mcp", "disable", "box"]).await.done();
    person.sees("box", "off").await;
    house.evi(["mcp", "enable", "box"]).await.done();
    person.sees("box", "ready").await;
    house.evi(["mcp", "remove", "box"]).await.done();
    let none = |list: &serde_json::Value| list == &json!([]);
    person.waits_for("the server to go", "upstream_list", json!({}), none).await;

    // A switch in an editor, too.
    house.writes("config.toml", "[tools]\nmcp = false\n");
    let off = |info: &serde_json::Value| info["mcp_on"] == json!(false);
    person.waits_for("servers to be off", "app_info", json!({}), off).await;
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_made_in_the_page_shows_in_the_terminal_which_uses_the_running_server() {
    let house = house();
    let page = house.opens_page().await;
    let draft = house.server("box", "plain").draft("box");
    page.does("upstream_add", json!({"draft": draft, "turn_on_mcp": true})).await;
    page.sees("box", "ready").await;
    assert!(house.evi(["mcp", "list-servers"]).await.done().starts_with("on  box — "));
    let said = house.evi(["mcp", "call", "box.look", "what=x", "count=3"]).await;
    assert_eq!(said.done(), "{\"what\": \"x\", \"count\": 3}\n");
    let listed = house.evi(["mcp", "list-tools"]).await.done();
    assert!(listed.contains("box.look — Gives back its arguments\n"), "{listed}");
    assert_eq!(house.notes("box"), ["started"], "the commands used the page's server");

    // A command attached to the page can be added to and called at once: nobody waits for a watcher.
    let second = house.server("second", "plain");
    let mut add = vec![
        "mcp".to_owned(),
        "add".to_owned(),
        "second".to_owned(),
        second.command.clone(),
        "--".to_owned(),
    ];
    add.extend(second.args.iter().cloned());
    assert_eq!(house.evi(&add).await.status, 0);
    assert_eq!(house.evi(["mcp", "call", "second.look", "what=y"]).await.done(), "{\"what\": \"y\"}\n");
    page.does("upstream_set_enabled", json!({"name": "box", "enabled": false})).await;
    until("the terminal to see the switch", || async {
        let list = house.evi(["mcp", "list-servers"]).await.done();
        list.starts_with("off box").then_some(())
    })
    .await;
    assert_eq!(page.closes().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_opens_takes_the_home_over_from_the_page_and_gives_it_back() {
    let house = house().with_servers_on();
    let house = {
        let program = house.server("box", "plain");
        house.with_server("box", &program)
    };
    let page = house.opens_page().await;
    page.sees("box", "ready").await;
    let person = house.opens().await;
    assert!(person.front().is_owner(), "a window is of higher rank than a page");
    person.sees("box", "ready").await;
    assert_eq!(
        page.does("app_info", json!({})).await["shell"],
        "desktop",
        "the page shows the window's eVi now"
    );
    assert_eq!(
        page.does("tool_call", json!({"tool": "box.look", "arguments": {"what": "z"}})).await["outcome"],
        "ok"
    );
    assert_eq!(house.notes("box"), ["started", "ended", "started"], "never two at once");
    person.quits().await;
    until("the page to own the home again", || async {
        let (status, info) = page.post("/api/app_info", &json!({})).await;
        (status.is_success() && info["shell"] == "web").then_some(())
    })
    .await;
    page.sees("box", "ready").await;
    assert_eq!(page.closes().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_page_shows_the_first_ones_evi_and_goes_on_without_it() {
    let house = house().with_servers_on();
    let program = house.server("box", "plain");
    let house = house.with_server("box", &program);
    let first = house.opens_page().await;
    first.sees("box", "ready").await;
    let second = house.opens_page().await;
    second.sees("box", "ready").await;
    assert_eq!(second.does("app_info", json!({})).await["pid"], json!(first.pid()));
    assert_eq!(house.notes("box"), ["started"]);

    // Events of the one reach the other, and a call may run in each.
    let events = second.follows().await;
    first.does("tool_set_enabled", json!({"tool": "box.look", "enabled": false})).await;
    until("an event about tools in the second page", || async {
        let events = events.lock().unwrap();
        let about = |e: &serde_json::Value| e["tags"].as_array().is_some_and(|t| t.contains(&json!("tools")));
        events.iter().any(about).then_some(())
    })
    .await;
    let big = json!({"tool": "box.big", "arguments": {"size": 2_000_000}});
    let view = second.does("tool_call", big).await;
    assert_eq!(
        view["text"].as_str().unwrap().chars().count(),
        2_000_000,
        "a large result comes through the socket"
    );

    first.is_killed().await;
    until("the second page to own the home", || async {
        let (status, info) = second.post("/api/app_info", &json!({})).await;
        (status.is_success() && info["pid"] == json!(second.pid())).then_some(())
    })
    .await;
    second.sees("box", "ready").await;
    let tools = second.does("tool_list", json!({})).await;
    let look = tools["tools"].as_array().unwrap().iter().find(|t| t["name"] == "box.look").unwrap();
    assert_eq!(look["enabled"], json!(false), "what was switched stays so");
    assert_eq!(second.closes().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_opens_in_the_middle_of_a_question_ends_the_turn_and_keeps_the_conversation() {
    let model = Model::that([Reply::Calls("box__change", json!({"what": "x"}))]).await;
    let house = house().with_model(&model);
    let program = house.server("box", "plain");
    let house = house.with_server("box", &program);
    let page = house.opens_page().await;
    page.sees("box", "ready").await;
    let sent = page.does("chat_send", json!({"text": "change x"})).await;
    until("a question", || async { page.does("approval_list", json!({})).await.get(0).cloned() }).await;
    let person = house.opens().await;
    let view = person.does("chat_get", json!({"chat": sent["chat"]})).await;
    assert_eq!(
        (&view["running"], &view["messages"][1]["calls"][0]["state"]),
        (&json!(false), &json!("cancelled"))
    );
    assert_eq!(person.asks("approval_list").await, json!([]));
    person.sees("box", "ready").await;
    assert!(house.notes("box").iter().all(|note| note != "changed x"));
    // The page shows the window's conversations now, and may go on with them.
    model.then(Reply::Says("Gladly."));
    page.does("chat_send", json!({"chat": sent["chat"], "text": "go on"})).await;
    let view = person.reads_to_the_end(sent["chat"].as_str().unwrap()).await;
    assert_eq!(view["messages"].as_array().unwrap().last().unwrap()["text"], "Gladly.");
    assert_eq!(page.closes().await, 0);
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_starts_servers_for_itself_while_they_are_off_in_the_window() {
    let house = house();
    let program = house.server("box", "plain");
    let house = house.with_server("box", &program);
    let person = house.opens().await;
    person.sees("box", "mcp_off").await;
    let said = house.evi(["mcp", "call", "box.look", "what=x"]).await;
    assert_eq!((said.status, said.out.as_str()), (0, "{\"what\": \"x\"}\n"), "{}", said.err);
    assert!(said.err.starts_with("warning: tools.mcp is false in "), "{}", said.err);
    assert_eq!(house.notes("box"), ["started", "ended"], "for that command only");
    person.sees("box", "mcp_off").await;
    assert!(person.tools().await.iter().all(|tool| !tool.starts_with("box.")));
    person.does("settings_update", json!({"mcp_on": true})).await;
    person.sees("box", "ready").await;
    person.quits().await;
}
