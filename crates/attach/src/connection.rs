//! A stream between two evi processes, behind the first line each way; knows nothing of what it carries.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use interprocess::local_socket::tokio::Stream;
#[cfg(unix)]
use interprocess::local_socket::traits::StreamCommon as _;
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf};

/// How long the first line may take.
pub(crate) const FIRST_LINE_WAIT: Duration = Duration::from_secs(2);
/// How long the first line may be, in bytes.
const FIRST_LINE_LIMIT: u64 = 64 * 1024;

/// A byte stream to or from the owner. Dropping it ends it for both sides; on Windows there is no way to end only
/// one direction, and `shutdown` does nothing there.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<Stream>,
}

impl Connection {
    pub(crate) fn new(stream: Stream) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    /// The user at the other end, where the system tells.
    #[cfg(unix)]
    pub(crate) fn peer_uid(&self) -> Option<u32> {
        self.stream.get_ref().peer_creds().ok()?.euid()
    }

    /// Reads the first line. The caller bounds the time; bytes behind the line stay in the stream.
    pub(crate) async fn read_first(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.stream).take(FIRST_LINE_LIMIT).read_until(b'\n', &mut line).await?;
        match line.last() {
            Some(b'\n') => Ok(line),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the first line does not end")),
        }
    }

    /// Writes the first line.
    pub(crate) async fn write_first<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.stream.write_all(&line).await?;
        self.stream.flush().await
    }

    /// Says `hello` and reads the answer; the caller bounds the time.
    pub(crate) async fn ask<T: Serialize, A: DeserializeOwned>(&mut self, hello: &T) -> io::Result<A> {
        self.write_first(hello).await?;
        let line = self.read_first().await?;
        serde_json::from_slice(&line).map_err(io::Error::from)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.stream.get_mut() {
            // The enum's own `poll_shutdown` does nothing on any system.
            #[cfg(unix)]
            Stream::UdSocket(socket) => Pin::new(socket.inner_mut()).poll_shutdown(cx),
            #[cfg(windows)]
            pipe => Pin::new(pipe).poll_shutdown(cx),
        }
    }
}
