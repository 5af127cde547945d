//! A conversation whose model calls tools: the person is asked, allows, denies, stops, and finds it again later.

use evi_tests::{House, Model, Person, Reply, house, peers, until};
use serde_json::{Value, json};

const LIST: &str = "filesystem__list_directory";

async fn with_files(replies: impl IntoIterator<Item = Reply>) -> (House, Model, Person) {
    let model = Model::that(replies).await;
    let house = house().with_model(&model);
    let files = peers::filesystem(&house);
    let house = house.with_server("filesystem", &files);
    let person = house.opens().await;
    person.sees("filesystem", "ready").await;
    (house, model, person)
}

async fn with_box(replies: impl IntoIterator<Item = Reply>) -> (House, Model, Person) {
    let model = Model::that(replies).await;
    let house = house().with_model(&model);
    let program = house.server("box", "plain");
    let house = house.with_server("box", &program);
    let person = house.opens().await;
    person.sees("box", "ready").await;
    (house, model, person)
}

fn calls(view: &Value) -> Vec<&Value> {
    let messages = view["messages"].as_array().unwrap().iter();
    messages.flat_map(|message| message["calls"].as_array().unwrap()).collect()
}

fn last_text(view: &Value) -> &str {
    view["messages"].as_array().unwrap().last().unwrap()["text"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_of_the_model_waits_in_the_conversation_until_the_person_allows_it() {
    let (house, model, person) = with_files([]).await;
    let arguments = json!({"path": house.folder()});
    model.then(Reply::Calls(LIST, arguments.clone()));
    model.then(Reply::Says("There are apples and pears."));

    let chat = person.says(None, "list the files in some folder").await;
    let question = person.is_asked().await;
    assert_eq!(question["tool"], "filesystem.list_directory");
    assert_eq!((&question["server"], &question["caller"]), (&json!("filesystem"), &json!("chat")));
    assert_eq!((&question["arguments"], &question["chat"]), (&arguments, &json!(chat)));
    assert!(question["until_ms"].is_null(), "a question in a conversation waits");

    let view = person.does("chat_get", json!({"chat": chat})).await;
    assert_eq!((&view["running"], &view["approvals"][0]), (&json!(true), &question));
    let call = calls(&view)[0];
    assert_eq!(call["state"], "waiting");
    assert_eq!((&call["tool"], &call["server"]), (&json!("filesystem.list_directory"), &json!("filesystem")));
    assert_eq!((&call["arguments"], &call["call"]), (&arguments, &question["call"]));
    // One answer at a time.
    let busy = person.is_refused("chat_send", json!({"chat": chat, "text": "and now"})).await;
    assert_eq!(json!(busy.code), "busy");

    person.answers(&question, "allow_once").await;
    let view = person.reads_to_the_end(&chat).await;
    assert_eq!(last_text(&view), "There are apples and pears.");
    let call = calls(&view)[0];
    assert_eq!(
        (&call["state"], &call["text"]),
        (&json!("ok"), &json!("[FILE] apples.txt\n[FILE] pears.txt"))
    );
    let told = model.last_messages();
    let result = told.iter().find(|m| m["role"] == "tool").expect("the model was told the result");
    assert!(result["content"].as_str().unwrap().contains("[FILE] apples.txt"), "{result}");
    let first = &model.requests()[0];
    assert!(first["tools"].as_array().unwrap().iter().any(|t| t["function"]["name"] == LIST), "{first}");
    let late =
        person.is_refused("approval_answer", json!({"call": question["call"], "answer": "deny"})).await;
    assert_eq!(json!(late.code), "not_found");

    // After a restart the conversation is still there, and goes on.
    let vault = person.vault();
    person.quits().await;
    let person = house.opens_again(vault).await;
    let list = person.asks("chat_list").await;
    assert_eq!((&list[0]["id"], &list[0]["title"]), (&json!(chat), &json!("list the files in some folder")));
    assert_eq!(person.does("chat_get", json!({"chat": chat})).await["messages"], view["messages"]);
    model.then(Reply::Says("You are welcome."));
    person.says(Some(&chat), "thank you").await;
    let view = person.reads_to_the_end(&chat).await;
    assert_eq!(last_text(&view), "You are welcome.");
    assert_eq!(
        model.last_messages().iter().filter(|m| m["role"] != "system").count(),
        5,
        "the model is told the whole conversation"
    );
    person.does("chat_delete", json!({"chat": chat})).await;
    assert_eq!(person.asks("chat_list").await, json!([]));
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_is_told_to_the_model_and_nothing_runs() {
    let (house, model, person) = with_box([
        Reply::Calls("box__change", json!({"what": "everything"})),
        Reply::Says("Then I will not."),
    ])
    .await;
    let chat = person.says(None, "change everything").await;
    let question = person.is_asked().await;
    person.answers(&question, "deny").await;
    let view = person.reads_to_the_end(&chat).await;
    assert_eq!(last_text(&view), "Then I will not.");
    assert_eq!(calls(&view)[0]["state"], "denied");
    let told = model.last_messages();
    let result = told.iter().find(|m| m["role"] == "tool").unwrap();
    assert_eq!(result["content"], "ERROR: the person denied this call");
    assert_eq!(house.notes("box"), ["started"]);
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_ends_the_stream_of_the_answer_and_keeps_what_was_said() {
    let (_house, model, person) = with_box([Reply::Begins("Once upon a time")]).await;
    let chat = person.says(None, "tell me a story").await;
    let begun = |view: &Value| last_text(view) == "Once upon a time";
    person.waits_for("the beginning", "chat_get", json!({"chat": chat}), begun).await;
    person.does("chat_stop", json!({"chat": chat})).await;
    let view = person.reads_to_the_end(&chat).await;
    model.is_hung_up_on().await;
    assert_eq!(last_text(&view), "Once upon a time");
    assert_eq!(view["messages"][1]["ended"], "stopped");
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_cancels_the_running_call_at_the_server() {
    let (house, _model, person) = with_box([Reply::Calls("box__wait", json!({}))]).await;
    let chat = person.says(None, "wait").await;
    let question = person.is_asked().await;
    person.answers(&question, "allow_once").await;
    until("the call to run", || async { house.notes("box").contains(&"waiting".to_owned()).then_some(()) })
        .await;
    let view = person.does("chat_get", json!({"chat": chat})).await;
    assert_eq!(calls(&view)[0]["state"], "running");
    person.does("chat_stop", json!({"chat": chat})).await;
    let view = person.reads_to_the_end(&chat).await;
    assert_eq!(calls(&view)[0]["state"], "cancelled");
    until("the server to be told", || async {
        house.notes("box").contains(&"cancelled".to_owned()).then_some(())
    })
    .await;
    // The connection is still good.
    assert_eq!(person.calls("box.look", json!({"what": "x"})).await, r#"{"what": "x"}"#);
    assert_eq!(house.notes("box").iter().filter(|n| *n == "started").count(), 1);
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_takes_back_a_question_that_waits() {
    let (house, _model, person) = with_box([Reply::Calls("box__change", json!({"what": "x"}))]).await;
    let chat = person.says(None, "change x").await;
    person.is_asked().await;
    person.does("chat_stop", json!({"chat": chat})).await;
    person.reads_to_the_end(&chat).await;
    assert_eq!(person.asks("approval_list").await, json!([]));
    assert_eq!(house.notes("box"), ["started"]);
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i84_allowing_for_a_conversation_holds_there_and_nowhere_else() {
    let call = |what: &str| Reply::Calls("box__change", json!({"what": what}));
    let (house, model, person) =
        with_box([call("one"), Reply::Says("done"), call("two"), Reply::Says("done")]).await;
    let before = person.server("box").await["pid"].clone();
    let chat = person.says(None, "change one").await;
    let question = person.is_asked().await;
    person.answers(&question, "allow_for_chat").await;
    person.reads_to_the_end(&chat).await;
    // The second time nobody is asked.
    person.says(Some(&chat), "change two").await;
    person.reads_to_the_end(&chat).await;
    assert_eq!(house.notes("box"), ["started", "changed one", "changed two"]);
    // Another tool of the same server is another question, and so is another conversation.
    model.then(Reply::Calls("box__drop_table", json!({})));
    person.says(Some(&chat), "drop").await;
    let question = person.is_asked().await;
    assert_eq!(question["tool"], "box.drop_table");
    person.does("chat_stop", json!({"chat": chat})).await;
    person.reads_to_the_end(&chat).await;
    model.then(call("three"));
    let other = person.says(None, "change three").await;
    let question = person.is_asked().await;
    assert_eq!(question["chat"], json!(other));
    person.answers(&question, "deny").await;
    person.reads_to_the_end(&other).await;
    assert_eq!(person.server("box").await["pid"], before, "consent never touches a connection");
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_the_problem_says_what_to_do_and_a_tool_can_be_called_all_the_same() {
    let house = house();
    let person = house.opens().await;
    person.adds("filesystem", &peers::filesystem(&house)).await;
    person.sees("filesystem", "ready").await;
    let problem = person.is_refused("chat_send", json!({"text": "hello"})).await;
    assert_eq!(json!(problem.code), "no_model");
    assert!(problem.hint.as_deref().unwrap().contains("/call"), "{problem:?}");
    assert_eq!(person.asks("chat_list").await, json!([]), "nothing was begun");

    let folder = house.folder().display();
    let chat = person.says(None, &format!("/call filesystem.list_directory path='{folder}'")).await;
    let view = person.reads_to_the_end(&chat).await;
    let call = calls(&view)[0];
    assert_eq!((&call["state"], &call["server"]), (&json!("ok"), &json!("filesystem")));
    assert_eq!(call["text"], "[FILE] apples.txt\n[FILE] pears.txt");
    let chat = person.says(Some(&chat), "/call filesystem.list_directory path=/").await;
    let view = person.reads_to_the_end(&chat).await;
    assert_eq!(calls(&view)[1]["state"], "tool_error");
    let unclear =
        person.is_refused("chat_send", json!({"text": "/call filesystem.list_directory path='x"})).await;
    assert_eq!(json!(unclear.code), "invalid_input");
    assert_eq!(
        person.asks("chat_list").await.as_array().unwrap().len(),
        1,
        "a line that is not clear begins nothing"
    );
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_fails_ends_the_turn_with_its_reason_and_the_key_stays_secret() {
    let (house, model, person) = with_box([Reply::Fails(axum::http::StatusCode::UNAUTHORIZED)]).await;
    let key = "sk-planted-0123456789";
    let settings = person.does("model_key_set", json!({"key": key})).await;
    assert_eq!((&settings["key_set"], &settings["key_place"]), (&json!(true), &json!("keychain")));
    assert_eq!(person.asks("model_list").await["models"], json!(["small"]));
    let chat = person.says(None, "hello").await;
    let view = person.reads_to_the_end(&chat).await;
    let ended = view["messages"].as_array().unwrap().last().unwrap()["ended"].as_str().unwrap().to_owned();
    assert!(ended.contains("key") || ended.contains("401"), "{ended}");
    assert_eq!(model.keys(), [format!("Bearer {key}")]);
    assert!(house.reads("config.toml").contains("api_key = \"${secret:llm.api_key}\""));
    assert!(house.files_with(key).is_empty() && !person.ever_heard(key));
    let settings = person.does("model_key_set", json!({})).await;
    assert_eq!(settings["key_set"], json!(false));
    assert!(person.secrets().is_empty(), "a key that was deleted is gone");
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn quitting_in_the_middle_of_an_answer_leaves_a_conversation_that_can_go_on() {
    let (house, model, person) = with_box([Reply::Calls("box__change", json!({"what": "x"}))]).await;
    let chat = person.says(None, "change x").await;
    person.is_asked().await;
    let vault = person.vault();
    person.quits().await;
    let person = house.opens_again(vault).await;
    let view = person.does("chat_get", json!({"chat": chat})).await;
    assert_eq!(view["running"], json!(false));
    assert_eq!(calls(&view)[0]["state"], "cancelled", "{view}");
    model.then(Reply::Says("Here I am."));
    person.says(Some(&chat), "are you there").await;
    let view = person.reads_to_the_end(&chat).await;
    assert_eq!(last_text(&view), "Here I am.");
    // Providers refuse a call without its result.
    let told = model.last_messages();
    let asked = told.iter().filter(|m| m["tool_calls"].is_array()).count();
    let answered = told.iter().filter(|m| m["role"] == "tool").count();
    assert_eq!(asked, answered, "{told:?}");
    person.quits().await;
}
