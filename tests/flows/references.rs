//! The reference servers, over every transport that they have: found, called, cancelled, restarted.

use std::{process::Command, time::Instant};

use evi_tests::{House, Program, house, names, peers, until};
use serde_json::{Value, json};

/// A house whose servers are on and shared.
fn shared(servers: &[&str]) -> House {
    let config = format!("[tools]\nmcp = true\n\n[serve.profiles.default]\nservers = {}\n", json!(servers));
    house().with_config(&config)
}

async fn reads(house: &House, arguments: &[&str]) -> Value {
    let said = house.evi(arguments).await.done();
    serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_with_everything_is_the_same_over_each_transport() {
    let (web, old) = (peers::everything_http().await, peers::everything_sse().await);
    let house = shared(&["local", "web", "old"])
        .with_server("local", &peers::everything())
        .with_entry(json!({"name": "web", "transport": "http", "url": web.url, "enabled": true}))
        .with_entry(json!({"name": "old", "transport": "sse", "url": old.url, "enabled": true}));
    let person = house.opens().await;
    for server in ["local", "web", "old"] {
        person.sees(server, "ready").await;
        let row = person.server(server).await;
        assert_eq!(row["protocol"], "2025-11-25", "{row}");
        let stages = row["stages"].to_string();
        assert!(stages.contains("protocol 2025-11-25"), "the version is shown: {stages}");

        // It adds a tool when the handshake is over, and tells.
        let late = format!("{server}.simulate-research-query");
        let is_there = |list: &Value| names(&list["tools"]).contains(&late);
        person.waits_for("the tool that comes later", "tool_list", json!({}), is_there).await;

        let call = async |tool: &str, arguments: Value| {
            person
                .does("tool_call", json!({"tool": format!("{server}.{tool}"), "arguments": arguments}))
                .await
        };
        let said = call("echo", json!({"message": "grüß dich\u{1F44B}"})).await;
        assert_eq!(said["text"], "Echo: grüß dich\u{1F44B}");
        let sum = call("get-sum", json!({"a": 2, "b": 40.5})).await;
        assert!(sum["text"].as_str().unwrap().contains("42.5"), "{sum}");
        let weather = call("get-structured-content", json!({"location": "Chicago"})).await;
        assert_eq!(weather["result"]["structuredContent"]["temperature"], json!(36));
        assert_eq!(weather["result"]["structuredContent"]["conditions"], "Light rain / drizzle");
        let image = call("get-tiny-image", json!({})).await;
        assert_eq!(image["result"]["content"][1]["mimeType"], "image/png", "an image stays in the result");
        assert!(image["text"].as_str().unwrap().contains("[image omitted]"), "{}", image["text"]);
        let links = call("get-resource-links", json!({"count": 2})).await;
        assert_eq!(links["result"]["content"][1]["type"], "resource_link");
        let uri = links["result"]["content"][1]["uri"].as_str().unwrap();
        assert!(links["text"].as_str().unwrap().contains(uri), "a link is kept for the model: {links}");
        let resource = call("get-resource-reference", json!({"resourceType": "Text", "resourceId": 1})).await;
        assert_eq!(resource["result"]["content"][1]["type"], "resource", "{resource}");

        // A call that takes a minute ends when the person cancels it at once, and the next one works.
        let long = json!({"duration": 60, "steps": 600});
        let tool = format!("{server}.trigger-long-running-operation");
        let id = format!("long-{server}");
        let began = Instant::now();
        let (ended, ()) = tokio::join!(
            person.tries("tool_call", json!({"tool": tool, "arguments": long, "call": id})),
            async {
                person.does("call_cancel", json!({"call": id})).await;
            }
        );
        let problem = ended.unwrap_err();
        assert_eq!(json!(problem.code), "cancelled", "{problem:?}");
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
        assert_eq!(call("echo", json!({"message": "next"})).await["text"], "Echo: next");
    }

    // An application hears each step of a long call, whatever lies between.
    let mut client = house.serves(&[]).await;
    client.greets().await;
    for (n, server) in ["local", "web", "old"].into_iter().enumerate() {
        client.waits_for_tool(&format!("{server}.echo")).await;
        let before = client.notices("notifications/progress");
        let tool = format!("{server}.trigger-long-running-operation");
        let meta = json!({"progressToken": format!("p{n}")});
        let params = json!({"name": tool, "arguments": {"duration": 0.5, "steps": 5}, "_meta": meta});
        let answer = client.asks("tools/call", params).await;
        assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("Steps: 5"), "{answer}");
        let steps = client.told("notifications/progress").split_off(before);
        let told: Vec<_> = steps.iter().map(|s| (s["progress"].as_f64(), s["total"].as_f64())).collect();
        let wanted: Vec<_> = (1..=5).map(|n| (Some(f64::from(n)), Some(5.0))).collect();
        assert_eq!(told, wanted, "{server}");
        assert!(steps.iter().all(|step| step["progressToken"] == format!("p{n}")), "{steps:?}");

        // One that it cancels half-way gets no answer, and the server is there for the next.
        let meta = json!({"progressToken": format!("c{n}")});
        let params = json!({"name": tool, "arguments": {"duration": 60, "steps": 600}, "_meta": meta});
        let before = client.notices("notifications/progress");
        let long = client.begins("tools/call", params).await;
        let begun = || async { (client.notices("notifications/progress") > before).then_some(()) };
        until("the first step", begun).await;
        client.tells("notifications/cancelled", json!({"requestId": long})).await;
        let answer = client.calls(&format!("{server}.echo"), json!({"message": "next"})).await;
        assert_eq!(answer["result"]["content"][0]["text"], "Echo: next");
        let ended = |list: &Value| {
            let of_client = |row: &&Value| row["tool"] == *tool && row["caller"] != "person";
            let rows = list.as_array().unwrap();
            rows.iter().filter(of_client).any(|row| row["outcome"] == "cancelled")
        };
        person.waits_for("the cancelled call to be noted", "activity_list", json!({}), ended).await;
    }
    client.leaves().await;
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn i23_a_server_that_is_restarted_between_two_calls_is_found_again_without_a_hand() {
    let web = peers::everything_http().await;
    let house = house()
        .with_servers_on()
        .with_entry(json!({"name": "web", "transport": "http", "url": web.url, "enabled": true}));
    let person = house.opens().await;
    person.sees("web", "ready").await;
    person.calls("web.echo", json!({"message": "one"})).await;
    let web = web.restarts().await;
    // It says 400 to its old session. What was asked may not be asked twice, so the person hears of it.
    let echo = json!({"tool": "web.echo", "arguments": {"message": "two"}});
    let problem = person.is_refused("tool_call", echo.clone()).await;
    assert!(!problem.message.is_empty(), "{problem:?}");
    let works = || async { person.tries("tool_call", echo.clone()).await.ok() };
    let view = until("the next call to work", works).await;
    assert_eq!(view["text"], "Echo: two");
    drop(web);
    person.quits().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_git_and_time_are_listed_and_called_from_a_terminal_and_their_eras_are_shown() {
    let house = house().with_servers_on();
    let repository = house.folder().join("a repository");
    std::fs::create_dir(&repository).unwrap();
    std::fs::write(repository.join("poem.txt"), "roses\n").unwrap();
    for arguments in
        [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "-m", "A poem of roses"]]
    {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=A Person", "-c", "user.email=person@example.org"]).args(arguments);
        assert!(git.current_dir(&repository).status().unwrap().success(), "git {arguments:?}");
    }
    let added = async |name: &str, program: &Program| {
        let mut words = vec!["mcp".to_owned(), "add".to_owned(), name.to_owned(), program.command.clone()];
        for (key, value) in &program.env {
            words.extend(["--env".to_owned(), format!("{key}={value}")]);
        }
        words.push("--".to_owned());
        words.extend(program.args.iter().cloned());
        house.evi(words).await.done();
    };
    added("memory", &peers::memory(&house)).await;
    added("git", &peers::git(&repository)).await;
    added("time", &peers::time()).await;

    let listed = names(&reads(&house, &["mcp", "list-tools", "--json"]).await);
    for tool in ["memory.create_entities", "git.git_log", "time.convert_time"] {
        assert!(listed.iter().any(|name| name == tool), "{tool}: {listed:?}");
    }

    // From here on beside an eVi that runs them.
    let person = house.opens().await;
    for (name, protocol) in [("memory", "2025-11-25"), ("git", "2026-07-28"), ("time", "2026-07-28")] {
        person.sees(name, "ready").await;
        assert_eq!(person.server(name).await["protocol"], protocol, "{name}");
    }

    let entity = r#"entities:=[{"name": "rose", "entityType": "flower", "observations": ["red"]}]"#;
    house.evi(["mcp", "call", "memory.create_entities", entity]).await.done();
    let graph = reads(&house, &["mcp", "call", "--json", "memory.read_graph"]).await;
    assert_eq!(graph["structuredContent"]["entities"][0]["observations"], json!(["red"]), "{graph}");

    let path = format!("repo_path={}", repository.display());
    let log = house.evi(["mcp", "call", "git.git_log", &path, "max_count=1"]).await.done();
    assert!(log.contains("A poem of roses"), "{log}");
    let noon = ["source_timezone=Asia/Tokyo", "time=12:00", "target_timezone=Europe/Berlin"];
    let said = house.evi([&["mcp", "call", "time.convert_time"][..], &noon].concat()).await.done();
    assert!(said.contains("Europe/Berlin") && said.contains("-7.0h") || said.contains("-8.0h"), "{said}");
    let said = house.evi(["mcp", "call", "time.get_current_time", "timezone=Nowhere/At_All"]).await;
    assert_eq!(said.status, 1, "a tool's failure is a failure: {}{}", said.out, said.err);

    let rows = reads(&house, &["mcp", "list-servers", "--json"]).await;
    let protocols: Vec<_> =
        rows.as_array().unwrap().iter().map(|row| row["protocol"].as_str().unwrap()).collect();
    assert_eq!(protocols, ["2025-11-25", "2026-07-28", "2026-07-28"], "the era is in the list, too");
    let said = person.calls("time.get_current_time", json!({"timezone": "Etc/UTC"})).await;
    assert!(said.contains("Etc/UTC"), "{said}");
    person.quits().await;
}
