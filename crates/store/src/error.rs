//! Every way in which disk, database or edit can fail; says what and where, and never holds a secret's value.

use std::{io, path::PathBuf};

use evi_domain::{ChatId, ConfigProblem};

/// Why something was not read or not written. Whatever the reason, no file was left half written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Neither `EVI_HOME` nor a home folder is known.
    #[error("no home folder: set EVI_HOME")]
    NoHome,
    /// The system said no.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// A verb.
        action: &'static str,
        /// Of what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be read as a whole, so that nothing is written to it.
    #[error("{0}")]
    Malformed(ConfigProblem),
    /// The part of a file that is to be changed is not of the right shape.
    #[error("{0}")]
    Unclear(ConfigProblem),
    /// There is an entry of that name.
    #[error("server {name} already exists")]
    Exists {
        /// Which.
        name: String,
    },
    /// There is no entry of that name.
    #[error("no such server: {name}")]
    Unknown {
        /// Which.
        name: String,
    },
    /// The entry belongs to a plugin and is changed there.
    #[error("server {name} belongs to the plugin {plugin}")]
    PluginOwned {
        /// Which entry.
        name: String,
        /// Whose.
        plugin: String,
    },
    /// There is no plugin of that name.
    #[error("no such plugin: {name}")]
    UnknownPlugin {
        /// Which.
        name: String,
        /// Those that are there.
        known: Vec<String>,
    },
    /// The plugin's folder is not one that may be moved.
    #[error("the plugin {name} was not removed: {} {reason}", path.display())]
    PluginPlace {
        /// Which.
        name: String,
        /// Its folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A name that cannot be given to a server.
    #[error("invalid server name {name:?}: {reason}")]
    InvalidName {
        /// What was given.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Another process held the lock all the time.
    #[error("{} is locked by another process", path.display())]
    Busy {
        /// The lock's file.
        path: PathBuf,
    },
    /// Another program kept on changing the file.
    #[error("{} was changed by another program each time", path.display())]
    Changing {
        /// Which file.
        path: PathBuf,
    },
    /// The database said no.
    #[error("could not {action} the database: {source}")]
    Db {
        /// A verb.
        action: &'static str,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The database was written by a newer eVi: reading only.
    #[error("the database is of a newer eVi (version {found}, this one knows {known}) and is read-only here")]
    NewerDb {
        /// Its version.
        found: i64,
        /// The newest that is known here.
        known: i64,
    },
    /// No such conversation.
    #[error("no such chat: {0}")]
    UnknownChat(ChatId),
    /// What is stored cannot be understood.
    #[error("what is stored of {what} cannot be read: {source}")]
    Corrupt {
        /// Of what.
        what: String,
        /// Why.
        source: serde_json::Error,
    },
}

impl StoreError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    pub(crate) fn db(action: &'static str) -> impl FnOnce(rusqlite::Error) -> Self {
        move |source| Self::Db { action, source }
    }
}
