//! Serves `GET /mcp/stream`: sends the events of a workspace as server-sent events when they happen.
//!
//! The data of each server-sent event equals a WebSocket frame byte for byte, and the id is the position of
//! the event in the log. A client cannot send frames on this stream: to continue, the client connects again
//! with `Last-Event-ID`.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName};
use hyper::{Method, Request};
use svc_core::api::WaitForEvent;
use svc_core::op::{AcceptedCredentials, Surface};
use svc_core::ops::{EventBatch, StreamQuery};
use svc_core::{Code, Error, Holder, PlaceGuard, Result};
use tokio::sync::watch;
use tokio::time::Instant;

use super::event_stream::{self, COMMENT, KEEP_ALIVE_INTERVAL};
use crate::decode;
use crate::delivery::{BATCH_BOUNDS, Frame, FrameDelivery, must_refetch_frame};
use crate::encode::{self, Response};
use crate::limits::unread::{self, UnreadResponses};
use crate::origin::CookieUse;
use crate::phase::{Phase, wait_for_closing};
use crate::state::{PeerLink, ServerState, UnverifiedRequest};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Handles a request for the event stream of a workspace.
pub(crate) async fn handle(
    state: &ServerState,
    link: &PeerLink,
    request: &Request<Incoming>,
    unverified: &mut UnverifiedRequest,
) -> Result<Response> {
    state.hosts.check_origin(request.headers())?;
    let head =
        state.request_head_for(link, request, AcceptedCredentials::Authorization, CookieUse::Change).await?;
    state.check_host(&head, request)?;
    let peer = state.peer(link, request.headers());
    let admission =
        state.service.admit_for::<WaitForEvent>(svc_core::op::RequestHead { surface: Surface::Mcp, ..head });
    let admission = admission.await?;
    unverified.release_slot(admission.limit_states());
    let holder = admission.holder().unwrap_or(Holder::at(peer));
    let context = requested_subscription(request)
        .and_then(|subscription| Ok((subscription, state.sockets.take(holder, 1)?)));
    let (subscription, slot) = match context {
        Ok(context) => context,
        Err(refusal) => return Err(state.service.refuse_for::<WaitForEvent>(admission, refusal).await),
    };
    if request.method() == Method::HEAD {
        return Ok(event_stream::event_stream_response(stream::empty()));
    }
    let begun = match state.service.subscribe(admission, subscription).await {
        Ok(begun) => begun,
        // The server sends this error as a frame, because the script of a page can read frames but not the
        // status of a response.
        Err(error) if error.code() == Code::MustRefetch => {
            let told = event_stream::format_event(None, None, &must_refetch_frame(&error)?);
            return Ok(event_stream::event_stream_response(stream::iter([told])));
        }
        Err(error) => return Err(error),
    };
    let room_lsn = begun.room_lsn;
    let (delivery, frames) = FrameDelivery::begin(begun, false)?;
    let following = EventSubscription {
        delivery,
        ready: frames.into_iter().map(frame_event).collect(),
        share: None,
        reserved: None,
        has_ended: false,
        unread: state.unread.clone(),
        holder,
        phase: state.phase.subscribe(),
        _slot: slot,
    };
    let mut response = event_stream::event_stream_response(following.events());
    encode::insert_lsn_header(response.headers_mut(), Some(room_lsn));
    Ok(response)
}

fn requested_subscription(request: &Request<Incoming>) -> Result<svc_core::ops::Subscription> {
    let mut fields = decode::TextFields::new();
    decode::append_query_fields(request.uri().query(), &mut fields)?;
    StreamQuery::read(fields)?.subscription(last_event_id(request.headers())?)
}

/// Returns the position in the header `Last-Event-ID`, or `None` if the header is absent or empty.
pub(super) fn last_event_id(headers: &HeaderMap) -> Result<Option<i64>> {
    let Some(value) = headers.get(LAST_EVENT_ID).filter(|value| !value.is_empty()) else { return Ok(None) };
    let position = value.to_str().ok().and_then(|text| text.parse().ok()).filter(|position| *position >= 0);
    position.map(Some).ok_or_else(|| Error::malformed("Last-Event-ID must be the id of an event, a number"))
}

fn frame_event(frame: Frame) -> Bytes {
    let id = frame.lsn.map(|lsn| lsn.to_string());
    event_stream::format_event(None, id.as_deref(), &frame.text)
}

/// A subscription, and the events that are not sent yet.
struct EventSubscription {
    delivery: FrameDelivery,
    ready: VecDeque<Bytes>,
    /// Share of the unread bytes that the bytes in `ready` occupy.
    share: Option<PlaceGuard>,
    /// Share of the unread bytes that is reserved for the next events.
    reserved: Option<PlaceGuard>,
    has_ended: bool,
    unread: UnreadResponses,
    holder: Holder,
    phase: watch::Receiver<Phase>,
    _slot: PlaceGuard,
}

impl EventSubscription {
    fn events(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, |mut following| async move {
            let event = following.next().await?;
            Some((event, following))
        })
    }

    /// Returns the next bytes of the stream, or `None` at its end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            self.share = None;
            if self.has_ended {
                return None;
            }
            let wait = self.delivery.next_poll_wait().min(KEEP_ALIVE_INTERVAL);
            let batch = tokio::select! {
                batch = self.delivery.subscriber.next(BATCH_BOUNDS, wait) => batch,
                () = wait_for_closing(&mut self.phase) => return None,
            };
            match batch {
                Ok(batch) if batch.frames.is_empty() => {
                    self.add_frames(batch);
                    if self.ready.is_empty() {
                        return Some(COMMENT);
                    }
                }
                Ok(batch) => self.add_or_put_back(batch).await,
                Err(error) => self.end(&error),
            }
        }
    }

    /// Adds the frames of a batch if their bytes fit under the limits on unread bytes. Otherwise puts the
    /// batch back for the next read, and waits until the bytes fit.
    async fn add_or_put_back(&mut self, batch: EventBatch) {
        let size = batch.size();
        let is_reserved = self.reserved.is_some();
        match self.unread.reserve(self.holder, is_reserved, size, self.reserved.take()) {
            Some(share) => {
                self.share = Some(share);
                self.add_frames(batch);
            }
            None => {
                drop(batch);
                self.delivery.subscriber.put_back_batch();
                match self.unread.wait_and_reserve(self.holder, size, Instant::now() + unread::TIMEOUT).await
                {
                    Ok(share) => self.reserved = Some(share),
                    Err(_) => self.has_ended = true,
                }
            }
        }
    }

    fn add_frames(&mut self, batch: EventBatch) {
        match self.delivery.frames_for(batch) {
            Ok(frames) => self.ready.extend(frames.into_iter().map(frame_event)),
            Err(_) => self.has_ended = true,
        }
        // The client cannot send a position on this stream, so the client must connect again.
        self.has_ended |= self.delivery.has_sent_truncated();
    }

    /// Ends the stream, with the frame `must_refetch` if the client's position is no longer in the log.
    fn end(&mut self, error: &Error) {
        self.has_ended = true;
        if error.code() == Code::MustRefetch
            && let Ok(text) = must_refetch_frame(error)
        {
            self.ready.push_back(frame_event(Frame { lsn: None, text }));
        }
    }
}
