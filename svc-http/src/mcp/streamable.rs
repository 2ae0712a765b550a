//! Handles GET and DELETE of `/mcp/streamable`, and GET of `/mcp/notifications`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use svc_core::{Code, Error, Holder, Peer, Result, Service};
use svc_mcp_stdio::refusal::{Fault, Refusal};
use svc_mcp_stdio::revision::Revision;
use svc_mcp_stdio::tool_filter::ToolFilter;
use svc_mcp_stdio::{NotificationPart, Principal};
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::event_stream::{COMMENT, KEEP_ALIVE_INTERVAL};
use super::sessions::{Session, SessionOwner};
use super::stream::last_event_id;
use super::{Endpoint, event_stream, headers, query_fields, refusals, sessions, tool_selection};
use crate::encode::{self, Response};
use crate::phase::wait_for_closing;
use crate::state::{PeerLink, ServerState, UnverifiedRequest};

/// Interval at which the server checks the credential of a session's stream. So the stream ends within ten
/// seconds after the credential has ended.
const CREDENTIAL_CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl Endpoint {
    /// Handles a GET of `/mcp/streamable`, and returns a stream of answers or of notifications.
    ///
    /// A client that sends neither a session id nor a revision uses the original HTTP transport with
    /// server-sent events: the stream begins a session and contains the answers to the client's messages.
    pub async fn open_stream(
        &self,
        state: &ServerState,
        link: &PeerLink,
        request: Request<Incoming>,
        unverified: &mut UnverifiedRequest,
    ) -> Response {
        let peer = state.peer(link, request.headers());
        let (has_token, head) = bearer_and_head(request);
        let opened = async {
            let principal = self.admit_head(state, link, &head, unverified).await?;
            let session = match sessions::session_id(&head.headers, &[]).transpose() {
                None => None,
                Some(id) => match id.and_then(|id| self.sessions.find(&id, principal.credential_hash())) {
                    Ok(session) => Some(session),
                    Err(refusal) => return Err(principal.refuse(&self.service, refusal).await),
                },
            };
            if session.is_some() || head.headers.contains_key(&headers::VERSION_HEADER) {
                return self.notification_stream(state, (&principal, peer), &head, session).await;
            }
            let chosen = query_fields(&head.uri)
                .and_then(|fields| tool_selection::parse_tool_choice(&head.headers, &fields))
                .and_then(|choice| {
                    ToolFilter::chosen(self.service.table(), &choice).map_err(Refusal::params)
                });
            if let Err(refusal) = chosen {
                return Ok(self.refusal_response(&principal, None, refusal).await);
            }
            let context = head.uri.query().map(|query| format!("&{query}")).unwrap_or_default();
            let own = state.url_reference(head.uri.path());
            let address = |id: &str| format!("{own}?sessionId={id}{context}");
            let holder = principal.holder().unwrap_or(Holder::at(peer));
            let owner = SessionOwner { credential_hash: principal.credential_hash(), holder };
            let closing = match hold_slot_until_closing(state, holder) {
                Ok(closing) => closing,
                Err(refusal) => return Err(principal.refuse(&self.service, refusal).await),
            };
            let dead = wait_for_credential_end(self.service.clone(), principal.clone());
            let until = async {
                futures_util::future::select(Box::pin(closing), Box::pin(dead)).await;
            };
            let begun = match self.sessions.begin_stream(owner, address, until) {
                Ok(begun) => begun,
                Err(refusal) => return Err(principal.refuse(&self.service, refusal).await),
            };
            Ok(self.stream_response(&principal, begun).await)
        };
        opened.await.unwrap_or_else(|error: Error| refusals::error_response(None, &error, has_token))
    }

    /// Handles a GET of `/mcp/notifications`, and returns a stream of notifications.
    pub async fn open_notification_stream(
        &self,
        state: &ServerState,
        link: &PeerLink,
        request: Request<Incoming>,
        unverified: &mut UnverifiedRequest,
    ) -> Response {
        let peer = state.peer(link, request.headers());
        let (has_token, head) = bearer_and_head(request);
        let opened = async {
            let principal = self.admit_head(state, link, &head, unverified).await?;
            self.notification_stream(state, (&principal, peer), &head, None).await
        };
        opened.await.unwrap_or_else(|error| refusals::error_response(None, &error, has_token))
    }

    /// Returns the stream of notifications for the resources in the query and for the resources that the
    /// token is subscribed to.
    ///
    /// The stream keeps its session in use, and ends when the session ends.
    async fn notification_stream(
        &self,
        state: &ServerState,
        (principal, peer): (&Principal, Peer),
        head: &Parts,
        session: Option<Arc<Session>>,
    ) -> Result<Response> {
        let context = query_fields(&head.uri)
            .and_then(|fields| Ok((fields, headers::requested_revision(&head.headers)?)));
        let (fields, revision) = match context {
            Ok(context) => context,
            Err(refusal) => return Ok(self.refusal_response(principal, None, refusal).await),
        };
        let holder = principal.holder().unwrap_or(Holder::at(peer));
        let context = last_event_id(&head.headers)
            .and_then(|after| Ok((after, hold_slot_until_closing(state, holder)?)));
        let (after, closing) = match context {
            Ok(context) => context,
            Err(error) => return Err(principal.refuse(&self.service, error).await),
        };
        let uris = fields.into_iter().filter(|(name, _)| name == "uri").map(|(_, uri)| uri).collect();
        let told = svc_mcp_stdio::notifications(&self.service, principal, revision, uris, after).await;
        let told = match told {
            Ok(told) => told,
            Err(refusal) => return Err(principal.refuse(&self.service, error_from_refusal(&refusal)).await),
        };
        let open = told.take_until(Box::pin(closing));
        let events = with_keep_alive(open, KEEP_ALIVE_INTERVAL);
        let Some(session) = session else { return Ok(self.stream_response(principal, events).await) };
        let over = Box::pin(session.wait_until_ended());
        let events = events.inspect(move |_| session.touch()).take_until(over);
        Ok(self.stream_response(principal, events).await)
    }

    /// Returns the response that sends a stream, with the last position in the log in a header.
    pub(super) async fn stream_response(
        &self,
        principal: &Principal,
        events: impl Stream<Item = Bytes> + Send + 'static,
    ) -> Response {
        let mut response = event_stream::event_stream_response(events);
        encode::insert_lsn_header(response.headers_mut(), principal.query_room_lsn(&self.service).await);
        response
    }

    /// Handles a DELETE of `/mcp/streamable`, which ends a session.
    pub async fn end_session(
        &self,
        state: &ServerState,
        link: &PeerLink,
        request: Request<Incoming>,
        unverified: &mut UnverifiedRequest,
    ) -> Response {
        let (has_token, head) = bearer_and_head(request);
        let ended = async {
            let principal = self.admit_head(state, link, &head, unverified).await?;
            // Later revisions have no sessions, even if a client sends a session id.
            let has_none = head.headers.contains_key(&headers::VERSION_HEADER)
                && !headers::requested_revision(&head.headers).is_ok_and(Revision::has_sessions);
            let session = match sessions::session_id(&head.headers, &[]) {
                Err(refusal) => Err(refusal),
                Ok(Some(id)) if !has_none => self.sessions.find(&id, principal.credential_hash()),
                Ok(_) => Err(Error::new(Code::MethodNotAllowed, "there is no session to end")),
            };
            match session {
                Ok(session) => self.sessions.end(&session),
                Err(refusal) => return Err(principal.refuse(&self.service, refusal).await),
            }
            Ok(encode::empty_response(StatusCode::NO_CONTENT))
        };
        let ended: Result<Response> = ended.await;
        ended.unwrap_or_else(|error| {
            let mut response = refusals::error_response(None, &error, has_token);
            if error.code() == Code::MethodNotAllowed {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET"));
            }
            response
        })
    }

    /// Admits a request whose body is ignored.
    async fn admit_head(
        &self,
        state: &ServerState,
        link: &PeerLink,
        head: &Parts,
        unverified: &mut UnverifiedRequest,
    ) -> Result<Principal> {
        let peer = state.peer(link, &head.headers);
        match self.admit(state, head, peer).await {
            Ok(principal) => {
                unverified.release_slot(principal.limit_states());
                Ok(principal)
            }
            Err(refusal) => {
                unverified.store_limit_states(refusal.limit_states());
                Err(refusal.into())
            }
        }
    }
}

/// Returns whether a request has a bearer token, and the head of the request.
fn bearer_and_head(request: Request<Incoming>) -> (bool, Parts) {
    let (head, _) = request.into_parts();
    (refusals::has_bearer_token(&head.headers), head)
}

/// Resolves when the credential of `principal` has ended.
async fn wait_for_credential_end(service: Service, principal: Principal) {
    while !principal.has_credential_ended(&service).await {
        sleep(CREDENTIAL_CHECK_INTERVAL).await;
    }
}

/// Takes a slot in the limit on event streams. The returned future holds the slot, and resolves when the
/// server closes.
fn hold_slot_until_closing(
    state: &ServerState,
    holder: Holder,
) -> Result<impl Future<Output = ()> + Send + use<>> {
    let slot = state.sockets.take(holder, 1)?;
    let mut phase = state.phase.subscribe();
    Ok(async move {
        let _slot = slot;
        wait_for_closing(&mut phase).await;
    })
}

/// Converts the refusal of a stream to an error.
fn error_from_refusal(refusal: &Refusal) -> Error {
    let malformed = || match refusal.fault {
        Fault::Resource => Error::not_found("resource"),
        _ => Error::malformed(refusal.message().to_owned()),
    };
    refusal.error.as_deref().cloned().unwrap_or_else(malformed)
}

/// Formats a stream of notifications as server-sent events, with comments that keep the connection alive.
fn with_keep_alive(
    notifications: impl Stream<Item = NotificationPart> + Send + Unpin + 'static,
    interval_length: Duration,
) -> impl Stream<Item = Bytes> + Send {
    let mut ticks = interval(interval_length);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    stream::unfold((notifications, ticks), |(mut notifications, mut ticks)| async move {
        let event = tokio::select! {
            biased;
            next = notifications.next() => notification_event(&next?),
            _ = ticks.tick() => COMMENT,
        };
        Some((event, (notifications, ticks)))
    })
}

/// Formats a notification as a server-sent event. Without a message, the event has only an id, which advances
/// the client's position.
fn notification_event(notification: &NotificationPart) -> Bytes {
    let id = notification.position.map(|position| position.to_string());
    match (notification.message.is_empty(), &id) {
        (true, Some(id)) => format!("id: {id}\n\n").into(),
        _ => event_stream::format_event(None, id.as_deref(), &notification.message),
    }
}
