//! Plugins: what they bring comes and goes with their switch, and removing one destroys nothing.

use evi_tests::{House, house};
use serde_json::{Value, json};

/// A house with a plugin that brings one of everything and is off until the person says otherwise.
fn with_a_plugin(config: &str) -> House {
    let house = house().with_config(config);
    house.writes(
        "plugins/extra/plugin.toml",
        "name = \"extra\"\nversion = \"1.2\"\ndescription = \"Boxes for\\neverybody\"\ndefault_enabled = false\n",
    );
    let program = house.server("extra", "plain");
    let entry = json!([{"name": "box", "command": program.command, "args": program.args}]);
    house.writes("plugins/extra/mcp.json", &entry.to_string());
    house.writes("plugins/extra/commands/git/log.md", "Log of $ARGUMENTS\n");
    house.writes("plugins/extra/commands/review.md", "---\ndescription: Review\n---\nLook at {args}\n");
    house.writes("plugins/extra/skills/packing/SKILL.md", "# Packing\n");
    house
}

const OFF: &str = "off extra 1.2 — Boxes for everybody [servers: extra:box; commands: extra:git:log, extra:review; skills: 1]\n";

#[tokio::test(flavor = "multi_thread")]
async fn plugins_are_listed_switched_and_removed_from_a_terminal() {
    let empty = house();
    let said = empty.evi(["plugin", "list"]).await.done();
    assert_eq!(said, format!("no plugins installed\n{}\n", empty.home().join("plugins").display()));
    assert_eq!(empty.evi(["plugin", "list", "--json"]).await.done(), "[]\n");
    let err = empty.evi(["plugin", "enable", "x"]).await.failed(1);
    assert!(err.starts_with("error: no such plugin: x\nhint: "), "{err}");

    let house = with_a_plugin("# mine\n[plugins]\nenabled = [\n    \"other\", # kept\n]\n");
    house.writes("plugins/other/mcp.json", "[]");
    house.writes("plugins/unrelated.txt", "no plugin");
    let list = || async { house.evi(["plugin", "list"]).await.done() };
    assert_eq!(list().await, format!("{OFF}on  other\n"));
    let rows: Value = serde_json::from_str(&house.evi(["plugin", "list", "--json"]).await.done()).unwrap();
    assert_eq!(
        rows[0],
        json!({
            "name": "extra", "enabled": false, "version": "1.2", "description": "Boxes for everybody",
            "servers": ["extra:box"], "commands": ["extra:git:log", "extra:review"], "skills": 1,
        })
    );
    for command in ["enable", "disable", "remove"] {
        let err = house.evi(["plugin", command, "extr"]).await.failed(1);
        assert_eq!(err, "error: no such plugin: extr\nhint: the plugins are: extra, other\n");
    }

    let said = house.evi(["plugin", "enable", "extra"]).await;
    assert_eq!((said.status, said.out.as_str()), (0, "enabled extra\n"));
    assert!(said.err.contains("mcp = true"), "servers are off as a whole: {}", said.err);
    assert!(list().await.starts_with("on  extra 1.2"));
    assert_eq!(
        house.reads("config.toml"),
        "# mine\n[plugins]\nenabled = [\n    \"other\", # kept\n    \"extra\",\n]\n",
        "only what was asked for changes"
    );
    assert_eq!(house.evi(["plugin", "disable", "extra"]).await.done(), "disabled extra\n");
    assert_eq!(list().await, format!("{OFF}on  other\n"));

    let said = house.evi(["plugin", "remove", "extra"]).await;
    assert_eq!((said.status, said.out.as_str()), (0, "removed extra\n"));
    let place = said.err.trim().strip_prefix("hint: its folder is kept in ").unwrap().to_owned();
    assert!(place.contains(".trash"), "{place}");
    assert!(std::path::Path::new(&place).join("commands/git/log.md").is_file(), "nothing of it is destroyed");
    assert_eq!(list().await, "on  other\n", "what lies in the trash is no plugin");
    assert!(!house.reads("config.toml").contains("extra"), "a new one of that name starts from its own word");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugin_brings_comes_and_goes_with_its_switch_while_evi_runs() {
    let house = with_a_plugin("[tools]\nmcp = true\n[serve.profiles.default]\nservers = [\"extra:box\"]\n");
    let person = house.opens().await;
    assert_eq!(person.does("upstream_get", json!({"name": "extra:box"})).await["state"], "off");
    let mut client = house.serves(&[]).await;
    client.greets().await;
    let prompts = client.asks("prompts/list", json!({})).await;
    assert_eq!(prompts["result"]["prompts"], json!([]));

    // From a terminal, beside the running window.
    assert_eq!(house.evi(["plugin", "enable", "extra"]).await.done(), "enabled extra\n");
    person.sees("extra:box", "ready").await;
    client.waits_for_tool("extra_box.look_8b97bbe9").await;
    let prompts = client.asks("prompts/list", json!({})).await;
    assert_eq!(evi_tests::names(&prompts["result"]["prompts"]), ["extra:git:log", "extra:review"]);
    let asked = json!({"name": "extra:review", "arguments": {"args": "this"}});
    let prompt = client.asks("prompts/get", asked.clone()).await;
    assert!(prompt.to_string().contains("Look at this"), "{prompt}");
    let refused =
        person.is_refused("upstream_set_enabled", json!({"name": "extra:box", "enabled": false})).await;
    assert!(refused.hint.unwrap().contains("evi plugin disable extra"));

    let row = person.does("plugin_set_enabled", json!({"name": "extra", "enabled": false})).await;
    assert_eq!(row["enabled"], json!(false));
    person.sees("extra:box", "off").await;
    let ended = || async { house.notes("extra").iter().any(|n| n == "ended").then_some(()) };
    evi_tests::until("the plugin's server to end", ended).await;
    assert!(client.asks("prompts/get", asked).await["error"].is_object(), "its prompts are gone");

    let removed = person.does("plugin_remove", json!({"name": "extra"})).await;
    assert!(std::path::Path::new(removed["moved_to"].as_str().unwrap()).is_dir());
    assert_eq!(person.asks("plugin_list").await, json!([]));
    assert!(
        !house.reads("config.toml").contains("extra:box"),
        "another of that name is not shared for this one"
    );
    client.leaves().await;
    person.quits().await;
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_is_a_link_is_not_moved() {
    let house = house();
    let elsewhere = house.folder().join("my plugin");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("plugin.toml"), "description = \"mine\"\n").unwrap();
    house.writes("plugins/other/mcp.json", "[]");
    std::os::unix::fs::symlink(&elsewhere, house.home().join("plugins/linked")).unwrap();
    assert_eq!(house.evi(["plugin", "list"]).await.done(), "on  linked — mine\non  other\n");
    let err = house.evi(["plugin", "remove", "linked"]).await.failed(1);
    assert!(err.contains("is a link to another place"), "{err}");
    for name in ["../plugins/other", ".", "..", ""] {
        let err = house.evi(["plugin", "remove", name]).await.failed(1);
        assert!(
            err.starts_with(&format!("error: no such plugin: {name}\n")),
            "a name never becomes a path: {err}"
        );
    }
    assert_eq!(house.evi(["plugin", "list"]).await.done(), "on  linked — mine\non  other\n");
    assert!(elsewhere.join("plugin.toml").is_file());
}
