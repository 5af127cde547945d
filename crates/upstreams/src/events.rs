//! Takes an event stream apart, whoever sends it: bytes in, whole events out. It opens nothing and knows no JSON.
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>

use std::{collections::VecDeque, time::Duration};

use crate::message::{ENDS, MESSAGE_CAP};

/// Bytes of a line that is not data.
const WORD_CAP: usize = 16 << 10;
/// Bytes of an event's id that is remembered.
const ID_CAP: usize = 1 << 10;
/// The longest pause that a server may ask for.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Whole {
        kind: Vec<u8>,
        data: Vec<u8>,
    },
    /// Longer than [`MESSAGE_CAP`]: only its ends are there.
    TooLong {
        head: Vec<u8>,
        tail: Vec<u8>,
    },
}

impl Event {
    /// The bytes of what may be a message; some servers send events of their own to keep the connection open.
    pub(crate) fn is_message(kind: &[u8]) -> bool {
        kind.is_empty() || kind == b"message"
    }
}

/// Takes a stream of bytes apart into events, none longer than [`MESSAGE_CAP`].
#[derive(Default)]
pub(crate) struct Decoder {
    pub(crate) events: VecDeque<Event>,
    /// The id of the last event that had one: what to go on from.
    pub(crate) last_id: Option<Vec<u8>>,
    /// How long the server wants to be left alone before a stream is opened again.
    pub(crate) retry: Option<Duration>,
    id: Option<Vec<u8>>,
    line: Vec<u8>,
    kind: Vec<u8>,
    data: Vec<u8>,
    /// The last bytes of an event that grew too long.
    tail: Option<Vec<u8>>,
    after_cr: bool,
    begun: bool,
}

impl Decoder {
    /// For the stream that goes on where this one ended.
    pub(crate) fn resumed(self) -> Self {
        Self { last_id: self.last_id, retry: self.retry, events: self.events, ..Self::default() }
    }

    /// The next bytes; what became whole is in `events`.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr)
                && let Some(rest) = bytes.strip_prefix(b"\n")
            {
                bytes = rest;
                continue;
            }
            let Some(end) = bytes.iter().position(|b| matches!(b, b'\n' | b'\r')) else {
                self.push(bytes);
                return;
            };
            self.push(&bytes[..end]);
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line();
        }
    }

    fn push(&mut self, part: &[u8]) {
        if let Some(tail) = &mut self.tail {
            tail.extend_from_slice(part);
            let over = tail.len().saturating_sub(ENDS);
            tail.drain(..over);
        }
        let data = self.line.starts_with(b"data");
        let cap = match self.tail {
            // Only to see whether the line is empty.
            Some(_) => 1,
            None if data || self.line.len() < 4 => MESSAGE_CAP.saturating_sub(self.data.len()).max(WORD_CAP),
            None => WORD_CAP,
        };
        let room = cap.saturating_sub(self.line.len());
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        if part.len() > room && self.tail.is_none() && self.line.starts_with(b"data") {
            let text = if self.data.is_empty() { value(&self.line, b"data") } else { Some(&self.data[..]) };
            let head = text.unwrap_or_default().iter().copied().take(ENDS).collect();
            let rest = &part[room..];
            self.tail = Some(rest[rest.len().saturating_sub(ENDS)..].to_vec());
            self.data = head;
            self.line = vec![b'x'];
        }
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if !std::mem::replace(&mut self.begun, true) && line.starts_with("\u{feff}".as_bytes()) {
            line.drain(..3);
        }
        if line.is_empty() {
            if let Some(id) = self.id.take() {
                self.last_id = Some(id).filter(|id| !id.is_empty());
            }
            let (kind, data) = (std::mem::take(&mut self.kind), std::mem::take(&mut self.data));
            match self.tail.take() {
                Some(tail) => self.events.push_back(Event::TooLong { head: data, tail }),
                None if data.is_empty() => {}
                None => self.events.push_back(Event::Whole { kind, data }),
            }
        } else if self.tail.is_some() {
            // It is too long already.
        } else if let Some(value) = value(&line, b"data") {
            if self.data.is_empty() {
                let start = line.len() - value.len();
                line.drain(..start);
                self.data = line;
            } else {
                self.data.push(b'\n');
                self.data.extend_from_slice(value);
                if self.data.len() > MESSAGE_CAP {
                    self.tail = Some(self.data[self.data.len() - ENDS..].to_vec());
                    self.data.truncate(ENDS);
                }
            }
        } else if let Some(value) = value(&line, b"event") {
            self.kind = value.to_vec();
        } else if let Some(value) = value(&line, b"id") {
            // With a NUL it does not count; one that is longer is no cursor that anybody could send back.
            if value.len() <= ID_CAP && !value.contains(&0) {
                self.id = Some(value.to_vec());
            }
        } else if let Some(value) = value(&line, b"retry")
            && let Some(millis) = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok())
        {
            self.retry = Some(Duration::from_millis(millis).min(LONGEST_RETRY));
        }
    }
}

/// What a line says for a field.
fn value<'a>(line: &'a [u8], field: &[u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(field)?;
    if rest.is_empty() {
        return Some(rest);
    }
    let value = rest.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(kind: &str, data: &str) -> Event {
        Event::Whole { kind: kind.into(), data: data.into() }
    }

    #[test]
    fn events_are_the_same_however_their_bytes_arrive() {
        let text = "\u{feff}: hello\r\nevent: endpoint\r\ndata: /m?s=1\r\n\r\nid: 3\ndata:{\"a\":\ndata:  1}\n\n\rdata: x\r\r\nevent: ping\n\ndata: unfinished";
        let expected = [whole("endpoint", "/m?s=1"), whole("", "{\"a\":\n 1}"), whole("", "x")];
        for size in [1, 2, 3, 7, 1000] {
            let mut decoder = Decoder::default();
            text.as_bytes().chunks(size).for_each(|part| decoder.feed(part));
            assert_eq!(decoder.events, expected, "{size}");
        }
    }

    #[test]
    fn an_event_that_is_too_long_keeps_its_ends_and_the_next_one_comes() {
        let mut decoder = Decoder::default();
        decoder.feed(b"data: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"");
        let part = vec![b'x'; 1 << 20];
        (0..65).for_each(|_| decoder.feed(&part));
        assert!(decoder.line.len() + decoder.data.len() < 2 * ENDS);
        decoder.feed(b"\"}\n\nevent: message\ndata: {}\n\n");
        let Some(Event::TooLong { head, tail }) = decoder.events.pop_front() else { panic!("no event") };
        assert!(head.starts_with(b"{\"jsonrpc\":\"2.0\",\"id\":7") && head.len() == ENDS);
        assert!(tail.ends_with(b"x\"}") && tail.len() == ENDS);
        assert_eq!(decoder.events, [whole("message", "{}")]);
        let mut decoder = Decoder::default();
        (0..65).for_each(|_| decoder.feed(&part));
        assert!(decoder.line.len() <= MESSAGE_CAP, "a line that is no field is not kept");
    }

    #[test]
    fn where_a_stream_stood_and_when_to_come_back_is_remembered() {
        let mut decoder = Decoder::default();
        decoder.feed(b"id: 7\nretry: 250\ndata:\n\nid: 8\ndata: x\n\nid: 9\nretry: soon\ndata: cut off");
        assert_eq!(decoder.events, [whole("", "x")], "an event without data only moves the place");
        assert_eq!(
            (decoder.last_id.as_deref(), decoder.retry),
            (Some(&b"8"[..]), Some(Duration::from_millis(250)))
        );
        let mut decoder = decoder.resumed();
        decoder.feed(b"data: y\n\n");
        assert_eq!(decoder.last_id.as_deref(), Some(&b"8"[..]));
    }
}
