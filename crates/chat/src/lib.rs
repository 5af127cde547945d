//! The turn engine and the model clients; no disk, no MCP: tools are reached only through a [`evi_domain::ToolHost`].
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod endpoints;
mod error;
mod events;
mod http;
mod limits;
mod model;
mod names;
mod openai;
mod outcome;
mod pieces;
mod transcript;
mod turn;
mod window;

pub use endpoints::{Candidate, FoundEndpoint, candidates, discover_at, discover_local, list_models};
pub use error::ModelError;
pub use events::{EndReason, TurnEnd, TurnEvent, TurnEvents, TurnSettings};
pub use limits::{DEFAULT_WINDOW, Limits};
pub use model::{
    ModelClient, ModelEvent, ModelMessage, ModelRequest, ModelTool, ModelToolCall, StopReason, Usage,
};
pub use names::NameTable;
pub use openai::{Endpoint, OpenAiCompatible};
pub use outcome::{Ended, tool_message};
pub use turn::{Desk, run_turn};
pub use window::context_window;
