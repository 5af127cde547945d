//! The memory tools as models and clients see them: definitions, one run each, and the resource of an entry.

use std::sync::Arc;

use evi_domain::{ResourceDef, SurfaceResource, ToolDef, ToolResult};
use serde_json::{Map, Value, json};

use super::{Head, MemoryError, MemoryFolder, entry::normalize_tags, search::search};
use crate::{BuiltinTool, MEMORY_URI};

const CATEGORY: &str = "memory";
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
const NAME_RULE: &str = "letters, digits, dash and underscore, at most 64 characters";

/// How a tool treats the world.
#[derive(Clone, Copy)]
enum Effect {
    Reads,
    Replaces,
    Removes,
}

/// Every memory tool.
pub(crate) fn definitions() -> Vec<BuiltinTool> {
    let name =
        json!({"type": "string", "minLength": 1, "description": format!("the memory's name: {NAME_RULE}")});
    let head = json!({"type": "object", "required": ["name", "summary", "tags"], "properties": {
        "name": {"type": "string"}, "summary": {"type": "string"}, "tags": strings()}});
    let heads = json!({"memories": {"type": "array", "items": head}});
    let hit = json!({"type": "object", "required": ["name", "score", "summary", "tags", "excerpt"], "properties": {
        "name": {"type": "string"}, "score": {"type": "number"}, "summary": {"type": "string"},
        "tags": strings(), "excerpt": {"type": "string"}}});
    [
        tool(
            "remember",
            "Remember",
            "Save a text under a name, over an older one of that name. The tags of an older one stay unless new ones are given.",
            &["name", "content"],
            &json!({
                "name": name,
                "content": {"type": "string", "description": "the text, as Markdown, at most 1 MiB"},
                "tags": {"type": "string", "default": "", "description": "words to find it by, separated by commas"},
            }),
            &json!({"name": {"type": "string"}, "created": {"type": "boolean"}, "tags": strings()}),
            Effect::Replaces,
        ),
        tool(
            "recall",
            "Recall",
            "Read the text saved under a name.",
            &["name"],
            &json!({ "name": name }),
            &json!({"name": {"type": "string"}, "content": {"type": "string"}, "tags": strings()}),
            Effect::Reads,
        ),
        tool(
            "forget",
            "Forget",
            "Remove the text saved under a name. A person can still find it in the folder memory/.attic.",
            &["name"],
            &json!({ "name": name }),
            &json!({"name": {"type": "string"}, "attic": {"type": "string"}}),
            Effect::Removes,
        ),
        tool(
            "list_memories",
            "List memories",
            "List every saved text: name, summary and tags.",
            &[],
            &json!({}),
            &heads,
            Effect::Reads,
        ),
        tool(
            "recall_by_tag",
            "Recall by tag",
            "List the saved texts that carry a tag: name, summary and tags.",
            &["tag"],
            &json!({"tag": {"type": "string", "minLength": 1, "description": "one tag; case does not matter"}}),
            &heads,
            Effect::Reads,
        ),
        tool(
            "search_memories",
            "Search memories",
            "Find saved texts by words in their names, tags and bodies, best first.",
            &["query"],
            &json!({
                "query": {"type": "string", "minLength": 1, "description": "words to look for"},
                "k": {"type": "integer", "minimum": 1, "maximum": 100, "default": 10,
                      "description": "the most results"},
            }),
            &json!({"memories": {"type": "array", "items": hit}}),
            Effect::Reads,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn strings() -> Value {
    json!({"type": "array", "items": {"type": "string"}})
}

fn tool(
    name: &str,
    title: &str,
    description: &str,
    required: &[&str],
    input: &Value,
    output: &Value,
    effect: Effect,
) -> Option<BuiltinTool> {
    let read_only = matches!(effect, Effect::Reads);
    let output_names: Vec<&String> = output.as_object().into_iter().flat_map(Map::keys).collect();
    let def = json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": {"$schema": DIALECT, "type": "object", "properties": input, "required": required,
                        "additionalProperties": false},
        "outputSchema": {"$schema": DIALECT, "type": "object", "properties": output, "required": output_names},
        "annotations": {
            "title": title,
            "readOnlyHint": read_only,
            // An older text is replaced without a copy; a forgotten one is kept, but no tool brings it back.
            "destructiveHint": matches!(effect, Effect::Replaces | Effect::Removes),
            "idempotentHint": !matches!(effect, Effect::Removes),
            "openWorldHint": false,
        },
    });
    let Value::Object(def) = def else { return None };
    Some(BuiltinTool { category: CATEGORY, def: ToolDef::new(def)?, read_only })
}

/// The resource of a memory.
pub(crate) fn resource(head: &Head) -> SurfaceResource {
    let uri = format!("{MEMORY_URI}{}", head.name);
    let mut def = Map::new();
    def.insert("uri".to_owned(), uri.as_str().into());
    def.insert("name".to_owned(), head.name.as_str().into());
    def.insert("description".to_owned(), head.summary.as_str().into());
    def.insert("mimeType".to_owned(), "text/markdown".into());
    def.insert("size".to_owned(), head.size.into());
    SurfaceResource { uri: uri.into(), def: ResourceDef(Arc::new(def)) }
}

/// Runs a tool on arguments that were checked against its schema. A failure is a result that says so.
pub(crate) fn run(folder: &MemoryFolder, tool: &str, arguments: &Map<String, Value>) -> ToolResult {
    let text = |key: &str| arguments.get(key).and_then(Value::as_str).unwrap_or_default();
    let done = match tool {
        "remember" => remember(folder, text("name"), text("content"), text("tags")),
        "recall" => folder.read(text("name")).map(|entry| {
            let data = json!({"name": entry.name, "content": entry.body, "tags": entry.tags});
            ToolResult::structured(entry.body, &data)
        }),
        "forget" => folder.forget(text("name")).map(|kept| {
            let data = json!({"name": text("name"), "attic": kept});
            ToolResult::structured("deleted", &data)
        }),
        "list_memories" => folder.list().map(|heads| listed(heads.iter())),
        "recall_by_tag" => {
            let wanted = normalize_tags([text("tag")]);
            folder.list().map(|heads| {
                listed(heads.iter().filter(|h| wanted.first().is_some_and(|tag| h.tags.contains(tag))))
            })
        }
        _ => {
            let k = arguments.get("k").and_then(Value::as_f64).unwrap_or(10.0);
            // The schema bounds it to 1..=100.
            found(folder, text("query"), k.clamp(1.0, 100.0) as usize)
        }
    };
    done.unwrap_or_else(|problem| ToolResult::error(problem.to_string()))
}

fn remember(folder: &MemoryFolder, name: &str, content: &str, tags: &str) -> Result<ToolResult, MemoryError> {
    let tags: Vec<&str> = tags.split(',').filter(|t| !t.trim().is_empty()).collect();
    let saved = folder.write(name, content, (!tags.is_empty()).then_some(&tags))?;
    let note =
        if saved.tags.is_empty() { String::new() } else { format!(" [tags: {}]", saved.tags.join(", ")) };
    let data = json!({"name": name, "created": saved.created, "tags": saved.tags});
    Ok(ToolResult::structured(format!("saved memory '{name}'{note}"), &data))
}

fn listed<'h>(heads: impl Iterator<Item = &'h Head>) -> ToolResult {
    let list: Value = heads
        .map(|h| json!({"name": h.name, "summary": h.summary, "tags": h.tags}))
        .collect::<Vec<_>>()
        .into();
    ToolResult::structured(list.to_string(), &json!({ "memories": list }))
}

fn found(folder: &MemoryFolder, query: &str, k: usize) -> Result<ToolResult, MemoryError> {
    let hits = search(folder.read_all()?, query, k);
    let list: Value = hits
        .iter()
        .map(|hit| {
            let score = (hit.score * 100.0).round() / 100.0;
            json!({"name": hit.entry.name, "score": score, "summary": hit.entry.summary(),
                   "tags": hit.entry.tags, "excerpt": hit.excerpt})
        })
        .collect::<Vec<_>>()
        .into();
    Ok(ToolResult::structured(list.to_string(), &json!({ "memories": list })))
}
