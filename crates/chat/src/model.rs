//! What the turn engine asks of a model, in words that no provider owns.

use futures::stream::BoxStream;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::ModelError;

/// A model behind some provider's interface.
pub trait ModelClient: Send + Sync {
    /// Asks for one answer. The stream ends with [`ModelEvent::End`] or an error; after a cancel it just ends.
    /// Dropping it ends the request.
    fn stream(
        &self,
        request: ModelRequest,
        cancel: CancellationToken,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>>;
}

/// One request for one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// Goes before everything.
    pub system: Option<String>,
    /// The conversation, oldest first; every call is answered.
    pub messages: Vec<ModelMessage>,
    /// What it may call.
    pub tools: Vec<ModelTool>,
    /// Sampling temperature; the provider's own when absent.
    pub temperature: Option<f64>,
    /// The most tokens of the answer; the provider's own when absent.
    pub max_tokens: Option<u32>,
}

/// A message as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelMessage {
    /// The person's.
    User(String),
    /// The model's own.
    Assistant {
        /// Its text, may be empty.
        text: String,
        /// What it asked for.
        calls: Vec<ModelToolCall>,
    },
    /// A tool's answer.
    Tool {
        /// The provider's identity for the call.
        model_id: String,
        /// The tool under its model-facing name.
        name: String,
        /// The answer.
        text: String,
    },
}

/// A tool as a model sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelTool {
    /// `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// Never empty.
    pub description: String,
    /// A JSON Schema of type `object` with `properties`.
    pub schema: Value,
}

/// A call that the model asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelToolCall {
    /// The provider's identity for it.
    pub model_id: String,
    /// The name the model used.
    pub name: String,
    /// The arguments; a text when what the model wrote is no JSON.
    pub arguments: Value,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// More of what it thinks.
    Reasoning(String),
    /// A whole call; all of them come after the last text.
    Call(ModelToolCall),
    /// What it cost.
    Usage(Usage),
    /// The answer is whole.
    End {
        /// Why it ended.
        stop_reason: StopReason,
    },
}

/// Tokens of one or more requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Read.
    pub input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// It was done.
    Done,
    /// It wants its calls answered.
    Calls,
    /// It reached the limit of tokens.
    Length,
    /// The provider's filter cut it off.
    Filter,
    /// Something else, in the provider's word.
    Other(String),
}
