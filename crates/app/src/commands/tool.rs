//! Tools: the list, the switch, a call by the person, its cancellation, the record of calls.

use std::time::Instant;

use evi_contract::*;
use evi_domain::{
    CallContext, CallError, CallId, Caller, ChatId, KeptError, KeptResults as _, Owner, ResultId,
    ToolAddress, ToolHost, kept::Form, names,
};
use evi_store::ConfigValue;
use serde_json::{Value, json, value::RawValue};

use crate::{App, commands::upstream, guard::server_of, problem, schema};

/// The person's own surface leaves out what is switched off; the list shows it, with its switch.
pub async fn tool_list(app: &App, _: Nothing) -> Result<ToolList, Problem> {
    let loaded = app.config.current();
    let config = &loaded.config;
    let mut all: Vec<(ToolAddress, evi_domain::ToolDef, bool)> = Vec::new();
    for (name, offer) in &app.upstreams.catalog().upstreams {
        for def in &offer.tools {
            let reads = def.hint("readOnlyHint") == Some(true);
            all.push((ToolAddress::upstream(name.clone(), def.name()), def.clone(), reads));
        }
    }
    for tool in app.builtins.tools() {
        all.push((ToolAddress::builtin(tool.category, tool.def.name()), tool.def.clone(), tool.read_only));
    }
    let model_names = names::names(all.iter().map(|(address, _, _)| address), names::MODEL);
    let client = Caller::Client { name: "".into(), exposure: evi_domain::Exposure::default() };
    let shared = app.guard.surface(&client);
    let tools = all
        .into_iter()
        .zip(model_names)
        .map(|((address, def, read_only), model_name)| {
            let name = address.to_string();
            ToolRow {
                enabled: !config.tools.disabled.contains(&name),
                shared: shared.tools.iter().any(|t| t.address == address),
                server: server_of(&address.owner),
                category: match &address.owner {
                    Owner::Builtin(category) => Some(category.to_string()),
                    Owner::Upstream(_) => None,
                },
                title: def.title().map(str::to_owned),
                description: def.description().unwrap_or_default().to_owned(),
                input_schema: def.input_schema(),
                read_only,
                destructive: !read_only && def.hint("destructiveHint") == Some(true),
                model_name,
                name,
            }
        })
        .collect();
    let missing = upstream::missing(app, None);
    Ok(ToolList { tools, missing })
}

pub async fn tool_set_enabled(app: &App, params: ToolSwitch) -> Result<Nothing, Problem> {
    let mut disabled = app.config.current().config.tools.disabled.clone();
    let known = tool_list(app, Nothing {}).await?.tools.iter().any(|t| t.name == params.tool);
    if !known && !disabled.contains(&params.tool) {
        return Err(Problem::new(Code::UnknownTool, format!("unknown tool: {}", params.tool)));
    }
    disabled.retain(|t| *t != params.tool);
    if !params.enabled {
        disabled.push(params.tool);
        disabled.sort();
    }
    app.write_config(vec![(vec!["tools", "disabled"], ConfigValue::List(disabled))]).await?;
    Ok(Nothing {})
}

pub async fn tool_call(app: &App, params: ToolCallRequest) -> Result<CallView, Problem> {
    let Some(arguments) = params.arguments.as_object() else {
        return Err(
            Problem::new(Code::InvalidInput, "the arguments are not a JSON object").field("arguments")
        );
    };
    // Before anything is waited for: a cancel may come at once.
    let id = params.call.map_or_else(CallId::fresh, CallId::new);
    let (cancel, _registered) = app.calls.register(&id, &app.cancel);
    if let Some(schema) = app.guard.schema_for_person(&params.tool) {
        schema::check(&params.tool, schema, arguments).await?;
    }
    let raw = RawValue::from_string(params.arguments.to_string())
        .map_err(|e| Problem::new(Code::Internal, e.to_string()))?;
    let began = Instant::now();
    let context = CallContext { id: Some(id.clone()), cancel, progress: None };
    let result = app.guard.call(&Caller::Person, &params.tool, raw, context).await.map_err(|error| {
        if matches!(error, CallError::Cancelled) && app.cancel.is_cancelled() {
            return Problem::new(Code::Attach, "the owner ended before the call had an answer")
                .hint("the server may have done its work; look before you call again");
        }
        problem::call(&error)
    })?;
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let results = app.results.clone();
    problem::blocking(move || {
        let outcome = if result.is_error() { "tool_error" } else { "ok" }.to_owned();
        let (text, bytes) = (result.to_model_text(), result.raw().get().len());
        // Pictures are shown as they are; what makes a page slow is text.
        let large = params.paged && (text.len() > PAGED_BYTES || bytes > PAGED_RESULT_BYTES);
        let keep = || results.keep(&Caller::Person, &result);
        let kept = large.then(keep).and_then(|kept| {
            kept.inspect_err(|error| tracing::warn!(%error, "a large result is shown whole")).ok()
        });
        let kept = kept.map(|handle| KeptView { handle: handle.to_string(), chars: text.chars().count() });
        let (text, result) = match &kept {
            Some(_) => (text.chars().take(PREVIEW_CHARS).collect(), pictures(result.to_value())),
            None => (text, result.to_value()),
        };
        let call = id.to_string();
        Ok::<_, Problem>(CallView { call, tool: params.tool, outcome, text, result, took_ms, bytes, kept })
    })
    .await
}

/// A larger flattened text is shown by page, where pages are wanted.
const PAGED_BYTES: usize = 60_000;
/// So is the JSON of a larger result.
const PAGED_RESULT_BYTES: usize = 4 << 20;
/// How much of a large result is shown at first, in characters.
pub const PREVIEW_CHARS: usize = 4_000;
/// The most bytes of a picture that a page is given.
const PICTURE_BYTES: usize = 4 << 20;
/// The most characters that a page is given at once.
const READ_CHARS: usize = 1_000_000;

/// A result with nothing but its pictures.
fn pictures(mut result: Value) -> Value {
    let mut blocks = match result["content"].take() {
        Value::Array(blocks) => blocks,
        _ => Vec::new(),
    };
    blocks.retain(|block| {
        block["type"] == "image" && block["data"].as_str().is_some_and(|data| data.len() <= PICTURE_BYTES)
    });
    json!({ "content": blocks })
}

pub async fn result_read(app: &App, params: ResultRead) -> Result<ResultPage, Problem> {
    let caller = match params.chat {
        Some(chat) => Caller::Chat { chat: ChatId::new(chat) },
        None => Caller::Person,
    };
    let form = if params.raw { Form::Raw } else { Form::Text };
    let (results, id) = (app.results.clone(), ResultId::new(params.handle));
    problem::blocking(move || {
        let page = results.read(&caller, &id, form, params.offset, params.limit.min(READ_CHARS));
        page.map_err(|error| match error {
            KeptError::NotThere(_) => Problem::new(Code::NotFound, "this result is not kept any more")
                .hint("results are kept for 30 days; call the tool again"),
            KeptError::Failed(_) => Problem::new(Code::Internal, error.to_string()),
        })
    })
    .await
    .map(|page| ResultPage { text: page.text, offset: page.offset, next: page.next, total: page.total })
}

pub async fn call_cancel(app: &App, params: CallRef) -> Result<Nothing, Problem> {
    // One that has ended is no error: the person pressed Cancel a moment too late.
    app.calls.cancel(&CallId::new(params.call));
    Ok(Nothing {})
}

pub async fn activity_list(app: &App, _: Nothing) -> Result<Vec<ActivityRow>, Problem> {
    let journal = app.guard.journal.clone();
    let entries = problem::blocking(move || Ok::<_, Problem>(journal.recent(200))).await?;
    Ok(entries
        .into_iter()
        .map(|e| ActivityRow {
            call: e.id.to_string(),
            at_ms: e.at_ms,
            caller: e.caller,
            tool: e.tool,
            arguments: e.arguments,
            outcome: e.outcome,
            took_ms: e.took_ms,
        })
        .collect())
}
