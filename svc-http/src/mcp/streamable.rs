//! Streams of notifications, and what `/mcp/streamable` has besides POST: streams, and the end of a session.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use svc_core::{Code, Error, Result};
use svc_mcp_stdio::refusal::{Fault, Refusal};
use svc_mcp_stdio::{Principal, Told};
use tokio::time::{MissedTickBehavior, interval};

use super::event_stream::{COMMENT, KEEP_ALIVE};
use super::stream::last_event_id;
use super::{Endpoint, event_stream, headers, query, refuse, sessions};
use crate::encode::{self, Response};
use crate::phase::closing;
use crate::state::{Link, ServerState, Unverified};

impl Endpoint {
    /// Handles a GET.
    ///
    /// A client that names no revision is of the first transport over HTTP: its stream begins a session and
    /// brings the answers to what it sends.
    pub async fn open(
        &self,
        state: &ServerState,
        link: &Link,
        request: Request<Incoming>,
        unverified: &mut Unverified,
    ) -> Response {
        let (has_token, head) = without_body(request);
        let opened = async {
            let principal = self.known(state, link, &head, unverified).await?;
            let is_first_transport = !head.headers.contains_key(&headers::VERSION)
                && sessions::named(&head.headers, &query(&head.uri).unwrap_or_default()).is_none();
            if !is_first_transport {
                return self.notify(state, &principal, &head).await;
            }
            let asked = head.uri.query().map(|query| format!("&{query}")).unwrap_or_default();
            let address = |id: &str| format!("{}?sessionId={id}{asked}", head.uri.path());
            let ended = held_until_closing(state)?;
            Ok(event_stream::response(self.sessions.begin_stream(principal.mark(), address, ended)?))
        };
        opened.await.unwrap_or_else(|error: Error| refuse::refused(None, &error, has_token))
    }

    /// Handles a GET of notifications.
    pub async fn notifications(
        &self,
        state: &ServerState,
        link: &Link,
        request: Request<Incoming>,
        unverified: &mut Unverified,
    ) -> Response {
        let (has_token, head) = without_body(request);
        let opened = async {
            let principal = self.known(state, link, &head, unverified).await?;
            self.notify(state, &principal, &head).await
        };
        opened.await.unwrap_or_else(|error| refuse::refused(None, &error, has_token))
    }

    /// Returns the stream of notifications for the addresses in the query, and for what the token has
    /// subscribed to.
    async fn notify(&self, state: &ServerState, principal: &Principal, head: &Parts) -> Result<Response> {
        let asked = query(&head.uri).and_then(|fields| Ok((fields, headers::revision(&head.headers)?)));
        let asked = asked.map_err(|refusal| of_refusal(&refusal)).and_then(|(fields, revision)| {
            Ok((fields, revision, last_event_id(&head.headers)?, held_until_closing(state)?))
        });
        let (fields, revision, after, closing) = match asked {
            Ok(asked) => asked,
            Err(error) => return Err(principal.refuse(&self.service, error).await),
        };
        let uris = fields.into_iter().filter(|(name, _)| name == "uri").map(|(_, uri)| uri).collect();
        let told = svc_mcp_stdio::notifications(&self.service, principal, revision, uris, after).await;
        let told = told.map_err(|refusal| of_refusal(&refusal))?;
        let open = told.take_until(Box::pin(closing));
        let mut response = event_stream::response(kept_alive(open, KEEP_ALIVE));
        encode::insert_lsn(response.headers_mut(), principal.room_lsn());
        Ok(response)
    }

    /// Handles a DELETE, which ends a session.
    pub async fn end(
        &self,
        state: &ServerState,
        link: &Link,
        request: Request<Incoming>,
        unverified: &mut Unverified,
    ) -> Response {
        let (has_token, head) = without_body(request);
        let ended = async {
            let principal = self.known(state, link, &head, unverified).await?;
            let named = sessions::named(&head.headers, &[]);
            let session = match named {
                Some(id) => self.sessions.of(&id, principal.mark()),
                None => Err(Error::new(Code::MethodNotAllowed, "there is no session to end")),
            };
            match session {
                Ok(session) => self.sessions.end(&session),
                Err(refusal) => return Err(principal.refuse(&self.service, refusal).await),
            }
            Ok(encode::empty(StatusCode::NO_CONTENT))
        };
        let ended: Result<Response> = ended.await;
        ended.unwrap_or_else(|error| {
            let mut response = refuse::refused(None, &error, has_token);
            if error.code() == Code::MethodNotAllowed {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, GET"));
            }
            response
        })
    }

    /// Admits a request without a body.
    async fn known(
        &self,
        state: &ServerState,
        link: &Link,
        head: &Parts,
        unverified: &mut Unverified,
    ) -> Result<Principal> {
        let peer = state.peer(link, &head.headers);
        match self.admit(state, head, peer).await {
            Ok(principal) => {
                unverified.end(principal.standings());
                Ok(principal)
            }
            Err(refusal) => {
                unverified.tell(refusal.standings());
                Err(refusal.into())
            }
        }
    }
}

/// Returns the head of a request whose body is of no interest, and whether it has a credential.
fn without_body(request: Request<Incoming>) -> (bool, Parts) {
    let (head, _) = request.into_parts();
    (refuse::has_token(&head.headers), head)
}

/// Takes a slot among the streams; what is returned holds it, and resolves when the server closes.
fn held_until_closing(state: &ServerState) -> Result<impl Future<Output = ()> + Send + use<>> {
    let (slot, mut phase) = (state.socket()?, state.phase.subscribe());
    Ok(async move {
        let _slot = slot;
        closing(&mut phase).await;
    })
}

/// Returns the error of a request whose stream does not begin.
fn of_refusal(refusal: &Refusal) -> Error {
    let malformed = || match refusal.fault {
        Fault::Resource => Error::not_found("resource"),
        _ => Error::malformed(refusal.message().to_owned()),
    };
    refusal.error.as_deref().cloned().unwrap_or_else(malformed)
}

/// Returns the events of notifications, with comments while there are none.
fn kept_alive(
    told: impl Stream<Item = Told> + Send + Unpin + 'static,
    every: Duration,
) -> impl Stream<Item = Bytes> + Send {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    stream::unfold((told, ticks), |(mut told, mut ticks)| async move {
        let event = tokio::select! {
            biased;
            next = told.next() => framed(&next?),
            _ = ticks.tick() => COMMENT,
        };
        Some((event, (told, ticks)))
    })
}

/// Returns the event of a notification; one that only has an id moves a client's position and is no more.
fn framed(told: &Told) -> Bytes {
    let id = told.position.map(|position| position.to_string());
    match (told.message.is_empty(), &id) {
        (true, Some(id)) => format!("id: {id}\n\n").into(),
        _ => event_stream::event(None, id.as_deref(), &told.message),
    }
}
