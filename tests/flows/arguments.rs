//! What a person gives to a tool is checked against its schema before the server hears of it.

use evi_app::contract::Code;
use evi_tests::house;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_fit_never_reach_the_server() {
    let house = house().with_servers_on();
    let program = house.server("box", "plain");
    let house = house.with_server("box", &program);
    let person = house.opens().await;
    person.sees("box", "ready").await;

    let wrong = json!({"tool": "box.change", "arguments": {"what": ["pa55word"]}});
    let problem = person.is_refused("tool_call", wrong).await;
    assert_eq!((problem.code, problem.field.as_deref()), (Code::InvalidArguments, Some("what")));
    assert!(problem.message.starts_with("invalid arguments for box.change: what: "), "{}", problem.message);
    assert!(!problem.message.contains("pa55word"), "the value is not repeated: {}", problem.message);

    let problem = person.is_refused("chat_send", json!({"text": "/call box.change {\"what\": 3}"})).await;
    assert_eq!((problem.code, problem.field.as_deref()), (Code::InvalidArguments, Some("what")));
    assert_eq!(person.asks("chat_list").await, json!([]), "a call that cannot be begins nothing");

    // From a terminal, beside the window and alone.
    let err = house.evi(["mcp", "call", "box.change", "{\"what\": 3}"]).await.failed(1);
    assert!(err.starts_with("error: invalid arguments for box.change: what: "), "{err}");
    assert_eq!(house.evi(["mcp", "call", "box.change", "what=3"]).await.done(), "changed\n");
    let changes = house.notes("box").iter().filter(|n| n.starts_with("changed")).count();
    assert_eq!(changes, 1, "{:?}", house.notes("box"));
    person.quits().await;
    let err = house.evi(["mcp", "call", "box.change", "{\"what\": 3}"]).await.failed(1);
    assert!(err.starts_with("error: invalid arguments for box.change: what: "), "{err}");
}
