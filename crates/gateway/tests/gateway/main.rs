//! The gateway's behaviour over both transports and in both eras, against a host in memory.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value)]

mod host;
mod http_calls;
mod http_door;
mod http_sessions;
mod lines;
mod modern;
mod rmcp_client;
mod web;
