//! Who owns a home, and how another process reaches the owner; knows neither the gateway nor any command.
//!
//! [`Place::claim`] decides who owns the upstreams of a home, [`Owner`] lets others in, [`bridge`] keeps an MCP
//! client alive while owners come and go, and [`AppClient`] with [`serve_app`] carry the application's commands.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod address;
mod app_client;
mod app_server;
mod app_wire;
mod bridge;
mod connection;
mod error;
mod hello;
mod lines;
mod owner;
mod peek;
mod place;
mod session;

pub use app_client::{AppCallError, AppClient};
pub use app_server::{events_of, serve_app};
pub use bridge::{Backend, Duplex, bridge};
pub use connection::Connection;
pub use error::AttachError;
pub use hello::{Hello, Kind, OwnerInfo, PROTO, Rank};
pub use owner::{Incoming, Owner};
pub use place::{Claim, Entry, Place, REACH};
