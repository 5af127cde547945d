//! Checks a call's arguments against the schema of one of our own tools; knows only the few keywords that these
//! use, and refuses whatever the schema does not name.

use serde_json::{Map, Value};

/// The arguments as an object, with the defaults of the schema filled in.
///
/// # Errors
/// The first problem in words, beginning with the field's path.
pub(crate) fn check(schema: &Value, arguments: &str) -> Result<Map<String, Value>, String> {
    let value: Value = serde_json::from_str(arguments).map_err(|e| format!("not JSON: {e}"))?;
    let mut given = match value {
        Value::Object(map) => map,
        // A client may leave out the arguments of a tool that needs none.
        Value::Null => Map::new(),
        other => return Err(format!("expected an object, got {}", kind(&other))),
    };
    let empty = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
    if let Some(extra) = given.keys().find(|key| !properties.contains_key(*key)) {
        let known: Vec<&str> = properties.keys().map(String::as_str).collect();
        let takes = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
        return Err(format!("{}: is not an argument of this tool, which takes {takes}", shown(extra)));
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    if let Some(missing) = required.filter_map(Value::as_str).find(|key| !given.contains_key(*key)) {
        return Err(format!("{missing}: is missing"));
    }
    for (name, rule) in properties {
        match given.get(name) {
            Some(value) => check_value(rule, value).map_err(|problem| format!("{name}: {problem}"))?,
            None => {
                if let Some(default) = rule.get("default") {
                    given.insert(name.clone(), default.clone());
                }
            }
        }
    }
    Ok(given)
}

fn check_value(rule: &Value, value: &Value) -> Result<(), String> {
    let fits = match rule.get("type").and_then(Value::as_str) {
        Some("string") => value.is_string(),
        // JSON Schema counts 10.0 as an integer.
        Some("integer") => {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|n| n.fract() == 0.0)
        }
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        _ => true,
    };
    if !fits {
        let wanted = match rule.get("type").and_then(Value::as_str) {
            Some("string") => "text",
            Some("integer") => "a whole number",
            Some("number") => "a number",
            _ => "true or false",
        };
        return Err(format!("expected {wanted}, got {}", kind(value)));
    }
    if let (Some(low), Some(n)) = (rule.get("minimum").and_then(Value::as_f64), value.as_f64())
        && n < low
    {
        return Err(format!("must be at least {low}"));
    }
    if let (Some(high), Some(n)) = (rule.get("maximum").and_then(Value::as_f64), value.as_f64())
        && n > high
    {
        return Err(format!("must be at most {high}"));
    }
    if let (Some(least), Some(text)) = (rule.get("minLength").and_then(Value::as_u64), value.as_str())
        && (text.chars().count() as u64) < least
    {
        return Err("must not be empty".to_owned());
    }
    Ok(())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A field's name in a message, whatever a caller put there.
fn shown(name: &str) -> String {
    name.chars().take(64).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type": "object", "required": ["q"], "additionalProperties": false, "properties": {
            "q": {"type": "string", "minLength": 1},
            "k": {"type": "integer", "minimum": 1, "maximum": 5, "default": 3},
        }})
    }

    #[test]
    fn right_arguments_pass_and_get_their_defaults() {
        assert_eq!(Value::from(check(&schema(), r#"{"q": "a"}"#).unwrap()), json!({"q": "a", "k": 3}));
        assert!(check(&schema(), r#"{"q": "a", "k": 2.0}"#).is_ok());
    }

    #[test]
    fn each_problem_names_its_field() {
        let problem = |text: &str| check(&schema(), text).unwrap_err();
        assert_eq!(problem("{}"), "q: is missing");
        assert_eq!(problem("null"), "q: is missing");
        assert_eq!(problem("[]"), "expected an object, got a list");
        assert_eq!(problem(r#"{"q": 1}"#), "q: expected text, got a number");
        assert_eq!(problem(r#"{"q": ""}"#), "q: must not be empty");
        assert_eq!(problem(r#"{"q": "a", "k": "2"}"#), "k: expected a whole number, got text");
        assert_eq!(problem(r#"{"q": "a", "k": null}"#), "k: expected a whole number, got null");
        assert_eq!(problem(r#"{"q": "a", "k": 9}"#), "k: must be at most 5");
        assert_eq!(problem(r#"{"q": "a", "k": 0}"#), "k: must be at least 1");
        assert_eq!(problem(r#"{"q": "a", "z": 1}"#), "z: is not an argument of this tool, which takes q, k");
        assert!(problem("{").starts_with("not JSON"));
    }
}
