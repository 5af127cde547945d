//! Disk and keychain: configuration, chats, activity, secrets, logs. The only crate that writes an eVi home; it
//! decides nothing and knows no protocol.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod atomic;
mod config;
mod error;
mod home;

pub use config::{ConfigStore, ConfigValue, Loaded, Watching};
pub use error::StoreError;
pub use home::Home;
