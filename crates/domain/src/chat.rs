//! Conversations: messages as they are kept and as a model sees them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{CallId, ChatId, MessageId, ResultId};

/// Who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool's answer, or that of `/call`.
    Tool,
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its identity.
    pub id: MessageId,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Who.
    pub role: Role,
    /// Its text; for a tool the flattened result, or the beginning of one that is large.
    pub text: String,
    /// What the model asked for in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ModelCall>,
    /// Which call it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<CallOutcome>,
    /// Why it ends early, if it does: `stopped`, or an error in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// A call that the model asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// Our identity for it; also the one that an approval names.
    pub id: CallId,
    /// The provider's identity for it.
    pub model_id: String,
    /// The name the model used, out of the name table.
    pub model_name: String,
    /// The tool as shown (`filesystem.list_directory`); the model's name when it is unknown.
    pub tool: String,
    /// The server, for tools of servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The arguments as the model gave them.
    pub arguments: Value,
}

/// How a call in a conversation ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallOutcome {
    /// Which call.
    pub call: CallId,
    /// `ok`, `tool_error`, or a code of [`crate::CallError`].
    pub outcome: String,
    /// How long it took.
    pub took_ms: u64,
    /// The whole result object, when there was one and it is small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// How many characters the flattened result has, when there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chars: Option<usize>,
    /// Where it is kept whole, for the conversation that made the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<ResultId>,
}

/// A conversation in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatHead {
    /// Its identity.
    pub id: ChatId,
    /// Its title: the beginning of the first message.
    pub title: String,
    /// When it was begun, in milliseconds since 1970.
    pub created_ms: u64,
    /// When it last changed.
    pub updated_ms: u64,
}
