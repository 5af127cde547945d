//! The client side of MCP: connects to the person's servers, keeps them running, lists and calls their tools. It
//! decides nothing about who may call what, and writes no configuration.
//!
//! One actor per upstream owns its connection, its process and its log; [`Upstreams`] is the handle on all of
//! them. The versions and eras of the protocol are named in `handshake` only.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod actor;
mod board;
mod call;
mod connect;
mod discovery;
mod error;
mod events;
mod exchange;
mod expand;
mod handshake;
mod health;
mod http;
mod hub;
mod leftovers;
mod log;
mod memory;
mod message;
mod mirror;
mod path;
mod pipe;
mod platform;
mod probe;
mod process;
mod pulse;
mod sse;
mod streamable;
mod wire;

pub use hub::{Settings, Upstreams};
pub use log::file_name as log_file_name;
pub use path::{NotFound, resolve_command};
pub use probe::{Probe, probe};
