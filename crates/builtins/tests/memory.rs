//! The memory tools from the outside: each with right, missing, extra, wrong and hostile arguments, and the files
//! that they leave; nothing here knows how they work inside.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use evi_builtins::Builtins;
use evi_domain::{CallError, Caller, ToolResult};
use serde_json::{Value, json, value::RawValue};
use tempfile::TempDir;

struct Home {
    dir: TempDir,
    tools: Builtins,
}

impl Home {
    fn new() -> Self {
        let dir = TempDir::new().unwrap();
        let tools = Builtins::new(dir.path().join("memory"), dir.path().join("commands"));
        Self { dir, tools }
    }
    fn with_memory(files: &[(&str, &str)]) -> Self {
        let home = Self::new();
        fs::create_dir_all(home.memory()).unwrap();
        for (name, text) in files {
            fs::write(home.memory().join(name), text).unwrap();
        }
        home
    }
    fn memory(&self) -> std::path::PathBuf {
        self.dir.path().join("memory")
    }
    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.memory().join(name)).unwrap()
    }
    async fn call(&self, tool: &str, arguments: Value) -> ToolResult {
        self.tools.call(&Caller::Person, tool, &raw(&arguments)).await.unwrap()
    }
    async fn data(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments).await;
        assert!(!result.is_error(), "{}", result.to_model_text());
        result.to_value()["structuredContent"].take()
    }
    async fn failure(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments.clone()).await;
        assert!(result.is_error(), "{tool} took {arguments}");
        result.to_model_text()
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list["memories"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_is_remembered_is_recalled_listed_found_and_forgotten() {
    let home = Home::new();
    let saved = home
        .data(
            "remember",
            json!({"name": "coffee", "content": "# Beans\n\nfrom Peru", "tags": "Drink, food,drink"}),
        )
        .await;
    assert_eq!(saved, json!({"name": "coffee", "created": true, "tags": ["drink", "food"]}));
    assert_eq!(home.file("coffee.md"), "# Beans\n\nfrom Peru\n\n<!-- tags: drink, food -->\n");
    assert_eq!(home.file("INDEX.md"), "# eVi memory index\n\n- `coffee` — Beans  [drink, food]\n");

    let recalled = home.data("recall", json!({"name": "coffee"})).await;
    assert_eq!(recalled["content"], "# Beans\n\nfrom Peru\n");
    let listed = home.call("list_memories", json!({})).await;
    let text: Value = serde_json::from_str(&listed.to_model_text()).unwrap();
    assert_eq!(text, json!([{"name": "coffee", "summary": "Beans", "tags": ["drink", "food"]}]));
    assert_eq!(names(&home.data("recall_by_tag", json!({"tag": " DRINK "})).await), ["coffee"]);
    assert_eq!(names(&home.data("recall_by_tag", json!({"tag": "dri"})).await), [""; 0]);
    let found = home.data("search_memories", json!({"query": "peru", "k": 1})).await;
    assert_eq!((names(&found), &found["memories"][0]["excerpt"]), (vec!["coffee"], &json!("from Peru")));

    let gone = home.data("forget", json!({"name": "coffee"})).await;
    let attic = home.memory().join(".attic").join(gone["attic"].as_str().unwrap());
    assert!(fs::read_to_string(attic).unwrap().contains("from Peru"));
    assert!(home.failure("recall", json!({"name": "coffee"})).await.contains("no memory named \"coffee\""));
    assert!(home.failure("forget", json!({"name": "coffee"})).await.contains("no memory named"));
    assert_eq!(home.file("INDEX.md"), "# eVi memory index\n\n");
}

#[tokio::test]
async fn two_forgotten_within_a_second_are_both_kept() {
    let home = Home::new();
    for round in 0..3 {
        home.data("remember", json!({"name": "n", "content": format!("text {round}")})).await;
        home.data("forget", json!({"name": "n"})).await;
    }
    let kept: BTreeSet<String> = fs::read_dir(home.memory().join(".attic"))
        .unwrap()
        .map(|f| fs::read_to_string(f.unwrap().path()).unwrap())
        .collect();
    assert_eq!(kept.len(), 3);
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_an_error_with_the_fields_path() {
    let home = Home::with_memory(&[("a.md", "x\n")]);
    let cases = [
        ("remember", json!({"content": "x"}), "name: is missing"),
        ("remember", json!({"name": "n"}), "content: is missing"),
        ("remember", json!({"name": "n", "content": 1}), "content: expected text"),
        ("remember", json!({"name": "n", "content": "x", "tags": ["a"]}), "tags: expected text"),
        ("remember", json!({"name": "n", "content": "x", "path": "/tmp"}), "path: is not an argument"),
        ("recall", json!({}), "name: is missing"),
        ("recall", json!({"name": null}), "name: expected text"),
        ("recall", json!({"name": "a", "b": 1}), "b: is not an argument"),
        ("forget", json!({}), "name: is missing"),
        ("forget", json!({"name": ["a"]}), "name: expected text"),
        ("forget", json!({"name": "a", "force": true}), "force: is not an argument"),
        ("list_memories", json!({"all": true}), "all: is not an argument"),
        ("list_memories", json!([]), "expected an object"),
        ("recall_by_tag", json!({}), "tag: is missing"),
        ("recall_by_tag", json!({"tag": 3}), "tag: expected text"),
        ("recall_by_tag", json!({"tag": "x", "y": 1}), "y: is not an argument"),
        ("search_memories", json!({}), "query: is missing"),
        ("search_memories", json!({"query": "x", "k": "3"}), "k: expected a whole number"),
        ("search_memories", json!({"query": "x", "k": 0}), "k: must be at least 1"),
        ("search_memories", json!({"query": "x", "limit": 3}), "limit: is not an argument"),
    ];
    for (tool, arguments, wanted) in cases {
        let text = home.failure(tool, arguments).await;
        assert!(text.contains(wanted), "{tool}: {text}");
    }
    assert_eq!(home.file("a.md"), "x\n");
    assert!(!home.memory().join("n.md").exists());
}

#[tokio::test]
async fn a_hostile_name_is_refused_and_never_a_path() {
    let home = Home::with_memory(&[("a.md", "x\n")]);
    fs::write(home.dir.path().join("outside.md"), "private").unwrap();
    let absolute = home.dir.path().join("outside").display().to_string();
    let long = "x".repeat(65);
    for name in ["../outside", "..", "a/b", "a\\b", "a.md", "é", "a b", "a\n", "\u{1b}[2J", &absolute, &long]
    {
        for (tool, arguments) in [
            ("remember", json!({"name": name, "content": "x"})),
            ("recall", json!({"name": name})),
            ("forget", json!({"name": name})),
        ] {
            let text = home.failure(tool, arguments).await;
            assert!(text.contains("invalid memory name"), "{tool} {name:?}: {text}");
            assert!(!text.contains('\u{1b}'));
        }
    }
    assert!(home.failure("recall", json!({"name": ""})).await.contains("name: must not be empty"));
    for name in ["INDEX", "index"] {
        assert!(home.failure("remember", json!({"name": name, "content": "x"})).await.contains("INDEX"));
    }
    assert_eq!(fs::read_to_string(home.dir.path().join("outside.md")).unwrap(), "private");
    let uri = home.tools.read_resource("evi://memory/../outside").await.unwrap_err();
    assert!(matches!(uri, CallError::Rpc { code: -32602, .. }));
}

#[tokio::test]
async fn huge_content_is_refused_and_the_older_text_stays() {
    let home = Home::with_memory(&[("a.md", "old\n")]);
    let text = home.failure("remember", json!({"name": "a", "content": "x".repeat((1 << 20) + 1)})).await;
    assert!(text.contains("limit"), "{text}");
    assert_eq!(home.file("a.md"), "old\n");
    home.data("remember", json!({"name": "a", "content": "x".repeat(1 << 20)})).await;
}

#[tokio::test]
async fn files_of_the_original_are_read_and_unknown_files_left_alone() {
    let home = Home::with_memory(&[
        ("alpha.md", "# Title here\n\nbody line\n\n<!-- tags: b, a -->\n"),
        ("plain.md", "plain text\n"),
        ("bad name.md", "not ours"),
        ("notes.txt", "not ours"),
        ("INDEX.md", "stale"),
    ]);
    fs::create_dir(home.memory().join("folder.md")).unwrap();
    assert_eq!(names(&home.data("list_memories", json!({})).await), ["alpha", "plain"]);
    home.data("remember", json!({"name": "plain", "content": "new text"})).await;
    home.data("remember", json!({"name": "alpha", "content": "again"})).await;
    assert_eq!(
        home.file("alpha.md"),
        "again\n\n<!-- tags: b, a -->\n",
        "tags stay unless new ones are given"
    );
    home.data("remember", json!({"name": "alpha", "content": "again", "tags": "c"})).await;
    assert_eq!(home.file("alpha.md"), "again\n\n<!-- tags: c -->\n");
    assert_eq!(home.file("bad name.md"), "not ours");
    assert_eq!(home.file("notes.txt"), "not ours");
    assert_eq!(home.file("INDEX.md"), "# eVi memory index\n\n- `alpha` — again  [c]\n- `plain` — new text\n");
    let left: BTreeSet<String> = fs::read_dir(home.memory())
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .filter(|n| n.starts_with(".evi-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn a_change_made_by_another_program_is_seen() {
    let home = Home::with_memory(&[("a.md", "one\n")]);
    let other = Builtins::new(home.memory(), home.dir.path().join("commands"));
    home.data("list_memories", json!({})).await;
    other.call(&Caller::Person, "remember", &raw(&json!({"name": "a", "content": "two"}))).await.unwrap();
    let listed = home.data("list_memories", json!({})).await;
    assert_eq!(listed["memories"][0]["summary"], "two");
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_written_is_the_persons_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.data("remember", json!({"name": "a", "content": "x"})).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.memory()), 0o700);
    assert_eq!(mode(&home.memory().join("a.md")), 0o600);
    assert_eq!(mode(&home.memory().join("INDEX.md")), 0o600);
    assert_eq!(mode(&home.memory().join(".lock")), 0o600);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_writers_lose_nothing_and_leave_a_whole_index() {
    let home = Arc::new(Home::new());
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..2 {
        let home = home.clone();
        // Each with its own handle, as two processes have.
        let tools = Builtins::new(home.memory(), home.dir.path().join("commands"));
        writers.spawn(async move {
            for n in 0..15 {
                let own = json!({"name": format!("w{writer}-{n}"), "content": format!("text {n}")});
                assert!(!tools.call(&Caller::Person, "remember", &raw(&own)).await.unwrap().is_error());
                let shared = json!({"name": "shared", "content": format!("writer {writer}")});
                assert!(!tools.call(&Caller::Person, "remember", &raw(&shared)).await.unwrap().is_error());
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    assert_eq!(names(&home.data("list_memories", json!({})).await).len(), 31);
    assert_eq!(home.file("INDEX.md").lines().filter(|l| l.starts_with("- ")).count(), 31);
}

#[tokio::test]
async fn each_memory_is_a_resource() {
    let home = Home::with_memory(&[("a.md", "# One\n\n<!-- tags: t -->\n")]);
    let resources = home.tools.resources();
    let def = Value::Object((*resources[0].def.0).clone());
    assert_eq!((&*resources[0].uri, resources.len()), ("evi://memory/a", 1));
    assert_eq!(def["description"], "One");
    assert_eq!(def["mimeType"], "text/markdown");
    let text = home.tools.read_resource("evi://memory/a").await.unwrap();
    assert_eq!((text.mime.as_str(), text.text.as_str()), ("text/markdown", "# One\n"));
    for uri in ["evi://memory/none", "evi://memory/", "file:///etc/passwd", "evi://memory/INDEX"] {
        let problem = home.tools.read_resource(uri).await.unwrap_err();
        assert!(matches!(problem, CallError::Rpc { code: -32602, .. }), "{uri}");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_unknown_and_near_names_are_given() {
    let home = Home::new();
    let problem = home.tools.call(&Caller::Person, "recal", &raw(&json!({}))).await.unwrap_err();
    let CallError::UnknownTool { name, near } = problem else { panic!("{problem}") };
    assert_eq!(name, "recal");
    assert!(near.contains(&"recall".to_owned()), "{near:?}");
}

#[test]
fn every_definition_is_whole_and_says_the_truth_about_reading() {
    let tools = Home::new().tools.tools();
    let reads: Vec<&str> = tools.iter().filter(|t| t.read_only).map(|t| t.def.name()).collect();
    assert_eq!(tools.len(), 6);
    assert_eq!(reads, ["recall", "list_memories", "recall_by_tag", "search_memories"]);
    for tool in &tools {
        let def = tool.def.json();
        assert_eq!(tool.def.hint("readOnlyHint"), Some(tool.read_only));
        assert_eq!(tool.def.hint("openWorldHint"), Some(false));
        assert_eq!(def["inputSchema"]["additionalProperties"], false);
        assert_eq!(def["outputSchema"]["type"], "object");
        assert!(tool.def.title().is_some() && tool.def.description().is_some());
    }
}
