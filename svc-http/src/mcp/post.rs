//! Handles a single message in a POST. The response is JSON, or server-sent events if the answer is slow or
//! if notifications precede the answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use svc_core::{Code, Error, Holder, PlaceGuard, Result};
use svc_mcp_stdio::handler::CallProperties;
use svc_mcp_stdio::notifier::{Notifier, relay_notifications};
use svc_mcp_stdio::refusal::Refusal;
use svc_mcp_stdio::request_context::{RequestContext, SettingsChange};
use svc_mcp_stdio::router::{Answer, Router};
use svc_mcp_stdio::wire::{InvalidMessage, Kind, Message};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};

use super::cancellable::CancellableRequest;
use super::event_stream::{self, KEEP_ALIVE_INTERVAL, PendingAnswer};
use super::sessions::{AnswerSlot, SESSION_HEADER, Session, session_ended_error};
use super::{Endpoint, PostSender, headers, refusals};
use crate::encode::{self, Response};
use crate::limits::body::with_guard;
use crate::limits::in_flight::{BusySlot, InFlight, run_with_busy_slot};
use crate::limits::unread::{self, UnreadResponses};
use crate::phase::{Phase, wait_for_closing};
use crate::state::ServerState;

/// Time after which the response to a request becomes a stream, if the answer is not ready.
pub(super) const STREAM_AFTER: Duration = Duration::from_secs(2);

/// A POST with a single message.
pub(super) struct MessagePost<'a> {
    pub endpoint: &'a Endpoint,
    pub state: &'a ServerState,
    pub sender: &'a PostSender,
}

impl MessagePost<'_> {
    /// Answers the message. `busy` is the second slot that was held while the message was read.
    pub async fn respond(&self, message: Message, busy: Option<BusySlot>) -> Response {
        let PostSender { principal, settings, view, headers, stated, .. } = self.sender;
        let endpoint = self.endpoint;
        let id = message.id.clone();
        if message.kind != Kind::Request {
            drop(busy);
            if message.kind == Kind::Notification {
                return self.handle_notification(&message).await;
            }
            let invalid = InvalidMessage::new("this server has sent no request, so it takes no response", id);
            return endpoint.invalid_message_response(principal, &invalid).await;
        }
        let agrees = headers::check_revision(headers, stated.as_deref());
        let context = agrees
            .and_then(|()| RequestContext::from_message(&message, settings, principal.clone(), view.clone()));
        let context = context.and_then(|context| {
            let schema = || endpoint.router.input_schema(&message);
            headers::check_headers(headers, &message, &context, schema).map(|()| context)
        });
        // The second slot is released because the next step waits for the database, and the work takes its
        // own slots.
        drop(busy);
        let mut context = match context {
            Ok(context) => context,
            Err(refusal) => return endpoint.refusal_response(principal, id.as_ref(), refusal).await,
        };
        context.connection = self.sender.session.as_deref().and_then(Session::connection);
        let properties = endpoint.router.call_properties(&message);
        if let Err(error) = properties.check_size(&message) {
            let error = principal.refuse(&endpoint.service, error).await;
            return refusals::error_response(id.as_ref(), &error, true);
        }
        let context = Arc::new(context);
        let message = Arc::new(message);
        if let Some(place) = self.sender.session.as_deref().and_then(Session::take_answer_slot) {
            return match self.answer_on_session_stream(&context, &message, properties, place).await {
                Ok(()) => accepted_response(),
                Err(error) => refusals::error_response(id.as_ref(), &self.record_error(error).await, true),
            };
        }
        let make = || self.produce(&context, &message, properties);
        match self.state.unread.produce_response(self.sender.holder, properties.changes, make).await {
            Ok(response) => response,
            Err(error) => refusals::error_response(id.as_ref(), &self.record_error(error).await, true),
        }
    }

    /// Handles a notification, which has no answer.
    async fn handle_notification(&self, message: &Message) -> Response {
        let PostSender { principal, settings, view, headers, .. } = self.sender;
        let context = RequestContext::from_message(message, settings, principal.clone(), view.clone());
        // An invalid notification is ignored, but headers that do not match a notification are refused.
        if let Ok(context) = context
            && let Err(refusal) = headers::check_headers(headers, message, &context, || None)
        {
            return self.endpoint.refusal_response(principal, None, refusal).await;
        }
        if let Err(error) = principal.ensure_recorded(&self.endpoint.service).await {
            return refusals::error_response(None, &error, true);
        }
        self.endpoint.cancellable.handle_cancellation(self.sender.scope(), message);
        let mut response = accepted_response();
        encode::insert_lsn_header(response.headers_mut(), principal.room_lsn());
        response
    }

    /// Waits for the slots of a request, and returns the work that answers the request. A parked wait does
    /// not count as in flight.
    async fn prepare_work(
        &self,
        context: &Arc<RequestContext>,
        message: &Arc<Message>,
        properties: CallProperties,
    ) -> Result<AnswerWork> {
        let places = &self.state.in_flight;
        let holder = self.sender.holder;
        let slot = match properties.waits {
            true => None,
            false => Some(places.take_slot(holder).await?),
        };
        let busy = busy_slot_for_message(places, holder, message).await?;
        let stream =
            is_subscription(message).then(|| self.state.sockets.take(self.sender.holder, 1)).transpose()?;
        let parked = message.id.clone().filter(|_| properties.waits && context.revision.has_handshake());
        let parked = parked.map(|id| self.endpoint.cancellable.register(self.sender.scope(), id));
        Ok(AnswerWork {
            router: self.endpoint.router.clone(),
            context: Arc::clone(context),
            message: Arc::clone(message),
            waits: properties.waits,
            phase: self.state.phase.subscribe(),
            slot,
            busy,
            _stream: stream,
            parked,
            session: self.sender.session.clone(),
        })
    }

    /// Starts to answer a request on the stream of its session.
    async fn answer_on_session_stream(
        &self,
        context: &Arc<RequestContext>,
        message: &Arc<Message>,
        properties: CallProperties,
        slot: Result<AnswerSlot>,
    ) -> Result<()> {
        let (Some(session), slot) = (self.sender.session.clone(), slot?) else { return Ok(()) };
        let unread = self.state.unread.clone();
        let holder = self.sender.holder;
        // The server does no more work for a client with too many unread bytes.
        unread.wait_below_quota(holder, Instant::now() + unread::TIMEOUT).await?;
        let work = self.prepare_work(context, message, properties).await?;
        tokio::spawn(async move {
            let (notifier, said) = Notifier::new();
            let AnswerSlot { answers, permit } = slot;
            let answer = relay_notifications(work.run(notifier), said, &answers).await;
            let Some(answer) = answer else { return };
            if let Some(agreement) = answer.settings_change {
                session.apply_change(agreement);
            }
            let bytes = count_as_unread(answer.bytes.into_contiguous().into(), &unread, holder);
            // Sending fails if the client has disconnected.
            let _ = answers.send(with_guard(bytes, permit)).await;
        });
        Ok(())
    }

    /// Produces the response to a request: JSON, or a stream if the answer is slow.
    async fn produce(
        &self,
        context: &Arc<RequestContext>,
        message: &Arc<Message>,
        properties: CallProperties,
    ) -> Result<Response> {
        let work = self.prepare_work(context, message, properties).await?;
        let streams = self.sender.accepts_events;
        let (notifier, mut said) = if streams && accepts_notifications(context, message) {
            let (notifier, said) = Notifier::new();
            (notifier, Some(said))
        } else {
            (Notifier::closed(), None)
        };
        let mut answering = Box::pin(work.run(notifier));
        let first = tokio::select! {
            biased;
            answer = &mut answering => return self.quick_response(context, answer, said).await,
            Some(notification) = event_stream::next_notification(&mut said) => Some(notification),
            () = sleep(STREAM_AFTER), if streams => None,
        };
        if !streams {
            return self.json_response(context, answering.await).await;
        }
        let unread = self.state.unread.clone();
        let holder = self.sender.holder;
        let answer =
            Box::pin(async move { answering.await.map(|answer| answer_event(answer, &unread, holder)) });
        let events = event_stream::events_until_answer(
            PendingAnswer { answer, notifications: said },
            first,
            KEEP_ALIVE_INTERVAL,
        );
        Ok(self.endpoint.stream_response(&context.principal, events).await)
    }

    /// Returns the response for a quick answer: events if notifications precede the answer, otherwise JSON.
    async fn quick_response(
        &self,
        context: &RequestContext,
        answer: Option<Answer>,
        mut said: Option<mpsc::Receiver<Bytes>>,
    ) -> Result<Response> {
        let (answer, first) = match (answer, event_stream::try_next_notification(&mut said)) {
            (Some(answer), Some(first)) => (answer, first),
            (answer, _) => return self.json_response(context, answer).await,
        };
        let event = answer_event(answer, &self.state.unread, self.sender.holder);
        let pending =
            PendingAnswer { answer: Box::pin(std::future::ready(Some(event))), notifications: said };
        let events = event_stream::events_until_answer(pending, Some(first), KEEP_ALIVE_INTERVAL);
        Ok(self.endpoint.stream_response(&context.principal, events).await)
    }

    async fn json_response(&self, context: &RequestContext, answer: Option<Answer>) -> Result<Response> {
        // The response to a cancelled request is 202 without an answer.
        let Some(mut answer) = answer else { return Ok(accepted_response()) };
        context.principal.ensure_recorded(&self.endpoint.service).await?;
        let session = match (answer.settings_change.take(), &self.sender.session) {
            (Some(agreement), Some(session)) => {
                session.apply_change(agreement);
                None
            }
            (Some(SettingsChange::Handshake(settings)), None)
                if self.sender.can_begin_session && settings.revision.has_sessions() =>
            {
                Some(self.endpoint.sessions.begin(self.sender.owner(), settings)?)
            }
            _ => None,
        };
        let mut response = refusals::answer_response(answer, context.revision);
        if let Some(id) = session.and_then(|session| HeaderValue::from_str(&session.id).ok()) {
            response.headers_mut().insert(SESSION_HEADER, id);
        }
        encode::insert_lsn_header(response.headers_mut(), context.principal.room_lsn());
        Ok(response)
    }

    /// Returns the error to send, after making sure that the core has counted the request.
    async fn record_error(&self, error: Error) -> Error {
        let principal = &self.sender.principal;
        if principal.is_unrecorded() { principal.refuse(&self.endpoint.service, error).await } else { error }
    }
}

/// Returns 202, the response to messages that have no answer.
pub(super) fn accepted_response() -> Response {
    let mut response = encode::json_response(StatusCode::ACCEPTED, Bytes::new());
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

/// Returns an answer as a server-sent event, and counts the event as unread until it is sent.
fn answer_event(answer: Answer, unread: &UnreadResponses, holder: Holder) -> Bytes {
    count_as_unread(event_stream::format_event(None, None, &answer.bytes.into_contiguous()), unread, holder)
}

/// Counts bytes as unread until the bytes are sent.
fn count_as_unread(bytes: Bytes, unread: &UnreadResponses, holder: Holder) -> Bytes {
    match unread.reserve(holder, true, bytes.len(), None) {
        Some(share) => with_guard(bytes, share),
        None => bytes,
    }
}

/// Returns whether notifications may be sent to the client before the answer to this request.
///
/// Before revision 2026-07-28 log messages may be sent even if the client has not requested them.
fn accepts_notifications(context: &RequestContext, message: &Message) -> bool {
    let logs = context.revision.has_handshake() || context.log_level.is_some();
    logs || context.progress.is_some() || is_subscription(message)
}

/// Waits for a second slot if handling the message occupies a thread. Otherwise returns `None`.
///
/// A message occupies a thread if it is large, or if its method reads whole pages or threads to select from
/// them.
pub(super) async fn busy_slot_for_message(
    places: &InFlight,
    holder: Holder,
    message: &Message,
) -> Result<Option<BusySlot>> {
    match message.method.as_str() {
        "completion/complete" | "prompts/get" | "resources/list" | "resources/read" => {
            places.take_busy_slot(holder).await.map(Some)
        }
        _ => places.busy_slot_for_body(holder, message.size).await,
    }
}

/// Returns whether a message subscribes to changes until its client disconnects.
fn is_subscription(message: &Message) -> bool {
    message.method == "subscriptions/listen"
}

/// A request with all data for answering it, even after the connection has ended.
struct AnswerWork {
    router: Router,
    context: Arc<RequestContext>,
    message: Arc<Message>,
    waits: bool,
    phase: watch::Receiver<Phase>,
    slot: Option<PlaceGuard>,
    /// Second slot of the request, if it occupies a thread.
    busy: Option<BusySlot>,
    /// Slot in the limit on event streams, if the request subscribes to changes.
    _stream: Option<PlaceGuard>,
    parked: Option<CancellableRequest>,
    /// Session that the request keeps in use.
    session: Option<Arc<Session>>,
}

impl AnswerWork {
    /// Answers the request, or returns `None` if its client has cancelled it.
    async fn run(mut self, notifier: Notifier) -> Option<Answer> {
        let answer =
            run_with_busy_slot(self.busy.take(), self.router.answer(&self.context, &self.message, &notifier));
        let answer = tokio::select! {
            answer = answer => answer,
            () = wait_for_closing(&mut self.phase), if self.waits => {
                Some(answer_at_shutdown(&self.router, &self.context, &self.message).await)
            }
            () = wait_for_cancellation(&mut self.parked) => None,
            () = wait_for_session_end(self.session.as_deref()), if self.waits => {
                let id = self.message.id.as_ref();
                Some(self.router.refuse(&self.context, id, session_ended_error().into()).await)
            }
        };
        drop(self.slot);
        answer
    }
}

/// Returns the answer to a wait that ends because the server shuts down.
async fn answer_at_shutdown(router: &Router, context: &RequestContext, message: &Message) -> Answer {
    let id = message.id.as_ref();
    match id.filter(|_| is_subscription(message)) {
        Some(id) => router.subscription_end_answer(context, id),
        None => {
            let refusal = Refusal::from_error(Error::new(Code::Closing, "the server is shutting down"));
            router.refuse(context, id, refusal).await
        }
    }
}

async fn wait_for_session_end(session: Option<&Session>) {
    match session {
        Some(session) => session.wait_until_ended().await,
        None => std::future::pending().await,
    }
}

pub(super) async fn wait_for_cancellation(parked: &mut Option<CancellableRequest>) {
    match parked {
        Some(parked) => parked.wait_for_cancellation().await,
        None => std::future::pending().await,
    }
}
