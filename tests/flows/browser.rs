//! The same in a browser: `evi web` as a process, its commands, its events and the original's routes.

use evi_tests::{Model, Reply, house, peers, until};
use reqwest::{Method, StatusCode, header};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_adds_a_server_and_calls_its_tool_through_the_page() {
    let house = house();
    let page = house.opens_page().await;
    let events = page.follows().await;
    let draft = peers::filesystem(&house).draft("filesystem");
    let added = page.does("upstream_add", json!({"draft": draft, "turn_on_mcp": true})).await;
    assert_eq!(added["turned_on_mcp"], json!(true));
    let row = page.sees("filesystem", "ready").await;
    assert_eq!((row["tools"].as_u64(), row["stages"].as_array().unwrap().len()), (Some(14), 4));

    // What a page shows of servers and tools was said to be old.
    until("events about servers and tools", || async {
        let events = events.lock().unwrap();
        let about = |tag: &str| {
            events
                .iter()
                .any(|e| e["kind"] == "invalidated" && e["tags"].as_array().unwrap().contains(&json!(tag)))
        };
        (about("upstreams") && about("tools")).then_some(())
    })
    .await;

    let call = json!({"tool": "filesystem.list_directory", "arguments": {"path": house.folder()}});
    let view = page.does("tool_call", call).await;
    assert_eq!(view["text"], "[FILE] apples.txt\n[FILE] pears.txt");

    // Problems have the status of their code.
    let (status, problem) = page.post("/api/upstream_get", &json!({"name": "nobody"})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::NOT_FOUND, &json!("not_found")));
    let (status, problem) = page.post("/api/no_such_command", &json!({})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::NOT_FOUND, &json!("unknown_command")));
    let (status, problem) = page.post("/api/upstream_get", &json!({"nome": 1})).await;
    assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("invalid_input")));
    // Words that eVi's processes use among themselves are not for a browser.
    let (status, _) = page.post("/api/host_call", &json!({"caller": "Person", "name": "recall"})).await;
    assert_eq!(status, StatusCode::NOT_FOUND);

    assert_eq!(page.closes().await, 0);
    let marker = house.folder().display().to_string();
    assert!(evi_tests::running_with(&marker, "server-filesystem").is_empty(), "no server survives the page");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_in_without_the_token_or_from_another_site() {
    let house = house();
    let page = house.opens_page().await;
    let bare = |method, path: &str| page.http.request(method, format!("{}{path}", page.address));
    for (method, path) in [
        (Method::POST, "/api/app_info"),
        (Method::GET, "/api/events"),
        (Method::GET, "/api/mcp"),
        (Method::POST, "/api/mcp"),
        (Method::POST, "/api/mcp/toggle"),
        (Method::POST, "/api/mcp/remove"),
    ] {
        let response = bare(method.clone(), path).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{method} {path}");
        assert!(response.headers().contains_key(header::WWW_AUTHENTICATE));
    }
    let wrong = bare(Method::POST, "/api/app_info").bearer_auth("wrong").send().await.unwrap();
    assert_eq!(wrong.status(), StatusCode::UNAUTHORIZED);

    // Fault 3 of the original: no check of Host and Origin.
    let ask = || page.request(Method::POST, "/api/app_info");
    let port = page.address.rsplit(':').next().unwrap();
    for origin in ["https://evil.example", "http://127.0.0.1:1", "null"] {
        let response = ask().header(header::ORIGIN, origin).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "Origin {origin}");
    }
    for host in [format!("evil.example:{port}"), "127.0.0.1:1".to_owned()] {
        let response = ask().header(header::HOST, &host).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::FORBIDDEN, "Host {host}");
    }
    let own = ask().header(header::ORIGIN, &page.address).send().await.unwrap();
    assert_eq!(own.status(), StatusCode::OK);
    assert!(!own.headers().contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
    page.closes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_the_file_is_asked_for_and_not_printed() {
    let house = house().with_config("[web]\nauth_token = \"${env:PAGE_TOKEN}\"\n");
    let mut command = house.command();
    command.args(["web", "--port", "0"]).env("PAGE_TOKEN", "from-the-environment");
    let mut child = command.spawn().unwrap();
    let link = {
        use tokio::io::AsyncBufReadExt as _;
        let mut lines = tokio::io::BufReader::new(child.stdout.take().unwrap()).lines();
        lines.next_line().await.unwrap().unwrap()
    };
    let address = link.strip_prefix("open ").unwrap().trim_end_matches('/');
    assert!(!link.contains("token") && !link.contains("from-the-environment"), "{link}");
    let door = evi_tests::Door::new(&format!("{address}/api/app_info"), Some("from-the-environment"));
    assert_eq!(door.post(&json!({})).send().await.unwrap().status(), StatusCode::OK);
    let door = evi_tests::Door::new(&format!("{address}/api/app_info"), None);
    assert_eq!(door.post(&json!({})).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_original_routes_of_the_page_still_answer() {
    let house = house().with_servers_on();
    house.writes("plugins/extra/plugin.toml", "name = \"extra\"\ndefault_enabled = true\n");
    house.writes(
        "plugins/extra/mcp.json",
        r#"[{"name": "box", "command": "no-such-program", "enabled": true}]"#,
    );
    let page = house.opens_page().await;

    let program = house.server("box", "plain");
    let line = program.args.iter().map(|arg| format!("'{arg}'")).collect::<Vec<_>>().join(" ");
    let body = json!({"name": "box", "command": program.command, "args": line});
    let (status, answer) = page.post("/api/mcp", &body).await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"ok": true, "name": "box"})));
    page.sees("box", "ready").await;
    let body = json!({"name": "off", "command": "x", "args": ["a b", "c"], "env": {"PLAIN": "${env:HOME}"}});
    assert_eq!(page.post("/api/mcp", &body).await.0, StatusCode::OK);

    let (status, list) = page.get("/api/mcp").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!((&list["enabled"], &list["allowlist"]), (&json!(true), &json!([])));
    let server = |name: &str| {
        let servers = list["servers"].as_array().unwrap();
        servers.iter().find(|s| s["name"] == name).unwrap_or_else(|| panic!("no {name} in {list}")).clone()
    };
    let own = server("box");
    assert_eq!(own["args"], json!(program.args));
    assert_eq!((&own["on"], &own["plugin"], &own["allowed"]), (&json!(true), &json!(null), &json!(true)));
    assert_eq!((&own["status"], &own["transport"]), (&json!("ready"), &json!("stdio")));
    assert_eq!(
        (&server("off")["args"], &server("off")["env_keys"]),
        (&json!(["a b", "c"]), &json!(["PLAIN"]))
    );
    assert_eq!(server("extra:box")["plugin"], "extra");

    // Errors are {detail}, with the original's statuses.
    let (status, twice) = page.post("/api/mcp", &body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(twice["detail"].as_str().unwrap().contains("already exists"), "{twice}");
    for (path, body, wanted) in [
        ("/api/mcp", json!({"command": "x"}), StatusCode::BAD_REQUEST),
        ("/api/mcp", json!({"name": "y", "command": "x", "args": 3}), StatusCode::BAD_REQUEST),
        ("/api/mcp/toggle", json!({"name": "nobody", "on": true}), StatusCode::NOT_FOUND),
        ("/api/mcp/remove", json!({"name": "nobody"}), StatusCode::NOT_FOUND),
        ("/api/mcp/toggle", json!({"name": "extra:box", "on": false}), StatusCode::BAD_REQUEST),
        ("/api/mcp/remove", json!({"name": "extra:box"}), StatusCode::BAD_REQUEST),
    ] {
        let (status, answer) = page.post(path, &body).await;
        assert_eq!(status, wanted, "{path} {body}: {answer}");
        assert!(answer["detail"].is_string(), "{path} {body}: {answer}");
    }

    for path in ["/api/mcp", "/api/mcp/toggle", "/api/mcp/remove"] {
        let response = page.request(Method::POST, path).body("{not json").send().await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{path}");
        let answer: serde_json::Value = response.json().await.unwrap();
        assert!(answer["detail"].as_str().unwrap().contains("JSON"), "{path}: {answer}");
    }

    let (status, answer) = page.post("/api/mcp/toggle", &json!({"name": "box", "on": false})).await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"ok": true})));
    page.sees("box", "off").await;
    let (status, answer) = page.post("/api/mcp/remove", &json!({"name": "box"})).await;
    assert_eq!((status, answer), (StatusCode::OK, json!({"ok": true})));
    let (_, list) = page.get("/api/mcp").await;
    assert!(list["servers"].as_array().unwrap().iter().all(|s| s["name"] != "box"), "{list}");

    // Fault 6 of the original: adding an existing name dropped its env. It is refused, so nothing is dropped.
    assert!(house.reads("mcp.json").contains("${env:HOME}"));
    page.closes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_port_or_an_address_of_the_network_is_an_error_and_nothing_else_is_tried() {
    let house = house();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let said = house.evi(["web", "--port", &port]).await;
    let err = said.failed(1);
    assert!(err.starts_with(&format!("error: port {port} is in use by another program\nhint: ")), "{err}");
    let err = house.evi(["web", "--host", "0.0.0.0", "--port", "0"]).await.failed(2);
    assert!(err.contains("not served on 0.0.0.0"), "{err}");
    // Fault 14 of the original: it hung.
    let said = house.evi(["web", "--port", "99999"]).await;
    assert_eq!(said.status, 2, "{}", said.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_streams_into_the_page_with_its_question() {
    let model =
        Model::that([Reply::Calls("box__look", json!({"what": "x"})), Reply::Says("It gave it back.")]).await;
    let house = house().with_model(&model);
    let program = house.server("box", "plain");
    let house = house.with_server("box", &program);
    let page = house.opens_page().await;
    page.sees("box", "ready").await;
    let events = page.follows().await;
    let sent = page.does("chat_send", json!({"text": "look at x"})).await;
    let question =
        until("a question", || async { page.does("approval_list", json!({})).await.get(0).cloned() }).await;
    assert_eq!((&question["tool"], &question["arguments"]), (&json!("box.look"), &json!({"what": "x"})));
    page.does("approval_answer", json!({"call": question["call"], "answer": "allow_once"})).await;
    let steps = until("the turn to end", || async {
        let events = events.lock().unwrap();
        let turn = events.iter().filter(|e| e["kind"] == "turn" && e["chat"] == sent["chat"]);
        let steps: Vec<serde_json::Value> = turn.map(|e| e["event"].clone()).collect();
        steps.iter().any(|s| s["step"] == "ended").then_some(steps)
    })
    .await;
    let of = |kind: &str| steps.iter().filter(move |s| s["step"] == kind).collect::<Vec<_>>();
    let text: String = of("text").iter().map(|s| s["delta"].as_str().unwrap()).collect();
    assert_eq!(text, "It gave it back.");
    assert!(of("text").len() > 1, "it streams: {steps:?}");
    assert!(of("call").iter().any(|s| s["call"]["tool"] == "box.look"), "{steps:?}");
    assert_eq!(of("ended")[0]["reason"], "done");
    let view = page.does("chat_get", json!({"chat": sent["chat"]})).await;
    assert_eq!(view["messages"][1]["calls"][0]["state"], "ok");
    page.closes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_checks_a_connection_by_starting_evi_exactly_as_the_application_will() {
    let house = house().with_servers_on();
    let program = house.server("box", "plain");
    let house = house.with_server("box", &program);
    let page = house.opens_page().await;
    page.sees("box", "ready").await;
    let clients = page.does("connect_clients", json!({})).await;
    assert!(clients.as_array().unwrap().iter().any(|c| c["id"] == "claude-desktop"), "{clients}");
    let text = page.does("connect_text", json!({"client": "claude-desktop"})).await;
    let check = page.does("connect_check", json!({"client": "claude-desktop"})).await;
    assert_eq!(check["command"], text["command"], "what is checked is what was written");
    assert!(check["problem"].is_null(), "{check}");
    let stages: Vec<(&str, &str)> = check["stages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| (s["kind"].as_str().unwrap(), s["state"].as_str().unwrap()))
        .collect();
    assert_eq!(stages.last(), Some(&("discovery", "done")), "{check}");
    assert!(stages.iter().all(|(_, state)| *state == "done"), "{check}");
    assert_eq!(house.notes("box"), ["started"], "it attached to the page's eVi");
    // What would fail there fails here, with the reason.
    let check = page.does("connect_check", json!({"profile": "work"})).await;
    assert!(check["problem"].is_object(), "{check}");
    assert!(check["stderr"].to_string().contains("there is no profile work"), "{check}");
    page.closes().await;
}
