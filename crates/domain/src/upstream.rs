//! External MCP servers: how each is reached, what state it is in, and what it offers.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{Offer, UpstreamName};

/// How to reach an upstream. Every text may hold references (see [`crate::reference`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum TransportSpec {
    /// A child process that speaks over its standard input and output.
    Stdio {
        /// A path or a name to search for.
        command: String,
        /// Its arguments, element for element.
        args: Vec<String>,
        /// Added to the environment.
        env: BTreeMap<String, String>,
        /// Its working folder.
        cwd: Option<String>,
    },
    /// Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// Added to every request.
        headers: BTreeMap<String, String>,
    },
    /// The older HTTP+SSE.
    Sse {
        /// The endpoint of the event stream.
        url: String,
        /// Added to every request.
        headers: BTreeMap<String, String>,
    },
}

impl TransportSpec {
    /// In one line for people: `npx -y …`, `http https://…`. References stay references.
    pub fn summary(&self) -> String {
        match self {
            Self::Stdio { command, args, .. } => {
                let mut line = command.clone();
                for arg in args {
                    line.push(' ');
                    line.push_str(arg);
                }
                line
            }
            Self::Http { url, .. } => format!("http {url}"),
            Self::Sse { url, .. } => format!("sse {url}"),
        }
    }
    /// `stdio`, `http` or `sse`, as in `mcp.json`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } => "http",
            Self::Sse { .. } => "sse",
        }
    }
    /// Every text that may hold a reference.
    pub fn templates(&self) -> Vec<&str> {
        match self {
            Self::Stdio { command, args, env, cwd } => std::iter::once(command.as_str())
                .chain(args.iter().map(String::as_str))
                .chain(env.values().map(String::as_str))
                .chain(cwd.as_deref())
                .collect(),
            Self::Http { url, headers } | Self::Sse { url, headers } => {
                std::iter::once(url.as_str()).chain(headers.values().map(String::as_str)).collect()
            }
        }
    }
}

/// A server that the person configured and that is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamSpec {
    /// Its name, unique.
    pub name: UpstreamName,
    /// How to reach it.
    #[serde(flatten)]
    pub transport: TransportSpec,
    /// What the person set beyond that.
    #[serde(default)]
    pub options: UpstreamOptions,
}

impl UpstreamSpec {
    /// A server without settings of its own.
    pub fn new(name: UpstreamName, transport: TransportSpec) -> Self {
        Self { name, transport, options: UpstreamOptions::default() }
    }

    /// Every text that may hold a reference.
    pub fn templates(&self) -> Vec<&str> {
        self.transport.templates().into_iter().chain(self.options.ca.as_deref()).collect()
    }
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EraChoice {
    /// As it turns out.
    #[default]
    Auto,
    /// With the handshake that opens a session.
    Legacy,
    /// Without a session.
    Modern,
}

impl EraChoice {
    /// All, with their words in files.
    pub const ALL: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("legacy", Self::Legacy), ("modern", Self::Modern)];

    /// The word in files.
    pub fn as_str(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, era)| *era == self).map_or("auto", |(word, _)| word)
    }

    /// The choice of a word, in any case.
    pub fn parse(word: &str) -> Option<Self> {
        let word = word.trim();
        Self::ALL.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, era)| era)
    }
}

/// Settings of one server. What is absent is as it is for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamOptions {
    /// How it is spoken to.
    pub era: EraChoice,
    /// Seconds that a start may take.
    pub start_secs: Option<u32>,
    /// Seconds that a call may take without a sign of life.
    pub call_secs: Option<u32>,
    /// Seconds that a call may take in all.
    pub total_secs: Option<u32>,
    /// A PEM file of certificates that are trusted besides the system's; a template.
    pub ca: Option<String>,
}

/// A step on the way to a usable server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageKind {
    /// The configuration is in the file.
    Saved,
    /// The process runs, or the endpoint was reached.
    Started,
    /// Both sides agreed on a protocol version.
    Handshake,
    /// What it offers was listed.
    Discovery,
}

/// Where a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageState {
    /// Not begun.
    Pending,
    /// Under way.
    Running,
    /// Passed.
    Done,
    /// Failed; the status has the failure.
    Failed,
}

/// A step and how it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// Which.
    pub kind: StageKind,
    /// How it stands.
    pub state: StageState,
    /// What it gave, in words: `pid 4711`, `protocol 2025-11-25`, `14 tools, 2 prompts`.
    pub detail: Option<String>,
    /// How long it took.
    pub took: Option<Duration>,
}

/// What failed, what to try, and the proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable word: `program_not_found`, `exited`, `handshake_timeout`, `not_mcp`, `refused`, `unauthorized`, …
    pub code: String,
    /// What failed, lower case, no final period.
    pub message: String,
    /// What to try.
    pub hint: Option<String>,
    /// The last lines of the server's stderr, oldest first.
    pub stderr: Vec<String>,
}

/// How an upstream is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum UpstreamState {
    /// Switched off.
    Off,
    /// On its way; the stages tell how far.
    Starting,
    /// On its way, and busy before its first answer: a program such as `npx` downloads what it runs.
    Installing,
    /// Answered a real request.
    Ready,
    /// Was ready, and is being asked whether it still is. Its tools stay offered.
    Stale,
    /// Wants the person to sign in, or another token.
    SignInNeeded,
    /// Cannot read a secret now.
    SecretLocked,
    /// Did not come up, or went away.
    Failed,
    /// Went away again and again and is left alone until somebody restarts it.
    Parked,
}

impl UpstreamState {
    /// Whether it may become ready without anybody doing anything.
    pub fn is_on_its_way(&self) -> bool {
        matches!(self, Self::Starting | Self::Installing)
    }
}

/// Everything that is known of an upstream now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamStatus {
    /// Which.
    pub name: UpstreamName,
    /// How it is doing.
    pub state: UpstreamState,
    /// The steps, always in the order of [`StageKind`].
    pub stages: Vec<Stage>,
    /// What failed, in `Failed`, `Parked`, `SignInNeeded` and `SecretLocked`.
    pub failure: Option<Failure>,
    /// How many tools it has.
    pub tools: usize,
    /// What it calls itself: name and version.
    pub server: Option<(String, String)>,
    /// The protocol version in use, for showing only.
    pub protocol: Option<String>,
    /// Process id of a child.
    pub pid: Option<u32>,
}

/// Where a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogStream {
    /// Standard error.
    Stderr,
    /// Standard output that is not the protocol.
    Stdout,
    /// What eVi says about the server.
    Evi,
}

/// A line of an upstream's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// From where.
    pub stream: LogStream,
    /// The line, without its end, capped at 8 KiB.
    pub text: String,
}

/// What all upstreams offer that are ready, at one moment. Order: upstreams by name, entries as listed.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Each upstream's offer.
    pub upstreams: BTreeMap<UpstreamName, Arc<Offer>>,
}
