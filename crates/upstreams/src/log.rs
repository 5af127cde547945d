//! What an upstream prints: the last lines in memory, and a capped file when a folder was given. Known secrets
//! never get in.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    time::{SystemTime, UNIX_EPOCH},
};

use evi_domain::{LogLine, LogStream};

use crate::pulse::Pulse;

/// Lines kept in memory.
const KEPT: usize = 500;
/// Bytes of one line.
const LINE_CAP: usize = 8 * 1024;
/// Bytes of a file before it becomes the old one; there is one old one.
const FILE_CAP: u64 = 1 << 20;
/// Lines waiting for the disk; beyond that they are only in memory.
const QUEUE: usize = 1024;
/// A shorter value would hide half of every line.
const REDACTED_FROM: usize = 5;

/// The log of one upstream; a clone is the same log.
#[derive(Clone)]
pub(crate) struct Log {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    file: Option<(PathBuf, FileQueue)>,
    pulse: Option<Pulse>,
}

#[derive(Default)]
struct State {
    lines: VecDeque<LogLine>,
    /// How many lines there ever were.
    count: u64,
    /// How often the last line came again.
    repeats: u64,
    secrets: Vec<String>,
    noisy: bool,
}

impl Log {
    /// An empty log; `file` is where its lines also go, `pulse` is told of every line.
    pub(crate) fn new(file: Option<(PathBuf, FileQueue)>, pulse: Option<Pulse>) -> Self {
        Self { shared: Arc::new(Shared { state: Mutex::default(), file, pulse }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the values that must not be written.
    pub(crate) fn hide(&self, mut secrets: Vec<String>) {
        secrets.retain(|s| s.len() >= REDACTED_FROM);
        // The longest first: one value may hold another.
        secrets.sort_by_key(|s| std::cmp::Reverse(s.len()));
        secrets.dedup();
        let mut state = self.state();
        state.secrets = secrets;
        state.noisy = false;
    }

    /// The text without any hidden value.
    pub(crate) fn redact(&self, text: &str) -> String {
        redact(&self.state().secrets, text)
    }

    /// Adds a line.
    pub(crate) fn push(&self, stream: LogStream, text: &str) {
        let mut written = Vec::new();
        {
            let mut state = self.state();
            let text = redact(&state.secrets, &tidy(text));
            if state.lines.back().is_some_and(|last| last.stream == stream && last.text == text) {
                state.repeats += 1;
                return;
            }
            if state.repeats > 0 {
                let note = format!("the last line came {} more times", state.repeats);
                written.push(state.add(LogStream::Evi, note));
            }
            written.push(state.add(stream, text));
        }
        if let Some((path, queue)) = &self.shared.file {
            for line in written {
                queue.write(path, line);
            }
        }
        if let Some(pulse) = &self.shared.pulse {
            pulse.tick();
        }
    }

    /// Adds a line that is not the protocol, and says so the first time in a run.
    pub(crate) fn noise(&self, text: &str) {
        let first = !std::mem::replace(&mut self.state().noisy, true);
        self.push(LogStream::Stdout, text);
        if first {
            self.push(
                LogStream::Evi,
                "the server prints to stdout, where only the protocol belongs; the lines are skipped",
            );
        }
    }

    /// Whether anything but the protocol was on stdout in this run.
    pub(crate) fn is_noisy(&self) -> bool {
        self.state().noisy
    }

    /// All lines that are kept, oldest first.
    pub(crate) fn lines(&self) -> Vec<LogLine> {
        self.state().lines.iter().cloned().collect()
    }

    /// A mark for [`Log::stderr_since`].
    pub(crate) fn mark(&self) -> u64 {
        self.state().count
    }

    /// The last `most` lines of stderr since the mark, oldest first.
    pub(crate) fn stderr_since(&self, mark: u64, most: usize) -> Vec<String> {
        let state = self.state();
        let fresh = usize::try_from(state.count.saturating_sub(mark)).unwrap_or(usize::MAX);
        let mut tail: Vec<String> = state
            .lines
            .iter()
            .rev()
            .take(fresh)
            .filter(|line| line.stream == LogStream::Stderr)
            .take(most)
            .map(|line| line.text.clone())
            .collect();
        tail.reverse();
        tail
    }
}

impl State {
    fn add(&mut self, stream: LogStream, text: String) -> LogLine {
        self.repeats = 0;
        self.count += 1;
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        let line = LogLine { at_ms: now_ms(), stream, text };
        self.lines.push_back(line.clone());
        line
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// One line, without control characters (a terminal would obey them), capped.
fn tidy(text: &str) -> String {
    let text = text.trim_end_matches(['\r', '\n']);
    let mut end = text.len().min(LINE_CAP);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut out = String::with_capacity(end);
    let mut chars = text[..end].chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' && chars.next_if_eq(&'[').is_some() {
            // A colour code ends with a letter.
            while chars.next_if(|c| !c.is_ascii_alphabetic()).is_some() {}
            chars.next();
        } else if c == '\t' || !c.is_control() {
            out.push(c);
        }
    }
    if end < text.len() {
        out.push('…');
    }
    out
}

fn redact(secrets: &[String], text: &str) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        if text.contains(secret.as_str()) {
            text = text.replace(secret.as_str(), "[secret]");
        }
    }
    text
}

/// Takes lines to the disk on a thread of its own, which ends with the last clone of the queue. A full queue
/// drops lines rather than hold up a server.
#[derive(Clone)]
pub(crate) struct FileQueue {
    send: mpsc::SyncSender<(PathBuf, LogLine)>,
}

impl FileQueue {
    /// Starts the thread.
    pub(crate) fn start() -> Self {
        let (send, receive) = mpsc::sync_channel::<(PathBuf, LogLine)>(QUEUE);
        std::thread::spawn(move || {
            while let Ok((path, line)) = receive.recv() {
                if let Err(error) = append(&path, &line) {
                    tracing::warn!(path = %path.display(), %error, "a server's log line was not written");
                }
            }
        });
        Self { send }
    }

    fn write(&self, path: &Path, line: LogLine) {
        let _ = self.send.try_send((path.to_owned(), line));
    }
}

fn append(path: &Path, line: &LogLine) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|m| m.len() >= FILE_CAP) {
        std::fs::rename(path, path.with_extension("log.old"))?;
    }
    let mut file = open(path)?;
    let at = time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(line.at_ms) * 1_000_000)
        .ok()
        .and_then(|t| t.format(&time::format_description::well_known::Rfc3339).ok())
        .unwrap_or_default();
    let stream = match line.stream {
        LogStream::Stderr => "stderr",
        LogStream::Stdout => "stdout",
        LogStream::Evi => "evi",
    };
    writeln!(file, "{at} {stream} {}", line.text)
}

fn open(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The name of an upstream's log in the folder of logs: readable, and different for different names.
pub fn file_name(name: &str) -> String {
    let safe: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '_' })
        .take(60)
        .collect();
    if safe == name {
        return format!("{safe}.log");
    }
    // FNV-1a: only to tell names apart.
    let hash =
        name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    format!("{safe}-{hash:08x}.log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i27_a_repeated_line_is_counted_and_the_ring_is_bounded() {
        let log = Log::new(None, None);
        for _ in 0..1000 {
            log.push(LogStream::Stderr, "again");
        }
        log.push(LogStream::Stderr, "other");
        let texts: Vec<_> = log.lines().into_iter().map(|l| l.text).collect();
        assert_eq!(texts, ["again", "the last line came 999 more times", "other"]);
        for n in 0..1000 {
            log.push(LogStream::Stderr, &n.to_string());
        }
        assert_eq!(log.lines().len(), KEPT);
        assert_eq!(log.stderr_since(log.mark() - 3, 2), ["998", "999"]);
    }

    #[test]
    fn a_known_secret_is_not_written() {
        let log = Log::new(None, None);
        log.hide(vec!["hunter2hunter2".into(), "ab".into()]);
        log.push(LogStream::Stderr, "token=hunter2hunter2 about");
        assert_eq!(log.lines()[0].text, "token=[secret] about");
    }

    #[test]
    fn a_line_is_capped_and_free_of_control_characters() {
        let log = Log::new(None, None);
        log.push(LogStream::Stderr, "\u{1b}[31mred\u{1b}[0m\u{7}");
        assert_eq!(log.lines()[0].text, "red");
        log.push(LogStream::Stderr, &"é".repeat(LINE_CAP));
        assert!(log.lines()[1].text.len() <= LINE_CAP + '…'.len_utf8());
    }

    #[test]
    fn i27_the_file_has_a_cap() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        let line = LogLine { at_ms: 0, stream: LogStream::Stderr, text: "x".repeat(LINE_CAP) };
        for _ in 0..400 {
            append(&path, &line).unwrap();
        }
        let size: u64 =
            std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
        assert!(size < 2 * FILE_CAP + 2 * LINE_CAP as u64, "{size}");
        assert_ne!(file_name("a b"), file_name("a/b"));
    }
}
