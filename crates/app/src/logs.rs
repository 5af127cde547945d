//! A server's log for a terminal, and what is added to it: from the eVi that runs the server, else from the log's
//! file. Starts nothing and owns nothing.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::PathBuf,
    time::{Duration, SystemTime},
};

use evi_attach::AppClient;
use evi_contract::{Code, LogLineView, Problem, UpstreamLog};
use evi_store::Home;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::{front, problem, read_config};

/// The most lines at the beginning, as many as a running eVi has in memory.
const KEPT: usize = 500;
/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(300);
/// How often a running eVi is asked where it does not tell: events are hints.
const ASK: Duration = Duration::from_secs(2);

/// The log of one server, from its beginning on.
pub struct LogReader {
    home: Home,
    name: String,
    source: Source,
}

enum Source {
    Owner(Ring),
    File(Tail),
}

/// The lines that a running eVi has in memory.
struct Ring {
    client: AppClient,
    events: broadcast::Receiver<Value>,
    seen: Vec<LogLineView>,
}

/// A file that grows, and begins anew when it is full.
#[derive(Clone)]
struct Tail {
    path: PathBuf,
    offset: u64,
    made: Option<SystemTime>,
}

impl LogReader {
    /// Finds the log and gives the lines there are, oldest first.
    ///
    /// # Errors
    /// `not_found` for a server that is not configured; what went wrong on the way to a running eVi or to the file.
    pub async fn open(home: Home, name: &str) -> Result<(Self, Vec<LogLineView>), Problem> {
        let (place, wanted) = (home.clone(), name.to_owned());
        let known = problem::blocking(move || {
            Ok::<_, Problem>(read_config(&place).0.upstreams.iter().any(|u| u.name.as_str() == wanted))
        })
        .await?;
        if !known {
            return Err(Problem::new(Code::NotFound, format!("no such server: {name}")));
        }
        let mut reader =
            Self { source: Source::File(Tail::of(&home, name)), home: home.clone(), name: name.to_owned() };
        match front::owner(&home).await? {
            Some(client) => {
                let events = client.events();
                let mut ring = Ring { client, events, seen: Vec::new() };
                let lines = ring.read(name).await?;
                reader.source = Source::Owner(ring);
                // A server that did not run since eVi was started may have said something before.
                let lines = if lines.is_empty() { reader.file().await?.1 } else { lines };
                Ok((reader, lines))
            }
            None => {
                let (tail, lines) = reader.file().await?;
                reader.source = Source::File(tail);
                Ok((reader, lines))
            }
        }
    }

    async fn file(&self) -> Result<(Tail, Vec<LogLineView>), Problem> {
        let mut tail = Tail::of(&self.home, &self.name);
        problem::blocking(move || {
            let mut lines = tail.old().map_err(|e| tail.problem(&e))?;
            lines.extend(tail.read().map_err(|e| tail.problem(&e))?);
            lines.drain(..lines.len().saturating_sub(KEPT));
            Ok::<_, Problem>((tail, lines))
        })
        .await
    }

    /// Waits for lines that are new, as long as it takes.
    ///
    /// # Errors
    /// The server was removed; the file cannot be read any more.
    pub async fn more(&mut self) -> Result<Vec<LogLineView>, Problem> {
        loop {
            let lines = match &mut self.source {
                Source::Owner(ring) => {
                    if ring.changed().await {
                        ring.read(&self.name).await
                    } else {
                        Err(Problem::new(Code::Attach, "the running eVi ended"))
                    }
                }
                Source::File(tail) => {
                    tokio::time::sleep(LOOK).await;
                    let mut moved = tail.clone();
                    let (moved, lines) = problem::blocking(move || {
                        let lines = moved.read().map_err(|e| moved.problem(&e))?;
                        Ok::<_, Problem>((moved, lines))
                    })
                    .await?;
                    *tail = moved;
                    Ok(lines)
                }
            };
            let lines = match lines {
                // Whoever runs the server next writes into the same file.
                Err(problem) if problem.code == Code::Attach => self.go_on_in_file().await?,
                other => other?,
            };
            if !lines.is_empty() {
                return Ok(lines);
            }
        }
    }

    async fn go_on_in_file(&mut self) -> Result<Vec<LogLineView>, Problem> {
        let last = match &self.source {
            Source::Owner(ring) => ring.seen.last().map_or(0, |line| line.at_ms),
            Source::File(_) => 0,
        };
        let (tail, mut lines) = self.file().await?;
        lines.retain(|line| line.at_ms > last);
        self.source = Source::File(tail);
        Ok(lines)
    }
}

impl Ring {
    /// Waits until there may be something new; `false` when the other eVi has ended.
    async fn changed(&mut self) -> bool {
        let ended = self.client.ended();
        let told = async {
            loop {
                match self.events.recv().await {
                    Ok(event) if names_logs(&event) => return true,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return true,
                    Err(RecvError::Closed) => return false,
                }
            }
        };
        tokio::select! {
            () = ended.cancelled() => false,
            told = told => told,
            () = tokio::time::sleep(ASK) => true,
        }
    }

    /// Asks for the lines and gives those that were not there last time.
    async fn read(&mut self, name: &str) -> Result<Vec<LogLineView>, Problem> {
        let answer = self.client.call("upstream_log", json!({"name": name})).await;
        let answer = answer.map_err(|e| front::problem_of(&e))?;
        let log: UpstreamLog = serde_json::from_value(answer).map_err(|e| {
            Problem::new(Code::Attach, format!("the answer of the running eVi is not clear: {e}"))
        })?;
        let fresh = added(&self.seen, &log.lines).to_vec();
        self.seen = log.lines;
        Ok(fresh)
    }
}

fn names_logs(event: &Value) -> bool {
    event["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag == "logs"))
}

/// What stands in `now` behind the end of `before`; `now` may have lost lines at its beginning.
fn added<'a>(before: &[LogLineView], now: &'a [LogLineView]) -> &'a [LogLineView] {
    let overlap = (0..=before.len().min(now.len()))
        .rev()
        .find(|n| before[before.len() - n..] == now[..*n])
        .unwrap_or_default();
    &now[overlap..]
}

impl Tail {
    fn of(home: &Home, name: &str) -> Self {
        Self { path: home.logs().join(evi_upstreams::log_file_name(name)), offset: 0, made: None }
    }

    fn problem(&self, error: &io::Error) -> Problem {
        Problem::new(Code::Storage, format!("could not read {}: {error}", self.path.display()))
    }

    /// The lines of the file that was full before this one.
    fn old(&self) -> io::Result<Vec<LogLineView>> {
        Ok(whole_lines(&read_from(&self.path.with_extension("log.old"), 0)?).0)
    }

    /// The whole lines that came since the last time.
    fn read(&mut self) -> io::Result<Vec<LogLineView>> {
        let Some(facts) = found(fs::metadata(&self.path))? else { return Ok(Vec::new()) };
        let made = facts.created().ok();
        let mut lines = Vec::new();
        if self.offset > 0 && (facts.len() < self.offset || made != self.made) {
            // It was full: what was not read yet lies in the old one.
            lines = whole_lines(&read_from(&self.path.with_extension("log.old"), self.offset)?).0;
            self.offset = 0;
        }
        self.made = made;
        let (more, length) = whole_lines(&read_from(&self.path, self.offset)?);
        self.offset += length;
        lines.extend(more);
        Ok(lines)
    }
}

fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_from(path: &std::path::Path, offset: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut file) = found(File::open(path))? {
        file.seek(SeekFrom::Start(offset))?;
        file.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// The lines that are whole, and how many bytes they take.
fn whole_lines(bytes: &[u8]) -> (Vec<LogLineView>, u64) {
    let end = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    (String::from_utf8_lossy(&bytes[..end]).lines().map(parse).collect(), end as u64)
}

/// `<RFC 3339> <stream> <text>`, as the file has it.
fn parse(line: &str) -> LogLineView {
    let parts = line.split_once(' ').and_then(|(at, rest)| {
        let at = OffsetDateTime::parse(at, &Rfc3339).ok()?;
        let at_ms = u64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()?;
        let (stream, text) = rest.split_once(' ')?;
        Some(LogLineView { at_ms, stream: stream.to_owned(), text: text.to_owned() })
    });
    parts.unwrap_or_else(|| LogLineView { at_ms: 0, stream: "evi".to_owned(), text: line.to_owned() })
}

/// A line as the file has it.
pub fn shown(line: &LogLineView) -> String {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(line.at_ms) * 1_000_000)
        .ok()
        .and_then(|at| at.format(&Rfc3339).ok())
        .unwrap_or_default();
    format!("{at} {} {}", line.stream, line.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(at_ms: u64, text: &str) -> LogLineView {
        LogLineView { at_ms, stream: "stderr".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn only_what_was_added_to_a_ring_is_new() {
        let all: Vec<LogLineView> = (0..9).map(|n| line(n, "x")).collect();
        assert_eq!(added(&[], &all[..3]), &all[..3]);
        assert_eq!(added(&all[..3], &all[..3]), &[]);
        assert_eq!(added(&all[..5], &all[2..8]), &all[5..8], "the ring lost its beginning");
        assert_eq!(added(&all[..2], &all[6..]), &all[6..], "the ring lost all that was seen");
    }

    #[test]
    fn a_file_is_read_on_where_it_was_left_over_the_change_to_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut tail = Tail { path: dir.path().join("a.log"), offset: 0, made: None };
        assert_eq!(tail.read().unwrap(), []);
        let (a, b, c, d) = (line(1_000, "a b"), line(2_001, "b"), line(3_000, "c"), line(4_000, ""));
        let text = |lines: &[&LogLineView]| -> String { lines.iter().map(|l| shown(l) + "\n").collect() };
        fs::write(&tail.path, text(&[&a]) + "1970-01-01T00:00:02.001Z std").unwrap();
        assert_eq!(tail.read().unwrap(), std::slice::from_ref(&a), "a line that is not whole yet waits");
        assert_eq!(tail.read().unwrap(), []);
        fs::write(&tail.path, text(&[&a, &b])).unwrap();
        fs::rename(&tail.path, tail.path.with_extension("log.old")).unwrap();
        fs::write(&tail.path, text(&[&c])).unwrap();
        assert_eq!(tail.read().unwrap(), [b, c.clone()]);
        fs::write(&tail.path, text(&[&c, &d])).unwrap();
        assert_eq!(tail.read().unwrap(), [d]);
        assert_eq!(tail.old().unwrap()[0], a);
        assert_eq!(parse("no log line").text, "no log line");
    }
}
