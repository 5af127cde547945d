//! Servers: list, add, change, switch, remove. Values of env and headers come in and never go out.

use std::{collections::BTreeMap, time::Duration};

use evi_contract::*;
use evi_domain::{
    EraChoice, Secret, SecretId, Stage, StageKind, StageState, ToolsConfig, TransportSpec, UpstreamEntry,
    UpstreamName, UpstreamOptions, UpstreamSpec, UpstreamState, reference,
};
use evi_store::{ConfigValue, StoreError};

use crate::{App, Servers, endpoint::random_hex, parse, problem};

/// A step for a user interface.
pub fn stage_view(stage: &Stage) -> StageView {
    StageView {
        kind: match stage.kind {
            StageKind::Saved => "saved",
            StageKind::Started => "started",
            StageKind::Handshake => "handshake",
            StageKind::Discovery => "discovery",
        }
        .to_owned(),
        state: match stage.state {
            StageState::Pending => "pending",
            StageState::Running => "running",
            StageState::Done => "done",
            StageState::Failed => "failed",
        }
        .to_owned(),
        detail: stage.detail.clone(),
        took_ms: stage.took.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
    }
}

/// Every configured server, in the file's order.
pub fn rows(app: &App) -> Vec<UpstreamRow> {
    app.config.current().config.upstreams.iter().map(|entry| row(app, entry)).collect()
}

/// Servers that are on and have nothing to show, with the reason; only the one that is named, if one is.
pub fn missing(app: &App, only: Option<&str>) -> Vec<MissingServer> {
    rows(app)
        .into_iter()
        .filter(|row| only.is_none_or(|name| row.name == name))
        .filter(|row| {
            row.enabled && !matches!(row.state, UpstreamStateView::Ready | UpstreamStateView::McpOff)
        })
        .map(|row| {
            let problem = row.problem.unwrap_or_else(|| not_ready(&row.name, row.state));
            MissingServer { server: row.name, problem }
        })
        .collect()
}

/// Why what a server offers is not there, in words.
pub fn not_ready(name: &str, state: UpstreamStateView) -> Problem {
    match state {
        UpstreamStateView::Starting => Problem::new(Code::Unavailable, format!("{name} is starting")),
        UpstreamStateView::Installing => {
            Problem::new(Code::Unavailable, format!("{name} is being downloaded"))
                .hint("its log tells how far it is")
        }
        UpstreamStateView::SignInNeeded => {
            Problem::new(Code::Unavailable, format!("{name} wants you to sign in"))
                .hint("enter a token in its settings, then restart it")
        }
        UpstreamStateView::Parked => {
            Problem::new(Code::Unavailable, format!("{name} stopped again and again and is left alone"))
                .hint("look at its log, then restart it")
        }
        UpstreamStateView::Blocked => {
            Problem::new(Code::Forbidden, format!("{name} is left out by [tools] mcp_allow"))
                .hint("add it to mcp_allow in config.toml, or empty that list")
        }
        UpstreamStateView::Off => Problem::new(Code::Unavailable, format!("{name} is switched off")),
        UpstreamStateView::McpOff => mcp_off(),
        _ => Problem::new(Code::Unavailable, format!("{name} is not ready")),
    }
}

/// What to do when the servers of `mcp.json` are switched off.
pub fn mcp_off() -> Problem {
    Problem::new(Code::McpOff, "servers are switched off: [tools] mcp is false")
        .hint("set mcp = true under [tools] in config.toml, or switch it on under Settings")
}

/// A server as the files have it; one that is to run counts as on its way.
pub fn configured(entry: &UpstreamEntry, tools: &ToolsConfig, run: bool) -> UpstreamRow {
    let mut row = UpstreamRow {
        name: entry.name.to_string(),
        transport: String::new(),
        summary: String::new(),
        command: String::new(),
        args: Vec::new(),
        url: String::new(),
        cwd: None,
        options: UpstreamOptionsView::default(),
        env_keys: Vec::new(),
        header_keys: Vec::new(),
        secret_keys: Vec::new(),
        enabled: entry.enabled,
        plugin: entry.plugin.clone(),
        state: UpstreamStateView::Off,
        stages: Vec::new(),
        problem: None,
        failure: None,
        stderr: Vec::new(),
        tools: 0,
        server: None,
        protocol: None,
        pid: None,
    };
    let spec = match &entry.spec {
        Ok(spec) => spec,
        Err(problem) => {
            row.state = UpstreamStateView::Invalid;
            row.problem = Some(
                Problem::new(Code::ConfigUnreadable, problem.to_string()).hint("mend the entry in the file"),
            );
            return row;
        }
    };
    describe(&mut row, &spec.transport);
    row.options = options_view(&spec.options);
    let allowed = tools.mcp_allow.is_empty() || tools.mcp_allow.iter().any(|a| a == entry.name.as_str());
    row.state = if !entry.enabled {
        UpstreamStateView::Off
    } else if !run {
        UpstreamStateView::McpOff
    } else if !allowed {
        UpstreamStateView::Blocked
    } else {
        UpstreamStateView::Starting
    };
    let saved = Stage { kind: StageKind::Saved, state: StageState::Done, detail: None, took: None };
    row.stages = vec![stage_view(&saved)];
    if matches!(row.state, UpstreamStateView::McpOff | UpstreamStateView::Blocked) {
        row.problem = Some(not_ready(&row.name, row.state));
    }
    row
}

pub fn row(app: &App, entry: &UpstreamEntry) -> UpstreamRow {
    let tools = &app.config.current().config.tools;
    let mut row = configured(entry, tools, tools.mcp || app.options.servers == Servers::Forced);
    if row.state != UpstreamStateView::Starting {
        return row;
    }
    let Some(status) = app.upstreams.status(&entry.name) else { return row };
    row.state = match status.state {
        UpstreamState::Off => UpstreamStateView::Off,
        UpstreamState::Starting => UpstreamStateView::Starting,
        UpstreamState::Installing => UpstreamStateView::Installing,
        UpstreamState::Ready => UpstreamStateView::Ready,
        UpstreamState::Stale => UpstreamStateView::Stale,
        UpstreamState::SignInNeeded => UpstreamStateView::SignInNeeded,
        UpstreamState::SecretLocked => UpstreamStateView::SecretLocked,
        UpstreamState::Failed => UpstreamStateView::Failed,
        UpstreamState::Parked => UpstreamStateView::Parked,
    };
    row.stages = status.stages.iter().map(stage_view).collect();
    if let Some(failure) = &status.failure {
        row.problem = Some(problem::failure(failure));
        row.failure = Some(failure.code.clone());
        row.stderr = failure.stderr.iter().map(|l| app.redactor.redact(l).into_owned()).collect();
    }
    row.tools = status.tools;
    row.server = status.server.map(|(name, version)| format!("{name} {version}").trim().to_owned());
    row.protocol = status.protocol;
    row.pid = status.pid;
    row
}

fn describe(row: &mut UpstreamRow, transport: &TransportSpec) {
    row.transport = transport.kind().to_owned();
    row.summary = transport.summary();
    let values = match transport {
        TransportSpec::Stdio { command, args, env, cwd } => {
            row.command.clone_from(command);
            row.args.clone_from(args);
            row.cwd.clone_from(cwd);
            row.env_keys = env.keys().cloned().collect();
            env
        }
        TransportSpec::Http { url, headers } | TransportSpec::Sse { url, headers } => {
            row.url.clone_from(url);
            row.header_keys = headers.keys().cloned().collect();
            headers
        }
    };
    row.secret_keys =
        values.iter().filter(|(_, v)| !reference::secrets_in(v).is_empty()).map(|(k, _)| k.clone()).collect();
}

pub fn find(app: &App, name: &str) -> Result<UpstreamEntry, Problem> {
    app.config
        .current()
        .config
        .upstreams
        .iter()
        .find(|u| u.name.as_str() == name)
        .cloned()
        .ok_or_else(|| Problem::new(Code::NotFound, format!("no such server: {name}")))
}

pub async fn upstream_list(app: &App, _: Nothing) -> Result<Vec<UpstreamRow>, Problem> {
    Ok(rows(app))
}

pub async fn upstream_get(app: &App, params: UpstreamRef) -> Result<UpstreamRow, Problem> {
    Ok(row(app, &find(app, &params.name)?))
}

pub async fn upstream_log(app: &App, params: UpstreamRef) -> Result<UpstreamLog, Problem> {
    find(app, &params.name)?;
    let lines = app
        .upstreams
        .log(&UpstreamName::new(params.name))
        .into_iter()
        .map(|line| LogLineView {
            at_ms: line.at_ms,
            stream: match line.stream {
                evi_domain::LogStream::Stderr => "stderr",
                evi_domain::LogStream::Stdout => "stdout",
                evi_domain::LogStream::Evi => "evi",
            }
            .to_owned(),
            text: app.redactor.redact(&line.text).into_owned(),
        })
        .collect();
    Ok(UpstreamLog { lines })
}

pub async fn upstream_parse(_: &App, params: ParseText) -> Result<ParsedUpstream, Problem> {
    let mut parsed = parse::parse(&params.text);
    if let Some(draft) = parsed.drafts.first().filter(|d| d.transport == "stdio" && !d.command.contains('$'))
    {
        let command = draft.command.clone();
        let found =
            problem::blocking(move || Ok::<_, Problem>(evi_upstreams::resolve_command(&command, None)))
                .await?;
        match found {
            Ok(path) => parsed.resolved = Some(path.display().to_string()),
            Err(missing) => {
                parsed.problem = Some(
                    Problem::new(Code::NotFound, format!("program not found: {}", draft.command))
                        .hint(missing.hint())
                        .field("command"),
                );
            }
        }
    }
    Ok(parsed)
}

pub async fn upstream_add(app: &App, params: UpstreamAdd) -> Result<UpstreamAdded, Problem> {
    let name = params.draft.name.trim().to_owned();
    if !params.overwrite && find(app, &name).is_ok() {
        return Err(Problem::new(Code::AlreadyExists, format!("server {name} already exists"))
            .hint("use --overwrite to replace it")
            .field("name"));
    }
    let loaded = app.config.current();
    if params.turn_on_mcp && !loaded.config.tools.mcp {
        // Before anything is saved: an addition is whole or not at all.
        let file = app.home.config_toml().display().to_string();
        if let Some(unclear) = loaded.problems.iter().find(|p| p.whole_file && p.file == file) {
            return Err(problem::store(&StoreError::Malformed(unclear.clone())));
        }
    }
    let old = find(app, &name).ok();
    let summary = save(app, params.draft, old.as_ref(), params.enabled, params.overwrite, false).await?;
    let mcp = app.config.current().config.tools.mcp;
    let turned_on_mcp = params.turn_on_mcp && !mcp;
    if turned_on_mcp {
        app.write_config(vec![(vec!["tools", "mcp"], ConfigValue::Bool(true))]).await?;
    }
    Ok(UpstreamAdded { name, summary, turned_on_mcp, mcp_on: mcp || turned_on_mcp })
}

pub async fn upstream_edit(app: &App, mut params: UpstreamEdit) -> Result<UpstreamRow, Problem> {
    let old = find(app, &params.name)?;
    writable(&old)?;
    params.draft.name.clone_from(&params.name);
    save(app, params.draft, Some(&old), old.enabled, true, true).await?;
    upstream_get(app, UpstreamRef { name: params.name }).await
}

fn writable(entry: &UpstreamEntry) -> Result<(), Problem> {
    match &entry.plugin {
        Some(plugin) => {
            Err(Problem::new(Code::ReadOnly, format!("server {} belongs to the plugin {plugin}", entry.name))
                .hint(problem::of_plugin(plugin)))
        }
        None => Ok(()),
    }
}

/// Puts secrets into the vault, then the entry into the file; what was put is taken back when that fails.
/// Gives the entry in one line.
async fn save(
    app: &App,
    draft: UpstreamDraft,
    old: Option<&UpstreamEntry>,
    enabled: bool,
    overwrite: bool,
    keep_absent: bool,
) -> Result<String, Problem> {
    let name = UpstreamName::new(draft.name.trim());
    let kept: BTreeMap<String, String> = match old.and_then(|e| e.spec.as_ref().ok()) {
        Some(UpstreamSpec { transport: TransportSpec::Stdio { env, .. }, .. }) => env.clone(),
        Some(UpstreamSpec {
            transport: TransportSpec::Http { headers, .. } | TransportSpec::Sse { headers, .. },
            ..
        }) => headers.clone(),
        None => BTreeMap::new(),
    };
    let (values, field) =
        if draft.transport == "stdio" { (&draft.env, "env") } else { (&draft.headers, "headers") };
    let mut texts = BTreeMap::new();
    let mut secrets: Vec<(SecretId, Secret)> = Vec::new();
    for value in values {
        let key = value.key.trim().to_owned();
        if key.is_empty() || key.contains(['=', '\0', '\n']) {
            return Err(
                Problem::new(Code::InvalidInput, format!("{key:?} is not a name for a value")).field(field)
            );
        }
        let text = match &value.value {
            None if keep_absent => match kept.get(&key) {
                Some(stored) => stored.clone(),
                None => {
                    return Err(Problem::new(Code::InvalidInput, format!("{key} has no value")).field(field));
                }
            },
            None => return Err(Problem::new(Code::InvalidInput, format!("{key} has no value")).field(field)),
            // A reference is no secret itself; it stays readable in the file.
            Some(text) if value.secret && !text.is_empty() && !holds_reference(text) => {
                let id = secret_id(&name, &key);
                secrets.push((id.clone(), Secret::new(text.as_str())));
                reference::to_secret(&id)
            }
            Some(text) => text.clone(),
        };
        texts.insert(key, text);
    }
    let options = match (&draft.options, old.and_then(|entry| entry.spec.as_ref().ok())) {
        (Some(options), _) => options_of(options)?,
        (None, Some(old)) => old.options.clone(),
        (None, None) => UpstreamOptions::default(),
    };
    let spec = UpstreamSpec { name: name.clone(), transport: transport(&draft, texts)?, options };
    for (id, value) in &secrets {
        let (vault, id, value) = (app.vault.clone(), id.clone(), value.clone());
        if let Err(problem) = problem::blocking(move || vault.set(&id, &value)).await {
            forget(app, secrets.iter().map(|(id, _)| id.clone()).collect()).await;
            return Err(problem.field(field));
        }
    }
    let (config, written) = (app.config.clone(), spec.clone());
    let result = problem::blocking(move || config.upstream_add(&written, enabled, overwrite)).await;
    if let Err(problem) = result {
        forget(app, secrets.into_iter().map(|(id, _)| id).collect()).await;
        return Err(problem);
    }
    // What the old entry named and the new one does not is nobody's any more.
    let still: Vec<SecretId> = spec.templates().into_iter().flat_map(reference::secrets_in).collect();
    forget(app, secrets_of(old).into_iter().filter(|id| !still.contains(id)).collect()).await;
    app.apply_config();
    Ok(spec.transport.summary())
}

fn holds_reference(text: &str) -> bool {
    reference::parse(text).iter().any(|part| !matches!(part, reference::Part::Text(_)))
}

fn transport(draft: &UpstreamDraft, values: BTreeMap<String, String>) -> Result<TransportSpec, Problem> {
    if draft.transport == "stdio" {
        let command = draft.command.trim().to_owned();
        if command.is_empty() {
            return Err(Problem::new(Code::InvalidInput, "the command is missing").field("command"));
        }
        let cwd = draft.cwd.clone().filter(|c| !c.trim().is_empty());
        return Ok(TransportSpec::Stdio { command, args: draft.args.clone(), env: values, cwd });
    }
    let url = draft.url.trim().to_owned();
    if !(url.starts_with("http://") || url.starts_with("https://") || url.starts_with("${")) {
        return Err(
            Problem::new(Code::InvalidInput, format!("{url:?} is not an http or https address")).field("url")
        );
    }
    match draft.transport.as_str() {
        "http" => Ok(TransportSpec::Http { url, headers: values }),
        "sse" => Ok(TransportSpec::Sse { url, headers: values }),
        other => Err(Problem::new(Code::InvalidInput, format!("unknown transport: {other}"))
            .hint("stdio, http or sse")
            .field("transport")),
    }
}

fn options_view(options: &UpstreamOptions) -> UpstreamOptionsView {
    UpstreamOptionsView {
        era: Some(options.era).filter(|era| *era != EraChoice::Auto).map(|era| era.as_str().to_owned()),
        startup_timeout_sec: options.start_secs,
        tool_timeout_sec: options.call_secs,
        tool_total_timeout_sec: options.total_secs,
        ca: options.ca.clone(),
    }
}

/// The longest limit of a server, in seconds.
const LONGEST_LIMIT: u32 = 86_400;

fn options_of(view: &UpstreamOptionsView) -> Result<UpstreamOptions, Problem> {
    let wrong = |message: String, field: &str| Err(Problem::new(Code::InvalidInput, message).field(field));
    let word = view.era.as_deref().unwrap_or("auto");
    let Some(era) = EraChoice::parse(word) else {
        return wrong(format!("unknown era {word:?}: auto, legacy or modern"), "era");
    };
    for (secs, field) in [
        (view.startup_timeout_sec, "startup_timeout_sec"),
        (view.tool_timeout_sec, "tool_timeout_sec"),
        (view.tool_total_timeout_sec, "tool_total_timeout_sec"),
    ] {
        if secs.is_some_and(|secs| secs == 0 || secs > LONGEST_LIMIT) {
            return wrong(format!("a limit is 1 to {LONGEST_LIMIT} seconds"), field);
        }
    }
    Ok(UpstreamOptions {
        era,
        start_secs: view.startup_timeout_sec,
        call_secs: view.tool_timeout_sec,
        total_secs: view.tool_total_timeout_sec,
        ca: view.ca.as_deref().map(str::trim).filter(|ca| !ca.is_empty()).map(str::to_owned),
    })
}

/// `<server>.<key>.<four random digits>`: readable, and new for each value, so that renaming moves nothing.
fn secret_id(name: &UpstreamName, key: &str) -> SecretId {
    let tidy = |text: &str| -> String {
        text.to_lowercase()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' })
            .collect()
    };
    SecretId::new(format!("{}.{}.{}", tidy(name.as_str()), tidy(key), random_hex(4)))
}

fn secrets_of(entry: Option<&UpstreamEntry>) -> Vec<SecretId> {
    let Some(Ok(spec)) = entry.map(|e| &e.spec) else { return Vec::new() };
    spec.templates().into_iter().flat_map(reference::secrets_in).collect()
}

/// Takes values out of the vault; one that cannot be taken out is logged and stays listed.
async fn forget(app: &App, ids: Vec<SecretId>) {
    for id in ids {
        let vault = app.vault.clone();
        if let Err(problem) = problem::blocking(move || vault.delete(&id)).await {
            tracing::warn!(%problem, "a secret that is no longer used could not be deleted");
        }
    }
}

pub async fn upstream_rename(app: &App, params: UpstreamRename) -> Result<UpstreamRow, Problem> {
    let entry = find(app, params.name.trim())?;
    writable(&entry)?;
    let (old, new) = (entry.name, UpstreamName::new(params.to.trim()));
    let (config, from, to) = (app.config.clone(), old.clone(), new.clone());
    problem::blocking(move || config.upstream_rename(&from, &to)).await?;
    mentions(app, &old, Some(&new)).await?;
    app.apply_config();
    upstream_get(app, UpstreamRef { name: new.to_string() }).await
}

/// Brings what `config.toml` says of a server in line with its new name, or with its end.
pub async fn mentions(app: &App, old: &UpstreamName, new: Option<&UpstreamName>) -> Result<(), Problem> {
    let loaded = app.config.current();
    for (profile, shares) in &loaded.config.profiles {
        let Some(mode) = shares.servers.get(old).copied() else { continue };
        let (config, profile, old, new) = (app.config.clone(), profile.clone(), old.clone(), new.cloned());
        problem::blocking(move || {
            config.share_set(&profile, &old, None)?;
            new.map_or(Ok(()), |new| config.share_set(&profile, &new, Some(mode)))
        })
        .await?;
    }
    let tools = &loaded.config.tools;
    let mut changes = Vec::new();
    if let Some(new) = new
        && tools.mcp_allow.iter().any(|a| a == old.as_str())
    {
        let renamed = |name: &String| if name == old.as_str() { new.to_string() } else { name.clone() };
        changes.push((
            vec!["tools", "mcp_allow"],
            ConfigValue::List(tools.mcp_allow.iter().map(renamed).collect()),
        ));
    }
    // What was switched off is written as shown: `<server>.<tool>`.
    let prefix = format!("{old}.");
    if tools.disabled.iter().any(|t| t.starts_with(&prefix)) {
        let kept = tools.disabled.iter().filter_map(|tool| match (tool.strip_prefix(&prefix), new) {
            (Some(rest), Some(new)) => Some(format!("{new}.{rest}")),
            (Some(_), None) => None,
            (None, _) => Some(tool.clone()),
        });
        changes.push((vec!["tools", "disabled"], ConfigValue::List(kept.collect())));
    }
    if changes.is_empty() { Ok(()) } else { app.write_config(changes).await }
}

pub async fn upstream_remove(app: &App, params: UpstreamRef) -> Result<Nothing, Problem> {
    let entry = find(app, &params.name)?;
    writable(&entry)?;
    let (config, name) = (app.config.clone(), entry.name.clone());
    problem::blocking(move || config.upstream_remove(&name)).await?;
    mentions(app, &entry.name, None).await?;
    forget(app, secrets_of(Some(&entry))).await;
    app.apply_config();
    Ok(Nothing {})
}

pub async fn upstream_set_enabled(app: &App, params: UpstreamSwitch) -> Result<UpstreamRow, Problem> {
    let entry = find(app, &params.name)?;
    writable(&entry)?;
    let config = app.config.clone();
    problem::blocking(move || config.upstream_set_enabled(&entry.name, params.enabled)).await?;
    app.apply_config();
    upstream_get(app, UpstreamRef { name: params.name }).await
}

pub async fn upstream_restart(app: &App, params: UpstreamRef) -> Result<UpstreamRow, Problem> {
    let entry = find(app, &params.name)?;
    app.upstreams.restart(&entry.name);
    upstream_get(app, params).await
}

/// The longest that a first download may take, and a little more.
const SETTLE: Duration = Duration::from_secs(200);

pub async fn upstream_settle(app: &App, params: UpstreamSettle) -> Result<Vec<UpstreamRow>, Problem> {
    // The files may have changed a moment ago, before the watcher saw it.
    let config = app.config.clone();
    problem::blocking(move || {
        config.reload();
        Ok::<_, Problem>(())
    })
    .await?;
    app.apply_config();
    match &params.name {
        // Others may take as long as they like.
        Some(name) => app.guard.wait_for(&find(app, name)?.name, &app.cancel, SETTLE).await,
        None => app.upstreams.settled(SETTLE).await,
    }
    let mut rows = rows(app);
    if let Some(name) = &params.name {
        rows.retain(|row| row.name == *name);
    }
    Ok(rows)
}
