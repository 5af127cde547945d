//! The protocol over a process's pipes: one JSON message a line. What is no message is logged and skipped, what
//! is too long is an error for whoever waits for it.

use std::{io, sync::Arc, time::Duration};

use evi_domain::LogStream;
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
    task::JoinHandle,
};

use crate::{
    log::Log,
    message::{ENDS, MESSAGE_CAP, Messages, Noise},
    wire::Wire,
};

/// Bytes of a line that is no message.
const NOISE_CAP: usize = 64 << 10;
/// Messages waiting to be written.
const QUEUE: usize = 64;
/// How long what was queued may take to go out when the connection closes.
const FLUSH_LIMIT: Duration = Duration::from_secs(1);

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// A transport over two byte streams.
pub(crate) struct Pipe {
    lines: Lines,
    messages: Messages,
    queue: Option<mpsc::Sender<Vec<u8>>>,
    writing: JoinHandle<()>,
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
            messages: Messages::new(wire, log.clone(), Noise::Stdout),
            queue: Some(queue),
            writing,
            log,
        }
    }
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
        let bytes = self.messages.encode(&item);
        let queue = self.queue.clone();
        async move {
            let mut bytes = bytes.map_err(io::Error::from)?;
            bytes.push(b'\n');
            let queue = queue.ok_or(io::ErrorKind::BrokenPipe)?;
            queue.send(bytes).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.messages.next() {
                return Some(message);
            }
            match self.lines.next().await {
                Ok(Some(Line::Whole(bytes))) => self.messages.accept(&bytes),
                Ok(Some(Line::TooLong { head, tail })) => self.messages.too_long(&head, &tail, None),
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
    use rmcp::model::{NumberOrString, ServerJsonRpcMessage};

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
}
