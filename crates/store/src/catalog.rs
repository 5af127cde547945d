//! The last known tools of each upstream, a file each. A cache: what cannot be read is not there, what cannot be
//! written is logged and forgotten.

use std::path::PathBuf;

use evi_domain::{CatalogCache, ToolDef, UpstreamName};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Home, atomic};

/// The cache under `state/catalog/`.
#[derive(Clone, Debug)]
pub struct DiskCatalog {
    home: Home,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    /// Two names could share a file's name.
    name: UpstreamName,
    tools: Vec<serde_json::Map<String, serde_json::Value>>,
}

impl DiskCatalog {
    /// The cache of a home; makes no folder before something is put.
    pub fn new(home: Home) -> Self {
        Self { home }
    }

    /// A name may hold anything; a digest is always a file's name.
    fn path(&self, upstream: &UpstreamName) -> PathBuf {
        let digest = Sha256::digest(upstream.as_str().as_bytes());
        let prefix: String = digest.iter().take(12).map(|b| format!("{b:02x}")).collect();
        self.home.catalog().join(format!("{prefix}.json"))
    }
}

impl CatalogCache for DiskCatalog {
    fn get(&self, upstream: &UpstreamName) -> Option<Vec<ToolDef>> {
        let bytes = atomic::read(&self.path(upstream)).ok()??;
        let kept: Kept = serde_json::from_slice(&bytes).ok()?;
        (kept.name == *upstream).then(|| kept.tools.into_iter().filter_map(ToolDef::new).collect())
    }

    fn put(&self, upstream: &UpstreamName, tools: &[ToolDef]) {
        let kept = Kept { name: upstream.clone(), tools: tools.iter().map(|t| t.json().clone()).collect() };
        let path = self.path(upstream);
        let put = || -> Result<(), Box<dyn std::error::Error>> {
            let bytes = serde_json::to_vec(&kept)?;
            if atomic::read(&path)?.as_ref() != Some(&bytes) {
                self.home.prepare()?;
                atomic::write(&path, &bytes)?;
            }
            Ok(())
        };
        if let Err(error) = put() {
            tracing::warn!(%upstream, %error, "the tools could not be kept");
        }
    }

    fn remove(&self, upstream: &UpstreamName) {
        match std::fs::remove_file(self.path(upstream)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%upstream, %error, "the kept tools could not be removed");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_comes_back_and_a_damaged_file_is_no_tools() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCatalog::new(Home::at(dir.path().join("h")));
        let name = UpstreamName::new("../x: y");
        assert_eq!(cache.get(&name), None);
        assert!(!dir.path().join("h").exists());
        let json = serde_json::json!({"name": "t", "x-own": {"b": 1, "a": 2}});
        let tools = vec![ToolDef::new(json.as_object().unwrap().clone()).unwrap()];
        cache.put(&name, &tools);
        assert_eq!(cache.get(&name), Some(tools));
        std::fs::write(cache.path(&name), "{").unwrap();
        assert_eq!(cache.get(&name), None);
        cache.remove(&name);
        cache.remove(&name);
        assert!(!cache.path(&name).exists());
    }
}
