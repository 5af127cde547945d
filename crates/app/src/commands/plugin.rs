//! Plugins: list, switch, remove. What is inside of a plugin is never changed here.

use evi_contract::*;
use evi_domain::{Config, PluginEntry};
use evi_store::Home;

use crate::{App, commands::upstream, problem};

/// Every plugin of a home with what it brings. Reads the folders of their commands.
pub fn rows(home: &Home, config: &Config) -> Vec<PluginRow> {
    config.plugins.iter().map(|plugin| row(home, config, plugin)).collect()
}

fn row(home: &Home, config: &Config, plugin: &PluginEntry) -> PluginRow {
    let theirs = config.upstreams.iter().filter(|u| u.plugin.as_ref() == Some(&plugin.name));
    PluginRow {
        name: plugin.name.clone(),
        enabled: plugin.enabled,
        version: plugin.version.clone(),
        description: plugin.description.clone().unwrap_or_default(),
        servers: theirs.map(|u| u.name.to_string()).collect(),
        commands: evi_builtins::plugin_command_names(&plugin.name, home.plugin_commands(&plugin.name)),
        skills: plugin.skills,
        problem: plugin.problem.as_ref().map(|p| Problem::new(Code::ConfigUnreadable, p.to_string())),
    }
}

pub async fn plugin_list(app: &App, _: Nothing) -> Result<Vec<PluginRow>, Problem> {
    let (home, loaded) = (app.home.clone(), app.config.current());
    problem::blocking(move || Ok::<_, Problem>(rows(&home, &loaded.config))).await
}

pub async fn plugin_set_enabled(app: &App, params: PluginSwitch) -> Result<PluginRow, Problem> {
    let (config, home) = (app.config.clone(), app.home.clone());
    let row = problem::blocking(move || {
        config.plugin_set_enabled(&params.name, params.enabled)?;
        let loaded = config.current();
        let found = loaded.config.plugins.iter().find(|p| p.name == params.name);
        let gone = || evi_store::StoreError::UnknownPlugin { name: params.name.clone(), known: Vec::new() };
        found.map(|p| row(&home, &loaded.config, p)).ok_or_else(gone)
    })
    .await?;
    app.apply_config();
    Ok(row)
}

pub async fn plugin_remove(app: &App, params: PluginRef) -> Result<PluginRemoved, Problem> {
    let servers: Vec<_> = app
        .config
        .current()
        .config
        .upstreams
        .iter()
        .filter(|u| u.plugin.as_ref() == Some(&params.name))
        .map(|u| u.name.clone())
        .collect();
    let (config, name) = (app.config.clone(), params.name.clone());
    let place = problem::blocking(move || config.plugin_remove(&name)).await?;
    // Another plugin of that name must not be shared because this one was.
    for server in servers {
        upstream::mentions(app, &server, None).await?;
    }
    app.apply_config();
    Ok(PluginRemoved { name: params.name, moved_to: place.display().to_string() })
}
