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

/// A resource's definition, by the same rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceDef(pub Arc<Map<String, Value>>);

/// A prompt's definition, by the same rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PromptDef(pub Arc<Map<String, Value>>);

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
