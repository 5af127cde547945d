//! What went wrong, as every shell shows it: one type, one table of codes.

use serde::{Deserialize, Serialize};
use ts_rs::TS;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $exit:literal, $http:literal;)*) => {
        /// A stable word for a kind of failure. One table gives its exit status and its HTTP status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, TS)]
        #[serde(rename_all = "snake_case")]
        pub enum Code { $($(#[$doc])* $name,)* }
        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$name,)*];
            /// Exit status of the command line: 1 failed, 2 misuse, 130 cancelled.
            pub fn exit_status(self) -> u8 { match self { $(Code::$name => $exit,)* } }
            /// Status of the web shell's answer.
            pub fn http_status(self) -> u16 { match self { $(Code::$name => $http,)* } }
        }
    };
}

codes! {
    /// The command's parameters are not what it takes.
    InvalidInput = 2, 400;
    /// No such command.
    UnknownCommand = 2, 404;
    /// What was named is not there.
    NotFound = 1, 404;
    /// A thing of that name is there already.
    AlreadyExists = 1, 409;
    /// It belongs to a plugin and cannot be changed here.
    ReadOnly = 1, 400;
    /// A configuration file could not be read, so nothing was written to it.
    ConfigUnreadable = 1, 409;
    /// A file could not be read or written.
    Storage = 1, 500;
    /// There is no keychain.
    NoKeychain = 1, 503;
    /// The keychain is locked.
    SecretLocked = 1, 503;
    /// The servers of `mcp.json` are switched off.
    McpOff = 1, 409;
    /// A server is not ready.
    Unavailable = 1, 503;
    /// A server did not come up.
    UpstreamFailed = 1, 502;
    /// No such tool, or not for this caller.
    UnknownTool = 1, 404;
    /// A rule says no.
    Forbidden = 1, 403;
    /// The person said no, or nobody answered.
    Denied = 1, 403;
    /// A tool's arguments are wrong.
    InvalidArguments = 1, 400;
    /// We stopped waiting.
    TimedOut = 1, 504;
    /// It was cancelled.
    Cancelled = 130, 499;
    /// A server answered with a protocol error.
    Rpc = 1, 502;
    /// A port is in use.
    PortBusy = 1, 409;
    /// The address must not be served like this.
    UnsafeAddress = 2, 400;
    /// No model is configured.
    NoModel = 1, 409;
    /// The model's endpoint failed.
    Model = 1, 502;
    /// It is busy with something else.
    Busy = 1, 409;
    /// Another process owns the home and could not be asked.
    Attach = 1, 503;
    /// A fault of ours.
    Internal = 1, 500;
}

/// What failed and what to try. Messages are lower case and have no final period.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, TS, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// Stable word.
    pub code: Code,
    /// What failed.
    pub message: String,
    /// What to try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub hint: Option<String>,
    /// The field of the form it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[ts(optional)]
    pub field: Option<String>,
}

impl Problem {
    /// A problem without hint or field.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, field: None }
    }
    /// With what to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    /// With the field it belongs to.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}
