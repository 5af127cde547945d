//! One message to bytes and bytes to messages, whatever carries them: the raw lane beside rmcp's types. What is no
//! message is logged and skipped, what is too long is an error for whoever waits for it. It reads from nothing.

use std::{collections::VecDeque, sync::Arc};

use evi_domain::LogStream;
use rmcp::model::{
    CallToolRequest, ClientJsonRpcMessage, ClientRequest, ErrorData, GetExtensions, NumberOrString,
    RequestMetaObject, ServerJsonRpcMessage, ServerResult,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

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
        let bytes = match marked(item) {
            Some((id, mark, name)) => {
                self.wire.expect(id, mark.ticket);
                match (&mark.arguments, name) {
                    (Some(arguments), Some(call)) => {
                        raw_call(id, &call.params.name, arguments, call.extensions.get())?
                    }
                    _ => serde_json::to_vec(item)?,
                }
            }
            None => serde_json::to_vec(item)?,
        };
        Ok(bytes)
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

    /// A text longer than [`MESSAGE_CAP`], of which only the ends are there.
    pub(crate) fn too_long(&mut self, head: &[u8], tail: &[u8]) {
        let cap = MESSAGE_CAP >> 20;
        match id_at_an_end(head, tail) {
            Some(id) => {
                let what = format!("the answer to request {id} is longer than {cap} MiB");
                self.log.push(LogStream::Evi, &what);
                let error = ErrorData::internal_error(format!("the answer is longer than {cap} MiB"), None);
                let id = NumberOrString::Number(id);
                self.wire.take_expected(&id);
                self.waiting.push_back(ServerJsonRpcMessage::error(error, Some(id)));
            }
            None if head.trim_ascii_start().starts_with(b"{") => {
                self.log.push(LogStream::Evi, &format!("a message longer than {cap} MiB was skipped"));
            }
            None => self.noise(head),
        }
    }

    fn noise(&self, bytes: &[u8]) {
        match self.noise {
            Noise::Stdout => self.log.noise(&String::from_utf8_lossy(bytes)),
            Noise::Event => self.log.push(LogStream::Evi, "an event that is no message was skipped"),
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
            self.waiting.push_back(message);
            return;
        }
        match serde_json::from_slice::<BrokenAnswer>(bytes) {
            // Whoever waits for it must not wait for ever.
            Ok(BrokenAnswer { id: Some(id), method: None, .. }) => {
                self.wire.take_expected(&id);
                let error = ErrorData::internal_error("the answer is not valid JSON-RPC", None);
                self.waiting.push_back(ServerJsonRpcMessage::error(error, Some(id)));
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

#[derive(Deserialize)]
struct BrokenAnswer {
    jsonrpc: Option<serde::de::IgnoredAny>,
    id: Option<NumberOrString>,
    method: Option<serde::de::IgnoredAny>,
}

fn marked(item: &ClientJsonRpcMessage) -> Option<(&NumberOrString, &Mark, Option<&CallToolRequest>)> {
    let ClientJsonRpcMessage::Request(request) = item else { return None };
    let mark = request.request.extensions().get::<Mark>()?;
    let call = match &request.request {
        ClientRequest::CallToolRequest(call) => Some(call),
        _ => None,
    };
    Some((&request.id, mark, call))
}

/// `tools/call` with the arguments' own bytes.
fn raw_call(
    id: &NumberOrString,
    name: &str,
    arguments: &RawValue,
    meta: Option<&RequestMetaObject>,
) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Call<'a> {
        jsonrpc: &'static str,
        id: &'a NumberOrString,
        method: &'static str,
        params: Params<'a>,
    }
    #[derive(Serialize)]
    struct Params<'a> {
        name: &'a str,
        arguments: &'a RawValue,
        #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
        meta: Option<&'a RequestMetaObject>,
    }
    let params = Params { name, arguments, meta };
    let mut bytes = serde_json::to_vec(&Call { jsonrpc: "2.0", id, method: "tools/call", params })?;
    // A line ends a message. Raw line ends can only be white space here: within a JSON text they are escaped.
    for byte in &mut bytes {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    Ok(bytes)
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
    fn i51_arguments_go_out_byte_for_byte_on_one_line() {
        let arguments =
            RawValue::from_string("{\"n\": 8,\n \"f\": 1.0, \"big\": 123456789012345678901234567890}".into())
                .unwrap();
        let line = raw_call(&NumberOrString::Number(1), "t", &arguments, None).unwrap();
        assert_eq!(
            String::from_utf8(line).unwrap(),
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\",\"arguments\":{\"n\": 8,  \"f\": 1.0, \"big\": 123456789012345678901234567890}}}"
        );
    }
}
