//! JSON-RPC messages in and out. Arguments, results and ids stay the text they came as; no tree is built of them.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, value::RawValue};

use crate::protocol::code;

/// How deep JSON may be nested. Readers behind us build trees, and theirs end near this depth, too.
const MAX_DEPTH: usize = 120;
/// How long a name that a client gives itself may be, in characters.
const MAX_NAME: usize = 128;

/// A request's id: a string or a number, as its JSON text.
#[derive(Clone, Debug)]
pub(crate) struct Id(Arc<RawValue>);

impl Id {
    /// Its JSON text, which also tells `1` from `"1"`.
    pub(crate) fn text(&self) -> &str {
        self.0.get()
    }
    /// As a value, to stand in metadata.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_str(self.text()).unwrap_or(Value::Null)
    }
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Value>,
}

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }
}

/// What a client sent.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// It wants an answer.
    Request(Request),
    /// It wants none.
    Notification(Notification),
    /// It answers something. We ask nothing, so it is for nobody.
    Response,
}

/// A message that is none: the error is the answer to it, under its id where it has one.
#[derive(Debug)]
pub(crate) struct Malformed {
    pub(crate) id: Option<Id>,
    pub(crate) error: RpcError,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: Id,
    pub(crate) method: String,
    pub(crate) params: Params,
    pub(crate) meta: Meta,
}

/// A notification.
#[derive(Debug)]
pub(crate) struct Notification {
    pub(crate) method: String,
    pub(crate) params: Params,
    pub(crate) meta: Meta,
}

/// The parameters that some method of ours reads, each as its JSON text.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Params {
    #[serde(rename = "_meta")]
    meta: Option<Box<RawValue>>,
    name: Option<Box<RawValue>>,
    uri: Option<Box<RawValue>>,
    cursor: Option<Box<RawValue>>,
    protocol_version: Option<Box<RawValue>>,
    pub(crate) client_info: Option<Box<RawValue>>,
    pub(crate) arguments: Option<Box<RawValue>>,
    pub(crate) notifications: Option<Box<RawValue>>,
    pub(crate) request_id: Option<Box<RawValue>>,
}

impl Params {
    pub(crate) fn name(&self) -> Result<String, RpcError> {
        text("name", self.name.as_deref())
    }
    pub(crate) fn uri(&self) -> Result<String, RpcError> {
        text("uri", self.uri.as_deref())
    }
    pub(crate) fn protocol_version(&self) -> Result<String, RpcError> {
        text("protocolVersion", self.protocol_version.as_deref())
    }
    /// Our lists are one page, so any cursor is none of ours.
    pub(crate) fn no_cursor(&self) -> Result<(), RpcError> {
        if self.cursor.is_some() {
            return Err(RpcError::params("unknown cursor: this list has one page"));
        }
        Ok(())
    }
}

/// `_meta` of a request, as far as we read it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    progress_token: Option<Box<RawValue>>,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Box<RawValue>>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<Box<RawValue>>,
    #[serde(rename = "io.modelcontextprotocol/clientInfo")]
    pub(crate) client_info: Option<Box<RawValue>>,
}

impl Meta {
    pub(crate) fn version(&self) -> Result<Option<String>, RpcError> {
        self.version.as_deref().map(|raw| text("_meta protocolVersion", Some(raw))).transpose()
    }
    pub(crate) fn has_capabilities(&self) -> bool {
        self.capabilities.as_deref().is_some_and(is_object)
    }
    /// The token under which progress is wanted: a string or a number.
    pub(crate) fn progress_token(&self) -> Option<&RawValue> {
        self.progress_token.as_deref().filter(|raw| is_id(raw))
    }
}

/// Who a client says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) name: Arc<str>,
    pub(crate) version: String,
}

impl Identity {
    /// From `clientInfo`; names go to logs and a window, so they are cut and lose their control characters.
    pub(crate) fn read(raw: Option<&RawValue>) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Info {
            name: String,
            version: String,
        }
        let info: Info = raw.and_then(|r| serde_json::from_str(r.get()).ok()).unwrap_or_default();
        let tame = |text: &str| {
            let kept: String = text.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect();
            kept.trim().to_owned()
        };
        let name = match tame(&info.name) {
            name if name.is_empty() => "unknown".to_owned(),
            name => name,
        };
        Self { name: name.into(), version: tame(&info.version) }
    }
}

/// Reads one message.
pub(crate) fn parse(bytes: &[u8]) -> Result<Incoming, Malformed> {
    let malformed = |code, message: String| Malformed { id: None, error: RpcError::new(code, message) };
    let body =
        std::str::from_utf8(bytes).map_err(|_| malformed(code::PARSE, "the message is not UTF-8".into()))?;
    match body.trim_ascii_start().as_bytes().first() {
        Some(b'[') => {
            let message = "batches are not served: send one message at a time";
            return Err(malformed(code::INVALID_REQUEST, message.into()));
        }
        Some(b'{') => {}
        // Not an object: let the parser say what it is.
        _ => {
            return Err(match serde_json::from_str::<serde::de::IgnoredAny>(body) {
                Ok(_) => malformed(code::INVALID_REQUEST, "a message is a JSON object".into()),
                Err(error) => malformed(code::PARSE, format!("the message is not JSON: {error}")),
            });
        }
    }
    if is_deep(body.as_bytes()) {
        return Err(malformed(
            code::INVALID_REQUEST,
            format!("the message is nested deeper than {MAX_DEPTH} levels"),
        ));
    }
    let envelope: Envelope<'_> = serde_json::from_str(body).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => {
            malformed(code::INVALID_REQUEST, format!("invalid message: {error}"))
        }
        _ => malformed(code::PARSE, format!("the message is not JSON: {error}")),
    })?;
    envelope.open()
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Tells a field that is `null` from one that is not there.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Envelope<'_> {
    fn open(self) -> Result<Incoming, Malformed> {
        let id = self.id.filter(|raw| is_id(raw)).map(|raw| Id(raw.to_owned().into()));
        let refuse =
            |id: Option<Id>, code, message: &str| Malformed { id, error: RpcError::new(code, message) };
        if self.jsonrpc.as_deref() != Some("2.0") {
            return Err(refuse(id, code::INVALID_REQUEST, "\"jsonrpc\" is not \"2.0\""));
        }
        let Some(method) = self.method else {
            if self.result.is_some() || self.error.is_some() {
                return Ok(Incoming::Response);
            }
            return Err(refuse(id, code::INVALID_REQUEST, "\"method\" is missing"));
        };
        let method = method.into_owned();
        if self.id.is_none() {
            let params = read_params(self.params).unwrap_or_default();
            let meta = read_meta(&params).unwrap_or_default();
            return Ok(Incoming::Notification(Notification { method, params, meta }));
        }
        let Some(id) = id else {
            return Err(refuse(None, code::INVALID_REQUEST, "\"id\" is neither a string nor a number"));
        };
        let read = read_params(self.params).and_then(|params| {
            let meta = read_meta(&params)?;
            Ok((params, meta))
        });
        match read {
            Ok((params, meta)) => Ok(Incoming::Request(Request { id, method, params, meta })),
            Err(error) => Err(Malformed { id: Some(id), error }),
        }
    }
}

fn read_params(raw: Option<&RawValue>) -> Result<Params, RpcError> {
    let Some(raw) = raw else { return Ok(Params::default()) };
    if !is_object(raw) {
        return Err(RpcError::params("params is not an object"));
    }
    serde_json::from_str(raw.get()).map_err(|error| RpcError::params(format!("invalid params: {error}")))
}

fn read_meta(params: &Params) -> Result<Meta, RpcError> {
    let Some(raw) = params.meta.as_deref() else { return Ok(Meta::default()) };
    if !is_object(raw) {
        return Err(RpcError::params("_meta is not an object"));
    }
    serde_json::from_str(raw.get()).map_err(|error| RpcError::params(format!("invalid _meta: {error}")))
}

fn text(what: &str, raw: Option<&RawValue>) -> Result<String, RpcError> {
    let raw = raw.ok_or_else(|| RpcError::params(format!("{what} is missing")))?;
    serde_json::from_str(raw.get()).map_err(|_| RpcError::params(format!("{what} is not a string")))
}

pub(crate) fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

fn is_id(raw: &RawValue) -> bool {
    raw.get().starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
}

/// Whether brackets outside of strings nest too deep.
fn is_deep(json: &[u8]) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in json {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// A response with a result, both given as JSON text. `members` is put into the result object in front of its own.
pub(crate) fn result_message(id: &Id, members: &str, result: &str) -> Bytes {
    let mut out = Vec::with_capacity(result.len() + members.len() + id.text().len() + 48);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(id.text().as_bytes());
    out.extend_from_slice(br#","result":"#);
    match result.strip_prefix('{') {
        Some(rest) if !members.is_empty() => {
            out.push(b'{');
            out.extend_from_slice(members.as_bytes());
            if !rest.trim_ascii_start().starts_with('}') {
                out.push(b',');
            }
            out.extend_from_slice(rest.as_bytes());
        }
        _ => out.extend_from_slice(result.as_bytes()),
    }
    out.push(b'}');
    out.into()
}

/// A response with an error; without an id where the message had none that we could read.
pub(crate) fn error_message(id: Option<&Id>, error: &RpcError) -> Bytes {
    let error = serde_json::to_string(error).unwrap_or_else(|_| r#"{"code":-32603,"message":""}"#.to_owned());
    let id = id.map_or("null", Id::text);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into()
}

/// A notification of ours.
pub(crate) fn notice(method: &str, params: Option<&Value>) -> Bytes {
    match params {
        Some(params) => format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#).into(),
        None => format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#).into(),
    }
}

/// The same JSON without line ends: outside of strings they are only space, and inside they are escaped.
pub(crate) fn one_line(message: Bytes) -> Bytes {
    if !message.iter().any(|b| matches!(b, b'\n' | b'\r')) {
        return message;
    }
    message.iter().map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { *b }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_of(text: &str) -> i64 {
        parse(text.as_bytes()).unwrap_err().error.code
    }

    #[test]
    fn what_is_no_message_is_told_apart_from_what_is_no_json() {
        assert_eq!(code_of("{"), code::PARSE);
        assert_eq!(code_of("hello"), code::PARSE);
        assert_eq!(code_of(""), code::PARSE);
        assert_eq!(parse(b"\xff").unwrap_err().error.code, code::PARSE);
        assert_eq!(code_of("[]"), code::INVALID_REQUEST);
        assert_eq!(code_of("7"), code::INVALID_REQUEST);
        assert_eq!(code_of(r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#), code::INVALID_REQUEST);
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#), code::INVALID_REQUEST);
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":1,"method":7}"#), code::INVALID_REQUEST);
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#), code::INVALID_REQUEST);
        assert_eq!(code_of(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#), code::INVALID_PARAMS);
        assert_eq!(
            code_of(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":1}}"#),
            code::INVALID_PARAMS
        );
    }

    #[test]
    fn nesting_is_bounded_and_brackets_in_strings_do_not_count() {
        let nest = |n: usize| {
            let (open, close) = ("[".repeat(n), "]".repeat(n));
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"arguments":{{"a":{open}{close}}}}}}}"#
            )
        };
        assert!(parse(nest(100).as_bytes()).is_ok());
        assert_eq!(code_of(&nest(200)), code::INVALID_REQUEST);
        let text = "[\\\"{".repeat(500);
        let message = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{"name":"{text}"}}}}"#);
        assert!(parse(message.as_bytes()).is_ok());
    }

    #[test]
    fn arguments_keep_their_bytes() {
        let message = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"arguments": {"n": 1.10,  "s":"\u00e9"} }}"#;
        let Ok(Incoming::Request(request)) = parse(message.as_bytes()) else { panic!("a request") };
        assert_eq!(request.params.arguments.unwrap().get(), r#"{"n": 1.10,  "s":"\u00e9"}"#);
        assert_eq!(request.id.text(), r#""a""#);
    }

    #[test]
    fn members_are_put_in_front_of_a_result_of_any_shape() {
        let Ok(Incoming::Request(request)) = parse(br#"{"jsonrpc":"2.0","id":7,"method":"m"}"#) else {
            panic!()
        };
        let with = |result: &str| {
            let bytes = result_message(&request.id, r#""resultType":"complete""#, result);
            serde_json::from_slice::<Value>(&bytes).unwrap()["result"].to_string()
        };
        assert_eq!(with("{}"), r#"{"resultType":"complete"}"#);
        assert_eq!(with("{ \n }"), r#"{"resultType":"complete"}"#);
        assert_eq!(with(r#"{"a":1}"#), r#"{"resultType":"complete","a":1}"#);
    }

    #[test]
    fn a_client_without_a_usable_name_is_unknown() {
        let read = |json: &str| Identity::read(RawValue::from_string(json.to_owned()).ok().as_deref());
        assert_eq!(&*read(r#"{"name":"a\u001b[31mb","version":"1"}"#).name, "a[31mb");
        assert_eq!(&*read(r#"{"name":"  ","version":"1"}"#).name, "unknown");
        assert_eq!(&*read(r#"{"name":7}"#).name, "unknown");
        assert_eq!(&*Identity::read(None).name, "unknown");
    }
}
