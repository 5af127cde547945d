//! One call of one tool: what goes in, what comes out, and every way it can end without a result.

use std::time::Duration;

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
