//! The transport under rmcp for standard input and output, with one message per line.
//!
//! It responds to lines that are not messages, splits batches and collects their responses in revisions that
//! have batches, and ends only when every request has a response. It writes nothing but protocol messages.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions as _, JsonRpcMessage, RequestId, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::RoleServer;
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, watch};

use crate::server::Size;
use crate::wire::{self, InvalidMessage, Kind, Message, Payload, WAIT_BATCH_MAX};

/// Limit on the bytes of a line.
const LINE_MAX: usize = 4 << 20;
/// Limit on the messages queued for rmcp.
const QUEUE_MAX: usize = 64;
/// The only revision that has batches.
const BATCH_REVISION: &str = "2025-03-26";

/// A pair of byte streams as a transport of rmcp.
pub(crate) struct Connection<W> {
    incoming: mpsc::Receiver<ClientJsonRpcMessage>,
    outbox: Arc<Outbox<W>>,
}

impl<W: AsyncWrite + Unpin + Send + 'static> Connection<W> {
    /// Starts reading. `ended` becomes true when the input ends.
    pub fn start<R: AsyncRead + Unpin + Send + 'static>(
        reader: R,
        writer: W,
        ended: watch::Sender<bool>,
    ) -> Self {
        let (queue, incoming) = mpsc::channel(QUEUE_MAX);
        let outbox = Arc::new(Outbox {
            out: tokio::sync::Mutex::new(writer),
            unanswered: Mutex::default(),
            idle: watch::Sender::new(true),
            broken: watch::Sender::new(false),
        });
        let lines = Reader { outbox: Arc::clone(&outbox), queue };
        tokio::spawn(async move {
            lines.run(BufReader::new(reader)).await;
            ended.send_replace(true);
        });
        Self { incoming, outbox }
    }
}

impl<W: AsyncWrite + Unpin + Send + 'static> Transport<RoleServer> for Connection<W> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outbox = Arc::clone(&self.outbox);
        async move { outbox.send(message).await }
    }

    /// Returns the next message. After the last one it returns none once every request has a response.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let outbox = Arc::clone(&self.outbox);
        tokio::select! {
            () = wait_for(&outbox.broken) => None,
            message = self.incoming.recv() => {
                if message.is_none() {
                    wait_for(&outbox.idle).await;
                }
                message
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outbox.out.lock().await.flush().await
    }
}

/// Resolves when the flag is true.
async fn wait_for(flag: &watch::Sender<bool>) {
    // The sender is borrowed, so it cannot be dropped meanwhile.
    let _ = flag.subscribe().wait_for(|flag| *flag).await;
}

/// The state shared by the reader and the writer.
struct Outbox<W> {
    out: tokio::sync::Mutex<W>,
    unanswered: Mutex<Unanswered>,
    /// Whether no request is without a response.
    idle: watch::Sender<bool>,
    /// Whether the output is broken.
    broken: watch::Sender<bool>,
}

/// The requests that have no response yet.
#[derive(Default)]
struct Unanswered {
    /// The requests, each with the batch that it belongs to.
    open: HashMap<RequestId, Option<u64>>,
    /// The number of responses being written.
    writing: usize,
    batches: HashMap<u64, PendingBatch>,
    last_batch: u64,
    batching: bool,
}

/// A batch whose responses are not complete.
#[derive(Default)]
struct PendingBatch {
    /// The number of its requests without a response.
    awaited: usize,
    answers: Vec<Value>,
    /// Whether all of its messages were passed on.
    closed: bool,
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    /// Updates the pending requests.
    fn update<T>(&self, change: impl FnOnce(&mut Unanswered) -> T) -> T {
        let mut unanswered: MutexGuard<'_, Unanswered> =
            self.unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = change(&mut unanswered);
        self.idle.send_replace(unanswered.open.is_empty() && unanswered.writing == 0);
        outcome
    }

    async fn send(&self, message: ServerJsonRpcMessage) -> io::Result<()> {
        let id = match &message {
            JsonRpcMessage::Response(response) => Some(&response.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        let Some(id) = id.cloned() else { return self.write(&serde_json::to_value(message)?).await };
        let batching = match &message {
            JsonRpcMessage::Response(response) => {
                agreed_revision(&response.result).map(|r| r == BATCH_REVISION)
            }
            _ => None,
        };
        let answer = serde_json::to_value(message)?;
        let due = self.update(|unanswered| {
            unanswered.batching = batching.unwrap_or(unanswered.batching);
            let due = unanswered.complete_request(&id, Some(answer));
            unanswered.writing += usize::from(due.is_some());
            due
        });
        let Some(due) = due else { return Ok(()) };
        let written = self.write(&due).await;
        self.update(|unanswered| unanswered.writing = unanswered.writing.saturating_sub(1));
        written
    }

    async fn write(&self, value: &Value) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        let mut out = self.out.lock().await;
        let written = match out.write_all(&line).await {
            Ok(()) => out.flush().await,
            Err(error) => Err(error),
        };
        if written.is_err() {
            self.broken.send_replace(true);
        }
        written
    }
}

fn agreed_revision(result: &ServerResult) -> Option<&str> {
    match result {
        ServerResult::InitializeResult(result) => Some(result.protocol_version.as_str()),
        _ => None,
    }
}

impl Unanswered {
    /// Adds a request; returns false if its id is in use.
    fn begin(&mut self, id: &RequestId, batch: Option<u64>) -> bool {
        if self.open.contains_key(id) {
            return false;
        }
        self.open.insert(id.clone(), batch);
        if let Some(batch) = batch.and_then(|number| self.batches.get_mut(&number)) {
            batch.awaited += 1;
        }
        true
    }

    /// Removes a request and returns what is to be written now.
    ///
    /// `answer` is its response, or none if it was cancelled.
    fn complete_request(&mut self, id: &RequestId, answer: Option<Value>) -> Option<Value> {
        match self.open.remove(id) {
            Some(None) => answer,
            Some(Some(number)) => {
                let batch = self.batches.get_mut(&number)?;
                batch.awaited = batch.awaited.saturating_sub(1);
                batch.answers.extend(answer);
                self.completed_batch(number)
            }
            // It was cancelled, so the client no longer expects a response.
            None => None,
        }
    }

    fn open_batch(&mut self) -> u64 {
        self.last_batch += 1;
        self.batches.insert(self.last_batch, PendingBatch::default());
        self.last_batch
    }

    /// Closes a batch, adding the errors of rejected messages. Returns what is to be written now.
    fn close_batch(&mut self, number: u64, refused: Vec<Value>) -> Option<Value> {
        let batch = self.batches.get_mut(&number)?;
        batch.answers.extend(refused);
        batch.closed = true;
        self.completed_batch(number)
    }

    /// Returns the response of a batch if it is complete and not empty.
    fn completed_batch(&mut self, number: u64) -> Option<Value> {
        self.batches.get(&number).filter(|batch| batch.closed && batch.awaited == 0)?;
        let answers = self.batches.remove(&number)?.answers;
        (!answers.is_empty()).then_some(Value::Array(answers))
    }
}

/// The reading side of a connection.
struct Reader<W> {
    outbox: Arc<Outbox<W>>,
    queue: mpsc::Sender<ClientJsonRpcMessage>,
}

/// Why a message was not passed on.
enum Stop {
    Refused(InvalidMessage),
    /// rmcp takes no more messages, or the output is broken.
    Disconnected,
}

impl From<InvalidMessage> for Stop {
    fn from(refusal: InvalidMessage) -> Self {
        Self::Refused(refusal)
    }
}

impl<W: AsyncWrite + Unpin> Reader<W> {
    async fn run(&self, mut reader: impl AsyncBufRead + Unpin) {
        let mut line = Vec::new();
        loop {
            let done = match next_line(&mut reader, &mut line).await {
                Line::Whole => self.line(&line).await,
                Line::TooLong => Err(InvalidMessage::invalid("the line is too long", Value::Null).into()),
                Line::End => return,
            };
            let done = match done {
                Err(Stop::Refused(refusal)) => self.write(Some(refusal.answer())).await,
                done => done,
            };
            if done.is_err() {
                return;
            }
        }
    }

    async fn line(&self, line: &[u8]) -> Result<(), Stop> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        match wire::read(line)? {
            Payload::One(message) => self.admit(message, Size(line.len()), None).await,
            Payload::Batch(items) if self.outbox.update(|unanswered| unanswered.batching) => {
                self.batch(items, line.len()).await
            }
            Payload::Batch(_) => {
                Err(InvalidMessage::invalid("this revision has no batches", Value::Null).into())
            }
        }
    }

    /// Passes on the messages of a batch. Its response is written once the last of them has one.
    async fn batch(&self, items: Vec<Result<Message, InvalidMessage>>, size: usize) -> Result<(), Stop> {
        let number = self.outbox.update(Unanswered::open_batch);
        let mut refused = Vec::new();
        for item in items {
            let admitted = match item {
                Ok(message) if message.method() == "initialize" => {
                    Err(InvalidMessage::invalid("initialize must not be in a batch", message.id()).into())
                }
                Ok(message) => {
                    let own = message.value.to_string().len();
                    // In a large batch every wait counts as too large.
                    let counted = if size > WAIT_BATCH_MAX { size } else { own };
                    self.admit(message, Size(counted), Some(number)).await
                }
                Err(refusal) => Err(refusal.into()),
            };
            match admitted {
                Err(Stop::Refused(refusal)) => refused.push(refusal.answer()),
                admitted => admitted?,
            }
        }
        let due = self.outbox.update(|unanswered| unanswered.close_batch(number, refused));
        self.write(due).await
    }

    /// Passes a message on to rmcp. Responses are dropped: this server sends no requests.
    async fn admit(&self, message: Message, size: Size, batch: Option<u64>) -> Result<(), Stop> {
        match message.kind {
            Kind::Response => Ok(()),
            Kind::Notification => {
                if message.method() == "notifications/cancelled" {
                    let id = message.value.pointer("/params/requestId").cloned().unwrap_or_default();
                    if let Ok(id) = serde_json::from_value(id) {
                        let due = self.outbox.update(|unanswered| unanswered.complete_request(&id, None));
                        self.write(due).await?;
                    }
                }
                match serde_json::from_value(message.value) {
                    Ok(message) => self.queue.send(message).await.map_err(|_| Stop::Disconnected),
                    // A notification has no response, not even an error.
                    Err(_) => Ok(()),
                }
            }
            Kind::Request => {
                let id = message.id();
                let unreadable = |_| InvalidMessage::invalid("the request cannot be read", id.clone());
                let number: RequestId = serde_json::from_value(id.clone()).map_err(unreadable)?;
                let mut request = serde_json::from_value(message.value).map_err(unreadable)?;
                if let ClientJsonRpcMessage::Request(request) = &mut request {
                    request.request.extensions_mut().insert(size);
                }
                if !self.outbox.update(|unanswered| unanswered.begin(&number, batch)) {
                    return Err(
                        InvalidMessage::invalid("the id is in use by a request in progress", id).into()
                    );
                }
                self.queue.send(request).await.map_err(|_| Stop::Disconnected)
            }
        }
    }

    async fn write(&self, due: Option<Value>) -> Result<(), Stop> {
        match due {
            Some(value) => self.outbox.write(&value).await.map_err(|_| Stop::Disconnected),
            None => Ok(()),
        }
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads up to the end of a line or of the input. Never buffers more than [`LINE_MAX`] bytes.
async fn next_line(reader: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> Line {
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
        too_long |= line.len().saturating_add(part.len()) > LINE_MAX;
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
