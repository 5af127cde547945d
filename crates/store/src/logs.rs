//! The log's files and what keeps secrets out of them. Decides neither what is logged nor how it looks.

use std::{
    borrow::Cow,
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use evi_domain::Secret;
use file_rotate::{ContentLimit, FileRotate, compression::Compression, suffix::AppendCount};

use crate::{Home, StoreError, atomic::FileLock};

/// The size at which a file is put aside,
const CAP: u64 = 5 * 1024 * 1024;
/// and how many are kept beside the one that is written.
const KEPT: usize = 2;
/// Shorter values are not searched for: they would blot out half of the log.
const SHORTEST: usize = 6;
/// A line that does not end is passed on from this length.
const LONGEST_LINE: usize = 256 * 1024;

/// A log that several processes of one home append to: 5 MB a file, three files.
///
/// To `tracing_subscriber` give `Mutex::new(RedactingWriter::new(open_log(&home)?, redactor))`.
pub struct RotatedLog {
    path: PathBuf,
    lock: PathBuf,
    file: File,
    size: u64,
    cap: u64,
}

/// Opens `state/logs/evi.log`, making the state's folders.
///
/// # Errors
/// When it cannot be written.
pub fn open_log(home: &Home) -> Result<RotatedLog, StoreError> {
    home.prepare()?;
    let path = home.logs().join("evi.log");
    let (file, size) = append(&path).map_err(StoreError::io("open", &path))?;
    Ok(RotatedLog { path, lock: home.run().join("log.lock"), file, size, cap: CAP })
}

fn options() -> fs::OpenOptions {
    let mut options = File::options();
    options.read(true).create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn append(path: &PathBuf) -> io::Result<(File, u64)> {
    let file = options().open(path)?;
    let size = file.metadata()?.len();
    Ok((file, size))
}

impl RotatedLog {
    /// Puts the full file aside, unless another process did it already.
    fn rotate(&mut self) -> io::Result<()> {
        let lock = FileLock::take(&self.lock).map_err(io::Error::other)?;
        let (file, size) = append(&self.path)?;
        (self.file, self.size) = (file, size);
        if size >= self.cap / 2 {
            // Made anew each time, because it remembers which files are there and panics when that is not so.
            let scheme = AppendCount::new(KEPT);
            FileRotate::new(&self.path, scheme, ContentLimit::None, Compression::None, Some(options()))
                .rotate()?;
            (self.file, self.size) = append(&self.path)?;
        }
        drop(lock);
        Ok(())
    }
}

impl Write for RotatedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.size > 0 && self.size + bytes.len() as u64 > self.cap {
            self.rotate()?;
        }
        // In one piece, so that lines of several processes do not mix.
        self.file.write_all(bytes)?;
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// The values that must not be written anywhere. Shared by everything that writes.
#[derive(Default)]
pub struct Redactor {
    /// Longest first, so that a value within another does not leave the other's rest.
    values: RwLock<Vec<Secret>>,
}

impl Redactor {
    /// One that knows nothing yet.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Remembers a value, its form within JSON, and the lines of one that has several. Values under 6 characters are
    /// not remembered.
    pub fn add(&self, secret: &Secret) {
        let value = secret.expose();
        let json = serde_json::Value::from(value).to_string();
        let lines =
            value.lines().map(str::trim).filter(|line| value.contains('\n') && !line.starts_with("-----"));
        let forms = [value.trim(), json.trim_matches('"')].into_iter().chain(lines);
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        for form in forms.filter(|f| f.chars().count() >= SHORTEST) {
            if values.iter().all(|known| known.expose() != form) {
                values.push(Secret::new(form));
            }
        }
        values.sort_by_key(|v| std::cmp::Reverse(v.expose().len()));
    }

    /// The text with every known value replaced by `[redacted]`.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for value in &*self.values.read().unwrap_or_else(PoisonError::into_inner) {
            if text.contains(value.expose()) {
                text = Cow::Owned(text.replace(value.expose(), "[redacted]"));
            }
        }
        text
    }

    fn longest(&self) -> usize {
        self.values.read().unwrap_or_else(PoisonError::into_inner).first().map_or(0, |v| v.expose().len())
    }
}

/// Passes whole lines on, without the values that its redactor knows.
pub struct RedactingWriter<W: Write> {
    inner: W,
    redactor: Arc<Redactor>,
    pending: Vec<u8>,
}

impl<W: Write> RedactingWriter<W> {
    /// Writes to `inner`.
    pub fn new(inner: W, redactor: Arc<Redactor>) -> Self {
        Self { inner, redactor, pending: Vec::new() }
    }

    fn pass_on(&mut self, end: usize) -> io::Result<()> {
        let rest = self.pending.split_off(end);
        let lines = std::mem::replace(&mut self.pending, rest);
        self.inner.write_all(self.redactor.redact(&String::from_utf8_lossy(&lines)).as_bytes())
    }
}

impl<W: Write> Write for RedactingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if let Some(last) = self.pending.iter().rposition(|b| *b == b'\n') {
            self.pass_on(last + 1)?;
        }
        if self.pending.len() > LONGEST_LINE {
            // A value may have begun at the very end: clean all of it, then hold back that much.
            let clean = self.redactor.redact(&String::from_utf8_lossy(&self.pending)).into_owned();
            let mut end = clean.len().saturating_sub(self.redactor.longest());
            while !clean.is_char_boundary(end) {
                end -= 1;
            }
            self.inner.write_all(&clean.as_bytes()[..end])?;
            self.pending = clean.as_bytes()[end..].to_vec();
        }
        Ok(bytes.len())
    }

    /// Passes on whole lines only: the rest of a line may be the rest of a secret.
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for RedactingWriter<W> {
    fn drop(&mut self) {
        let _ = self.pass_on(self.pending.len());
        let _ = self.inner.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_redacted_across_writes_in_json_and_line_by_line() {
        let redactor = Redactor::new();
        redactor.add(&Secret::new("hunter2hunter"));
        redactor.add(&Secret::new("hunter2"));
        redactor.add(&Secret::new("quo\"ted"));
        redactor.add(&Secret::new("-----BEGIN KEY-----\nMIIabcdef\n-----END KEY-----\n"));
        redactor.add(&Secret::new("short"));
        let mut out = Vec::new();
        {
            let mut writer = RedactingWriter::new(&mut out, redactor);
            writer.write_all(b"a hunt").unwrap();
            writer.flush().unwrap();
            writer.write_all(b"er2hunter b hunter2\n{\"k\":\"quo\\\"ted\"}\nMIIabcdef short").unwrap();
        }
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "a [redacted] b [redacted]\n{\"k\":\"[redacted]\"}\n[redacted] short");
    }

    #[test]
    fn a_line_without_end_is_passed_on_and_hides_a_secret_at_the_seam() {
        let redactor = Redactor::new();
        redactor.add(&Secret::new("hunter2hunter"));
        let mut out = Vec::new();
        {
            let mut writer = RedactingWriter::new(&mut out, redactor);
            writer.write_all(&vec![b'x'; LONGEST_LINE]).unwrap();
            writer.write_all(b"hunter2").unwrap();
            writer.write_all(b"hunter").unwrap();
        }
        assert!(out.ends_with(b"x[redacted]"));
    }

    #[test]
    fn two_processes_share_a_log_of_bounded_size() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        let mut logs = [open_log(&home).unwrap(), open_log(&home).unwrap()];
        for log in &mut logs {
            log.cap = 1000;
        }
        for n in 0..2000 {
            writeln!(logs[n % 2], "line {n}").unwrap();
        }
        let sizes: Vec<u64> =
            fs::read_dir(home.logs()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(sizes.len(), KEPT + 1);
        assert!(sizes.iter().all(|s| *s <= 2100), "{sizes:?}");
        assert!(fs::read_to_string(home.logs().join("evi.log")).unwrap().contains("line 1999"));
    }
}
