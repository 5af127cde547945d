//! Checks what a person gives to a tool against the tool's JSON Schema before the call. Fetches nothing, is bounded in
//! time and depth, and never stands in the way of a call because of the schema itself.

use std::{
    collections::{HashMap, HashSet},
    thread,
};

use evi_contract::{Code, Problem};
use jsonschema::{PatternOptions, ValidationError, error::ValidationErrorKind as Kind};
use serde_json::{Map, Value};

/// The most faults that are told.
const TOLD: usize = 5;
/// Values in a schema; real ones have hundreds.
const MOST_VALUES: usize = 10_000;
/// Single checks, each about 0.1 µs.
const MOST_CHECKS: u64 = 20_000_000;
/// Checks within checks.
const DEEPEST: usize = 5_000;
/// Enough for a schema whose values are all nested in each other, and for as many checks within checks.
const STACK: usize = 32 << 20;
/// Characters of one fault.
const FAULT: usize = 200;

/// Checks arguments in the dialect that the schema names, else in that of 2020-12. A schema that is not clear, that
/// needs another one from the network, or that would take too long is logged and checks nothing.
///
/// # Errors
/// `invalid_arguments` with the first faults; `field` is the path of the first one: `edits/0/text`. Values are not
/// repeated.
pub async fn check(tool: &str, schema: Value, arguments: &Map<String, Value>) -> Result<(), Problem> {
    let (name, arguments) = (tool.to_owned(), Value::Object(arguments.clone()));
    let faults = crate::problem::blocking(move || {
        // The schema is somebody else's, and deep ones are checked recursively.
        let checking = thread::Builder::new().name("evi-schema".to_owned()).stack_size(STACK);
        let faults = checking
            .spawn(move || faults(&schema, &arguments))
            .map_err(|e| e.to_string())
            .and_then(|thread| thread.join().unwrap_or_else(|_| Err("checking it failed".to_owned())));
        Ok::<_, Problem>(faults.unwrap_or_else(|reason| {
            tracing::warn!(tool = name, reason, "the tool's schema checks nothing");
            Vec::new()
        }))
    })
    .await?;
    let Some((field, _)) = faults.first() else { return Ok(()) };
    let field = field.clone();
    let more = faults.len() > TOLD;
    let mut told: Vec<String> = faults
        .into_iter()
        .take(TOLD)
        .map(|(path, what)| if path.is_empty() { what } else { format!("{path}: {what}") })
        .collect();
    if more {
        told.push("and more".to_owned());
    }
    let problem =
        Problem::new(Code::InvalidArguments, format!("invalid arguments for {tool}: {}", told.join("; ")));
    Err(if field.is_empty() { problem } else { problem.field(field) })
}

/// Up to one fault more than are told, each with its path; or why the schema checks nothing.
fn faults(schema: &Value, arguments: &Value) -> Result<Vec<(String, String)>, String> {
    if count(schema, MOST_VALUES) == MOST_VALUES {
        return Err(format!("it has more than {MOST_VALUES} values"));
    }
    let mut estimate = Estimate { root: schema, known: HashMap::new(), under_way: HashSet::new() };
    let cost = estimate.cost(schema, depth(arguments));
    let checks = cost.checks.saturating_mul(count(arguments, usize::MAX) as u64);
    if checks > MOST_CHECKS || cost.depth > DEEPEST {
        return Err("it would take too long".to_owned());
    }
    let validator = jsonschema::options()
        .offline()
        .should_validate_formats(false)
        .with_pattern_options(PatternOptions::fancy_regex().backtrack_limit(100_000).size_limit(1 << 20))
        .build(schema)
        .map_err(|e| e.masked().to_string())?;
    let faults = validator
        .iter_errors(arguments)
        // What could not be decided is no fault.
        .filter(|e| {
            !matches!(e.kind(), Kind::BacktrackLimitExceeded { .. } | Kind::RegexEngineFailure { .. })
        });
    Ok(faults.take(TOLD + 1).map(|e| (path(&e), words(&e))).collect())
}

/// Where the fault is: for a value that is missing or too much, that value's place.
fn path(error: &ValidationError<'_>) -> String {
    let mut path = error.instance_path().to_string();
    let inner = match error.kind() {
        Kind::Required { property } => property.as_str(),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unexpected.first().map(String::as_str)
        }
        _ => None,
    };
    if let Some(inner) = inner {
        path.push('/');
        path.push_str(&inner.replace('~', "~0").replace('/', "~1"));
    }
    path.trim_start_matches('/').to_owned()
}

fn words(error: &ValidationError<'_>) -> String {
    let words = match error.kind() {
        Kind::Required { .. } => "is missing".to_owned(),
        Kind::AdditionalProperties { .. } | Kind::UnevaluatedProperties { .. } => {
            "is not an argument of this tool".to_owned()
        }
        // A value may be a secret, or a megabyte.
        _ => error.masked_with("the value").to_string(),
    };
    if words.chars().count() > FAULT {
        words.chars().take(FAULT).chain("…".chars()).collect()
    } else {
        words
    }
}

/// The values in a value, itself included; stops at `most`.
fn count(value: &Value, most: usize) -> usize {
    let (mut seen, mut left) = (0, vec![value]);
    while let Some(value) = left.pop() {
        seen += 1;
        if seen >= most {
            return most;
        }
        match value {
            Value::Array(list) => left.extend(list),
            Value::Object(map) => left.extend(map.values()),
            _ => {}
        }
    }
    seen
}

/// How deep a value is nested; a plain one is 0.
fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(list) => list.iter().map(depth).max(),
        Value::Object(map) => map.values().map(depth).max(),
        _ => return 0,
    };
    inner.map_or(0, |n| n + 1)
}

/// What a schema asks for at one place of the arguments and below it, at most.
#[derive(Clone, Copy)]
struct Cost {
    checks: u64,
    /// Checks within checks.
    depth: usize,
}

/// Follows `$ref`, so that a short schema that doubles itself with every step is seen for what it is.
struct Estimate<'s> {
    root: &'s Value,
    known: HashMap<(*const Value, usize), Cost>,
    under_way: HashSet<(*const Value, usize)>,
}

impl Cost {
    fn add(&mut self, inner: Self) {
        self.checks = self.checks.saturating_add(inner.checks);
        self.depth = self.depth.max(inner.depth.saturating_add(1));
    }
}

impl<'s> Estimate<'s> {
    fn cost(&mut self, schema: &'s Value, depth: usize) -> Cost {
        let mut sum = Cost { checks: 1, depth: 1 };
        let Value::Object(keywords) = schema else { return sum };
        let place = (std::ptr::from_ref(schema), depth);
        if let Some(known) = self.known.get(&place) {
            return *known;
        }
        // One that leads back to itself at the same place is noticed by who checks, too, and costs nothing more.
        if !self.under_way.insert(place) {
            return sum;
        }
        if self.under_way.len() > DEEPEST {
            self.under_way.remove(&place);
            return Cost { checks: 1, depth: DEEPEST + 1 };
        }
        for (keyword, value) in keywords {
            let depth = match keyword.as_str() {
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    if let Some(target) = value.as_str().and_then(|r| self.find(r)) {
                        sum.add(self.cost(target, depth));
                    }
                    continue;
                }
                "$defs" | "definitions" | "default" | "enum" | "const" | "examples" => continue,
                "properties"
                | "patternProperties"
                | "additionalProperties"
                | "items"
                | "prefixItems"
                | "additionalItems"
                | "contains"
                | "propertyNames"
                | "unevaluatedItems"
                | "unevaluatedProperties" => match depth.checked_sub(1) {
                    Some(below) => below,
                    None => continue,
                },
                _ => depth,
            };
            let inner: Vec<&'s Value> = match value {
                Value::Array(list) => list.iter().collect(),
                // A keyword whose value is a map of schemas, or itself one.
                Value::Object(map) if MAPS.contains(&keyword.as_str()) => map.values().collect(),
                Value::Object(_) => vec![value],
                _ => Vec::new(),
            };
            for schema in inner {
                sum.add(self.cost(schema, depth));
            }
        }
        // What was not evaluated is found by evaluating the neighbours again.
        if keywords.keys().any(|k| k.starts_with("unevaluated")) {
            sum.checks = sum.checks.saturating_mul(2);
        }
        self.under_way.remove(&place);
        self.known.insert(place, sum);
        sum
    }

    fn find(&self, reference: &str) -> Option<&'s Value> {
        match reference.strip_prefix('#') {
            Some(pointer) => self.root.pointer(pointer),
            // Elsewhere: it is refused, or it is inside under a name of its own, which costs as much as all of it.
            None => Some(self.root),
        }
    }
}

const MAPS: [&str; 4] = ["properties", "patternProperties", "dependentSchemas", "dependencies"];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    async fn go(schema: Value, arguments: Value) -> Result<(), Problem> {
        check("box.tool", schema, arguments.as_object().unwrap()).await
    }

    #[tokio::test]
    async fn a_fault_names_its_path_and_never_repeats_the_value() {
        let schema = json!({
            "type": "object", "required": ["path", "edits"], "additionalProperties": false,
            "properties": {
                "path": {"type": "string"}, "n": {"type": "integer", "maximum": 10},
                "edits": {"type": "array", "items": {
                    "type": "object", "required": ["old/text"], "properties": {"old/text": {"type": "string"}},
                }},
            },
        });
        let field = async |arguments: Value| {
            let problem = go(schema.clone(), arguments).await.unwrap_err();
            assert_eq!(problem.code, Code::InvalidArguments);
            assert!(!problem.message.contains("hunter2"), "{}", problem.message);
            (problem.field.unwrap(), problem.message)
        };
        let (at, message) = field(json!({"path": "p"})).await;
        assert_eq!(
            (at.as_str(), message.as_str()),
            ("edits", "invalid arguments for box.tool: edits: is missing")
        );
        assert_eq!(field(json!({"path": ["hunter2"], "edits": []})).await.0, "path");
        assert_eq!(
            field(json!({"path": "p", "edits": [{"old/text": "x"}, {}]})).await.0,
            "edits/1/old~1text"
        );
        let (at, message) = field(json!({"path": "p", "edits": [], "extra": "hunter2"})).await;
        assert_eq!(at, "extra");
        assert!(message.ends_with("extra: is not an argument of this tool"), "{message}");
        assert!(go(schema.clone(), json!({"path": "p", "edits": [], "n": 10})).await.is_ok());
        assert!(go(json!({}), json!({"a": 1})).await.is_ok());
    }

    #[tokio::test]
    async fn five_faults_are_told_and_that_there_are_more() {
        let list = json!({"properties": {"l": {"items": {"type": "string"}}}});
        let message = go(list.clone(), json!({"l": [1, 2, 3, 4, 5, 6, 7]})).await.unwrap_err().message;
        assert!(
            message.contains("l/4: ") && !message.contains("l/5") && message.ends_with("; and more"),
            "{message}"
        );
        let message = go(list, json!({"l": [1, 2, 3, 4, 5]})).await.unwrap_err().message;
        assert!(message.contains("l/4: ") && !message.ends_with("more"), "{message}");
    }

    #[tokio::test]
    async fn the_dialect_is_that_of_2020_unless_the_schema_names_another() {
        let tuple = |dialect: Option<&str>, keyword: &str| {
            let mut schema = json!({"properties": {"l": {keyword: [{"type": "string"}]}}});
            if let Some(dialect) = dialect {
                schema["$schema"] = dialect.into();
            }
            schema
        };
        let wrong = json!({"l": [1]});
        assert!(go(tuple(None, "prefixItems"), wrong.clone()).await.is_err());
        assert!(
            go(tuple(Some("http://json-schema.org/draft-07/schema#"), "items"), wrong.clone()).await.is_err()
        );
        assert!(
            go(tuple(Some("http://json-schema.org/draft-07/schema#"), "prefixItems"), wrong).await.is_ok()
        );
    }

    #[tokio::test]
    async fn a_schema_that_is_not_clear_lets_the_call_through() {
        for schema in [
            json!({"type": "nonsense"}),
            json!({"properties": {"a": {"pattern": "("}}}),
            json!({"$ref": "http://127.0.0.1:9/schema.json"}),
            json!({"$ref": "#/$defs/missing"}),
            json!({"$schema": "https://example.org/own-dialect"}),
        ] {
            assert!(go(schema.clone(), json!({"a": "b"})).await.is_ok(), "{schema}");
        }
    }

    #[tokio::test]
    async fn a_hostile_schema_ends_nothing_and_takes_no_time() {
        let began = std::time::Instant::now();
        let chain = |n: usize, link: &dyn Fn(Value) -> Value| {
            let mut defs = Map::new();
            for i in 0..n {
                defs.insert(format!("d{i}"), link(json!({"$ref": format!("#/$defs/d{}", i + 1)})));
            }
            defs.insert(format!("d{n}"), json!({"type": "array"}));
            json!({"$defs": defs, "$ref": "#/$defs/d0"})
        };
        // Ever the same place, twice as much with every step, as deep as may be, and too large.
        assert!(go(json!({"allOf": [{"$ref": "#"}]}), json!({})).await.is_ok());
        assert!(go(chain(60, &|next| json!({"allOf": [next, next]})), json!({})).await.is_ok());
        let deep = |next: Value| (0..40).fold(next, |inner, _| json!({"allOf": [inner]}));
        assert!(go(chain(80, &deep), json!({})).await.is_err());
        assert!(go(chain(2_000, &deep), json!({})).await.is_ok());
        let mut long = chain(200, &deep);
        long["$defs"]["d200"] = json!({"properties": {"c": {"$ref": "#"}}});
        let nested = (0..60).fold(json!({}), |inner, _| json!({"c": inner}));
        assert!(go(long, nested.clone()).await.is_ok());
        let tree = json!({"anyOf": [
            {"properties": {"c": {"$ref": "#"}}, "required": ["x"]}, {"properties": {"c": {"$ref": "#"}}, "required": ["y"]},
        ]});
        assert!(go(tree, nested).await.is_ok());
        let slow = json!({"properties": {"a": {"pattern": "(?i)(a|b|ab)*(?=c)"}}});
        // Whatever comes of it, it comes soon.
        let _ = go(slow, json!({"a": "ab".repeat(4_000)})).await;
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }
}
