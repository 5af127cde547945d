//! The configuration as it is in effect: what was clear in the files, beside a list of what was not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    UpstreamName, UpstreamSpec,
    policy::{CLIENT_CATEGORIES, Policy, ShareMode},
};

/// Everything that was read from `config.toml` and `mcp.json`. Loading never fails; see [`ConfigProblem`].
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Config {
    /// `[tools]`.
    pub tools: ToolsConfig,
    /// `[llm]`.
    pub llm: LlmConfig,
    /// `[auto]`.
    pub policy: Policy,
    /// `[serve.profiles.<name>]`; `default` is always there.
    pub profiles: BTreeMap<String, Profile>,
    /// `[gateway]`, ours.
    pub gateway: GatewayConfig,
    /// `[web] auth_token`, a template.
    pub web_token: Option<String>,
    /// `[plugins]`, ours.
    pub plugin_switches: PluginSwitches,
    /// The folders of `plugins/`, by name.
    pub plugins: Vec<PluginEntry>,
    /// The entries of `mcp.json`, in the file's order.
    pub upstreams: Vec<UpstreamEntry>,
}

/// `[plugins]`: which plugins the person switched; the others are as their `plugin.toml` says.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PluginSwitches {
    /// Switched on.
    pub enabled: Vec<String>,
    /// Switched off; this wins.
    pub disabled: Vec<String>,
    /// What is switched off could not be read, so none is on.
    pub unclear: bool,
}

impl PluginSwitches {
    /// Whether a plugin is on.
    pub fn is_on(&self, name: &str, default: bool) -> bool {
        let named = |list: &[String]| list.iter().any(|one| one == name);
        !self.unclear && !named(&self.disabled) && (default || named(&self.enabled))
    }
}

/// A folder of `plugins/` and what it brings, but for its servers, which are among the upstreams, and its commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginEntry {
    /// Its folder's name, which its servers and commands bear.
    pub name: String,
    /// Whether it is on.
    pub enabled: bool,
    /// Its version, where it says one.
    pub version: Option<String>,
    /// What it says it is for.
    pub description: Option<String>,
    /// How many skills lie in it.
    pub skills: usize,
    /// Why a file of it is not clear.
    pub problem: Option<ConfigProblem>,
}

/// `[tools]`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ToolsConfig {
    /// Whether the servers of `mcp.json` are used by chat and gateway. Off by default.
    pub mcp: bool,
    /// Names that may load; empty means all.
    pub mcp_allow: Vec<String>,
    /// Tools switched off, as shown (`filesystem.write_file`, `remember`). Ours.
    pub disabled: Vec<String>,
    /// The most characters of a result that a model gets; 0: as many as its window allows.
    pub mcp_max_output_chars: usize,
}

/// `[llm]`. Keys that are absent in the file are `None`.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct LlmConfig {
    /// `lmstudio`, `ollama`, `llamacpp`, `openai_compat`.
    pub backend: Option<String>,
    /// Such as `http://127.0.0.1:11434/v1`.
    pub base_url: Option<String>,
    /// A template: literal, `env:VAR`, or a reference.
    pub api_key: Option<String>,
    /// The model's name.
    pub model: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// The most tokens of an answer.
    pub max_tokens: Option<u32>,
    /// Seconds without a token until the request is given up.
    pub request_timeout: Option<u64>,
    /// The model's window, in tokens.
    pub context_size: Option<u32>,
}

/// `[serve.profiles.<name>]`: what clients with this profile may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// eVi's own tools by category.
    pub categories: Vec<String>,
    /// Shared upstreams and how.
    pub servers: BTreeMap<UpstreamName, ShareMode>,
    /// When not empty, only these tools, by shown name.
    pub tools: Vec<String>,
    /// Whether memories are resources.
    pub resources: bool,
    /// Whether command templates are prompts.
    pub prompts: bool,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            categories: CLIENT_CATEGORIES.map(str::to_owned).to_vec(),
            servers: BTreeMap::new(),
            tools: Vec::new(),
            resources: true,
            prompts: true,
        }
    }
}

/// `[gateway]`: the desktop's endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayConfig {
    /// The state it was left in; off at first.
    pub enabled: bool,
    /// Its port on 127.0.0.1.
    pub port: u16,
}

impl Default for GatewayConfig {
    fn default() -> Self {
        Self { enabled: false, port: 8765 }
    }
}

/// An entry of `mcp.json`. One that could not be understood is here too, with its problem.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamEntry {
    /// Its name; `entry <n>` where it has none.
    pub name: UpstreamName,
    /// Its switch.
    pub enabled: bool,
    /// The plugin it belongs to; then it is read-only.
    pub plugin: Option<String>,
    /// What it says, or why that is not clear.
    pub spec: Result<UpstreamSpec, ConfigProblem>,
}

/// Something in a file that was not clear. Line and column count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{file}{}: {message}", at.map(|(l, c)| format!(":{l}:{c}")).unwrap_or_default())]
pub struct ConfigProblem {
    /// The file's path.
    pub file: String,
    /// Where in it.
    pub at: Option<(usize, usize)>,
    /// What is wrong, lower case, no final period.
    pub message: String,
    /// Whether the file as a whole could not be read, so that nothing is written to it.
    pub whole_file: bool,
}
