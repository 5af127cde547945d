//! The journeys through the whole house, as a person, a browser, a terminal and other applications make them, with
//! real servers and real processes.
#![allow(clippy::unwrap_used, reason = "a test stops at once; its helpers, too")]

mod arguments;
mod bad_files;
mod bad_servers;
mod browser;
mod chat;
mod exact;
mod gateway;
mod json_output;
mod logs;
mod offer;
mod old_home;
mod plugins;
mod policy;
mod references;
mod secrets;
mod serve;
mod servers;
mod starting;
mod terminal;
mod two_places;
