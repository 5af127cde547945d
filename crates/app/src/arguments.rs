//! Arguments of a tool from words a person typed: `name=value`, `name:=json`, or one JSON object. Types come from
//! the tool's schema; nothing is guessed from how a value looks.

use evi_contract::{Code, Problem};
use serde_json::{Map, Value};

const USAGE: &str = "write name=value …, name:=json …, or one JSON object";

/// Reads words into a JSON object.
///
/// # Errors
/// The word that is not clear, or the value that does not fit its type, by the argument's name.
pub fn from_words(words: &[String], schema: &Value) -> Result<Map<String, Value>, Problem> {
    if let [only] = words
        && only.trim_start().starts_with('{')
    {
        return serde_json::from_str(only).map_err(|e| {
            Problem::new(Code::InvalidInput, format!("the arguments are not a JSON object: {e}")).hint(USAGE)
        });
    }
    let mut arguments = Map::new();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(
                Problem::new(Code::InvalidInput, format!("expected name=value, found {word}")).hint(USAGE)
            );
        };
        let (key, value) = match key.strip_suffix(':') {
            Some(key) => (key, json(key, value, "JSON")?),
            None => (key, typed(key, value, schema)?),
        };
        arguments.insert(key.to_owned(), value);
    }
    Ok(arguments)
}

fn typed(key: &str, text: &str, schema: &Value) -> Result<Value, Problem> {
    let property = &schema["properties"][key];
    let mut kinds = kinds(property);
    if kinds.is_empty() || kinds.contains(&"string") {
        return Ok(Value::from(text));
    }
    kinds.retain(|k| *k != "null");
    let kind = kinds.first().copied().unwrap_or("null");
    let value = json(key, text, kind)?;
    let fits = match kind {
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    };
    if fits || value.is_null() { Ok(value) } else { Err(wrong(key, text, kind)) }
}

/// The types that a property may have, `anyOf` and `oneOf` included.
fn kinds(property: &Value) -> Vec<&str> {
    match &property["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => ["anyOf", "oneOf"]
            .iter()
            .filter_map(|key| property[*key].as_array())
            .flatten()
            .filter_map(|option| option["type"].as_str())
            .collect(),
    }
}

fn json(key: &str, text: &str, kind: &str) -> Result<Value, Problem> {
    serde_json::from_str(text).map_err(|_| wrong(key, text, kind))
}

fn wrong(key: &str, text: &str, kind: &str) -> Problem {
    Problem::new(Code::InvalidArguments, format!("{key} wants {kind}, found {text}")).field(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn go(words: &[&str]) -> Result<Value, Problem> {
        let schema = json!({"properties": {
            "path": {"type": "string"}, "n": {"type": "integer"}, "deep": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "on": {"type": "boolean"}, "list": {"type": "array"}, "any": {},
        }});
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        from_words(&words, &schema).map(Value::Object)
    }

    #[test]
    fn i51_types_come_from_the_schema() {
        let value =
            go(&["path=8", "n=8", "deep=null", "on=true", "list=[1,\"2\"]", "any=8", "raw:={\"a\":1}"])
                .unwrap();
        assert_eq!(
            value,
            json!({"path": "8", "n": 8, "deep": null, "on": true, "list": [1, "2"], "any": "8", "raw": {"a": 1}})
        );
        assert_eq!(go(&["{\"n\": 1}"]).unwrap(), json!({"n": 1}));
    }

    #[test]
    fn a_value_that_does_not_fit_names_its_argument() {
        assert_eq!(go(&["n=eight"]).unwrap_err().field.as_deref(), Some("n"));
        assert_eq!(go(&["n=1.5"]).unwrap_err().field.as_deref(), Some("n"));
        assert!(go(&["stray"]).is_err());
    }
}
