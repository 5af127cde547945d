//! Every way of not getting to own or to reach a home; no wording for a screen beyond one line.

use std::{io, path::PathBuf, time::Duration};

/// Why a home is neither owned nor reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The folder of the lock and the socket cannot be made or is not private.
    #[error("could not prepare {}: {source}", path.display())]
    Folder {
        /// Which folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The lock file cannot be opened, or this file system has no locks.
    #[error("could not lock {}: {source}", path.display())]
    Lock {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("could not listen on {address}: {source}")]
    Listen {
        /// A path, or the name of a pipe.
        address: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Nobody owns this home now: claim it.
    #[error("no other evi process owns this home")]
    NoOwner,
    /// Somebody holds the lock and did not answer, or did not let go, in time.
    #[error("the evi process that owns this home did not answer within {} s", waited.as_secs_f32())]
    Silent {
        /// How long was waited.
        waited: Duration,
    },
    /// The owner speaks another version of this protocol.
    #[error("the evi process that owns this home speaks protocol {theirs}, this one {ours}")]
    Proto {
        /// The owner's.
        theirs: u32,
        /// What was said in the hello.
        ours: u32,
    },
    /// The owner said no.
    #[error("the evi process that owns this home refused: {reason}")]
    Refused {
        /// Its words.
        reason: String,
    },
    /// The connection ended, or could not be read or written.
    #[error("the connection to the owner ended")]
    Ended(#[source] Option<io::Error>),
    /// A first line or an answer that is no such thing.
    #[error("the other side sent something that is no {what}")]
    Malformed {
        /// What was expected.
        what: &'static str,
    },
    /// The bridge got no backend in all its attempts.
    #[error("no owner could be reached in {} s: {reason}", waited.as_secs())]
    NoBackend {
        /// What the last attempt said.
        reason: String,
        /// How long was tried.
        waited: Duration,
    },
}

impl AttachError {
    /// What a person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Folder { .. } => {
                Some("the folder must belong to you; set EVI_HOME to a folder that you can write")
            }
            Self::Lock { .. } => Some("set EVI_HOME to a folder on a local disk"),
            Self::Listen { .. } => Some("check the permissions of the folder, or set XDG_RUNTIME_DIR"),
            Self::Proto { .. } => {
                Some("quit the running evi and start it again, so that both are of one version")
            }
            Self::Silent { .. } | Self::NoBackend { .. } => Some("quit the running evi and try again"),
            Self::NoOwner | Self::Refused { .. } | Self::Ended(_) | Self::Malformed { .. } => None,
        }
    }
}
