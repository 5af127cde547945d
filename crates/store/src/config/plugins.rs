//! Reads the servers that plugins bring: `plugins/<plugin>/mcp.json` beside a `plugin.toml`. Changes nothing there.

use std::{fs, path::Path};

use evi_domain::{ConfigProblem, TransportSpec, UpstreamEntry, UpstreamName};
use serde::Deserialize;

use super::{mcp_read, source::Source};
use crate::Home;

/// The part of `plugin.toml` that concerns servers.
#[derive(Deserialize)]
struct Manifest {
    default_enabled: Option<bool>,
}

/// The entries of all plugins by the plugins' names, and what is wrong with them.
pub(crate) fn read(home: &Home) -> (Vec<UpstreamEntry>, Vec<ConfigProblem>) {
    let mut folders: Vec<_> = fs::read_dir(home.plugins())
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for folder in folders {
        if let Err(problem) = plugin(&folder, &mut entries, &mut problems) {
            problems.push(problem);
        }
    }
    (entries, problems)
}

fn plugin(
    folder: &Path,
    entries: &mut Vec<UpstreamEntry>,
    problems: &mut Vec<ConfigProblem>,
) -> Result<(), ConfigProblem> {
    let Some(plugin) = folder.file_name().map(|n| n.to_string_lossy().into_owned()) else { return Ok(()) };
    let Some(source) = Source::read(&folder.join("mcp.json"))? else { return Ok(()) };
    let file = mcp_read::read(&source)?;
    let enabled = match manifest(&folder.join("plugin.toml")) {
        Ok(enabled) => enabled,
        Err(problem) => {
            problems.push(problem);
            false
        }
    };
    problems.extend(file.problems);
    for mut entry in file.entries {
        let name = UpstreamName::new(format!("{plugin}:{}", entry.name));
        entry.spec = entry.spec.map(|mut spec| {
            spec.name = name.clone();
            if let TransportSpec::Stdio { command, cwd, .. } = &mut spec.transport {
                settle(command, folder);
                if let Some(cwd) = cwd {
                    *cwd = folder.join(&*cwd).to_string_lossy().into_owned();
                }
            }
            spec
        });
        entry.enabled &= enabled;
        entry.name = name;
        entry.plugin = Some(plugin.clone());
        entries.push(entry);
    }
    Ok(())
}

/// Whether the plugin's servers are on; a plugin without the word is.
fn manifest(path: &Path) -> Result<bool, ConfigProblem> {
    let Some(source) = Source::read(path)? else { return Ok(true) };
    match toml::from_str::<Manifest>(source.text()) {
        Ok(manifest) => Ok(manifest.default_enabled.unwrap_or(true)),
        Err(e) => Err(source.problem(e.span().map_or(0, |s| s.start), e.message().to_owned())),
    }
}

/// A command with a separator in it, or one that lies in the plugin's folder, is the plugin's own; any other is
/// searched for as usual.
fn settle(command: &mut String, folder: &Path) {
    let path = Path::new(&*command);
    if path.is_absolute() || command.starts_with(['~', '$']) {
        return;
    }
    let own = folder.join(path);
    if command.contains(['/', std::path::MAIN_SEPARATOR]) || own.is_file() {
        *command = own.components().collect::<std::path::PathBuf>().to_string_lossy().into_owned();
    }
}
