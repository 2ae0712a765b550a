//! Sets up HTTP/1 and HTTP/2 on accepted connections, and ends idle ones at shutdown.

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
use crate::phase::{Phase, wait_for_closing};

/// Minimum time that an idle connection stays open during shutdown, so that the peer can close the connection
/// first.
const IDLE_SHUTDOWN_GRACE: Duration = Duration::from_secs(1);
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Maximum bytes in the buffer of an HTTP/1 connection, and maximum unsent bytes of an HTTP/2 stream.
///
/// The head of an HTTP/1 request must fit into the buffer.
const BUFFER_MAX: usize = 64 << 10;
/// Maximum bytes of the header list of an HTTP/2 request.
const HEADER_LIST_MAX: u32 = 16 << 10;
/// HTTP/2 flow-control window in bytes: the smallest that the protocol permits for a connection.
const FLOW_CONTROL_WINDOW: u32 = (64 << 10) - 1;
/// Maximum concurrent requests on one HTTP/2 connection.
pub(crate) const STREAMS_MAX: u32 = 64;

/// Returns the builder for HTTP/1 and HTTP/2 connections.
pub(crate) fn connection_builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(BUFFER_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_LIST_MAX)
        .initial_stream_window_size(FLOW_CONTROL_WINDOW)
        .initial_connection_window_size(FLOW_CONTROL_WINDOW)
        .max_send_buf_size(BUFFER_MAX);
    builder
}

/// Sends a 503 response on a connection above the connection limit, and closes the connection.
///
/// The server neither reads from the connection nor waits, so the peer may not receive the response.
pub(crate) fn reject_connection(stream: TcpStream, refusal: &Error) {
    let body = serde_json::to_string(&refusal.problem()).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // A response that cannot be written without blocking is dropped.
    drop(stream.into_std().and_then(|mut stream| stream.write_all(answer.as_bytes())));
}

/// Resolves during shutdown, once no request is in progress on the connection.
///
/// During shutdown hyper sends a GOAWAY frame to an HTTP/2 peer, and then waits for the peer without a
/// timeout.
pub(crate) async fn wait_until_idle_in_shutdown(phase: &mut watch::Receiver<Phase>, busy_marker: &Arc<()>) {
    wait_for_closing(phase).await;
    loop {
        sleep(IDLE_SHUTDOWN_GRACE).await;
        // Each request in progress holds another reference.
        if Arc::strong_count(busy_marker) == 1 {
            return;
        }
    }
}
