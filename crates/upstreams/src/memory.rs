//! What a server turned out to speak, kept over restarts beside its tools, so that it is not asked in vain every time.
//! Another spec is another server: nothing is remembered of it. A memory that is wrong costs one try.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use evi_domain::UpstreamSpec;
use serde::{Deserialize, Serialize};

use crate::{handshake::Era, hub::Core};

#[derive(Serialize, Deserialize)]
struct Note {
    /// A digest of the spec.
    spec: String,
    era: Era,
}

/// The era of this very spec, where one was found.
pub(crate) async fn recall(core: &Core, spec: &UpstreamSpec) -> Option<Era> {
    let note: Note = serde_json::from_str(&core.noted(&spec.name).await?).ok()?;
    (note.spec == digest(spec)?).then_some(note.era)
}

/// Keeps it.
pub(crate) fn keep(core: &Core, spec: &UpstreamSpec, era: Era) {
    let line = digest(spec).and_then(|spec| serde_json::to_string(&Note { spec, era }).ok());
    if let Some(line) = line {
        core.note(&spec.name, line);
    }
}

/// A short one: two specs of one name that share it would only cost a try.
fn digest(spec: &UpstreamSpec) -> Option<String> {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(spec).ok()?.hash(&mut hasher);
    Some(format!("{:016x}", hasher.finish()))
}
