//! The tool that reads kept results by page. Whose a result is, its store decides.

use evi_domain::{
    Caller, KeptError, KeptResults, ResultId, ToolDef, ToolResult,
    kept::{CATEGORY, Form, MAX_PAGE, PAGE, Page, READ_RESULT},
};
use serde_json::{Map, Value, json};

use crate::BuiltinTool;

/// The tool.
pub(crate) fn definition() -> Option<BuiltinTool> {
    let def = json!({
        "name": READ_RESULT,
        "title": "Read a result",
        "description": "Read more of a tool's result that was too large to be shown whole. The result names its handle.",
        "inputSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "handle": {"type": "string", "minLength": 1, "description": "the handle that the cut result names"},
                "offset": {"type": "integer", "minimum": 0, "default": 0,
                           "description": "the character to begin at"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": PAGE,
                          "description": "the most characters; fewer come where they would not fit"},
            },
            "required": ["handle"],
            "additionalProperties": false,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "offset": {"type": "integer"},
                "total": {"type": "integer"},
                "next_offset": {"type": "integer"},
            },
            "required": ["offset", "total"],
        },
        "annotations": {
            "title": "Read a result",
            "readOnlyHint": true,
            "destructiveHint": false,
            "idempotentHint": true,
            "openWorldHint": false,
        },
    });
    let Value::Object(def) = def else { return None };
    Some(BuiltinTool { category: CATEGORY, def: ToolDef::new(def)?, read_only: true })
}

/// Runs it on arguments that were checked against its schema.
pub(crate) fn run(results: &dyn KeptResults, caller: &Caller, arguments: &Map<String, Value>) -> ToolResult {
    // The schema bounds them; JSON Schema counts 10.0 as an integer.
    let number = |key: &str| arguments.get(key).and_then(Value::as_f64).unwrap_or_default() as usize;
    let handle = ResultId::new(arguments.get("handle").and_then(Value::as_str).unwrap_or_default().trim());
    let page = match results.read(caller, &handle, Form::Text, number("offset"), number("limit")) {
        Ok(page) => narrow(page, number("limit")),
        // What was asked for is not repeated: it may be anything.
        Err(KeptError::NotThere(_)) => {
            return ToolResult::error(
                "there is no result with this handle, or not any more; call the tool that gave it again",
            );
        }
        Err(problem) => return ToolResult::error(problem.to_string()),
    };
    let mut data = json!({"offset": page.offset, "total": page.total});
    let end = page.next.unwrap_or(page.total);
    let then = match page.next {
        Some(next) => {
            data["next_offset"] = next.into();
            format!("the next page begins at offset {next}")
        }
        None => "this is the last page".to_owned(),
    };
    // In front, so that it is read also where the end does not fit.
    let text = format!("[characters {} to {end} of {}; {then}]\n{}", page.offset, page.total, page.text);
    ToolResult::structured(text, &data)
}

/// A page of at most as many bytes as characters were asked for: letters that take more bytes take more of a model's
/// window, too.
fn narrow(page: Page, most: usize) -> Page {
    let fits = page.text.char_indices().take_while(|(at, c)| at + c.len_utf8() <= most.max(4)).count();
    if fits == page.text.chars().count() {
        return page;
    }
    Page { text: page.text.chars().take(fits).collect(), next: Some(page.offset + fits), ..page }
}
