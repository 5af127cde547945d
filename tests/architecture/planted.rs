//! Each rule against a planted violation and its harmless neighbour: a rule that cannot fail holds nothing.

use crate::rules;
use crate::sources::{Dependency, Keep, Package, Source, rust_code, without_test_items};

fn source(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

fn package(name: &str, dependencies: &[&str]) -> Package {
    let dependencies =
        dependencies.iter().map(|name| Dependency { name: (*name).to_owned(), is_dev: false }).collect();
    Package { name: name.to_owned(), manifest: "[lints]\nworkspace = true\n".to_owned(), dependencies }
}

/// The rule names the first file and is silent about the second.
#[track_caller]
fn assert_tells_apart(rule: fn(&[Source]) -> Vec<String>, bad: (&str, &str), good: (&str, &str)) {
    let broken = rule(&[source(bad.0, bad.1), source(good.0, good.1)]);
    assert!(!broken.is_empty(), "the rule does not see the violation");
    assert!(broken.iter().all(|line| line.contains(bad.0)), "{broken:?}");
    assert!(rule(&[source(good.0, good.1)]).is_empty(), "the rule blames the harmless file");
}

#[test]
fn a_dependency_on_a_sibling_or_outward_is_seen() {
    let all = [
        package("evi-domain", &["evi-app"]),
        package("evi-app", &["evi-chat"]),
        package("evi-chat", &["evi-store"]),
    ];
    let broken = rules::wrong_directions(&all);
    assert_eq!(broken, ["evi-domain must not depend on evi-app"]);
    let with_sibling = [package("evi-store", &[]), package("evi-chat", &["evi-store"])];
    assert_eq!(rules::wrong_directions(&with_sibling), ["evi-chat must not depend on evi-store"]);
    assert_eq!(rules::wrong_directions(&[package("evi-new", &[])]).len(), 1);
}

#[test]
fn a_library_away_from_home_is_seen() {
    for library in ["tauri", "tauri-plugin-shell", "rmcp", "rusqlite", "keyring", "axum", "clap"] {
        assert_eq!(rules::libraries_away_from_home(&[package("evi-app", &[library])]).len(), 1, "{library}");
    }
    let at_home = [
        package("evi-desktop", &["tauri"]),
        package("evi-store", &["rusqlite"]),
        package("evi-cli", &["clap"]),
    ];
    assert!(rules::libraries_away_from_home(&at_home).is_empty());
    let mut in_tests = package("evi-chat", &["axum", "rmcp"]);
    in_tests.dependencies.iter_mut().for_each(|dependency| dependency.is_dev = true);
    assert_eq!(
        rules::libraries_away_from_home(&[in_tests]).len(),
        1,
        "axum is allowed in tests, rmcp is not"
    );
}

#[test]
fn a_package_with_lints_of_its_own_is_seen() {
    let mut free = package("evi-app", &[]);
    free.manifest = "[lints.rust]\nunsafe_code = \"allow\"\n".to_owned();
    assert_eq!(rules::packages_without_our_lints(&[free]).len(), 1);
}

#[test]
fn tauri_in_a_feature_of_the_page_is_seen() {
    let import = ["import { invoke } from \"@tauri", "-apps/api/core\";"].concat();
    assert_tells_apart(
        rules::tauri_imports_in_the_page,
        ("ui/src/features/chat.ts", &import),
        ("ui/src/host/tauri.ts", &import),
    );
}

#[test]
fn a_file_written_by_the_application_is_seen() {
    let write = "fn save() { std::fs::write(path, text) }";
    assert_tells_apart(
        rules::file_writes_outside_the_store,
        ("crates/app/src/save.rs", write),
        ("crates/store/src/save.rs", write),
    );
}

#[test]
fn a_protocol_version_in_the_application_is_seen_but_not_in_its_tests_or_comments() {
    let version = ["\"2026-", "07-28\""].concat();
    let tests = format!("// {version}\n#[cfg(test)]\nmod tests {{\n    const A: &str = {version};\n}}\n");
    assert_tells_apart(
        rules::protocol_versions_outside_their_home,
        ("crates/app/src/era.rs", &format!("const A: &str = {version};")),
        ("crates/app/src/other.rs", &tests),
    );
    let after = format!("{tests}const B: &str = {version};");
    assert_eq!(
        rules::protocol_versions_outside_their_home(&[source("crates/web/src/a.rs", &after)]).len(),
        1
    );
    assert_eq!(rules::protocol_versions_outside_their_home(&[source("ui/src/api/a.ts", &version)]).len(), 1);
    assert!(
        rules::protocol_versions_outside_their_home(&[source("crates/gateway/src/a.rs", &version)])
            .is_empty()
    );
}

#[test]
fn unsafe_code_is_seen_but_not_the_word_in_text() {
    assert_tells_apart(
        rules::unsafe_code,
        ("crates/app/src/a.rs", "fn a() { unsafe { b() } }"),
        (
            "crates/app/src/b.rs",
            "// unsafe\nconst A: &str = \"unsafe\";\nfn unsafe_name() {}\nconst B: &str = r#\"unsafe\"#;",
        ),
    );
}

#[test]
fn a_file_without_its_purpose_is_seen() {
    assert_tells_apart(
        rules::files_without_a_purpose,
        ("crates/app/src/a.rs", "use std::fs;\n"),
        ("crates/app/src/b.rs", "//! Answers, and never asks.\n"),
    );
}

#[test]
fn a_file_of_801_lines_is_seen() {
    assert_tells_apart(
        rules::files_too_long,
        ("ui/src/a.svelte", &"x\n".repeat(801)),
        ("ui/src/b.svelte", &"x\n".repeat(800)),
    );
}

#[test]
fn an_empty_name_is_seen() {
    let named = |name: &str| format!("pub struct {name} {{}}");
    assert_tells_apart(
        rules::empty_names,
        ("crates/app/src/a.rs", &named(&["Server", "Manager"].concat())),
        ("crates/app/src/b.rs", &named("Utilization")),
    );
    assert_tells_apart(
        rules::empty_names,
        ("crates/app/src/utils.rs", ""),
        ("crates/app/src/utility_bill.rs", ""),
    );
    let class = ["export class Chat", "Service {}"].concat();
    assert_eq!(rules::empty_names(&[source("ui/src/a.ts", &class)]).len(), 1);
}

#[test]
fn a_folder_of_one_machine_and_a_registry_are_seen() {
    let folder = ["see /ro", "ot/notes"].concat();
    assert_tells_apart(
        rules::traces_of_a_machine,
        ("README.md", &folder),
        ("docs/a.md", "see ~/work/x and src/root/y"),
    );
    let host = ["https://registry.npm", "js.org/vite"].concat();
    assert_eq!(rules::traces_of_a_machine(&[source("ui/package-lock.json", &host)]).len(), 1);
}

#[test]
fn strings_comments_and_characters_are_told_from_code() {
    let text = "a /* b /* c */ d */ e '\"' f \"g\\\"h\" 'i br##\"j\"#k\"## l // m\nn '\\'' o";
    let code: String = rust_code(text, Keep::Code).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(code, "a e f i l n o");
    assert_eq!(rust_code(text, Keep::CodeAndStrings).lines().count(), 2);
    assert_eq!(
        without_test_items("a\n#[cfg(test)]\nuse b;\nc\n").split_whitespace().collect::<String>(),
        "ac"
    );
}

#[test]
fn an_invariant_without_its_test_is_seen() {
    let text = ["Held by `no_test_bears_", "this_name_at_all`."].concat();
    assert_eq!(rules::named_tests_that_are_missing(&[source("ARCHITECTURE.md", &text)]).len(), 1);
    let test = source("crates/a/src/a.rs", &["fn no_test_bears_", "this_name_at_all() {}"].concat());
    assert!(rules::named_tests_that_are_missing(&[source("ARCHITECTURE.md", &text), test]).is_empty());
}
