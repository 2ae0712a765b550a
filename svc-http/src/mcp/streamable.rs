//! What `/mcp/streamable` has besides POST: streams, and the end of a session.

use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::{Request, StatusCode};
use svc_core::{Code, Error, Result};
use svc_mcp_stdio::Principal;

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
        let has_token = refuse::has_token(request.headers());
        let (head, _) = request.into_parts();
        let opened = async {
            let principal = self.known(state, link, &head, unverified).await?;
            let is_first_transport = !head.headers.contains_key(&headers::VERSION)
                && sessions::named(&head.headers, &query(&head.uri).unwrap_or_default()).is_none();
            if !is_first_transport {
                let refusal = Error::new(Code::MethodNotAllowed, "this revision has no such stream");
                return Err(principal.refuse(&self.service, refusal).await);
            }
            let asked = head.uri.query().map(|query| format!("&{query}")).unwrap_or_default();
            let address = |id: &str| format!("{}?sessionId={id}{asked}", head.uri.path());
            let mut phase = state.phase.subscribe();
            let slot = state.socket()?;
            let ended = async move {
                let _slot = slot;
                closing(&mut phase).await;
            };
            Ok(event_stream::response(self.sessions.begin_stream(principal.mark(), address, ended)?))
        };
        let opened: Result<Response> = opened.await;
        opened.unwrap_or_else(|error| {
            let mut response = refuse::refused(None, &error, has_token);
            if error.code() == Code::MethodNotAllowed {
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
            }
            response
        })
    }

    /// Handles a DELETE, which ends a session.
    pub async fn end(
        &self,
        state: &ServerState,
        link: &Link,
        request: Request<Incoming>,
        unverified: &mut Unverified,
    ) -> Response {
        let has_token = refuse::has_token(request.headers());
        let (head, _) = request.into_parts();
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
        head: &hyper::http::request::Parts,
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
