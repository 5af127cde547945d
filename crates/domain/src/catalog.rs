//! What can be called or read, as immutable snapshots. A surface is what one caller may see.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ToolAddress;

/// A tool's definition: the JSON object its owner gave, unknown fields included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolDef(Arc<Map<String, Value>>);

impl ToolDef {
    /// Takes a definition; `None` when it has no text `name`.
    pub fn new(json: Map<String, Value>) -> Option<Self> {
        json.get("name")?.as_str()?;
        Some(Self(Arc::new(json)))
    }
    /// The name its owner gave it.
    pub fn name(&self) -> &str {
        self.text("name").unwrap_or_default()
    }
    /// The title for people.
    pub fn title(&self) -> Option<&str> {
        self.text("title").or_else(|| self.0.get("annotations")?.get("title")?.as_str())
    }
    /// What it says it does.
    pub fn description(&self) -> Option<&str> {
        self.text("description")
    }
    /// The schema of its arguments; an open object when it gave none.
    pub fn input_schema(&self) -> Value {
        self.0
            .get("inputSchema")
            .filter(|s| s.is_object())
            .cloned()
            .unwrap_or_else(|| serde_json::json!({"type": "object"}))
    }
    /// A hint of its owner's (`readOnlyHint`, …): never a fact.
    pub fn hint(&self, name: &str) -> Option<bool> {
        self.0.get("annotations")?.get(name)?.as_bool()
    }
    /// The whole definition.
    pub fn json(&self) -> &Map<String, Value> {
        &self.0
    }
    /// The whole definition under another name.
    pub fn renamed(&self, name: &str) -> Map<String, Value> {
        let mut json = Map::clone(&self.0);
        json.insert("name".to_owned(), Value::from(name));
        json
    }
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }
}

macro_rules! definition {
    ($(#[$about:meta])* $name:ident, $key:literal, $(#[$about_key:meta])* $id:ident) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Arc<Map<String, Value>>);

        impl $name {
            #[doc = concat!("Takes a definition; `None` when it has no text `", $key, "`.")]
            pub fn new(json: Map<String, Value>) -> Option<Self> {
                json.get($key)?.as_str()?;
                Some(Self(Arc::new(json)))
            }
            $(#[$about_key])*
            pub fn $id(&self) -> &str {
                self.text($key).unwrap_or_default()
            }
            /// A text of it: `name`, `title`, `description`, `mimeType`, …
            pub fn text(&self, key: &str) -> Option<&str> {
                self.0.get(key)?.as_str()
            }
            /// The whole definition.
            pub fn json(&self) -> &Map<String, Value> {
                &self.0
            }
        }
    };
}

definition! {
    /// A resource's definition, by the same rule.
    ResourceDef, "uri",
    /// Its address.
    uri
}
definition! {
    /// The definition of a family of resources, by the same rule.
    TemplateDef, "uriTemplate",
    /// Its address with variables, as RFC 6570 writes them.
    uri_template
}
definition! {
    /// A prompt's definition, by the same rule.
    PromptDef, "name",
    /// The name its owner gave it.
    name
}

/// Everything that a server offers, each entry as its JSON came. Order is that of its lists; names and addresses are
/// unique within each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Offer {
    /// What can be called.
    pub tools: Vec<ToolDef>,
    /// What can be read.
    pub resources: Vec<ResourceDef>,
    /// Families of what can be read.
    pub templates: Vec<TemplateDef>,
    /// Messages that it makes.
    pub prompts: Vec<PromptDef>,
    /// What it says about the use of all this.
    pub instructions: Option<String>,
    /// What it says of itself (`serverInfo`): `name`, `version`, `title`, `websiteUrl`, `icons`, …
    pub server: Option<Map<String, Value>>,
    /// Whether it suggests values for the arguments of prompts and the variables of templates.
    pub completes: bool,
}

impl Offer {
    /// The one way from a name back to a prompt.
    pub fn prompt(&self, name: &str) -> Option<&PromptDef> {
        self.prompts.iter().find(|p| p.name() == name)
    }
}

/// Whose argument or variable a server is asked to complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completes {
    /// The prompt of this name.
    Prompt(String),
    /// The template of this address.
    Template(String),
}

/// A tool as one caller sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SurfaceTool {
    /// The name this caller uses.
    pub name: Arc<str>,
    /// Where it leads.
    pub address: ToolAddress,
    /// Its definition under its owner's name.
    pub def: ToolDef,
}

/// A resource as one caller sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SurfaceResource {
    /// Its address.
    pub uri: Arc<str>,
    /// Its definition.
    pub def: ResourceDef,
}

/// A prompt as one caller sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SurfacePrompt {
    /// Its name.
    pub name: Arc<str>,
    /// Its definition.
    pub def: PromptDef,
}

/// What one caller may see at one moment. Order is the order of lists; names are unique.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Surface {
    /// Tools.
    pub tools: Vec<SurfaceTool>,
    /// Resources.
    pub resources: Vec<SurfaceResource>,
    /// Prompts.
    pub prompts: Vec<SurfacePrompt>,
    /// A text for the model about all of it.
    pub instructions: Option<String>,
}

impl Surface {
    /// The one way from a name back to a tool.
    pub fn tool(&self, name: &str) -> Option<&SurfaceTool> {
        self.tools.iter().find(|t| &*t.name == name)
    }
}

/// What reading a resource gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceText {
    /// Its address.
    pub uri: String,
    /// Its media type.
    pub mime: String,
    /// Its body.
    pub text: String,
}

/// What getting a prompt gave: one user message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptText {
    /// What it is for.
    pub description: Option<String>,
    /// The message.
    pub text: String,
}
