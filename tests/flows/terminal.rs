//! The command line in the original's words: every row of its table, outputs and exit statuses.

use evi_tests::{House, house, peers};
use serde_json::json;

fn entry_of(house: &House) -> serde_json::Value {
    serde_json::from_str(&house.reads("mcp.json")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn adding_listing_switching_and_removing_say_what_the_original_says() {
    let house = house();
    let path = house.home().join("mcp.json").display().to_string();
    let toml = house.home().join("config.toml").display().to_string();
    assert_eq!(house.evi(["mcp", "path"]).await.done(), format!("{path}\n"));
    assert_eq!(
        house.evi(["mcp", "list-servers"]).await.done(),
        format!("no MCP servers configured\n{path}\n")
    );
    assert!(!house.home().exists(), "looking makes nothing");

    let off = format!("hint: servers are off until {toml} has:\n[tools]\nmcp = true\n");
    let said =
        house.evi(["mcp", "add", "fs", "npx", "--env", "LEVEL=debug", "--", "-y", "srv", "/a b"]).await;
    assert_eq!(
        (said.status, said.out.as_str(), said.err.as_str()),
        (0, "added fs — npx -y srv /a b\ncheck it with: evi mcp list-tools\n", off.as_str())
    );
    assert_eq!(
        entry_of(&house)[0],
        json!({"name": "fs", "command": "npx", "args": ["-y", "srv", "/a b"], "env": {"LEVEL": "debug"}, "enabled": true}),
        "a stdio entry is written without transport"
    );
    assert!(house.reads("mcp.json").contains("\n  {\n"), "2-space indent");
    let said =
        house.evi(["mcp", "add-http", "lin", "https://e.org/mcp", "-H", "X-Key=abc", "--disabled"]).await;
    assert_eq!((said.status, said.out.lines().next()), (0, Some("added lin — http https://e.org/mcp")));
    assert_eq!(
        entry_of(&house)[1],
        json!({"name": "lin", "transport": "http", "url": "https://e.org/mcp", "headers": {"X-Key": "abc"}, "enabled": false})
    );
    let said = house.evi(["mcp", "add-http", "old", "https://e.org/sse", "--sse"]).await;
    assert_eq!((said.status, said.out.lines().next()), (0, Some("added old — sse https://e.org/sse")));
    assert_eq!(
        house.evi(["mcp", "list-servers"]).await.done(),
        "on  fs — npx -y srv /a b\noff lin — http https://e.org/mcp (auth)\non  old — sse https://e.org/sse\n"
    );

    let err = house.evi(["mcp", "add", "fs", "other"]).await.failed(1);
    assert_eq!(err, "error: server fs already exists\nhint: use --overwrite to replace it\n");
    assert_eq!(entry_of(&house)[0]["command"], "npx");
    let said = house.evi(["mcp", "add", "fs", "other", "--overwrite"]).await;
    assert_eq!((said.status, said.out.lines().next()), (0, Some("added fs — other")));

    let err = house.evi(["mcp", "add", "x", "y", "--env", "NOVALUE"]).await.failed(1);
    assert_eq!(err, "error: bad --env entry: NOVALUE\nhint: expected KEY=VALUE\n");
    let err = house
        .evi(["mcp", "add-http", "x", "https://e.org", "-H", "Authorization: Bearer abc"])
        .await
        .failed(1);
    assert_eq!(err, "error: bad -H entry: Authorization…\nhint: expected KEY=VALUE\n");

    assert_eq!(house.evi(["mcp", "disable", "fs"]).await.done(), "disabled fs\n");
    assert_eq!(house.evi(["mcp", "enable", "lin"]).await.done(), "enabled lin\n");
    assert_eq!(
        house.evi(["mcp", "list-servers"]).await.done(),
        "off fs — other\non  lin — http https://e.org/mcp (auth)\non  old — sse https://e.org/sse\n"
    );
    assert_eq!(house.evi(["mcp", "remove", "fs"]).await.done(), "removed fs\n");
    let said = house.evi(["mcp", "remove", "lin"]).await;
    assert_eq!((said.status, said.out.as_str()), (0, "removed lin\n"));
    assert!(said.err.starts_with("hint: "), "access at a remote service is not taken back: {}", said.err);
    for command in ["remove", "enable", "disable"] {
        assert_eq!(house.evi(["mcp", command, "x"]).await.failed(1), "error: no such server: x\n");
    }
    assert_eq!(house.evi(["mcp", "list-servers"]).await.done(), "on  old — sse https://e.org/sse\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_a_plugin_is_shown_and_cannot_be_changed() {
    let house = house();
    house.writes("plugins/extra/plugin.toml", "name = \"extra\"\ndefault_enabled = true\n");
    house.writes(
        "plugins/extra/mcp.json",
        r#"[{"name": "box", "command": "node", "args": ["x.js"], "enabled": true}]"#,
    );
    assert_eq!(house.evi(["mcp", "list-servers"]).await.done(), "on  extra:box — node x.js [plugin extra]\n");
    for command in ["remove", "enable", "disable"] {
        let err = house.evi(["mcp", command, "extra:box"]).await.failed(1);
        assert!(err.starts_with("error: server extra:box belongs to the plugin extra\nhint: "), "{err}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_argument_is_misuse_and_usage_goes_to_the_error_output() {
    let house = house();
    for arguments in [&["mcp", "add", "x"][..], &["mcp", "remove"], &["mcp", "nonsense"], &["mcp"], &[]] {
        let err = house.evi(arguments).await.failed(2);
        assert!(err.contains("Usage: evi"), "{arguments:?}: {err}");
    }
    let said = house.evi(["mcp", "serve", "--http", "--port", "99999"]).await;
    assert!(said.failed(2).contains("99999"), "fault 14 of the original: it hung");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_listed_and_called_from_a_terminal() {
    let house = house();
    let files = peers::filesystem(&house);
    let mut add = vec![
        "mcp".to_owned(),
        "add".to_owned(),
        "filesystem".to_owned(),
        files.command.clone(),
        "--".to_owned(),
    ];
    add.extend(files.args.iter().cloned());
    assert_eq!(house.evi(&add).await.status, 0);

    // Servers are off: they are started for this command only, with a warning.
    let said = house.evi(["mcp", "list-tools"]).await;
    assert_eq!(said.status, 0, "{}", said.err);
    let warning = format!("warning: tools.mcp is false in {}", house.home().join("config.toml").display());
    assert!(said.err.starts_with(&warning), "{}", said.err);
    let names: Vec<&str> = said.out.lines().map(|line| line.split_once(" — ").unwrap().0).collect();
    assert_eq!(
        names,
        crate::servers::FILESYSTEM_TOOLS.map(|tool| format!("filesystem.{tool}")),
        "sorted, one line each"
    );

    house.writes("config.toml", "[tools]\nmcp = true\n");
    let path = format!("path={}", house.folder().display());
    let text = house.evi(["mcp", "call", "filesystem.list_directory", &path]).await.done();
    assert_eq!(text, "[FILE] apples.txt\n[FILE] pears.txt\n");
    let json = house.evi(["mcp", "call", "--json", "filesystem.list_directory", &path]).await.done();
    let result: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(result["content"][0]["type"], "text");
    let said = house.evi(["mcp", "call", "filesystem.list_directory", "path=/"]).await;
    assert_eq!(said.status, 1, "a tool's failure is a failure: {} {}", said.out, said.err);
    let err = house.evi(["mcp", "call", "filesystem.list_directori", &path]).await.failed(1);
    assert!(err.contains("filesystem.list_directory"), "near names: {err}");
    let marker = house.folder().display().to_string();
    assert!(evi_tests::running_with(&marker, "server-filesystem").is_empty(), "no server survives a command");
}

#[tokio::test(flavor = "multi_thread")]
async fn listing_says_which_server_failed_and_obeys_the_allow_list() {
    let house =
        house().with_config("[tools]\nmcp = true\n").with_server("box", &house().server("unused", "plain"));
    // Fault 8 of the original: exit 0 when every server failed, empty reasons, mcp_allow ignored.
    let house = house.with_server("other", &evi_tests::Program::new("no-such-program-x")).with_server(
        "exits",
        &evi_tests::Program::new(if cfg!(windows) { "python" } else { "python3" })
            .arg("-c")
            .arg("import sys; print('no API key', file=sys.stderr); sys.exit(3)"),
    );
    let said = house.evi(["mcp", "list-tools"]).await;
    assert_eq!(said.status, 1);
    assert!(
        said.err.contains("error: could not start \"other\": program not found: no-such-program-x\nhint: "),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("\"exits\"") && said.err.contains("no API key"),
        "its last lines are shown: {}",
        said.err
    );

    let house = house.with_config("[tools]\nmcp = true\nmcp_allow = [\"allowed\"]\n");
    let allowed = house.server("allowed", "plain");
    let house = house.with_server("allowed", &allowed);
    let said = house.evi(["mcp", "list-tools"]).await;
    assert_eq!(
        (said.status, said.err.as_str()),
        (0, ""),
        "what is not allowed is not started and no failure"
    );
    assert!(
        !said.out.is_empty() && said.out.lines().all(|line| line.starts_with("allowed.")),
        "{}",
        said.out
    );
    let house = house.with_config("[tools]\nmcp = false\nmcp_allow = [\"allowed\"]\n");
    let said = house.evi(["mcp", "list-tools"]).await;
    assert!(
        said.out.lines().all(|line| line.starts_with("allowed.")),
        "also while servers are off: {}",
        said.out
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_block_to_paste_starts_this_evi_in_this_home() {
    let house = house();
    let block = house.evi(["mcp", "serve-config"]).await.done();
    let block: serde_json::Value = serde_json::from_str(&block).unwrap();
    let entry = &block["mcpServers"]["evi"];
    assert_eq!(entry["command"], json!(peers::evi().canonicalize().unwrap()));
    assert_eq!(entry["args"], json!(["mcp", "serve"]));
    // Fault 14 of the original: it lost EVI_HOME and had no HTTP form.
    assert_eq!(entry["env"]["EVI_HOME"], json!(house.home()));
    let block = house.evi(["mcp", "serve-config", "-c", "memory,mcp"]).await.done();
    assert!(block.contains("\"--categories\"") && block.contains("\"memory,mcp\""), "{block}");
    let block = house.evi(["mcp", "serve-config", "--http"]).await.done();
    assert!(block.contains("http://127.0.0.1:8765/mcp"), "{block}");
    assert!(!house.home().exists(), "printing makes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn i64_additions_at_the_same_moment_lose_nothing() {
    let house = house();
    house.writes("mcp.json", "// mine\n[\n  {\"name\": \"first\", \"command\": \"x\", \"x-own\": 1}\n]\n");
    let person = house.opens().await;
    let from_terminals = futures::future::join_all((0..6).map(|n| {
        let arguments = ["mcp".to_owned(), "add".to_owned(), format!("t{n}"), "x".to_owned()];
        house.evi(arguments)
    }));
    let from_the_window = futures::future::join_all((0..6).map(|n| {
        let draft = evi_tests::Program::new("x").draft(&format!("w{n}"));
        person.does("upstream_add", json!({"draft": draft}))
    }));
    let (said, _) = tokio::join!(from_terminals, from_the_window);
    for one in said {
        assert_eq!(one.status, 0, "{}", one.err);
    }
    let text = house.reads("mcp.json");
    for kept in ["// mine", "\"x-own\": 1"] {
        assert!(text.contains(kept), "{text}");
    }
    let listed = house.evi(["mcp", "list-servers"]).await.done();
    let mut names: Vec<&str> = listed.lines().map(|line| line[4..].split(" — ").next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["first", "t0", "t1", "t2", "t3", "t4", "t5", "w0", "w1", "w2", "w3", "w4", "w5"]);
    person.quits().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_interrupted_is_cancelled_at_the_server_and_ends_with_130() {
    let house = house().with_servers_on();
    let program = house.server("box", "plain");
    let house = house.with_server("box", &program);
    let noted = async |line: &str, times: usize| {
        let look =
            || async { (house.notes("box").iter().filter(|n| *n == line).count() >= times).then_some(()) };
        evi_tests::until(&format!("the server to note {line}"), look).await;
    };
    // Once with a server of its own, once with that of a page.
    for round in [1, 2] {
        let page = if round == 2 { Some(house.opens_page().await) } else { None };
        if let Some(page) = &page {
            page.sees("box", "ready").await;
        }
        let child = house.command().args(["mcp", "call", "box.wait"]).spawn().unwrap();
        noted("waiting", round).await;
        evi_tests::interrupt(child.id().unwrap());
        let output = tokio::time::timeout(evi_tests::LIMIT, child.wait_with_output()).await.unwrap().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
        noted("cancelled", round).await;
        if let Some(page) = page {
            assert_eq!(page.closes().await, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_home_may_be_named_from_the_persons_folder() {
    let house = house();
    let person = house.folder().display().to_string();
    for (given, wanted) in [("~/my evi", "my evi"), ("", ".evi")] {
        let said = house.evi_with(["mcp", "path"], &[("EVI_HOME", given), ("HOME", &person)]).await;
        let path = house.folder().join(wanted).join("mcp.json");
        assert_eq!(said.done(), format!("{}\n", path.display()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_added_with_its_own_settings() {
    let house = house().with_servers_on();
    house
        .evi(["mcp", "add", "fs", "npx", "--era", "legacy", "--timeout", "30", "--cwd", "/tmp"])
        .await
        .done();
    assert_eq!(
        entry_of(&house)[0],
        json!({"name": "fs", "command": "npx", "args": [], "cwd": "/tmp", "era": "legacy", "tool_timeout_sec": 30, "enabled": true})
    );
    house.evi(["mcp", "add-http", "far", "https://e.org/mcp", "--ca", "~/ca.pem"]).await.done();
    assert_eq!(entry_of(&house)[1]["ca"], "~/ca.pem");
    let err = house.evi(["mcp", "add", "x", "y", "--era", "old"]).await.failed(2);
    assert_eq!(err, "error: unknown era \"old\": auto, legacy or modern\n");
}
