//! Implements the server's side of one WebSocket connection.
//!
//! The library tungstenite reads the frames. This module writes each frame directly to the stream, because
//! tungstenite would queue pongs without limit for a client that does not read. So only one received frame
//! and one sent frame are held in memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use svc_core::Error;
use svc_core::limits::WS_FRAME_MAX_BYTES;
use svc_core::ops::ClientRequests;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf, split};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use crate::phase::{Phase, wait_for_closing};

/// Interval of the server's pings.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Time after which a client that sends nothing is disconnected.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time for the closing handshake.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Minimum interval between pongs.
const PONG_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum pings and pongs that a client may send in a second.
const CONTROL_FRAMES_MAX: u32 = 50;
/// Maximum frames that the server still reads from a client after it has sent the close frame.
const FRAMES_AFTER_CLOSE_MAX: usize = 100;
/// Maximum bytes of the reason in a close frame.
const REASON_MAX: usize = 123;
const READ_BUFFER: usize = 4096;
/// Bytes of tungstenite's write buffer: enough for the longest pong, which is discarded.
const WRITE_BUFFER: usize = 256;

type Io = TokioIo<Upgraded>;

/// A WebSocket connection.
pub(super) struct Socket {
    frames: WebSocketStream<ReadOnly>,
    out: WriteHalf<Io>,
    ping_timer: Interval,
    last_received: Instant,
    last_pong: Option<Instant>,
    control_counts: ControlCounts,
    /// Requests in the client's frames that have not been processed yet.
    requests: ClientRequests,
    phase: watch::Receiver<Phase>,
}

/// Reason for the end of a connection.
#[derive(Debug)]
pub(super) enum ConnectionEnd {
    /// The server closes the connection with this code and reason.
    Close(CloseCode, String),
    /// The client has closed the connection, or does not respond.
    Disconnected,
}

impl ConnectionEnd {
    pub fn policy_violation(reason: impl Into<String>) -> Self {
        Self::Close(CloseCode::Policy, reason.into())
    }

    /// Maps an error of the core to a close code and a reason.
    pub fn from_error(error: &Error) -> Self {
        let code = match error.code().status() {
            500 => CloseCode::Error,
            429 | 501.. => CloseCode::Again,
            _ => CloseCode::Policy,
        };
        Self::Close(code, format!("{}: {}", error.code().name(), error.detail()))
    }

    /// Maps a failure to read a frame to the reason for the end of the connection.
    fn from_read_error(error: &tungstenite::Error) -> Self {
        match error {
            tungstenite::Error::Capacity(_) => {
                Self::Close(CloseCode::Size, format!("a frame may have at most {WS_FRAME_MAX_BYTES} bytes"))
            }
            tungstenite::Error::Utf8(_) => {
                Self::Close(CloseCode::Invalid, "a text frame must be UTF-8".to_owned())
            }
            tungstenite::Error::Protocol(error) => Self::Close(CloseCode::Protocol, error.to_string()),
            _ => Self::Disconnected,
        }
    }
}

/// Event that ends a wait: the work has finished, or a frame has arrived.
enum SocketEvent<T> {
    Done(T),
    Frame(Message),
}

impl Socket {
    pub async fn open(upgraded: Upgraded, phase: watch::Receiver<Phase>) -> Self {
        let config = WebSocketConfig::default()
            .max_message_size(Some(WS_FRAME_MAX_BYTES))
            .max_frame_size(Some(WS_FRAME_MAX_BYTES))
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(0)
            .max_write_buffer_size(WRITE_BUFFER);
        let (input, out) = split(TokioIo::new(upgraded));
        let frames = WebSocketStream::from_raw_socket(ReadOnly(input), Role::Server, Some(config)).await;
        let mut ping_timer = interval(PING_INTERVAL);
        ping_timer.reset();
        let last_received = Instant::now();
        let control_counts = ControlCounts { since: last_received, count: 0 };
        let requests = ClientRequests::default();
        Self { frames, out, ping_timer, last_received, last_pong: None, control_counts, requests, phase }
    }

    /// Reads the first frame, which must be a text frame.
    pub async fn read_first_frame(&mut self) -> Result<String, ConnectionEnd> {
        let first = tokio::select! {
            read = self.frames.next() => read,
            () = wait_for_closing(&mut self.phase) => return Err(going_away_end()),
        };
        self.last_received = Instant::now();
        match first
            .ok_or(ConnectionEnd::Disconnected)?
            .map_err(|error| ConnectionEnd::from_read_error(&error))?
        {
            Message::Text(text) => Ok(text.as_str().to_owned()),
            Message::Close(_) => Err(self.finish_closing().await),
            _ => Err(ConnectionEnd::policy_violation("malformed-request: the first frame must be JSON text")),
        }
    }

    /// Runs `work` to its end, and keeps the connection alive until then.
    ///
    /// While the work runs, sends pings, answers the client's pings, and stores the client's requests.
    pub async fn keep_alive_during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, ConnectionEnd> {
        let mut work = std::pin::pin!(work);
        loop {
            if let Some(outcome) = self.keep_alive_until_frame(work.as_mut()).await? {
                return Ok(outcome);
            }
        }
    }

    /// Takes the requests that the client has sent since the last call.
    pub fn take_requests(&mut self) -> ClientRequests {
        std::mem::take(&mut self.requests)
    }

    /// Works like [`Socket::keep_alive_during`], but returns `None` as soon as the client sends a text frame.
    pub async fn keep_alive_until_frame<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<Option<T>, ConnectionEnd> {
        let mut work = std::pin::pin!(work);
        loop {
            let next = tokio::select! {
                outcome = &mut work => SocketEvent::Done(outcome),
                read = self.frames.next() => {
                    let frame = read.ok_or(ConnectionEnd::Disconnected)?;
                    SocketEvent::Frame(frame.map_err(|error| ConnectionEnd::from_read_error(&error))?)
                }
                _ = self.ping_timer.tick() => {
                    if self.last_received.elapsed() > IDLE_TIMEOUT {
                        return Err(ConnectionEnd::Disconnected);
                    }
                    self.write(Control::Ping, Bytes::new()).await?;
                    continue;
                }
                () = wait_for_closing(&mut self.phase) => return Err(going_away_end()),
            };
            match next {
                SocketEvent::Done(outcome) => return Ok(Some(outcome)),
                SocketEvent::Frame(Message::Text(text)) => {
                    self.last_received = Instant::now();
                    self.requests.add(text.as_str()).map_err(|error| ConnectionEnd::from_error(&error))?;
                    return Ok(None);
                }
                SocketEvent::Frame(frame) => self.handle_control(frame).await?,
            }
        }
    }

    /// Handles a frame that is not a text frame.
    async fn handle_control(&mut self, frame: Message) -> Result<(), ConnectionEnd> {
        self.last_received = Instant::now();
        match frame {
            Message::Close(_) => Err(self.finish_closing().await),
            Message::Ping(payload) => {
                self.control_counts.count(self.last_received)?;
                self.send_pong(payload).await
            }
            Message::Pong(_) => self.control_counts.count(self.last_received),
            _ => Err(ConnectionEnd::policy_violation("malformed-request: only text frames may be sent")),
        }
    }

    /// Completes the closing handshake that the client has begun.
    async fn finish_closing(&mut self) -> ConnectionEnd {
        self.write(Control::Close, Bytes::new()).await.err().unwrap_or(ConnectionEnd::Disconnected)
    }

    /// Sends a pong, unless one was sent within [`PONG_INTERVAL`].
    async fn send_pong(&mut self, payload: Bytes) -> Result<(), ConnectionEnd> {
        if self.last_pong.is_some_and(|last| last.elapsed() < PONG_INTERVAL) {
            return Ok(());
        }
        self.last_pong = Some(Instant::now());
        self.write(Control::Pong, payload).await
    }

    /// Sends a text frame, and waits until it is written to the connection.
    pub async fn send(&mut self, text: Bytes) -> Result<(), ConnectionEnd> {
        let began = Instant::now();
        self.write(Data::Text, text).await?;
        // No frames were read while sending, so the time of sending does not count as silence of the client.
        self.last_received += began.elapsed();
        Ok(())
    }

    async fn write(&mut self, kind: impl Into<FrameKind>, payload: Bytes) -> Result<(), ConnectionEnd> {
        let header = FrameHeader { opcode: kind.into().0, ..FrameHeader::default() };
        let mut head = Vec::with_capacity(HEADER_MAX);
        let length = u64::try_from(payload.len()).unwrap_or(u64::MAX);
        header.format(length, &mut head).map_err(|_| ConnectionEnd::Disconnected)?;
        // The underlying stream enforces the timeout for writes.
        self.out
            .write_all_buf(&mut head.as_slice().chain(payload))
            .await
            .map_err(|_| ConnectionEnd::Disconnected)?;
        self.out.flush().await.map_err(|_| ConnectionEnd::Disconnected)
    }

    /// Sends a close frame with the reason, and waits for the client to respond.
    pub async fn close(mut self, code: CloseCode, reason: &str) {
        let reason = reason.get(..reason.floor_char_boundary(REASON_MAX)).unwrap_or_default();
        let code: u16 = code.into();
        let payload = [&code.to_be_bytes()[..], reason.as_bytes()].concat();
        let closing = async {
            if self.write(Control::Close, payload.into()).await.is_ok() {
                for _ in 0..FRAMES_AFTER_CLOSE_MAX {
                    let Some(Ok(_)) = self.frames.next().await else { return };
                }
            }
        };
        // A client that does not respond in time is disconnected.
        let _ = timeout(CLOSE_TIMEOUT, closing).await;
    }
}

/// Maximum bytes of the header of a frame that the server sends.
const HEADER_MAX: usize = 10;

fn going_away_end() -> ConnectionEnd {
    ConnectionEnd::Close(CloseCode::Away, "the server is shutting down".to_owned())
}

struct FrameKind(OpCode);

impl From<Control> for FrameKind {
    fn from(control: Control) -> Self {
        Self(OpCode::Control(control))
    }
}

impl From<Data> for FrameKind {
    fn from(data: Data) -> Self {
        Self(OpCode::Data(data))
    }
}

/// Number of pings and pongs received in the current second.
struct ControlCounts {
    since: Instant,
    count: u32,
}

impl ControlCounts {
    /// Counts a ping or pong. Fails if the client has sent more than [`CONTROL_FRAMES_MAX`] in a second.
    fn count(&mut self, now: Instant) -> Result<(), ConnectionEnd> {
        if now.duration_since(self.since) >= Duration::from_secs(1) {
            *self = Self { since: now, count: 0 };
        }
        self.count = self.count.saturating_add(1);
        if self.count > CONTROL_FRAMES_MAX {
            return Err(ConnectionEnd::policy_violation(format!(
                "rate-limited: more than {CONTROL_FRAMES_MAX} pings in a second"
            )));
        }
        Ok(())
    }
}

/// Read half of a connection. Writes by tungstenite are discarded.
struct ReadOnly(ReadHalf<Io>);

impl AsyncRead for ReadOnly {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for ReadOnly {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_pings_is_rejected_and_a_few_are_not() {
        let start = Instant::now();
        let mut controls = ControlCounts { since: start, count: 0 };
        for second in 0..5 {
            let now = start + Duration::from_secs(second);
            assert!((0..CONTROL_FRAMES_MAX).all(|_| controls.count(now).is_ok()), "second {second}");
        }
        assert!(controls.count(start + Duration::from_secs(4)).is_err());
    }
}
