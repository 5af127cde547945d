//! Resources, prompts and suggestions of servers as a user interface sees them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use ts_rs::TS;

use crate::MissingServer;

/// Whose entries are listed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, TS)]
pub struct OfferQuery {
    /// Only this server's.
    #[serde(default)]
    #[ts(optional)]
    pub server: Option<String>,
}

/// Something that can be read, or a family of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct ResourceRow {
    /// The server it belongs to.
    pub server: String,
    /// Its address; of a template, the address with variables (RFC 6570).
    pub uri: String,
    /// Whether it is a template.
    pub template: bool,
    /// Its name.
    pub name: String,
    /// Its title.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    pub description: String,
    /// Its media type.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// Bytes, as its server says.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// The definition as its server gave it.
    #[ts(type = "Json")]
    pub definition: Value,
}

/// Everything that can be read now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct ResourceList {
    /// In the order of servers; each server's templates last.
    pub resources: Vec<ResourceRow>,
    /// Servers that are on and have nothing to show, with the reason.
    pub missing: Vec<MissingServer>,
}

/// Reads a resource.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct ResourceRead {
    /// Whose.
    pub server: String,
    /// Its address, without variables.
    pub uri: String,
    /// An identity chosen by the caller, to cancel by.
    #[serde(default)]
    #[ts(optional)]
    pub call: Option<String>,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct ResourceView {
    /// The result object, whole: `contents` holds texts, and blobs as base64.
    #[ts(type = "Json")]
    pub result: Value,
    /// Its texts; a blob is `[image/png, 12 bytes]`.
    pub text: String,
    /// Milliseconds.
    pub took_ms: u64,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// Its title.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    pub description: String,
    /// Whether it must be given.
    pub required: bool,
}

/// Messages that a server makes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct PromptRow {
    /// The server it belongs to.
    pub server: String,
    /// Its name.
    pub name: String,
    /// Its title.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    pub description: String,
    /// Its arguments, each a text.
    pub arguments: Vec<PromptArgument>,
    /// The definition as its server gave it.
    #[ts(type = "Json")]
    pub definition: Value,
}

/// Every prompt there is now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, TS)]
pub struct PromptList {
    /// In the order of servers.
    pub prompts: Vec<PromptRow>,
    /// Servers that are on and have nothing to show, with the reason.
    pub missing: Vec<MissingServer>,
}

/// Gets a prompt.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct PromptGet {
    /// Whose.
    pub server: String,
    /// Its name.
    pub name: String,
    /// By name.
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
    /// An identity chosen by the caller, to cancel by.
    #[serde(default)]
    #[ts(optional)]
    pub call: Option<String>,
}

/// A prompt's messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, TS)]
pub struct PromptView {
    /// The result object, whole.
    #[ts(type = "Json")]
    pub result: Value,
    /// Its messages, each behind its role.
    pub text: String,
    /// Milliseconds.
    pub took_ms: u64,
}

/// Whose argument or variable is completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CompletionOf {
    /// A prompt's argument.
    Prompt {
        /// The prompt.
        name: String,
    },
    /// A template's variable.
    Template {
        /// The address with variables.
        uri: String,
    },
}

/// Asks for values that begin with what is typed.
#[derive(Clone, Debug, Serialize, Deserialize, TS)]
pub struct CompletionAsk {
    /// Which server.
    pub server: String,
    /// Of what.
    #[serde(rename = "ref")]
    pub of: CompletionOf,
    /// The argument or variable.
    pub argument: String,
    /// What is typed so far.
    pub value: String,
    /// The other arguments that have a value.
    #[serde(default)]
    #[ts(optional, as = "Option<BTreeMap<String, String>>")]
    pub others: BTreeMap<String, String>,
}

/// What a server suggests; nothing where it does not know the question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct Completion {
    /// In its order, at most 100.
    pub values: Vec<String>,
    /// Whether there are more.
    pub more: bool,
}

/// What a server says of itself. All of it is foreign text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, TS)]
pub struct ServerAbout {
    /// Its name for programs.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its name for people.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its address in the web: to show, never to open by itself.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub website: Option<String>,
    /// A picture that it brought along, as a `data:` address; one that would have to be fetched is left out.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// What it says about the use of what it offers.
    #[ts(optional)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Whether it suggests values for arguments.
    pub completes: bool,
    /// How many resources it has, and templates.
    pub resources: usize,
    /// How many prompts it has.
    pub prompts: usize,
}
