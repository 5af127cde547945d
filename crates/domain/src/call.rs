//! One call of one tool: what goes in, what comes out, and every way it can end without a result.

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use tokio_util::sync::CancellationToken;

use crate::{CallId, Caller, ToolAddress};

/// A call on its way. `arguments` is a JSON object, kept as the bytes that came in.
#[derive(Debug)]
pub struct ToolCall {
    /// Its identity, also in the journal and for cancel.
    pub id: CallId,
    /// Who asks.
    pub caller: Caller,
    /// Which tool.
    pub address: ToolAddress,
    /// The arguments, a JSON object.
    pub arguments: Box<RawValue>,
}

/// What travels beside a call.
#[derive(Clone, Default)]
pub struct CallContext {
    /// Identity chosen by the caller, so that it can cancel; else one is made.
    pub id: Option<CallId>,
    /// Cancelled when the caller no longer wants the answer.
    pub cancel: CancellationToken,
    /// Where progress goes, when the caller asked for it.
    pub progress: Option<tokio::sync::mpsc::Sender<Progress>>,
}

/// How far a call is, in units that only its tool knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// So far; rises.
    pub progress: f64,
    /// In all, when known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// In words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The result object of `tools/call`, as raw JSON. A tool's own failure (`isError`) is a result too.
#[derive(Clone, Debug)]
pub struct ToolResult {
    raw: Arc<RawValue>,
}

/// A block of a result's `content`, as far as a reader without a screen needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Text, also that of an embedded text resource.
    Text(String),
    /// A link to a resource: its address and name.
    Link(String, String),
    /// Anything else, by its `type`.
    Other(String),
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
        #[derive(Deserialize)]
        struct Peek {
            #[serde(rename = "isError", default)]
            is_error: bool,
        }
        serde_json::from_str::<Peek>(self.raw.get()).is_ok_and(|p| p.is_error)
    }

    /// The blocks of `content`.
    pub fn blocks(&self) -> Vec<Block> {
        let value = self.to_value();
        let Some(content) = value.get("content").and_then(Value::as_array) else { return Vec::new() };
        content.iter().map(block).collect()
    }

    /// The one flattening for models: text joined by lines, embedded text and links kept, anything else
    /// `[<type> omitted]`, structured content when there is nothing else, `ERROR: ` in front of a failure.
    pub fn to_model_text(&self) -> String {
        let mut lines = Vec::new();
        for block in self.blocks() {
            lines.push(match block {
                Block::Text(text) => text,
                Block::Link(uri, name) => format!("[{name}]({uri})"),
                Block::Other(kind) => format!("[{kind} omitted]"),
            });
        }
        if lines.iter().all(|l| l.trim().is_empty())
            && let Some(data) = self.to_value().get("structuredContent")
        {
            lines = vec![data.to_string()];
        }
        let text = lines.join("\n");
        if self.is_error() { format!("ERROR: {text}") } else { text }
    }
}

fn block(value: &Value) -> Block {
    let text = |v: &Value, key: &str| v.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    match value.get("type").and_then(Value::as_str).unwrap_or("unknown") {
        "text" => Block::Text(text(value, "text")),
        "resource" => match value.get("resource").and_then(|r| r.get("text")).and_then(Value::as_str) {
            Some(body) => Block::Text(body.to_owned()),
            None => Block::Other("resource".to_owned()),
        },
        "resource_link" => Block::Link(text(value, "uri"), text(value, "name")),
        other => Block::Other(other.to_owned()),
    }
}

/// Why a call gave no result. `code()` is the stable word for it in journal, window and terminal.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "error", rename_all = "snake_case")]
pub enum CallError {
    /// No such tool, or the caller may not know of it: the two look the same.
    #[error("unknown tool: {name}")]
    UnknownTool {
        /// What was asked for.
        name: String,
        /// Names that are near.
        near: Vec<String>,
    },
    /// A rule says no.
    #[error("{address} is not allowed: {reason}")]
    Forbidden {
        /// Which tool.
        address: ToolAddress,
        /// Which rule, and what to set.
        reason: String,
    },
    /// The person said no, or nobody answered in time.
    #[error("{address} was denied: {reason}")]
    Denied {
        /// Which tool.
        address: ToolAddress,
        /// Who or what denied it.
        reason: String,
    },
    /// The arguments are not what the tool takes.
    #[error("invalid arguments for {address}: {reason}")]
    InvalidArguments {
        /// Which tool.
        address: ToolAddress,
        /// What is wrong, with the field's path.
        reason: String,
    },
    /// The upstream is not there to answer.
    #[error("{upstream} is not available: {reason}")]
    Unavailable {
        /// Which upstream.
        upstream: String,
        /// Why.
        reason: String,
    },
    /// We stopped waiting; the server may still be working.
    #[error("{address} gave no answer within {} s; the server may still be working", after.as_secs())]
    TimedOut {
        /// Which tool.
        address: ToolAddress,
        /// How long we waited.
        after: Duration,
    },
    /// The caller no longer wanted the answer.
    #[error("the call was cancelled")]
    Cancelled,
    /// The upstream answered with a JSON-RPC error.
    #[error("{message}")]
    Rpc {
        /// JSON-RPC error code.
        code: i64,
        /// Its message.
        message: String,
        /// Its data, if any.
        data: Option<Value>,
    },
    /// A fault of ours.
    #[error("internal error: {message}")]
    Internal {
        /// What happened.
        message: String,
    },
}

impl CallError {
    /// The stable word for this end.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownTool { .. } => "unknown_tool",
            Self::Forbidden { .. } => "forbidden",
            Self::Denied { .. } => "denied",
            Self::InvalidArguments { .. } => "invalid_arguments",
            Self::Unavailable { .. } => "unavailable",
            Self::TimedOut { .. } => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Rpc { .. } => "rpc",
            Self::Internal { .. } => "internal",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flattening_keeps_text_links_and_structured_only_results() {
        let result = ToolResult::from_value(&json!({"content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "…", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "x:1", "text": "body"}},
            {"type": "resource_link", "uri": "x:2", "name": "two"},
        ]}));
        assert_eq!(result.to_model_text(), "a\n[image omitted]\nbody\n[two](x:2)");
        let structured = ToolResult::from_value(&json!({"content": [], "structuredContent": {"n": 1}}));
        assert_eq!(structured.to_model_text(), r#"{"n":1}"#);
        assert_eq!(ToolResult::error("no").to_model_text(), "ERROR: no");
    }
}
