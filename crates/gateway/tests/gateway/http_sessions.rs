//! Legacy sessions over HTTP: opened, required, unknown, ended, and told of changes.

use serde_json::{Value, json};

use crate::{
    host::Host,
    web::{Web, answered, call, initialize, notification, refused, request},
};

#[tokio::test]
async fn i24_an_unknown_session_is_404_and_a_missing_one_is_400() {
    let web = Web::start().await;
    let list = request(1, "tools/list", json!({}));
    assert_eq!(refused(web.post(&list)).await, (400, -32600));
    for id in ["c0ffee00-0000-4000-8000-000000000000", "../../x", "x"] {
        let response = web.legacy(id, &list).send().await.unwrap();
        assert_eq!(response.status(), 404);
        assert_eq!(response.headers()["content-type"], "application/json");
        let told = notification("notifications/initialized", json!({}));
        assert_eq!(refused(web.legacy(id, &told)).await.0, 404);
        let get = web.client.get(web.url("/mcp")).header("accept", "text/event-stream");
        assert_eq!(refused(get.header("mcp-session-id", id)).await.0, 404);
        let delete = web.client.delete(web.url("/mcp")).header("mcp-session-id", id);
        assert_eq!(refused(delete).await.0, 404);
    }
    let get = web.client.get(web.url("/mcp")).header("accept", "text/event-stream");
    assert_eq!(refused(get).await.0, 400);
    assert_eq!(refused(web.client.delete(web.url("/mcp"))).await.0, 400);
}

#[tokio::test]
async fn i36_the_version_that_the_client_asked_for_is_the_answer() {
    let web = Web::start().await;
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let body = answered(web.post(&initialize(version))).await;
        assert_eq!(body["result"]["protocolVersion"], version);
    }
    for version in ["2099-01-01", "2026-07-28"] {
        let body = answered(web.post(&initialize(version))).await;
        assert_eq!(body["result"]["protocolVersion"], "2025-11-25");
    }
    let body = answered(web.post(&request(0, "initialize", json!({})))).await;
    assert_eq!(body["error"]["code"], -32602);
}

#[tokio::test]
async fn initialize_says_who_we_are_and_what_we_can() {
    let web = Web::start().await;
    let body = answered(web.post(&initialize("2025-06-18"))).await;
    let result = &body["result"];
    assert_eq!(result["serverInfo"]["name"], "evi");
    assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(result["instructions"], "be kind");
    for list in ["tools", "resources", "prompts"] {
        assert_eq!(result["capabilities"][list], json!({"listChanged": true}));
    }
    let clients = web.gateway.clients();
    assert_eq!((clients[0].name.as_str(), clients[0].version.as_str()), ("tester", "1.2"));
    assert_eq!((clients[0].transport.as_str(), clients[0].last_call_ms), ("http", None));
}

#[tokio::test]
async fn a_session_answers_until_it_is_deleted() {
    let web = Web::start().await;
    let session = web.session().await;
    let told = notification("notifications/initialized", json!({}));
    assert_eq!(refused(web.legacy(&session, &told)).await.0, 202);
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    assert_eq!(refused(web.legacy(&session, &answer)).await.0, 202);
    let ping = request("p", "ping", json!({}));
    assert_eq!(
        answered(web.legacy(&session, &ping)).await,
        json!({"jsonrpc": "2.0", "id": "p", "result": {}})
    );
    let mut changed = web.gateway.changed();
    changed.mark_unchanged();
    let mut notices = web.notices(&session).await;
    let delete = web.client.delete(web.url("/mcp")).header("mcp-session-id", &session);
    assert_eq!(refused(delete).await.0, 204);
    assert_eq!(notices.next().await, None);
    assert_eq!(refused(web.legacy(&session, &ping)).await.0, 404);
    assert!(changed.has_changed().unwrap() && web.gateway.clients().is_empty());
}

#[tokio::test]
async fn an_unknown_version_header_is_400() {
    let web = Web::start().await;
    let session = web.session().await;
    let ping = request(1, "ping", json!({}));
    let with = |v: &str| web.post(&ping).header("mcp-session-id", &session).header("mcp-protocol-version", v);
    assert_eq!(refused(with("2099-01-01")).await.0, 400);
    assert_eq!(refused(with("2024-11-05")).await.0, 200);
    assert_eq!(refused(web.post(&ping).header("mcp-session-id", &session)).await.0, 200);
}

#[tokio::test]
async fn i38_each_change_is_told_exactly_once_and_a_tick_without_a_change_is_not() {
    let web = Web::start().await;
    let (one, two) = (web.session().await, web.session().await);
    let (mut first, mut second) = (web.notices(&one).await, web.notices(&two).await);
    // Three changes close together are one.
    web.host.add_tool("new_a");
    web.host.add_tool("new_b");
    web.host.change(|s| s.tools.retain(|t| &*t.name != "late"));
    for notices in [&mut first, &mut second] {
        assert_eq!(method(&notices.next().await.unwrap()), "notifications/tools/list_changed");
    }
    let list = answered(web.legacy(&one, &request(1, "tools/list", json!({})))).await;
    let names: Vec<_> =
        list["result"]["tools"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect();
    assert!(names.contains(&json!("new_b")) && !names.contains(&json!("late")));
    web.host.tick();
    assert!(first.is_quiet().await && second.is_quiet().await);
    web.host.change(|s| {
        s.prompts.clear();
        s.resources.clear();
    });
    assert_eq!(method(&first.next().await.unwrap()), "notifications/resources/list_changed");
    assert_eq!(method(&first.next().await.unwrap()), "notifications/prompts/list_changed");
    assert!(first.is_quiet().await);
}

#[tokio::test]
async fn i38_what_changed_while_there_was_no_stream_is_told_when_there_is_one() {
    let web = Web::start().await;
    let session = web.session().await;
    web.host.add_tool("new");
    let mut notices = web.notices(&session).await;
    assert_eq!(method(&notices.next().await.unwrap()), "notifications/tools/list_changed");
    let mut again = web.notices(&session).await;
    assert_eq!(notices.next().await, None, "a second stream ends the first");
    assert!(again.is_quiet().await);
}

fn method(message: &Value) -> &str {
    message["method"].as_str().unwrap()
}

#[tokio::test]
async fn sixty_four_requests_run_at_once_and_the_next_is_told_to_wait() {
    let web = Web::start().await;
    let session = web.session().await;
    let running: Vec<_> =
        (0..64).map(|n| tokio::spawn(web.legacy(&session, &call(n, "slow")).send())).collect();
    web.host.until(|s| s.started == 64).await;
    let response = web.legacy(&session, &call(64, "up.echo")).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers()["retry-after"].to_str().unwrap()), (429, "1"));
    let body: Value = response.json().await.unwrap();
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!(64), &json!(-32000)));
    // Another client is not hindered.
    let other = web.session().await;
    assert_eq!(refused(web.legacy(&other, &call(1, "up.echo"))).await.0, 200);
    let delete = web.client.delete(web.url("/mcp")).header("mcp-session-id", &session);
    assert_eq!(refused(delete).await.0, 204);
    for call in running {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    let _host: &Host = &web.host;
}
