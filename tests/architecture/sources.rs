//! Reads the repository's own files and packages for the rules; it judges nothing and writes nothing.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file of the repository; `path` is relative to its root and has forward slashes.
pub struct Source {
    pub path: String,
    pub text: String,
}

/// A workspace member with the dependencies its manifest declares, of every kind and platform.
pub struct Package {
    pub name: String,
    pub manifest: String,
    pub dependencies: Vec<Dependency>,
}

pub struct Dependency {
    pub name: String,
    pub is_dev: bool,
}

pub fn root() -> PathBuf {
    // Not env!(): a target folder that two checkouts share may give this test as the other one built it.
    let tests = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo names this package's folder");
    Path::new(&tests).parent().expect("tests/ lies in the repository").to_path_buf()
}

/// Every text file that is tracked, or would be by `git add`.
pub fn sources() -> Vec<Source> {
    let listed = Command::new("git")
        .current_dir(root())
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .output()
        .expect("git lists the repository's files");
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).expect("file names are UTF-8");
    let sources: Vec<Source> = names
        .split('\0')
        .filter(|name| !name.is_empty())
        // A file that was deleted but not committed yet is still listed; pictures are not text.
        .filter_map(|name| {
            let text = std::fs::read_to_string(root().join(name)).ok()?;
            Some(Source { path: name.to_owned(), text })
        })
        .collect();
    assert!(sources.len() > 50, "only {} files found: the rules would hold for nothing", sources.len());
    sources
}

pub fn packages() -> Vec<Package> {
    let metadata = Command::new("cargo")
        .current_dir(root())
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .expect("cargo describes the workspace");
    assert!(metadata.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("cargo metadata is JSON");
    let text = |value: &Value| value.as_str().expect("a text in cargo metadata").to_owned();
    let packages = metadata["packages"].as_array().expect("packages");
    packages
        .iter()
        .map(|package| Package {
            name: text(&package["name"]),
            manifest: std::fs::read_to_string(text(&package["manifest_path"])).expect("a manifest"),
            dependencies: package["dependencies"]
                .as_array()
                .expect("dependencies")
                .iter()
                .map(|found| Dependency { name: text(&found["name"]), is_dev: found["kind"] == "dev" })
                .collect(),
        })
        .collect()
}

/// The package whose folder holds the file, by the layout of the repository.
pub fn package_of(path: &str) -> &str {
    let mut parts = path.split('/');
    match (parts.next(), parts.next()) {
        (Some("crates"), Some(name)) => name,
        (Some("src-tauri"), _) => "desktop",
        (Some(top), Some(_)) => top,
        _ => "",
    }
}

pub fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// Product code in Rust: no test file, no example, no developer command.
pub fn is_product_rust(path: &str) -> bool {
    let is_test_file = ["/tests/", "/examples/", "/benches/"].iter().any(|folder| path.contains(folder))
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs");
    is_rust(path)
        && (path.starts_with("crates/") || path.starts_with("src-tauri/"))
        && !is_test_file
        && package_of(path) != "xtask"
}

/// What a lexical look at Rust keeps besides code.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    Code,
    CodeAndStrings,
}

/// Rust with comments, and if asked the contents of strings, blanked; lines keep their numbers.
pub fn rust_code(text: &str, keep: Keep) -> String {
    let bytes = text.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (length, is_kept) = if rest.starts_with(b"//") {
            (rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()), false)
        } else if rest.starts_with(b"/*") {
            (block_comment(rest), false)
        } else if let Some(length) = raw_string(rest, at.checked_sub(1).map(|before| bytes[before])) {
            (length, keep == Keep::CodeAndStrings)
        } else if rest[0] == b'"' {
            (quoted(rest, b'"'), keep == Keep::CodeAndStrings)
        } else if rest[0] == b'\'' {
            (character(rest), keep == Keep::CodeAndStrings)
        } else {
            (1, true)
        };
        let length = length.max(1);
        code.extend(rest[..length].iter().map(|byte| if is_kept || *byte == b'\n' { *byte } else { b' ' }));
        at += length;
    }
    String::from_utf8_lossy(&code).into_owned()
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The length of `r"…"`, `r#"…"#`, `br"…"` and so on, when one begins here.
fn raw_string(rest: &[u8], before: Option<u8>) -> Option<usize> {
    if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let prefix = usize::from(matches!(rest[0], b'b' | b'c'));
    if rest.get(prefix) != Some(&b'r') {
        return None;
    }
    let hashes = rest[prefix + 1..].iter().take_while(|byte| **byte == b'#').count();
    let open = prefix + 1 + hashes;
    if rest.get(open) != Some(&b'"') {
        return None;
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let found = rest[open + 1..].windows(close.len()).position(|window| window == close);
    Some(found.map_or(rest.len(), |found| open + 1 + found + close.len()))
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character such as `'"'` or `'\n'`; a lifetime is one byte, its quote.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return quoted(rest, b'\'');
    }
    let end = rest.iter().skip(1).take(5).position(|byte| *byte == b'\'');
    match end {
        // At most one character of up to four bytes stands between the quotes.
        Some(length)
            if length > 0
                && std::str::from_utf8(&rest[1..=length]).is_ok_and(|text| text.chars().count() == 1) =>
        {
            length + 2
        }
        _ => 1,
    }
}

/// The code without items under `#[cfg(test)]` or `#[cfg(all(test, …))]`; relies on rustfmt's indentation.
pub fn without_test_items(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let is_test_item =
            ["#[cfg(test)]", "#[cfg(all(test,"].iter().any(|form| line.trim().starts_with(form));
        if !is_test_item {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        kept.push('\n');
        let indentation = line.len() - line.trim_start().len();
        for skipped in lines.by_ref() {
            kept.push('\n');
            let is_level = skipped.len() - skipped.trim_start().len() == indentation;
            let end = skipped.trim_end();
            if is_level && (end.ends_with('}') || end.ends_with(';')) {
                break;
            }
        }
    }
    kept
}

/// Each line with its number, from one.
pub fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(index, line)| (index + 1, line))
}
