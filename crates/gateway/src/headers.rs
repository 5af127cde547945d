//! The headers of a POST against its body: what the client accepts, and whether what it told the network is what it
//! asks of us. It changes nothing.

use base64::{Engine, prelude::BASE64_STANDARD};
use evi_domain::{Caller, ToolHost};
use http::{HeaderMap, header::ACCEPT, header::CONTENT_TYPE};
use serde_json::Value;

use crate::{
    message::{Request, RpcError},
    protocol::{self, Standing, code, header, key},
};

/// What a client takes for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepts {
    pub(crate) json: bool,
    pub(crate) stream: bool,
}

impl Accepts {
    /// Reads `Accept`. Without one anything goes, but nobody who does not name a stream gets one.
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let mut accepts = Self { json: false, stream: false };
        let mut any = false;
        for part in headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()).flat_map(|v| v.split(','))
        {
            any = true;
            let mut pieces = part.split(';').map(str::trim);
            let kind = pieces.next().unwrap_or_default().to_ascii_lowercase();
            let refused = pieces
                .any(|p| p.strip_prefix("q=").and_then(|q| q.parse::<f32>().ok()).is_some_and(|q| q <= 0.0));
            match kind.as_str() {
                _ if refused => {}
                "application/json" | "application/*" | "*/*" => accepts.json = true,
                "text/event-stream" => accepts.stream = true,
                _ => {}
            }
        }
        if !any {
            accepts.json = true;
        }
        accepts
    }
}

/// Whether the body says it is JSON.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.split(';').next())
        .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Whether the request speaks the modern version in its headers.
pub(crate) fn is_modern(headers: &HeaderMap) -> bool {
    headers.get(header::VERSION).is_some_and(|v| v == protocol::MODERN)
}

/// The version header of a legacy request: absent or one that has sessions.
pub(crate) fn check_legacy(headers: &HeaderMap) -> Result<(), RpcError> {
    let Some(value) = headers.get(header::VERSION) else { return Ok(()) };
    match value.to_str() {
        Ok(version) if version == protocol::MODERN => {
            Err(protocol::missing_meta(&[key::VERSION, key::CAPABILITIES]))
        }
        Ok(version) if protocol::is_legacy(version) => Ok(()),
        _ => Err(RpcError::new(
            code::INVALID_REQUEST,
            format!("unsupported MCP-Protocol-Version; supported: {}", protocol::SUPPORTED.join(", ")),
        )),
    }
}

/// Checks `MCP-Protocol-Version`, `Mcp-Method` and `Mcp-Name` against the body. A modern request must have them, because
/// what stands between us and the client may act on them; in a legacy one they only must not lie.
pub(crate) fn check(headers: &HeaderMap, request: &Request) -> Result<(), RpcError> {
    let version = request.meta.version()?;
    let modern = version.is_some();
    if let Some(version) = version {
        expect(headers, header::VERSION, &version, true)?;
    }
    expect(headers, header::METHOD, &request.method, modern)?;
    let name = match request.method.as_str() {
        "tools/call" | "prompts/get" => request.params.name().ok(),
        "resources/read" => request.params.uri().ok(),
        _ => None,
    };
    if let Some(name) = name {
        expect(headers, header::NAME, &name, modern)?;
    }
    Ok(())
}

/// Checks `Mcp-Param-*` of a modern call against the arguments that the tool's schema marks with `x-mcp-header`.
pub(crate) fn check_params(
    headers: &HeaderMap,
    request: &Request,
    standing: Standing,
    host: &dyn ToolHost,
    caller: &Caller,
) -> Result<(), RpcError> {
    if standing != Standing::Modern || request.method != "tools/call" {
        return Ok(());
    }
    let surface = host.surface(caller);
    let Some(tool) = request.params.name().ok().and_then(|name| surface.tool(&name).cloned()) else {
        return Ok(());
    };
    let mut marked = Vec::new();
    collect_marked(tool.def.json().get("inputSchema"), &mut Vec::new(), &mut marked);
    if marked.is_empty() {
        return Ok(());
    }
    let arguments: Value = request
        .params
        .arguments
        .as_deref()
        .and_then(|raw| serde_json::from_str(raw.get()).ok())
        .unwrap_or_default();
    for (path, name) in marked {
        let value = path.iter().try_fold(&arguments, |value, step| value.get(step));
        let text = match value {
            Some(Value::String(text)) => Some(text.clone()),
            Some(value @ (Value::Bool(_) | Value::Number(_))) => Some(value.to_string()),
            _ => None,
        };
        let header = format!("{}{}", header::PARAM_PREFIX, name.to_ascii_lowercase());
        match text {
            Some(text) => expect(headers, &header, &text, true)?,
            None if headers.contains_key(&header) => {
                return Err(mismatch(format!("{header} is there but {} is not", path.join("."))));
            }
            None => {}
        }
    }
    Ok(())
}

fn collect_marked<'a>(
    schema: Option<&'a Value>,
    path: &mut Vec<&'a str>,
    out: &mut Vec<(Vec<&'a str>, &'a str)>,
) {
    let Some(properties) = schema.and_then(|s| s.get("properties")).and_then(Value::as_object) else {
        return;
    };
    for (name, property) in properties {
        path.push(name);
        if let Some(mark) = property.get("x-mcp-header").and_then(Value::as_str).filter(|m| !m.is_empty()) {
            out.push((path.clone(), mark));
        }
        collect_marked(Some(property), path, out);
        path.pop();
    }
}

fn expect(headers: &HeaderMap, name: &str, body: &str, needed: bool) -> Result<(), RpcError> {
    let mut values = headers.get_all(name).iter();
    let value = match (values.next(), values.next()) {
        (None, _) if needed => return Err(mismatch(format!("the header {name} is missing"))),
        (None, _) => return Ok(()),
        (Some(value), None) => value,
        (Some(_), Some(_)) => return Err(mismatch(format!("the header {name} is there twice"))),
    };
    let said = value.to_str().ok().and_then(decode);
    if said.as_deref() != Some(body) {
        return Err(mismatch(format!("the header {name} does not match the body")));
    }
    Ok(())
}

/// Undoes `=?base64?…?=`, in which values travel that a header cannot hold.
fn decode(value: &str) -> Option<String> {
    match value.strip_prefix("=?base64?").and_then(|v| v.strip_suffix("?=")) {
        Some(inner) => String::from_utf8(BASE64_STANDARD.decode(inner).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

fn mismatch(message: String) -> RpcError {
    RpcError::new(code::HEADER_MISMATCH, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(value: &'static str) -> (bool, bool) {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, value.parse().unwrap());
        let accepts = Accepts::read(&headers);
        (accepts.json, accepts.stream)
    }

    #[test]
    fn a_stream_goes_only_to_who_names_it() {
        assert_eq!(accepts("application/json, text/event-stream"), (true, true));
        assert_eq!(accepts("text/event-stream"), (false, true));
        assert_eq!(accepts("*/*"), (true, false));
        assert_eq!(accepts("application/json;q=0, Text/Event-Stream; q=0.5"), (false, true));
        assert_eq!(accepts("text/html"), (false, false));
        assert_eq!(Accepts::read(&HeaderMap::new()), Accepts { json: true, stream: false });
    }

    #[test]
    fn encoded_header_values_are_read() {
        assert_eq!(decode("=?base64?w6k=?=").as_deref(), Some("é"));
        assert_eq!(decode("=?base64?%?="), None);
        assert_eq!(decode("plain").as_deref(), Some("plain"));
    }
}
