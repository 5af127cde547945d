//! Every way in which an upstream does not come up or goes away, with its stable code and what to try. Values
//! of secrets never get in here.

use std::{path::PathBuf, time::Duration};

use evi_domain::{Failure, SecretId, reference::ReferenceError};

/// What is wrong with an upstream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("program not found: {program}")]
    ProgramNotFound { program: String, searched: Vec<PathBuf> },
    #[error("{program} is not a program that may be run")]
    NotExecutable { program: String },
    #[error("its folder does not exist: {folder}")]
    FolderNotFound { folder: String },
    #[error("the system refused to start it: {reason}")]
    Spawn { reason: String },
    #[error("it exited with {status} before it answered")]
    ExitedEarly { status: String },
    #[error("it exited with {status}")]
    Exited { status: String },
    #[error("it stopped {times} times in a row, the last time with: {last}")]
    CrashLoop { times: u32, last: String },
    #[error("it closed its output without an answer")]
    ClosedOutput,
    #[error("no answer to the handshake within {} s{}", after.as_secs(), if *noise { "; it printed text that is not the protocol" } else { "" })]
    HandshakeTimeout { after: Duration, noise: bool },
    #[error("it did not list its tools within {} s", after.as_secs())]
    DiscoveryTimeout { after: Duration },
    #[error("it did not answer within {} s", after.as_secs())]
    Unresponsive { after: Duration },
    #[error("it was not reached within {} s", after.as_secs())]
    StartTimeout { after: Duration },
    #[error("it speaks protocol version {version}, which eVi does not know")]
    UnsupportedVersion { version: String },
    #[error("it does not answer as an MCP server: {what}")]
    NotMcp { what: String },
    #[error("it refused the handshake: {message} ({code})")]
    Rejected { code: i64, message: String },
    #[error("its tools could not be listed: {reason}")]
    Discovery { reason: String },
    #[error("{0}")]
    ReferenceMissing(ReferenceError),
    #[error("secret {0} cannot be read: the keychain is locked or absent")]
    SecretLocked(SecretId),
    #[error("secret {id} cannot be read: {reason}")]
    SecretUnreadable { id: SecretId, reason: String },
    #[error("{host} wants the messages at another place: {other}")]
    ForeignEndpoint { host: String, other: String },
    #[error("the address is not a URL: {reason}")]
    InvalidUrl { reason: String },
    #[error("its file of certificates cannot be used: {path}: {reason}")]
    Certificates { path: String, reason: String },
    #[error("the header {name} is not valid")]
    InvalidHeader { name: String },
    #[error("{host} refused the connection")]
    Refused { host: String },
    #[error("the host {host} was not found")]
    HostNotFound { host: String },
    #[error("{host} did not answer in time")]
    TimedOut { host: String },
    #[error("no trusted encrypted connection to {host}: {reason}")]
    Tls { host: String, reason: String },
    #[error("{host} answered {status}")]
    Status { host: String, status: u16 },
    #[error("the connection to {host} broke: {reason}")]
    Broken { host: String, reason: String },
    #[error("the server forgot the session")]
    SessionExpired,
    #[error("the server may have forgotten the session")]
    SessionDoubtful,
}

/// What follows from a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// Nothing changes until the person does something.
    Permanent,
    /// May pass by itself: tried again after a pause.
    Passing,
    /// A process ended or hung: tried again, but not for ever.
    Crash,
    /// Waits for the vault, or for another token.
    Locked,
}

impl Fault {
    /// A message of ours that cannot be written as JSON, which is our own fault.
    #[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
    pub(crate) fn unwritable(error: serde_json::Error) -> Self {
        Self::Rejected { code: -32603, message: format!("a message could not be written: {error}") }
    }

    /// The stable word.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::ProgramNotFound { .. } => "program_not_found",
            Self::NotExecutable { .. } => "not_executable",
            Self::FolderNotFound { .. } => "folder_not_found",
            Self::Spawn { .. } => "spawn_failed",
            Self::ExitedEarly { .. } | Self::Exited { .. } => "exited",
            Self::CrashLoop { .. } => "crash_loop",
            Self::ClosedOutput | Self::NotMcp { .. } => "not_mcp",
            Self::HandshakeTimeout { .. } => "handshake_timeout",
            Self::DiscoveryTimeout { .. } => "discovery_timeout",
            Self::StartTimeout { .. } => "start_timeout",
            Self::Unresponsive { .. } => "unresponsive",
            Self::UnsupportedVersion { .. } => "unsupported_version",
            Self::Rejected { .. } => "rejected",
            Self::Discovery { .. } => "discovery_failed",
            Self::ReferenceMissing(_) => "reference_missing",
            Self::SecretLocked(_) => "secret_locked",
            Self::SecretUnreadable { .. } => "secret_unreadable",
            Self::ForeignEndpoint { .. } => "foreign_endpoint",
            Self::InvalidUrl { .. } | Self::InvalidHeader { .. } | Self::Certificates { .. } => {
                "invalid_config"
            }
            Self::Refused { .. } => "refused",
            Self::HostNotFound { .. } => "host_not_found",
            Self::TimedOut { .. } => "timed_out",
            Self::Tls { .. } => "tls",
            Self::Status { status, .. } => match status {
                401 => "unauthorized",
                403 => "forbidden",
                404 | 405 | 410 => "not_found",
                429 => "rate_limited",
                300..=399 => "redirected",
                500..=599 => "server_error",
                _ => "http_error",
            },
            Self::Broken { .. } => "connection_lost",
            Self::SessionExpired | Self::SessionDoubtful => "session_expired",
        }
    }

    /// Whether the server was not even there.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::HostNotFound { .. } | Self::Tls { .. } | Self::TimedOut { .. }
        )
    }

    /// Whether the way to the server is what failed, not the server.
    pub(crate) fn is_of_the_network(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. } | Self::HostNotFound { .. } | Self::TimedOut { .. } | Self::Broken { .. }
        )
    }

    /// Whether the server and we do not understand each other.
    pub(crate) fn is_disagreement(&self) -> bool {
        matches!(
            self,
            Self::Rejected { .. }
                | Self::UnsupportedVersion { .. }
                | Self::NotMcp { .. }
                | Self::Status { status: 400 | 404..=406, .. }
        )
    }

    /// Whether and how it is tried again.
    pub(crate) fn outlook(&self) -> Outlook {
        match self {
            Self::ExitedEarly { .. }
            | Self::Exited { .. }
            | Self::ClosedOutput
            | Self::HandshakeTimeout { .. }
            | Self::DiscoveryTimeout { .. }
            | Self::StartTimeout { .. }
            | Self::Unresponsive { .. }
            | Self::Spawn { .. } => Outlook::Crash,
            Self::Refused { .. }
            | Self::HostNotFound { .. }
            | Self::TimedOut { .. }
            | Self::Broken { .. }
            | Self::SessionExpired
            | Self::SessionDoubtful
            | Self::Status { status: 408 | 429 | 500..=599, .. } => Outlook::Passing,
            Self::SecretLocked(_) | Self::Status { status: 401, .. } => Outlook::Locked,
            _ => Outlook::Permanent,
        }
    }

    /// What to try.
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::ProgramNotFound { program, searched } => {
                not_found_hint(program, searched)
            }
            Self::NotExecutable { .. } => "give it the permission to run, or name another program".to_owned(),
            Self::FolderNotFound { .. } => "create the folder, or change cwd".to_owned(),
            Self::Spawn { .. } => "start the command in a terminal to see what is missing".to_owned(),
            Self::ExitedEarly { .. } | Self::Exited { .. } => {
                "its last lines tell more; start the command in a terminal to try it".to_owned()
            }
            Self::CrashLoop { .. } => "look at its last lines, then restart it by hand".to_owned(),
            Self::ClosedOutput | Self::NotMcp { .. } => {
                "check that the command or the address is that of an MCP server".to_owned()
            }
            Self::HandshakeTimeout { noise: true, .. } => {
                "check that the command starts an MCP server over stdio; only the protocol belongs on its output"
                    .to_owned()
            }
            Self::HandshakeTimeout { .. } => {
                "check that it is an MCP server over stdio; a first download may need more time (startup_timeout_sec)"
                    .to_owned()
            }
            Self::DiscoveryTimeout { .. } | Self::StartTimeout { .. } => {
                "look at its log, then restart it".to_owned()
            }
            Self::Unresponsive { .. } => "it is restarted by itself".to_owned(),
            Self::UnsupportedVersion { .. } => "update the server, or eVi".to_owned(),
            Self::Rejected { .. } | Self::Discovery { .. } => "look at the log of the server".to_owned(),
            Self::ReferenceMissing(ReferenceError::EnvUnset(name)) => {
                format!("set {name} in the environment that eVi starts from, or write ${{{name}:-default}}")
            }
            Self::ReferenceMissing(_) => "enter the value again in the server's settings".to_owned(),
            Self::SecretLocked(_) => "unlock the keychain, then restart the server".to_owned(),
            Self::SecretUnreadable { .. } => "check the system's keychain, then restart the server".to_owned(),
            Self::ForeignEndpoint { .. } => {
                "its messages may hold your token, so they go to no other host: enter the address that the \
                 server itself names, or its streamable HTTP address (transport http)"
                    .to_owned()
            }
            Self::InvalidUrl { .. } => "write it as https://host/path".to_owned(),
            Self::Certificates { .. } => {
                "name a PEM file with the certificate of the authority (ca in the server's settings)".to_owned()
            }
            Self::InvalidHeader { .. } => {
                "a header's name takes letters, digits and dashes; its value takes one line".to_owned()
            }
            Self::Refused { .. } => "check that the server runs, and its port".to_owned(),
            Self::HostNotFound { .. } => "check the host's name and the network".to_owned(),
            Self::TimedOut { .. } => "check the address and the network".to_owned(),
            Self::Tls { .. } => "check the certificate of the server, and this machine's clock".to_owned(),
            Self::Status { status, .. } => match status {
                401 => {
                    "sign in to the service and enter a token in the header Authorization, then restart it"
                        .to_owned()
                }
                403 => "the token may not do this: check its rights".to_owned(),
                404 | 405 | 410 => "check the path of the address; many servers are at /mcp".to_owned(),
                429 => "the server asks for fewer requests; it is tried again later".to_owned(),
                300..=399 => "the address leads elsewhere: enter the final one".to_owned(),
                500..=599 => "the server has a fault; it is tried again later".to_owned(),
                _ => "check the address and the headers".to_owned(),
            },
            Self::Broken { .. } => "it is tried again by itself".to_owned(),
            Self::SessionExpired | Self::SessionDoubtful => {
                "a new session is being opened: try again".to_owned()
            }
        })
    }

    /// For the status of an upstream that did not come up (`ready` false) or went away.
    pub(crate) fn failure(&self, name: &str, ready: bool, stderr: Vec<String>) -> Failure {
        let message = if ready {
            format!("\"{name}\" stopped: {self}")
        } else {
            format!("could not start \"{name}\": {self}")
        };
        Failure { code: self.code().to_owned(), message, hint: self.hint(), stderr }
    }
}

/// What to do about a program that is in none of the folders.
pub(crate) fn not_found_hint(program: &str, searched: &[PathBuf]) -> String {
    let folders: Vec<_> = searched.iter().map(|p| p.display().to_string()).collect();
    let first = install_hint(program).unwrap_or("check its spelling");
    let searched = if folders.is_empty() { "no folder".to_owned() } else { folders.join(", ") };
    format!("{first}, or give an absolute path (searched: {searched})")
}

/// What brings a well-known program.
fn install_hint(program: &str) -> Option<&'static str> {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    Some(match name.as_str() {
        "npx" | "npm" | "node" => "install Node.js",
        "pnpm" => "install pnpm",
        "yarn" => "install Yarn",
        "bun" | "bunx" => "install Bun",
        "deno" => "install Deno",
        "uv" | "uvx" => "install uv",
        "pipx" => "install pipx",
        "python" | "python3" | "pip" | "pip3" => "install Python",
        "docker" => "install Docker",
        "podman" => "install Podman",
        "git" => "install Git",
        "java" => "install Java",
        "dotnet" => "install .NET",
        "go" => "install Go",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_what_brings_it() {
        let fault = Fault::ProgramNotFound {
            program: "npx".into(),
            searched: vec!["/usr/bin".into(), "/bin".into()],
        };
        let failure = fault.failure("github", false, Vec::new());
        assert_eq!(failure.code, "program_not_found");
        assert_eq!(failure.message, "could not start \"github\": program not found: npx");
        assert_eq!(
            failure.hint.as_deref(),
            Some("install Node.js, or give an absolute path (searched: /usr/bin, /bin)")
        );
    }

    #[test]
    fn every_http_status_has_its_own_reason() {
        let code = |status| Fault::Status { host: "h".into(), status }.code();
        assert_eq!(
            [401, 403, 404, 429, 503, 302, 418].map(code),
            [
                "unauthorized",
                "forbidden",
                "not_found",
                "rate_limited",
                "server_error",
                "redirected",
                "http_error"
            ]
        );
    }
}
