//! Cuts a stream into lines without ever holding more than one line's limit; does not look into a line.

use std::io;

use tokio_util::{
    bytes::{Bytes, BytesMut},
    codec::Decoder,
};

/// The longest line that is relayed, in bytes.
pub(crate) const LINE_LIMIT: usize = 64 * 1024 * 1024;
/// What is kept of a line that is too long: enough for its id.
const HEAD: usize = 512;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// With its `\n`.
    Whole(Bytes),
    /// Its first bytes; the rest was thrown away.
    TooLong(Bytes),
}

/// Lines that end in `\n`; blank ones are skipped, and the end of the stream ends a line too.
#[derive(Debug)]
pub(crate) struct LineCodec {
    limit: usize,
    scanned: usize,
    skipping: Option<Bytes>,
}

impl Default for LineCodec {
    fn default() -> Self {
        Self::with_limit(LINE_LIMIT)
    }
}

impl LineCodec {
    pub(crate) fn with_limit(limit: usize) -> Self {
        Self { limit, scanned: 0, skipping: None }
    }

    fn finish(&mut self, line: Bytes) -> Option<Line> {
        self.scanned = 0;
        if let Some(head) = self.skipping.take() {
            return Some(Line::TooLong(head));
        }
        if line.len() > self.limit {
            return Some(Line::TooLong(Bytes::copy_from_slice(&line[..HEAD.min(line.len())])));
        }
        (!line.trim_ascii().is_empty()).then_some(Line::Whole(line))
    }
}

impl Decoder for LineCodec {
    type Item = Line;
    type Error = io::Error;

    fn decode(&mut self, src: &mut BytesMut) -> io::Result<Option<Line>> {
        while let Some(at) = src[self.scanned..].iter().position(|byte| *byte == b'\n') {
            let line = src.split_to(self.scanned + at + 1).freeze();
            if let Some(line) = self.finish(line) {
                return Ok(Some(line));
            }
        }
        if self.skipping.is_none() && src.len() > self.limit {
            self.skipping = Some(Bytes::copy_from_slice(&src[..HEAD.min(src.len())]));
        }
        if self.skipping.is_some() {
            // A fresh buffer, so that the memory of the long line goes back at once.
            *src = BytesMut::new();
        }
        self.scanned = src.len();
        Ok(None)
    }

    fn decode_eof(&mut self, src: &mut BytesMut) -> io::Result<Option<Line>> {
        if let Some(line) = self.decode(src)? {
            return Ok(Some(line));
        }
        if src.is_empty() && self.skipping.is_none() {
            return Ok(None);
        }
        src.extend_from_slice(b"\n");
        let rest = src.split().freeze();
        Ok(self.finish(rest))
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use tokio_util::codec::FramedRead;

    use super::*;

    async fn cut(input: &[u8], limit: usize) -> Vec<Line> {
        FramedRead::new(input, LineCodec::with_limit(limit)).map(|line| line.unwrap()).collect().await
    }

    fn whole(text: &'static str) -> Line {
        Line::Whole(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn blank_lines_are_skipped_and_the_last_line_needs_no_end() {
        assert_eq!(cut(b"{}\n\n \r\n[1]\r\nx", 64).await, [whole("{}\n"), whole("[1]\r\n"), whole("x\n")]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_reported_and_the_next_one_is_read() {
        let long = "y".repeat(20_000);
        let lines = cut(format!("{long}\n{{}}\n{long}").as_bytes(), 1000).await;
        assert_eq!(lines.len(), 3);
        assert!(matches!(&lines[0], Line::TooLong(head) if head.len() == HEAD));
        assert_eq!(lines[1], whole("{}\n"));
        assert!(matches!(&lines[2], Line::TooLong(_)));
    }
}
