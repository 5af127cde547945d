//! Changes one entry in the text of `mcp.json` and leaves every other byte as it was: comments, order, spacing,
//! unknown keys. Works on text only; the file is written by its caller.

use std::collections::BTreeMap;

use evi_domain::{
    ConfigProblem, TransportSpec, UpstreamOptions, UpstreamSpec,
    reference::{self, Part},
};
use jsonc_parser::{
    CollectOptions,
    ast::{Object, Value},
    common::Ranged as _,
    parse_to_ast,
};
use serde_json::{Map, Value as Json};

use super::{
    json_text::JsonText,
    mcp_options,
    mcp_read::{Fields, Names, ROOT_KEYS, dialect, modern_reference, scalar},
    source::Source,
};
use crate::StoreError;

/// One file under edit.
pub(crate) struct McpEdit {
    json: JsonText,
    file: String,
    moved: Vec<Moved>,
}

/// A plain value that an edit replaced by a reference to the keychain.
pub(crate) struct Moved {
    plain: String,
    reference: String,
}

/// Where something is in the text.
type Place = Vec<usize>;

/// Where an entry is, and in which kind of container.
struct Slot {
    place: Place,
    in_list: bool,
}

fn position(object: &Object<'_>, key: &str) -> Option<usize> {
    object.properties.iter().position(|p| p.name.as_str() == key)
}

fn within(place: &[usize], index: usize) -> Place {
    [place, &[index]].concat()
}

/// A text or number that could be a secret: neither empty nor a reference itself.
fn plain(value: &Value<'_>) -> Option<String> {
    let text = scalar(value).filter(|_| !matches!(value, Value::BooleanLit(_)))?;
    let read = modern_reference(text.clone());
    let refers = |part: &Part<'_>| matches!(part, Part::Env(_, None) | Part::Secret(_));
    (!reference::parse(&read).iter().all(refers)).then_some(text)
}

/// A backup's text without plain values that are in the keychain now; `None` where it cannot be read.
pub(crate) fn without_plain(backup: &Source, moved: &[Moved]) -> Option<Vec<u8>> {
    let mut json = JsonText::new(backup.text());
    json.replace_each(|value| {
        let text = plain(value)?;
        moved.iter().find(|m| m.plain == text).map(|m| m.reference.as_str().into())
    })?;
    Some(backup.encode(json.as_str()))
}

impl McpEdit {
    /// Opens a file's text.
    ///
    /// # Errors
    /// When the text as a whole cannot be read: then nothing may be written.
    pub(crate) fn open(source: &Source, file: String) -> Result<Self, StoreError> {
        super::mcp_read::read(source).map_err(StoreError::Malformed)?;
        Ok(Self { json: JsonText::new(source.text()), file, moved: Vec::new() })
    }

    /// The text as it is now.
    pub(crate) fn text(&self) -> &str {
        self.json.as_str()
    }

    /// What is in the keychain now and was plain in the text before.
    pub(crate) fn moved(&self) -> &[Moved] {
        &self.moved
    }

    /// Where the servers are: lists, or objects by name.
    fn containers(&self) -> Vec<(Place, bool)> {
        let found = self.json.read(&[], |root| match root {
            Value::Array(_) => vec![(Vec::new(), true)],
            Value::Object(root) => ROOT_KEYS
                .iter()
                .filter_map(|key| {
                    let index = position(root, key)?;
                    match root.properties.get(index)?.value {
                        Value::Array(_) => Some((vec![index], true)),
                        Value::Object(_) => Some((vec![index], false)),
                        _ => None,
                    }
                })
                .collect(),
            _ => Vec::new(),
        });
        found.unwrap_or_default()
    }

    fn slots(&self) -> Vec<(String, Slot)> {
        let mut names = Names::default();
        let mut slots = Vec::new();
        for (container, in_list) in self.containers() {
            let own: Vec<Option<String>> = self
                .json
                .read(&container, |value| match value {
                    Value::Array(list) => list.elements.iter().map(own_name).collect(),
                    Value::Object(map) => {
                        map.properties.iter().map(|p| Some(p.name.as_str().to_owned())).collect()
                    }
                    _ => Vec::new(),
                })
                .unwrap_or_default();
            for (index, own) in own.into_iter().enumerate() {
                let own = own.filter(|name| !name.trim().is_empty());
                let slot = Slot { place: within(&container, index), in_list };
                slots.push((names.next(own.as_deref()).0, slot));
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

    fn is_object(&self, place: &[usize]) -> bool {
        self.json.read(place, |v| v.as_object().is_some()).unwrap_or_default()
    }

    /// Where a key of an object has its value.
    fn key(&self, object: &[usize], key: &str) -> Option<Place> {
        let index = self.json.read(object, |v| position(v.as_object()?, key)).flatten()?;
        Some(within(object, index))
    }

    fn unclear(&self, message: String) -> StoreError {
        StoreError::Unclear(ConfigProblem { file: self.file.clone(), at: None, message, whole_file: false })
    }

    /// An edit of text that found nothing where something was read just before.
    fn done(&self, edit: Option<()>) -> Result<(), StoreError> {
        edit.ok_or_else(|| self.unclear("could not change the text".into()))
    }

    /// Adds an entry, or changes the one of that name.
    pub(crate) fn add(
        &mut self,
        spec: &UpstreamSpec,
        enabled: bool,
        overwrite: bool,
    ) -> Result<(), StoreError> {
        let name = spec.name.as_str();
        match self.find(name) {
            Some(_) if !overwrite => Err(StoreError::Exists { name: name.to_owned() }),
            Some(slot) if !self.is_object(&slot.place) => {
                let entry = if slot.in_list { element(spec, enabled) } else { property(spec, enabled) };
                self.put(&slot.place, &entry)
            }
            Some(slot) => self.overwrite(&slot, spec, enabled),
            None => self.append(spec, enabled),
        }
    }

    fn append(&mut self, spec: &UpstreamSpec, enabled: bool) -> Result<(), StoreError> {
        let name = spec.name.as_str();
        let added = match self.containers().into_iter().next() {
            Some((list, true)) => self.json.insert(&list, false, None, &element(spec, enabled)),
            Some((map, false)) => self.json.insert(&map, false, Some(name), &property(spec, enabled)),
            None if self.json.read(&[], |_| ()).is_none() => self.json.begin(&element(spec, enabled)),
            None => {
                let mut servers = Map::new();
                servers.insert(name.to_owned(), property(spec, enabled));
                let found = ROOT_KEYS.iter().find_map(|key| self.key(&[], key));
                // A key that is there with something else in it is not ours to replace.
                let free = ROOT_KEYS.iter().filter_map(|key| self.key(&[], key)).all(|place| {
                    self.json.read(&place, |v| v.as_null_keyword().is_some()).unwrap_or_default()
                });
                if !free {
                    return Err(self.unclear("\"mcpServers\" is neither an object nor a list".into()));
                }
                match found {
                    Some(place) => self.json.replace(&place, &servers.into()),
                    None => self.json.insert(&[], false, Some(ROOT_KEYS[0]), &servers.into()),
                }
            }
        };
        self.done(added)
    }

    fn overwrite(&mut self, slot: &Slot, spec: &UpstreamSpec, enabled: bool) -> Result<(), StoreError> {
        let entry = slot.place.as_slice();
        let has = |key: &str| self.key(entry, key).is_some();
        let kind_key = if has("transport") || (slot.in_list && !has("type")) { "transport" } else { "type" };
        // What already says the same stays as it is written.
        let old = self.fields(entry, |fields| fields.transport().ok());
        match &spec.transport {
            TransportSpec::Stdio { command, args, env, cwd } => {
                self.drop_keys(entry, &["url", "headers"])?;
                if self.key(entry, kind_key).is_some() {
                    self.set(entry, kind_key, &"stdio".into())?;
                }
                let (old_args, old_env) = match &old {
                    Some(TransportSpec::Stdio { args, env, .. }) => (Some(args), Some(env)),
                    _ => (None, None),
                };
                self.set(entry, "command", &command.as_str().into())?;
                if old_args != Some(args) {
                    self.set_list(entry, "args", args)?;
                }
                self.set_map(entry, "env", env, old_env)?;
                match cwd {
                    Some(cwd) => self.set(entry, "cwd", &cwd.as_str().into())?,
                    None => self.drop_keys(entry, &["cwd"])?,
                }
            }
            TransportSpec::Http { url, headers } | TransportSpec::Sse { url, headers } => {
                self.drop_keys(entry, &["command", "args", "env", "cwd"])?;
                if old.as_ref().map(TransportSpec::kind) != Some(spec.transport.kind()) {
                    self.set(entry, kind_key, &spec.transport.kind().into())?;
                }
                let old_headers = match &old {
                    Some(TransportSpec::Http { headers, .. } | TransportSpec::Sse { headers, .. }) => {
                        Some(headers)
                    }
                    _ => None,
                };
                self.set(entry, "url", &url.as_str().into())?;
                self.set_map(entry, "headers", headers, old_headers)?;
            }
        }
        self.set_options(entry, &spec.options)?;
        self.switch(entry, enabled)
    }

    /// What already says the same stays as it is written, under whatever key.
    fn set_options(&mut self, entry: &[usize], new: &UpstreamOptions) -> Result<(), StoreError> {
        let old = self.fields(entry, |fields| mcp_options::read(fields).ok());
        let old_keys = old.as_ref().map(mcp_options::keys);
        for (at, (key, value)) in mcp_options::keys(new).into_iter().enumerate() {
            if old_keys.as_ref().is_some_and(|old| old[at].1 == value) {
                continue;
            }
            if key == mcp_options::CALL {
                self.drop_keys(entry, &[mcp_options::TIMEOUT])?;
            }
            match value {
                Some(value) => self.set(entry, key, &value)?,
                None => self.drop_keys(entry, &[key])?,
            }
        }
        Ok(())
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, name: &str) -> Result<(), StoreError> {
        let slot = self.must_find(name)?;
        let removed = self.json.remove(&slot.place);
        self.done(removed)
    }

    /// Switches an entry, also one that is not clear otherwise.
    pub(crate) fn set_enabled(&mut self, name: &str, enabled: bool) -> Result<(), StoreError> {
        let slot = self.must_find(name)?;
        if !self.is_object(&slot.place) {
            return Err(self.unclear(format!("server {name} is not an object")));
        }
        self.switch(&slot.place, enabled)
    }

    /// Gives an entry another name and changes nothing else.
    pub(crate) fn rename(&mut self, old: &str, new: &str) -> Result<(), StoreError> {
        let slot = self.must_find(old)?;
        if old != new && self.find(new).is_some() {
            return Err(StoreError::Exists { name: new.to_owned() });
        }
        if slot.in_list && !self.is_object(&slot.place) {
            return Err(self.unclear(format!("server {old} is not an object")));
        }
        let renamed = match (slot.in_list, self.key(&slot.place, "name")) {
            (false, _) => self.json.rename(&slot.place, new),
            (true, Some(name)) => self.json.replace(&name, &new.into()),
            (true, None) => self.json.insert(&slot.place, true, Some("name"), &new.into()),
        };
        self.done(renamed)
    }

    /// Looks at an entry as the reader understands it.
    fn fields<R>(&self, entry: &[usize], look: impl FnOnce(&Fields<'_, '_>) -> Option<R>) -> Option<R> {
        let (start, end) = self.json.read(entry, |v| (v.start(), v.end()))?;
        let source = Source::of_text(self.text().get(start..end)?.to_owned());
        let parsed = parse_to_ast(source.text(), &CollectOptions::default(), &dialect()).ok()?;
        let Some(Value::Object(object)) = &parsed.value else { return None };
        look(&Fields { source: &source, entry: object })
    }

    /// Replaces a value, and not where it says that already.
    fn put(&mut self, place: &[usize], value: &Json) -> Result<(), StoreError> {
        let (same, plain) = self
            .json
            .read(place, |old| {
                let same = match (old, value) {
                    (Value::StringLit(old), Json::String(new)) => old.value == *new,
                    (Value::BooleanLit(old), Json::Bool(new)) => old.value == *new,
                    _ => false,
                };
                (same, plain(old))
            })
            .unwrap_or_default();
        if same {
            return Ok(());
        }
        if let (Some(plain), Json::String(new)) = (plain, value)
            && !reference::secrets_in(new).is_empty()
        {
            self.moved.push(Moved { plain, reference: new.clone() });
        }
        let replaced = self.json.replace(place, value);
        self.done(replaced)
    }

    fn drop_keys(&mut self, entry: &[usize], keys: &[&str]) -> Result<(), StoreError> {
        for key in keys {
            if let Some(place) = self.key(entry, key) {
                let removed = self.json.remove(&place);
                self.done(removed)?;
            }
        }
        Ok(())
    }

    /// Sets a key, in its place where it is there.
    fn set(&mut self, object: &[usize], key: &str, value: &Json) -> Result<(), StoreError> {
        match self.key(object, key) {
            Some(place) => self.put(&place, value),
            None => {
                let inserted = self.json.insert(object, false, Some(key), value);
                self.done(inserted)
            }
        }
    }

    /// Changes a list of texts one by one, so that comments and form of it stay.
    fn set_list(&mut self, entry: &[usize], key: &str, new: &[String]) -> Result<(), StoreError> {
        let list = self.key(entry, key).and_then(|place| {
            let old: Vec<Option<String>> =
                self.json.read(&place, |v| Some(v.as_array()?.elements.iter().map(scalar).collect()))??;
            Some((place, old))
        });
        let Some((list, old)) = list.filter(|(_, old)| !old.is_empty()) else {
            return self.set(entry, key, &texts(new));
        };
        for index in (new.len()..old.len()).rev() {
            let removed = self.json.remove(&within(&list, index));
            self.done(removed)?;
        }
        for (index, text) in new.iter().enumerate() {
            match old.get(index) {
                Some(old) if old.as_ref() == Some(text) => {}
                Some(_) => self.put(&within(&list, index), &text.as_str().into())?,
                None => {
                    let inserted = self.json.insert(&list, false, None, &text.as_str().into());
                    self.done(inserted)?;
                }
            }
        }
        Ok(())
    }

    /// Changes an object of texts key by key, so that comments and order in it stay.
    fn set_map(
        &mut self,
        entry: &[usize],
        key: &str,
        new: &BTreeMap<String, String>,
        old: Option<&BTreeMap<String, String>>,
    ) -> Result<(), StoreError> {
        if old == Some(new) {
            return Ok(());
        }
        if new.is_empty() {
            return self.drop_keys(entry, &[key]);
        }
        let Some(object) = self.key(entry, key).filter(|place| self.is_object(place)) else {
            return self.set(entry, key, &map(new));
        };
        let names: Vec<String> = self
            .json
            .read(&object, |v| {
                Some(v.as_object()?.properties.iter().map(|p| p.name.as_str().to_owned()).collect())
            })
            .flatten()
            .unwrap_or_default();
        for (index, _) in names.iter().enumerate().rev().filter(|(_, name)| !new.contains_key(*name)) {
            let removed = self.json.remove(&within(&object, index));
            self.done(removed)?;
        }
        for (name, value) in new {
            let stays = names.contains(name) && old.and_then(|o| o.get(name)) == Some(value);
            if !stays {
                self.set(&object, name, &value.as_str().into())?;
            }
        }
        Ok(())
    }

    fn switch(&mut self, entry: &[usize], enabled: bool) -> Result<(), StoreError> {
        if self.fields(entry, |fields| fields.enabled().ok()) == Some(enabled) {
            return Ok(());
        }
        let (on, off) = (self.key(entry, "enabled"), self.key(entry, "disabled"));
        match off {
            Some(off) if on.is_none() => return self.put(&off, &(!enabled).into()),
            Some(off) if enabled => self.put(&off, &false.into())?,
            _ => {}
        }
        // Absent means on.
        if !enabled || on.is_some() {
            self.set(entry, "enabled", &enabled.into())?;
        }
        Ok(())
    }
}

fn own_name(element: &Value<'_>) -> Option<String> {
    match &element.as_object()?.get("name")?.value {
        Value::StringLit(name) => Some(name.value.clone().into_owned()),
        _ => None,
    }
}

/// An entry of a list, in the shape in which the original writes it.
fn element(spec: &UpstreamSpec, enabled: bool) -> Json {
    let mut fields = Map::new();
    fields.insert("name".into(), spec.name.as_str().into());
    fields.extend(entry_fields(spec, "transport"));
    fields.insert("enabled".into(), enabled.into());
    fields.into()
}

/// An entry of an object, in the shape that other programs know, too.
fn property(spec: &UpstreamSpec, enabled: bool) -> Json {
    let mut fields = entry_fields(spec, "type");
    if !enabled {
        fields.insert("enabled".into(), false.into());
    }
    fields.into()
}

/// The original writes no `transport` for a child process.
fn entry_fields(spec: &UpstreamSpec, kind_key: &str) -> Map<String, Json> {
    let mut fields = Map::new();
    let mut put = |key: &str, value: Json| drop(fields.insert(key.to_owned(), value));
    match &spec.transport {
        TransportSpec::Stdio { command, args, env, cwd } => {
            put("command", command.as_str().into());
            put("args", texts(args));
            if !env.is_empty() {
                put("env", map(env));
            }
            if let Some(cwd) = cwd {
                put("cwd", cwd.as_str().into());
            }
        }
        TransportSpec::Http { url, headers } | TransportSpec::Sse { url, headers } => {
            put(kind_key, spec.transport.kind().into());
            put("url", url.as_str().into());
            if !headers.is_empty() {
                put("headers", map(headers));
            }
        }
    }
    for (key, value) in mcp_options::keys(&spec.options) {
        if let Some(value) = value {
            put(key, value);
        }
    }
    fields
}

fn texts(texts: &[String]) -> Json {
    texts.iter().map(String::as_str).collect()
}

fn map(texts: &BTreeMap<String, String>) -> Json {
    texts.iter().map(|(k, v)| (k.clone(), Json::from(v.as_str()))).collect()
}
