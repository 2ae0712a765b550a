//! `GET /ws/subscribe`: a workspace's events as they happen.
//!
//! The client's first frame has its credential, a filter and a position to start from; then each event is
//! sent as one frame. This module has no access of its own to the events: a subscription repeats
//! [`WAIT_FOR_EVENT`], which authenticates and filters each time, and continues from the position
//! that it returned. So events come in the order of the log, without gaps or repetitions, and a client that
//! does not read delays only itself.

mod socket;
mod first_frame;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use hyper::header::{HeaderName, SEC_WEBSOCKET_VERSION};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, StatusCode, Version};
use secrecy::SecretString;
use serde::Serialize;
use serde_json::{Value, json};
use svc_core::op::{self, Admission, Takes, WaitOutput};
use svc_core::ops::{EventPage, OpenedEvent, TypedReply, WAIT_FOR_EVENT, WantedEvents};
use svc_core::{Code, Error, Result, Service};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::encode::{self, Response};
use crate::origin::Use;
use crate::phase::Phase;
use crate::shares::Share;
use crate::state::{Link, ServerState};
use crate::unread::UnreadAnswers;
use first_frame::FirstFrame;
use socket::{End, Socket};

const SCHEMA_VERSION: u32 = 1;

/// Time in which the first frame must arrive.
const FIRST_FRAME_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait of one poll, and so the time after which an ended credential is noticed at the latest.
const POLL_SECS: i64 = 10;
/// Pause before a failed poll is retried.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Responds to the handshake and spawns a task for the connection.
///
/// A credential in the handshake is checked first. Without one, the Host and the Origin must be this server's
/// own.
pub(crate) async fn upgrade(
    state: &ServerState,
    link: &Link,
    mut request: Request<Incoming>,
) -> Result<Response> {
    let head = state.head_for(link, &request, Takes::All, Use::Change).await?;
    state.check_host(&head, &request)?;
    let admission = if head.credential.is_nothing() {
        state.service.count(head.clone()).await?;
        None
    } else {
        Some(WAIT_FOR_EVENT.admit(&state.service, head.clone()).await?)
    };
    let accept = handshake(&request)?;
    let slots = (state.socket()?, Arc::clone(&link.slot));
    let upgraded = hyper::upgrade::on(&mut request);
    let client = Client {
        service: state.service.clone(),
        unread: state.unread.clone(),
        head,
        admission,
        phase: state.phase.subscribe(),
    };
    tokio::spawn(async move {
        client.serve(upgraded).await;
        drop(slots);
    });
    let mut response = encode::json(StatusCode::SWITCHING_PROTOCOLS, Default::default());
    let headers = response.headers_mut();
    headers.clear();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    Ok(response)
}

/// Returns the value of `Sec-WebSocket-Accept`, if the request is a WebSocket handshake.
fn handshake<B: Body>(request: &Request<B>) -> Result<HeaderValue> {
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

/// One subscription: what its handshake said, and what it has not read yet.
struct Client {
    service: Service,
    unread: UnreadAnswers,
    /// The head of the handshake.
    head: op::RequestHead,
    /// The admission of the handshake, if it had a credential.
    admission: Option<Admission>,
    phase: watch::Receiver<Phase>,
}

/// The share of a page in the unread bytes, held until it is sent.
type Unread = Share<svc_core::Client>;

/// The result of one poll.
struct Page {
    /// The events as encoded frames, which are smaller than the events.
    frames: Vec<String>,
    /// The position up to which the log was read.
    after_id: i64,
    /// The last position in the log.
    room_lsn: i64,
}

impl Page {
    fn of(reply: TypedReply<WaitOutput<EventPage>>) -> Result<Self> {
        let room_lsn = reply.lsn.unwrap_or(0);
        match reply.output {
            WaitOutput::Ready(page) => {
                let frames = page.events.items().iter().map(frame).collect::<Result<_>>()?;
                Ok(Self { frames, after_id: page.after_id, room_lsn })
            }
            // Nothing matched up to the end of the log, so the next poll can start there.
            WaitOutput::TimedOut(_) => Ok(Self { frames: Vec::new(), after_id: room_lsn, room_lsn }),
        }
    }

    fn bytes(&self) -> usize {
        self.frames.iter().map(String::len).sum()
    }
}

/// An event as it is sent: with the attribution at the top level as well.
#[derive(Serialize)]
struct Frame<'a> {
    #[serde(flatten)]
    event: &'a OpenedEvent,
    #[serde(skip_serializing_if = "Option::is_none")]
    attribution: Option<&'a Value>,
}

fn frame(event: &OpenedEvent) -> Result<String> {
    serde_json::to_string(&Frame { event, attribution: event.attribution() }).map_err(Error::internal)
}

impl Client {
    async fn serve(self, upgraded: OnUpgrade) {
        let Ok(upgraded) = upgraded.await else { return };
        let mut socket = Socket::open(upgraded, self.phase.clone()).await;
        if let End::Close(code, reason) = self.subscribe(&mut socket).await {
            socket.close(code, &reason).await;
        }
    }

    /// Delivers events until the connection ends, and returns why it ended.
    async fn subscribe(&self, socket: &mut Socket) -> End {
        match self.deliver(socket).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn deliver(&self, socket: &mut Socket) -> Result<std::convert::Infallible, End> {
        let text = timeout(FIRST_FRAME_TIMEOUT, socket.first_frame()).await.unwrap_or_else(|_| {
            Err(End::policy("unauthenticated: the first frame did not arrive in time"))
        })?;
        let mut frame = FirstFrame::read(&text).map_err(|error| End::refused(&error))?;
        // Counted and audited once for the whole subscription.
        let admission = self.admit(socket, frame.credential()).await?;
        let subscription = match frame.subscription() {
            Ok(subscription) => subscription,
            Err(refusal) => {
                let refused = WAIT_FOR_EVENT.refuse(&self.service, admission, refusal);
                return Err(End::refused(&socket.keep_alive_during(refused).await?));
            }
        };
        // This first read authorizes the caller and finds the end of the log. It is not retried: like a new
        // wait, a subscription that cannot begin has missed nothing, and its client may go to another server.
        let position = subscription.after_id.unwrap_or(i64::MAX);
        let first = self.read(&admission, &subscription.wanted, position, 0);
        let (mut page, mut share) =
            socket.keep_alive_during(first).await?.map_err(|error| End::refused(&error))?;
        let mut after_id = subscription.after_id.unwrap_or(page.room_lsn);
        let ack = json!({
            "type": "subscribe_ack",
            "schema_version": SCHEMA_VERSION,
            "resume_token": subscription.resume_token(after_id),
            "after_id": after_id,
            "room_lsn": page.room_lsn,
        });
        socket.send(ack.to_string()).await?;
        let follow_up = admission.follow_up();
        loop {
            for frame in page.frames {
                socket.send(frame).await?;
            }
            drop(share);
            after_id = after_id.max(page.after_id);
            (page, share) = self.poll(socket, &subscription.wanted, &follow_up, after_id).await?;
        }
    }

    /// Admits the subscription with the token of its first frame, or else that of the handshake.
    async fn admit(&self, socket: &mut Socket, token: Option<SecretString>) -> Result<Admission, End> {
        let admitted = match (token, &self.admission) {
            (Some(token), _) => {
                let head = op::RequestHead { credential: Some(token).into(), ..self.head.clone() };
                socket.keep_alive_during(WAIT_FOR_EVENT.admit(&self.service, head)).await?
            }
            (None, Some(admission)) => Ok(admission.clone()),
            (None, None) => Err(Error::new(Code::Unauthenticated, "the first frame has no token")),
        };
        admitted.map_err(|error| End::refused(&error))
    }

    /// Polls for the next events, retrying as long as the service is overloaded or unavailable.
    async fn poll(
        &self,
        socket: &mut Socket,
        wanted: &WantedEvents,
        admission: &Admission,
        after_id: i64,
    ) -> Result<(Page, Unread), End> {
        loop {
            let read = self.read(admission, wanted, after_id, POLL_SECS);
            match socket.keep_alive_during(read).await? {
                Ok(page) => return Ok(page),
                Err(error) if matches!(error.code(), Code::Overloaded | Code::Unavailable) => {
                    socket.keep_alive_during(sleep(RETRY_PAUSE)).await?;
                }
                Err(error) => return Err(End::refused(&error)),
            }
        }
    }

    /// Reads a page once there is room for it among the unread bytes.
    async fn read(
        &self,
        admission: &Admission,
        wanted: &WantedEvents,
        after_id: i64,
        timeout_secs: i64,
    ) -> Result<(Page, Unread)> {
        let client = admission.client().ok_or_else(|| Error::internal("a socket has no peer"))?;
        let again = AtomicBool::new(false);
        let read = || async {
            // The first attempt was counted and audited, so a retry is not.
            let is_again = again.swap(true, Ordering::Relaxed);
            let admission = if is_again { admission.follow_up() } else { admission.clone() };
            let input = wanted.next_after(after_id, timeout_secs)?;
            Page::of(WAIT_FOR_EVENT.ask(&self.service, admission, input).await?)
        };
        self.unread.hold(client, false, Page::bytes, read).await
    }
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
        assert_eq!(handshake(&whole).unwrap(), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        let refused = |change: fn(&mut Request<String>)| {
            let mut request = whole.clone();
            change(&mut request);
            handshake(&request).is_err_and(|error| error.code() == Code::Malformed)
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
