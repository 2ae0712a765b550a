//! The protocols of connections, and their end.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use svc_core::Error;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::limits::HEAD_TIMEOUT;
use crate::phase::{Phase, closing};

/// How long a peer has to leave once the server closes.
const LEAVE_TIME: Duration = Duration::from_secs(1);
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Limit on the bytes of a request's head, and on those read ahead of a body.
const BUFFER_MAX: usize = 64 << 10;
/// Limit on the bytes of a request's head over HTTP/2.
const HEAD_MAX: u32 = 16 << 10;
/// The HTTP/2 flow-control window in bytes, the smallest that a connection can have.
const WINDOW: u32 = (64 << 10) - 1;
/// Limit on concurrent requests on one HTTP/2 connection.
pub(crate) const STREAMS_MAX: u32 = 64;

/// Returns the builder of connections over HTTP/1 and HTTP/2.
pub(crate) fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(BUFFER_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_MAX)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(BUFFER_MAX);
    builder
}

/// Rejects a connection above the limit.
///
/// It neither reads nor waits, so the peer may not see the reason.
pub(crate) fn reject(stream: TcpStream, refusal: &Error) {
    let body = serde_json::to_string(&refusal.problem()).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // A response that cannot be written without blocking is dropped.
    drop(stream.into_std().and_then(|mut stream| stream.write_all(answer.as_bytes())));
}

/// Resolves once the server closes and nothing is in progress on a connection.
///
/// hyper sends a peer of HTTP/2 a GOAWAY and then waits for the reply without a timeout.
pub(crate) async fn left_idle(phase: &mut watch::Receiver<Phase>, busy: &Arc<()>) {
    closing(phase).await;
    loop {
        sleep(LEAVE_TIME).await;
        // Each request in progress holds one more.
        if Arc::strong_count(busy) == 1 {
            return;
        }
    }
}
