//! The last known offer of each upstream, a file each. A cache: what cannot be read is not there, what cannot be
//! written is logged and forgotten.

use std::path::{Path, PathBuf};

use evi_domain::{CatalogCache, Offer, UpstreamName};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Home, atomic};

/// The cache under `state/catalog/`.
#[derive(Clone, Debug)]
pub struct DiskCatalog {
    home: Home,
}

/// Beside the offer in its file: two names could share a file's name.
#[derive(Deserialize)]
struct Whose {
    name: UpstreamName,
}

#[derive(Serialize)]
struct Kept<'a> {
    name: &'a UpstreamName,
    #[serde(flatten)]
    offer: &'a Offer,
}

impl DiskCatalog {
    /// The cache of a home; makes no folder before something is put.
    pub fn new(home: Home) -> Self {
        Self { home }
    }

    fn path(&self, upstream: &UpstreamName) -> PathBuf {
        self.home.catalog().join(format!("{}.json", Self::stem(upstream)))
    }

    fn note_path(&self, upstream: &UpstreamName) -> PathBuf {
        self.home.catalog().join(format!("{}.note", Self::stem(upstream)))
    }

    /// Writes a file unless it holds just that already.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
        if atomic::read(path)?.as_deref() != Some(bytes) {
            self.home.prepare()?;
            atomic::write(path, bytes)?;
        }
        Ok(())
    }

    /// A name may hold anything; a digest is always a file's name.
    fn stem(upstream: &UpstreamName) -> String {
        let digest = Sha256::digest(upstream.as_str().as_bytes());
        digest.iter().take(12).map(|b| format!("{b:02x}")).collect()
    }
}

impl CatalogCache for DiskCatalog {
    fn get(&self, upstream: &UpstreamName) -> Option<Offer> {
        let bytes = atomic::read(&self.path(upstream)).ok()??;
        let whose: Whose = serde_json::from_slice(&bytes).ok()?;
        // A file of an older eVi holds tools only, and nothing else is then known.
        let mut offer: Offer = serde_json::from_slice(&bytes).ok()?;
        offer.tools.retain(|tool| !tool.name().is_empty());
        (whose.name == *upstream).then_some(offer)
    }

    fn put(&self, upstream: &UpstreamName, offer: &Offer) {
        let kept = Kept { name: upstream, offer };
        let bytes = serde_json::to_vec(&kept).map_err(Into::into);
        if let Err(error) = bytes.and_then(|bytes| self.write(&self.path(upstream), &bytes)) {
            tracing::warn!(%upstream, %error, "the offer could not be kept");
        }
    }

    fn remove(&self, upstream: &UpstreamName) {
        for path in [self.path(upstream), self.note_path(upstream)] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    tracing::warn!(%upstream, %error, "the kept offer could not be removed");
                }
                _ => {}
            }
        }
    }

    fn noted(&self, upstream: &UpstreamName) -> Option<String> {
        String::from_utf8(atomic::read(&self.note_path(upstream)).ok()??).ok()
    }

    fn note(&self, upstream: &UpstreamName, line: &str) {
        if let Err(error) = self.write(&self.note_path(upstream), line.as_bytes()) {
            tracing::warn!(%upstream, %error, "what was learnt of a server could not be kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(json: serde_json::Value) -> Offer {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn what_was_put_comes_back_and_a_damaged_file_is_no_offer() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCatalog::new(Home::at(dir.path().join("h")));
        let name = UpstreamName::new("../x: y");
        assert_eq!(cache.get(&name), None);
        assert!(!dir.path().join("h").exists());
        let put = offer(serde_json::json!({
            "tools": [{"name": "t", "x-own": {"b": 1, "a": 2}}],
            "resources": [{"uri": "x:1", "name": "one", "x-own": 1.0}],
            "templates": [{"uriTemplate": "x:{n}", "name": "n"}],
            "prompts": [{"name": "p", "arguments": []}],
            "instructions": "be quick",
            "server": {"name": "s", "version": "1", "x-own": true},
            "completes": true,
        }));
        assert_eq!(put.prompts.len() + put.templates.len() + put.resources.len(), 3);
        cache.put(&name, &put);
        assert_eq!(cache.get(&name), Some(put));
        std::fs::write(cache.path(&name), "{").unwrap();
        assert_eq!(cache.get(&name), None);
        assert_eq!(cache.noted(&name), None);
        cache.note(&name, "a");
        cache.note(&name, "b");
        assert_eq!(cache.noted(&name).as_deref(), Some("b"));
        cache.remove(&name);
        cache.remove(&name);
        assert_eq!(cache.noted(&name), None);
        assert!(!cache.path(&name).exists());
    }

    #[test]
    fn a_file_of_tools_only_is_still_read() {
        let dir = tempfile::tempdir().unwrap();
        let cache = DiskCatalog::new(Home::at(dir.path().join("h")));
        let name = UpstreamName::new("fs");
        cache.put(&name, &Offer::default());
        std::fs::write(cache.path(&name), r#"{"name":"fs","tools":[{"name":"read"},{"title":"none"}]}"#)
            .unwrap();
        assert_eq!(cache.get(&name), Some(offer(serde_json::json!({"tools": [{"name": "read"}]}))));
    }
}
