//! Disk and keychain: configuration, chats, activity, secrets, logs. The only crate that writes an eVi home; it
//! decides nothing and knows no protocol.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod atomic;
mod catalog;
mod chats;
mod config;
mod db;
mod error;
mod home;
mod journal;
mod lenient;
mod logs;
mod results;
mod vault;

pub use atomic::write as write_file;
pub use catalog::DiskCatalog;
pub use chats::ChatStore;
pub use config::{ConfigStore, ConfigValue, Loaded, Watching};
pub use db::Db;
pub use error::StoreError;
pub use home::Home;
pub use journal::SqliteJournal;
pub use lenient::parse_lenient;
pub use logs::{RedactingWriter, Redactor, RotatedLog, open_log};
pub use results::DiskResults;
pub use vault::{MemoryVault, Prompting, Vault};
