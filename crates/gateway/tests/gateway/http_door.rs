//! Who gets in over HTTP, and what is turned away before it is a message.

use std::{sync::Arc, time::Duration};

use evi_domain::Secret;
use evi_gateway::{BindError, GatewayError, HttpGateway, HttpSettings, bind};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    host::{BOUND, Host},
    web::{Web, call, initialize, refused, request, settings},
};

#[tokio::test]
async fn a_busy_port_is_an_error_that_says_what_to_do_and_never_another_port() {
    let web = Web::start().await;
    let addr = web.gateway.address();
    let again = HttpGateway::start(Host::new(), HttpSettings { addr, ..settings() }).await;
    let Err(GatewayError::PortBusy { addr: busy }) = again else { panic!("{again:?}") };
    assert_eq!(busy, addr);
    let text = GatewayError::PortBusy { addr }.to_string();
    assert!(text.contains("choose another port"), "{text}");
    assert!(matches!(bind("127.0.0.1", addr.port()).await, Err(BindError::PortBusy { .. })));
    assert!(matches!(bind("no.such.host.invalid", 0).await, Err(BindError::UnknownHost { .. })));
    assert!(bind("localhost", 0).await.unwrap().local_addr().unwrap().ip().is_loopback());
    web.gateway.stop().await;
    assert!(bind("127.0.0.1", addr.port()).await.is_ok());
}

#[tokio::test]
async fn other_machines_need_a_token_unless_the_person_insists() {
    let addr = "0.0.0.0:0".parse().unwrap();
    let open = HttpSettings { addr, ..settings() };
    let refused = HttpGateway::start(Host::new(), open).await;
    assert!(matches!(refused, Err(GatewayError::TokenRequired { .. })), "{refused:?}");
    let empty = HttpSettings { addr, token: Some(Secret::new("")), ..settings() };
    assert!(matches!(HttpGateway::start(Host::new(), empty).await, Err(GatewayError::TokenRequired { .. })));
    let token = HttpSettings { addr, token: Some(Secret::new("t")), ..settings() };
    HttpGateway::start(Host::new(), token).await.unwrap().stop().await;
    let insists = HttpSettings { addr, insecure_no_auth: true, ..settings() };
    HttpGateway::start(Host::new(), insists).await.unwrap().stop().await;
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_forbidden() {
    let web = Web::start().await;
    let open = || web.post(&initialize("2025-06-18"));
    assert_eq!(refused(open().header("host", "evil.example")).await.0, 403);
    assert_eq!(refused(open().header("origin", "http://evil.example")).await.0, 403);
    assert_eq!(refused(open().header("origin", "null")).await.0, 403);
    assert_eq!(refused(open().header("origin", "http://localhost:6274")).await.0, 200);
    let metadata = web.client.get(web.url("/.well-known/oauth-protected-resource"));
    assert_eq!(refused(metadata.header("host", "evil.example")).await.0, 403);
}

#[tokio::test]
async fn the_token_is_asked_for_and_the_answer_says_where_to_learn_more() {
    let web = Web::start_with_token("s3cret").await;
    let response = web.post(&initialize("2025-06-18")).send().await.unwrap();
    assert_eq!(response.status(), 401);
    let challenge = response.headers()["www-authenticate"].to_str().unwrap().to_owned();
    let metadata = web.url("/.well-known/oauth-protected-resource");
    assert_eq!(challenge, format!(r#"Bearer realm="evi", resource_metadata="{metadata}""#));
    let body: Value = web.client.get(metadata).send().await.unwrap().json().await.unwrap();
    assert_eq!(body["resource"], web.url("/mcp"));

    for bad in ["Bearer s3creT", "Bearer s3cret1", "Basic s3cret", "Bearer"] {
        assert_eq!(refused(web.post(&initialize("2025-06-18")).header("authorization", bad)).await.0, 401);
    }
    assert_eq!(refused(web.client.get(web.url("/nothing"))).await.0, 401);
    assert_eq!(refused(web.post(&initialize("2025-06-18")).bearer_auth("s3cret")).await.0, 200);
}

#[tokio::test]
async fn a_new_token_ends_what_the_old_one_opened() {
    let web = Web::start_with_token("old").await;
    let response = web.post(&initialize("2025-06-18")).bearer_auth("old").send().await.unwrap();
    let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let slow = tokio::spawn(web.legacy(&session, &call(1, "slow")).bearer_auth("old").send());
    web.host.until(|s| s.started == 1).await;
    web.gateway.set_token(Secret::new("new"));
    web.host.until(|s| s.cancelled == 1).await;
    slow.await.unwrap().unwrap();
    let ping = request(2, "ping", json!({}));
    assert_eq!(refused(web.legacy(&session, &ping).bearer_auth("old")).await.0, 401);
    assert_eq!(refused(web.legacy(&session, &ping).bearer_auth("new")).await.0, 404);
    assert!(web.gateway.clients().is_empty());
}

#[tokio::test]
async fn only_the_one_path_is_served_and_nothing_redirects() {
    let web = Web::start().await;
    for path in ["/mcp/", "/", "/mcp/x", "/sse"] {
        let response = web.client.post(web.url(path)).body("{}").send().await.unwrap();
        assert_eq!(response.status(), 404, "{path}");
    }
    let response = web.client.put(web.url("/mcp")).send().await.unwrap();
    assert_eq!(
        (response.status().as_u16(), response.headers()["allow"].to_str().unwrap()),
        (405, "GET, POST, DELETE")
    );
}

#[tokio::test]
async fn what_is_no_json_message_is_turned_away_with_its_own_status() {
    let web = Web::start().await;
    let json = "application/json";
    let plain = web.client.post(web.url("/mcp")).header("accept", json).body("{}");
    assert_eq!(refused(plain.header("content-type", "text/plain")).await.0, 415);
    let html = web.client.post(web.url("/mcp")).header("content-type", json).body("{}");
    assert_eq!(refused(html.header("accept", "text/html")).await.0, 406);
    assert_eq!(refused(web.post_raw("{")).await, (400, -32700));
    assert_eq!(refused(web.post_raw(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#)).await, (400, -32600));
    assert_eq!(refused(web.post_raw(r#"{"id":1,"method":"ping"}"#)).await, (400, -32600));
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{}1{}}}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    assert_eq!(refused(web.post_raw(deep)).await, (400, -32600));
}

#[tokio::test]
async fn a_message_over_16_mib_is_too_large() {
    let web = Web::start().await;
    let announced = "POST /mcp HTTP/1.1\r\nHost: ADDRESS\r\nContent-Type: application/json\r\nContent-Length: 16777217\r\n\r\n";
    let address = web.gateway.address();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    socket.write_all(announced.replace("ADDRESS", &address.to_string()).as_bytes()).await.unwrap();
    let mut status = [0; 12];
    tokio::time::timeout(BOUND, socket.read_exact(&mut status)).await.expect("in time").unwrap();
    assert_eq!(&status, b"HTTP/1.1 413", "before a byte of the body");
    // Without a length in front, it is found on the way.
    let chunks = futures_chunks(17);
    assert_eq!(refused(web.post_raw(reqwest::Body::wrap_stream(chunks))).await.0, 413);
}

fn futures_chunks(mebibytes: usize) -> impl futures::Stream<Item = Result<Vec<u8>, std::io::Error>> {
    futures::stream::iter((0..mebibytes).map(|_| Ok(vec![b' '; 1024 * 1024])))
}

#[tokio::test]
async fn stopping_takes_less_than_three_seconds_whatever_is_open() {
    let web = Web::start().await;
    let session = web.session().await;
    let mut notices = web.notices(&session).await;
    let slow = tokio::spawn(web.legacy(&session, &call(1, "slow")).send());
    let deaf = tokio::spawn(web.legacy(&session, &call(2, "deaf")).send());
    web.host.until(|s| s.started == 2).await;
    // A client that never finishes its request.
    let half = tokio::net::TcpStream::connect(web.gateway.address()).await.unwrap();
    half.writable().await.unwrap();
    half.try_write(b"POST /mcp HTTP/1.1\r\nHost: x\r\n").unwrap();
    let host = Arc::clone(&web.host);
    tokio::time::timeout(Duration::from_millis(3500), web.gateway.stop()).await.expect("in time");
    assert_eq!(notices.next().await, None);
    let answer = slow.await.unwrap().unwrap();
    assert_eq!(answer.status(), 503);
    let _either_way = tokio::time::timeout(BOUND, deaf).await.expect("in time");
    host.until(|s| s.ended == 2).await;
}
