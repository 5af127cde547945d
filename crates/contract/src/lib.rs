//! What crosses to a user interface: the command table, its types, events and problems; and the TypeScript made
//! from them. No behaviour.
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod chat;
pub mod event;
pub mod gateway;
pub mod offer;
pub mod plugin;
pub mod problem;
pub mod settings;
pub mod table;
pub mod tool;
pub mod typescript;
pub mod upstream;

pub use chat::*;
pub use event::{Event, TurnEventView};
pub use gateway::*;
pub use offer::*;
pub use plugin::*;
pub use problem::{Code, Problem};
pub use settings::*;
pub use table::{COMMANDS, CommandInfo, Commands, Kind, Nothing, Tag, dispatch, info};
pub use tool::*;
pub use upstream::*;
