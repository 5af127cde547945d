//! The one translation of every part's errors into problems that a shell can show.

use evi_contract::{Code, ConfigProblemView, Problem};
use evi_domain::{CallError, ConfigProblem, Failure, SecretError};
use evi_gateway::GatewayError;
use evi_store::StoreError;

/// Runs work that blocks (files, SQLite, the keychain) off the async threads.
///
/// # Errors
/// The work's own, or `internal` when it panicked.
pub async fn blocking<T, E, F>(work: F) -> Result<T, Problem>
where
    T: Send + 'static,
    E: Into<Wrapped> + Send + 'static,
    F: FnOnce() -> Result<T, E> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(|e| e.into().0),
        Err(_) => {
            Err(Problem::new(Code::Internal, "a storage task failed inside eVi")
                .hint("the log has the details"))
        }
    }
}

/// A problem made from a part's error.
pub struct Wrapped(pub Problem);

impl From<StoreError> for Wrapped {
    fn from(error: StoreError) -> Self {
        Self(store(&error))
    }
}

impl From<SecretError> for Wrapped {
    fn from(error: SecretError) -> Self {
        Self(secret(&error))
    }
}

impl From<Problem> for Wrapped {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

/// Of the vault.
pub fn secret(error: &SecretError) -> Problem {
    match error {
        SecretError::NoKeychain => Problem::new(Code::NoKeychain, "no keychain is available, so secrets cannot be kept")
            .hint("install and start a keychain service (on Linux: gnome-keyring or KWallet), or give the value as ${env:NAME}"),
        SecretError::Locked => Problem::new(Code::SecretLocked, "the keychain is locked")
            .hint("unlock it (log in to the desktop session), then try again"),
        SecretError::Failed(what) => Problem::new(Code::Storage, format!("the keychain failed: {what}")),
    }
}

/// Of a file that was not clear.
pub fn config(problem: &ConfigProblem) -> ConfigProblemView {
    ConfigProblemView {
        file: problem.file.clone(),
        line: problem.at.map(|(line, _)| line),
        column: problem.at.map(|(_, column)| column),
        message: problem.message.clone(),
        whole_file: problem.whole_file,
    }
}

/// Of a call without a result.
pub fn call(error: &CallError) -> Problem {
    let message = error.to_string();
    match error {
        CallError::UnknownTool { near, .. } => {
            let problem = Problem::new(Code::UnknownTool, message);
            if near.is_empty() {
                problem.hint("evi mcp list-tools and the page Tools have the names; its server may be off")
            } else {
                problem.hint(format!("near names: {}", near.join(", ")))
            }
        }
        CallError::Forbidden { .. } => {
            Problem::new(Code::Forbidden, message).hint("change the rule in config.toml")
        }
        CallError::Denied { .. } => Problem::new(Code::Denied, message),
        CallError::InvalidArguments { .. } => Problem::new(Code::InvalidArguments, message),
        CallError::Unavailable { .. } => {
            Problem::new(Code::Unavailable, message).hint("its log under Servers says more; restart it there")
        }
        CallError::TimedOut { .. } => Problem::new(Code::TimedOut, message),
        CallError::Cancelled => Problem::new(Code::Cancelled, message),
        CallError::Rpc { code, .. } => {
            Problem::new(Code::Rpc, format!("the server answered with error {code}: {message}"))
        }
        CallError::Internal { .. } => Problem::new(Code::Internal, message).hint("the log has the details"),
    }
}

/// Of a server that did not come up.
pub fn failure(failure: &Failure) -> Problem {
    let code = if failure.code == "secret_locked" { Code::SecretLocked } else { Code::UpstreamFailed };
    let problem = Problem::new(code, failure.message.clone());
    match &failure.hint {
        Some(hint) => problem.hint(hint.clone()),
        None => problem,
    }
}

/// Of disk and database.
pub fn store(error: &StoreError) -> Problem {
    let message = error.to_string();
    match error {
        StoreError::Malformed(problem) => Problem::new(Code::ConfigUnreadable, problem.to_string())
            .hint("nothing was written; mend the file in an editor, then try again"),
        StoreError::Unclear(problem) => Problem::new(Code::ConfigUnreadable, problem.to_string())
            .hint("nothing was written; change that place in an editor"),
        StoreError::Exists { .. } => {
            Problem::new(Code::AlreadyExists, message).hint("use --overwrite to replace it").field("name")
        }
        StoreError::Unknown { .. } => Problem::new(Code::NotFound, message),
        StoreError::PluginOwned { plugin, .. } => {
            Problem::new(Code::ReadOnly, message).hint(of_plugin(plugin))
        }
        StoreError::UnknownPlugin { known, .. } => {
            Problem::new(Code::NotFound, message).hint(if known.is_empty() {
                "no plugins are installed; evi plugin list says where they belong".to_owned()
            } else {
                format!("the plugins are: {}", known.join(", "))
            })
        }
        StoreError::InvalidName { .. } => Problem::new(Code::InvalidInput, message).field("name"),
        StoreError::UnknownChat(_) => Problem::new(Code::NotFound, "this conversation is not there any more"),
        StoreError::NewerDb { .. } => Problem::new(Code::Storage, message).hint("update eVi"),
        // Only folders of the home are created.
        StoreError::Io { action: "create" | "protect", .. } => Problem::new(Code::Storage, message)
            .hint("the folder must belong to you; set EVI_HOME to a folder that you can write"),
        _ => Problem::new(Code::Storage, message),
    }
}

/// What to do with a server that belongs to a plugin.
pub fn of_plugin(plugin: &str) -> String {
    format!("switch or remove it with the plugin: evi plugin disable {plugin}, evi plugin remove {plugin}")
}

/// Of the served endpoint.
pub fn gateway(error: &GatewayError) -> Problem {
    match error {
        GatewayError::PortBusy { addr } => {
            Problem::new(Code::PortBusy, format!("port {} is in use by another program", addr.port()))
                .hint("stop that program, or choose another port: under Gateway, or with --port")
                .field("port")
        }
        GatewayError::TokenRequired { .. } => Problem::new(Code::UnsafeAddress, error.to_string())
            .hint("give a token with EVI_MCP_TOKEN or --token, or listen on 127.0.0.1"),
        other => Problem::new(Code::Internal, other.to_string()),
    }
}
