//! Legacy requests over HTTP: what is answered, in which form, and how a call is taken back.

use serde_json::{Value, json};

use crate::{
    host::BIG,
    web::{Events, Web, answered, call, notification, refused, request},
};

#[tokio::test]
async fn lists_are_one_page_of_whole_definitions_under_our_names() {
    let web = Web::start().await;
    let session = web.session().await;
    let list = |method: &str| answered(web.legacy(&session, &request(1, method, json!({}))));
    let tools = list("tools/list").await["result"].clone();
    assert_eq!(tools.as_object().unwrap().len(), 1, "nothing of the other era: {tools}");
    assert_eq!(
        tools["tools"][0],
        json!({"name": "up.echo", "title": "T", "description": "the tool up.echo", "inputSchema": {"type": "object"},
            "execution": {"taskSupport": "forbidden"}, "x-odd": [1, {"a": null}]})
    );
    assert_eq!(
        list("resources/list").await["result"],
        json!({"resources": [{"uri": "evi://memory/a", "name": "a", "mimeType": "text/markdown", "x-odd": 1}]})
    );
    assert_eq!(list("resources/templates/list").await["result"], json!({"resourceTemplates": []}));
    assert_eq!(list("prompts/list").await["result"]["prompts"][0]["name"], "greet");
    let paged = request(1, "tools/list", json!({"cursor": "2"}));
    assert_eq!(answered(web.legacy(&session, &paged)).await["error"]["code"], -32602);
}

#[tokio::test]
async fn resources_prompts_and_the_small_methods_are_answered() {
    let web = Web::start().await;
    let session = web.session().await;
    let ask = |method: &str, params: Value| answered(web.legacy(&session, &request(1, method, params)));
    assert_eq!(
        ask("resources/read", json!({"uri": "evi://memory/a"})).await["result"],
        json!({"contents": [{"uri": "evi://memory/a", "mimeType": "text/markdown", "text": "# A"}]})
    );
    assert_eq!(ask("resources/read", json!({"uri": "evi://memory/b"})).await["error"]["code"], -32002);
    assert_eq!(ask("resources/read", json!({})).await["error"]["code"], -32602);
    let prompt = ask("prompts/get", json!({"name": "greet", "arguments": {"args": "you"}})).await;
    assert_eq!(
        prompt["result"],
        json!({"description": "greets",
            "messages": [{"role": "user", "content": {"type": "text", "text": "hello you"}}]})
    );
    assert_eq!(
        ask("prompts/get", json!({"name": "greet"})).await["result"]["messages"][0]["content"]["text"],
        "hello "
    );
    assert_eq!(
        ask("prompts/get", json!({"name": "greet", "arguments": {"args": 1}})).await["error"]["code"],
        -32602
    );
    assert_eq!(ask("prompts/get", json!({"name": "no"})).await["error"]["code"], -32602);
    assert_eq!(ask("logging/setLevel", json!({"level": "debug"})).await["result"], json!({}));
    let completion = ask("completion/complete", json!({"ref": {}, "argument": {}})).await;
    assert_eq!(completion["result"]["completion"]["values"], json!([]));
    assert_eq!(ask("resources/subscribe", json!({"uri": "x"})).await["error"]["code"], -32601);
    assert_eq!(ask("subscriptions/listen", json!({})).await["error"]["code"], -32601);
}

#[tokio::test]
async fn every_end_of_a_call_has_its_own_answer() {
    let web = Web::start().await;
    let session = web.session().await;
    let end = |tool: &str| answered(web.legacy(&session, &call(1, tool)));
    let unknown = end("nope").await["error"].clone();
    assert_eq!(unknown["code"], -32602);
    assert!(unknown["message"].as_str().unwrap().contains("up.echo"), "near names: {unknown}");
    let rpc = json!({"code": -32042, "message": "visit", "data": {"url": "x"}});
    assert_eq!(end("rpc").await["error"], rpc);
    assert_eq!(end("internal").await["error"]["code"], -32603);
    assert_eq!(end("panics").await["error"]["code"], -32603);
    for (tool, part) in
        [("invalid", "path.0.name"), ("forbidden", "hard_deny"), ("gone", "it crashed"), ("late", "7 s")]
    {
        let result = end(tool).await["result"].clone();
        assert_eq!(result["isError"], true, "{tool}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains(part), "{result}");
    }
    let array = request(1, "tools/call", json!({"name": "up.echo", "arguments": []}));
    assert_eq!(answered(web.legacy(&session, &array)).await["error"]["code"], -32602);
    let bare = request(1, "tools/call", json!({"name": "up.echo"}));
    assert_eq!(answered(web.legacy(&session, &bare)).await["result"]["structuredContent"], json!({}));
}

#[tokio::test]
async fn a_result_of_five_megabytes_passes_byte_for_byte() {
    let web = Web::start().await;
    let session = web.session().await;
    let response = web.legacy(&session, &call(7, "big")).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = response.text().await.unwrap();
    assert!(BIG.len() > 5_000_000);
    assert!(body == format!(r#"{{"jsonrpc":"2.0","id":7,"result":{}}}"#, *BIG));
}

#[tokio::test]
async fn arguments_reach_the_tool_as_they_were_written() {
    let web = Web::start().await;
    let session = web.session().await;
    let arguments = r#"{"b": 1.10,"a":12345678901234567890,"s":"\u00e9"}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"up.echo","arguments":{arguments}}}}}"#
    );
    let response = web.post_raw(body).header("mcp-session-id", &session).send().await.unwrap();
    assert!(response.text().await.unwrap().contains(arguments));
}

#[tokio::test]
async fn progress_comes_in_order_before_the_result_and_only_rises() {
    let web = Web::start().await;
    let session = web.session().await;
    for token in [json!("t"), json!(7)] {
        let params = json!({"name": "steps", "_meta": {"progressToken": token}});
        let mut events =
            Events::new(web.legacy(&session, &request(1, "tools/call", params)).send().await.unwrap());
        for step in [1.0, 2.0, 3.0, 4.0] {
            let message = events.next().await.unwrap();
            assert_eq!(message["method"], "notifications/progress");
            let text = format!("step {step}");
            assert_eq!(
                message["params"],
                json!({"progressToken": token, "progress": step, "total": 4.0, "message": text})
            );
        }
        assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "with steps");
        assert_eq!(events.next().await, None);
    }
    // Nobody who does not take a stream is asked to.
    let params = json!({"name": "steps", "_meta": {"progressToken": 1}});
    let plain = web.client.post(web.url("/mcp")).header("mcp-session-id", &session);
    let plain = plain.header("accept", "application/json").json(&request(1, "tools/call", params));
    assert_eq!(answered(plain).await["result"]["content"][0]["text"], "without");
    let streamed = web.client.post(web.url("/mcp")).header("mcp-session-id", &session);
    let streamed =
        streamed.header("accept", "text/event-stream").json(&call(2, "pretty")).send().await.unwrap();
    assert_eq!(Events::new(streamed).next().await.unwrap()["result"], json!({"content": [], "x": "a\nb"}));
}

#[tokio::test]
async fn a_cancelled_call_is_cancelled_in_the_host_and_its_post_ends() {
    let web = Web::start().await;
    let session = web.session().await;
    let slow = tokio::spawn(web.legacy(&session, &call("a", "slow")).send());
    let deaf = tokio::spawn(web.legacy(&session, &call("b", "deaf")).send());
    web.host.until(|s| s.started == 2).await;
    let cancel = |id: &str| notification("notifications/cancelled", json!({"requestId": id}));
    assert_eq!(refused(web.legacy(&session, &cancel("nothing"))).await.0, 202);
    assert_eq!(refused(web.legacy(&session, &cancel("a"))).await.0, 202);
    web.host.until(|s| s.cancelled == 1).await;
    let body: Value = slow.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!("a"), &json!(-32800)));
    // A host that does not listen is let go.
    assert_eq!(refused(web.legacy(&session, &cancel("b"))).await.0, 202);
    web.host.until(|s| s.ended == 2).await;
    deaf.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_legacy_call_goes_on_when_its_connection_breaks() {
    let web = Web::start().await;
    let session = web.session().await;
    let slow = tokio::spawn(web.legacy(&session, &call(1, "slow")).send());
    web.host.until(|s| s.started == 1).await;
    slow.abort();
    // Whatever the abort would do has been done when this is answered.
    for _ in 0..3 {
        answered(web.legacy(&session, &request(2, "ping", json!({})))).await;
    }
    assert_eq!(web.host.seen.borrow().cancelled, 0);
    assert_eq!(
        refused(web.legacy(&session, &notification("notifications/cancelled", json!({"requestId": 1}))))
            .await
            .0,
        202
    );
    web.host.until(|s| s.cancelled == 1).await;
}

#[tokio::test]
async fn a_call_is_noted_for_the_list_of_clients() {
    let web = Web::start().await;
    let session = web.session().await;
    let mut changed = web.gateway.changed();
    changed.mark_unchanged();
    answered(web.legacy(&session, &call(1, "up.echo"))).await;
    assert!(changed.has_changed().unwrap());
    let clients = web.gateway.clients();
    assert!(clients[0].last_call_ms.unwrap() >= clients[0].since_ms);
    let evi_domain::Caller::Client { name, .. } = web.host.callers.lock().unwrap()[0].clone() else {
        panic!()
    };
    assert_eq!(&*name, "tester");
}
