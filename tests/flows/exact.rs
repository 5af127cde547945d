//! JSON goes through the whole house as it is: what a person, a terminal and an application give to a tool, and what
//! comes back.

use evi_tests::{House, house};
use serde_json::{Value, json};

/// A house with a server that gives back what it gets, on and shared.
fn with_mirror() -> House {
    let config = "[tools]\nmcp = true\n\n[serve.profiles.default]\nservers = [\"mirror\"]\n";
    house().with_config(config).with_server("mirror", &House::adversary("lines", ["many"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn i51_a_form_a_terminal_and_an_application_give_a_tool_exactly_their_json() {
    let house = with_mirror();
    let person = house.opens().await;
    person.sees("mirror", "ready").await;
    let arguments = json!({
        "whole": 8, "real": 2.5, "big": 9_007_199_254_740_993_u64, "text": "8", "nothing": null,
        "object": {"a": [1, null, {"b": false}]}, "empty": {}, "list": [], "sign": "ß\u{1F44B}",
    });
    let same = |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|got| got == arguments);
    let text = person.calls("mirror.echo", arguments.clone()).await;
    assert!(same(&text), "{text}");
    let text = house.evi(["mcp", "call", "mirror.echo", &arguments.to_string()]).await.done();
    assert!(same(&text), "{text}");
    let text = house.evi(["mcp", "call", "mirror.echo", "whole:=8", "nothing:=null", "text=8"]).await.done();
    assert_eq!(text, "{\"whole\": 8, \"nothing\": null, \"text\": \"8\"}\n");
    let mut client = house.serves(&[]).await;
    client.greets().await;
    client.waits_for_tool("mirror.echo").await;
    let answer = client.calls("mirror.echo", arguments.clone()).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(same(text), "{text}");
    client.leaves().await;
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i54_each_shape_of_a_result_reaches_a_person_and_an_application_untouched() {
    let house = with_mirror();
    let person = house.opens().await;
    person.sees("mirror", "ready").await;
    let mut client = house.serves(&[]).await;
    client.greets().await;
    client.waits_for_tool("mirror.given").await;
    for (result, words) in [
        (json!({"content": [{"type": "text", "text": "only text"}]}), "only text"),
        (json!({"content": [], "structuredContent": {"rows": [1, 2.5, null]}}), "rows"),
        (
            json!({"content": [{"type": "text", "text": "{\"n\": 1}"}], "structuredContent": {"n": 1}}),
            "{\"n\": 1}",
        ),
        (
            json!({
                "content": [
                    {"type": "text", "text": "a summary"},
                    {"type": "image", "data": "aGk=", "mimeType": "image/png", "x-own": 1.5},
                ],
                "structuredContent": {"rich": [true]}, "isError": false, "x-own": {"kept": null},
            }),
            "a summary",
        ),
    ] {
        let view =
            person.does("tool_call", json!({"tool": "mirror.given", "arguments": {"result": result}})).await;
        assert_eq!(view["result"], result);
        assert!(view["text"].as_str().unwrap().contains(words), "{view}");
        let answer = client.calls("mirror.given", json!({"result": result})).await;
        assert_eq!(answer["result"], result);
    }
    client.leaves().await;
    person.quits().await;
}
