//! Settings and facts about this run, as a user interface sees them.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::Problem;

/// Facts about this run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct AppInfo {
    /// eVi's version.
    pub version: String,
    /// The home.
    pub home: String,
    /// The path of `mcp.json`.
    pub mcp_json: String,
    /// The path of `config.toml`.
    pub config_toml: String,
    /// The folder of logs.
    pub logs: String,
    /// `desktop`, `web`, `serve`, `command`.
    pub shell: String,
    /// Process id of the owner of the home.
    pub pid: u32,
    /// Whether secrets can be kept; else why not.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keychain_problem: Option<Problem>,
    /// What was not clear in the files.
    pub config_problems: Vec<ConfigProblemView>,
    /// Whether `[tools] mcp` is on.
    pub mcp_on: bool,
}

/// Something in a file that was not clear.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ConfigProblemView {
    /// The file.
    pub file: String,
    /// From 1.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// From 1.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// Whether nothing is written to that file until it is mended.
    pub whole_file: bool,
}

/// What can be set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct Settings {
    /// `[tools] mcp`.
    pub mcp_on: bool,
    /// `[tools] mcp_allow`.
    pub mcp_allow: Vec<String>,
    /// `[llm] base_url`.
    pub base_url: String,
    /// `[llm] model`.
    pub model: String,
    /// Whether a key is set; its value is not shown.
    pub key_set: bool,
    /// `keychain`, `file`, `environment` or empty.
    pub key_place: String,
    /// `[auto] auto_approve`.
    pub auto_approve: Vec<String>,
    /// `[auto] rules`, as written.
    pub rules: Vec<String>,
    /// `[auto] hard_deny`.
    pub hard_deny: Vec<String>,
    /// The gateway's port.
    pub port: u16,
}

/// Changes settings; what is absent stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize, TS)]
pub struct SettingsPatch {
    /// `[tools] mcp`.
    #[serde(default)]
    #[ts(optional)]
    pub mcp_on: Option<bool>,
    /// `[tools] mcp_allow`.
    #[serde(default)]
    #[ts(optional)]
    pub mcp_allow: Option<Vec<String>>,
    /// `[llm] base_url`.
    #[serde(default)]
    #[ts(optional)]
    pub base_url: Option<String>,
    /// `[llm] model`.
    #[serde(default)]
    #[ts(optional)]
    pub model: Option<String>,
}

/// Sets the model's key; absent deletes it.
#[derive(Clone, Serialize, Deserialize, TS)]
pub struct KeySet {
    /// The key.
    #[serde(default)]
    #[ts(optional)]
    pub key: Option<String>,
}

impl std::fmt::Debug for KeySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeySet(…)")
    }
}

/// A model server found on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct FoundModels {
    /// `Ollama`, `LM Studio`, `llama.cpp`.
    pub title: String,
    /// For `[llm] base_url`.
    pub base_url: String,
    /// Its models.
    pub models: Vec<String>,
}

/// The models of the configured endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ModelNames {
    /// By name.
    pub models: Vec<String>,
}
