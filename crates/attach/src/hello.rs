//! The first line each way on a connection to the owner; says who comes and what for, and carries no secret.

use evi_domain::Exposure;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The version of the first line and of everything after it.
pub const PROTO: u32 = 1;

/// Who goes before whom in owning a home; greater goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rank {
    /// One command of the command line, gone when it is done.
    #[default]
    Command,
    /// `evi mcp serve`.
    Serve,
    /// The web shell.
    Web,
    /// The window.
    Desktop,
}

/// What a connection carries after the first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Lines of MCP.
    Mcp,
    /// The application's commands and events.
    App,
    /// Nothing: the newcomer asks the owner to let go of the home.
    Handover,
}

/// The first line that a newcomer sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTO`].
    pub proto: u32,
    /// The newcomer's version, for its log only.
    #[serde(default)]
    pub version: String,
    /// What it wants.
    pub kind: Kind,
    /// What its MCP client may see: `profile`, `categories`, `tools`.
    #[serde(flatten)]
    pub exposure: Exposure,
    /// What it is.
    #[serde(default)]
    pub rank: Rank,
    /// Its process.
    #[serde(default)]
    pub pid: u32,
}

impl Hello {
    /// The hello of this process.
    pub fn new(kind: Kind, rank: Rank, exposure: Exposure) -> Self {
        Self {
            proto: PROTO,
            version: env!("CARGO_PKG_VERSION").into(),
            kind,
            exposure,
            rank,
            pid: std::process::id(),
        }
    }
}

/// Who owns a home; the content of `owner.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerInfo {
    /// Another one for each time that somebody takes the home.
    pub id: Uuid,
    /// Its process.
    pub pid: u32,
    /// What it is.
    pub rank: Rank,
    /// Its version.
    pub version: String,
    /// Where it listens: a path, or on Windows the name of a pipe.
    pub socket: String,
}

/// Only the version of a hello: one of another version may have another shape.
#[derive(Deserialize)]
pub(crate) struct HelloProto {
    pub proto: u32,
}

/// The first line of the owner.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub ok: bool,
    pub proto: u32,
    #[serde(default)]
    pub version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Who answers: `owner.json` may still be that of the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerInfo>,
}

/// Why an owner says no.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reason {
    /// It does not know this `proto`.
    Proto,
    /// The line is no hello, or its kind is not known.
    Malformed,
    /// The newcomer's rank is not higher.
    Rank,
    /// It is handing over: try again in a moment.
    Ending,
    /// Words of a later version.
    #[serde(untagged)]
    Other(String),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Proto => "unknown protocol",
            Self::Malformed => "unknown kind of connection",
            Self::Rank => "it keeps the home",
            Self::Ending => "it is ending",
            Self::Other(words) => words,
        })
    }
}
