//! Conversations as a user interface sees them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

/// A conversation in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ChatRow {
    /// Its identity.
    pub id: String,
    /// Its title.
    pub title: String,
    /// When it last changed, in milliseconds since 1970.
    pub updated_ms: u64,
    /// Whether a turn is running.
    pub running: bool,
}

/// Names a conversation.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ChatRef {
    /// Its identity.
    pub chat: String,
}

/// A conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct ChatView {
    /// Its identity.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Oldest first. The last may still grow while `running`.
    pub messages: Vec<MessageView>,
    /// Whether a turn is running.
    pub running: bool,
    /// Calls that wait for an answer.
    pub approvals: Vec<ApprovalView>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct MessageView {
    /// Its identity.
    pub id: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// `user`, `assistant`, `tool`.
    pub role: String,
    /// Its text.
    pub text: String,
    /// The calls it asks for, with how they stand.
    pub calls: Vec<CallRow>,
    /// Why it ends early: `stopped`, or an error.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// A call within a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct CallRow {
    /// Its identity.
    pub call: String,
    /// The tool as shown.
    pub tool: String,
    /// The server, for tools of servers.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The exact arguments.
    #[ts(type = "Json")]
    pub arguments: Value,
    /// `waiting` for the person, `running`, `ok`, `tool_error`, or why there was no result.
    pub state: String,
    /// Milliseconds.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Flattened result, or its beginning, or the reason.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The result object, whole, where it is small.
    #[ts(optional, type = "Json")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// How many characters the flattened result has, where `text` is only its beginning.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chars: Option<usize>,
    /// Its handle for `result_read`, where it is kept whole.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// Says something in a conversation; without one, a new one is begun. `/call <tool> key=value …` runs a tool.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ChatSend {
    /// In which.
    #[serde(default)]
    #[ts(optional)]
    pub chat: Option<String>,
    /// What.
    pub text: String,
}

/// What was begun.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ChatSent {
    /// In which conversation.
    pub chat: String,
    /// The turn.
    pub turn: String,
}

/// Renames a conversation.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ChatRename {
    /// Which.
    pub chat: String,
    /// Its new title.
    pub title: String,
}

/// A call that waits for the person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct ApprovalView {
    /// The call.
    pub call: String,
    /// The conversation it belongs to, if any.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat: Option<String>,
    /// Who asks: `chat`, or the client's name.
    pub caller: String,
    /// The tool as shown.
    pub tool: String,
    /// The server, for tools of servers.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The exact arguments.
    #[ts(type = "Json")]
    pub arguments: Value,
    /// Why it is asked.
    pub reason: String,
    /// When it becomes a denial by itself, in milliseconds since 1970; absent: it waits.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
}

/// What the person says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// This call.
    AllowOnce,
    /// This tool, for the rest of this conversation.
    AllowForChat,
    /// Not this call.
    Deny,
}

/// Answers an approval.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ApprovalAnswer {
    /// The call.
    pub call: String,
    /// The answer.
    pub answer: Answer,
}
