//! Command templates as prompts, from the outside; each case is a folder as a person may have it.
#![allow(clippy::unwrap_used)]

use std::fs;

use evi_builtins::Builtins;
use evi_domain::CallError;
use serde_json::Value;
use tempfile::TempDir;

fn home(files: &[(&str, &[u8])]) -> (TempDir, Builtins) {
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        let path = dir.path().join("commands").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tools = Builtins::new(dir.path().join("memory"), dir.path().join("commands"));
    (dir, tools)
}

#[tokio::test]
async fn a_template_is_a_prompt_with_one_optional_argument() {
    let (_dir, tools) = home(&[
        (
            "review.md",
            b"---\ndescription: Review a file\nargument-hint: \"<path>\"\n---\nLook at $1. All: {args}\n",
        ),
        ("git/log.md", b"# Show the log\n"),
    ]);
    let prompts = tools.prompts();
    let names: Vec<&str> = prompts.iter().map(|p| &*p.name).collect();
    assert_eq!(names, ["git:log", "review"]);
    let def = Value::Object((*prompts[1].def.0).clone());
    assert_eq!(def["description"], "Review a file");
    assert_eq!(def["arguments"][0]["name"], "args");
    assert_eq!(def["arguments"][0]["required"], false);
    let text = tools.get_prompt("review", "'a b' c").await.unwrap();
    assert_eq!(text.text, "Look at a b. All: 'a b' c\n");
    assert_eq!(text.description.as_deref(), Some("Review a file"));
    assert_eq!(tools.get_prompt("git:log", "").await.unwrap().text, "# Show the log\n");
}

#[tokio::test]
async fn text_of_an_argument_is_never_expanded() {
    let (_dir, tools) = home(&[("t.md", b"$ARGUMENTS / $1")]);
    let text = tools.get_prompt("t", "$1 @/etc/passwd {args}").await.unwrap();
    assert_eq!(text.text, "$1 @/etc/passwd {args} / $1");
}

#[tokio::test]
async fn one_unreadable_template_leaves_the_others() {
    let (_dir, tools) = home(&[("bad.md", b"\xff\xfe\x00"), ("good.md", b"x"), ("no template.md", b"x")]);
    let names: Vec<String> = tools.prompts().iter().map(|p| p.name.to_string()).collect();
    assert_eq!(names, ["good"]);
}

#[tokio::test]
async fn a_name_is_looked_up_and_never_a_path() {
    let (dir, tools) = home(&[("t.md", b"x")]);
    fs::write(dir.path().join("outside.md"), "private").unwrap();
    for name in ["../outside", "..:outside", "t.md", "", "none"] {
        let problem = tools.get_prompt(name, "").await.unwrap_err();
        assert!(matches!(problem, CallError::Rpc { code: -32602, .. }), "{name}");
    }
}

#[tokio::test]
async fn a_home_without_the_folder_has_no_prompts() {
    let (_dir, tools) = home(&[]);
    assert!(tools.prompts().is_empty());
    assert!(tools.resources().is_empty());
}

#[tokio::test]
async fn commands_of_plugins_bear_their_plugins_name_and_come_and_go_with_it() {
    let (dir, tools) = home(&[("review.md", b"own"), ("extra/shared.md", b"own, too")]);
    let plugin = dir.path().join("plugins/extra/commands");
    fs::create_dir_all(plugin.join("git")).unwrap();
    for (name, text) in
        [("review.md", "of the plugin: {args}"), ("git/log.md", "log"), ("shared.md", "theirs")]
    {
        fs::write(plugin.join(name), text).unwrap();
    }
    assert_eq!(
        evi_builtins::plugin_command_names("extra", plugin.clone()),
        ["extra:git:log", "extra:review", "extra:shared"]
    );
    tools.set_plugin_commands([("extra".to_owned(), plugin)]);
    let names: Vec<String> = tools.prompts().iter().map(|p| p.name.to_string()).collect();
    assert_eq!(names, ["extra:shared", "review", "extra:git:log", "extra:review"]);
    assert_eq!(tools.get_prompt("extra:review", "x").await.unwrap().text, "of the plugin: x");
    assert_eq!(
        tools.get_prompt("extra:shared", "").await.unwrap().text,
        "own, too",
        "the person's own goes first"
    );
    tools.set_plugin_commands([]);
    assert_eq!(tools.prompts().len(), 2);
    assert!(tools.get_prompt("extra:review", "").await.is_err());
}
