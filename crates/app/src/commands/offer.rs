//! What servers offer beside tools, for the person: resources, prompts, suggestions, and what a server says of itself.
//! It starts no server; one that is on its way is waited for.

use std::{path::PathBuf, sync::Arc, time::Instant};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use evi_contract::*;
use evi_domain::{CallContext, CallError, CallId, Completes, Offer, UpstreamName};
use serde_json::{Map, Value, value::RawValue};

use crate::{App, calls::Registered, commands::upstream, guard::START_LIMIT, problem};

/// Characters of a picture in a `data:` address that is still passed on.
const ICON_CAP: usize = 256 << 10;
/// Suggestions that are passed on.
const SUGGESTIONS: usize = 100;

pub async fn resource_list(app: &App, params: OfferQuery) -> Result<ResourceList, Problem> {
    let (offers, missing) = offers(app, &params)?;
    let mut resources = Vec::new();
    for (server, offer) in offers {
        let of = |json, uri, template| resource_row(&server, uri, template, json);
        resources.extend(offer.resources.iter().map(|r| of(r.json(), r.uri(), false)));
        resources.extend(offer.templates.iter().map(|t| of(t.json(), t.uri_template(), true)));
    }
    Ok(ResourceList { resources, missing })
}

fn resource_row(server: &UpstreamName, uri: &str, template: bool, json: &Map<String, Value>) -> ResourceRow {
    ResourceRow {
        server: server.to_string(),
        uri: uri.to_owned(),
        template,
        name: text(json, "name").unwrap_or_default(),
        title: text(json, "title"),
        description: text(json, "description").unwrap_or_default(),
        mime: text(json, "mimeType"),
        size: json.get("size").and_then(Value::as_u64),
        definition: Value::Object(json.clone()),
    }
}

pub async fn prompt_list(app: &App, params: OfferQuery) -> Result<PromptList, Problem> {
    let (offers, missing) = offers(app, &params)?;
    let of = |(server, offer): &(UpstreamName, Arc<Offer>)| {
        let row = |json: &Map<String, Value>| PromptRow {
            server: server.to_string(),
            name: text(json, "name").unwrap_or_default(),
            title: text(json, "title"),
            description: text(json, "description").unwrap_or_default(),
            arguments: prompt_arguments(json),
            definition: Value::Object(json.clone()),
        };
        offer.prompts.iter().map(|prompt| row(prompt.json())).collect::<Vec<_>>()
    };
    Ok(PromptList { prompts: offers.iter().flat_map(of).collect(), missing })
}

fn prompt_arguments(json: &Map<String, Value>) -> Vec<PromptArgument> {
    let listed = json.get("arguments").and_then(Value::as_array).into_iter().flatten();
    let argument = |json: &Map<String, Value>| {
        Some(PromptArgument {
            name: text(json, "name")?,
            title: text(json, "title"),
            description: text(json, "description").unwrap_or_default(),
            required: json.get("required") == Some(&Value::Bool(true)),
        })
    };
    listed.filter_map(Value::as_object).filter_map(argument).collect()
}

fn text(json: &Map<String, Value>, key: &str) -> Option<String> {
    json.get(key)?.as_str().map(str::to_owned)
}

type Offers = Vec<(UpstreamName, Arc<Offer>)>;

/// What the servers offer that are ready, and which are not.
fn offers(app: &App, params: &OfferQuery) -> Result<(Offers, Vec<MissingServer>), Problem> {
    if let Some(server) = &params.server {
        let row = upstream::row(app, &upstream::find(app, server)?);
        if matches!(row.state, UpstreamStateView::Off | UpstreamStateView::McpOff) {
            return Err(upstream::not_ready(server, row.state));
        }
    }
    let only = params.server.as_deref();
    let catalog = app.upstreams.catalog();
    let offers = catalog.upstreams.iter().filter(|(name, _)| only.is_none_or(|only| name.as_str() == only));
    let offers = offers.map(|(name, offer)| (name.clone(), offer.clone())).collect();
    Ok((offers, upstream::missing(app, only)))
}

pub async fn resource_read(app: &App, params: ResourceRead) -> Result<ResourceView, Problem> {
    let asked = Asked::begin(app, &params.server, params.call).await?;
    let result = app.upstreams.read_resource(&asked.server, &params.uri, &asked.context).await;
    let (result, took_ms) = asked.end(result)?;
    let contents = result.get("contents").and_then(Value::as_array).into_iter().flatten();
    let text = contents.map(content_text).collect::<Vec<_>>().join("\n");
    Ok(ResourceView { result, text, took_ms })
}

/// A text as it is, a blob as its kind and size.
fn content_text(content: &Value) -> String {
    let field = |key: &str| content.get(key).and_then(Value::as_str);
    match (field("text"), field("blob").or_else(|| field("data"))) {
        (Some(text), _) => text.to_owned(),
        (None, Some(blob)) => {
            let kind = field("mimeType").unwrap_or("application/octet-stream");
            format!("[{kind}, {} bytes]", decoded_len(blob))
        }
        (None, None) => format!("[{} omitted]", field("type").unwrap_or("content")),
    }
}

fn decoded_len(base64: &str) -> usize {
    let digits = base64.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b'=').count();
    digits * 3 / 4
}

pub async fn prompt_get(app: &App, params: PromptGet) -> Result<PromptView, Problem> {
    let asked = Asked::begin(app, &params.server, params.call).await?;
    let result =
        app.upstreams.get_prompt(&asked.server, &params.name, &params.arguments, &asked.context).await;
    let (result, took_ms) = asked.end(result)?;
    let messages = result.get("messages").and_then(Value::as_array).into_iter().flatten();
    let text = messages.map(message_text).collect::<Vec<_>>().join("\n\n");
    Ok(PromptView { result, text, took_ms })
}

fn message_text(message: &Value) -> String {
    let role = message.get("role").and_then(Value::as_str).unwrap_or("user");
    let blocks = match message.get("content") {
        Some(Value::Array(blocks)) => blocks.iter().collect(),
        Some(block) => vec![block],
        None => Vec::new(),
    };
    let said = |block: &Value| match block.get("type").and_then(Value::as_str) {
        Some("resource") => content_text(block.get("resource").unwrap_or(&Value::Null)),
        Some("resource_link") => block.get("uri").and_then(Value::as_str).unwrap_or_default().to_owned(),
        _ => content_text(block),
    };
    let text = blocks.into_iter().map(said).collect::<Vec<_>>().join("\n");
    format!("{role}: {text}")
}

pub async fn completion_get(app: &App, params: CompletionAsk) -> Result<Completion, Problem> {
    let asked = Asked::begin(app, &params.server, None).await?;
    if !app.upstreams.catalog().upstreams.get(&asked.server).is_some_and(|offer| offer.completes) {
        return Ok(Completion::default());
    }
    let of = match params.of {
        CompletionOf::Prompt { name } => Completes::Prompt(name),
        CompletionOf::Template { uri } => Completes::Template(uri),
    };
    let argument = (params.argument.as_str(), params.value.as_str());
    let result = app.upstreams.complete(&asked.server, &of, argument, &params.others, &asked.context).await;
    let (result, _) = asked.end(result)?;
    let completion = result.get("completion").unwrap_or(&Value::Null);
    let all = completion.get("values").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let values: Vec<String> =
        all.iter().filter_map(Value::as_str).take(SUGGESTIONS).map(str::to_owned).collect();
    let more = completion.get("hasMore") == Some(&Value::Bool(true)) || all.len() > SUGGESTIONS;
    Ok(Completion { values, more })
}

pub async fn upstream_about(app: &App, params: UpstreamRef) -> Result<ServerAbout, Problem> {
    let entry = upstream::find(app, &params.name)?;
    let catalog = app.upstreams.catalog();
    let Some(offer) = catalog.upstreams.get(&entry.name) else {
        return Err(upstream::not_ready(&params.name, upstream::row(app, &entry).state));
    };
    let empty = Map::new();
    let server = offer.server.as_ref().unwrap_or(&empty);
    Ok(ServerAbout {
        name: text(server, "name").unwrap_or_default(),
        version: text(server, "version").unwrap_or_default(),
        title: text(server, "title"),
        description: text(server, "description"),
        website: text(server, "websiteUrl"),
        icon: icon(server),
        instructions: offer.instructions.clone(),
        completes: offer.completes,
        resources: offer.resources.len() + offer.templates.len(),
        prompts: offer.prompts.len(),
    })
}

/// Only a picture that came with the answer, and only of kinds that hold no script.
fn icon(server: &Map<String, Value>) -> Option<String> {
    const KINDS: [&str; 4] = [
        "data:image/png;base64,",
        "data:image/jpeg;base64,",
        "data:image/webp;base64,",
        "data:image/gif;base64,",
    ];
    let icons = server.get("icons")?.as_array()?;
    icons
        .iter()
        .filter_map(|icon| icon.get("src")?.as_str())
        .find(|src| src.len() <= ICON_CAP && KINDS.iter().any(|kind| src.starts_with(kind)))
        .map(str::to_owned)
}

/// The bytes of what was read: of the one content that there is, a blob decoded.
///
/// # Errors
/// There is none, there are several, or the base64 is broken.
fn content_bytes(result: &Value) -> Result<Vec<u8>, Problem> {
    let contents = result.get("contents").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let [content] = contents else {
        return Err(Problem::new(
            Code::InvalidInput,
            format!("it has {} parts, and a file takes one", contents.len()),
        )
        .hint("use --json to get all of them"));
    };
    let field = |key: &str| content.get(key).and_then(Value::as_str);
    match (field("text"), field("blob")) {
        (Some(text), _) => Ok(text.as_bytes().to_vec()),
        (None, Some(blob)) => {
            let digits: String = blob.chars().filter(|c| !c.is_whitespace()).collect();
            STANDARD
                .decode(digits)
                .map_err(|error| Problem::new(Code::Rpc, format!("its data is not valid base64: {error}")))
        }
        (None, None) => Err(Problem::new(Code::Rpc, "it has neither text nor data")),
    }
}

/// Writes to a file what was read, whole or not at all; gives its bytes.
///
/// # Errors
/// There is not exactly one content, its base64 is broken, or the file could not be written.
pub async fn save_content(result: &Value, path: PathBuf) -> Result<usize, Problem> {
    let bytes = content_bytes(result)?;
    problem::blocking(move || evi_store::write_file(&path, &bytes).map(|()| bytes.len())).await
}

/// A question to a server, under way.
struct Asked<'a> {
    app: &'a App,
    server: UpstreamName,
    context: CallContext,
    began: Instant,
    _registered: Registered<'a>,
}

impl<'a> Asked<'a> {
    /// Waits for a server that is on its way.
    async fn begin(app: &'a App, server: &str, call: Option<String>) -> Result<Self, Problem> {
        let entry = upstream::find(app, server)?;
        let id = call.map_or_else(CallId::fresh, CallId::new);
        let (cancel, registered) = app.calls.register(&id, &app.cancel);
        let context = CallContext { id: Some(id), cancel, progress: None };
        app.guard.wait_for(&entry.name, &context.cancel, START_LIMIT).await;
        let row = upstream::row(app, &entry);
        if row.state != UpstreamStateView::Ready {
            return Err(row.problem.unwrap_or_else(|| upstream::not_ready(server, row.state)));
        }
        Ok(Self { app, server: entry.name, context, began: Instant::now(), _registered: registered })
    }

    /// The result as a tree, and the milliseconds that it took.
    fn end(self, result: Result<Box<RawValue>, CallError>) -> Result<(Value, u64), Problem> {
        let raw = result.map_err(|error| problem::call(&self.app.guard.without_secrets(error)))?;
        let result = serde_json::from_str(raw.get())
            .map_err(|error| Problem::new(Code::Rpc, format!("its answer is not clear: {error}")))?;
        Ok((result, u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_shown_and_blobs_are_named_with_their_size() {
        assert_eq!(content_text(&json!({"uri": "x:1", "text": "a\nb"})), "a\nb");
        assert_eq!(
            content_text(&json!({"mimeType": "image/png", "blob": "aGFsbG8="})),
            "[image/png, 5 bytes]"
        );
        let message = json!({"role": "user", "content": [
            {"type": "text", "text": "look"},
            {"type": "image", "mimeType": "image/png", "data": "aGFsbG8="},
            {"type": "resource", "resource": {"uri": "x:1", "text": "body"}},
            {"type": "resource_link", "uri": "x:2", "name": "two"},
        ]});
        assert_eq!(message_text(&message), "user: look\n[image/png, 5 bytes]\nbody\nx:2");
    }

    #[test]
    fn a_file_takes_one_content_and_a_blob_is_decoded() {
        let bytes = |contents: Value| content_bytes(&json!({"contents": contents}));
        assert_eq!(bytes(json!([{"blob": "AAH/"}])).unwrap(), [0, 1, 255]);
        assert_eq!(bytes(json!([{"text": "grüß"}])).unwrap(), "grüß".as_bytes());
        assert_eq!(bytes(json!([{"blob": "no base64!"}])).unwrap_err().code, Code::Rpc);
        assert_eq!(bytes(json!([{"text": "a"}, {"text": "b"}])).unwrap_err().code, Code::InvalidInput);
    }

    #[test]
    fn only_a_picture_that_came_along_is_an_icon() {
        let of = |sources: Value| {
            let icons: Vec<Value> =
                sources.as_array().unwrap().iter().map(|src| json!({"src": src})).collect();
            icon(json!({"icons": icons}).as_object().unwrap())
        };
        assert_eq!(of(json!(["https://e.org/i.png", "data:image/svg+xml,<svg/>"])), None);
        let png = "data:image/png;base64,iVBORw0K";
        assert_eq!(of(json!(["https://e.org/i.png", png])), Some(png.to_owned()));
    }
}
