//! Reads what plugins bring: `plugins/<plugin>/` with `plugin.toml`, `mcp.json`, `commands/` and `skills/`; moves one
//! into the trash beside them when it is removed. Changes nothing inside of a plugin.

use std::{
    fs,
    path::{Path, PathBuf},
};

use evi_domain::{ConfigProblem, PluginEntry, PluginSwitches, TransportSpec, UpstreamEntry, UpstreamName};
use serde::Deserialize;

use super::{mcp_read, source::Source};
use crate::{Home, StoreError};

/// Where removed plugins lie, beside the others; a dot keeps it from being one.
const TRASH: &str = ".trash";

/// What eVi reads of `plugin.toml`.
#[derive(Deserialize, Default)]
struct Manifest {
    version: Option<toml::Value>,
    description: Option<toml::Value>,
    default_enabled: Option<bool>,
}

/// Everything that was found in `plugins/`.
#[derive(Default)]
pub(crate) struct Plugins {
    /// The plugins, by name.
    pub(crate) plugins: Vec<PluginEntry>,
    /// Their servers.
    pub(crate) entries: Vec<UpstreamEntry>,
    /// What is wrong with their files.
    pub(crate) problems: Vec<ConfigProblem>,
}

/// Reads the plugins of a home.
pub(crate) fn read(home: &Home, switches: &PluginSwitches) -> Plugins {
    let mut folders: Vec<_> = fs::read_dir(home.plugins())
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    let mut found = Plugins::default();
    for folder in folders {
        let Some(name) = folder.file_name().map(|n| n.to_string_lossy().into_owned()) else { continue };
        let parts = ["plugin.toml", "mcp.json", "commands", "skills"];
        if !name.starts_with('.') && parts.iter().any(|part| folder.join(part).exists()) {
            found.take(name, &folder, switches);
        }
    }
    found
}

impl Plugins {
    fn take(&mut self, name: String, folder: &Path, switches: &PluginSwitches) {
        let (manifest, unclear) = match manifest(&folder.join("plugin.toml")) {
            Ok(manifest) => (manifest, None),
            // One that is not clear about itself is on only where the person says so.
            Err(problem) => (Manifest { default_enabled: Some(false), ..Manifest::default() }, Some(problem)),
        };
        let enabled = switches.is_on(&name, manifest.default_enabled.unwrap_or(true));
        self.problems.extend(unclear.clone());
        let servers = self.servers(&name, folder, enabled).err();
        self.problems.extend(servers.clone());
        self.plugins.push(PluginEntry {
            name,
            enabled,
            version: manifest.version.and_then(shown),
            description: manifest.description.and_then(shown),
            skills: skills(&folder.join("skills")),
            problem: unclear.or(servers),
        });
    }

    fn servers(&mut self, plugin: &str, folder: &Path, enabled: bool) -> Result<(), ConfigProblem> {
        let Some(source) = Source::read(&folder.join("mcp.json"))? else { return Ok(()) };
        let file = mcp_read::read(&source)?;
        self.problems.extend(file.problems);
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
            entry.plugin = Some(plugin.to_owned());
            self.entries.push(entry);
        }
        Ok(())
    }

    /// The plugin of that name.
    ///
    /// # Errors
    /// `UnknownPlugin` with the names that are there.
    pub(crate) fn find(&self, name: &str) -> Result<&PluginEntry, StoreError> {
        self.plugins.iter().find(|p| p.name == name).ok_or_else(|| StoreError::UnknownPlugin {
            name: name.to_owned(),
            known: self.plugins.iter().map(|p| p.name.clone()).collect(),
        })
    }
}

fn manifest(path: &Path) -> Result<Manifest, ConfigProblem> {
    let Some(source) = Source::read(path)? else { return Ok(Manifest::default()) };
    toml::from_str(source.text())
        .map_err(|e| source.problem(e.span().map_or(0, |s| s.start), e.message().to_owned()))
}

/// A text on one line; a version may be written as a number.
fn shown(value: toml::Value) -> Option<String> {
    let text = match value {
        toml::Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        toml::Value::Integer(_) | toml::Value::Float(_) => value.to_string(),
        _ => return None,
    };
    Some(text).filter(|t| !t.is_empty())
}

/// A skill is a folder with a `SKILL.md`, or a file of its own.
fn skills(folder: &Path) -> usize {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("SKILL.md").is_file() || path.extension().is_some_and(|e| e == "md"))
        .count()
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
        *command = own.components().collect::<PathBuf>().to_string_lossy().into_owned();
    }
}

/// The folder of a plugin that was found, once it is sure that it lies in `plugins/` itself.
///
/// # Errors
/// `PluginPlace` for a link, which leads to somebody else's files, and for a folder elsewhere.
pub(crate) fn own_folder(home: &Home, name: &str) -> Result<PathBuf, StoreError> {
    let (root, path) = (home.plugins(), home.plugins().join(name));
    let wrong = |reason| Err(StoreError::PluginPlace { name: name.to_owned(), path: path.clone(), reason });
    let facts = fs::symlink_metadata(&path).map_err(StoreError::io("read", &path))?;
    if facts.is_symlink() {
        return wrong("is a link to another place; delete the link by hand");
    }
    let real = |path: &Path| path.canonicalize().map_err(StoreError::io("read", path));
    if !facts.is_dir() || real(&path)?.parent() != Some(&*real(&root)?) {
        return wrong("is not a folder of its own in there");
    }
    Ok(path)
}

/// Moves a plugin's folder into the trash and gives its place there.
///
/// # Errors
/// As [`own_folder`]; what the system says. Then the folder is where it was.
pub(crate) fn discard(home: &Home, name: &str) -> Result<PathBuf, StoreError> {
    let path = own_folder(home, name)?;
    let trash = home.plugins().join(TRASH);
    fs::create_dir_all(&trash).map_err(StoreError::io("create", &trash))?;
    if fs::symlink_metadata(&trash).is_ok_and(|facts| facts.is_symlink()) {
        let reason = "cannot be moved: the trash beside it is a link to another place";
        return Err(StoreError::PluginPlace { name: name.to_owned(), path, reason });
    }
    let format = time::macros::format_description!("[year][month][day]_[hour][minute][second]");
    let time = time::OffsetDateTime::now_utc().format(format).unwrap_or_default();
    let place = (1..)
        .map(|n| trash.join(if n == 1 { format!("{name}-{time}") } else { format!("{name}-{time}-{n}") }))
        .find(|place| fs::symlink_metadata(place).is_err())
        .unwrap_or_else(|| trash.join(name));
    fs::rename(&path, &place).map_err(StoreError::io("move", &path))?;
    Ok(place)
}
