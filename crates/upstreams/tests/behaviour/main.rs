//! What upstreams do with servers that behave and servers that do not. The servers are those of `tests/adversary`.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod calls;
mod http;
mod leftovers;
mod lifecycle;
mod offer;
mod settings;
mod sse;
mod start;
mod support;
mod wire;
