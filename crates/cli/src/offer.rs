//! Commands for what servers offer beside tools: resources and prompts. They start servers, or use those of a running
//! eVi.

use std::{collections::BTreeMap, process::ExitCode};

use evi_app::{
    Home, Problem,
    contract::{
        Code, PromptList, PromptRow, PromptView, ResourceList, ResourceRow, ResourceView, UpstreamRow,
    },
};
use serde_json::json;

use crate::{
    args::{Listing, Prompt, Read},
    output,
    tools::{ask, cancellable, end, listed, one_line, within},
};

/// `evi mcp list-resources`.
pub async fn list_resources(home: Home, listing: Listing) -> Result<ExitCode, Problem> {
    let (list, failed) = of::<ResourceList>(&home, "resource_list", &listing).await?;
    let mut resources = list.resources;
    resources.sort_by(|a, b| (&a.server, a.template, &a.uri).cmp(&(&b.server, b.template, &b.uri)));
    if listing.json {
        output::json(&resources);
    } else {
        resources.iter().for_each(|row| output::line(&resource_line(row)));
    }
    end(&home, resources.is_empty(), "no server that is on has resources", &failed)
}

fn resource_line(row: &ResourceRow) -> String {
    let mark = if row.template { " (template)" } else { "" };
    let about = first_of([row.description.as_str(), row.title.as_deref().unwrap_or_default(), &row.name]);
    format!("{} {}{mark}{about}", row.server, row.uri)
}

/// ` — the first text that says something`.
fn first_of<const N: usize>(texts: [&str; N]) -> String {
    let text = texts.into_iter().find(|text| !text.trim().is_empty());
    text.map(|text| format!(" — {}", one_line(text))).unwrap_or_default()
}

/// `evi mcp list-prompts`.
pub async fn list_prompts(home: Home, listing: Listing) -> Result<ExitCode, Problem> {
    let (list, failed) = of::<PromptList>(&home, "prompt_list", &listing).await?;
    let mut prompts = list.prompts;
    prompts.sort_by(|a, b| (&a.server, &a.name).cmp(&(&b.server, &b.name)));
    if listing.json {
        output::json(&prompts);
    } else {
        prompts.iter().for_each(|row| output::line(&prompt_line(row)));
    }
    end(&home, prompts.is_empty(), "no server that is on has prompts", &failed)
}

fn prompt_line(row: &PromptRow) -> String {
    let mut line = format!("{} {}", row.server, row.name);
    for argument in &row.arguments {
        line.push_str(&if argument.required {
            format!(" {}=…", argument.name)
        } else {
            format!(" [{}=…]", argument.name)
        });
    }
    line + &first_of([row.description.as_str(), row.title.as_deref().unwrap_or_default()])
}

/// A list of the servers asked for.
async fn of<T: serde::de::DeserializeOwned>(
    home: &Home,
    command: &str,
    listing: &Listing,
) -> Result<(T, Vec<UpstreamRow>), Problem> {
    let settle = listing.name.as_ref().map_or_else(|| json!({}), |name| json!({"name": name}));
    listed(home.clone(), command, settle, json!({"server": listing.name})).await
}

/// `evi mcp read`.
pub async fn read(home: Home, args: Read) -> Result<ExitCode, Problem> {
    let view: ResourceView =
        once(home, &args.name, "resource_read", json!({"server": args.name, "uri": args.uri})).await?;
    if let Some(path) = args.output {
        let shown = path.display().to_string();
        let bytes = evi_app::save_content(&view.result, path).await?;
        eprintln!("wrote {bytes} bytes to {}", output::shown(&shown));
        return Ok(ExitCode::SUCCESS);
    }
    if args.json {
        output::json(&view.result);
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&view.text);
    let contents = view.result["contents"].as_array().map(Vec::as_slice).unwrap_or_default();
    if contents.iter().any(|content| content["blob"].is_string()) {
        output::hint("it is not text; use --output FILE to keep it");
    }
    Ok(ExitCode::SUCCESS)
}

/// `evi mcp prompt`.
pub async fn prompt(home: Home, args: Prompt) -> Result<ExitCode, Problem> {
    let mut arguments = BTreeMap::new();
    for word in &args.arguments {
        let Some((key, value)) = word.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(
                Problem::new(Code::InvalidInput, format!("bad argument: {word}")).hint("expected KEY=VALUE")
            );
        };
        arguments.insert(key, value);
    }
    let params = json!({"server": args.name, "name": args.prompt, "arguments": arguments});
    let view: PromptView = once(home, &args.name, "prompt_get", params).await?;
    if args.json {
        output::json(&view.result);
    } else {
        output::line(&view.text);
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for the server, then runs one command.
async fn once<T: serde::de::DeserializeOwned>(
    home: Home,
    server: &str,
    command: &str,
    params: serde_json::Value,
) -> Result<T, Problem> {
    within(home, async |front| {
        let _: Vec<UpstreamRow> = ask(front, "upstream_settle", json!({"name": server})).await?;
        cancellable(front, command, params).await
    })
    .await
}
