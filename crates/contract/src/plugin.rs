//! Plugins as a user interface sees them: what lies in `plugins/` and what each brings.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

use crate::Problem;

/// Names a plugin.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct PluginRef {
    /// Its name.
    pub name: String,
}

/// Switches a plugin.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct PluginSwitch {
    /// Its name.
    pub name: String,
    /// On or off.
    pub enabled: bool,
}

/// A plugin in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct PluginRow {
    /// Its folder's name.
    pub name: String,
    /// Whether it is on.
    pub enabled: bool,
    /// Its version.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it says it is for, on one line.
    pub description: String,
    /// Its servers: `<plugin>:<server>`.
    pub servers: Vec<String>,
    /// Its commands, which are prompts: `<plugin>:<command>`.
    pub commands: Vec<String>,
    /// How many skills lie in it.
    pub skills: usize,
    /// What is not clear in its files.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// Where a plugin is now.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct PluginRemoved {
    /// Its name.
    pub name: String,
    /// Its folder in the trash.
    pub moved_to: String,
}
