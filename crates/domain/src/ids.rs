//! Identities. Each is a type of its own, so that one cannot stand in for another.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps a text as it is.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self::new(text)
            }
        }
    };
}

macro_rules! fresh_id {
    ($name:ident) => {
        impl $name {
            /// A new identity that sorts by the time it was made.
            pub fn fresh() -> Self {
                Self::new(uuid::Uuid::now_v7().simple().to_string())
            }
        }
    };
}

text_id!(
    /// The name of an upstream as its owner wrote it: `filesystem`, or `<plugin>:<server>`.
    UpstreamName
);
text_id!(
    /// One call of one tool.
    CallId
);
text_id!(
    /// One conversation.
    ChatId
);
text_id!(
    /// One message of a conversation.
    MessageId
);
text_id!(
    /// One user message up to its final answer.
    TurnId
);
text_id!(
    /// The name of a value in the vault; `[a-z0-9._-]`, what stands in `${secret:<id>}`.
    SecretId
);
text_id!(
    /// A kept result: what a model calls its handle.
    ResultId
);
fresh_id!(ResultId);
fresh_id!(CallId);
fresh_id!(ChatId);
fresh_id!(MessageId);
fresh_id!(TurnId);

/// Whose tool it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Owner {
    /// eVi's own, by category (`memory`, `git`, …).
    Builtin(Arc<str>),
    /// A connected upstream.
    Upstream(UpstreamName),
}

/// Where a tool lives. Shown as `<server>.<tool>` for an upstream and as the bare name for eVi's own;
/// never parsed back from that text: look it up in a [`crate::Surface`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ToolAddress {
    /// Whose tool.
    pub owner: Owner,
    /// The tool's name as its owner spells it.
    pub tool: Arc<str>,
}

impl ToolAddress {
    /// The address of a tool of an upstream.
    pub fn upstream(name: UpstreamName, tool: impl Into<Arc<str>>) -> Self {
        Self { owner: Owner::Upstream(name), tool: tool.into() }
    }
    /// The address of one of eVi's own tools.
    pub fn builtin(category: impl Into<Arc<str>>, tool: impl Into<Arc<str>>) -> Self {
        Self { owner: Owner::Builtin(category.into()), tool: tool.into() }
    }
}

impl fmt::Display for ToolAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.owner {
            Owner::Builtin(_) => f.write_str(&self.tool),
            Owner::Upstream(name) => write!(f, "{name}.{}", self.tool),
        }
    }
}

/// Who asks for a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Caller {
    /// The model, in a conversation.
    Chat {
        /// Which one.
        chat: ChatId,
    },
    /// A client of the gateway.
    Client {
        /// What it calls itself (`clientInfo.name`), or `unknown`.
        name: Arc<str>,
        /// What it may see.
        exposure: Exposure,
    },
    /// The person: the form in the window, or `evi mcp call`.
    Person,
}

/// What a client of the gateway may see: a profile of `config.toml`, or flags that replace it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exposure {
    /// `[serve.profiles.<name>]`; absent means `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// `--categories`: replaces the profile; `mcp` means every connected upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
    /// `--tools`: exact names within the categories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}
