//! How other applications connect to eVi: the block each of them wants, and where it belongs. It writes no file.

use std::path::PathBuf;

use evi_contract::{ClientKind, Code, ConnectQuery, ConnectText, Problem};
use serde_json::{Map, Value, json};

/// Where an application keeps its servers, and in which words.
struct Dialect {
    id: &'static str,
    title: &'static str,
    /// Linux, macOS, Windows; `~` is the home folder.
    files: [&'static str; 3],
    shape: Shape,
}

enum Shape {
    /// `{root: {evi: {command, args, env}}}`; over HTTP the key of the address, with `type` where it is wanted.
    Json {
        root: &'static str,
        typed: bool,
        url: Option<&'static str>,
    },
    CodexToml,
    GooseYaml,
    OpenCode,
    ContinueYaml,
}

const fn json(root: &'static str, typed: bool, url: Option<&'static str>) -> Shape {
    Shape::Json { root, typed, url }
}

const DIALECTS: [Dialect; 12] = [
    Dialect {
        id: "claude-desktop",
        title: "Claude Desktop",
        files: [
            "~/.config/Claude/claude_desktop_config.json",
            "~/Library/Application Support/Claude/claude_desktop_config.json",
            "%APPDATA%\\Claude\\claude_desktop_config.json",
        ],
        shape: json("mcpServers", false, None),
    },
    Dialect {
        id: "claude-code",
        title: "Claude Code",
        files: ["~/.claude.json"; 3],
        shape: json("mcpServers", true, Some("url")),
    },
    Dialect {
        id: "cursor",
        title: "Cursor",
        files: ["~/.cursor/mcp.json"; 3],
        shape: json("mcpServers", false, Some("url")),
    },
    Dialect {
        id: "vscode",
        title: "VS Code",
        files: [
            "~/.config/Code/User/mcp.json",
            "~/Library/Application Support/Code/User/mcp.json",
            "%APPDATA%\\Code\\User\\mcp.json",
        ],
        shape: json("servers", true, Some("url")),
    },
    Dialect {
        id: "cline",
        title: "Cline",
        files: ["~/.cline/data/settings/cline_mcp_settings.json"; 3],
        shape: json("mcpServers", false, Some("url")),
    },
    Dialect {
        id: "continue",
        title: "Continue",
        files: ["~/.continue/config.yaml"; 3],
        shape: Shape::ContinueYaml,
    },
    Dialect {
        id: "windsurf",
        title: "Windsurf",
        files: ["~/.codeium/windsurf/mcp_config.json"; 3],
        shape: json("mcpServers", false, Some("serverUrl")),
    },
    Dialect { id: "codex", title: "Codex", files: ["~/.codex/config.toml"; 3], shape: Shape::CodexToml },
    Dialect {
        id: "gemini",
        title: "Gemini CLI",
        files: ["~/.gemini/settings.json"; 3],
        shape: json("mcpServers", false, Some("httpUrl")),
    },
    Dialect {
        id: "zed",
        title: "Zed",
        files: ["~/.config/zed/settings.json"; 3],
        shape: json("context_servers", false, Some("url")),
    },
    Dialect {
        id: "goose",
        title: "Goose",
        files: ["~/.config/goose/config.yaml"; 3],
        shape: Shape::GooseYaml,
    },
    Dialect {
        id: "opencode",
        title: "OpenCode",
        files: ["~/.config/opencode/opencode.json"; 3],
        shape: Shape::OpenCode,
    },
];

/// Stands where the token belongs: a block never holds it.
const TOKEN: &str = "PASTE-THE-TOKEN-HERE";

/// What is known of this eVi.
pub struct Facts {
    /// The absolute path of the command `evi`.
    pub program: PathBuf,
    /// The home.
    pub home: PathBuf,
    /// Where the endpoint is or would be.
    pub address: String,
}

/// The applications.
pub fn clients() -> Vec<ClientKind> {
    DIALECTS
        .iter()
        .map(|d| ClientKind {
            id: d.id.to_owned(),
            title: d.title.to_owned(),
            http: !matches!(d.shape, Shape::Json { url: None, .. }),
        })
        .collect()
}

/// The arguments that an application starts `evi` with.
pub fn arguments(query: &ConnectQuery) -> Vec<String> {
    let mut args = vec!["mcp".to_owned(), "serve".to_owned()];
    for (flag, value) in [("--categories", &query.categories), ("--profile", &query.profile)] {
        if let Some(value) = value.as_ref().filter(|v| !v.is_empty()) {
            args.push(flag.to_owned());
            args.push(value.clone());
        }
    }
    args
}

/// The block for an application.
///
/// # Errors
/// An application that is not known, or that cannot do HTTP.
pub fn text(query: &ConnectQuery, facts: &Facts) -> Result<ConnectText, Problem> {
    let id = query.client.as_deref().unwrap_or("cursor");
    let dialect = DIALECTS.iter().find(|d| d.id == id).ok_or_else(|| {
        let known: Vec<&str> = DIALECTS.iter().map(|d| d.id).collect();
        Problem::new(Code::NotFound, format!("no such application: {id}"))
            .hint(format!("known: {}", known.join(", ")))
            .field("client")
    })?;
    let program = facts.program.display().to_string();
    let home = facts.home.display().to_string();
    let args = arguments(query);
    let bearer = format!("Bearer {TOKEN}");
    let (language, text) = match (&dialect.shape, query.http) {
        (Shape::Json { root, typed, .. }, false) => {
            let mut entry = Map::new();
            if *typed {
                entry.insert("type".to_owned(), json!("stdio"));
            }
            entry.insert("command".to_owned(), json!(program));
            entry.insert("args".to_owned(), json!(args));
            entry.insert("env".to_owned(), json!({"EVI_HOME": home}));
            ("json", pretty(&json!({*root: {"evi": entry}})))
        }
        (Shape::Json { root, typed, url: Some(url) }, true) => {
            let mut entry = Map::new();
            if *typed {
                entry.insert("type".to_owned(), json!("http"));
            } else if dialect.id == "cline" {
                entry.insert("type".to_owned(), json!("streamableHttp"));
            }
            entry.insert((*url).to_owned(), json!(facts.address));
            entry.insert("headers".to_owned(), json!({"Authorization": bearer}));
            ("json", pretty(&json!({*root: {"evi": entry}})))
        }
        (Shape::Json { url: None, .. }, true) => {
            return Err(Problem::new(
                Code::InvalidInput,
                format!("{} starts servers itself and takes no address", dialect.title),
            )
            .hint("use the block without HTTP")
            .field("http"));
        }
        (Shape::CodexToml, http) => ("toml", codex(http, &program, &home, &args, &facts.address)),
        (Shape::OpenCode, false) => {
            let command: Vec<&str> =
                std::iter::once(program.as_str()).chain(args.iter().map(String::as_str)).collect();
            (
                "json",
                pretty(
                    &json!({"mcp": {"evi": {"type": "local", "command": command, "environment": {"EVI_HOME": home}}}}),
                ),
            )
        }
        (Shape::OpenCode, true) => (
            "json",
            pretty(
                &json!({"mcp": {"evi": {"type": "remote", "url": facts.address, "headers": {"Authorization": bearer}}}}),
            ),
        ),
        (Shape::GooseYaml, false) => (
            "yaml",
            format!(
                "extensions:\n  evi:\n    type: stdio\n    enabled: true\n    cmd: {}\n    args: {}\n    envs:\n      EVI_HOME: {}\n",
                yaml(&program),
                json!(args),
                yaml(&home)
            ),
        ),
        (Shape::GooseYaml, true) => (
            "yaml",
            format!(
                "extensions:\n  evi:\n    type: streamable_http\n    enabled: true\n    uri: {}\n    headers:\n      Authorization: {}\n",
                yaml(&facts.address),
                yaml(&bearer)
            ),
        ),
        (Shape::ContinueYaml, false) => (
            "yaml",
            format!(
                "mcpServers:\n  - name: evi\n    type: stdio\n    command: {}\n    args: {}\n    env:\n      EVI_HOME: {}\n",
                yaml(&program),
                json!(args),
                yaml(&home)
            ),
        ),
        (Shape::ContinueYaml, true) => (
            "yaml",
            format!(
                "mcpServers:\n  - name: evi\n    type: streamable-http\n    url: {}\n    requestOptions:\n      headers:\n        Authorization: {}\n",
                yaml(&facts.address),
                yaml(&bearer)
            ),
        ),
    };
    let command = if query.http { Vec::new() } else { std::iter::once(program).chain(args).collect() };
    Ok(ConnectText {
        client: dialect.id.to_owned(),
        title: dialect.title.to_owned(),
        file: Some(dialect.files[place()].to_owned()),
        language: language.to_owned(),
        text,
        command,
    })
}

const fn place() -> usize {
    if cfg!(windows) {
        2
    } else if cfg!(target_os = "macos") {
        1
    } else {
        0
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// A JSON string is a YAML double-quoted scalar.
fn yaml(text: &str) -> String {
    Value::from(text).to_string()
}

fn codex(http: bool, program: &str, home: &str, args: &[String], address: &str) -> String {
    // Basic TOML strings and arrays of them are written as in JSON.
    if http {
        format!(
            "[mcp_servers.evi]\nurl = {}\nhttp_headers = {{ Authorization = {} }}\n",
            json!(address),
            json!(format!("Bearer {TOKEN}"))
        )
    } else {
        format!(
            "[mcp_servers.evi]\ncommand = {}\nargs = {}\n\n[mcp_servers.evi.env]\nEVI_HOME = {}\n",
            json!(program),
            json!(args),
            json!(home)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            program: "/opt/e vi/evi".into(),
            home: "/home/x/.evi".into(),
            address: "http://127.0.0.1:8765/mcp".to_owned(),
        }
    }

    #[test]
    fn every_block_names_the_home_and_the_whole_path_of_the_command() {
        for client in clients() {
            let query = ConnectQuery { client: Some(client.id.clone()), ..ConnectQuery::default() };
            let block = text(&query, &facts()).unwrap();
            assert!(
                block.text.contains("EVI_HOME") && block.text.contains("/opt/e vi/evi"),
                "{}",
                block.text
            );
            match block.language.as_str() {
                "json" => drop(serde_json::from_str::<Value>(&block.text).unwrap()),
                "toml" => assert!(block.text.starts_with("[mcp_servers.evi]")),
                _ => assert!(block.text.contains("evi")),
            }
            if client.http {
                let block = text(&ConnectQuery { http: true, ..query }, &facts()).unwrap();
                assert!(block.text.contains("8765/mcp") && block.text.contains(TOKEN), "{}", block.text);
            }
        }
    }

    #[test]
    fn an_application_that_is_not_known_is_an_error() {
        let query = ConnectQuery { client: Some("nope".to_owned()), ..ConnectQuery::default() };
        assert_eq!(text(&query, &facts()).unwrap_err().code, Code::NotFound);
    }
}
