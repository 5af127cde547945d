//! Looks at `id` and `method` of a line of JSON-RPC, and at nothing else unless asked; never changes a line.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

/// An id as compact JSON, so that the same id written in two ways is one id.
pub(crate) type Id = String;

/// What one message is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Request { id: Id, method: String },
    Notification { method: String },
    Answer { id: Id },
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: Option<String>,
}

/// The messages of a line: one, several of a batch, or none when it is not JSON-RPC (the backend says so to the
/// client, not we).
pub(crate) fn messages(line: &[u8]) -> Vec<Message> {
    if line.trim_ascii_start().first() == Some(&b'[') {
        let heads: Vec<Head<'_>> = serde_json::from_slice(line).unwrap_or_default();
        return heads.into_iter().filter_map(message).collect();
    }
    serde_json::from_slice::<Head<'_>>(line).ok().and_then(message).into_iter().collect()
}

fn message(head: Head<'_>) -> Option<Message> {
    match (head.id.map(id), head.method) {
        (Some(id), Some(method)) => Some(Message::Request { id, method }),
        (None, Some(method)) => Some(Message::Notification { method }),
        (Some(id), None) => Some(Message::Answer { id }),
        (None, None) => None,
    }
}

fn id(raw: &RawValue) -> Id {
    serde_json::from_str::<Value>(raw.get()).map_or_else(|_| raw.get().into(), |value| value.to_string())
}

/// The id of an answer of which only the first bytes are there.
pub(crate) fn id_of_head(head: &[u8]) -> Option<Id> {
    const KEY: &[u8] = b"\"id\":";
    // Not behind `result`: an id in there is something else.
    let end = head.windows(8).position(|part| part == b"\"result\"").unwrap_or(head.len());
    let at = head[..end].windows(KEY.len()).position(|part| part == KEY)?;
    let mut values = serde_json::Deserializer::from_slice(&head[at + KEY.len()..]).into_iter::<Value>();
    let id = values.next()?.ok()?;
    (id.is_string() || id.is_number()).then(|| id.to_string())
}

#[derive(Deserialize)]
struct Cancelled {
    params: CancelledParams,
}

#[derive(Deserialize)]
struct CancelledParams {
    #[serde(rename = "requestId")]
    request_id: Value,
}

/// `params.requestId` of `notifications/cancelled`.
pub(crate) fn cancelled_id(line: &[u8]) -> Option<Id> {
    serde_json::from_slice::<Cancelled>(line).ok().map(|line| line.params.request_id.to_string())
}

#[derive(Deserialize)]
struct Subscription {
    params: SubscriptionParams,
}

#[derive(Deserialize)]
struct SubscriptionParams {
    uri: String,
}

/// `params.uri` of `resources/subscribe` and `resources/unsubscribe`.
pub(crate) fn uri(line: &[u8]) -> Option<String> {
    serde_json::from_slice::<Subscription>(line).ok().map(|line| line.params.uri)
}

/// What an answer to `initialize` offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offers {
    pub tools: bool,
    pub resources: bool,
    pub prompts: bool,
}

#[derive(Deserialize)]
struct Initialized {
    result: InitializeResult,
}

#[derive(Deserialize)]
struct InitializeResult {
    #[serde(default)]
    capabilities: serde_json::Map<String, Value>,
}

/// The capabilities in an answer to `initialize`; `None` when it is an error.
pub(crate) fn offers(line: &[u8]) -> Option<Offers> {
    let capabilities = serde_json::from_slice::<Initialized>(line).ok()?.result.capabilities;
    let has = |key| capabilities.contains_key(key);
    Some(Offers { tools: has("tools"), resources: has("resources"), prompts: has("prompts") })
}

/// A message with everything but its id and what that id's method needs.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// The same message under another id, as a line.
pub(crate) fn with_id(line: &[u8], id: &str) -> Option<Vec<u8>> {
    let body: Body<'_> = serde_json::from_slice(line).ok()?;
    let mut text = format!(r#"{{"jsonrpc":"2.0","id":{id}"#);
    let members =
        [("method", body.method), ("params", body.params), ("result", body.result), ("error", body.error)];
    for (key, value) in members {
        if let Some(value) = value {
            text.push_str(&format!(r#","{key}":{}"#, value.get()));
        }
    }
    text.push_str("}\n");
    Some(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_and_ids_are_compared_by_value() {
        let request = messages(br#"{"method":"ping","id": "a\u0062" }"#);
        assert_eq!(request, [Message::Request { id: "\"ab\"".into(), method: "ping".into() }]);
        assert_eq!(messages(br#"{"id":7,"result":{"id":8}}"#), [Message::Answer { id: "7".into() }]);
        assert_eq!(messages(br#"{"method":"n"}"#), [Message::Notification { method: "n".into() }]);
        assert_eq!(messages(b" [{\"id\":1,\"method\":\"a\"},{\"id\":2}]").len(), 2);
        assert!(messages(b"nonsense").is_empty());
    }

    #[test]
    fn the_id_of_a_cut_answer_is_found_before_its_result_only() {
        assert_eq!(id_of_head(br#"{"jsonrpc":"2.0","id":"x","result":{"id":1"#), Some("\"x\"".into()));
        assert_eq!(id_of_head(br#"{"jsonrpc":"2.0","result":{"id":1,"#), None);
    }

    #[test]
    fn an_id_is_replaced_and_the_rest_is_kept_as_it_was() {
        let line = br#"{"id":1,"jsonrpc":"2.0","method":"m","params":{"x": 1.00}}"#;
        let other = with_id(line, "\"z\"").unwrap();
        let expected = "{\"jsonrpc\":\"2.0\",\"id\":\"z\",\"method\":\"m\",\"params\":{\"x\": 1.00}}\n";
        assert_eq!(String::from_utf8(other).unwrap(), expected);
    }
}
