//! The turn engine and the model clients; no disk, no MCP: tools are reached only through a [`evi_domain::ToolHost`].
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod endpoints;
mod error;
mod events;
mod http;
mod model;
mod names;
mod openai;
mod pieces;
mod transcript;
mod turn;

pub use endpoints::{Candidate, FoundEndpoint, candidates, discover_at, discover_local, list_models};
pub use error::ModelError;
pub use events::{EndReason, TurnEnd, TurnEvent, TurnEvents, TurnSettings};
pub use model::{
    ModelClient, ModelEvent, ModelMessage, ModelRequest, ModelTool, ModelToolCall, StopReason, Usage,
};
pub use names::NameTable;
pub use openai::{Endpoint, OpenAiCompatible};
pub use transcript::{cap_text, for_model};
pub use turn::run_turn;
