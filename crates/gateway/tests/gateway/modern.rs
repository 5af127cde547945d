//! The modern era over HTTP: no session, everything in the request.

use serde_json::{Value, json};

use crate::web::{Events, MODERN, Web, answered, call, modern, refused, request};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

#[tokio::test]
async fn i37_both_lifecycles_are_answered_at_one_address() {
    let web = Web::start().await;
    let discovered = answered(web.modern(&modern(1, "server/discover", json!({})))).await["result"].clone();
    assert_eq!(discovered["resultType"], "complete");
    assert_eq!(discovered["supportedVersions"][0], MODERN);
    assert_eq!(discovered["supportedVersions"].as_array().unwrap().len(), 5);
    assert_eq!(discovered["capabilities"]["tools"]["listChanged"], true);
    assert_eq!(discovered["instructions"], "be kind");
    assert_eq!((&discovered["ttlMs"], &discovered["cacheScope"]), (&json!(0), &json!("private")));
    assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "evi");
    // The same client in the other era.
    let session = web.session().await;
    assert!(answered(web.legacy(&session, &call(1, "up.echo"))).await["result"].is_object());
    assert!(
        answered(web.modern(&modern(1, "tools/call", json!({"name": "up.echo"})))).await["result"]
            .is_object()
    );
}

#[tokio::test]
async fn i37_an_unknown_version_is_told_which_ones_there_are() {
    let web = Web::start().await;
    let mut body = modern(1, "tools/list", json!({}));
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let response =
        web.post(&body).header("mcp-protocol-version", "2099-01-01").header("mcp-method", "tools/list");
    let response = response.send().await.unwrap();
    assert_eq!(response.status(), 400);
    let error = response.json::<Value>().await.unwrap()["error"].clone();
    assert_eq!(error["code"], -32022);
    assert_eq!(error["data"]["requested"], "2099-01-01");
    assert_eq!(error["data"]["supported"][0], MODERN);
}

#[tokio::test]
async fn a_request_that_lacks_its_metadata_is_400() {
    let web = Web::start().await;
    let bare = request(1, "server/discover", json!({}));
    assert_eq!(refused(web.post(&bare)).await, (400, -32602));
    assert_eq!(refused(web.modern(&request(1, "tools/list", json!({})))).await, (400, -32602));
    let mut body = modern(1, "tools/list", json!({}));
    body["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    assert_eq!(refused(web.modern(&body)).await, (400, -32602));
}

#[tokio::test]
async fn headers_that_do_not_match_the_body_are_400() {
    let web = Web::start().await;
    let body = modern(1, "tools/call", json!({"name": "up.echo"}));
    let with = |version: &str, method: &str, name: &str| {
        let mut request = web.post(&body);
        for (header, value) in [("mcp-protocol-version", version), ("mcp-method", method), ("mcp-name", name)]
        {
            if !value.is_empty() {
                request = request.header(header, value);
            }
        }
        refused(request)
    };
    assert_eq!(with(MODERN, "tools/call", "up.echo").await.0, 200);
    assert_eq!(with(MODERN, "tools/call", "=?base64?dXAuZWNobw==?=").await.0, 200);
    for (version, method, name) in [
        ("2025-11-25", "tools/call", "up.echo"),
        (MODERN, "tools/list", "up.echo"),
        (MODERN, "tools/call", "other"),
        (MODERN, "tools/call", "=?base64?!?="),
        ("", "tools/call", "up.echo"),
        (MODERN, "", "up.echo"),
        (MODERN, "tools/call", ""),
    ] {
        assert_eq!(with(version, method, name).await, (400, -32020), "{version} {method} {name}");
    }
    // In a legacy request they may be absent but must not lie.
    let session = web.session().await;
    let legacy = web.legacy(&session, &call(1, "up.echo")).header("mcp-method", "tools/list");
    assert_eq!(refused(legacy).await, (400, -32020));
}

#[tokio::test]
async fn arguments_that_the_schema_marks_must_be_in_the_headers_too() {
    let web = Web::start().await;
    let body = modern(1, "tools/call", json!({"name": "marked", "arguments": {"region": "eu"}}));
    assert_eq!(refused(web.modern(&body)).await, (400, -32020));
    assert_eq!(refused(web.modern(&body).header("mcp-param-region", "us")).await, (400, -32020));
    assert_eq!(refused(web.modern(&body).header("mcp-param-region", "eu")).await.0, 200);
    let without = modern(1, "tools/call", json!({"name": "marked"}));
    assert_eq!(refused(web.modern(&without)).await.0, 200);
    assert_eq!(refused(web.modern(&without).header("mcp-param-region", "eu")).await, (400, -32020));
}

#[tokio::test]
async fn methods_of_the_other_era_are_404() {
    let web = Web::start().await;
    for method in ["ping", "logging/setLevel", "resources/subscribe", "no/such"] {
        assert_eq!(refused(web.modern(&modern(1, method, json!({})))).await, (404, -32601), "{method}");
    }
    for request in [web.client.get(web.url("/mcp")), web.client.delete(web.url("/mcp"))] {
        assert_eq!(refused(request.header("mcp-protocol-version", MODERN)).await.0, 405);
    }
    let told = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(refused(web.modern(&told)).await.0, 202);
}

#[tokio::test]
async fn results_are_stamped_and_lists_say_that_they_are_private() {
    let web = Web::start().await;
    let ask = |method: &str, params: Value| answered(web.modern(&modern(1, method, params)));
    for method in ["tools/list", "resources/list", "resources/templates/list", "prompts/list"] {
        let result = ask(method, json!({})).await["result"].clone();
        assert_eq!(result["resultType"], "complete", "{method}");
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")), "{method}");
    }
    let read = ask("resources/read", json!({"uri": "evi://memory/a"})).await["result"].clone();
    assert_eq!((&read["resultType"], &read["cacheScope"]), (&json!("complete"), &json!("private")));
    assert_eq!(ask("resources/read", json!({"uri": "no"})).await["error"]["code"], -32602);
    assert_eq!(ask("prompts/get", json!({"name": "greet"})).await["result"]["resultType"], "complete");
    assert_eq!(ask("tools/call", json!({"name": "up.echo"})).await["result"]["resultType"], "complete");
    assert_eq!(ask("tools/call", json!({"name": "gone"})).await["result"]["resultType"], "complete");
    assert_eq!(web.gateway.clients().len(), 1, "all from one program");
}

#[tokio::test]
async fn closing_the_response_takes_a_request_back() {
    let web = Web::start().await;
    let plain = tokio::spawn(web.modern(&modern(1, "tools/call", json!({"name": "slow"}))).send());
    web.host.until(|s| s.started == 1).await;
    plain.abort();
    web.host.until(|s| s.cancelled == 1).await;
    let params = json!({"name": "slow", "_meta": {"progressToken": 1}});
    let streamed = web.modern(&modern(2, "tools/call", params)).send().await.unwrap();
    web.host.until(|s| s.started == 2).await;
    drop(streamed);
    web.host.until(|s| s.cancelled == 2).await;
}

#[tokio::test]
async fn i38_a_listener_is_acknowledged_first_and_told_what_it_asked_for() {
    let web = Web::start().await;
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["evi://memory/a"]});
    let listen = modern("sub", "subscriptions/listen", json!({"notifications": filter}));
    let mut events = Events::new(web.modern(&listen).send().await.unwrap());
    let acknowledged = events.next().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(
        acknowledged["params"],
        json!({"_meta": {SUBSCRIPTION: "sub"}, "notifications": {"toolsListChanged": true}})
    );
    web.host.change(|s| s.prompts.clear());
    assert!(events.is_quiet().await, "prompts were not asked for");
    web.host.add_tool("new");
    let told = events.next().await.unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    assert_eq!(told["params"]["_meta"][SUBSCRIPTION], "sub");
    assert!(events.is_quiet().await);
    web.gateway.stop().await;
    let last = events.next().await.unwrap();
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!("sub"), &json!("complete")));
    assert_eq!(last["result"]["_meta"][SUBSCRIPTION], "sub");
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_listener_must_say_what_it_wants_and_take_a_stream() {
    let web = Web::start().await;
    assert_eq!(refused(web.modern(&modern(1, "subscriptions/listen", json!({})))).await, (400, -32602));
    let listen = modern(1, "subscriptions/listen", json!({"notifications": {}}));
    let plain = web.client.post(web.url("/mcp")).json(&listen).header("accept", "application/json");
    let plain = plain.header("mcp-protocol-version", MODERN).header("mcp-method", "subscriptions/listen");
    assert_eq!(refused(plain).await.0, 406);
}
