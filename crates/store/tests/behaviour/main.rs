//! What the store does to the files of a home, as those see it who use it. Touches no keychain.
#![allow(clippy::unwrap_used)]

mod chats;
mod editing;
mod reading;
mod settings;
mod styles;
mod watching;

use std::{collections::BTreeMap, fs};

use evi_domain::{TransportSpec, UpstreamSpec};
use evi_store::{ConfigStore, Home};

/// A home in a folder of its own, without any file.
pub struct Scene {
    _dir: tempfile::TempDir,
    pub home: Home,
}

impl Scene {
    #[expect(clippy::new_without_default, reason = "making a folder is no default")]
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path().join("home"));
        Self { _dir: dir, home }
    }

    pub fn with_mcp(text: impl AsRef<[u8]>) -> Self {
        let scene = Self::new();
        fs::create_dir(scene.home.root()).unwrap();
        fs::write(scene.home.mcp_json(), text).unwrap();
        scene
    }

    pub fn with_toml(text: impl AsRef<[u8]>) -> Self {
        let scene = Self::new();
        fs::create_dir(scene.home.root()).unwrap();
        fs::write(scene.home.config_toml(), text).unwrap();
        scene
    }

    pub fn store(&self) -> ConfigStore {
        ConfigStore::open(self.home.clone())
    }

    pub fn mcp(&self) -> String {
        fs::read_to_string(self.home.mcp_json()).unwrap()
    }

    pub fn toml(&self) -> String {
        fs::read_to_string(self.home.config_toml()).unwrap()
    }
}

pub fn stdio(name: &str, command: &str, args: &[&str], env: &[(&str, &str)]) -> UpstreamSpec {
    let args = args.iter().map(|a| (*a).to_owned()).collect();
    let transport = TransportSpec::Stdio { command: command.into(), args, env: texts(env), cwd: None };
    UpstreamSpec::new(name.into(), transport)
}

pub fn http(name: &str, url: &str, headers: &[(&str, &str)]) -> UpstreamSpec {
    UpstreamSpec::new(name.into(), TransportSpec::Http { url: url.into(), headers: texts(headers) })
}

pub fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}
