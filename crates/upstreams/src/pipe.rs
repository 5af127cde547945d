//! The protocol over a process's pipes: one JSON message a line. What is no message is logged and skipped, what
//! is too long is an error for whoever waits for it.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use evi_domain::LogStream;
use rmcp::{
    RoleClient,
    model::{
        CallToolRequest, ClientJsonRpcMessage, ClientRequest, ErrorData, GetExtensions, NumberOrString,
        RequestMetaObject, ServerJsonRpcMessage, ServerResult,
    },
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
    task::JoinHandle,
};

use crate::{
    log::Log,
    wire::{Mark, Wire},
};

/// Bytes of one message.
const MESSAGE_CAP: usize = 64 << 20;
/// Bytes of a line that is no message.
const NOISE_CAP: usize = 64 << 10;
/// What is kept of either end of a line that is too long.
const ENDS: usize = 4 << 10;
/// Messages waiting to be written.
const QUEUE: usize = 64;
/// How long what was queued may take to go out when the connection closes.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// A transport over two byte streams.
pub(crate) struct Pipe {
    lines: Lines,
    waiting: VecDeque<ServerJsonRpcMessage>,
    queue: Option<mpsc::Sender<Vec<u8>>>,
    writing: JoinHandle<()>,
    wire: Arc<Wire>,
    log: Log,
}

impl Pipe {
    /// Takes the server's output and input.
    pub(crate) fn new(
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
        wire: Arc<Wire>,
        log: Log,
    ) -> Self {
        let (queue, messages) = mpsc::channel(QUEUE);
        let writing = tokio::spawn(write_all(messages, Box::new(write)));
        Self {
            lines: Lines::new(Box::new(read)),
            waiting: VecDeque::new(),
            queue: Some(queue),
            writing,
            wire,
            log,
        }
    }

    fn encode(&self, item: &ClientJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
        let mut bytes = match marked(item) {
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
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn accept(&mut self, line: Line) {
        match line {
            Line::Whole(bytes) => {
                let bytes = bytes.trim_ascii();
                let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
                match bytes.first() {
                    None => {}
                    Some(b'{') => self.accept_message(bytes),
                    Some(b'[') => match serde_json::from_slice::<Vec<&RawValue>>(bytes) {
                        Ok(batch) => batch.iter().for_each(|m| self.accept_message(m.get().as_bytes())),
                        Err(_) => self.log.noise(&String::from_utf8_lossy(bytes)),
                    },
                    Some(_) => self.log.noise(&String::from_utf8_lossy(bytes)),
                }
            }
            Line::TooLong { head, tail } => match id_at_an_end(&head, &tail) {
                Some(id) => {
                    self.log.push(
                        LogStream::Evi,
                        &format!("the answer to request {id} is longer than {} MiB", MESSAGE_CAP >> 20),
                    );
                    let error = ErrorData::internal_error(
                        format!("the answer is longer than {} MiB", MESSAGE_CAP >> 20),
                        None,
                    );
                    self.wire.take_expected(&NumberOrString::Number(id));
                    self.waiting
                        .push_back(ServerJsonRpcMessage::error(error, Some(NumberOrString::Number(id))));
                }
                None if head.trim_ascii_start().starts_with(b"{") => {
                    self.log.push(
                        LogStream::Evi,
                        &format!("a message longer than {} MiB was skipped", MESSAGE_CAP >> 20),
                    );
                }
                None => self.log.noise(&String::from_utf8_lossy(&head)),
            },
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
            _ => self.log.noise(&String::from_utf8_lossy(bytes)),
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

async fn write_all(mut messages: mpsc::Receiver<Vec<u8>>, mut write: Writer) {
    while let Some(message) = messages.recv().await {
        if write.write_all(&message).await.is_err() || write.flush().await.is_err() {
            // The reader sees the end too, and says why.
            return;
        }
    }
    let _ = write.shutdown().await;
}

impl Transport<RoleClient> for Pipe {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let bytes = self.encode(&item);
        let queue = self.queue.clone();
        async move {
            let bytes = bytes.map_err(io::Error::from)?;
            let queue = queue.ok_or(io::ErrorKind::BrokenPipe)?;
            queue.send(bytes).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            match self.lines.next().await {
                Ok(Some(line)) => self.accept(line),
                Ok(None) => return None,
                Err(error) => {
                    self.log.push(LogStream::Evi, &format!("its output could not be read: {error}"));
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.queue = None;
        if tokio::time::timeout(FLUSH_LIMIT, &mut self.writing).await.is_err() {
            self.writing.abort();
        }
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // The server's input closes with the task.
        self.writing.abort();
    }
}

enum Line {
    Whole(Vec<u8>),
    TooLong { head: Vec<u8>, tail: Vec<u8> },
}

/// Reads lines. [`Lines::next`] may be dropped and called again without losing anything.
struct Lines {
    read: BufReader<Reader>,
    line: Vec<u8>,
    /// The last bytes of a line that grew too long.
    tail: Option<Vec<u8>>,
}

impl Lines {
    fn new(read: Reader) -> Self {
        Self { read: BufReader::with_capacity(64 << 10, read), line: Vec::new(), tail: None }
    }

    async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let chunk = self.read.fill_buf().await?;
            if chunk.is_empty() {
                let rest = self.take();
                return Ok(match rest {
                    Line::Whole(line) if line.is_empty() => None,
                    rest => Some(rest),
                });
            }
            let end = chunk.iter().position(|b| *b == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            push(&mut self.line, &mut self.tail, part);
            let used = part.len() + usize::from(end.is_some());
            self.read.consume(used);
            if end.is_some() {
                return Ok(Some(self.take()));
            }
        }
    }

    fn take(&mut self) -> Line {
        let line = std::mem::take(&mut self.line);
        match self.tail.take() {
            None => Line::Whole(line),
            Some(tail) => Line::TooLong { head: line, tail },
        }
    }
}

fn push(line: &mut Vec<u8>, tail: &mut Option<Vec<u8>>, part: &[u8]) {
    if let Some(tail) = tail {
        tail.extend_from_slice(part);
        let over = tail.len().saturating_sub(ENDS);
        tail.drain(..over);
        return;
    }
    line.extend_from_slice(part);
    let start = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii_start();
    let cap = if matches!(start.first(), Some(b'{' | b'[')) { MESSAGE_CAP } else { NOISE_CAP };
    if line.len() > cap {
        *tail = Some(line[line.len().saturating_sub(ENDS)..].to_vec());
        line.truncate(ENDS);
        line.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(input: &'static [u8]) -> Vec<Line> {
        let mut lines = Lines::new(Box::new(input));
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(line);
        }
        all
    }

    #[tokio::test]
    async fn lines_come_whole_and_the_last_needs_no_end() {
        let got = all(b"a\r\n\nb").await;
        let texts: Vec<_> =
            got.into_iter().map(|l| if let Line::Whole(l) = l { l } else { Vec::new() }).collect();
        assert_eq!(texts, [b"a\r".to_vec(), Vec::new(), b"b".to_vec()]);
    }

    #[test]
    fn a_line_that_is_too_long_keeps_its_ends() {
        let (mut line, mut tail) = (Vec::new(), None);
        for _ in 0..40 {
            push(&mut line, &mut tail, &[b'x'; 4096]);
        }
        push(&mut line, &mut tail, b"end");
        assert_eq!(line.len(), ENDS);
        assert!(tail.unwrap().ends_with(b"xend"));
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_an_error_for_its_request_and_the_next_one_comes() {
        let mut answer = br#"{"result":{"content":[{"type":"text","text":""#.to_vec();
        answer.resize(MESSAGE_CAP + 10, b'x');
        answer.extend_from_slice(
            b"\"}]},\"jsonrpc\":\"2.0\",\"id\":7}\n{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{}}\n",
        );
        let wire = Wire::new();
        let mut pipe = Pipe::new(io::Cursor::new(answer), tokio::io::sink(), wire, Log::new(None, None));
        let Some(ServerJsonRpcMessage::Error(error)) = pipe.receive().await else { panic!("no error") };
        assert_eq!(error.id, Some(NumberOrString::Number(7)));
        let Some(ServerJsonRpcMessage::Response(next)) = pipe.receive().await else { panic!("no answer") };
        assert_eq!(next.id, NumberOrString::Number(8));
        assert!(pipe.receive().await.is_none());
    }

    #[tokio::test]
    async fn a_batch_is_taken_apart_and_a_broken_answer_is_an_error() {
        let input = b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}},{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":\"boom\"}]\n[not json\n";
        let log = Log::new(None, None);
        let mut pipe = Pipe::new(&input[..], tokio::io::sink(), Wire::new(), log.clone());
        assert!(matches!(pipe.receive().await, Some(ServerJsonRpcMessage::Response(_))));
        let Some(ServerJsonRpcMessage::Error(error)) = pipe.receive().await else { panic!("no error") };
        assert_eq!(error.id, Some(NumberOrString::Number(2)));
        assert!(pipe.receive().await.is_none());
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
