//! The served MCP endpoint: lends any [`evi_domain::ToolHost`] to programs over streamable HTTP or a byte stream,
//! in both eras of the protocol. It decides nothing about calls and never builds a tree of a result.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod changes;
mod clients;
mod error;
mod flights;
mod front;
mod guard;
mod guests;
mod headers;
mod http;
mod listener;
mod message;
mod protocol;
mod sse;
mod stream;

pub use clients::ClientInfo;
pub use error::{BindError, GatewayError};
pub use guests::Guests;
pub use http::{HttpGateway, HttpSettings};
pub use listener::bind;
pub use stream::{serve_guest, serve_stream};
