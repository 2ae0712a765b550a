//! Serves `GET /ws/subscribe`: sends the events of a workspace over a WebSocket when they happen.
//!
//! The client's first frame contains a credential, a filter and a start position. After that the server sends
//! each event as one frame. This module only does the framing: a subscriber of the core returns the next
//! events in the order of the log, without gaps or repetitions. A client that does not read delays only its
//! own events.

mod socket;

use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, COOKIE, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use hyper::header::{HeaderName, SEC_WEBSOCKET_VERSION};
use hyper::upgrade::OnUpgrade;
use hyper::{HeaderMap, Method, Request, StatusCode, Version};
use secrecy::SecretString;
use svc_core::api::WaitForEvent;
use svc_core::op::{self, AcceptedCredentials, Admission, SESSION_COOKIE};
use svc_core::ops::{EventBatch, FirstFrame, StartRequest};
use svc_core::{Ceiling, Code, Error, Holder, PlaceGuard, Result, Service};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::delivery::{BATCH_BOUNDS, Frame, FrameDelivery, must_refetch_frame};
use crate::encode::{self, Response};
use crate::limits::unread::{self, UnreadResponses};
use crate::origin::CookieUse;
use crate::phase::Phase;
use crate::state::{PeerLink, ServerState};
use socket::{ConnectionEnd, Socket};

/// Maximum time from the handshake until the client has sent its first frame.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_secs(10);

/// Responds to the handshake and spawns a task for the connection.
///
/// A credential in the handshake is checked first. Without a credential, the Host must be this server, and
/// the Origin must be allowed to send a token. If a page of another site sends a session cookie, the server
/// refuses the subscription with a close frame, since a page cannot read the status of the handshake.
pub(crate) async fn upgrade(
    state: &ServerState,
    link: &PeerLink,
    mut request: Request<Incoming>,
) -> Result<Response> {
    let head = state.request_head_for(link, &request, AcceptedCredentials::All, CookieUse::Change).await?;
    // A token may follow in the first frame.
    let checked = match head.credential.is_nothing() {
        true => state.hosts.check_before_token(request.uri(), request.headers()),
        false => Ok(()),
    };
    let is_cross_site = match checked {
        Err(_) if has_session_cookie(request.headers()) => true,
        checked => checked.map(|()| false)?,
    };
    let admission = if head.credential.is_nothing() {
        state.service.count(head.clone()).await?;
        None
    } else {
        Some(state.service.admit_for::<WaitForEvent>(head.clone()).await?)
    };
    // A WebSocket needs a slot in the limit on WebSockets only once its credential is admitted.
    let peer = Holder::at(state.peer(link, request.headers()));
    let place = || match &admission {
        Some(admission) => state.sockets.take(admission.holder().unwrap_or(peer), 1),
        // If all slots are taken, no credential would be admitted.
        None if state.sockets.is_full() => Err(state.sockets.exhausted(peer, 1)),
        None => state.handshakes.take(peer, 1),
    };
    let ready = check_handshake(&request).and_then(|accept| Ok((accept, place()?)));
    let (accept, place) = match (ready, admission.clone()) {
        (Ok(ready), _) => ready,
        (Err(refusal), None) => return Err(refusal),
        (Err(refusal), Some(admission)) => {
            return Err(state.service.refuse_for::<WaitForEvent>(admission, refusal).await);
        }
    };
    let room_lsn = match &admission {
        Some(admission) => room_lsn(&state.service, admission).await,
        None => None,
    };
    let slot = Arc::clone(&link.slot);
    let upgraded = hyper::upgrade::on(&mut request);
    let client = SocketClient {
        service: state.service.clone(),
        unread: state.unread.clone(),
        head,
        admission,
        is_cross_site,
        phase: state.phase.subscribe(),
        sockets: state.sockets.clone(),
        place,
    };
    tokio::spawn(async move {
        client.serve(upgraded).await;
        drop(slot);
    });
    let mut response = encode::json_response(StatusCode::SWITCHING_PROTOCOLS, Default::default());
    let headers = response.headers_mut();
    headers.clear();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    encode::insert_lsn_header(headers, room_lsn);
    Ok(response)
}

/// Returns the last position in the log of the caller's workspace, for the handshake response.
///
/// Returns `None` if the core refuses the credential, for example because it identifies no member.
async fn room_lsn(service: &Service, admission: &Admission) -> Option<i64> {
    let asking = admission.follow_up().without_operation();
    service.bearer(asking).await.ok().and_then(|reply| reply.lsn)
}

/// Checks that the request is a WebSocket handshake, and returns the value of `Sec-WebSocket-Accept`.
fn check_handshake<B: Body>(request: &Request<B>) -> Result<HeaderValue> {
    let headers = request.headers();
    let is_http1_get = request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && request.body().is_end_stream();
    let has = |name: HeaderName, wanted: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case(wanted))
    };
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|_| {
        is_http1_get
            && has(CONNECTION, "upgrade")
            && has(UPGRADE, "websocket")
            && has(SEC_WEBSOCKET_VERSION, "13")
    });
    let key = key.ok_or_else(|| {
        Error::malformed("this route accepts only WebSocket handshakes (RFC 6455, version 13, over HTTP/1.1)")
    })?;
    HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(Error::internal)
}

/// Returns whether a request has a session cookie, valid or not.
fn has_session_cookie(headers: &HeaderMap) -> bool {
    let values = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut names = values.flat_map(|value| value.split(';')).filter_map(|cookie| cookie.split('=').next());
    names.any(|name| name.trim() == SESSION_COOKIE)
}

/// State of one WebSocket client: the handshake, the limits and the slot.
struct SocketClient {
    service: Service,
    unread: UnreadResponses,
    /// Head of the handshake request.
    head: op::RequestHead,
    /// Admission of the handshake; `None` if the handshake had no credential.
    admission: Option<Admission>,
    /// Whether a page of another site has sent the handshake with a session cookie, which is then not
    /// accepted.
    is_cross_site: bool,
    phase: watch::Receiver<Phase>,
    sockets: Ceiling,
    /// Slot in the limit on WebSockets, or in the limit on handshakes until a credential is admitted.
    place: PlaceGuard,
}

/// Share of the unread bytes that a batch of events holds until it is sent.
type UnreadShare = PlaceGuard;

impl SocketClient {
    async fn serve(mut self, upgraded: OnUpgrade) {
        let Ok(upgraded) = upgraded.await else { return };
        let mut socket = Socket::open(upgraded, self.phase.clone()).await;
        if let ConnectionEnd::Close(code, reason) = self.subscribe(&mut socket).await {
            socket.close(code, &reason).await;
        }
    }

    /// Delivers events until the connection ends, and returns the reason for the end.
    async fn subscribe(&mut self, socket: &mut Socket) -> ConnectionEnd {
        match self.deliver_events(socket).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn deliver_events(
        &mut self,
        socket: &mut Socket,
    ) -> Result<std::convert::Infallible, ConnectionEnd> {
        let mut frame = self.read_first_frame(socket).await?;
        // The whole subscription is counted and audited once.
        let admission = self.admit(socket, frame.credential()).await?;
        let holder = admission
            .holder()
            .ok_or_else(|| ConnectionEnd::from_error(&Error::internal("a socket has no peer")))?;
        if self.admission.is_none() {
            match self.sockets.take(holder, 1) {
                Ok(place) => self.place = place,
                Err(refusal) => {
                    let refused = self.service.refuse_for::<WaitForEvent>(admission, refusal);
                    return Err(ConnectionEnd::from_error(&socket.keep_alive_during(refused).await?));
                }
            }
        }
        let StartRequest { subscription, positions } = match frame.start_request() {
            Ok(asked) => asked,
            Err(refusal) => {
                let refused = self.service.refuse_for::<WaitForEvent>(admission, refusal);
                return Err(ConnectionEnd::from_error(&socket.keep_alive_during(refused).await?));
            }
        };
        // A failure at this point is not retried: a subscription that cannot begin has missed no events, and
        // the client may connect to another server.
        let begun = socket.keep_alive_during(self.service.subscribe(admission, subscription)).await?;
        let begun = match begun {
            Ok(begun) => begun,
            Err(error) => return Err(end_subscription(socket, &error).await?),
        };
        let (mut delivery, frames) =
            FrameDelivery::begin(begun, positions).map_err(|error| ConnectionEnd::from_error(&error))?;
        send_frames(socket, frames).await?;
        loop {
            delivery
                .apply_requests(socket.take_requests())
                .map_err(|error| ConnectionEnd::from_error(&error))?;
            match self.next_batch(socket, &mut delivery, holder).await? {
                None => {}
                Some(Ok((batch, share))) => {
                    let frames =
                        delivery.frames_for(batch).map_err(|error| ConnectionEnd::from_error(&error))?;
                    send_frames(socket, frames).await?;
                    drop(share);
                }
                Some(Err(error)) => return Err(end_subscription(socket, &error).await?),
            }
        }
    }

    /// Reads the first frame. On failure, records an admitted handshake as a refused request.
    async fn read_first_frame(&self, socket: &mut Socket) -> Result<FirstFrame, ConnectionEnd> {
        let late = || Error::new(Code::Unauthenticated, "the first frame did not arrive in time");
        let (refusal, end) = match timeout(FIRST_FRAME_TIMEOUT, socket.read_first_frame()).await {
            Ok(Ok(text)) => match FirstFrame::read(&text) {
                Ok(frame) => return Ok(frame),
                Err(refusal) => (refusal, None),
            },
            Ok(Err(end)) => (Error::malformed("there is no first frame"), Some(end)),
            Err(_) => (late(), None),
        };
        let refusal = match self.admission.clone() {
            Some(admission) => self.service.refuse_for::<WaitForEvent>(admission, refusal).await,
            None => refusal,
        };
        Err(end.unwrap_or_else(|| ConnectionEnd::from_error(&refusal)))
    }

    /// Returns the next batch of events once there is room for it among the unread bytes.
    ///
    /// Returns `None` if the client sends a text frame before a batch is available.
    async fn next_batch(
        &self,
        socket: &mut Socket,
        delivery: &mut FrameDelivery,
        holder: Holder,
    ) -> Result<Option<Result<(EventBatch, UnreadShare)>>, ConnectionEnd> {
        let wait = delivery.next_poll_wait();
        let subscriber = &mut delivery.subscriber;
        let batch = match socket.keep_alive_until_frame(subscriber.next(BATCH_BOUNDS, wait)).await? {
            Some(Ok(batch)) => batch,
            Some(Err(error)) => return Ok(Some(Err(error))),
            None => return Ok(None),
        };
        let size = batch.size();
        if let Some(share) = self.unread.reserve(holder, false, size, None) {
            return Ok(Some(Ok((batch, share))));
        }
        // The batch is read again once there is room.
        drop(batch);
        subscriber.put_back_batch();
        let deadline = Instant::now() + unread::TIMEOUT;
        let kept = socket.keep_alive_during(self.unread.wait_and_reserve(holder, size, deadline)).await?;
        let kept = match kept {
            Ok(kept) => kept,
            Err(error) => return Ok(Some(Err(error))),
        };
        match socket.keep_alive_during(subscriber.next(BATCH_BOUNDS, wait)).await? {
            Ok(batch) => {
                let size = batch.size();
                let share = self
                    .unread
                    .reserve(holder, true, size, Some(kept))
                    .ok_or_else(|| self.unread.exhausted_error(holder));
                Ok(Some(share.map(|share| (batch, share))))
            }
            Err(error) => Ok(Some(Err(error))),
        }
    }

    /// Admits the subscription with the token in the first frame, or else with the credential of the
    /// handshake.
    ///
    /// If the handshake also has a session cookie, the token and the session must be of the same member, as
    /// for any request.
    async fn admit(
        &self,
        socket: &mut Socket,
        token: Option<SecretString>,
    ) -> Result<Admission, ConnectionEnd> {
        let admitted = match (token, &self.admission) {
            _ if self.is_cross_site => Err(Error::new(
                Code::Unauthenticated,
                "a session cookie is accepted only from a page of this service",
            )),
            (Some(token), _) => {
                let credential = self.head.credential.with_token(token);
                let head = op::RequestHead { credential, ..self.head.clone() };
                socket.keep_alive_during(self.service.admit_for::<WaitForEvent>(head)).await?
            }
            (None, Some(admission)) => Ok(admission.clone()),
            (None, None) => Err(Error::new(Code::Unauthenticated, "the first frame has no token")),
        };
        admitted.map_err(|error| ConnectionEnd::from_error(&error))
    }
}

async fn send_frames(socket: &mut Socket, frames: Vec<Frame>) -> Result<(), ConnectionEnd> {
    for frame in frames {
        socket.send(frame.text).await?;
    }
    Ok(())
}

/// Returns the reason for the end of a subscription. If the log no longer contains the subscription's
/// position, first sends `must_refetch`.
async fn end_subscription(socket: &mut Socket, error: &Error) -> Result<ConnectionEnd, ConnectionEnd> {
    if error.code() == Code::MustRefetch {
        socket.send(must_refetch_frame(error).map_err(|error| ConnectionEnd::from_error(&error))?).await?;
    }
    Ok(ConnectionEnd::from_error(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_handshake_is_accepted() {
        let mut whole = Request::new(String::new());
        let headers = whole.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="));
        assert_eq!(check_handshake(&whole).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let refused = |change: fn(&mut Request<String>)| {
            let mut request = whole.clone();
            change(&mut request);
            check_handshake(&request).is_err_and(|error| error.code() == Code::Malformed)
        };
        assert!(refused(|request| drop(request.headers_mut().remove(SEC_WEBSOCKET_KEY))));
        assert!(refused(|request| {
            request.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("8"));
        }));
        assert!(refused(|request| *request.method_mut() = Method::HEAD));
        assert!(refused(|request| *request.version_mut() = Version::HTTP_10));
        assert!(refused(|request| *request.body_mut() = "a frame".into()));
    }
}
