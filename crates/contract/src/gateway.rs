//! The served endpoint as a user interface sees it.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::{Problem, StageView};

/// The served endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct GatewayView {
    /// The switch.
    pub enabled: bool,
    /// `off`, `starting`, `running`, `failed`.
    pub state: String,
    /// Why it does not run.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// `http://127.0.0.1:8765/mcp`.
    pub address: String,
    /// The port.
    pub port: u16,
    /// The token with all but its ends hidden.
    pub token_hint: String,
    /// Whether the token is in the keychain; else it lasts until eVi ends.
    pub token_kept: bool,
    /// Who is connected.
    pub clients: Vec<ClientRow>,
    /// What the profile `default` shares of the servers.
    pub shares: Vec<ShareRow>,
    /// What it shares of eVi's own tools.
    pub categories: Vec<CategoryRow>,
    /// How many tools a client with the profile `default` sees.
    pub tools: usize,
}

/// A program that is connected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ClientRow {
    /// What it calls itself.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `http` or `stdio`.
    pub transport: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Its last call.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_call_ms: Option<u64>,
}

/// Whether a server is shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ShareRow {
    /// Which.
    pub server: String,
    /// How many tools it has now.
    pub tools: usize,
    /// How it is shared; absent when it is not.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ShareModeView>,
}

/// How a server is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(rename_all = "snake_case")]
pub enum ShareModeView {
    /// Every tool, without a question.
    Full,
    /// Only tools that say they read only.
    ReadOnly,
    /// Every tool, each call asked.
    Ask,
}

/// Whether a category of eVi's own tools is shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct CategoryRow {
    /// Which.
    pub category: String,
    /// How many tools it has.
    pub tools: usize,
    /// Shared or not.
    pub shared: bool,
}

/// Shares a server, or not.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ShareSet {
    /// Which.
    pub server: String,
    /// How; absent: not.
    #[serde(default)]
    #[ts(optional)]
    pub mode: Option<ShareModeView>,
}

/// Shares a category, or not.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct CategorySet {
    /// Which.
    pub category: String,
    /// Shared or not.
    pub shared: bool,
}

/// A switch.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct Switch {
    /// On or off.
    pub enabled: bool,
}

/// A port.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct PortSet {
    /// 1 to 65535.
    pub port: u32,
}

/// The token, once, because the person asked for it.
#[derive(Clone, Serialize, Deserialize, TS)]
pub struct TokenText {
    /// The token.
    pub token: String,
}

impl std::fmt::Debug for TokenText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenText(…)")
    }
}

/// How another application connects.
#[derive(Clone, Debug, Default, Serialize, Deserialize, TS)]
pub struct ConnectQuery {
    /// `claude-desktop`, `cursor`, …; absent: the common block.
    #[serde(default)]
    #[ts(optional)]
    pub client: Option<String>,
    /// Over HTTP with the token, in place of stdio.
    #[serde(default)]
    pub http: bool,
    /// Value of `--categories`.
    #[serde(default)]
    #[ts(optional)]
    pub categories: Option<String>,
    /// Value of `--profile`.
    #[serde(default)]
    #[ts(optional)]
    pub profile: Option<String>,
}

/// The block to paste, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ConnectText {
    /// For which application.
    pub client: String,
    /// Its name for people.
    pub title: String,
    /// The file it belongs to, if known.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// `json`, `toml` or `yaml`.
    pub language: String,
    /// The block. Over HTTP it says where to put the token and does not hold it.
    pub text: String,
    /// The command that the application will run, element for element; empty over HTTP.
    pub command: Vec<String>,
}

/// An application that eVi can write the block for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ClientKind {
    /// `claude-desktop`, …
    pub id: String,
    /// `Claude Desktop`, …
    pub title: String,
    /// Whether it can connect over HTTP.
    pub http: bool,
}

/// How it went when eVi was started exactly as the application will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ConnectCheck {
    /// The command, element for element.
    pub command: Vec<String>,
    /// The steps.
    pub stages: Vec<StageView>,
    /// What failed.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// The last lines of its stderr, where it failed.
    pub stderr: Vec<String>,
}
