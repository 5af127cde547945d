//! Changes single keys in the text of `config.toml` and keeps comments, order and unknown keys. Works on text only;
//! the file is written by its caller.

use evi_domain::{ConfigProblem, Profile, ShareMode, UpstreamName};
use toml_edit::{Array, Document, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::{
    source::Source,
    toml_read::{mode_word, parse, shared},
};
use crate::StoreError;

/// A value of `config.toml`.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
    /// A list of texts.
    List(Vec<String>),
}

impl From<&ConfigValue> for Value {
    fn from(value: &ConfigValue) -> Self {
        match value {
            ConfigValue::Bool(v) => Self::from(*v),
            ConfigValue::Int(v) => Self::from(*v),
            ConfigValue::Float(v) => Self::from(*v),
            ConfigValue::Text(v) => Self::from(v),
            ConfigValue::List(v) => Self::from_iter(v),
        }
    }
}

macro_rules! from_value {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for ConfigValue {
            fn from(value: $from) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}
from_value!(bool => Bool, i64 => Int, u16 => Int, u32 => Int, f64 => Float, &str => Text, String => Text, Vec<String> => List);

/// One file under edit.
pub(crate) struct TomlEdit {
    document: DocumentMut,
    file: String,
}

impl TomlEdit {
    /// Opens a file's text.
    ///
    /// # Errors
    /// When the text is not TOML: then nothing may be written.
    pub(crate) fn open(source: &Source, file: String) -> Result<Self, StoreError> {
        let document = parse(source).map(Document::into_mut).map_err(StoreError::Malformed)?;
        Ok(Self { document, file })
    }

    pub(crate) fn text(&self) -> String {
        self.document.to_string()
    }

    fn unclear(&self, message: String) -> StoreError {
        StoreError::Unclear(ConfigProblem { file: self.file.clone(), at: None, message, whole_file: false })
    }

    /// The table that holds the last key of `path`; made where `create` says so.
    fn parent(&mut self, path: &[&str], create: bool) -> Result<Option<&mut dyn TableLike>, StoreError> {
        let file = self.file.clone();
        let mut table: &mut dyn TableLike = self.document.as_table_mut();
        for key in path.split_last().map_or(&[][..], |(_, parents)| parents) {
            if !table.contains_key(key) {
                if !create {
                    return Ok(None);
                }
                let mut fresh = Table::new();
                // Only a table that holds a value of its own needs a header.
                fresh.set_implicit(true);
                table.insert(key, Item::Table(fresh));
            }
            table = table.get_mut(key).and_then(Item::as_table_like_mut).ok_or_else(|| {
                let message = format!("{key:?} is not a table");
                StoreError::Unclear(ConfigProblem {
                    file: file.clone(),
                    at: None,
                    message,
                    whole_file: false,
                })
            })?;
        }
        Ok(Some(table))
    }

    /// Sets one key; its place and the comment behind it stay.
    pub(crate) fn set(&mut self, path: &[&str], value: &ConfigValue) -> Result<(), StoreError> {
        let Some(key) = path.last() else { return Err(self.unclear("no key was given".to_owned())) };
        let shown = path.join(".");
        let file = self.file.clone();
        let Some(table) = self.parent(path, true)? else { return Ok(()) };
        let mut new = Value::from(value);
        match table.get_mut(key) {
            None => {
                table.insert(key, Item::Value(new));
            }
            Some(Item::Value(old)) => {
                *new.decor_mut() = old.decor().clone();
                *old = new;
            }
            Some(old) if old.is_none() => *old = Item::Value(new),
            Some(_) => {
                let message = format!("{shown} is a table");
                return Err(StoreError::Unclear(ConfigProblem {
                    file,
                    at: None,
                    message,
                    whole_file: false,
                }));
            }
        }
        Ok(())
    }

    /// Takes one key out; none is no error.
    pub(crate) fn unset(&mut self, path: &[&str]) -> Result<(), StoreError> {
        if let (Some(key), Some(table)) = (path.last(), self.parent(path, false)?) {
            table.remove(key);
        }
        Ok(())
    }

    /// Puts a text into a list, or takes it out; the others stay as they are written. A list that is not there is
    /// made where it is needed.
    pub(crate) fn list(&mut self, path: &[&str], text: &str, present: bool) -> Result<(), StoreError> {
        let not_a_list = self.unclear(format!("{} is not a list", path.join(".")));
        let Some(key) = path.last() else { return Err(not_a_list) };
        let Some(table) = self.parent(path, present)? else { return Ok(()) };
        if !table.contains_key(key) {
            if !present {
                return Ok(());
            }
            table.insert(key, Item::Value(Value::Array(Array::new())));
        }
        let list = table.get_mut(key).and_then(Item::as_array_mut).ok_or(not_a_list)?;
        let found = list.iter().any(|v| v.as_str() == Some(text));
        match (found, present) {
            (false, true) => push(list, Value::from(text)),
            (true, false) => list.retain(|v| v.as_str() != Some(text)),
            _ => {}
        }
        Ok(())
    }

    /// Shares a server in a profile with a mode, or no longer.
    pub(crate) fn share(
        &mut self,
        profile: &str,
        upstream: &UpstreamName,
        mode: Option<ShareMode>,
    ) -> Result<(), StoreError> {
        let path = ["serve", "profiles", profile, "servers"];
        if mode.is_none() && self.parent(&path, false)?.is_none() {
            return Ok(());
        }
        let is_new = self.parent(&path, false)?.is_none();
        if is_new {
            // From now on the file says what is shared, so it says all of it.
            self.set(
                &["serve", "profiles", profile, "categories"],
                &ConfigValue::List(Profile::default().categories),
            )?;
        }
        let not_a_list = self.unclear(format!("{} is not a list", path.join(".")));
        let Some(table) = self.parent(&path, true)? else { return Ok(()) };
        // Where plain names mean something else, full access has to be spelt out.
        let spell_out = table.contains_key("read_only");
        if !table.contains_key("servers") {
            table.insert("servers", Item::Value(Value::Array(Array::new())));
        }
        let list = table.get_mut("servers").and_then(Item::as_array_mut).ok_or(not_a_list)?;
        let found = list.iter().position(|v| shared_name(v) == Some(upstream.as_str()));
        match (found, mode) {
            (None, None) => {}
            (Some(_), None) => list.retain(|v| shared_name(v) != Some(upstream.as_str())),
            (None, Some(mode)) => push(list, element(upstream, mode, spell_out)),
            (Some(at), Some(mode)) => {
                let same = list.get(at).is_some_and(|v| match shared(v) {
                    Ok((_, Some(old))) => old == mode,
                    Ok((_, None)) => mode == ShareMode::Full && !spell_out,
                    Err(_) => false,
                });
                if !same {
                    replace(list, at, mode, element(upstream, mode, spell_out));
                }
            }
        }
        Ok(())
    }
}

fn shared_name(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.as_inline_table()?.get("name")?.as_str())
}

fn element(upstream: &UpstreamName, mode: ShareMode, spell_out: bool) -> Value {
    if mode == ShareMode::Full && !spell_out {
        return Value::from(upstream.as_str());
    }
    let mut table = InlineTable::new();
    table.insert("name", upstream.as_str().into());
    table.insert("mode", mode_word(mode).into());
    Value::InlineTable(table)
}

/// Appends an element in the manner of those that are there: one a line where they are.
fn push(list: &mut Array, value: Value) {
    match list.iter().last().map(|last| last.decor().clone()) {
        Some(decor)
            if list.len() > 1
                || decor.prefix().and_then(|p| p.as_str()).is_some_and(|p| p.contains('\n')) =>
        {
            let mut value = value;
            // A comment above the last element is about that one.
            let prefix = decor.prefix().and_then(|p| p.as_str()).unwrap_or_default();
            let bare = match prefix.rfind('\n') {
                Some(at) if prefix.contains('#') => &prefix[at..],
                _ => prefix,
            };
            // A comment behind the last element stays behind it.
            match list.trailing().as_str().filter(|t| t.contains('#')).map(str::trim_end) {
                Some(comment) => {
                    value.decor_mut().set_prefix(format!("{comment}{bare}"));
                    list.set_trailing("\n");
                }
                None => value.decor_mut().set_prefix(bare),
            }
            list.push_formatted(value);
        }
        _ => list.push(value),
    }
}

/// Changes the mode in an element that is a table already, so that its other keys stay; else the whole element.
fn replace(list: &mut Array, at: usize, mode: ShareMode, value: Value) {
    match list.get_mut(at) {
        Some(Value::InlineTable(table)) => {
            table.insert("mode", mode_word(mode).into());
        }
        Some(_) => {
            list.replace(at, value);
        }
        None => {}
    }
}
