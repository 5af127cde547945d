//! A person reads a server's resources, gets its prompts and is helped to fill in what they take.

use evi_tests::{House, Person, house, peers};
use serde_json::{Value, json};

const STATIC: &str = "demo://resource/static/document/architecture.md";

fn texts<'v>(rows: &'v Value, key: &str) -> Vec<&'v str> {
    rows.as_array().unwrap().iter().map(|row| row[key].as_str().unwrap()).collect()
}

/// Everything that the reference server offers beside tools, through the application.
async fn uses_everything(person: &Person, server: &str) {
    let row = person.server(server).await;
    let detail = row["stages"][3]["detail"].as_str().unwrap();
    assert!(detail.contains(" resources, 2 resource templates, 4 prompts"), "{detail}");
    let list = person.does("resource_list", json!({"server": server})).await;
    assert_eq!(list["missing"], json!([]));
    assert!(texts(&list["resources"], "uri").contains(&STATIC));
    let template = list["resources"].as_array().unwrap().iter().find(|row| row["template"] == true).unwrap();
    assert_eq!(template["uri"], "demo://resource/dynamic/text/{resourceId}");
    assert_eq!(template["definition"]["uriTemplate"], template["uri"], "the definition as it came");

    let read = person.does("resource_read", json!({"server": server, "uri": STATIC})).await;
    assert!(read["text"].as_str().unwrap().starts_with("# Everything Server"), "{read}");
    assert_eq!(read["result"]["contents"][0]["uri"], STATIC);
    let blob = json!({"server": server, "uri": "demo://resource/dynamic/blob/1"});
    let read = person.does("resource_read", blob).await;
    assert!(read["result"]["contents"][0]["blob"].is_string(), "{read}");
    assert!(read["text"].as_str().unwrap().starts_with("[text/plain, "), "{read}");
    let nope = json!({"server": server, "uri": "demo://nope"});
    let problem = person.is_refused("resource_read", nope).await;
    assert!(problem.message.contains("demo://nope"), "{problem:?}");

    let list = person.does("prompt_list", json!({"server": server})).await;
    let names = texts(&list["prompts"], "name");
    assert!(names.contains(&"simple-prompt") && names.contains(&"completable-prompt"), "{names:?}");
    let args = list["prompts"].as_array().unwrap().iter().find(|row| row["name"] == "args-prompt").unwrap();
    assert_eq!(args["arguments"][0]["name"], "city");
    assert_eq!(
        (&args["arguments"][0]["required"], &args["arguments"][1]["required"]),
        (&json!(true), &json!(false))
    );
    let get = json!({"server": server, "name": "args-prompt", "arguments": {"city": "Køln"}});
    assert_eq!(person.does("prompt_get", get).await["text"], "user: What's weather in Køln?");

    // The second argument's suggestions depend on the first one's value.
    let of = json!({"kind": "prompt", "name": "completable-prompt"});
    let ask = json!({"server": server, "ref": of, "argument": "department", "value": "E"});
    assert_eq!(person.does("completion_get", ask).await["values"], json!(["Engineering"]));
    let others = json!({"department": "Sales"});
    let ask = json!({"server": server, "ref": of, "argument": "name", "value": "", "others": others});
    assert_eq!(person.does("completion_get", ask).await["values"], json!(["David", "Eve", "Frank"]));

    let about = person.does("upstream_about", json!({"name": server})).await;
    assert_eq!(about["completes"], json!(true));
    assert!(about["instructions"].as_str().unwrap().len() > 20, "{about}");
    assert!(about["version"].is_string() && about["name"].is_string(), "{about}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reference_servers_resources_and_prompts_are_used_over_a_pipe_and_over_http() {
    let (house, server) = (house(), peers::everything_http().await);
    let person = house.opens().await;
    person.adds("pipe", &peers::everything()).await;
    let draft = json!({"name": "http", "transport": "http", "url": server.url});
    person.does("upstream_add", json!({"draft": draft})).await;
    for name in ["pipe", "http"] {
        person.sees(name, "ready").await;
        uses_everything(&person, name).await;
    }
    let all = person.does("resource_list", json!({})).await;
    let servers = texts(&all["resources"], "server");
    assert!(
        servers.contains(&"pipe") && servers.contains(&"http"),
        "i82: one address, two servers, both listed"
    );

    // One that is switched off is not asked, and says why.
    person.does("upstream_set_enabled", json!({"name": "pipe", "enabled": false})).await;
    for (command, params) in [
        ("resource_list", json!({"server": "pipe"})),
        ("prompt_list", json!({"server": "pipe"})),
        ("resource_read", json!({"server": "pipe", "uri": STATIC})),
        ("prompt_get", json!({"server": "pipe", "name": "simple-prompt"})),
    ] {
        let problem = person.is_refused(command, params).await;
        assert_eq!(problem.message, "pipe is switched off", "{command}");
    }
    let all = person.does("resource_list", json!({})).await;
    assert!(!texts(&all["resources"], "server").contains(&"pipe"));
    person.quits().await;
}

async fn on_the_command_line(house: &House) {
    let said = house.evi(["mcp", "list-resources", "all"]).await.done();
    assert!(said.contains(&format!("all {STATIC} — ")), "{said}");
    assert!(said.contains("all demo://resource/dynamic/text/{resourceId} (template) — "), "{said}");
    let said = house.evi(["mcp", "list-resources", "--json"]).await.done();
    let rows: Value = serde_json::from_str(&said).unwrap();
    assert!(texts(&rows, "uri").contains(&STATIC));

    let said = house.evi(["mcp", "read", "all", STATIC]).await.done();
    assert!(said.starts_with("# Everything Server"), "{said}");
    let blob = "demo://resource/dynamic/blob/1";
    let said = house.evi(["mcp", "read", "all", blob]).await;
    assert!(said.status == 0 && said.out.starts_with("[text/plain, "), "{}{}", said.out, said.err);
    assert!(said.err.contains("hint: it is not text; use --output FILE to keep it\n"), "{}", said.err);
    let file = house.folder().join("blob.txt");
    let said = house.evi(["mcp", "read", "all", blob, "--output", &file.display().to_string()]).await;
    assert_eq!((said.status, said.out.as_str()), (0, ""), "{}", said.err);
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.starts_with("Resource 1: This is a base64 blob"), "{written}");
    let said = house.evi(["mcp", "read", "all", blob, "--json"]).await.done();
    let result: Value = serde_json::from_str(&said).unwrap();
    assert!(result["contents"][0]["blob"].is_string());
    let err = house.evi(["mcp", "read", "all", "demo://nope"]).await.failed(1);
    assert!(err.contains("error: ") && err.contains("demo://nope"), "{err}");

    let said = house.evi(["mcp", "list-prompts", "all"]).await.done();
    assert!(said.contains("all args-prompt city=… [state=…] — "), "{said}");
    let said = house.evi(["mcp", "list-prompts", "--json"]).await.done();
    let rows: Value = serde_json::from_str(&said).unwrap();
    assert!(texts(&rows, "name").contains(&"args-prompt"));
    let said = house.evi(["mcp", "prompt", "all", "args-prompt", "city=Rome", "state=Lazio"]).await.done();
    assert_eq!(said, "user: What's weather in Rome, Lazio?\n");
    let said = house.evi(["mcp", "prompt", "all", "simple-prompt", "--json"]).await.done();
    let result: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(result["messages"][0]["role"], "user");
    let err = house.evi(["mcp", "prompt", "all", "args-prompt", "Rome"]).await.failed(2);
    assert!(err.ends_with("error: bad argument: Rome\nhint: expected KEY=VALUE\n"), "{err}");
    let err = house.evi(["mcp", "list-prompts", "nobody"]).await.failed(1);
    assert!(err.ends_with("error: no such server: nobody\n"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_reads_and_gets_alone_and_beside_a_running_evi() {
    let house = house();
    let program = peers::everything();
    let entry = json!([{"name": "all", "command": program.command, "args": program.args}]);
    house.writes("mcp.json", &entry.to_string());
    // Servers are off: this command starts them for itself.
    let said = house.evi(["mcp", "read", "all", STATIC]).await;
    assert!(
        said.status == 0 && said.err.contains("servers are started for this command only"),
        "{}",
        said.err
    );
    house.writes("config.toml", "[tools]\nmcp = true\n");
    let person = house.opens().await;
    person.sees("all", "ready").await;
    let pid = person.server("all").await["pid"].clone();
    on_the_command_line(&house).await;
    assert_eq!(person.server("all").await["pid"], pid, "the running server was used");
    person.quits().await;
}
