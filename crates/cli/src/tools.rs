//! Commands that start servers, or use those of a running eVi: list their tools, call one.

use std::{process::ExitCode, time::Duration};

use evi_app::{
    Front, Home, Options, Problem, Servers, Shell, arguments,
    contract::{CallView, Code, ToolList, ToolRow, UpstreamRow, UpstreamStateView},
    logging,
};
use serde_json::{Value, json};

use crate::{args::Call, edit, output, serve::ended_by_signal};

/// The application for one command. While `[tools] mcp` is off nobody runs the servers, so this command does.
async fn open(home: Home) -> Result<Front, Problem> {
    let (config, problems) = evi_app::read_config(&home);
    output::config_problems(&problems);
    let on = config.tools.mcp;
    let mut options = Options::new(home.clone(), Shell::Command);
    logging::init(&home, &options.redactor, false);
    if on {
        return Front::open(options).await;
    }
    output::warning(&format!(
        "tools.mcp is false in {}; servers are started for this command only",
        home.config_toml().display()
    ));
    options.servers = Servers::Forced;
    Front::alone(options).await
}

/// How long what runs may take to end once it was cancelled.
const END_LIMIT: Duration = Duration::from_secs(1);

/// Opens the application, works with it, and closes it, also when a signal ends this process meanwhile: no server that
/// was started for a command outlives it.
pub async fn within<T>(
    home: Home,
    work: impl AsyncFnOnce(&Front) -> Result<T, Problem>,
) -> Result<T, Problem> {
    let front = open(home).await?;
    let result = {
        let working = work(&front);
        tokio::pin!(working);
        tokio::select! {
            result = &mut working => result,
            () = ended_by_signal() => {
                let ending = async {
                    // What runs at a server is cancelled there; nothing may be running yet.
                    let _ = front.call("call_cancel", json!({"call": call_id()})).await;
                    working.await
                };
                let interrupted = || Err(Problem::new(Code::Cancelled, "the command was interrupted"));
                tokio::time::timeout(END_LIMIT, ending).await.unwrap_or_else(|_| interrupted())
            }
        }
    };
    front.shutdown().await;
    result
}

/// The identity of the one call that this command may make.
fn call_id() -> String {
    format!("cli-{}", std::process::id())
}

/// Asks the application and reads its answer.
pub async fn ask<T: serde::de::DeserializeOwned>(
    front: &Front,
    command: &str,
    params: Value,
) -> Result<T, Problem> {
    let answer = front.call(command, params).await?;
    serde_json::from_value(answer)
        .map_err(|e| Problem::new(Code::Attach, format!("the answer to {command} is not clear: {e}")))
}

/// `evi mcp list-tools`.
pub async fn list(home: Home, as_json: bool) -> Result<ExitCode, Problem> {
    let (tools, failed) = listed::<ToolList>(home.clone(), "tool_list", json!({}), json!({})).await?;
    let mut tools: Vec<ToolRow> = tools.tools.into_iter().filter(|tool| tool.server.is_some()).collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    if as_json {
        output::json(&tools);
    } else {
        for tool in &tools {
            output::line(&format!("{} — {}", tool.name, one_line(&tool.description)));
        }
    }
    let nothing = "there are no servers that are on; add one with: evi mcp add NAME COMMAND";
    end(&home, tools.is_empty(), nothing, &failed)
}

/// Waits for the servers, then asks for a list: it, and those that are on and did not come up.
pub async fn listed<T: serde::de::DeserializeOwned>(
    home: Home,
    command: &str,
    settle: Value,
    params: Value,
) -> Result<(T, Vec<UpstreamRow>), Problem> {
    within(home, async |front| {
        let rows: Vec<UpstreamRow> = ask(front, "upstream_settle", settle).await?;
        Ok((ask(front, command, params).await?, failed(rows)))
    })
    .await
}

/// The end of a list: why servers are missing from it, and what to do where there is nothing at all.
pub fn end(home: &Home, none: bool, nothing: &str, failed: &[UpstreamRow]) -> Result<ExitCode, Problem> {
    failed.iter().for_each(report);
    edit::readable(home, &evi_app::read_config(home).1)?;
    if none && failed.is_empty() {
        output::hint(nothing);
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Those that are on and did not come up.
fn failed(rows: Vec<UpstreamRow>) -> Vec<UpstreamRow> {
    let of = |row: &UpstreamRow| {
        row.enabled
            && !matches!(
                row.state,
                UpstreamStateView::Ready | UpstreamStateView::Stale | UpstreamStateView::Blocked
            )
    };
    rows.into_iter().filter(of).collect()
}

/// Prints why a server is not ready, and its last words.
fn report(row: &UpstreamRow) {
    match &row.problem {
        Some(problem) => {
            output::failed(problem);
        }
        None => eprintln!("error: {} is not ready", row.name),
    }
    for line in row.stderr.iter().rev().take(10).rev() {
        // A line may be as long as a server likes.
        let line: String = line.chars().take(STDERR_SHOWN).collect();
        eprintln!("  {}: {}", output::shown(&row.name), output::shown(&line));
    }
}

/// Characters of a line of a server's stderr.
const STDERR_SHOWN: usize = 400;

/// A text of others without line ends.
pub fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `evi mcp call`.
pub async fn call(home: Home, call: Call) -> Result<ExitCode, Problem> {
    let view = within(home, async |front| called(front, &call).await).await?;
    if call.json {
        output::json(&view.result);
    } else {
        output::line(&view.text);
    }
    Ok(if view.outcome == "ok" { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn called(front: &Front, call: &Call) -> Result<CallView, Problem> {
    let mut tools: ToolList = ask(front, "tool_list", json!({})).await?;
    if find(&tools, &call.tool).is_none() {
        // One of a server that is still on its way.
        let rows: Vec<UpstreamRow> = ask(front, "upstream_settle", json!({})).await?;
        tools = ask(front, "tool_list", json!({})).await?;
        if find(&tools, &call.tool).is_none() {
            // The tool's server may be the one that failed: say so, rather than that the tool is unknown.
            let of = |row: &&UpstreamRow| call.tool.starts_with(&format!("{}.", row.name));
            if let Some(problem) = rows.iter().find(of).and_then(|row| row.problem.clone()) {
                return Err(problem);
            }
        }
    }
    let schema = find(&tools, &call.tool).map(|tool| tool.input_schema.clone()).unwrap_or_default();
    let arguments = arguments::from_words(&call.arguments, &schema)?;
    cancellable(front, "tool_call", json!({"tool": call.tool, "arguments": arguments})).await
}

/// Runs a command that takes an identity to cancel by, which [`within`] does.
pub async fn cancellable<T: serde::de::DeserializeOwned>(
    front: &Front,
    command: &str,
    mut params: Value,
) -> Result<T, Problem> {
    params["call"] = Value::from(call_id());
    ask(front, command, params).await
}

fn find<'t>(tools: &'t ToolList, name: &str) -> Option<&'t ToolRow> {
    tools.tools.iter().find(|tool| tool.name == name)
}
