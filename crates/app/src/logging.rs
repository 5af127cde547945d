//! The log of a process: a rotated, capped, redacted file below the home; level by `EVI_LOG`. Nothing goes to
//! standard output.

use std::{
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

use evi_store::{Home, RedactingWriter, Redactor, open_log};
use tracing_subscriber::{EnvFilter, Layer as _, fmt, layer::SubscriberExt, util::SubscriberInitExt};

/// Starts logging. `stderr` also shows warnings on standard error. Fails quietly into no file: a read-only home
/// must not keep a command from running.
pub fn init(home: &Home, redactor: &Arc<Redactor>, stderr: bool) {
    // rmcp and genai write addresses and bodies as they are, where secrets may stand: they stay out unless named.
    let wanted = std::env::var("EVI_LOG").unwrap_or_default();
    let mut directives = vec!["info,hyper=warn,reqwest=warn".to_owned(), wanted.clone()];
    directives.extend(
        ["rmcp", "genai"].iter().filter(|name| !wanted.contains(**name)).map(|name| format!("{name}=off")),
    );
    let filter = EnvFilter::builder().parse_lossy(directives.join(","));
    let file = open_log(home).ok().map(|log| {
        let writer = Shared(Arc::new(Mutex::new(RedactingWriter::new(log, redactor.clone()))));
        fmt::layer().with_ansi(false).with_writer(move || writer.clone())
    });
    let console = stderr.then(|| {
        fmt::layer()
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(std::io::stderr)
            .with_filter(tracing_subscriber::filter::LevelFilter::WARN)
    });
    let _ = tracing_subscriber::registry().with(filter).with(file).with(console).try_init();
}

/// One writer for all threads.
struct Shared<W: Write>(Arc<Mutex<W>>);

impl<W: Write> Clone for Shared<W> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<W: Write> Write for Shared<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}
