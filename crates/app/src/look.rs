//! What a command may learn of a home without starting or owning anything: from its files, and from who runs it.

use evi_contract::{PluginRow, UpstreamRow, UpstreamStateView};
use evi_store::Home;
use serde_json::json;

use crate::{
    commands::{plugin, upstream},
    front, read_config,
};

/// Every plugin with what it brings.
pub fn plugins(home: &Home) -> Vec<PluginRow> {
    plugin::rows(home, &read_config(home).0)
}

/// Every configured server as the files have it, with the state it has in a running eVi. Where none runs, none of
/// the servers does: those that would are `off` beside `enabled`.
pub async fn servers(home: &Home) -> Vec<UpstreamRow> {
    let config = read_config(home).0;
    let mut rows: Vec<UpstreamRow> =
        config.upstreams.iter().map(|u| upstream::configured(u, &config.tools, config.tools.mcp)).collect();
    let running = running(home).await;
    for row in &mut rows {
        if row.state != UpstreamStateView::Starting {
            continue;
        }
        // One that was changed a moment ago runs as it was.
        match running.iter().find(|other| other.name == row.name && other.summary == row.summary) {
            Some(other) => row.clone_from(other),
            None => row.state = UpstreamStateView::Off,
        }
    }
    rows
}

async fn running(home: &Home) -> Vec<UpstreamRow> {
    // Who cannot be asked says nothing; the files still do.
    let Ok(Some(client)) = front::owner(home).await else { return Vec::new() };
    let answer = client.call("upstream_list", json!({})).await;
    answer.ok().and_then(|rows| serde_json::from_value(rows).ok()).unwrap_or_default()
}
