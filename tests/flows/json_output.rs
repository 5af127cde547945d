//! The same lists for programs: JSON with the fields of the contract, and no value of a secret kind.

use evi_tests::{House, house};
use serde_json::{Value, json};

async fn reads(house: &House, arguments: &[&str]) -> Value {
    let said = house.evi(arguments).await.done();
    serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"))
}

fn states(rows: &Value) -> Vec<(&str, &str)> {
    rows.as_array()
        .unwrap()
        .iter()
        .map(|r| (r["name"].as_str().unwrap(), r["state"].as_str().unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_and_tools_are_listed_as_json() {
    let empty = house();
    assert_eq!(reads(&empty, &["mcp", "list-servers", "--json"]).await, json!([]));
    assert!(!empty.home().exists(), "looking makes nothing");

    let house = house().with_servers_on();
    let program = house.server("box", "plain");
    house.writes(
        "mcp.json",
        &json!([
            {"name": "box", "command": program.command, "args": program.args, "env": {"TOKEN": "pa55word-of-mine"}},
            {"name": "lin", "url": "https://e.org/mcp", "headers": {"X-Key": "pa55word-of-mine"}, "enabled": false},
            {"name": "odd"},
        ])
        .to_string(),
    );
    let said = house.evi(["mcp", "list-servers", "--json"]).await;
    assert_eq!(said.status, 0);
    assert!(!said.out.contains("pa55word") && said.err.contains("warning: "), "{}{}", said.out, said.err);
    let rows: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(states(&rows), [("box", "off"), ("lin", "off"), ("odd", "invalid")], "nobody runs them now");
    assert_eq!((&rows[0]["enabled"], &rows[0]["env_keys"]), (&json!(true), &json!(["TOKEN"])));
    assert_eq!((&rows[1]["url"], &rows[1]["header_keys"]), (&json!("https://e.org/mcp"), &json!(["X-Key"])));
    assert_eq!(house.notes("box"), [""; 0], "listing servers starts nothing");

    house.writes(
        "mcp.json",
        &json!([{"name": "box", "command": program.command, "args": program.args}]).to_string(),
    );
    let tools = reads(&house, &["mcp", "list-tools", "--json"]).await;
    let names = evi_tests::names(&tools);
    assert!(names.is_sorted() && names.contains(&"box.look".to_owned()), "{names:?}");
    let look = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "box.look").unwrap();
    assert_eq!(look["input_schema"]["properties"]["count"], json!({"type": "integer"}));
    assert_eq!((&look["server"], &look["read_only"]), (&json!("box"), &json!(true)));

    // Beside a running eVi the rows are its own.
    let person = house.opens().await;
    person.sees("box", "ready").await;
    let rows = reads(&house, &["mcp", "list-servers", "--json"]).await;
    assert_eq!(rows, person.asks("upstream_list").await);
    assert_eq!(states(&rows), [("box", "ready")]);
    assert_eq!(
        reads(&house, &["mcp", "list-tools", "--json"]).await,
        tools,
        "the same, whoever runs the server"
    );
    person.quits().await;

    house.writes("mcp.json", "[");
    let said = house.evi(["mcp", "list-servers", "--json"]).await;
    assert_eq!((said.status, said.out.as_str()), (1, "[]\n"), "{}", said.err);
}
