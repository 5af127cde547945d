//! What goes into a turn beside the conversation, what comes out while it runs, and how it ends; words only.

use evi_domain::{
    BoxFuture,
    chat::{CallOutcome, Message, ModelCall},
};

use crate::{Limits, ModelError, Usage};

/// How to run a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnSettings {
    /// The person's own words to the model, after ours.
    pub system: Option<String>,
    /// Sampling temperature; the provider's own when absent.
    pub temperature: Option<f64>,
    /// The most tokens of an answer; the provider's own when absent.
    pub max_tokens: Option<u32>,
    /// How often the model is asked in one turn.
    pub max_rounds: u32,
    /// How many tools it is offered.
    pub max_tools: usize,
    /// The longest name it takes, in characters.
    pub name_limit: usize,
    /// How much of results it gets.
    pub limits: Limits,
}

impl Default for TurnSettings {
    fn default() -> Self {
        Self {
            system: None,
            temperature: None,
            max_tokens: None,
            max_rounds: 25,
            max_tools: 128,
            name_limit: 64,
            limits: Limits::default(),
        }
    }
}

/// Who follows a turn. The turn waits for each event to be taken: a call is handed to the host only when the message
/// that holds it was taken, so whoever is asked about it finds it, also after a crash.
pub trait TurnEvents: Send + Sync {
    /// Takes one.
    fn take(&self, event: TurnEvent) -> BoxFuture<'_, ()>;
}

/// What happens in a turn, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnEvent {
    /// More text of the answer.
    Text {
        /// What to append.
        delta: String,
    },
    /// More of what the model thinks; not kept.
    Reasoning {
        /// What to append.
        delta: String,
    },
    /// This call is handed to the host now: it may wait for the person's yes.
    CallRequested(ModelCall),
    /// The call has an outcome.
    CallEnded(CallOutcome),
    /// A message is whole and to be kept: an answer with its calls, or the result of one call.
    MessageDone(Message),
    /// The turn is over; nothing comes after it.
    Ended {
        /// Why.
        reason: EndReason,
    },
}

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The model is done.
    Done,
    /// It was cancelled.
    Stopped,
    /// The model was still calling tools after so many rounds.
    RoundLimit {
        /// How many.
        rounds: u32,
    },
    /// The model failed.
    Failed(ModelError),
}

impl EndReason {
    /// The stable word for it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::RoundLimit { .. } => "round_limit",
            Self::Failed(problem) => problem.code(),
        }
    }
}

/// What a turn leaves.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnEnd {
    /// Why it ended.
    pub reason: EndReason,
    /// Every message that it made, in order; each was an event, too.
    pub messages: Vec<Message>,
    /// What all its requests cost, as far as the provider says.
    pub usage: Usage,
}
