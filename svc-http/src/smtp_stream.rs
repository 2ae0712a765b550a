//! The connection to a mail server, with a bound on what the server sends between two writes.
//!
//! lettre checks the length of a line once it has read it whole: a line without an end would fill the memory.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// Maximum bytes that are read between two writes. Replies and handshakes of TLS have less.
const READ_MAX: usize = 256 << 10;

/// A TCP connection.
#[derive(Debug)]
pub(crate) struct BoundedStream {
    stream: TcpStream,
    /// Bytes that may be read until the next write.
    left: usize,
}

impl BoundedStream {
    /// Connects to the first address of a host that accepts within `patience`.
    pub async fn connect(at: (&str, u16), patience: Duration) -> io::Result<Self> {
        let mut failed = io::Error::from(io::ErrorKind::NotFound);
        for address in lookup_host(at).await? {
            match timeout(patience, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(Self { stream, left: READ_MAX }),
                Ok(Err(error)) => failed = error,
                Err(_) => failed = io::ErrorKind::TimedOut.into(),
            }
        }
        Err(failed)
    }
}

impl AsyncTokioStream for BoundedStream {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let read = buf.filled().len().saturating_sub(before);
        match self.left.checked_sub(read) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Err(io::Error::other("the mail server sends too much"))),
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.left = READ_MAX;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use lettre::transport::smtp::client::AsyncSmtpConnection;
    use lettre::transport::smtp::extension::ClientId;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// Says hello to a server that sends a line of so many bytes without an end, and returns the error.
    fn hello(length: usize) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let stream = BoundedStream::connect(("127.0.0.1", port), Duration::from_secs(10)).await.unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            let serving = tokio::spawn(async move { server.write_all(&vec![b'x'; length]).await });
            let hello = ClientId::default();
            let connected = AsyncSmtpConnection::connect_with_transport(Box::new(stream), &hello).await;
            let error = connected.err().unwrap().to_string();
            serving.abort();
            error
        })
    }

    #[test]
    fn a_line_without_an_end_does_not_fill_the_memory() {
        assert!(!hello(READ_MAX).contains("too much"), "a control");
        assert!(hello(READ_MAX + 1).contains("the mail server sends too much"));
        assert!(hello(READ_MAX * 100).contains("the mail server sends too much"));
    }
}
