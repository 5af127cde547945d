//! The rules of the house as functions from what was read to the list of what breaks them; none reads or prints.

use crate::sources::{
    Keep, Package, Source, is_product_rust, is_rust, numbered, package_of, rust_code, without_test_items,
};

/// Which workspace packages each may depend on. The arrows of the design, and nothing beside them: shells see the
/// application and the words that cross it; siblings never see each other.
const DIRECTION: &[(&str, &[&str])] = &[
    ("evi-domain", &[]),
    ("evi-contract", &["evi-domain"]),
    ("evi-upstreams", &["evi-domain"]),
    ("evi-gateway", &["evi-domain"]),
    ("evi-builtins", &["evi-domain"]),
    ("evi-chat", &["evi-domain"]),
    ("evi-attach", &["evi-domain"]),
    ("evi-store", &["evi-domain"]),
    (
        "evi-app",
        &[
            "evi-attach",
            "evi-builtins",
            "evi-chat",
            "evi-contract",
            "evi-domain",
            "evi-gateway",
            "evi-store",
            "evi-upstreams",
        ],
    ),
    ("evi-web", &["evi-app", "evi-contract", "evi-domain"]),
    // `evi web` starts the HTTP shell.
    ("evi-cli", &["evi-app", "evi-contract", "evi-domain", "evi-web"]),
    ("evi-desktop", &["evi-app", "evi-contract", "evi-domain"]),
    ("xtask", &[]),
    // Measures the built programs from outside.
    ("evi-bench", &["evi-domain", "evi-upstreams"]),
];

/// Which packages may use a library, and whether others may in their own tests.
const HOMES: &[(&str, &[&str], InTests)] = &[
    ("rmcp", &["evi-upstreams", "evi-gateway"], InTests::Forbidden),
    ("rusqlite", &["evi-store"], InTests::Forbidden),
    ("keyring", &["evi-store"], InTests::Forbidden),
    ("axum", &["evi-web", "evi-gateway"], InTests::Allowed),
    ("clap", &["evi-cli", "xtask"], InTests::Forbidden),
    ("genai", &["evi-chat"], InTests::Forbidden),
    ("interprocess", &["evi-attach"], InTests::Forbidden),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum InTests {
    Allowed,
    Forbidden,
}

/// Where files may be changed: the store, builtins for the person's own files, and what the reasons say.
const WRITERS: &[(&str, &str)] = &[
    ("crates/store/", "it is the disk"),
    ("crates/builtins/", "tools that work on the person's own files"),
    ("crates/attach/", "the owner's lock file and socket"),
    ("crates/upstreams/src/log.rs", "each server's capped log, on a thread of its own"),
    ("crates/upstreams/src/leftovers.rs", "the list of running children, for a start after a kill"),
];

/// Files that may be longer than 800 lines, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[("ui/src/contract/contract.ts", "generated from the contract")];

/// Files that may contain `unsafe`, each with its reason.
const UNSAFE_FILES: &[(&str, &str)] = &[];

/// The tests' package stands outside the house and looks at all of it.
const TESTS: &str = "evi-tests";

const LONGEST_FILE: usize = 800;

pub fn wrong_directions(packages: &[Package]) -> Vec<String> {
    let mut broken = Vec::new();
    for package in packages.iter().filter(|package| package.name != TESTS) {
        let Some((_, allowed)) = DIRECTION.iter().find(|(name, _)| *name == package.name) else {
            broken.push(format!("{} has no place in the direction of dependencies", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let is_ours = packages.iter().any(|other| other.name == dependency.name);
            if is_ours && !allowed.contains(&dependency.name.as_str()) {
                broken.push(format!("{} must not depend on {}", package.name, dependency.name));
            }
        }
    }
    broken
}

pub fn libraries_away_from_home(packages: &[Package]) -> Vec<String> {
    let mut broken = Vec::new();
    for package in packages {
        for dependency in &package.dependencies {
            let is_tauri = dependency.name == "tauri" || dependency.name.starts_with("tauri-");
            if is_tauri && package.name != "evi-desktop" {
                broken.push(format!(
                    "{} must not use {}: only the desktop shell does",
                    package.name, dependency.name
                ));
            }
            let Some((_, homes, in_tests)) = HOMES.iter().find(|(name, ..)| *name == dependency.name) else {
                continue;
            };
            let is_test_use = dependency.is_dev || package.name == TESTS;
            let is_allowed =
                homes.contains(&package.name.as_str()) || (is_test_use && *in_tests == InTests::Allowed);
            if !is_allowed {
                broken.push(format!(
                    "{} must not use {}: its home is {}",
                    package.name,
                    dependency.name,
                    homes.join(" and ")
                ));
            }
        }
    }
    broken
}

pub fn packages_without_our_lints(packages: &[Package]) -> Vec<String> {
    let lacks = |package: &&Package| !package.manifest.contains("[lints]\nworkspace = true");
    packages
        .iter()
        .filter(lacks)
        .map(|package| format!("{} does not inherit the workspace's lints", package.name))
        .collect()
}

pub fn tauri_imports_in_the_page(sources: &[Source]) -> Vec<String> {
    let name = ["@tauri", "-apps/"].concat();
    let is_elsewhere = |source: &&Source| {
        source.path.starts_with("ui/src/") && !source.path.starts_with("ui/src/host/tauri")
    };
    lines_with(sources.iter().filter(is_elsewhere), |line| line.contains(&name))
}

pub fn file_writes_outside_the_store(sources: &[Source]) -> Vec<String> {
    let calls = [
        "fs::write(",
        "File::create",
        "OpenOptions::new",
        "fs::rename(",
        "fs::remove_file(",
        "fs::remove_dir",
    ];
    let is_elsewhere = |source: &&Source| {
        is_product_rust(&source.path) && !WRITERS.iter().any(|(place, _)| source.path.starts_with(place))
    };
    product_lines_with(sources.iter().filter(is_elsewhere), Keep::Code, |line| {
        calls.iter().any(|call| line.contains(call))
    })
}

/// Protocol versions are dates in quotes.
pub fn protocol_versions_outside_their_home(sources: &[Source]) -> Vec<String> {
    let is_elsewhere = |path: &str| !["upstreams", "gateway"].contains(&package_of(path));
    let rust = sources.iter().filter(|source| is_product_rust(&source.path) && is_elsewhere(&source.path));
    let mut broken = product_lines_with(rust, Keep::CodeAndStrings, names_a_version);
    // The page's fake host plays a server that answered with some version.
    let is_page = |path: &str| path.starts_with("ui/src/") && !path.starts_with("ui/src/host/fake");
    let page = sources.iter().filter(|source| is_page(&source.path));
    broken.extend(lines_with(page, names_a_version));
    broken
}

fn names_a_version(line: &str) -> bool {
    let is_quote = |byte: u8| matches!(byte, b'"' | b'\'' | b'`');
    line.as_bytes().windows(12).any(|window| {
        let shape = window[1..11].iter().map(|byte| if byte.is_ascii_digit() { b'0' } else { *byte });
        is_quote(window[0])
            && is_quote(window[11])
            && window[1..].starts_with(b"20")
            && shape.eq(*b"0000-00-00")
    })
}

pub fn unsafe_code(sources: &[Source]) -> Vec<String> {
    let is_named = |source: &&Source| UNSAFE_FILES.iter().any(|(path, _)| *path == source.path);
    let rust = sources.iter().filter(|source| is_rust(&source.path) && !is_named(source));
    rust.flat_map(|source| {
        let code = rust_code(&source.text, Keep::Code);
        let lines = numbered(&code).filter(|(_, line)| words(line).any(|word| word == "unsafe"));
        lines.map(|(number, _)| format!("{}:{number} contains unsafe code", source.path)).collect::<Vec<_>>()
    })
    .collect()
}

pub fn files_without_a_purpose(sources: &[Source]) -> Vec<String> {
    let lacks = |source: &&Source| is_rust(&source.path) && !source.text.starts_with("//! ");
    let named = |source: &Source| format!("{} does not open with //! and its purpose", source.path);
    sources.iter().filter(lacks).map(named).collect()
}

pub fn files_too_long(sources: &[Source]) -> Vec<String> {
    let endings = [".rs", ".ts", ".js", ".mjs", ".svelte", ".css", ".py", ".sh"];
    let is_source = |source: &&Source| endings.iter().any(|ending| source.path.ends_with(ending));
    let is_allowed = |source: &&Source| LONG_FILES.iter().any(|(path, _)| *path == source.path);
    sources
        .iter()
        .filter(is_source)
        .filter(|source| !is_allowed(source))
        .map(|source| (source, source.text.lines().count()))
        .filter(|(_, lines)| *lines > LONGEST_FILE)
        .map(|(source, lines)| format!("{} has {lines} lines; {LONGEST_FILE} are allowed", source.path))
        .collect()
}

/// Allow-list entries that allow nothing any more.
pub fn needless_exceptions(sources: &[Source]) -> Vec<String> {
    let long = |path: &str| {
        sources.iter().any(|source| source.path == path && source.text.lines().count() > LONGEST_FILE)
    };
    let unsafe_ = |path: &str| {
        let file = sources.iter().find(|source| source.path == path);
        file.is_some_and(|source| words(&rust_code(&source.text, Keep::Code)).any(|word| word == "unsafe"))
    };
    let long = LONG_FILES.iter().filter(|(path, _)| !long(path));
    let unsafe_ = UNSAFE_FILES.iter().filter(|(path, _)| !unsafe_(path));
    long.chain(unsafe_).map(|(path, _)| format!("{path} no longer needs its exception")).collect()
}

/// Names that say nothing about what a thing is, as types or as files.
pub fn empty_names(sources: &[Source]) -> Vec<String> {
    let empty = ["Manager", "Service", "Helper", "Util", "Managers", "Services", "Helpers", "Utils"];
    let is_empty = |word: &str| empty.iter().any(|name| name.eq_ignore_ascii_case(word));
    let is_code = |source: &&Source| is_rust(&source.path) || source.path.starts_with("ui/src/");
    let mut broken = Vec::new();
    for source in sources.iter().filter(is_code) {
        let stem = source.path.rsplit('/').next().and_then(|file| file.split('.').next()).unwrap_or_default();
        if stem.split(['_', '-']).chain(camel_words(stem)).any(is_empty) {
            broken.push(format!("{}: the file's name says nothing", source.path));
        }
        let code =
            if is_rust(&source.path) { rust_code(&source.text, Keep::Code) } else { source.text.clone() };
        for (number, line) in numbered(&code) {
            let mut tokens = words(line);
            while let Some(token) = tokens.next() {
                if !["struct", "enum", "trait", "type", "union", "class", "interface"].contains(&token) {
                    continue;
                }
                let Some(name) = tokens.next() else { break };
                let is_type = name.starts_with(|first: char| first.is_ascii_uppercase());
                if is_type && camel_words(name).any(is_empty) {
                    broken.push(format!("{}:{number} the name {name} says nothing", source.path));
                }
            }
        }
    }
    broken
}

/// The words of a camel-case name.
fn camel_words(name: &str) -> impl Iterator<Item = &str> {
    let starts: Vec<usize> =
        name.char_indices().filter(|(_, letter)| letter.is_uppercase()).map(|(at, _)| at).collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([name.len()]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| &name[start..end])
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

/// What belongs to one machine or one network: absolute folders of a build machine, addresses of package registries.
pub fn traces_of_a_machine(sources: &[Source]) -> Vec<String> {
    // Put together here, so that this file does not name them either.
    let folders = ["/wo|rk/", "/ro|ot/", ".lib|rary/"].map(|parts| parts.replace('|', ""));
    let hosts = [
        "registry.npm|js.org",
        "index.crates|.io",
        "static.crates|.io",
        "py|pi.org",
        "pythonhosted|.org",
        "deb.deb|ian.org",
    ]
    .map(|parts| parts.replace('|', ""));
    let names_a_folder = |line: &str, folder: &String| {
        line.match_indices(folder.as_str()).any(|(at, _)| {
            // `/home/me/x/` is somebody's path in an example; `/x/` at the start of a path is a machine's.
            let before = line[..at].chars().next_back();
            !before.is_some_and(|letter| {
                letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '~' | '}')
            })
        })
    };
    lines_with(sources.iter(), |line| {
        folders.iter().any(|folder| names_a_folder(line, folder))
            || hosts.iter().any(|host| line.contains(host.as_str()))
    })
}

/// ARCHITECTURE.md names tests in backquotes: words joined by underscores, at least four of them.
pub fn named_tests_that_are_missing(sources: &[Source]) -> Vec<String> {
    let functions: Vec<&str> = sources
        .iter()
        .filter(|source| is_rust(&source.path))
        .flat_map(|source| source.text.lines())
        .filter_map(|line| line.trim_start().trim_start_matches("async ").strip_prefix("fn "))
        .filter_map(|rest| rest.split(['(', '<']).next())
        .collect();
    let is_test_name = |word: &&str| {
        word.matches('_').count() >= 3
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    sources
        .iter()
        .filter(|source| source.path == "ARCHITECTURE.md")
        .flat_map(|source| source.text.split('`'))
        .filter(is_test_name)
        .filter(|name| !functions.contains(name))
        .map(|name| format!("ARCHITECTURE.md names {name}, and there is no such test"))
        .collect()
}

fn lines_with<'a>(
    sources: impl Iterator<Item = &'a Source>,
    is_broken: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut broken = Vec::new();
    for source in sources {
        for (number, line) in numbered(&source.text).filter(|(_, line)| is_broken(line)) {
            broken.push(format!("{}:{number} {}", source.path, shortened(line)));
        }
    }
    broken
}

/// Like `lines_with`, but without comments and test code.
fn product_lines_with<'a>(
    sources: impl Iterator<Item = &'a Source>,
    keep: Keep,
    is_broken: impl Fn(&str) -> bool,
) -> Vec<String> {
    let stripped: Vec<Source> = sources
        .map(|source| Source {
            path: source.path.clone(),
            text: without_test_items(&rust_code(&source.text, keep)),
        })
        .collect();
    lines_with(stripped.iter(), is_broken)
}

fn shortened(line: &str) -> String {
    line.trim().chars().take(120).collect()
}
