//! One message to bytes and bytes to messages, whatever carries them: the raw lane beside rmcp's types. What is no
//! message is logged and skipped, what is too long is an error for whoever waits for it. It reads from nothing.

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use evi_domain::LogStream;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorData, GetExtensions, NumberOrString, RequestMetaObject, ServerJsonRpcMessage,
    ServerResult,
};
use serde::{Deserialize, ser::Error as _};
use serde_json::{Map, Value, value::RawValue};

use crate::{
    log::Log,
    wire::{Mark, Wire},
};

/// Bytes of one message.
pub(crate) const MESSAGE_CAP: usize = 64 << 20;
/// What is kept of either end of a message that is too long.
pub(crate) const ENDS: usize = 4 << 10;

/// What it means when something is no message.
#[derive(Clone, Copy)]
pub(crate) enum Noise {
    /// The server prints where only the protocol belongs.
    Stdout,
    /// The server sends an event that we do not know.
    Event,
    /// The server's answer over HTTP is something else.
    Body,
}

/// Both directions of one connection.
pub(crate) struct Messages {
    waiting: VecDeque<ServerJsonRpcMessage>,
    wire: Arc<Wire>,
    log: Log,
    noise: Noise,
}

impl Messages {
    pub(crate) fn new(wire: Arc<Wire>, log: Log, noise: Noise) -> Self {
        Self { waiting: VecDeque::new(), wire, log, noise }
    }

    /// One line, without its end.
    pub(crate) fn encode(&self, item: &ClientJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
        let ClientJsonRpcMessage::Request(request) = item else { return serde_json::to_vec(item) };
        let extensions = request.request.extensions();
        let Some(mark) = extensions.get::<Mark>() else { return serde_json::to_vec(item) };
        self.wire.expect(&request.id, mark.ticket);
        match &mark.params {
            Some(params) => raw_request(&request.id, request.request.method(), params, extensions.get()),
            None => serde_json::to_vec(item),
        }
    }

    /// The next of what was accepted.
    pub(crate) fn next(&mut self) -> Option<ServerJsonRpcMessage> {
        self.waiting.pop_front()
    }

    /// A text that should be a message, or several.
    pub(crate) fn accept(&mut self, bytes: &[u8]) {
        let bytes = bytes.trim_ascii();
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        match bytes.first() {
            None => {}
            Some(b'{') => self.accept_message(bytes),
            Some(b'[') => match serde_json::from_slice::<Vec<&RawValue>>(bytes) {
                Ok(batch) => batch.iter().for_each(|m| self.accept_message(m.get().as_bytes())),
                Err(_) => self.noise(bytes),
            },
            Some(_) => self.noise(bytes),
        }
    }

    /// A text longer than [`MESSAGE_CAP`], of which only the ends are there. `asked` is the request that it probably
    /// answers.
    pub(crate) fn too_long(&mut self, head: &[u8], tail: &[u8], asked: Option<&NumberOrString>) {
        let cap = MESSAGE_CAP >> 20;
        let asked = asked.filter(|_| !names_method(head)).cloned();
        match id_at_an_end(head, tail).map(NumberOrString::Number).or(asked) {
            Some(id) => {
                let what = format!("the answer to request {id} is longer than {cap} MiB");
                self.log.push(LogStream::Evi, &what);
                self.fail(id, format!("the answer is longer than {cap} MiB"));
            }
            None if head.trim_ascii_start().starts_with(b"{") => {
                self.log.push(LogStream::Evi, &format!("a message longer than {cap} MiB was skipped"));
            }
            None => self.noise(head),
        }
    }

    /// Whoever waits for this answer gets an error instead: nobody must wait for ever.
    pub(crate) fn fail(&mut self, id: NumberOrString, why: impl Into<Cow<'static, str>>) {
        self.wire.take_expected(&id);
        let error = ErrorData::internal_error(why, None);
        self.waiting.push_back(ServerJsonRpcMessage::error(error, Some(id)));
    }

    fn noise(&self, bytes: &[u8]) {
        match self.noise {
            Noise::Stdout => self.log.noise(&String::from_utf8_lossy(bytes)),
            Noise::Event => self.log.push(LogStream::Evi, "an event that is no message was skipped"),
            Noise::Body => self.log.push(LogStream::Evi, "an answer that is no message was skipped"),
        }
    }

    fn accept_message(&mut self, bytes: &[u8]) {
        if self.wire.expects_any()
            && let Ok(answer) = serde_json::from_slice::<RawAnswer<'_>>(bytes)
            && let Some(ticket) = self.wire.take_expected(&answer.id)
        {
            // rmcp only needs to know that there is an answer: the tree of a large result is never built.
            self.wire.keep(ticket, answer.result.to_owned());
            self.waiting.push_back(ServerJsonRpcMessage::response(ServerResult::empty(()), answer.id));
            return;
        }
        if let Ok(message) = serde_json::from_slice(bytes) {
            if let ServerJsonRpcMessage::Response(answer) = &message
                && let ServerResult::InitializeResult(_) | ServerResult::DiscoverResult(_) = &answer.result
                && let Ok(introduction) = serde_json::from_slice::<Introduction>(bytes)
            {
                let Introduced { server, meta } = introduction.result;
                self.wire.introduce(server.or(meta.server).unwrap_or_default());
            }
            self.waiting.push_back(message);
            return;
        }
        match serde_json::from_slice::<BrokenAnswer>(bytes) {
            Ok(BrokenAnswer { id: Some(id), method: None, .. }) => {
                self.fail(id, "the answer is not valid JSON-RPC");
            }
            Ok(BrokenAnswer { jsonrpc: Some(_), .. }) => {
                self.log.push(LogStream::Evi, "a message that is not valid JSON-RPC was skipped");
            }
            _ => self.noise(bytes),
        }
    }
}

/// An answer whose result stays as it is.
#[derive(Deserialize)]
struct RawAnswer<'a> {
    id: NumberOrString,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// The answer to a handshake, for what the server says of itself: rmcp's type drops the fields that it does not know.
#[derive(Deserialize)]
struct Introduction {
    result: Introduced,
}

#[derive(Deserialize)]
struct Introduced {
    #[serde(rename = "serverInfo")]
    server: Option<Map<String, Value>>,
    #[serde(rename = "_meta", default)]
    meta: IntroducedMeta,
}

#[derive(Default, Deserialize)]
struct IntroducedMeta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct BrokenAnswer {
    jsonrpc: Option<serde::de::IgnoredAny>,
    id: Option<NumberOrString>,
    method: Option<serde::de::IgnoredAny>,
}

/// A request with its parameters' own bytes, and `_meta` put in.
fn raw_request(
    id: &NumberOrString,
    method: &str,
    params: &RawValue,
    meta: Option<&RequestMetaObject>,
) -> serde_json::Result<Vec<u8>> {
    let params = params.get().trim_end();
    // Written by hand, as the parameters may be megabytes and need no second look.
    let mut bytes = Vec::with_capacity(params.len() + 512);
    bytes.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    serde_json::to_writer(&mut bytes, id)?;
    bytes.extend_from_slice(br#","method":"#);
    serde_json::to_writer(&mut bytes, method)?;
    bytes.extend_from_slice(br#","params":"#);
    match meta {
        None => bytes.extend_from_slice(params.as_bytes()),
        Some(meta) => {
            let open = params.strip_suffix('}').ok_or_else(|| serde_json::Error::custom("no JSON object"))?;
            bytes.extend_from_slice(open.as_bytes());
            if open.trim() != "{" {
                bytes.push(b',');
            }
            bytes.extend_from_slice(br#""_meta":"#);
            serde_json::to_writer(&mut bytes, meta)?;
            bytes.push(b'}');
        }
    }
    bytes.push(b'}');
    // A line ends a message. Raw line ends can only be white space here: within a JSON text they are escaped.
    for byte in &mut bytes {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    Ok(bytes)
}

/// Whether what begins like this is a request or a notification rather than an answer.
fn names_method(head: &[u8]) -> bool {
    let head: String =
        String::from_utf8_lossy(head).chars().take(200).filter(|c| !c.is_whitespace()).collect();
    head.contains(r#""method":""#)
}

/// The id of an answer of which only the ends are known. Servers write it first or last; anywhere else it could
/// be part of the answer's text.
fn id_at_an_end(head: &[u8], tail: &[u8]) -> Option<i64> {
    let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
    let compact: String = head.chars().take(200).filter(|c| !c.is_whitespace()).collect();
    let first =
        compact.strip_prefix('{').map(|rest| rest.strip_prefix(r#""jsonrpc":"2.0","#).unwrap_or(rest));
    if let Some(rest) = first.and_then(|rest| rest.strip_prefix(r#""id":"#)) {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        return digits.parse().ok();
    }
    let end: String = tail.chars().filter(|c| !c.is_whitespace()).collect();
    let end = end.strip_suffix('}')?;
    let end = end.strip_suffix(r#","jsonrpc":"2.0""#).unwrap_or(end);
    let (rest, digits) = end.rsplit_once(':')?;
    // After the result's own closing bracket, not inside its text.
    (rest.ends_with(r#"},"id""#) || rest.ends_with(r#"},"jsonrpc":"2.0","id""#))
        .then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_taken_apart_and_a_broken_answer_is_an_error() {
        let log = Log::new(None, None);
        let mut messages = Messages::new(Wire::new(), log.clone(), Noise::Stdout);
        messages.accept(
            b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":\"boom\"}]",
        );
        messages.accept(b"[not json");
        assert!(matches!(messages.next(), Some(ServerJsonRpcMessage::Response(_))));
        let Some(ServerJsonRpcMessage::Error(error)) = messages.next() else { panic!("no error") };
        assert_eq!(error.id, Some(NumberOrString::Number(2)));
        assert!(messages.next().is_none());
        assert_eq!(log.lines()[0].text, "[not json");
    }

    #[test]
    fn the_id_of_an_answer_that_is_too_long_is_found_at_its_ends_only() {
        assert_eq!(
            id_at_an_end(br#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"text":"aaa"#, b"aaa"),
            Some(7)
        );
        assert_eq!(
            id_at_an_end(br#"{"result":{"content":[{"text":"aaa"#, br#"aaa"}]},"jsonrpc":"2.0","id":8}"#),
            Some(8)
        );
        assert_eq!(
            id_at_an_end(br#"{"result":{"content":[{"text":"aaa"#, br#"aaa"}]},"id":9,"jsonrpc":"2.0"}"#),
            Some(9)
        );
        assert_eq!(id_at_an_end(br#"{"result":{"text":"\"id\":7,"#, br#" \"id\":7 "}}"#), None);
    }

    #[test]
    fn i51_parameters_go_out_byte_for_byte_on_one_line_with_meta_put_in() {
        let raw = |text: &str| RawValue::from_string(text.into()).unwrap();
        let sent = |params: &RawValue, meta: Option<&RequestMetaObject>| {
            String::from_utf8(raw_request(&NumberOrString::Number(1), "m", params, meta).unwrap()).unwrap()
        };
        let params = raw("{\"n\": 8,\n \"f\": 1.0, \"big\": 123456789012345678901234567890 }");
        assert_eq!(
            sent(&params, None),
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"n\": 8,  \"f\": 1.0, \"big\": 123456789012345678901234567890 }}"
        );
        let mut meta = RequestMetaObject::default();
        meta.set_progress_token(rmcp::model::ProgressToken(NumberOrString::Number(5)));
        assert!(sent(&params, Some(&meta)).ends_with("567890 ,\"_meta\":{\"progressToken\":5}}}"));
        assert!(sent(&raw("{ }"), Some(&meta)).ends_with("\"params\":{ \"_meta\":{\"progressToken\":5}}}"));
        assert!(raw_request(&NumberOrString::Number(1), "m", &raw("[1]"), Some(&meta)).is_err());
    }
}
