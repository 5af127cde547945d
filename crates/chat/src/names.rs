//! The names under which a model knows tools, and the only way back from them: a look-up.

use std::collections::{HashMap, HashSet};

use evi_domain::{Owner, SurfaceTool, ToolAddress, names as rule};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::ModelTool;

/// Tools by model-facing name. The names follow [`evi_domain::names`]; this holds that they are all different.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    tools: Vec<(String, SurfaceTool)>,
    by_name: HashMap<String, usize>,
    by_address: HashMap<ToolAddress, usize>,
}

impl NameTable {
    /// Names tools for a model that takes at most `limit` characters (at least 16; most take 64). Of two with one
    /// address the first is kept.
    pub fn build(tools: &[SurfaceTool], limit: usize) -> Self {
        let mut seen = HashSet::new();
        let tools: Vec<&SurfaceTool> = tools.iter().filter(|t| seen.insert(&t.address)).collect();
        let rule = rule::NameRule { limit: limit.clamp(16, 64), ..rule::MODEL };
        let mut names = rule::names(tools.iter().map(|t| &t.address), rule);
        set_clashes_apart(&mut names, &tools, rule.limit);

        let mut table = Self::default();
        for (name, tool) in names.into_iter().zip(tools) {
            let at = table.tools.len();
            table.by_name.insert(name.clone(), at);
            table.by_address.insert(tool.address.clone(), at);
            table.tools.push((name, tool.clone()));
        }
        table
    }

    /// The name of a tool.
    pub fn model_name(&self, address: &ToolAddress) -> Option<&str> {
        self.by_address.get(address).and_then(|at| self.tools.get(*at)).map(|(name, _)| name.as_str())
    }

    /// The tool behind a name that a model used.
    pub fn lookup(&self, model_name: &str) -> Option<&SurfaceTool> {
        self.by_name.get(model_name).and_then(|at| self.tools.get(*at)).map(|(_, tool)| tool)
    }

    /// How many tools it holds.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The first `most` tools as a model gets them, with neutral defaults for what their owners left out.
    pub fn model_tools(&self, most: usize) -> Vec<ModelTool> {
        let first = self.tools.iter().take(most);
        first
            .map(|(name, tool)| ModelTool {
                name: name.clone(),
                description: describe(tool),
                schema: whole_schema(tool.def.input_schema()),
            })
            .collect()
    }

    /// Up to three names that look like one that does not exist.
    pub(crate) fn near(&self, name: &str) -> Vec<&str> {
        let tail = |n: &str| n.rsplit("__").next().unwrap_or(n).replace(['.', '-'], "_").to_lowercase();
        let wanted = tail(&name.replace('.', "__"));
        let alike = self.tools.iter().filter(|(own, _)| {
            let own = tail(own);
            !wanted.is_empty() && (own.contains(&wanted) || wanted.contains(&own))
        });
        alike.map(|(own, _)| own.as_str()).take(3).collect()
    }
}

/// The rule ends a changed name in a short hash. A server can give its tool just that name on purpose; then both
/// get a name that no tool of a server can have plainly, because it holds no double underscore.
fn set_clashes_apart(names: &mut [String], tools: &[&SurfaceTool], limit: usize) {
    let mut count = HashMap::<String, usize>::new();
    for name in names.iter() {
        *count.entry(name.clone()).or_default() += 1;
    }
    for (name, tool) in names.iter_mut().zip(tools) {
        if count.get(name.as_str()).is_some_and(|n| *n > 1) {
            tracing::warn!(name = %name, tool = %tool.address, "two tools would have the same name for a model");
            let hash: String = hash(&tool.address).chars().take(limit.min(50) - 2).collect();
            *name = format!("t_{hash}");
        }
    }
}

fn hash(address: &ToolAddress) -> String {
    let (kind, owner) = match &address.owner {
        Owner::Builtin(category) => ("builtin", &**category),
        Owner::Upstream(name) => ("upstream", name.as_str()),
    };
    let digest = Sha256::digest(format!("{kind}\0{owner}\0{}", address.tool));
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn describe(tool: &SurfaceTool) -> String {
    let said = tool.def.description().or_else(|| tool.def.title()).map(str::trim).filter(|d| !d.is_empty());
    said.map_or_else(|| format!("The tool {}.", tool.address), str::to_owned)
}

/// Providers refuse a schema that is no object with properties.
fn whole_schema(schema: Value) -> Value {
    let mut schema = match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    if schema.get("type").is_none_or(Value::is_null) {
        schema.insert("type".to_owned(), "object".into());
    }
    if !schema.get("properties").is_some_and(Value::is_object) {
        schema.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    schema.into()
}

#[cfg(test)]
mod tests {
    use evi_domain::ToolDef;
    use serde_json::json;

    use super::*;

    fn tool(server: &str, name: &str, def: Value) -> SurfaceTool {
        let Value::Object(mut def) = def else { panic!("no object") };
        def.insert("name".to_owned(), name.into());
        let address = ToolAddress::upstream(server.into(), name);
        SurfaceTool { name: address.to_string().into(), address, def: ToolDef::new(def).unwrap() }
    }
    fn bare(server: &str, name: &str) -> SurfaceTool {
        tool(server, name, json!({}))
    }

    #[test]
    fn i41_i42_i46_every_name_is_accepted_different_and_leads_back_whatever_the_order() {
        let mut tools = Vec::new();
        for server in
            ["a b", "a_b", "a.b", "a/b", "é", "(x)", "", "Internet Search (Tavily)", &"s".repeat(48)]
        {
            for name in ["execute_sql", "coding.start", "x", "", &"t".repeat(40), "é"] {
                tools.push(bare(server, name));
            }
        }
        tools.push(bare("a__b", "c"));
        tools.push(bare("a", "b__c"));
        for limit in [16, 40, 64, 128] {
            let table = NameTable::build(&tools, limit);
            let mut turned = tools.clone();
            turned.reverse();
            turned.rotate_left(7);
            let other = NameTable::build(&turned, limit);
            assert_eq!(table.len(), tools.len());
            for tool in &tools {
                let name = table.model_name(&tool.address).unwrap();
                assert!((1..=limit.min(64)).contains(&name.len()), "{name}");
                assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{name}");
                assert_eq!(table.lookup(name).unwrap().address, tool.address);
                assert_eq!(other.model_name(&tool.address), Some(name));
            }
        }
    }

    #[test]
    fn i46_a_tool_that_takes_anothers_hashed_name_on_purpose_catches_no_calls() {
        let victim = bare("a__b", "c");
        let rival = bare("a", "b__c");
        let hashed = NameTable::build(&[victim.clone(), rival.clone()], 64);
        let hashed = hashed.model_name(&victim.address).unwrap().to_owned();
        let thief = bare("a", hashed.strip_prefix("a__").unwrap());
        let table = NameTable::build(&[victim.clone(), rival, thief.clone()], 64);
        assert!(table.lookup(&hashed).is_none());
        for tool in [victim, thief] {
            let name = table.model_name(&tool.address).unwrap();
            assert_eq!(table.lookup(name).unwrap().address, tool.address);
        }
    }

    #[test]
    fn i47_the_first_of_two_with_one_address_is_kept() {
        let first = tool("s", "x", json!({"description": "first"}));
        let second = tool("s", "x", json!({"description": "second"}));
        let table = NameTable::build(&[first, second], 64);
        assert_eq!(table.model_tools(9)[0].description, "first");
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn i50_what_is_missing_gets_a_neutral_default() {
        let tools = [
            bare("s", "nothing"),
            tool("s", "empty", json!({"description": " ", "inputSchema": {}})),
            tool("s", "open", json!({"title": "Open", "inputSchema": {"type": "object"}})),
            tool("s", "odd", json!({"inputSchema": "none"})),
            tool("s", "full", json!({"inputSchema": {"type": "object", "properties": {"a": {}}, "x": 1}})),
        ];
        let made = NameTable::build(&tools, 64).model_tools(128);
        for tool in &made[..4] {
            assert_eq!(tool.schema, json!({"type": "object", "properties": {}}), "{}", tool.name);
        }
        assert_eq!(made[0].description, "The tool s.nothing.");
        assert_eq!(made[2].description, "Open");
        assert_eq!(made[4].schema, json!({"type": "object", "properties": {"a": {}}, "x": 1}));
    }

    #[test]
    fn a_name_that_does_not_exist_gets_near_ones() {
        let table = NameTable::build(&[bare("filesystem", "list_directory"), bare("git", "log")], 64);
        assert_eq!(table.near("filesystem.list_directory"), ["filesystem__list_directory"]);
        assert_eq!(table.near("list_directory"), ["filesystem__list_directory"]);
        assert!(table.near("zzz").is_empty());
    }
}
