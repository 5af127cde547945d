//! Other applications start `evi mcp serve`: alone, beside a running eVi, and over changes of who runs the servers.

use std::process::Stdio;

use evi_tests::{Door, House, Lines, house, names, peers, running_with, until};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

const SHARED: &str = "[tools]\nmcp = true\n\n[serve.profiles.default]\n";

/// A house whose filesystem server is on and shared.
fn with_files() -> House {
    let house = house().with_config(&format!("{SHARED}servers = [\"filesystem\"]\n"));
    let files = peers::filesystem(&house);
    house.with_server("filesystem", &files)
}

/// A house with the flows' own server, on and shared.
fn with_box() -> House {
    let house = house().with_config(&format!("{SHARED}servers = [\"box\"]\n"));
    let program = house.server("box", "plain");
    house.with_server("box", &program)
}

fn filesystem_servers(house: &House) -> usize {
    running_with(&house.folder().display().to_string(), "server-filesystem").len()
}

async fn has_noted(house: &House, line: &str, times: usize) {
    let look = || async { (house.notes("box").iter().filter(|n| *n == line).count() >= times).then_some(()) };
    until(&format!("the server to note {line}"), look).await;
}

async fn lists_the_folder(client: &mut Lines, house: &House) {
    let answer = client.calls("filesystem.list_directory", json!({"path": house.folder()})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "[FILE] apples.txt\n[FILE] pears.txt", "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_starts_evi_alone_and_uses_tools_memories_and_prompts() {
    let house = with_files();
    house.writes("commands/fruit.md", "---\ndescription: About fruit\n---\nTell me about $ARGUMENTS\n");
    let mut client = house.serves(&[]).await;
    let hello = client.greets().await;
    assert_eq!(hello["serverInfo"]["name"], "evi");
    assert_eq!(hello["protocolVersion"], "2025-06-18", "the client's version is echoed");
    client.waits_for_tool("filesystem.list_directory").await;
    assert_eq!(client.tools().await.len(), 20);
    lists_the_folder(&mut client, &house).await;
    assert_eq!(filesystem_servers(&house), 1);

    let kept = client.calls("remember", json!({"name": "fruit", "content": "apples are red"})).await;
    assert!(kept["result"].is_object(), "{kept}");
    let read = client.asks("resources/read", json!({"uri": "evi://memory/fruit"})).await;
    assert_eq!(read["result"]["contents"][0]["mimeType"], "text/markdown");
    assert!(read["result"]["contents"][0]["text"].as_str().unwrap().contains("apples are red"));
    let prompts = client.asks("prompts/list", json!({})).await;
    assert_eq!(prompts["result"]["prompts"][0]["name"], "fruit");
    // Fault 1 of the original: a path in the text was read and sent.
    let secret = house.folder().join("apples.txt");
    let arguments = json!({"name": "fruit", "arguments": {"args": format!("@{}", secret.display())}});
    let prompt = client.asks("prompts/get", arguments).await;
    assert!(!prompt.to_string().contains("red"), "{prompt}");

    let unknown = client.calls("filesystem.nothing", json!({})).await;
    assert_eq!(unknown["error"]["code"], json!(-32602));
    let wrong = client.calls("recall", json!({})).await;
    assert_eq!(wrong["result"]["isError"], json!(true), "{wrong}");
    assert!(wrong["result"]["content"][0]["text"].as_str().unwrap().contains("name"), "{wrong}");

    let (status, err) = client.leaves().await;
    assert_eq!((status, err.as_str()), (0, ""));
    assert_eq!(filesystem_servers(&house), 0, "no server survives the client's end");
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_inspector_starts_evi_as_a_desktop_client_does() {
    let house = with_files();
    let evi = peers::evi().display().to_string();
    let home = format!("EVI_HOME={}", house.home().display());
    let list = peers::inspector(&[&evi, "mcp", "serve", "-e", &home, "--method", "tools/list"]).await;
    assert!(names(&list["tools"]).contains(&"remember".to_owned()));
    let list = peers::inspector(&[
        &evi,
        "mcp",
        "serve",
        "-e",
        &home,
        "--protocol-era",
        "modern",
        "--method",
        "tools/list",
    ])
    .await;
    assert!(names(&list["tools"]).contains(&"recall".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_running_evi_the_filesystem_server_runs_once_and_the_session_outlives_each_owner() {
    let house = with_files();
    // Two applications start eVi: the first runs the server, the second uses it.
    let mut first = house.serves(&[]).await;
    first.greets().await;
    first.waits_for_tool("filesystem.list_directory").await;
    let mut second = house.serves(&[]).await;
    second.greets().await;
    second.waits_for_tool("filesystem.list_directory").await;
    lists_the_folder(&mut first, &house).await;
    lists_the_folder(&mut second, &house).await;
    assert_eq!(filesystem_servers(&house), 1);

    // A page of higher rank takes over; both sessions go on.
    let page = house.opens_page().await;
    page.sees("filesystem", "ready").await;
    assert_eq!(page.does("app_info", json!({})).await["shell"], "web");
    first.waits_for_tool("filesystem.list_directory").await;
    lists_the_folder(&mut first, &house).await;
    second.waits_for_tool("filesystem.list_directory").await;
    lists_the_folder(&mut second, &house).await;
    assert_eq!(filesystem_servers(&house), 1);

    // A third attaches to the page at once, and the terminal uses the same server.
    let mut third = house.serves(&[]).await;
    third.greets().await;
    lists_the_folder(&mut third, &house).await;
    let path = format!("path={}", house.folder().display());
    house.evi(["mcp", "call", "filesystem.list_directory", &path]).await.done();
    assert_eq!(filesystem_servers(&house), 1);
    assert_eq!(third.leaves().await.0, 0);

    // The page quits; one of the two takes over.
    assert_eq!(page.closes().await, 0);
    first.waits_for_tool("filesystem.list_directory").await;
    lists_the_folder(&mut first, &house).await;
    second.waits_for_tool("filesystem.list_directory").await;
    lists_the_folder(&mut second, &house).await;
    assert_eq!(filesystem_servers(&house), 1);
    assert_eq!(first.leaves().await.0, 0);
    second.waits_for_tool("filesystem.list_directory").await;
    lists_the_folder(&mut second, &house).await;
    assert_eq!(second.is_terminated().await.0, 0, "a client may end it with a signal");
    until("the server to end with the last", || async { (filesystem_servers(&house) == 0).then_some(()) })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_handover_a_call_under_way_fails_by_name_and_the_next_one_works() {
    let house = with_box();
    let mut client = house.serves(&[]).await;
    client.greets().await;
    client.waits_for_tool("box.look").await;
    let told = client.notices("notifications/tools/list_changed");
    let call = client.begins_call("box.wait", json!({})).await;
    has_noted(&house, "waiting", 1).await;

    let page = house.opens_page().await;
    let answer = client.answer(call).await;
    assert_eq!(answer["error"]["message"], "the owner ended", "{answer}");
    client.hears_of_changed_tools(told + 1).await;
    client.waits_for_tool("box.look").await;
    let answer = client.calls("box.look", json!({"what": "next"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "{\"what\": \"next\"}");
    assert_eq!(house.notes("box").iter().filter(|n| *n == "started").count(), 2);
    page.sees("box", "ready").await;
    assert_eq!(client.leaves().await.0, 0);
    assert_eq!(page.closes().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_killed_takes_no_session_with_it() {
    let house = with_box();
    let page = house.opens_page().await;
    page.sees("box", "ready").await;
    let mut client = house.serves(&[]).await;
    client.greets().await;
    client.waits_for_tool("box.look").await;
    let told = client.notices("notifications/tools/list_changed");
    let call = client.begins_call("box.wait", json!({})).await;
    has_noted(&house, "waiting", 1).await;

    page.is_killed().await;
    let answer = client.answer(call).await;
    assert_eq!(answer["error"]["message"], "the owner ended", "{answer}");
    client.hears_of_changed_tools(told + 1).await;
    client.waits_for_tool("box.look").await;
    let answer = client.calls("box.look", json!({"what": "next"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "{\"what\": \"next\"}");
    assert_eq!(client.leaves().await.0, 0);
    let marker = house.notes_file("box").display().to_string();
    until("no server to be left", || async { running_with(&marker, "adversary").is_empty().then_some(()) })
        .await;
}

/// `evi mcp serve --http` as a process, and its door.
async fn serves_http(
    house: &House,
    arguments: &[&str],
    token: Option<&str>,
) -> (tokio::process::Child, Door, String) {
    let port = Door::free_port().to_string();
    let mut command = house.command();
    command.args(["mcp", "serve", "--http", "--port", &port]).args(arguments).stdout(Stdio::null());
    if let Some(token) = token {
        command.env("EVI_MCP_TOKEN", token);
    }
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = String::new();
    let address = loop {
        let line =
            tokio::time::timeout(evi_tests::LIMIT, lines.next_line()).await.expect("it serves in time");
        let line = line.unwrap().unwrap_or_else(|| panic!("evi mcp serve --http ended: {said}"));
        if let Some(address) = line.strip_prefix("serving on ") {
            break address.to_owned();
        }
        said.push_str(&line);
    };
    assert_eq!(address, format!("http://127.0.0.1:{port}/mcp"), "its own port and no other");
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (child, Door::new(&address, token), said)
}

async fn ends(mut child: tokio::process::Child) {
    evi_tests::terminate(child.id().unwrap());
    let ended = tokio::time::timeout(evi_tests::LIMIT, child.wait()).await.expect("it ends in time").unwrap();
    assert!(ended.success(), "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
async fn serving_over_http_beside_a_page_binds_its_own_port_and_relays() {
    let house = with_box();
    let page = house.opens_page().await;
    page.sees("box", "ready").await;
    let (child, door, said) = serves_http(&house, &[], Some("a-token")).await;
    assert_eq!(said, "", "with a token there is nothing to warn of");
    let client = door.enters().await;
    assert!(client.tools().await.contains(&"box.look".to_owned()));
    let answer = client.calls("box.look", json!({"what": "far"})).await;
    assert_eq!(answer["result"]["content"][0]["text"], "{\"what\": \"far\"}");
    let answer = client.calls("remember", json!({"name": "far", "content": "x"})).await;
    assert!(answer["result"].is_object(), "{answer}");
    assert_eq!(house.notes("box"), ["started"], "the page's server was used");
    let stranger = Door::new(&door.address, None);
    assert_eq!(stranger.post(&Door::hello()).send().await.unwrap().status(), 401);

    // A switch at the owner reaches its client.
    let told = client.notices_of_changed_tools();
    page.does("tool_set_enabled", json!({"tool": "box.look", "enabled": false})).await;
    client.hears_of_changed_tools(told + 1).await;
    assert!(!client.tools().await.contains(&"box.look".to_owned()));
    page.does("tool_set_enabled", json!({"tool": "box.look", "enabled": true})).await;

    // The owner goes: it serves by itself from then on.
    assert_eq!(page.closes().await, 0);
    let look = || async {
        let answer = client.calls("box.look", json!({"what": "alone"})).await;
        (answer["result"]["content"][0]["text"] == "{\"what\": \"alone\"}").then_some(())
    };
    until("it to run the server by itself", look).await;
    ends(child).await;
    let marker = house.notes_file("box").display().to_string();
    assert!(running_with(&marker, "adversary").is_empty(), "no server survives");
}

#[tokio::test(flavor = "multi_thread")]
async fn serving_over_http_without_a_token_warns_and_beyond_this_machine_it_refuses() {
    let house = house();
    let (child, door, said) = serves_http(&house, &[], None).await;
    assert!(said.starts_with("warning: no token"), "{said}");
    assert_eq!(door.enters().await.tools().await.len(), 6);
    // A busy port is an error.
    let port = door.address.trim_end_matches("/mcp").rsplit(':').next().unwrap().to_owned();
    let err = house.evi(["mcp", "serve", "--http", "--port", &port]).await.failed(1);
    assert!(err.contains(&format!("error: port {port} is in use by another program")), "{err}");
    ends(child).await;
    // Fault 4 of the original: it only warned.
    let port = Door::free_port().to_string();
    let err = house.evi(["mcp", "serve", "--http", "--host", "0.0.0.0", "--port", &port]).await.failed(2);
    assert!(err.starts_with("error: ") && err.contains("EVI_MCP_TOKEN"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn named_tools_replace_the_profile_and_unknown_names_are_an_error_with_near_names() {
    let house = house();
    let mut client = house.serves(&["--tools", "memory.search,memory.read"]).await;
    client.greets().await;
    let mut tools = client.tools().await;
    tools.sort();
    assert_eq!(tools, ["recall", "search_memories"], "the documentation's example");
    assert_eq!(client.leaves().await.0, 0);
    let mut client = house.serves(&["--tools", "memory.recall,list_memories"]).await;
    client.greets().await;
    let mut tools = client.tools().await;
    tools.sort();
    assert_eq!(tools, ["list_memories", "recall"]);
    assert_eq!(client.leaves().await.0, 0);

    let err = house.evi(["mcp", "serve", "--tools", "memory.recal"]).await.failed(1);
    assert_eq!(err.lines().next(), Some("error: --tools names no tool: memory.recal"));
    assert!(err.contains("near names: ") && err.contains("recall"), "{err}");
    let err = house.evi(["mcp", "serve", "--profile", "work"]).await.failed(1);
    assert!(err.contains("there is no profile work"), "{err}");

    let house = with_box();
    let mut client = house.serves(&["-c", "mcp"]).await;
    client.greets().await;
    client.waits_for_tool("box.look").await;
    assert!(
        client.tools().await.iter().all(|tool| tool.starts_with("box.")),
        "mcp means all servers and no more"
    );
    assert_eq!(client.leaves().await.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_servers_are_off_serving_leaves_them_alone() {
    let house = house();
    let program = house.server("box", "plain");
    let house = house.with_server("box", &program);
    let mut client = house.serves(&["-c", "memory,mcp"]).await;
    client.greets().await;
    assert_eq!(client.tools().await.len(), 6);
    assert_eq!(client.leaves().await.0, 0);
    assert_eq!(house.notes("box"), Vec::<String>::new(), "it was never started");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_nonsense_gets_an_error_and_goes_on() {
    let house = house();
    let mut client = house.serves(&[]).await;
    client.greets().await;
    let answer = client.asks("no/such/method", json!({})).await;
    assert_eq!(answer["error"]["code"], json!(-32601));
    let answer: Value = client.asks("ping", json!({})).await;
    assert_eq!(answer["result"], json!({}));
    assert_eq!(client.leaves().await.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn i15_a_client_that_leaves_in_the_middle_of_a_call_leaves_no_process_behind() {
    let house = with_box();
    let mut client = house.serves(&[]).await;
    client.greets().await;
    client.waits_for_tool("box.wait").await;
    client.begins_call("box.wait", json!({})).await;
    has_noted(&house, "waiting", 1).await;
    let marker = house.notes_file("box").display().to_string();
    assert_eq!(running_with(&marker, "adversary").len(), 1);
    assert_eq!(client.leaves().await.0, 0);
    assert!(running_with(&marker, "adversary").is_empty());

    // Beside a page, only the call ends.
    let page = house.opens_page().await;
    page.sees("box", "ready").await;
    let mut client = house.serves(&[]).await;
    client.greets().await;
    client.waits_for_tool("box.wait").await;
    client.begins_call("box.wait", json!({})).await;
    has_noted(&house, "waiting", 2).await;
    assert_eq!(client.leaves().await.0, 0);
    has_noted(&house, "cancelled", 1).await;
    assert_eq!(page.does("upstream_get", json!({"name": "box"})).await["state"], "ready");
    assert_eq!(page.closes().await, 0);
    assert!(running_with(&marker, "adversary").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn i38_a_client_on_lines_hears_of_each_switch_exactly_once_also_beside_an_owner() {
    let house = with_box();
    let page = house.opens_page().await;
    page.sees("box", "ready").await;
    let mut client = house.serves(&[]).await;
    client.greets().await;
    assert!(client.tools().await.contains(&"box.look".to_owned()));
    let told = client.notices("notifications/tools/list_changed");
    for (times, enabled) in [(1, false), (2, true), (3, false)] {
        page.does("tool_set_enabled", json!({"tool": "box.look", "enabled": enabled})).await;
        client.hears_of_changed_tools(told + times).await;
        assert_eq!(client.notices("notifications/tools/list_changed"), told + times);
        assert_eq!(client.tools().await.contains(&"box.look".to_owned()), enabled);
    }
    let answer = client.calls("box.big", json!({"size": 2_000_000})).await;
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text.chars().count(), 2_000_000, "a large result comes through");
    let shown = page.does("gateway_get", json!({})).await;
    assert_eq!(
        (&shown["clients"][0]["name"], &shown["clients"][0]["transport"]),
        (&json!("a desktop client"), &json!("stdio"))
    );
    assert_eq!(client.leaves().await.0, 0);
    page.closes().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn i15_a_client_process_that_is_killed_takes_its_call_with_it_and_nothing_else() {
    let house = with_box();
    let page = house.opens_page().await;
    page.sees("box", "ready").await;
    let mut client = house.serves(&[]).await;
    client.greets().await;
    client.waits_for_tool("box.wait").await;
    client.begins_call("box.wait", json!({})).await;
    has_noted(&house, "waiting", 1).await;
    evi_tests::kill(client.pid());
    has_noted(&house, "cancelled", 1).await;
    until("the client to go from the list", || async {
        let shown = page.does("gateway_get", json!({})).await;
        (shown["clients"] == json!([])).then_some(())
    })
    .await;
    assert_eq!(house.notes("box").iter().filter(|n| *n == "started").count(), 1);
    page.closes().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn five_applications_that_start_at_once_share_one_server_over_two_deaths_of_its_owner() {
    let house = with_box();
    let running = || running_with(&house.notes_file("box").display().to_string(), "adversary").len();
    let mut clients = futures::future::join_all((0..5).map(async |_| {
        let mut client = house.serves(&[]).await;
        client.greets().await;
        client.waits_for_tool("box.look").await;
        client
    }))
    .await;
    assert_eq!(running(), 1);
    for death in 0..2 {
        let look = || async {
            // Who owns the home is whoever has the server as its child.
            let server =
                *running_with(&house.notes_file("box").display().to_string(), "adversary").first()?;
            let owner = evi_tests::parent(server)?;
            clients.iter().position(|client| client.pid() == owner)
        };
        let owner = until("an owner", look).await;
        evi_tests::kill(clients.remove(owner).pid());
        futures::future::join_all(clients.iter_mut().map(async |client| {
            client.waits_for_tool("box.look").await;
            let answer = client.calls("box.look", json!({"what": death.to_string()})).await;
            assert_eq!(
                answer["result"]["content"][0]["text"],
                format!("{{\"what\": \"{death}\"}}"),
                "{answer}"
            );
        }))
        .await;
        until("one server", || async { (running() == 1).then_some(()) }).await;
    }
    for client in clients {
        assert_eq!(client.leaves().await.0, 0);
    }
    assert_eq!(running(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn i12_a_client_that_lists_once_right_at_the_start_sees_and_calls_what_was_there_last_time() {
    let house = with_files();
    let mut first = house.serves(&[]).await;
    first.greets().await;
    first.waits_for_tool("filesystem.list_directory").await;
    first.leaves().await;

    // The server itself takes seconds to come up; nothing is waited for here.
    let mut client = house.serves(&[]).await;
    client.greets().await;
    assert_eq!(client.tools().await.len(), 20, "the first list is whole");
    lists_the_folder(&mut client, &house).await;
    assert_eq!(filesystem_servers(&house), 1);
}
