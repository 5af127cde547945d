//! What the parts ask of each other: who runs calls, who keeps secrets, who keeps records.

use std::{future::Future, pin::Pin, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::watch;

use crate::{
    CallContext, CallError, CallId, Caller, Offer, PromptText, ResourceText, Secret, SecretId, Surface,
    ToolResult, UpstreamName,
};

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs calls for whoever asks. There is one implementation, the guarded path of the application; the gateway
/// and the turn engine only know this.
pub trait ToolHost: Send + Sync + 'static {
    /// What `caller` may see now.
    fn surface(&self, caller: &Caller) -> Arc<Surface>;

    /// Ticks when any surface may have changed.
    fn changed(&self) -> watch::Receiver<u64>;

    /// Exposure → policy → approval → time limit → journal. `name` is one of the caller's surface.
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        name: &'a str,
        arguments: Box<RawValue>,
        context: CallContext,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>>;

    /// Reads a resource of the caller's surface.
    fn read_resource<'a>(
        &'a self,
        caller: &'a Caller,
        uri: &'a str,
    ) -> BoxFuture<'a, Result<ResourceText, CallError>>;

    /// Gets a prompt of the caller's surface; `arguments` is the one text `args`.
    fn get_prompt<'a>(
        &'a self,
        caller: &'a Caller,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, Result<PromptText, CallError>>;
}

/// Why the vault did not do it.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum SecretError {
    /// There is no keychain service on this machine or in this session.
    #[error("no keychain is available")]
    NoKeychain,
    /// It is there and locked.
    #[error("the keychain is locked")]
    Locked,
    /// Anything else, in words and without the value.
    #[error("the keychain failed: {0}")]
    Failed(String),
}

/// The vault. Calls may block on the system's service: use a blocking thread.
pub trait SecretStore: Send + Sync + 'static {
    /// The value, or `None` where there never was one.
    ///
    /// # Errors
    /// `Locked` for a listed id without a readable entry.
    fn get(&self, id: &SecretId) -> Result<Option<Secret>, SecretError>;
    /// Puts a value in or replaces it.
    ///
    /// # Errors
    /// When nothing was stored.
    fn set(&self, id: &SecretId, value: &Secret) -> Result<(), SecretError>;
    /// Takes a value out; none is no error.
    ///
    /// # Errors
    /// When it is still there.
    fn delete(&self, id: &SecretId) -> Result<(), SecretError>;
    /// The ids that are set, without asking the keychain.
    fn ids(&self) -> Vec<SecretId>;
    /// Whether values can be stored here and now; may take up to 2 s the first time.
    ///
    /// # Errors
    /// What stands in the way.
    fn probe(&self) -> Result<(), SecretError>;
}

/// Keeps the last known offer of an upstream over restarts.
pub trait CatalogCache: Send + Sync + 'static {
    /// The last one that was put.
    fn get(&self, upstream: &UpstreamName) -> Option<Offer>;
    /// Replaces it.
    fn put(&self, upstream: &UpstreamName, offer: &Offer);
    /// Forgets it, and what was noted.
    fn remove(&self, upstream: &UpstreamName);
    /// What was noted of it last.
    fn noted(&self, upstream: &UpstreamName) -> Option<String>;
    /// Notes a line of what was learnt of it, in place of the last.
    fn note(&self, upstream: &UpstreamName, line: &str);
}

/// One call in the record of calls. Arguments are redacted before they get here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// The call.
    pub id: CallId,
    /// When it began, in milliseconds since 1970.
    pub at_ms: u64,
    /// Who asked: `chat`, `person`, or the client's name.
    pub caller: String,
    /// The tool as shown.
    pub tool: String,
    /// The arguments as compact JSON, redacted, capped at 4 KiB.
    pub arguments: String,
    /// `ok`, `tool_error`, or a code of [`CallError`].
    pub outcome: String,
    /// How long it took.
    pub took_ms: u64,
}

/// The record of calls. `record` never blocks and never fails a call.
pub trait Journal: Send + Sync + 'static {
    /// Adds an entry.
    fn record(&self, entry: JournalEntry);
    /// The newest entries, newest first.
    fn recent(&self, limit: usize) -> Vec<JournalEntry>;
}
