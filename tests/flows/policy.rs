//! Who may call what: each cell of the table of callers through the real guarded path, with real callers.

use evi_tests::{Door, House, Model, Person, Reply, house};
use serde_json::{Value, json};

struct Cell<'a> {
    house: &'a House,
    person: Person,
    model: Model,
}

async fn with(house: &House, rules: &str, share: &str) -> (Person, Model) {
    let model = Model::that([]).await;
    house.writes(
        "config.toml",
        &format!(
            "[tools]\nmcp = true\n\n[llm]\nbase_url = \"{}\"\nmodel = \"small\"\n\n[auto]\n{rules}\n\n[serve.profiles.default]\nservers = [{share}]\n",
            model.address
        ),
    );
    let person = house.opens().await;
    person.sees("box", "ready").await;
    (person, model)
}

fn with_box() -> House {
    let house = house();
    let program = house.server("box", "plain");
    house.with_server("box", &program)
}

impl Cell<'_> {
    /// What becomes of a call that the model asks for: `asked`, or the state of the call.
    async fn chat(&self, tool: &'static str, arguments: Value) -> String {
        self.model.then(Reply::Calls(tool, arguments));
        let chat = self.person.says(None, "go on").await;
        let look = |view: &Value| {
            let calls: Vec<&Value> = view["messages"]
                .as_array()
                .unwrap()
                .iter()
                .flat_map(|m| m["calls"].as_array().unwrap())
                .collect();
            calls.first().is_some_and(|call| call["state"] != "running")
        };
        let view = self.person.waits_for("the call", "chat_get", json!({"chat": chat}), look).await;
        let calls = view["messages"].as_array().unwrap().iter().flat_map(|m| m["calls"].as_array().unwrap());
        let state = calls.last().unwrap()["state"].as_str().unwrap().to_owned();
        self.person.does("chat_stop", json!({"chat": chat})).await;
        self.person.reads_to_the_end(&chat).await;
        if state == "waiting" { "asked".to_owned() } else { state }
    }

    fn ran(&self) -> Vec<String> {
        self.house.notes("box").into_iter().filter(|line| line != "started").collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_may_read_what_is_ours_and_asks_for_the_rest() {
    let house = with_box();
    // Fault 15 of the original: deny always wins. The last two rules disagree about one tool.
    let rules = "auto_approve = [\"fs\", \"code\", \"skills\", \"image\"]\nhard_deny = [\"*.drop_*\"]\nrules = [\"allow box.env\", \"deny box.env *FORBIDDEN*\", \"allow box.*drop*\", \"allow box.grow\", \"deny box.grow\"]";
    let (person, model) = with(&house, rules, "").await;
    let cell = Cell { house: &house, person, model };
    assert_eq!(cell.chat("list_memories", json!({})).await, "ok", "own tools that only read");
    assert_eq!(
        cell.chat("remember", json!({"name": "a", "content": "b"})).await,
        "asked",
        "own tools that write"
    );
    assert_eq!(
        cell.chat("box__look", json!({})).await,
        "asked",
        "a server's word that it only reads is no fact"
    );
    assert_eq!(cell.chat("box__change", json!({"what": "x"})).await, "asked");
    assert_eq!(cell.chat("box__env", json!({"name": "HOME"})).await, "ok", "a rule allows");
    assert_eq!(
        cell.chat("box__env", json!({"name": "FORBIDDEN"})).await,
        "forbidden",
        "the most specific rule wins"
    );
    assert_eq!(cell.chat("box__grow", json!({})).await, "forbidden", "on a tie deny wins");
    assert_eq!(cell.chat("box__drop_table", json!({})).await, "forbidden", "hard_deny beats every rule");
    assert_eq!(cell.ran(), Vec::<String>::new());
    cell.person.quits().await;

    let (person, model) = with(&house, "auto_approve = [\"memory\"]", "").await;
    let cell = Cell { house: &house, person, model };
    assert_eq!(cell.chat("remember", json!({"name": "a", "content": "b"})).await, "ok", "auto_approve");
    cell.person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_use_what_was_shared_as_it_was_shared() {
    let house = with_box();
    let hard = "hard_deny = [\"*.drop_*\", \"forget\"]\nrules = [\"deny box.change\"]\nauto_approve = []";
    for (share, look, change) in [
        ("", "unknown", "unknown"),
        ("\"box\"", "ok", "ok"),
        ("{ name = \"box\", mode = \"read_only\" }", "ok", "unknown"),
        ("{ name = \"box\", mode = \"ask\" }", "asked", "asked"),
    ] {
        let (person, _model) = with(&house, hard, share).await;
        let door = crate::gateway::opened(&person).await;
        let client = door.enters().await;
        let call = async |tool: &str, arguments: Value| -> String {
            let calling = client.calls(tool, arguments);
            tokio::pin!(calling);
            let answer = tokio::select! {
                answer = &mut calling => answer,
                question = person.is_asked() => {
                    assert_eq!((&question["caller"], &question["tool"]), (&json!("an agent"), &json!(tool)));
                    assert!(question["until_ms"].is_u64(), "a client's question ends by itself: {question}");
                    person.answers(&question, "deny").await;
                    let answer = calling.await;
                    assert!(answer.to_string().contains("the person said no"), "{answer}");
                    return "asked".to_owned();
                }
            };
            match (&answer["error"]["code"], &answer["result"]["isError"]) {
                (code, _) if *code == json!(-32602) => "unknown".to_owned(),
                (Value::Null, failed) if *failed != json!(true) => "ok".to_owned(),
                _ => answer.to_string(),
            }
        };
        assert_eq!(call("box.look", json!({})).await, look, "look, shared as {share}");
        assert_eq!(
            call("box.change", json!({"what": share})).await,
            change,
            "change, shared as {share}; rules are for chat"
        );
        assert_eq!(call("remember", json!({"name": "a", "content": "b"})).await, "ok");
        assert_eq!(call("list_memories", json!({})).await, "ok");
        let denied = call("forget", json!({"name": "a"})).await;
        assert!(denied.contains("hard_deny"), "{denied}");
        let dropped = call("box.drop_table", json!({})).await;
        assert!(dropped == "unknown" || dropped.contains("hard_deny"), "{dropped}");
        person.quits().await;
    }
    assert!(!house.notes("box").contains(&"dropped".to_owned()));
    assert_eq!(
        house.notes("box").iter().filter(|n| n.starts_with("changed")).count(),
        1,
        "{:?}",
        house.notes("box")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_person_may_do_everything_but_what_hard_deny_names() {
    let house = with_box();
    let rules = "auto_approve = []\nhard_deny = [\"*.drop_*\"]\nrules = [\"deny box.change\"]";
    let (person, _model) = with(&house, rules, "").await;
    assert_eq!(person.calls("box.change", json!({"what": "x"})).await, "changed", "rules are for chat");
    person.calls("remember", json!({"name": "a", "content": "b"})).await;
    let problem = person.is_refused("tool_call", json!({"tool": "box.drop_table", "arguments": {}})).await;
    assert_eq!(json!(problem.code), "forbidden");
    assert!(problem.message.contains("hard_deny") && problem.hint.is_some(), "{problem:?}");
    let chat = person.says(None, "/call box.drop_table").await;
    let view = person.reads_to_the_end(&chat).await;
    assert!(view.to_string().contains("forbidden"), "{view}");
    // A terminal is the person, too.
    let err = house.evi(["mcp", "call", "box.drop_table"]).await.failed(1);
    assert!(err.contains("hard_deny"), "{err}");
    assert_eq!(house.evi(["mcp", "call", "box.change", "what=y"]).await.done(), "changed\n");
    assert_eq!(house.notes("box"), ["started", "changed x", "changed y"]);
    // The record has each, with its end.
    let activity = person.asks("activity_list").await;
    let outcomes: Vec<&str> =
        activity.as_array().unwrap().iter().map(|a| a["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["ok", "forbidden", "forbidden", "forbidden", "ok", "ok"]);
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_a_window_to_ask_in_is_told_at_once_what_to_set() {
    let house = with_box().with_config(
        "[tools]\nmcp = true\n\n[serve.profiles.default]\nservers = [{ name = \"box\", mode = \"ask\" }]\n",
    );
    let mut client = house.serves(&[]).await;
    client.greets().await;
    client.waits_for_tool("box.look").await;
    let answer = client.calls("box.look", json!({})).await;
    let text = answer.to_string();
    assert!(text.contains("no window to ask in") && text.contains("share the server"), "{answer}");

    // Beside a page the same client is asked for there.
    let page = house.opens_page().await;
    page.sees("box", "ready").await;
    client.waits_for_tool("box.look").await;
    let call = client.begins_call("box.look", json!({"what": "x"})).await;
    let question = evi_tests::until("a question in the page", || async {
        page.does("approval_list", json!({})).await.get(0).cloned()
    })
    .await;
    assert_eq!(question["caller"], "a desktop client");
    assert_eq!(client.notices("notifications/progress"), 0, "it did not ask to be told");
    page.does("approval_answer", json!({"call": question["call"], "answer": "allow_once"})).await;
    let answer = client.answer(call).await;
    assert_eq!(answer["result"]["content"][0]["text"], "{\"what\": \"x\"}");
    assert_eq!(client.leaves().await.0, 0);
    page.closes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i84_a_changed_rule_or_share_does_not_abort_a_running_call() {
    let house = with_box();
    let (person, _model) = with(&house, "auto_approve = []", "\"box\"").await;
    let door: Door = crate::gateway::opened(&person).await;
    let before = person.server("box").await["pid"].clone();
    let params = json!({"tool": "box.wait", "arguments": {}, "call": "mine"});
    let calling = person.tries("tool_call", params);
    let changing = async {
        evi_tests::until("the call to run", || async {
            house.notes("box").contains(&"waiting".to_owned()).then_some(())
        })
        .await;
        person.does("share_set", json!({"server": "box", "mode": "ask"})).await;
        person.does("tool_set_enabled", json!({"tool": "box.look", "enabled": false})).await;
        person.does("settings_update", json!({"model": "other"})).await;
        let client = door.enters().await;
        assert!(!client.tools().await.contains(&"box.look".to_owned()));
        assert!(!house.notes("box").contains(&"cancelled".to_owned()));
        person.does("call_cancel", json!({"call": "mine"})).await;
    };
    let (result, ()) = tokio::join!(calling, changing);
    assert_eq!(json!(result.unwrap_err().code), "cancelled");
    assert_eq!(person.server("box").await["pid"], before);
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_goes_when_the_client_that_asked_goes() {
    let house = with_box();
    let (person, _model) = with(&house, "auto_approve = []", "{ name = \"box\", mode = \"ask\" }").await;
    let door = crate::gateway::opened(&person).await;
    let client = std::sync::Arc::new(door.enters().await);
    let calling = client.clone();
    let call = tokio::spawn(async move { calling.begins("tools/call", json!({"name": "box.look"})).await });
    person.is_asked().await;
    client.tells("notifications/cancelled", json!({"requestId": 1})).await;
    let none = |list: &Value| *list == json!([]);
    person.waits_for("the question to go", "approval_list", json!({}), none).await;
    call.abort();
    let mut lines = house.serves(&[]).await;
    lines.greets().await;
    lines.begins_call("box.look", json!({})).await;
    person.is_asked().await;
    assert_eq!(lines.leaves().await.0, 0);
    person.waits_for("the question to go", "approval_list", json!({}), none).await;
    assert_eq!(house.notes("box"), ["started"]);
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_switched_off_or_shared_stays_so_under_a_new_name() {
    let house = with_box();
    let (person, _model) =
        with(&house, "auto_approve = []", "{ name = \"box\", mode = \"read_only\" }").await;
    person.does("tool_set_enabled", json!({"tool": "box.drop_table", "enabled": false})).await;
    let unknown = person.is_refused("tool_call", json!({"tool": "box.drop_table", "arguments": {}})).await;
    assert_eq!(json!(unknown.code), "unknown_tool", "off is off for the person, too");
    person.does("upstream_rename", json!({"name": "box", "to": "chest"})).await;
    person.sees("chest", "ready").await;
    let unknown = person.is_refused("tool_call", json!({"tool": "chest.drop_table", "arguments": {}})).await;
    assert_eq!(json!(unknown.code), "unknown_tool", "{unknown:?}");
    let view = person.asks("gateway_get").await;
    let shares: Vec<&Value> =
        view["shares"].as_array().unwrap().iter().filter(|s| s["mode"].is_string()).collect();
    assert_eq!((&shares[0]["server"], &shares[0]["mode"]), (&json!("chest"), &json!("read_only")), "{view}");
    assert!(!house.reads("config.toml").contains("box"), "{}", house.reads("config.toml"));
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asked_for_progress_hears_that_the_person_is_being_asked() {
    let house = with_box();
    let (person, _model) = with(&house, "auto_approve = []", "{ name = \"box\", mode = \"ask\" }").await;
    let mut client = house.serves(&[]).await;
    client.greets().await;
    let params = json!({"name": "box.look", "arguments": {}, "_meta": {"progressToken": "p"}});
    let call = client.begins("tools/call", params).await;
    evi_tests::until("a word that it waits", || async {
        (client.notices("notifications/progress") > 0).then_some(())
    })
    .await;
    let question = person.is_asked().await;
    person.answers(&question, "allow_once").await;
    assert_eq!(client.answer(call).await["result"]["content"][0]["text"], "{}");
    assert_eq!(client.leaves().await.0, 0);
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i81_each_profile_shows_its_own_and_refuses_the_rest() {
    let house = with_box().with_config(
        "[tools]\nmcp = true\n\n[serve.profiles.reading]\ncategories = []\nservers = [\"box\"]\nread_only = true\n\n[serve.profiles.notes]\ncategories = [\"memory\"]\ntools = [\"recall\", \"list_memories\"]\nresources = false\nprompts = false\n",
    );
    house.writes("memory/a.md", "one\n");
    house.writes("commands/c.md", "Say $1\n");
    let mut reading = house.serves(&["--profile", "reading"]).await;
    reading.greets().await;
    reading.waits_for_tool("box.look").await;
    assert_eq!(reading.tools().await, ["box.look"]);
    for tool in ["box.change", "recall"] {
        let answer = reading.calls(tool, json!({})).await;
        assert_eq!(answer["error"]["code"], json!(-32602), "{tool}: {answer}");
    }
    let mut notes = house.serves(&["--profile", "notes"]).await;
    notes.greets().await;
    let mut tools = notes.tools().await;
    tools.sort();
    assert_eq!(tools, ["list_memories", "recall"]);
    for method in ["resources/list", "prompts/list"] {
        let answer = notes.asks(method, json!({})).await;
        let empty = |list: &Value| list.as_array().is_some_and(Vec::is_empty);
        let kind = method.split('/').next().unwrap();
        assert!(answer["error"].is_object() || empty(&answer["result"][kind]), "{method}: {answer}");
    }
    let answer = notes.asks("resources/read", json!({"uri": "evi://memory/a"})).await;
    assert!(answer["error"].is_object(), "{answer}");
    let answer = notes.calls("box.look", json!({})).await;
    assert!(!answer.to_string().contains("box.change"), "what is not shared is not hinted at: {answer}");
    assert_eq!(notes.leaves().await.0, 0);
    assert_eq!(reading.leaves().await.0, 0);
    assert_eq!(house.notes("box").iter().filter(|n| *n == "started").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_cannot_be_kept_outside_its_folder() {
    // Fault 3 of the original: a name of dots and slashes wrote outside.
    let house = house();
    let person = house.opens().await;
    for name in ["../../x", "a/b", "..", "", "INDEX.md", "a\\b", "/tmp/x"] {
        let arguments = json!({"name": name, "content": "planted outside"});
        match person.tries("tool_call", json!({"tool": "remember", "arguments": arguments})).await {
            Ok(view) => assert_eq!(view["outcome"], "tool_error", "{name:?}: {view}"),
            Err(problem) => assert_eq!(json!(problem.code), "invalid_arguments", "{name:?}: {problem:?}"),
        }
    }
    let found = house.files_with("planted outside");
    let outside: Vec<_> = found.iter().filter(|p| !p.starts_with(house.home().join("state"))).collect();
    assert!(outside.is_empty(), "{outside:?}");
    assert!(!house.home().parent().unwrap().join("x.md").exists());
    person.quits().await;
}
