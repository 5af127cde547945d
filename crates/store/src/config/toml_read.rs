//! Reads `config.toml`: what is of the right type is taken, the rest becomes problems with line and column.
//! Writes nothing; unknown keys are nobody's business here.

use std::collections::{BTreeMap, BTreeSet};

use evi_domain::{
    Config, ConfigProblem, GatewayConfig, LlmConfig, PluginSwitches, Policy, Profile, Rule, ShareMode,
    ToolsConfig, UpstreamName,
};
use toml_edit::{Document, Item, Table, TableLike, Value};

use super::{mcp_read::modern_reference, source::Source};

/// What chat may use without a question where the file says nothing.
const AUTO_APPROVE: [&str; 5] = ["fs", "code", "memory", "skills", "image"];

/// Reads the whole file, `None` for one that is not there. The `upstreams` and `plugins` are not in it.
///
/// # Errors
/// When it is not TOML as a whole.
pub(crate) fn read(source: Option<&Source>) -> Result<(Config, Vec<ConfigProblem>), ConfigProblem> {
    let nothing = Source::of_text(String::new());
    let source = source.unwrap_or(&nothing);
    let document = parse(source)?;
    let mut reader = Reader { source, root: document.as_table(), problems: Vec::new() };
    let config = Config {
        tools: reader.tools(),
        llm: reader.llm(),
        policy: reader.policy(),
        profiles: reader.profiles(),
        gateway: reader.gateway(),
        web_token: reader.section("web").and_then(|t| reader.text(t, "auth_token")).map(modern_reference),
        plugin_switches: reader.plugins(),
        plugins: Vec::new(),
        upstreams: Vec::new(),
    };
    let mut problems = reader.problems;
    problems.sort_by_key(|p| p.at);
    Ok((config, problems))
}

/// What holds where the file is there and cannot be read: nothing is approved of itself.
pub(crate) fn unknown() -> Config {
    Config {
        profiles: BTreeMap::from([("default".to_owned(), Profile::default())]),
        plugin_switches: PluginSwitches { unclear: true, ..PluginSwitches::default() },
        ..Config::default()
    }
}

/// Parses the text.
///
/// # Errors
/// When it is not TOML as a whole.
pub(crate) fn parse(source: &Source) -> Result<Document<&str>, ConfigProblem> {
    Document::parse(source.text()).map_err(|e| {
        source
            .unusable(e.span().map_or(0, |s| s.start), e.message().trim().replace('\n', ", ").to_lowercase())
    })
}

/// The share modes as they are written.
pub(crate) fn mode_word(mode: ShareMode) -> &'static str {
    match mode {
        ShareMode::Full => "full",
        ShareMode::ReadOnly => "read_only",
        ShareMode::Ask => "ask",
    }
}

/// The server that an element of `servers` names, and its mode where that is given.
pub(crate) fn shared(value: &Value) -> Result<(&str, Option<ShareMode>), &'static str> {
    if let Some(name) = value.as_str() {
        return Ok((name, None));
    }
    let Some(table) = value.as_inline_table() else { return Err("a server's name or { name, mode }") };
    let Some(name) = table.get("name").and_then(Value::as_str) else {
        return Err("{ name, mode } with a text name");
    };
    match table.get("mode") {
        None => Ok((name, None)),
        Some(mode) => match mode.as_str() {
            Some("full") => Ok((name, Some(ShareMode::Full))),
            Some("read_only") => Ok((name, Some(ShareMode::ReadOnly))),
            Some("ask") => Ok((name, Some(ShareMode::Ask))),
            _ => Err("a mode that is full, read_only or ask"),
        },
    }
}

struct Reader<'a> {
    source: &'a Source,
    root: &'a Table,
    problems: Vec<ConfigProblem>,
}

type Section<'a> = &'a dyn TableLike;

impl<'a> Reader<'a> {
    fn wrong(&mut self, span: Option<std::ops::Range<usize>>, message: impl Into<String>) {
        let problem = self.source.problem(span.map_or(0, |s| s.start), message);
        self.problems.push(problem);
    }

    fn section(&mut self, name: &str) -> Option<Section<'a>> {
        self.table(self.root, name)
    }

    fn table(&mut self, parent: Section<'a>, name: &str) -> Option<Section<'a>> {
        let item = parent.get(name)?;
        let table = item.as_table_like();
        if table.is_none() {
            self.wrong(item.span(), format!("{name:?} must be a table, found {}", item.type_name()));
        }
        table
    }

    fn value<T>(
        &mut self,
        table: Section<'a>,
        key: &str,
        wanted: &str,
        read: impl Fn(&'a Item) -> Option<T>,
    ) -> Option<T> {
        let item = table.get(key)?;
        let value = read(item);
        if value.is_none() {
            self.wrong(item.span(), format!("{key:?} must be {wanted}, found {}", item.type_name()));
        }
        value
    }

    fn flag(&mut self, table: Section<'a>, key: &str) -> Option<bool> {
        self.value(table, key, "true or false", Item::as_bool)
    }

    fn text(&mut self, table: Section<'a>, key: &str) -> Option<String> {
        self.value(table, key, "text", |i| i.as_str().map(str::to_owned))
    }

    fn whole<T: TryFrom<i64>>(&mut self, table: Section<'a>, key: &str) -> Option<T> {
        self.value(table, key, "a whole number in range", |i| T::try_from(i.as_integer()?).ok())
    }

    fn number(&mut self, table: Section<'a>, key: &str) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "a temperature is a small number")]
        self.value(table, key, "a number", |i| i.as_float().or_else(|| i.as_integer().map(|n| n as f64)))
    }

    /// A list of texts; elements of another type are problems of their own.
    fn texts(&mut self, table: Section<'a>, key: &str) -> Option<Vec<String>> {
        let list = self.value(table, key, "a list of texts", Item::as_array)?;
        let mut texts = Vec::new();
        for value in list {
            match value.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => {
                    self.wrong(value.span(), format!("{key:?} must hold texts, found {}", value.type_name()));
                }
            }
        }
        Some(texts)
    }

    fn tools(&mut self) -> ToolsConfig {
        let Some(table) = self.section("tools") else { return ToolsConfig::default() };
        ToolsConfig {
            mcp: self.flag(table, "mcp").unwrap_or_default(),
            mcp_allow: self.texts(table, "mcp_allow").unwrap_or_default(),
            disabled: self.texts(table, "disabled").unwrap_or_default(),
            mcp_max_output_chars: self.whole::<u32>(table, "mcp_max_output_chars").unwrap_or_default()
                as usize,
        }
    }

    fn plugins(&mut self) -> PluginSwitches {
        let Some(item) = self.root.get("plugins") else { return PluginSwitches::default() };
        // As with the lists below: what cannot be read switches nothing on.
        let unclear = PluginSwitches { unclear: true, ..PluginSwitches::default() };
        let Some(table) = self.section("plugins") else {
            return if item.is_none() { PluginSwitches::default() } else { unclear };
        };
        let disabled = match table.get("disabled") {
            None => Vec::new(),
            Some(_) => match self.texts(table, "disabled") {
                Some(names) => names,
                None => return unclear,
            },
        };
        PluginSwitches { enabled: self.texts(table, "enabled").unwrap_or_default(), disabled, unclear: false }
    }

    fn llm(&mut self) -> LlmConfig {
        let Some(table) = self.section("llm") else { return LlmConfig::default() };
        LlmConfig {
            backend: self.text(table, "backend"),
            base_url: self.text(table, "base_url"),
            api_key: self.text(table, "api_key").map(modern_reference),
            model: self.text(table, "model"),
            temperature: self.number(table, "temperature"),
            max_tokens: self.whole(table, "max_tokens"),
            request_timeout: self.number(table, "request_timeout").and_then(seconds),
            context_size: self.whole(table, "context_size"),
        }
    }

    fn policy(&mut self) -> Policy {
        let default = || AUTO_APPROVE.map(str::to_owned).to_vec();
        let Some(table) = self.section("auto") else {
            return Policy { auto_approve: default(), ..Policy::default() };
        };
        // A list that cannot be read must not open more than one that is empty.
        let auto_approve = match table.get("auto_approve") {
            None => default(),
            Some(_) => self.texts(table, "auto_approve").unwrap_or_default(),
        };
        let mut rules = Vec::new();
        for value in self.value(table, "rules", "a list of texts", Item::as_array).into_iter().flatten() {
            match value.as_str().and_then(Rule::parse) {
                Some(rule) => rules.push(rule),
                None => self.wrong(value.span(), "a rule must be \"allow|deny <tool-glob> [arg-glob]\""),
            }
        }
        Policy { auto_approve, rules, hard_deny: self.texts(table, "hard_deny").unwrap_or_default() }
    }

    fn gateway(&mut self) -> GatewayConfig {
        let default = GatewayConfig::default();
        let Some(table) = self.section("gateway") else { return default };
        let port = self.whole(table, "port").filter(|p| *p != 0);
        GatewayConfig {
            enabled: self.flag(table, "enabled").unwrap_or(default.enabled),
            port: port.unwrap_or(default.port),
        }
    }

    fn profiles(&mut self) -> BTreeMap<String, Profile> {
        let mut profiles = BTreeMap::new();
        if let Some(serve) = self.section("serve")
            && let Some(tables) = self.table(serve, "profiles")
        {
            for (name, _) in tables.iter() {
                if let Some(table) = self.table(tables, name) {
                    let profile = self.profile(table);
                    profiles.insert(name.to_owned(), profile);
                }
            }
        }
        profiles.entry("default".to_owned()).or_default();
        profiles
    }

    fn profile(&mut self, table: Section<'a>) -> Profile {
        let default = Profile::default();
        // As above: what cannot be read shares nothing.
        let categories = match table.get("categories") {
            None => default.categories,
            Some(_) => self.texts(table, "categories").unwrap_or_default(),
        };
        let (all_read_only, some_read_only) = self.read_only(table);
        let mut servers = BTreeMap::new();
        for value in self.value(table, "servers", "a list of servers", Item::as_array).into_iter().flatten() {
            match shared(value) {
                Ok((name, mode)) => {
                    let plain = all_read_only || some_read_only.contains(name);
                    let mode = mode.unwrap_or(if plain { ShareMode::ReadOnly } else { ShareMode::Full });
                    servers.insert(UpstreamName::new(name), mode);
                }
                Err(wanted) => self.wrong(value.span(), format!("\"servers\" must hold {wanted}")),
            }
        }
        Profile {
            categories,
            servers,
            tools: self.texts(table, "tools").unwrap_or_default(),
            resources: self.flag(table, "resources").unwrap_or(default.resources),
            prompts: self.flag(table, "prompts").unwrap_or(default.prompts),
        }
    }

    /// `read_only = true` is for every server of the profile that has no mode of its own, a list for those it names.
    fn read_only(&mut self, table: Section<'a>) -> (bool, BTreeSet<String>) {
        match table.get("read_only") {
            None => (false, BTreeSet::new()),
            Some(item) if item.is_array() => {
                (false, self.texts(table, "read_only").unwrap_or_default().into_iter().collect())
            }
            // Unreadable is the careful reading, too.
            Some(_) => (self.flag(table, "read_only").unwrap_or(true), BTreeSet::new()),
        }
    }
}

fn seconds(number: f64) -> Option<u64> {
    std::time::Duration::try_from_secs_f64(number.ceil()).ok().map(|d| d.as_secs())
}
