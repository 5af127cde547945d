//! `evi plugin`: lists, switches and removes plugins, and starts nothing. A running eVi sees the change in the files.

use std::process::ExitCode;

use evi_app::{Home, Problem, contract::PluginRow};
use serde_json::json;

use crate::{edit, output};

/// `evi plugin list`.
pub fn list(home: &Home, as_json: bool) -> Result<ExitCode, Problem> {
    let (_, problems) = evi_app::read_config(home);
    output::config_problems(&problems);
    let rows = evi_app::look::plugins(home);
    if as_json {
        output::json(&rows);
        return Ok(ExitCode::SUCCESS);
    }
    for row in &rows {
        output::line(&described(row));
    }
    if rows.is_empty() {
        output::line("no plugins installed");
        output::line(&home.plugins().display().to_string());
    }
    Ok(ExitCode::SUCCESS)
}

/// `on  extra 1.2 — what it is for [servers: extra:box; commands: extra:review; skills: 2]`.
fn described(row: &PluginRow) -> String {
    let mut line = format!("{} {}", if row.enabled { "on " } else { "off" }, row.name);
    if let Some(version) = &row.version {
        line.push_str(&format!(" {version}"));
    }
    if !row.description.is_empty() {
        line.push_str(&format!(" — {}", row.description));
    }
    let mut brings = Vec::new();
    for (what, names) in [("servers", &row.servers), ("commands", &row.commands)] {
        if !names.is_empty() {
            brings.push(format!("{what}: {}", names.join(", ")));
        }
    }
    if row.skills > 0 {
        brings.push(format!("skills: {}", row.skills));
    }
    if !brings.is_empty() {
        line.push_str(&format!(" [{}]", brings.join("; ")));
    }
    line
}

/// `evi plugin enable` and `disable`.
pub async fn switch(home: Home, name: String, enabled: bool) -> Result<ExitCode, Problem> {
    let config = home.config_toml();
    let servers_run = evi_app::read_config(&home).0.tools.mcp;
    let answer = edit::change(home, "plugin_set_enabled", json!({"name": name, "enabled": enabled})).await?;
    output::line(&format!("{} {name}", if enabled { "enabled" } else { "disabled" }));
    if enabled && !servers_run && answer["servers"].as_array().is_some_and(|s| !s.is_empty()) {
        output::servers_off(&config);
    }
    Ok(ExitCode::SUCCESS)
}

/// `evi plugin remove`.
pub async fn remove(home: Home, name: String) -> Result<ExitCode, Problem> {
    let answer = edit::change(home, "plugin_remove", json!({"name": name})).await?;
    output::line(&format!("removed {name}"));
    output::hint(&format!("its folder is kept in {}", answer["moved_to"].as_str().unwrap_or_default()));
    Ok(ExitCode::SUCCESS)
}
