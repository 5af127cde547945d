//! A home as the original left it: it works unchanged and loses nothing.

use std::{collections::BTreeMap, fs, path::PathBuf};

use evi_tests::{House, house};
use serde_json::json;

const CONFIG: &str = "# my settings\n[tools]\nmcp = true            # on\nmcp_allow = []\ntool_search = false\nfs = true\nown_key = \"kept\"\n\n[llm]\nbackend = \"openai_compat\"\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key = \"env:NO_SUCH_KEY_X\"\nmodel = \"m\"\n\n[auto]\nmode = \"ask\"\nauto_approve = [\"fs\", \"code\", \"memory\", \"skills\", \"image\"]\nrules = [\"allow git_* *\"]\n\n[web]\nauth_token = \"old-token\"\n";
const MEMORY: &str = "# Fruit\napples are red\n<!-- tags: food, red -->\n";

fn with_an_old_home() -> House {
    let house = house().with_config(CONFIG);
    let box_args = house.server("box", "plain").args;
    let mcp = json!([
        {"name": "box", "command": if cfg!(windows) { "python" } else { "python3" }, "args": box_args, "env": {"SECRET": "plain-in-the-file"}, "transport": "stdio", "url": "", "headers": {}, "enabled": true},
        {"name": "lin", "transport": "sse", "url": "https://e.org/sse", "headers": {"Authorization": "Bearer x"}, "enabled": false, "note": "mine"},
    ]);
    house.writes("mcp.json", &serde_json::to_string_pretty(&mcp).unwrap());
    house.writes("memory/fruit.md", MEMORY);
    house.writes("memory/INDEX.md", "- fruit: Fruit\n");
    house.writes("memory/.attic/old-20250101_000000.md", "gone\n");
    house.writes(
        "commands/git/review.md",
        "---\ndescription: Review\nargument-hint: what\n---\nReview {args}\n",
    );
    house.writes(
        "plugins/extra/plugin.toml",
        "name = \"extra\"\ndescription = \"d\"\nversion = \"1\"\ndefault_enabled = true\n",
    );
    house.writes("plugins/extra/commands/x.md", "Say $1\n");
    house.writes(
        "calendars.json",
        "{\"sources\": [{\"name\": \"c\", \"kind\": \"ical\", \"url\": \"https://e.org/c.ics\"}]}\n",
    );
    house.writes(
        "transcripts/2025-01-01/s.jsonl",
        "{\"session\": \"s\", \"role\": \"user\", \"content\": \"hi\"}\n",
    );
    house.writes("indices/abc/index.json", "{}");
    house
}

fn files(house: &House) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![house.home().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path == house.home().join("state") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_home_works_and_using_it_changes_no_byte_of_it() {
    let house = with_an_old_home();
    let before = files(&house);
    let person = house.opens().await;
    assert_eq!(person.asks("app_info").await["config_problems"], json!([]));
    person.sees("box", "ready").await;
    person.sees("lin", "off").await;
    assert_eq!(
        person.calls("box.env", json!({"name": "SECRET"})).await,
        "plain-in-the-file",
        "plain values still work"
    );
    let found = person.calls("search_memories", json!({"query": "apples"})).await;
    assert!(found.contains("fruit"), "{found}");
    assert!(person.calls("recall", json!({"name": "fruit"})).await.contains("apples are red"));
    let settings = person.asks("settings_get").await;
    assert_eq!(
        (&settings["model"], &settings["key_place"]),
        (&json!("m"), &json!("environment")),
        "{settings}"
    );
    let chat = person.says(None, "/call list_memories").await;
    person.reads_to_the_end(&chat).await;
    let mut client = house.serves(&[]).await;
    client.greets().await;
    let prompts = client.asks("prompts/list", json!({})).await;
    assert!(evi_tests::names(&prompts["result"]["prompts"]).contains(&"git:review".to_owned()), "{prompts}");
    let prompt =
        client.asks("prompts/get", json!({"name": "git:review", "arguments": {"args": "this file"}})).await;
    assert!(prompt.to_string().contains("Review this file"), "{prompt}");
    assert_eq!(client.leaves().await.0, 0);
    person.quits().await;
    assert_eq!(files(&house), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_to_an_old_home_touches_its_one_place() {
    let house = with_an_old_home();
    let before = files(&house);
    let person = house.opens().await;
    person.does("settings_update", json!({"model": "other"})).await;
    person.does("share_set", json!({"server": "box", "mode": "full"})).await;
    person.does("upstream_set_enabled", json!({"name": "lin", "enabled": true})).await;
    person.does("upstream_set_enabled", json!({"name": "lin", "enabled": false})).await;
    person.quits().await;
    let after = files(&house);
    let changed: Vec<_> =
        after.iter().filter(|(path, bytes)| before.get(*path) != Some(*bytes)).map(|(p, _)| p).collect();
    let own: Vec<_> =
        changed.into_iter().filter(|path| path.extension().is_none_or(|e| e != "bak")).collect();
    assert_eq!(own, [&house.home().join("config.toml")], "mcp.json is as it was after two switches");
    let config = house.reads("config.toml");
    let kept = CONFIG.replace("model = \"m\"", "model = \"other\"");
    assert!(config.starts_with(&kept), "{config}");
    assert!(config[kept.len()..].contains("[serve.profiles.default]"), "{config}");
}
