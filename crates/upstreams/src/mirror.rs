//! Arguments that a tool wants repeated in headers, so that what stands before the server can route a call without
//! reading it: which they are, and what a header then says. It looks at no argument that is not marked.
//! <https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#custom-headers-from-tool-parameters>

use std::collections::HashSet;

use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

/// What a property of a tool's `inputSchema` says when it wants to be repeated.
const MARK: &str = "x-mcp-header";
/// Integers beyond this are not the same number everywhere.
const SAFE: f64 = 9_007_199_254_740_991.0;

/// One argument and its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mirrored {
    path: Vec<String>,
    header: HeaderName,
}

/// The marks of a tool's `inputSchema`.
///
/// # Errors
/// Says which mark is wrong; such a tool must not be offered.
pub(crate) fn marks(schema: &Map<String, Value>) -> Result<Vec<Mirrored>, String> {
    let mut found = Vec::new();
    let mut names = HashSet::new();
    walk(schema, &mut Vec::new(), &mut |path, property, mark| {
        let at = path.join(".");
        let name =
            mark.as_str().filter(|name| !name.is_empty()).ok_or(format!("{MARK} of {at} is no name"))?;
        let header = HeaderName::try_from(format!("mcp-param-{name}"))
            .map_err(|_| format!("{MARK} of {at} cannot be a header's name"))?;
        if !names.insert(header.clone()) {
            return Err(format!("two properties have the same {MARK}"));
        }
        if !matches!(property.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
            return Err(format!("{MARK} is on {at}, which is no text, integer or boolean"));
        }
        found.push(Mirrored { path: path.to_vec(), header });
        Ok(())
    })?;
    if count_in(schema) != found.len() {
        return Err(format!("{MARK} stands where no argument is"));
    }
    Ok(found)
}

type Found<'a> = dyn FnMut(&[String], &Map<String, Value>, &Value) -> Result<(), String> + 'a;

fn walk(schema: &Map<String, Value>, path: &mut Vec<String>, found: &mut Found<'_>) -> Result<(), String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Ok(()) };
    for (name, property) in properties {
        let Some(property) = property.as_object() else { continue };
        path.push(name.clone());
        if let Some(mark) = property.get(MARK) {
            found(path, property, mark)?;
        }
        walk(property, path, found)?;
        path.pop();
    }
    Ok(())
}

/// All marks, wherever they stand. `is_schema` is false for a map from names to schemas, whose keys mean nothing.
fn count(value: &Value, is_schema: bool) -> usize {
    match value {
        Value::Array(items) => items.iter().map(|item| count(item, true)).sum(),
        Value::Object(map) if is_schema => count_in(map),
        Value::Object(map) => map.values().map(|value| count(value, true)).sum(),
        _ => 0,
    }
}

/// All marks of a schema.
fn count_in(schema: &Map<String, Value>) -> usize {
    let marks = schema.iter().map(|(key, value)| match key.as_str() {
        MARK => 1,
        // Data and names, not schemas.
        "default" | "const" | "enum" | "examples" | "dependentRequired" | "required" => 0,
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            count(value, false)
        }
        _ => count(value, true),
    });
    marks.sum()
}

/// Adds the headers for a call's `params`. What is absent or null has none.
pub(crate) fn add(mirrored: &[Mirrored], params: &RawValue, headers: &mut HeaderMap) {
    #[derive(Deserialize)]
    struct Params {
        arguments: Value,
    }
    if mirrored.is_empty() {
        return;
    }
    let Ok(Params { arguments }) = serde_json::from_str(params.get()) else { return };
    for Mirrored { path, header } in mirrored {
        let value = path.iter().try_fold(&arguments, |value, key| value.get(key));
        if let Some(value) = value.and_then(text).and_then(|text| header_value(&text)) {
            headers.insert(header.clone(), value);
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(is) => Some(is.to_string()),
        // 42.0 is the integer 42.
        Value::Number(number) => {
            match number.as_f64().filter(|n| number.is_f64() && n.fract() == 0.0 && n.abs() <= SAFE) {
                Some(whole) => Some(format!("{whole:.0}")),
                None => Some(number.to_string()),
            }
        }
        _ => None,
    }
}

/// A text as a header's value, wrapped where it would not survive as it is.
pub(crate) fn header_value(text: &str) -> Option<HeaderValue> {
    let plain = text.bytes().all(|b| matches!(b, 0x20..=0x7e))
        && text.trim() == text
        && !(text.starts_with("=?base64?") && text.ends_with("?="));
    if plain {
        return HeaderValue::from_str(text).ok();
    }
    HeaderValue::from_str(&format!("=?base64?{}?=", BASE64_STANDARD.encode(text))).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(properties: &Value) -> Result<Vec<Mirrored>, String> {
        marks(json!({"type": "object", "properties": properties}).as_object().unwrap())
    }

    #[test]
    fn marked_arguments_become_headers_and_nothing_else_does() {
        let mirrored = read(&json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "n": {"type": "integer", "x-mcp-header": "N"},
            "none": {"type": "string", "x-mcp-header": "None"},
            "in": {"type": "object", "properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}},
            "x-mcp-header": {"type": "string"},
            "plain": {"type": "string", "default": {"x-mcp-header": "no"}},
        }))
        .unwrap();
        let mut headers = HeaderMap::new();
        let params = json!({"name": "t", "arguments":
            {"region": "Zürich", "n": 42.0, "none": null, "in": {"on": true}, "plain": "p"}});
        add(&mirrored, &serde_json::value::to_raw_value(&params).unwrap(), &mut headers);
        let got: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        assert_eq!(
            got,
            ["mcp-param-region: =?base64?WsO8cmljaA==?=", "mcp-param-n: 42", "mcp-param-on: true"]
        );
    }

    #[test]
    fn a_mark_that_cannot_be_kept_is_an_error() {
        for wrong in [
            json!({"a": {"type": "number", "x-mcp-header": "A"}}),
            json!({"a": {"type": "string", "x-mcp-header": ""}}),
            json!({"a": {"type": "string", "x-mcp-header": 7}}),
            json!({"a": {"type": "string", "x-mcp-header": "a b"}}),
            json!({"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}),
            json!({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}),
            json!({"a": {"oneOf": [{"type": "string", "x-mcp-header": "A"}]}}),
        ] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
        let root = json!({"type": "object", "x-mcp-header": "Root"});
        assert!(marks(root.as_object().unwrap()).is_err());
    }

    #[test]
    fn a_text_that_would_not_survive_is_wrapped() {
        let value = |text: &str| header_value(text).unwrap().to_str().unwrap().to_owned();
        assert_eq!(value("get weather"), "get weather");
        assert_eq!(value(" x"), "=?base64?IHg=?=");
        assert_eq!(value("a\nb"), "=?base64?YQpi?=");
        assert_eq!(value("=?base64?eA==?="), "=?base64?PT9iYXNlNjQ/ZUE9PT89?=");
    }
}
