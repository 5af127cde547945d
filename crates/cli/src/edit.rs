//! Commands that read or change `mcp.json` and start nothing. A running eVi sees the change in the file.

use std::process::ExitCode;

use evi_app::{
    Front, Home, Options, Problem, Servers, Shell,
    contract::Code,
    domain::{ConfigProblem, TransportSpec},
};
use serde_json::{Value, json};

use crate::{
    args::{Add, AddHttp, Keeping},
    output,
};

type Outcome = Result<ExitCode, Problem>;

/// `evi mcp path`.
pub fn path(home: &Home) -> Outcome {
    output::line(&home.mcp_json().display().to_string());
    Ok(ExitCode::SUCCESS)
}

/// `evi mcp list-servers`.
pub async fn list_servers(home: &Home, as_json: bool) -> Outcome {
    let (config, problems) = evi_app::read_config(home);
    output::config_problems(&problems);
    if as_json {
        output::json(&evi_app::look::servers(home).await);
        return readable(home, &problems).map(|()| ExitCode::SUCCESS);
    }
    for entry in &config.upstreams {
        let state = if entry.enabled { "on " } else { "off" };
        let plugin = entry.plugin.as_ref().map(|p| format!(" [plugin {p}]")).unwrap_or_default();
        match &entry.spec {
            Ok(spec) => {
                let auth = match &spec.transport {
                    TransportSpec::Http { headers, .. } | TransportSpec::Sse { headers, .. }
                        if !headers.is_empty() =>
                    {
                        " (auth)"
                    }
                    _ => "",
                };
                output::line(&format!("{state} {} — {}{auth}{plugin}", entry.name, spec.transport.summary()));
            }
            Err(problem) => output::line(&format!("bad {} — {}{plugin}", entry.name, problem.message)),
        }
    }
    readable(home, &problems)?;
    if config.upstreams.is_empty() {
        output::line("no MCP servers configured");
        output::line(&home.mcp_json().display().to_string());
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether `mcp.json` could be read at all.
pub fn readable(home: &Home, problems: &[ConfigProblem]) -> Result<(), Problem> {
    let file = home.mcp_json().display().to_string();
    if problems.iter().any(|problem| problem.whole_file && problem.file == file) {
        return Err(Problem::new(Code::ConfigUnreadable, "mcp.json could not be read")
            .hint("mend it in an editor; eVi writes nothing to it until then"));
    }
    Ok(())
}

/// Runs one command that changes files.
pub async fn change(home: Home, command: &str, params: Value) -> Result<Value, Problem> {
    let options = Options { servers: Servers::Leave, ..Options::new(home, Shell::Command) };
    let front = Front::alone(options).await?;
    let answer = front.call(command, params).await;
    front.shutdown().await;
    answer
}

/// `KEY=VALUE` words as values of a draft.
fn values(words: &[String], option: &str, secret: bool) -> Result<Vec<Value>, Problem> {
    words
        .iter()
        .map(|word| match word.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok(json!({"key": key.trim(), "value": value, "secret": secret}))
            }
            // The value itself may be a secret that was pasted wrongly: only what stands before a colon is shown.
            _ => Err(Problem::new(Code::Storage, format!("bad {option} entry: {}", shown(word)))
                .hint("expected KEY=VALUE")),
        })
        .collect()
}

fn shown(word: &str) -> String {
    match word.split_once([':', ' ']) {
        Some((key, _)) => format!("{key}…"),
        None if word.chars().count() > 24 => word.chars().take(8).chain("…".chars()).collect(),
        None => word.to_owned(),
    }
}

/// `evi mcp add`.
pub async fn add(home: Home, add: Add) -> Outcome {
    let env = values(&add.env, "--env", add.keeping.secret)?;
    if add.command == "cmd" && add.args.first().is_some_and(|a| a.eq_ignore_ascii_case("C:/")) {
        output::warning("the argument C:/ looks like /c, changed by the shell; write //c there");
    }
    let draft = json!({
        "name": add.name, "transport": "stdio", "command": add.command, "args": add.args, "env": env, "cwd": add.cwd,
        "options": {"era": add.settings.era, "tool_timeout_sec": add.settings.timeout},
    });
    save(home, draft, &add.keeping).await
}

/// `evi mcp add-http`.
pub async fn add_http(home: Home, add: AddHttp) -> Outcome {
    let headers = values(&add.headers, "-H", add.keeping.secret)?;
    let transport = if add.sse { "sse" } else { "http" };
    let options = json!({"era": add.settings.era, "tool_timeout_sec": add.settings.timeout, "ca": add.ca});
    let draft = json!({
        "name": add.name, "transport": transport, "url": add.url, "headers": headers, "options": options,
    });
    save(home, draft, &add.keeping).await
}

async fn save(home: Home, draft: Value, keeping: &Keeping) -> Outcome {
    let config_toml = home.config_toml();
    let params = json!({"draft": draft, "enabled": !keeping.disabled, "overwrite": keeping.overwrite});
    let added = change(home, "upstream_add", params).await?;
    let (name, summary) = (text(&added, "name"), text(&added, "summary"));
    output::line(&format!("added {name} — {summary}"));
    output::line("check it with: evi mcp list-tools");
    if added["mcp_on"] != json!(true) {
        output::servers_off(&config_toml);
    }
    Ok(ExitCode::SUCCESS)
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

/// `evi mcp remove`.
pub async fn remove(home: Home, name: String) -> Outcome {
    let remote = evi_app::read_config(&home).0.upstreams.into_iter().any(|u| {
        u.name.as_str() == name && u.spec.is_ok_and(|s| !matches!(s.transport, TransportSpec::Stdio { .. }))
    });
    change(home, "upstream_remove", json!({"name": name})).await?;
    output::line(&format!("removed {name}"));
    if remote {
        output::hint("access that was granted at the remote service, and its credentials there, remain");
    }
    Ok(ExitCode::SUCCESS)
}

/// `evi mcp enable` and `disable`.
pub async fn switch(home: Home, name: String, enabled: bool) -> Outcome {
    change(home, "upstream_set_enabled", json!({"name": name, "enabled": enabled})).await?;
    output::line(&format!("{} {name}", if enabled { "enabled" } else { "disabled" }));
    Ok(ExitCode::SUCCESS)
}
