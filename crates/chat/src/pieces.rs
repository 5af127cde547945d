//! Puts a model's calls together out of the pieces that a provider streams; runs and judges nothing.

use genai::chat::ToolCall;
use serde_json::{Value, json};

use crate::{ModelError, ModelToolCall};

/// The most calls of one answer.
const MAX_CALLS: usize = 128;
/// The most bytes of all arguments of one answer.
const MAX_ARGUMENTS: usize = 8 << 20;

/// Calls that come in pieces. The library's own collecting trusts the provider's `index`: some send 0 for every
/// call, some begin at 1, and a large one would fill the memory. So it is told not to collect, and hands each
/// piece over with the provider's id, or `call_<index>` where there was none.
#[derive(Default)]
pub(crate) struct Calls {
    begun: Vec<(String, String, String)>,
    size: usize,
}

impl Calls {
    /// Takes one piece.
    pub(crate) fn take(&mut self, piece: ToolCall) -> Result<(), ModelError> {
        let text = match piece.fn_arguments {
            Value::String(text) => text,
            other => other.to_string(),
        };
        self.size += text.len();
        if self.size > MAX_ARGUMENTS {
            return Err(ModelError::Protocol {
                reason: "the arguments of its calls are too large".to_owned(),
            });
        }
        let known = self.begun.iter().rposition(|(id, name, arguments)| {
            let same = !id.is_empty() && *id == piece.call_id;
            // A whole call whose id comes again with a name is another call: some send one id for all.
            let another = !piece.fn_name.is_empty() && (*name != piece.fn_name || is_object(arguments));
            same && !another
        });
        let at = match known {
            Some(at) => Some(at),
            // A piece without a name goes on with a call: the one of its index, else the last.
            None if piece.fn_name.is_empty() => {
                let index = piece.call_id.strip_prefix("call_").and_then(|n| n.parse::<usize>().ok());
                index.filter(|n| *n < self.begun.len()).or_else(|| self.begun.len().checked_sub(1))
            }
            None => None,
        };
        if let Some((_, _, arguments)) = at.and_then(|at| self.begun.get_mut(at)) {
            arguments.push_str(&text);
        } else if self.begun.len() == MAX_CALLS {
            return Err(ModelError::Protocol { reason: format!("it asked for more than {MAX_CALLS} calls") });
        } else {
            self.begun.push((piece.call_id, piece.fn_name, text));
        }
        Ok(())
    }

    /// The whole calls, in the order they were begun.
    pub(crate) fn finish(self) -> Vec<ModelToolCall> {
        let calls = self.begun.into_iter().enumerate().map(|(n, (id, name, text))| ModelToolCall {
            model_id: if id.is_empty() { format!("call_{n}") } else { id },
            name,
            arguments: arguments(text),
        });
        calls.collect()
    }
}

fn is_object(text: &str) -> bool {
    serde_json::from_str::<serde_json::Map<String, Value>>(text).is_ok()
}

/// The arguments as JSON; nothing at all means none, and what is no JSON stays a text.
fn arguments(text: String) -> Value {
    match serde_json::from_str(&text) {
        Ok(Value::Null) => json!({}),
        Ok(value) => value,
        Err(_) if text.trim().is_empty() => json!({}),
        Err(_) => Value::String(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall {
            call_id: id.to_owned(),
            fn_name: name.to_owned(),
            fn_arguments: arguments.into(),
            thought_signatures: None,
        }
    }
    fn whole(pieces: Vec<ToolCall>) -> Vec<(String, Value)> {
        let mut calls = Calls::default();
        for piece in pieces {
            calls.take(piece).unwrap();
        }
        calls.finish().into_iter().map(|c| (format!("{} {}", c.model_id, c.name), c.arguments)).collect()
    }

    #[test]
    fn pieces_come_together_however_a_provider_numbers_them() {
        // As OpenAI sends them: id and name first, then pieces by index.
        let usual = vec![
            piece("x1", "a", ""),
            piece("call_0", "", r#"{"n":"#),
            piece("call_0", "", "1}"),
            piece("x2", "b", "{}"),
        ];
        assert_eq!(whole(usual), [("x1 a".to_owned(), json!({"n": 1})), ("x2 b".to_owned(), json!({}))]);
        // Two at once, pieces mixed.
        let mixed = vec![
            piece("x1", "a", ""),
            piece("x2", "b", ""),
            piece("call_0", "", r#"{"n":1}"#),
            piece("call_1", "", r#"{"n":2}"#),
        ];
        assert_eq!(whole(mixed)[1].1, json!({"n": 2}));
        // Every call with index 0 and whole arguments; and one that begins at 1 without ids.
        let zeros = vec![piece("x1", "a", "{}"), piece("x2", "a", r#"{"n":2}"#)];
        assert_eq!(whole(zeros).len(), 2);
        let one_id = vec![piece("call_0", "a", r#"{"n":1}"#), piece("call_0", "a", r#"{"n":2}"#)];
        assert_eq!(whole(one_id)[1].1, json!({"n": 2}));
        let repeated = vec![piece("x", "a", r#"{"n":"#), piece("x", "a", "1}")];
        assert_eq!(whole(repeated), [("x a".to_owned(), json!({"n": 1}))]);
        let ones = vec![piece("call_1", "a", ""), piece("call_1", "", "{}"), piece("", "", "")];
        assert_eq!(whole(ones), [("call_1 a".to_owned(), json!({}))]);
    }

    #[test]
    fn i51_arguments_keep_their_json_types() {
        let text = r#"{"n":8,"f":8.0,"s":"8","o":{"a":1},"l":[null],"z":null}"#;
        assert_eq!(arguments(text.to_owned()).to_string(), text);
        assert_eq!(arguments(String::new()), json!({}));
        assert_eq!(arguments("{oops".to_owned()), json!("{oops"));
    }
}
