//! Changes one entry in the text of `mcp.json` and leaves every other byte that it can as it was: comments, order,
//! unknown keys. Works on text only; the file is written by its caller.

use std::collections::BTreeMap;

use evi_domain::{ConfigProblem, TransportSpec, UpstreamSpec};
use jsonc_parser::{
    CollectOptions,
    ast::Value,
    cst::{CstArray, CstInputValue, CstNode, CstObject, CstObjectProp, CstRootNode},
    parse_to_ast,
};

use super::{
    mcp_read::{Fields, Names, ROOT_KEYS, dialect},
    source::Source,
};
use crate::StoreError;

/// One file under edit.
pub(crate) struct McpEdit {
    root: CstRootNode,
    file: String,
    was_empty: bool,
}

/// Where the servers are: a list, or an object by name.
enum Container {
    List(CstArray),
    Map(CstObject),
}

/// An entry in its container.
enum Slot {
    Element(CstNode),
    Property(CstObjectProp),
}

impl Slot {
    fn object(&self) -> Option<CstObject> {
        match self {
            Self::Element(node) => node.as_object(),
            Self::Property(property) => property.object_value(),
        }
    }
    fn own_name(&self) -> Option<String> {
        match self {
            Self::Element(node) => text(&node.as_object()?.get("name")?),
            Self::Property(property) => property.decoded_name(),
        }
        .filter(|name| !name.trim().is_empty())
    }
}

fn text(property: &CstObjectProp) -> Option<String> {
    property.value()?.as_string_lit()?.decoded_value().ok()
}

impl McpEdit {
    /// Opens a file's text.
    ///
    /// # Errors
    /// When the text as a whole cannot be read: then nothing may be written.
    pub(crate) fn open(source: &Source, file: String) -> Result<Self, StoreError> {
        super::mcp_read::read(source).map_err(StoreError::Malformed)?;
        let root = CstRootNode::parse(source.text(), &dialect())
            .map_err(|e| StoreError::Malformed(source.unusable(e.range().start, e.kind().to_string())))?;
        Ok(Self { root, file, was_empty: source.text().trim().is_empty() })
    }

    /// The text as it is now. A file that was empty gets a last line end.
    pub(crate) fn text(&self) -> String {
        let mut text = self.root.to_string();
        if self.was_empty && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    fn containers(&self) -> Vec<Container> {
        if let Some(list) = self.root.array_value() {
            return vec![Container::List(list)];
        }
        let Some(root) = self.root.object_value() else { return Vec::new() };
        ROOT_KEYS
            .iter()
            .filter_map(|key| {
                root.array_value(key)
                    .map(Container::List)
                    .or_else(|| root.object_value(key).map(Container::Map))
            })
            .collect()
    }

    fn slots(&self) -> Vec<(String, Slot)> {
        let mut names = Names::default();
        let mut slots = Vec::new();
        for container in self.containers() {
            let found: Vec<Slot> = match container {
                Container::List(list) => list.elements().into_iter().map(Slot::Element).collect(),
                Container::Map(map) => map.properties().into_iter().map(Slot::Property).collect(),
            };
            for slot in found {
                slots.push((names.next(slot.own_name().as_deref()).0, slot));
            }
        }
        slots
    }

    fn find(&self, name: &str) -> Option<Slot> {
        self.slots().into_iter().find(|(n, _)| n == name).map(|(_, slot)| slot)
    }

    fn must_find(&self, name: &str) -> Result<Slot, StoreError> {
        self.find(name).ok_or_else(|| StoreError::Unknown { name: name.to_owned() })
    }

    fn unclear(&self, message: String) -> StoreError {
        StoreError::Unclear(ConfigProblem { file: self.file.clone(), at: None, message, whole_file: false })
    }

    /// Adds an entry, or changes the one of that name.
    pub(crate) fn add(&self, spec: &UpstreamSpec, enabled: bool, overwrite: bool) -> Result<(), StoreError> {
        let name = spec.name.as_str();
        match self.find(name) {
            Some(_) if !overwrite => Err(StoreError::Exists { name: name.to_owned() }),
            Some(slot) => {
                self.overwrite(&slot, spec, enabled);
                Ok(())
            }
            None => self.append(spec, enabled),
        }
    }

    fn append(&self, spec: &UpstreamSpec, enabled: bool) -> Result<(), StoreError> {
        let container = match self.containers().into_iter().next() {
            Some(container) => container,
            None if self.root.value().is_none() => Container::List(self.root.array_value_or_set()),
            None => {
                let root =
                    self.root.object_value().ok_or_else(|| self.unclear("not a list of servers".into()))?;
                // A key that is there with something else in it is not ours to replace.
                let free = ROOT_KEYS.iter().all(|key| {
                    root.get(key).and_then(|p| p.value()).is_none_or(|v| v.as_null_keyword().is_some())
                });
                if !free {
                    return Err(self.unclear("\"mcpServers\" is neither an object nor a list".into()));
                }
                let key = ROOT_KEYS.iter().find(|key| root.get(key).is_some()).unwrap_or(&ROOT_KEYS[0]);
                Container::Map(root.object_value_or_set(key))
            }
        };
        match container {
            Container::List(list) => {
                list.ensure_multiline();
                list.append(element(spec, enabled));
            }
            Container::Map(map) => drop(map.append(spec.name.as_str(), property(spec, enabled))),
        }
        Ok(())
    }

    fn overwrite(&self, slot: &Slot, spec: &UpstreamSpec, enabled: bool) {
        let Some(entry) = slot.object() else {
            match slot {
                Slot::Element(node) => {
                    if let Some(list) = node.parent().and_then(|p| p.as_array()) {
                        let index = node.element_index().unwrap_or(usize::MAX);
                        node.clone().remove();
                        list.insert(index, element(spec, enabled));
                    }
                }
                Slot::Property(old) => old.set_value(property(spec, enabled)),
            }
            return;
        };
        let has = |key: &str| entry.get(key).is_some();
        let in_list = matches!(slot, Slot::Element(_));
        let kind_key = if has("transport") || (in_list && !has("type")) { "transport" } else { "type" };
        // What already says the same stays as it is written.
        let old = read_transport(&entry);
        match &spec.transport {
            TransportSpec::Stdio { command, args, env, cwd } => {
                drop_keys(&entry, &["url", "headers"]);
                if entry.get(kind_key).is_some() {
                    set(&entry, kind_key, "stdio".into());
                }
                let (old_args, old_env) = match &old {
                    Some(TransportSpec::Stdio { args, env, .. }) => (Some(args), Some(env)),
                    _ => (None, None),
                };
                set(&entry, "command", command.as_str().into());
                if old_args != Some(args) {
                    set(&entry, "args", list(args));
                }
                set_map(&entry, "env", env, old_env);
                match cwd {
                    Some(cwd) => set(&entry, "cwd", cwd.as_str().into()),
                    None => drop_keys(&entry, &["cwd"]),
                }
            }
            TransportSpec::Http { url, headers } | TransportSpec::Sse { url, headers } => {
                drop_keys(&entry, &["command", "args", "env", "cwd"]);
                if old.as_ref().map(TransportSpec::kind) != Some(spec.transport.kind()) {
                    set(&entry, kind_key, spec.transport.kind().into());
                }
                let old_headers = match &old {
                    Some(TransportSpec::Http { headers, .. } | TransportSpec::Sse { headers, .. }) => {
                        Some(headers)
                    }
                    _ => None,
                };
                set(&entry, "url", url.as_str().into());
                set_map(&entry, "headers", headers, old_headers);
            }
        }
        switch(&entry, enabled);
    }

    /// Takes an entry out.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        match self.must_find(name)? {
            Slot::Element(node) => node.remove(),
            Slot::Property(property) => property.remove(),
        }
        Ok(())
    }

    /// Switches an entry, also one that is not clear otherwise.
    pub(crate) fn set_enabled(&self, name: &str, enabled: bool) -> Result<(), StoreError> {
        let entry = self.must_find(name)?.object();
        let entry = entry.ok_or_else(|| self.unclear(format!("server {name} is not an object")))?;
        switch(&entry, enabled);
        Ok(())
    }

    /// Gives an entry another name and changes nothing else.
    pub(crate) fn rename(&self, old: &str, new: &str) -> Result<(), StoreError> {
        let slot = self.must_find(old)?;
        if old != new && self.find(new).is_some() {
            return Err(StoreError::Exists { name: new.to_owned() });
        }
        match slot {
            Slot::Property(property) => {
                if let Some(key) = property.name().and_then(|n| n.as_string_lit()) {
                    key.set_raw_value(serde_json::Value::from(new).to_string());
                }
            }
            Slot::Element(node) => {
                let entry = node.as_object();
                let entry = entry.ok_or_else(|| self.unclear(format!("server {old} is not an object")))?;
                match entry.get("name") {
                    Some(name) => name.set_value(new.into()),
                    None => drop(entry.insert(0, "name", new.into())),
                }
            }
        }
        Ok(())
    }
}

/// The entry as the reader understands it, or `None`.
fn read_transport(entry: &CstObject) -> Option<TransportSpec> {
    let source = Source::of_text(entry.to_string());
    let parsed = parse_to_ast(source.text(), &CollectOptions::default(), &dialect()).ok()?;
    let Some(Value::Object(object)) = &parsed.value else { return None };
    Fields { source: &source, entry: object }.transport().ok()
}

/// An entry of a list, in the shape in which the original writes it.
fn element(spec: &UpstreamSpec, enabled: bool) -> CstInputValue {
    let mut fields = vec![("name".to_owned(), CstInputValue::from(spec.name.as_str()))];
    fields.extend(entry_fields(&spec.transport, "transport"));
    fields.push(("enabled".to_owned(), enabled.into()));
    CstInputValue::Object(fields)
}

/// An entry of an object, in the shape that other programs know, too.
fn property(spec: &UpstreamSpec, enabled: bool) -> CstInputValue {
    let mut fields = entry_fields(&spec.transport, "type");
    if !enabled {
        fields.push(("enabled".to_owned(), false.into()));
    }
    CstInputValue::Object(fields)
}

/// The original writes no `transport` for a child process.
fn entry_fields(transport: &TransportSpec, kind_key: &str) -> Vec<(String, CstInputValue)> {
    let mut fields: Vec<(String, CstInputValue)> = Vec::new();
    let mut put = |key: &str, value: CstInputValue| fields.push((key.to_owned(), value));
    match transport {
        TransportSpec::Stdio { command, args, env, cwd } => {
            put("command", command.as_str().into());
            put("args", list(args));
            if !env.is_empty() {
                put("env", map(env));
            }
            if let Some(cwd) = cwd {
                put("cwd", cwd.as_str().into());
            }
        }
        TransportSpec::Http { url, headers } | TransportSpec::Sse { url, headers } => {
            put(kind_key, transport.kind().into());
            put("url", url.as_str().into());
            if !headers.is_empty() {
                put("headers", map(headers));
            }
        }
    }
    fields
}

fn list(texts: &[String]) -> CstInputValue {
    CstInputValue::Array(texts.iter().map(|t| t.as_str().into()).collect())
}

fn map(texts: &BTreeMap<String, String>) -> CstInputValue {
    CstInputValue::Object(texts.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect())
}

fn drop_keys(entry: &CstObject, keys: &[&str]) {
    for key in keys {
        if let Some(property) = entry.get(key) {
            property.remove();
        }
    }
}

/// Sets a key, in its place where it is there, and not at all where it says that already.
fn set(entry: &CstObject, key: &str, value: CstInputValue) {
    match entry.get(key) {
        None => drop(entry.append(key, value)),
        Some(property) => {
            let same = match &value {
                CstInputValue::String(new) => text(&property).as_deref() == Some(new),
                CstInputValue::Bool(new) => {
                    property.value().and_then(|v| v.as_boolean_lit()).map(|b| b.value()) == Some(*new)
                }
                _ => false,
            };
            if !same {
                property.set_value(value);
            }
        }
    }
}

/// Changes an object of texts key by key, so that comments and order in it stay.
fn set_map(
    entry: &CstObject,
    key: &str,
    new: &BTreeMap<String, String>,
    old: Option<&BTreeMap<String, String>>,
) {
    if old == Some(new) {
        return;
    }
    if new.is_empty() {
        drop_keys(entry, &[key]);
        return;
    }
    let Some(object) = entry.object_value(key) else {
        set(entry, key, map(new));
        return;
    };
    for property in object.properties() {
        if property.decoded_name().is_none_or(|name| !new.contains_key(&name)) {
            property.remove();
        }
    }
    for (name, value) in new {
        let stays = object.get(name).is_some() && old.and_then(|o| o.get(name)) == Some(value);
        if !stays {
            set(&object, name, value.as_str().into());
        }
    }
}

fn switch(entry: &CstObject, enabled: bool) {
    match entry.get("disabled") {
        Some(_) if entry.get("enabled").is_none() => set(entry, "disabled", (!enabled).into()),
        other => {
            if other.is_some() && enabled {
                set(entry, "disabled", false.into());
            }
            // Absent means on.
            if !enabled || entry.get("enabled").is_some() {
                set(entry, "enabled", enabled.into());
            }
        }
    }
}
