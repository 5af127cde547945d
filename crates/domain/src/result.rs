//! The result of a call: raw JSON as it came, and the one flattening of it for models. It is read, never changed.

use std::{borrow::Cow, sync::Arc};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// The result object of `tools/call`, as raw JSON. A tool's own failure (`isError`) is a result too.
#[derive(Clone, Debug)]
pub struct ToolResult {
    raw: Arc<RawValue>,
}

impl ToolResult {
    /// Takes a result object as it came.
    pub fn from_raw(raw: Box<RawValue>) -> Self {
        Self { raw: raw.into() }
    }

    /// Makes a result from a JSON object.
    pub fn from_value(value: &Value) -> Self {
        // A `Value` always serializes, and to valid JSON.
        let text = value.to_string();
        let raw = RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self { raw: raw.into() }
    }

    /// A result of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::from_value(&serde_json::json!({"content": [{"type": "text", "text": text.into()}]}))
    }

    /// A result of one text block and the same as data.
    pub fn structured(text: impl Into<String>, data: &Value) -> Self {
        Self::from_value(
            &serde_json::json!({"content": [{"type": "text", "text": text.into()}], "structuredContent": data}),
        )
    }

    /// A tool's own failure, in words.
    pub fn error(text: impl Into<String>) -> Self {
        Self::from_value(
            &serde_json::json!({"content": [{"type": "text", "text": text.into()}], "isError": true}),
        )
    }

    /// The result object as JSON text.
    pub fn raw(&self) -> &RawValue {
        &self.raw
    }

    /// The result object as a tree: for showing, not for passing on.
    pub fn to_value(&self) -> Value {
        serde_json::from_str(self.raw.get()).unwrap_or(Value::Null)
    }

    /// Whether the tool says that it failed.
    pub fn is_error(&self) -> bool {
        Parts::of(self.raw.get()).is_error()
    }

    /// The one flattening for models:
    ///
    /// 1. The blocks of `content` in their order, joined by a line break: a text as it is, an embedded resource as
    ///    its text, a link as `[name](uri)`, and what a model cannot take as `[<type> omitted]`.
    /// 2. `structuredContent` follows, as it came, only when no block says anything: then it is all there is. Beside
    ///    words it would say them twice, or is what the tool's owner chose not to tell a model.
    /// 3. A failure of the tool begins with `ERROR: `.
    ///
    /// It takes time in proportion to the result's size and copies each text once.
    pub fn to_model_text(&self) -> String {
        let parts = Parts::of(self.raw.get());
        let mut text = if parts.is_error() { "ERROR: ".to_owned() } else { String::new() };
        let start = text.len();
        let mut says_something = false;
        for block in parts.blocks() {
            if text.len() > start {
                text.push('\n');
            }
            match block {
                Block::Text(words) => {
                    says_something |= !words.trim().is_empty();
                    text.push_str(&words);
                }
                Block::Link { uri, name } => {
                    says_something = true;
                    text.extend(["[", &name, "](", &uri, ")"]);
                }
                Block::Other(kind) => text.extend(["[", &kind, " omitted]"]),
            }
        }
        if let Some(data) = parts.structured.filter(|_| !says_something) {
            if text[start..].trim().is_empty() {
                text.truncate(start);
            } else {
                text.push('\n');
            }
            text.push_str(data.get());
        }
        text
    }
}

/// A block of `content`, as far as a reader without a screen needs it.
#[derive(Debug, PartialEq, Eq)]
enum Block<'r> {
    /// Text, also that of an embedded resource.
    Text(Cow<'r, str>),
    Link {
        uri: Cow<'r, str>,
        name: Cow<'r, str>,
    },
    /// Anything else, by its `type`.
    Other(Cow<'r, str>),
}

/// A result's parts, borrowed from its text. A part that is not what it should be is not there: servers send what
/// they like, and one odd block takes nothing from the others.
#[derive(Default, Deserialize)]
struct Parts<'r> {
    #[serde(borrow)]
    content: Option<&'r RawValue>,
    #[serde(borrow, rename = "structuredContent")]
    structured: Option<&'r RawValue>,
    #[serde(borrow, rename = "isError")]
    is_error: Option<&'r RawValue>,
}

#[derive(Default, Deserialize)]
struct RawBlock<'r> {
    #[serde(borrow, rename = "type")]
    kind: Option<&'r RawValue>,
    #[serde(borrow)]
    text: Option<&'r RawValue>,
    #[serde(borrow)]
    resource: Option<&'r RawValue>,
    #[serde(borrow)]
    uri: Option<&'r RawValue>,
    #[serde(borrow)]
    name: Option<&'r RawValue>,
}

/// Borrows where nothing is escaped.
#[derive(Deserialize)]
struct Words<'r>(#[serde(borrow)] Cow<'r, str>);

fn words(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Words<'_>>(raw?.get()).ok().map(|words| words.0)
}

impl<'r> Parts<'r> {
    fn of(raw: &'r str) -> Self {
        serde_json::from_str(raw).unwrap_or_default()
    }

    fn is_error(&self) -> bool {
        self.is_error.is_some_and(|raw| raw.get() == "true")
    }

    fn blocks(&self) -> impl Iterator<Item = Block<'r>> {
        let list: Vec<&'r RawValue> =
            self.content.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
        list.into_iter().map(block)
    }
}

fn block(raw: &RawValue) -> Block<'_> {
    let block: RawBlock<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
    let kind = words(block.kind).unwrap_or(Cow::Borrowed("unknown"));
    match &*kind {
        "text" => Block::Text(words(block.text).unwrap_or_default()),
        "resource" => {
            let inner: Option<RawBlock<'_>> =
                block.resource.and_then(|raw| serde_json::from_str(raw.get()).ok());
            match inner.and_then(|inner| words(inner.text)) {
                Some(body) => Block::Text(body),
                None => Block::Other(kind),
            }
        }
        "resource_link" => {
            let uri = words(block.uri).unwrap_or_default();
            Block::Link { name: words(block.name).unwrap_or_else(|| uri.clone()), uri }
        }
        _ => Block::Other(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn flat(value: &Value) -> String {
        ToolResult::from_value(value).to_model_text()
    }

    #[test]
    fn i54_content_alone_is_its_text_with_links_kept_and_the_rest_named() {
        let result = json!({"content": [
            {"type": "text", "text": "a \"quoted\" ü"},
            {"type": "image", "data": "…", "mimeType": "image/png"},
            {"type": "audio", "data": "…", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x:1", "text": "body"}},
            {"type": "resource", "resource": {"uri": "x:2", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "x:3", "name": "three"},
        ]});
        assert_eq!(
            flat(&result),
            "a \"quoted\" ü\n[image omitted]\n[audio omitted]\nbody\n[resource omitted]\n[three](x:3)"
        );
    }

    #[test]
    fn i54_structured_content_is_what_the_model_gets_when_it_is_all_there_is() {
        let data = json!({"n": 1, "deep": ["x", null]});
        for content in [json!([]), json!([{"type": "text", "text": " "}]), Value::Null] {
            assert_eq!(flat(&json!({"content": content, "structuredContent": data})), data.to_string());
        }
        assert_eq!(flat(&json!({"structuredContent": data})), data.to_string());
        let picture = json!({"content": [{"type": "image", "data": ""}], "structuredContent": data});
        assert_eq!(flat(&picture), format!("[image omitted]\n{data}"), "a picture says nothing to it");
    }

    #[test]
    fn i54_structured_content_that_the_text_repeats_is_not_sent_twice() {
        let data = json!({"n": 1});
        let result =
            json!({"content": [{"type": "text", "text": data.to_string()}], "structuredContent": data});
        assert_eq!(flat(&result), data.to_string());
    }

    #[test]
    fn i54_a_summary_with_an_image_goes_before_rich_structured_content() {
        let result = json!({
            "content": [{"type": "text", "text": "3 rows"}, {"type": "image", "data": "…"}],
            "structuredContent": {"rows": [1, 2, 3]},
        });
        assert_eq!(flat(&result), "3 rows\n[image omitted]");
        let raw = ToolResult::from_value(&result);
        assert_eq!(raw.to_value(), result, "whoever passes it on passes both");
    }

    #[test]
    fn a_failure_says_so_and_what_is_odd_takes_nothing_from_the_rest() {
        assert_eq!(ToolResult::error("no").to_model_text(), "ERROR: no");
        let failed = json!({"content": [], "structuredContent": {"code": 3}, "isError": true});
        assert_eq!(flat(&failed), "ERROR: {\"code\":3}");
        let odd = json!({"content": [{"type": "text", "text": 5}, 7, {"type": "text", "text": "kept"}, {}],
                         "isError": "yes"});
        assert_eq!(flat(&odd), "[unknown omitted]\nkept\n[unknown omitted]");
        for nothing in [json!(null), json!([]), json!({"content": "text"}), json!("x")] {
            assert_eq!(flat(&nothing), "");
        }
    }

    #[test]
    fn a_result_of_ten_megabytes_is_flattened_whole() {
        let long = "ä\n".repeat(3_500_000);
        assert_eq!(ToolResult::text(long.clone()).to_model_text(), long);
        let many: Vec<Value> = (0..100_000).map(|n| json!({"type": "text", "text": n.to_string()})).collect();
        assert_eq!(flat(&json!({ "content": many })).lines().count(), 100_000);
    }
}
