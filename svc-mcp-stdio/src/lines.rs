//! Serves the protocol over a pair of byte streams, with one message per line.
//!
//! Each request runs separately and may be cancelled. The output consists only of whole lines with protocol
//! messages. When the input ends, running requests are still answered, but waits are dropped without an
//! answer, since a client that has closed the input may fail when it receives one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rmcp::model::RequestId;
use secrecy::SecretString;
use svc_core::mark::strip_byte_order_mark_bytes;
use svc_core::{Code, Error, Result, Service};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

use crate::connection::Connection;
use crate::notifier::{Notifier, relay_notifications};
use crate::principal::Principal;
use crate::refusal::Refusal;
use crate::request_context::{AgreedSettings, RequestContext};
use crate::revision::Revision;
use crate::router::Router;
use crate::tool_filter::ToolFilter;
use crate::wire::{self, InvalidMessage, Kind, Message, Payload, WAIT_BATCH_MAX};

/// Maximum bytes of an input line.
const LINE_BYTES_MAX: usize = 4 << 20;
/// Maximum requests in progress on a connection, including parked waits.
const IN_PROGRESS_MAX: usize = 1024;
/// Maximum total bytes of the requests in progress. The server reads no further line until the last request
/// fits.
const REQUEST_BYTES_MAX: usize = 4 * LINE_BYTES_MAX;
/// Maximum requests that are running or have an answer that is not written yet. Parked waits do not count.
const ACTIVE_MAX: usize = 64;
/// Maximum bytes of lines that are combined in one write.
const WRITE_BUFFER_BYTES: usize = 16 << 10;
/// Maximum lines that are queued to be written.
const QUEUED_LINES_MAX: usize = 64;

/// Serves one caller until its input has ended and all running requests are answered.
pub(crate) async fn serve<R, W>(
    service: &Service,
    router: Router,
    token: SecretString,
    view: ToolFilter,
    (reader, writer): (R, W),
) -> Result<()>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    // Clients show the reason why a server has exited, but rarely the reason why it lists no tools.
    if let Err(error) = Principal::for_local_token(token.clone()).capabilities(service).await
        && error.code() == Code::Unauthenticated
    {
        return Err(error);
    }
    let (lines, queue) = mpsc::channel(QUEUED_LINES_MAX);
    let writing = tokio::spawn(write_lines(writer, queue));
    let settings = AgreedSettings::for_revision(Revision::UNSTATED);
    let in_progress = Arc::default();
    let (connection, mut said) = Connection::new();
    let said_lines = lines.clone();
    tokio::spawn(async move {
        while let Some(notification) = said.recv().await {
            // Sending fails only if the output is broken, which ends the connection.
            let _ = said_lines.send(notification).await;
        }
    });
    let memory_limits =
        MemoryLimits { bytes: semaphore(REQUEST_BYTES_MAX), active_requests: semaphore(ACTIVE_MAX) };
    let running = JoinSet::new();
    let pipe =
        PipeState { router, token, view, lines, connection, in_progress, settings, memory_limits, running };
    pipe.run(BufReader::new(reader)).await;
    writing.await.map_err(Error::internal)
}

/// Writes the queued lines until the queue is closed or the client has closed the output.
///
/// Short lines that are queued together are sent in one write.
async fn write_lines<W: AsyncWrite + Unpin>(out: W, mut queue: mpsc::Receiver<Bytes>) {
    let mut out = BufWriter::with_capacity(WRITE_BUFFER_BYTES, out);
    while let Some(line) = queue.recv().await {
        let is_last = queue.is_empty();
        let written = async {
            out.write_all(&line).await?;
            out.write_all(b"\n").await?;
            if is_last { out.flush().await } else { Ok(()) }
        };
        if written.await.is_err() {
            return;
        }
    }
}

/// State of a connection over byte streams.
struct PipeState {
    router: Router,
    token: SecretString,
    view: ToolFilter,
    lines: mpsc::Sender<Bytes>,
    connection: Arc<Connection>,
    in_progress: Arc<Mutex<PendingRequests>>,
    settings: AgreedSettings,
    memory_limits: MemoryLimits,
    running: JoinSet<()>,
}

/// Memory limits for requests and responses, for clients that send a lot or read slowly.
struct MemoryLimits {
    bytes: Arc<Semaphore>,
    active_requests: Arc<Semaphore>,
}

fn semaphore(permits: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(permits))
}

/// Requests of a connection that have not been answered yet.
///
/// A request has a number in addition to its id, because the client may reuse the id of a cancelled request.
#[derive(Default)]
struct PendingRequests {
    requests: HashMap<RequestId, RunningRequest>,
    last_number: u64,
}

/// Request in progress on a connection.
struct RunningRequest {
    number: u64,
    waits: bool,
    task: Option<AbortHandle>,
    sink: ResponseSink,
}

/// Destination of the response to a request.
#[derive(Clone)]
enum ResponseSink {
    Line,
    Batch(Arc<Mutex<PendingBatch>>),
}

/// A batch whose responses are not complete.
struct PendingBatch {
    /// Number of missing responses, plus one while the messages of the batch are being read.
    missing_responses: usize,
    /// Responses so far, separated by commas.
    array: Vec<u8>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ResponseSink {
    /// Adds a response, or `None` for a request without a response. Returns the line to write, if any: the
    /// response, or all responses of a completed batch.
    fn add_response(&self, response: Option<Vec<u8>>) -> Option<Bytes> {
        match self {
            Self::Line => response.map(Bytes::from),
            Self::Batch(batch) => {
                let mut batch = locked(batch);
                batch.missing_responses = batch.missing_responses.saturating_sub(1);
                if let Some(response) = response {
                    let separator = if batch.array.is_empty() { b'[' } else { b',' };
                    batch.array.push(separator);
                    batch.array.extend_from_slice(&response);
                }
                if batch.missing_responses > 0 || batch.array.is_empty() {
                    return None;
                }
                batch.array.push(b']');
                Some(std::mem::take(&mut batch.array).into())
            }
        }
    }
}

impl PendingRequests {
    /// Adds a request and returns its number. Fails if the id is in use or the connection has too many
    /// requests.
    fn add(&mut self, id: &RequestId, waits: bool, sink: ResponseSink) -> std::result::Result<u64, Refusal> {
        if self.requests.contains_key(id) {
            let invalid = InvalidMessage::new("the id is in use by a request in progress", None);
            return Err(Refusal::from(&invalid));
        }
        if self.requests.len() >= IN_PROGRESS_MAX {
            let full = "too many requests are in progress on this connection";
            return Err(Refusal::from_error(Error::new(Code::Overloaded, full)));
        }
        self.last_number += 1;
        let number = self.last_number;
        self.requests.insert(id.clone(), RunningRequest { number, waits, task: None, sink });
        Ok(number)
    }

    /// Stores the task that runs a request, so that the request can be cancelled.
    fn set_task(&mut self, id: &RequestId, number: u64, task: AbortHandle) {
        if let Some(running) = self.requests.get_mut(id).filter(|running| running.number == number) {
            running.task = Some(task);
        }
    }

    /// Removes a request and returns the destination of its response, or `None` if it was cancelled.
    fn end(&mut self, id: &RequestId, number: u64) -> Option<ResponseSink> {
        self.requests.get(id).filter(|running| running.number == number)?;
        self.requests.remove(id).map(|running| running.sink)
    }

    /// Cancels a request. If that completes a batch, returns the line with the responses of the batch.
    fn cancel(&mut self, id: &RequestId) -> Option<Bytes> {
        let running = self.requests.remove(id)?;
        running.task.inspect(AbortHandle::abort);
        running.sink.add_response(None)
    }

    /// Cancels all waits. Returns the lines with the responses of the batches that this completes.
    fn cancel_waits(&mut self) -> Vec<Bytes> {
        let waits: Vec<RequestId> =
            self.requests.iter().filter(|(_, running)| running.waits).map(|(id, _)| id.clone()).collect();
        waits.iter().filter_map(|id| self.cancel(id)).collect()
    }
}

/// Error that ends a connection because the client has closed the output.
struct OutputClosed;

impl PipeState {
    async fn run(mut self, mut reader: impl AsyncBufRead + Unpin) {
        let mut line = Vec::new();
        loop {
            let read = tokio::select! {
                read = read_line(&mut reader, &mut line) => read,
                () = self.lines.closed() => return,
            };
            let handled = match read {
                Line::Whole => self.handle_line(std::mem::take(&mut line).into()).await,
                Line::TooLong => {
                    let detail = format!("a line is longer than {LINE_BYTES_MAX} bytes");
                    let refusal = Refusal::from_error(Error::new(Code::BodyTooLarge, detail));
                    self.write_line(Some(refusal.response(None).into())).await
                }
                Line::End => break,
            };
            if handled.is_err() {
                return;
            }
            // Removes finished tasks from the set.
            while self.running.try_join_next().is_some() {}
        }
        let answered = locked(&self.in_progress).cancel_waits();
        for line in answered {
            if self.write_line(Some(line)).await.is_err() {
                return;
            }
        }
        while self.running.join_next().await.is_some() {}
    }

    async fn handle_line(&mut self, line: Bytes) -> std::result::Result<(), OutputClosed> {
        let line = line.slice_ref(strip_byte_order_mark_bytes(&line));
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        match wire::parse_payload(&line) {
            Ok(Payload::One(message)) => self.handle_message(message, ResponseSink::Line).await,
            Ok(Payload::Batch(items)) if self.settings.revision.has_batches() => {
                self.start_batch(items, line.len()).await
            }
            Ok(Payload::Batch(_)) => self.write_refusal(&InvalidMessage::no_batches(None)).await,
            Err(invalid) => self.write_refusal(&invalid).await,
        }
    }

    /// Starts all messages of a batch. The line with the responses is written once the last response is
    /// complete.
    async fn start_batch(
        &mut self,
        items: Vec<std::result::Result<Message, InvalidMessage>>,
        size: usize,
    ) -> std::result::Result<(), OutputClosed> {
        let sink = ResponseSink::Batch(Arc::new(Mutex::new(PendingBatch {
            missing_responses: 1,
            array: Vec::new(),
        })));
        let more = || {
            if let ResponseSink::Batch(batch) = &sink {
                locked(batch).missing_responses += 1;
            }
        };
        for item in items {
            let invalid = match item {
                Ok(message) if message.method == "initialize" && message.kind == Kind::Request => {
                    InvalidMessage::new("initialize must not be in a batch", message.id)
                }
                Ok(mut message) => {
                    if size > WAIT_BATCH_MAX {
                        // The whole batch stays in memory while a wait of the batch is parked.
                        message.size = size;
                    }
                    if message.kind == Kind::Request {
                        more();
                    }
                    self.handle_message(message, sink.clone()).await?;
                    continue;
                }
                Err(invalid) => invalid,
            };
            more();
            self.respond(&sink, encode_refusal(&invalid)).await?;
        }
        self.write_line(sink.add_response(None)).await
    }

    /// Starts a request, or processes a notification. Ignores responses, because this server sends no
    /// requests.
    async fn handle_message(
        &mut self,
        message: Message,
        sink: ResponseSink,
    ) -> std::result::Result<(), OutputClosed> {
        match (message.kind, &message.id) {
            (Kind::Request, Some(id)) => {
                let id = id.clone();
                self.start_request(id, Arc::new(message), sink).await
            }
            (Kind::Notification, _) if message.method == "notifications/cancelled" => {
                let id = message.params.text("requestId").and_then(|id| std::str::from_utf8(id).ok());
                let Some(id) = id.and_then(wire::parse_request_id) else { return Ok(()) };
                let line = locked(&self.in_progress).cancel(&id);
                self.write_line(line).await
            }
            _ => Ok(()),
        }
    }

    async fn start_request(
        &mut self,
        id: RequestId,
        message: Arc<Message>,
        sink: ResponseSink,
    ) -> std::result::Result<(), OutputClosed> {
        let waits = self.router.call_properties(&message).waits;
        let begun = locked(&self.in_progress).add(&id, waits, sink.clone());
        let number = match begun {
            Ok(number) => number,
            Err(refusal) => return self.respond(&sink, refusal.response(Some(&id))).await,
        };
        let principal = Principal::for_local_token(self.token.clone());
        let context = RequestContext::from_message(&message, &self.settings, principal, self.view.clone());
        let context = context.and_then(|context| match &sink {
            ResponseSink::Batch(_) if !context.revision.has_batches() => {
                Err(InvalidMessage::no_batches(None).into())
            }
            _ => Ok(context),
        });
        let context = match context {
            Ok(context) => RequestContext { connection: Some(Arc::clone(&self.connection)), ..context },
            Err(refusal) => {
                locked(&self.in_progress).end(&id, number);
                return self.respond(&sink, refusal.response(Some(&id))).await;
            }
        };
        if matches!(message.method.as_str(), "initialize" | "logging/setLevel") {
            // The server answers this request before it reads the next message, because later messages depend
            // on the new settings.
            let answer = self.router.answer(&context, &message, &Notifier::closed()).await;
            locked(&self.in_progress).end(&id, number);
            let Some(answer) = answer else { return Ok(()) };
            if let Some(agreement) = answer.settings_change {
                self.settings = agreement.apply_to(self.settings);
            }
            return self.respond(&sink, answer.bytes.into_contiguous()).await;
        }
        let router = self.router.clone();
        let lines = self.lines.clone();
        let in_progress = Arc::clone(&self.in_progress);
        let key = id.clone();
        let size = u32::try_from(message.size.min(REQUEST_BYTES_MAX)).unwrap_or(u32::MAX);
        let bytes = Arc::clone(&self.memory_limits.bytes).acquire_many_owned(size).await;
        let places = Arc::clone(&self.memory_limits.active_requests);
        let task = self.running.spawn(async move {
            let _bytes = bytes;
            let _place = if waits { None } else { Some(places.acquire_owned().await) };
            let (notifier, said) = Notifier::new();
            let answer =
                relay_notifications(router.answer(&context, &message, &notifier), said, &lines).await;
            let response = answer.map(|answer| answer.bytes.into_contiguous());
            let ended = locked(&in_progress).end(&key, number);
            if let Some(line) = ended.and_then(|sink| sink.add_response(response)) {
                // Sending fails only if the output is broken, which ends the connection.
                let _ = lines.send(line).await;
            }
        });
        locked(&self.in_progress).set_task(&id, number, task);
        Ok(())
    }

    async fn respond(&self, sink: &ResponseSink, response: Vec<u8>) -> std::result::Result<(), OutputClosed> {
        self.write_line(sink.add_response(Some(response))).await
    }

    async fn write_refusal(&self, invalid: &InvalidMessage) -> std::result::Result<(), OutputClosed> {
        self.write_line(Some(encode_refusal(invalid).into())).await
    }

    async fn write_line(&self, line: Option<Bytes>) -> std::result::Result<(), OutputClosed> {
        match line {
            Some(line) => self.lines.send(line).await.map_err(|_| OutputClosed),
            None => Ok(()),
        }
    }
}

fn encode_refusal(invalid: &InvalidMessage) -> Vec<u8> {
    Refusal::from(invalid).response(invalid.id.as_ref())
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads the next line, up to a line break or the end of the input. Buffers no more than [`LINE_BYTES_MAX`]
/// bytes.
async fn read_line(reader: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> Line {
    line.clear();
    let mut too_long = false;
    loop {
        let available = match reader.fill_buf().await {
            Ok([]) | Err(_) if line.is_empty() && !too_long => return Line::End,
            Ok([]) | Err(_) => break,
            Ok(available) => available,
        };
        let (part, found) = match available.split_inclusive(|byte| *byte == b'\n').next() {
            Some(part) => (part, part.ends_with(b"\n")),
            None => (available, false),
        };
        let ending = usize::from(found);
        too_long |= line.len().saturating_add(part.len()) > LINE_BYTES_MAX.saturating_add(ending);
        if too_long {
            line.clear();
        } else {
            line.extend_from_slice(part);
        }
        let taken = part.len();
        reader.consume(taken);
        if found {
            break;
        }
    }
    if too_long { Line::TooLong } else { Line::Whole }
}
