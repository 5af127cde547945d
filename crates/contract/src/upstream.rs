//! Servers as a user interface sees them: never a value of env or headers, only names.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::Problem;

/// Names a server.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct UpstreamRef {
    /// Its name.
    pub name: String,
}

/// How a server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamStateView {
    /// Its own switch is off.
    Off,
    /// `[tools] mcp` is off: no server runs.
    McpOff,
    /// `[tools] mcp_allow` leaves it out.
    Blocked,
    /// Its entry in the file is not clear.
    Invalid,
    /// On its way.
    Starting,
    /// On its way, and downloads what it runs.
    Installing,
    /// Answered a real request.
    Ready,
    /// Was ready, and is being asked whether it still is; its tools stay offered.
    Stale,
    /// The service behind it wants the person to sign in, or another token.
    SignInNeeded,
    /// A secret cannot be read.
    SecretLocked,
    /// Did not come up, or went away.
    Failed,
    /// Went away again and again; a restart by hand is what is left.
    Parked,
}

/// Settings of one server; what is absent is as it is for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct UpstreamOptionsView {
    /// `auto`, `legacy`, `modern`; absent is `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub era: Option<String>,
    /// Seconds that a start may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub startup_timeout_sec: Option<u32>,
    /// Seconds that a call may take without a sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub tool_timeout_sec: Option<u32>,
    /// Seconds that a call may take in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub tool_total_timeout_sec: Option<u32>,
    /// A PEM file of certificates that are trusted besides the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub ca: Option<String>,
}

/// A step on the way to a usable server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct StageView {
    /// `saved`, `started`, `handshake`, `discovery`.
    pub kind: String,
    /// `pending`, `running`, `done`, `failed`.
    pub state: String,
    /// What it gave, in words.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Milliseconds.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
}

/// A server in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct UpstreamRow {
    /// Its name.
    pub name: String,
    /// `stdio`, `http`, `sse`.
    pub transport: String,
    /// In one line: command and arguments, or the address. References stay references.
    pub summary: String,
    /// The program, for stdio.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// The endpoint, for http and sse.
    pub url: String,
    /// Its working folder.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Its settings.
    pub options: UpstreamOptionsView,
    /// Names of its env values.
    pub env_keys: Vec<String>,
    /// Names of its headers.
    pub header_keys: Vec<String>,
    /// Those of both that are in the keychain.
    pub secret_keys: Vec<String>,
    /// Its switch.
    pub enabled: bool,
    /// The plugin it belongs to; then it is read-only.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// How it is doing.
    pub state: UpstreamStateView,
    /// The steps.
    pub stages: Vec<StageView>,
    /// What failed.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// Stable word for the failure (`program_not_found`, …).
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The last lines of its stderr, where it failed.
    pub stderr: Vec<String>,
    /// How many tools it has.
    pub tools: usize,
    /// What it calls itself, with version.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The protocol version in use.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Process id.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// A line of a server's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct LogLineView {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// `stderr`, `stdout`, `evi`.
    pub stream: String,
    /// The line.
    pub text: String,
}

/// A server's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct UpstreamLog {
    /// Oldest first.
    pub lines: Vec<LogLineView>,
}

/// What a person typed or pasted: a command line, an address, or a block of another application's settings.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ParseText {
    /// The text.
    pub text: String,
}

/// A server as a form has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct UpstreamDraft {
    /// Its name.
    pub name: String,
    /// `stdio`, `http`, `sse`.
    pub transport: String,
    /// The program, for stdio.
    #[serde(default)]
    pub command: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Its working folder.
    #[serde(default)]
    #[ts(optional)]
    pub cwd: Option<String>,
    /// The endpoint, for http and sse.
    #[serde(default)]
    pub url: String,
    /// Env values.
    #[serde(default)]
    pub env: Vec<DraftValue>,
    /// Headers.
    #[serde(default)]
    pub headers: Vec<DraftValue>,
    /// Its settings; absent keeps what is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub options: Option<UpstreamOptionsView>,
}

/// An env value or a header as a form has it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct DraftValue {
    /// Its name.
    pub key: String,
    /// Its value; absent keeps what is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub value: Option<String>,
    /// Whether it goes to the keychain; what looks like a reference stays one in the file.
    #[serde(default)]
    pub secret: bool,
}

impl std::fmt::Debug for DraftValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DraftValue")
            .field("key", &self.key)
            .field("secret", &self.secret)
            .finish_non_exhaustive()
    }
}

/// What was understood of a pasted text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ParsedUpstream {
    /// One draft for each server that was found.
    pub drafts: Vec<UpstreamDraft>,
    /// Where the first one's program was found.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved: Option<String>,
    /// What was not clear.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// What to look at twice: a shell with `-c`, a mangled argument.
    pub warnings: Vec<String>,
}

/// Adds a server.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct UpstreamAdd {
    /// The server.
    pub draft: UpstreamDraft,
    /// Whether it is on.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Whether a server of that name is replaced.
    #[serde(default)]
    pub overwrite: bool,
    /// Whether `[tools] mcp` is switched on with it, as a window does with the first one.
    #[serde(default)]
    pub turn_on_mcp: bool,
}

fn yes() -> bool {
    true
}

/// What came of an addition.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct UpstreamAdded {
    /// Its name.
    pub name: String,
    /// In one line.
    pub summary: String,
    /// Whether `[tools] mcp` was off and is on now.
    pub turned_on_mcp: bool,
    /// Whether `[tools] mcp` is on.
    pub mcp_on: bool,
}

/// Changes a server. A value that is absent in the draft stays as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct UpstreamEdit {
    /// Which.
    pub name: String,
    /// What it becomes; its name is `name` still.
    pub draft: UpstreamDraft,
}

/// Renames a server; its secrets stay with it.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct UpstreamRename {
    /// Which.
    pub name: String,
    /// Its new name.
    pub to: String,
}

/// Switches a server.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct UpstreamSwitch {
    /// Which.
    pub name: String,
    /// On or off.
    pub enabled: bool,
}

/// Starts every configured server for one command and waits for it, as `evi mcp list-tools` does.
#[derive(Clone, Debug, Default, Serialize, Deserialize, TS)]
pub struct UpstreamSettle {
    /// Only this one.
    #[serde(default)]
    #[ts(optional)]
    pub name: Option<String>,
}
