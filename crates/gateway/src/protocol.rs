//! The versions and eras of the protocol that we serve, and its fixed words. Nothing else in this crate names a version.
//!
//! Legacy (up to 2025-11-25): the client opens with `initialize`, and what follows belongs to that session.
//! Modern (2026-07-28): no handshake and no session; every request says in `_meta` which version it speaks and who
//! sends it. One client may probe with the modern `server/discover` and go on in either era, so the era belongs to a
//! request, not to a connection: see [`standing`].

use serde_json::json;

use crate::message::{Request, RpcError};

/// The legacy versions, newest first.
const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The modern version.
pub(crate) const MODERN: &str = "2026-07-28";
/// All of them, newest first.
pub(crate) const SUPPORTED: [&str; 5] = [MODERN, LEGACY[0], LEGACY[1], LEGACY[2], LEGACY[3]];

/// JSON-RPC error codes.
pub(crate) mod code {
    pub(crate) const PARSE: i64 = -32700;
    pub(crate) const INVALID_REQUEST: i64 = -32600;
    pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
    pub(crate) const INVALID_PARAMS: i64 = -32602;
    pub(crate) const INTERNAL: i64 = -32603;
    /// Too much at once, or not now.
    pub(crate) const BUSY: i64 = -32000;
    /// What clients of the legacy era know as "session not found".
    pub(crate) const NO_SESSION: i64 = -32001;
    /// Legacy only; modern clients get `INVALID_PARAMS`.
    pub(crate) const NO_RESOURCE: i64 = -32002;
    pub(crate) const HEADER_MISMATCH: i64 = -32020;
    pub(crate) const MISSING_CAPABILITY: i64 = -32021;
    pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
    /// The answer to a cancelled request where something has to be answered.
    pub(crate) const CANCELLED: i64 = -32800;
}

/// Keys of `_meta`.
pub(crate) mod key {
    pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    pub(crate) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
}

/// HTTP headers.
pub(crate) mod header {
    pub(crate) const SESSION: &str = "mcp-session-id";
    pub(crate) const VERSION: &str = "mcp-protocol-version";
    pub(crate) const METHOD: &str = "mcp-method";
    pub(crate) const NAME: &str = "mcp-name";
    pub(crate) const PARAM_PREFIX: &str = "mcp-param-";
}

/// How a request is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// Within a session that `initialize` opened.
    Legacy,
    /// By itself.
    Modern,
}

/// What a request is, before its method is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It opens a legacy session.
    Initialize,
    /// It belongs to one.
    Legacy,
    /// It stands for itself.
    Modern,
}

/// The version that answers an `initialize` which asks for `asked`: the same where we can, else our newest that has
/// a handshake; never a modern one, because that has none.
pub(crate) fn negotiate(asked: &str) -> &'static str {
    LEGACY.into_iter().find(|v| *v == asked).unwrap_or(LEGACY[0])
}

/// Whether a legacy session may name this version in a header.
pub(crate) fn is_legacy(version: &str) -> bool {
    LEGACY.contains(&version)
}

/// Finds what a request is; the error is its answer.
pub(crate) fn standing(request: &Request) -> Result<Standing, RpcError> {
    if request.method == "initialize" {
        return Ok(Standing::Initialize);
    }
    let discover = request.method == "server/discover";
    match request.meta.version()? {
        None if discover => Err(missing_meta(&[key::VERSION])),
        None => Ok(Standing::Legacy),
        Some(v) if is_legacy(&v) && !discover => Ok(Standing::Legacy),
        Some(v) if v == MODERN || is_legacy(&v) => {
            if request.meta.has_capabilities() {
                Ok(Standing::Modern)
            } else {
                Err(missing_meta(&[key::CAPABILITIES]))
            }
        }
        Some(v) => Err(RpcError {
            code: code::UNSUPPORTED_VERSION,
            message: format!("unsupported protocol version: {v}"),
            data: Some(json!({"supported": SUPPORTED, "requested": v})),
        }),
    }
}

/// The answer to a modern request whose `_meta` lacks something.
pub(crate) fn missing_meta(keys: &[&str]) -> RpcError {
    RpcError::new(
        code::INVALID_PARAMS,
        format!("_meta of the request lacks or has a malformed {}", keys.join(", ")),
    )
}

/// The HTTP status of an error. Legacy clients read the error from a 200; modern ones expect these.
pub(crate) fn http_status(era: Era, error_code: Option<i64>) -> http::StatusCode {
    use http::StatusCode;
    match (error_code, era) {
        (Some(code::PARSE | code::INVALID_REQUEST), _) => StatusCode::BAD_REQUEST,
        (Some(code::METHOD_NOT_FOUND), Era::Modern) => StatusCode::NOT_FOUND,
        (Some(code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION), Era::Modern) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i36_a_known_version_is_echoed_and_an_unknown_one_gets_our_newest_with_a_handshake() {
        for version in LEGACY {
            assert_eq!(negotiate(version), version);
        }
        for version in ["2099-01-01", "", "2024-10-07", MODERN] {
            assert_eq!(negotiate(version), "2025-11-25");
        }
    }
}
