//! The served endpoint: switch, token, shares, and how other applications connect.

use std::time::Duration;

use evi_contract::*;
use evi_domain::{Caller, Exposure, ShareMode, ToolHost, UpstreamName, policy::CLIENT_CATEGORIES};
use evi_store::ConfigValue;

use crate::{App, commands::upstream::stage_view, connect, endpoint, exposure, problem};

pub async fn gateway_get(app: &App, _: Nothing) -> Result<GatewayView, Problem> {
    let loaded = app.config.current();
    let config = &loaded.config;
    let profile = config.profiles.get("default").cloned().unwrap_or_default();
    let standing = app.endpoint.standing().await;
    let token = app.endpoint.token().await;
    let catalog = app.upstreams.catalog();
    let own = app.builtins.tools();
    let surface = app.guard.surface(&Caller::Client { name: "".into(), exposure: Exposure::default() });
    let own: Vec<_> = own.into_iter().filter(|t| exposure::is_for_clients(t.category)).collect();
    let mut categories: Vec<&str> = own.iter().map(|t| t.category).collect();
    categories.sort_by_key(|c| CLIENT_CATEGORIES.iter().position(|d| d == c).unwrap_or(usize::MAX));
    categories.dedup();
    Ok(GatewayView {
        enabled: config.gateway.enabled,
        state: standing.state.to_owned(),
        problem: standing.problem,
        address: address(config.gateway.port),
        port: config.gateway.port,
        token_hint: endpoint::hint(&token.value),
        token_kept: token.kept,
        clients: standing
            .clients
            .into_iter()
            .map(|c| ClientRow {
                name: c.name,
                version: c.version,
                transport: c.transport,
                since_ms: c.since_ms,
                last_call_ms: c.last_call_ms,
            })
            .collect(),
        shares: config
            .upstreams
            .iter()
            .map(|entry| ShareRow {
                server: entry.name.to_string(),
                tools: catalog.upstreams.get(&entry.name).map_or(0, |offer| offer.tools.len()),
                mode: profile.servers.get(&entry.name).map(|mode| match mode {
                    ShareMode::Full => ShareModeView::Full,
                    ShareMode::ReadOnly => ShareModeView::ReadOnly,
                    ShareMode::Ask => ShareModeView::Ask,
                }),
            })
            .collect(),
        categories: categories
            .into_iter()
            .map(|category| CategoryRow {
                category: category.to_owned(),
                tools: own.iter().filter(|t| t.category == category).count(),
                shared: profile.categories.iter().any(|c| c == category),
            })
            .collect(),
        tools: surface.tools.len(),
    })
}

fn address(port: u16) -> String {
    format!("http://127.0.0.1:{port}/mcp")
}

pub async fn gateway_set_enabled(app: &App, params: Switch) -> Result<GatewayView, Problem> {
    app.write_config(vec![(vec!["gateway", "enabled"], ConfigValue::Bool(params.enabled))]).await?;
    if params.enabled {
        app.endpoint.start(app.config.current().config.gateway.port).await?;
    } else {
        app.endpoint.stop().await;
    }
    gateway_get(app, Nothing {}).await
}

pub async fn gateway_set_port(app: &App, params: PortSet) -> Result<GatewayView, Problem> {
    let port = endpoint::port(params.port)?;
    app.write_config(vec![(vec!["gateway", "port"], ConfigValue::Int(i64::from(port)))]).await?;
    if app.config.current().config.gateway.enabled {
        app.endpoint.start(port).await?;
    }
    gateway_get(app, Nothing {}).await
}

pub async fn gateway_token_copy(app: &App, _: Nothing) -> Result<TokenText, Problem> {
    Ok(TokenText { token: app.endpoint.token().await.value.expose().to_owned() })
}

pub async fn gateway_token_replace(app: &App, _: Nothing) -> Result<GatewayView, Problem> {
    app.endpoint.replace_token().await;
    gateway_get(app, Nothing {}).await
}

pub async fn share_set(app: &App, params: ShareSet) -> Result<GatewayView, Problem> {
    let name = UpstreamName::new(params.server);
    if !app.config.current().config.upstreams.iter().any(|u| u.name == name) && params.mode.is_some() {
        return Err(Problem::new(Code::NotFound, format!("no such server: {name}")));
    }
    let mode = params.mode.map(|mode| match mode {
        ShareModeView::Full => ShareMode::Full,
        ShareModeView::ReadOnly => ShareMode::ReadOnly,
        ShareModeView::Ask => ShareMode::Ask,
    });
    let config = app.config.clone();
    problem::blocking(move || config.share_set("default", &name, mode)).await?;
    app.guard.touch();
    gateway_get(app, Nothing {}).await
}

pub async fn category_set(app: &App, params: CategorySet) -> Result<GatewayView, Problem> {
    let mut categories =
        app.config.current().config.profiles.get("default").cloned().unwrap_or_default().categories;
    categories.retain(|c| *c != params.category);
    if params.shared {
        categories.push(params.category);
    }
    let path = vec!["serve", "profiles", "default", "categories"];
    app.write_config(vec![(path, ConfigValue::List(categories))]).await?;
    gateway_get(app, Nothing {}).await
}

pub async fn connect_clients(_: &App, _: Nothing) -> Result<Vec<ClientKind>, Problem> {
    Ok(connect::clients())
}

pub async fn connect_text(app: &App, params: ConnectQuery) -> Result<ConnectText, Problem> {
    let facts = connect::Facts {
        program: app.options.launcher.program(),
        home: app.home.root().to_path_buf(),
        address: address(app.config.current().config.gateway.port),
    };
    connect::text(&params, &facts)
}

/// How long the started command may take to answer.
const CHECK_LIMIT: Duration = Duration::from_secs(30);

pub async fn connect_check(app: &App, params: ConnectQuery) -> Result<ConnectCheck, Problem> {
    let args = connect::arguments(&params);
    let program = app.options.launcher.program();
    let command: Vec<String> =
        std::iter::once(program.display().to_string()).chain(args.iter().cloned()).collect();
    let home = app.home.root().display().to_string();
    let mut launched = match app.options.launcher.launch(args, vec![("EVI_HOME".to_owned(), home)]) {
        Ok(launched) => launched,
        Err(error) => {
            let problem =
                Problem::new(Code::UpstreamFailed, format!("could not start {}: {error}", program.display()))
                    .hint("is the evi command installed beside the application");
            return Ok(ConnectCheck {
                command,
                stages: Vec::new(),
                problem: Some(problem),
                stderr: Vec::new(),
            });
        }
    };
    let evi_upstreams::Probe { stages, failure } =
        evi_upstreams::probe(launched.read, launched.write, CHECK_LIMIT).await;
    launched.end.await;
    let mut stderr = Vec::new();
    while let Ok(line) = launched.stderr.try_recv() {
        stderr.push(app.redactor.redact(&line).into_owned());
    }
    let keep = stderr.len().saturating_sub(20);
    stderr.drain(..keep);
    Ok(ConnectCheck {
        command,
        stages: stages.iter().map(stage_view).collect(),
        stderr: if failure.is_some() { stderr } else { Vec::new() },
        problem: failure.as_ref().map(problem::failure),
    })
}
