//! Tools and calls as a user interface sees them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

use crate::Problem;

/// A tool in the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct ToolRow {
    /// As shown and as used to call it: `filesystem.read_file`, `remember`.
    pub name: String,
    /// The server it belongs to; absent for eVi's own.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The category, for eVi's own.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub category: Option<String>,
    /// Its title.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it says it does.
    pub description: String,
    /// JSON Schema of its arguments.
    #[ts(type = "Json")]
    pub input_schema: Value,
    /// Whether it says that it only reads; a hint for servers, a fact for eVi's own.
    pub read_only: bool,
    /// Whether it says that it may destroy something.
    pub destructive: bool,
    /// Its switch.
    pub enabled: bool,
    /// The name a model sees.
    pub model_name: String,
    /// Whether clients of the gateway see it.
    pub shared: bool,
}

/// Every tool there is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct ToolList {
    /// In the order of servers, eVi's own last.
    pub tools: Vec<ToolRow>,
    /// Servers that are on and have no tools to show, with the reason.
    pub missing: Vec<MissingServer>,
}

/// A server that is on and has nothing to show now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct MissingServer {
    /// Which.
    pub server: String,
    /// Why.
    pub problem: Problem,
}

/// Switches a tool.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ToolSwitch {
    /// As shown.
    pub tool: String,
    /// On or off.
    pub enabled: bool,
}

/// Calls a tool for the person.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ToolCallRequest {
    /// As shown.
    pub tool: String,
    /// A JSON object.
    #[ts(type = "Json")]
    pub arguments: Value,
    /// An identity chosen by the caller, to cancel by.
    #[serde(default)]
    #[ts(optional)]
    pub call: Option<String>,
    /// Of a large result only the beginning, and a handle for the rest.
    #[serde(default)]
    #[ts(optional, as = "Option<bool>")]
    pub paged: bool,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct CallView {
    /// Its identity.
    pub call: String,
    /// The tool as shown.
    pub tool: String,
    /// `ok` or `tool_error`; a call without a result is a problem instead.
    pub outcome: String,
    /// The result object, whole; of one that is `kept` only its pictures.
    #[ts(type = "Json")]
    pub result: Value,
    /// Flattened to text; of one that is `kept` only the beginning.
    pub text: String,
    /// Milliseconds.
    pub took_ms: u64,
    /// How many bytes the result object has.
    pub bytes: usize,
    /// Where the whole can be read, when this is not it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub kept: Option<KeptView>,
}

/// A result that is kept whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct KeptView {
    /// Its handle for `result_read`.
    pub handle: String,
    /// How many characters the flattened result has.
    pub chars: usize,
}

/// Reads a part of a kept result.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ResultRead {
    /// Its handle.
    pub handle: String,
    /// The conversation that it belongs to; absent for one of a call by the person.
    #[serde(default)]
    #[ts(optional)]
    pub chat: Option<String>,
    /// Its JSON instead of the flattened text.
    #[serde(default)]
    #[ts(optional, as = "Option<bool>")]
    pub raw: bool,
    /// The character to begin at.
    #[serde(default)]
    #[ts(optional, as = "Option<usize>")]
    pub offset: usize,
    /// The most characters; at most 1,000,000.
    pub limit: usize,
}

/// A part of a kept result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ResultPage {
    /// The part.
    pub text: String,
    /// The character that it begins at.
    pub offset: usize,
    /// Where the next one begins; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub next: Option<usize>,
    /// How many characters there are.
    pub total: usize,
}

/// Names a call.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct CallRef {
    /// Its identity.
    pub call: String,
}

/// A call in the record of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ActivityRow {
    /// Its identity.
    pub call: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// `chat`, `person`, or the client's name.
    pub caller: String,
    /// The tool as shown.
    pub tool: String,
    /// Redacted.
    pub arguments: String,
    /// `ok`, `tool_error`, or why there was no result.
    pub outcome: String,
    /// Milliseconds.
    pub took_ms: u64,
}
