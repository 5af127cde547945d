//! What the flows are told with: a house with files, the people and programs that use it, and bounded waiting. It
//! replaces no part of eVi.
#![allow(clippy::unwrap_used, reason = "a test stops at once; the whole package is tests")]

mod command;
mod house;
mod lines;
mod mcp_http;
mod model;
mod page;
pub mod peers;
mod person;
mod processes;
mod waiting;

pub use command::Said;
pub use house::{House, Program, house};
pub use lines::Lines;
pub use mcp_http::{Client, Door};
pub use model::{Model, Reply};
pub use page::Page;
pub use person::{NoKeychain, Person};
#[cfg(unix)]
pub use processes::parent;
pub use processes::{interrupt, is_running, kill, running_with, terminate};
pub use waiting::{LIMIT, until};

/// Names in a list of objects, in its order.
pub fn names(list: &serde_json::Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| Some(item["name"].as_str()?.to_owned())).collect()
}
