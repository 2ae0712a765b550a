//! Adds a timeout for writes to the byte stream of a connection.
//!
//! A peer that does not read is disconnected after the timeout, since the unsent bytes stay in memory until
//! then. Other modules enforce the timeouts for reads.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Byte stream whose writes fail if the peer reads nothing for the length of a timeout.
pub(crate) struct TimeoutStream<T> {
    inner: T,
    timeout: Duration,
    /// Timer that runs while a write is pending.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<T> TimeoutStream<T> {
    /// Wraps `inner` so that a write fails if it is pending for `timeout`.
    pub fn new(inner: T, timeout: Duration) -> Self {
        Self { inner, timeout, stalled: None }
    }

    /// Returns the outcome of a write, or fails if writes have been pending for longer than the timeout.
    fn check_stalled<R>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timeout = self.timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TimeoutStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TimeoutStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.check_stalled(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.check_stalled(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.inner).poll_flush(cx);
        self.check_stalled(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.check_stalled(cx, ended)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_peer_that_reads_nothing_is_disconnected() {
        let (ours, _theirs) = duplex(8);
        let mut stream = TimeoutStream::new(ours, SHORT);
        let refused = stream.write_all(&[0; 9]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_reads_slowly_is_not() {
        let (ours, mut theirs) = duplex(1);
        let mut stream = TimeoutStream::new(ours, SHORT);
        let slow = async {
            for _ in 0..8 {
                sleep(SHORT / 2).await;
                theirs.read_u8().await.unwrap();
            }
        };
        let (written, ()) = tokio::join!(stream.write_all(&[0; 8]), slow);
        written.unwrap();
    }
}
