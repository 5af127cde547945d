//! Reads `mcp.json` leniently: what is clear is taken, every entry that is not clear keeps its place and gets a
//! problem with line and column. Writes nothing and starts nothing.

use std::collections::{BTreeMap, BTreeSet};

use evi_domain::{ConfigProblem, TransportSpec, UpstreamEntry, UpstreamName, UpstreamOptions, UpstreamSpec};
use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{Array, Object, ObjectProp, Value},
    common::Ranged as _,
    parse_to_ast,
};

use super::{mcp_options, source::Source};

/// Comments and trailing commas are understood; anything else that is not JSON is a sign of a damaged file.
pub(crate) fn dialect() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// The keys under which an object holds the servers, in the order in which they are looked for.
pub(crate) const ROOT_KEYS: [&str; 2] = ["mcpServers", "servers"];

/// What is in a file: its entries in order, and what is wrong outside of any entry.
#[derive(Default)]
pub(crate) struct McpFile {
    pub(crate) entries: Vec<UpstreamEntry>,
    pub(crate) problems: Vec<ConfigProblem>,
}

/// Reads a whole file.
///
/// # Errors
/// When it is not JSON, or its root is neither a list nor an object.
pub(crate) fn read(source: &Source) -> Result<McpFile, ConfigProblem> {
    let parsed = parse_to_ast(source.text(), &CollectOptions::default(), &dialect())
        .map_err(|e| source.unusable(e.range().start, e.kind().to_string()))?;
    let mut reader = Reader { source, names: Names::default(), file: McpFile::default() };
    match &parsed.value {
        None => {}
        Some(Value::Array(list)) => reader.list(list),
        Some(Value::Object(root)) => reader.root(root),
        Some(other) => {
            let what = kind(other);
            return Err(source.unusable(
                other.start(),
                format!("expected a list of servers or an object with \"mcpServers\", found {what}"),
            ));
        }
    }
    Ok(reader.file)
}

/// Gives each entry of a file the name by which it is shown and addressed; the edits do the same.
#[derive(Default)]
pub(crate) struct Names {
    seen: BTreeSet<String>,
    count: usize,
}

impl Names {
    /// The entry's name: its own, `entry <n>` where it has none, `<name> (2)` where another had it first. The
    /// second part says whether the name is its own.
    pub(crate) fn next(&mut self, own: Option<&str>) -> (String, bool) {
        self.count += 1;
        let base = own.map_or_else(|| format!("entry {}", self.count), str::to_owned);
        if self.seen.insert(base.clone()) {
            return (base, own.is_some());
        }
        let mut n = 2;
        loop {
            let name = format!("{base} ({n})");
            if self.seen.insert(name.clone()) {
                return (name, false);
            }
            n += 1;
        }
    }
}

struct Reader<'s> {
    source: &'s Source,
    names: Names,
    file: McpFile,
}

impl Reader<'_> {
    fn root(&mut self, root: &Object<'_>) {
        let mut found = false;
        for key in ROOT_KEYS {
            match root.get(key).map(|p| &p.value) {
                None | Some(Value::NullKeyword(_)) => continue,
                Some(Value::Object(servers)) => self.map(servers),
                Some(Value::Array(list)) => self.list(list),
                Some(other) => {
                    let message = format!("{key:?} must be an object or a list, found {}", kind(other));
                    self.file.problems.push(self.source.problem(other.start(), message));
                }
            }
            found = true;
        }
        if !found && let Some(first) = root.properties.first() {
            let message = "no \"mcpServers\" in this object, so there are no servers".to_owned();
            self.file.problems.push(self.source.problem(first.start(), message));
        }
    }

    fn list(&mut self, list: &Array<'_>) {
        for value in &list.elements {
            let name = match value {
                Value::Object(entry) => text_of(entry, "name"),
                _ => None,
            };
            self.entry(name.as_deref(), value.start(), value);
        }
    }

    fn map(&mut self, servers: &Object<'_>) {
        for property in &servers.properties {
            self.entry(Some(property.name.as_str()), property.start(), &property.value);
        }
    }

    fn entry(&mut self, own: Option<&str>, start: usize, value: &Value<'_>) {
        let own = own.filter(|n| !n.trim().is_empty());
        let (name, is_own) = self.names.next(own);
        let name = UpstreamName::new(name);
        let (enabled, read) = match value {
            Value::Object(entry) => {
                let fields = Fields { source: self.source, entry };
                let enabled = fields.enabled();
                (enabled.as_ref().copied().unwrap_or(false), enabled.and_then(|_| fields.spec()))
            }
            other => {
                let message = format!("a server must be an object, found {}", kind(other));
                (false, Err(self.source.problem(other.start(), message)))
            }
        };
        let spec = match (own, is_own) {
            (Some(own), false) => {
                Err(self.source.problem(start, format!("another server has the name {own:?}")))
            }
            (None, _) => read.and_then(|_| Err(self.source.problem(start, "this server has no name"))),
            (Some(_), true) => {
                read.map(|(transport, options)| UpstreamSpec { name: name.clone(), transport, options })
            }
        };
        if let Err(problem) = &spec {
            self.file.problems.push(problem.clone());
        }
        self.file.entries.push(UpstreamEntry { name, enabled, plugin: None, spec });
    }
}

/// One entry's keys, read by what they mean.
pub(crate) struct Fields<'a, 'text> {
    pub(crate) source: &'a Source,
    pub(crate) entry: &'a Object<'text>,
}

type Read<T> = Result<T, ConfigProblem>;

impl<'a, 'text> Fields<'a, 'text> {
    /// A key that is there and not null.
    pub(crate) fn get(&self, key: &str) -> Option<&'a ObjectProp<'text>> {
        self.entry.get(key).filter(|p| !matches!(p.value, Value::NullKeyword(_)))
    }

    fn wrong(&self, value: &Value<'_>, key: &str, wanted: &str) -> ConfigProblem {
        self.source.problem(value.start(), format!("{key:?} must be {wanted}, found {}", kind(value)))
    }

    /// The switch: `enabled`, or its opposite `disabled`; on where neither is there.
    pub(crate) fn enabled(&self) -> Read<bool> {
        Ok(self.switch("enabled")?.unwrap_or(true) && !self.switch("disabled")?.unwrap_or(false))
    }

    fn switch(&self, key: &str) -> Read<Option<bool>> {
        let Some(property) = self.get(key) else { return Ok(None) };
        let word = match &property.value {
            Value::BooleanLit(b) => return Ok(Some(b.value)),
            Value::StringLit(s) => s.value.trim().to_ascii_lowercase(),
            Value::NumberLit(n) => n.value.to_owned(),
            _ => String::new(),
        };
        match word.as_str() {
            "true" | "yes" | "on" | "1" => Ok(Some(true)),
            "false" | "no" | "off" | "0" => Ok(Some(false)),
            _ => Err(self.wrong(&property.value, key, "true or false")),
        }
    }

    /// Everything that it says of the server.
    fn spec(&self) -> Read<(TransportSpec, UpstreamOptions)> {
        Ok((self.transport()?, mcp_options::read(self)?))
    }

    /// How to reach the server.
    pub(crate) fn transport(&self) -> Read<TransportSpec> {
        let (command, url) = (self.filled("command")?, self.filled("url")?);
        let kind = match self.kind()? {
            Some(kind) => kind,
            None => match (&command, &url) {
                (Some(_), Some(_)) => {
                    let message = "both \"command\" and \"url\" are given: say which with \"transport\"";
                    return Err(self.source.problem(self.entry.start(), message));
                }
                (None, Some(_)) => "http",
                _ => "stdio",
            },
        };
        let needs = |key: &str| self.source.problem(self.entry.start(), format!("{key:?} is missing"));
        match kind {
            "stdio" => Ok(TransportSpec::Stdio {
                command: command.ok_or_else(|| match url {
                    Some(_) => needs("command"),
                    None => {
                        self.source.problem(self.entry.start(), "neither \"command\" nor \"url\" is given")
                    }
                })?,
                args: self.args()?,
                env: self.texts("env")?,
                cwd: self.filled("cwd")?,
            }),
            "sse" => Ok(TransportSpec::Sse {
                url: url.ok_or_else(|| needs("url"))?,
                headers: self.texts("headers")?,
            }),
            _ => Ok(TransportSpec::Http {
                url: url.ok_or_else(|| needs("url"))?,
                headers: self.texts("headers")?,
            }),
        }
    }

    /// `transport`, or its synonym `type`.
    fn kind(&self) -> Read<Option<&'static str>> {
        let Some(key) = ["transport", "type"].into_iter().find(|k| self.get(k).is_some()) else {
            return Ok(None);
        };
        let Some(text) = self.text(key)? else { return Ok(None) };
        let word: String = text.chars().filter(char::is_ascii_alphanumeric).collect();
        match word.to_ascii_lowercase().as_str() {
            "" => Ok(None),
            "stdio" | "local" => Ok(Some("stdio")),
            "http" | "streamablehttp" => Ok(Some("http")),
            "sse" => Ok(Some("sse")),
            _ => Err(self
                .source
                .problem(self.start(key), format!("unknown {key} {text:?}: expected stdio, http or sse"))),
        }
    }

    pub(crate) fn start(&self, key: &str) -> usize {
        self.get(key).map_or_else(|| self.entry.start(), |p| p.value.start())
    }

    fn text(&self, key: &str) -> Read<Option<String>> {
        match self.get(key).map(|p| &p.value) {
            None => Ok(None),
            Some(Value::StringLit(s)) => Ok(Some(s.value.clone().into_owned())),
            Some(other) => Err(self.wrong(other, key, "text")),
        }
    }

    /// A text that is not blank.
    pub(crate) fn filled(&self, key: &str) -> Read<Option<String>> {
        Ok(self.text(key)?.filter(|t| !t.trim().is_empty()))
    }

    fn args(&self) -> Read<Vec<String>> {
        match self.get("args").map(|p| &p.value) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => list
                .elements
                .iter()
                .map(|v| scalar(v).ok_or_else(|| self.wrong(v, "args", "a list of texts")))
                .collect(),
            Some(Value::StringLit(line)) => shell_words::split(&line.value)
                .map_err(|_| self.source.problem(line.start(), "a quote in \"args\" is not closed")),
            Some(other) => Err(self.wrong(other, "args", "a list of texts")),
        }
    }

    /// `env` or `headers`. Values of the form `env:VAR` are the original's way to write `${env:VAR}`.
    fn texts(&self, key: &str) -> Read<BTreeMap<String, String>> {
        match self.get(key).map(|p| &p.value) {
            None => Ok(BTreeMap::new()),
            Some(Value::Object(map)) => map
                .properties
                .iter()
                .map(|p| match scalar(&p.value) {
                    Some(text) => Ok((p.name.as_str().to_owned(), modern_reference(text))),
                    None => {
                        let message = format!(
                            "{:?} in {key:?} must be text, found {}",
                            p.name.as_str(),
                            kind(&p.value)
                        );
                        Err(self.source.problem(p.value.start(), message))
                    }
                })
                .collect(),
            Some(other) => Err(self.wrong(other, key, "an object")),
        }
    }
}

/// `env:VAR` as `${env:VAR}`; anything else as it is.
pub(crate) fn modern_reference(text: String) -> String {
    let Some(name) = text.strip_prefix("env:") else { return text };
    let mut chars = name.chars();
    let head = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if head && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
        format!("${{env:{name}}}")
    } else {
        text
    }
}

/// A text, or a number or truth value as the text that was meant.
pub(crate) fn scalar(value: &Value<'_>) -> Option<String> {
    match value {
        Value::StringLit(s) => Some(s.value.clone().into_owned()),
        Value::NumberLit(n) => Some(n.value.to_owned()),
        Value::BooleanLit(b) => Some(b.value.to_string()),
        _ => None,
    }
}

fn text_of(entry: &Object<'_>, key: &str) -> Option<String> {
    match &entry.get(key)?.value {
        Value::StringLit(s) => Some(s.value.clone().into_owned()),
        _ => None,
    }
}

fn kind(value: &Value<'_>) -> &'static str {
    match value {
        Value::StringLit(_) => "text",
        Value::NumberLit(_) => "a number",
        Value::BooleanLit(_) => "true or false",
        Value::Object(_) => "an object",
        Value::Array(_) => "a list",
        Value::NullKeyword(_) => "null",
    }
}
