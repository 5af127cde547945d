//! Events: hints that something changed. What a user interface shows can always be fetched again.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::{CallRow, MessageView, Tag};

/// Something happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Event {
    /// Answers of queries with these tags may be old now.
    Invalidated {
        /// Which.
        tags: Vec<Tag>,
    },
    /// A turn goes on.
    Turn {
        /// In which conversation.
        chat: String,
        /// How.
        event: Box<TurnEventView>,
    },
}

/// A step of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum TurnEventView {
    /// More of the answer.
    Text {
        /// What was added.
        delta: String,
    },
    /// More of the model's reasoning.
    Reasoning {
        /// What was added.
        delta: String,
    },
    /// A call stands in the conversation now, or changed.
    Call {
        /// The call.
        call: CallRow,
    },
    /// A message is whole.
    Message {
        /// The message.
        message: MessageView,
    },
    /// The turn is over.
    Ended {
        /// `done`, `stopped`, or an error in words.
        reason: String,
    },
}
