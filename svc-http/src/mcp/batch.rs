//! Handles a JSON-RPC batch in a POST, a feature of MCP revision 2025-03-26.
//!
//! The messages of a batch are handled one after another, so that their effects happen in order. A batch
//! takes one slot for requests in flight, and releases the slot while it waits. All waits of a batch share
//! one deadline. Once the responses exceed a limit, the remaining messages are rejected.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rmcp::model::RequestId;
use svc_core::limits::WAIT_MAX_SECS;
use svc_core::share::CeilingScope;
use svc_core::{Code, Error, PlaceGuard, Result};
use svc_mcp_stdio::notifier::Notifier;
use svc_mcp_stdio::refusal::Refusal;
use svc_mcp_stdio::request_context::RequestContext;
use svc_mcp_stdio::wire::{InvalidMessage, Kind, Message, WAIT_BATCH_MAX};
use tokio::time::{Instant, sleep};

use super::event_stream::{self, KEEP_ALIVE_INTERVAL, PendingAnswer};
use super::post::{STREAM_AFTER, accepted_response, busy_slot_for_message, wait_for_cancellation};
use super::{Endpoint, PostSender, refusals};
use crate::encode::{self, Response};
use crate::limits::body::with_guard;
use crate::limits::in_flight::run_with_busy_slot;
use crate::limits::unread;
use crate::state::ServerState;

/// Total bytes of a batch's responses above which the remaining messages are rejected.
const BATCH_RESPONSES_MAX: usize = 1 << 20;

/// An item of a batch: a message, or the description of an invalid message.
type Item = std::result::Result<Message, InvalidMessage>;

/// A batch of messages in progress.
pub(super) struct BatchPost {
    endpoint: Arc<Endpoint>,
    state: Arc<ServerState>,
    sender: PostSender,
    notifier: Notifier,
    slot: Option<PlaceGuard>,
    /// Responses so far, in the order of the messages.
    answers: Vec<Vec<u8>>,
    /// Share of the unread bytes that the responses so far occupy.
    share: Option<PlaceGuard>,
}

/// Responses to a whole batch.
struct BatchResponses {
    /// JSON array of all responses, `None` if there are none, or the error that ended the batch.
    array: Result<Option<Bytes>>,
    share: Option<PlaceGuard>,
    room_lsn: Option<i64>,
}

impl BatchPost {
    pub fn new(endpoint: &Arc<Endpoint>, state: &Arc<ServerState>, sender: PostSender) -> Self {
        let endpoint = Arc::clone(endpoint);
        let state = Arc::clone(state);
        let notifier = Notifier::closed();
        Self { endpoint, state, sender, notifier, slot: None, answers: Vec::new(), share: None }
    }

    /// Handles the items of a batch of `size` bytes, and returns the HTTP response.
    ///
    /// As with a single message, the response becomes a stream of events after [`STREAM_AFTER`].
    pub async fn run(mut self, items: Vec<Item>, size: usize) -> Response {
        let waits = |message: &Message| self.endpoint.router.call_properties(message).waits;
        if size > WAIT_BATCH_MAX && items.iter().flatten().any(waits) {
            let detail = format!("a batch with a wait in it is larger than {WAIT_BATCH_MAX} bytes");
            let error = Error::new(Code::BodyTooLarge, detail);
            let error = self.sender.principal.refuse(&self.endpoint.service, error).await;
            return refusals::error_response(None, &error, true);
        }
        let mut said = None;
        if self.sender.accepts_events {
            let (notifier, receiver) = Notifier::new();
            (self.notifier, said) = (notifier, Some(receiver));
        }
        let endpoint = Arc::clone(&self.endpoint);
        let principal = self.sender.principal.clone();
        let mut answering = Box::pin(self.answer_all(items));
        let first = tokio::select! {
            biased;
            answered = &mut answering => return answered.into_response(),
            Some(first) = event_stream::next_notification(&mut said) => Some(first),
            () = sleep(STREAM_AFTER), if said.is_some() => None,
        };
        if said.is_none() {
            return answering.await.into_response();
        }
        let answer = Box::pin(async move { answering.await.into_event() });
        let events = event_stream::events_until_answer(
            PendingAnswer { answer, notifications: said },
            first,
            KEEP_ALIVE_INTERVAL,
        );
        endpoint.stream_response(&principal, events).await
    }

    /// Handles the items one after another, and collects the responses.
    async fn answer_all(mut self, items: Vec<Item>) -> BatchResponses {
        let longest = Duration::from_secs(WAIT_MAX_SECS.unsigned_abs());
        self.sender.principal = self.sender.principal.clone().with_deadline(Instant::now() + longest);
        for (number, item) in items.into_iter().enumerate() {
            let (id, wants_answer) = match &item {
                Ok(message) => (message.id.clone(), message.kind == Kind::Request),
                Err(invalid) => (invalid.id.clone(), true),
            };
            let answered = match self.handle_item(number, item).await {
                // The core has not recorded this message yet.
                Err(error) if self.sender.principal.is_unrecorded() => {
                    Err(self.sender.principal.refuse(&self.endpoint.service, error).await)
                }
                answered => answered,
            };
            let answer = match answered {
                Ok(answer) => answer,
                // If the credential has ended, the whole batch fails.
                Err(error) if error.code() == Code::Unauthenticated => {
                    return BatchResponses { array: Err(error), share: None, room_lsn: None };
                }
                Err(error) => Some(encode_refusal(&error, id.as_ref())),
            };
            self.answers.extend(answer.filter(|_| wants_answer));
        }
        let array = (!self.answers.is_empty()).then(|| [b"[", &*self.answers.join(&b','), b"]"].concat());
        let room_lsn = self.sender.principal.room_lsn();
        BatchResponses { array: Ok(array.map(Bytes::from)), share: self.share, room_lsn }
    }

    /// Handles one item, and returns the response to it, if any. Every item counts as a request, even if it
    /// is invalid.
    async fn handle_item(&mut self, index: usize, item: Item) -> Result<Option<Vec<u8>>> {
        let service = &self.endpoint.service;
        if index > 0 {
            self.sender.principal = self.sender.principal.admit_next(service).await?;
        }
        self.state.unread.wait_below_quota(self.sender.holder, Instant::now() + unread::TIMEOUT).await?;
        let invalid = match item {
            Ok(message) if message.kind == Kind::Response => {
                return self.sender.principal.ensure_recorded(service).await.map(|()| None);
            }
            Ok(message) if message.method == "initialize" => {
                InvalidMessage::new("initialize must not be in a batch", message.id)
            }
            Ok(message) => return self.handle_message(index, message).await,
            Err(invalid) => invalid,
        };
        let error = self.sender.principal.refuse(service, Error::malformed(invalid.message.clone())).await;
        if error.code() == Code::Malformed {
            return Ok(Some(Refusal::from(&invalid).response(invalid.id.as_ref())));
        }
        Err(error)
    }

    /// Handles one message, or rejects the message before it has any effect.
    ///
    /// Returns `None` for a cancelled request.
    async fn handle_message(&mut self, index: usize, message: Message) -> Result<Option<Vec<u8>>> {
        let endpoint = Arc::clone(&self.endpoint);
        let holder = self.sender.holder;
        if self.answers.iter().map(Vec::len).sum::<usize>() >= BATCH_RESPONSES_MAX {
            return Err(Error::new(
                Code::Overloaded,
                "the response of the batch is full, so this message and those after it were not run",
            )
            .with("scope", CeilingScope::Client.name()));
        }
        let properties = endpoint.router.call_properties(&message);
        let places = &self.state.in_flight;
        properties.check_size(&message)?;
        if properties.waits {
            self.slot = None;
        } else if self.slot.is_none() {
            self.slot = Some(match index {
                0 => places.take_slot(holder).await?,
                _ => places.retake_slot(holder).await?,
            });
        }
        let busy = busy_slot_for_message(places, holder, &message).await?;
        let PostSender { principal, settings, view, .. } = &self.sender;
        let context = RequestContext::from_message(&message, settings, principal.clone(), view.clone())
            .and_then(|context| {
                let has_batches = context.revision.has_batches();
                has_batches.then_some(context).ok_or_else(|| InvalidMessage::no_batches(None).into())
            });
        let context: RequestContext = match context {
            Ok(context) => context,
            Err(refusal) => return Ok(Some(refusal.response(message.id.as_ref()))),
        };
        self.endpoint.cancellable.handle_cancellation(self.sender.scope(), &message);
        let parked = message.id.clone().filter(|_| properties.waits);
        let mut parked = parked.map(|id| self.endpoint.cancellable.register(self.sender.scope(), id));
        let message = Arc::new(message);
        let answer = run_with_busy_slot(busy, endpoint.router.answer(&context, &message, &self.notifier));
        let answering = async {
            tokio::select! {
                answer = answer => answer,
                () = wait_for_cancellation(&mut parked) => None,
            }
        };
        let answer =
            if properties.waits { self.state.run_unless_closing(answering).await? } else { answering.await };
        context.principal.ensure_recorded(&endpoint.service).await?;
        let Some(answer) = answer else { return Ok(None) };
        let dead = answer.refusal.and_then(|refusal| refusal.error).map(|error| *error);
        if let Some(error) = dead.filter(|error| error.code() == Code::Unauthenticated) {
            return Err(error);
        }
        let share = self.state.unread.reserve(holder, properties.changes, answer.bytes.size(), None);
        let share = share.ok_or_else(|| self.state.unread.exhausted_error(holder))?;
        match &mut self.share {
            Some(all) => all.merge(share),
            None => self.share = Some(share),
        }
        Ok(Some(answer.bytes.into_contiguous()))
    }
}

impl BatchResponses {
    /// Returns the responses as JSON, or 202 if there are none.
    fn into_response(self) -> Response {
        let mut response = match self.array {
            Ok(Some(array)) => encode::json_response(hyper::StatusCode::OK, array),
            Ok(None) => return accepted_response(),
            Err(error) => return refusals::error_response(None, &error, true),
        };
        encode::insert_lsn_header(response.headers_mut(), self.room_lsn);
        if let Some(share) = self.share {
            response.body_mut().hold_share(share);
        }
        response
    }

    /// Returns the responses as the last event of a stream.
    fn into_event(self) -> Option<Bytes> {
        let array = self.array.unwrap_or_else(|error| Some(encode_refusal(&error, None).into()))?;
        let event = event_stream::format_event(None, None, &array);
        Some(match self.share {
            Some(share) => with_guard(event, share),
            None => event,
        })
    }
}

/// Returns the JSON-RPC error for a message that was not run.
fn encode_refusal(error: &Error, id: Option<&RequestId>) -> Vec<u8> {
    Refusal::from_error(error.clone()).response(id)
}
