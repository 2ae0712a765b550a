//! Serves the Model Context Protocol over HTTP.
//!
//! The router of `svc-mcp-stdio` implements the methods, and this module does the framing. The server answers
//! a POST with JSON, or with server-sent events if the answer is slow or if notifications precede the answer.
//! Each request is independent. Only revision 2024-11-05 has sessions, on a separate path.

pub(crate) mod refusals;
mod headers;
mod event_stream;
mod cancellable;
pub(crate) mod sessions;
mod post;
mod batch;
pub(crate) mod stream;
mod tool_selection;
mod streamable;

use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::http::request::Parts;
use hyper::{Request, Uri};
use rmcp::model::RequestId;
use svc_core::op::{AdmissionFailure, Credential};
use svc_core::{Code, Error, Holder, Peer, Service};
use svc_mcp_stdio::profiles::Profile;
use svc_mcp_stdio::refusal::Refusal;
use svc_mcp_stdio::request_context::{AgreedSettings, stated_revision};
use svc_mcp_stdio::revision::Revision;
use svc_mcp_stdio::router::Router;
use svc_mcp_stdio::tool_filter::ToolFilter;
use svc_mcp_stdio::wire::{self, InvalidMessage, Message, Payload};
use svc_mcp_stdio::{Principal, head};

use crate::accept::AcceptedTypes;
use crate::decode;
use crate::encode::{self, Response};
use crate::limits::body::{self, OPEN_ROUTE_BODY_MAX};
use crate::limits::in_flight::BusySlot;
use crate::state::{PeerLink, ServerState, UnverifiedRequest};
use batch::BatchPost;
use cancellable::{CancellableRequests, RequestScope};
use post::MessagePost;
use sessions::{Session, SessionOwner, Sessions};

/// HTTP endpoint of the Model Context Protocol, created once per server.
pub(crate) struct Endpoint {
    service: Service,
    router: Router,
    cancellable: Arc<CancellableRequests>,
    sessions: Arc<Sessions>,
}

/// Selection of the tools at an MCP path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ToolSelection {
    /// The tools that the client chooses by query or headers, or all tools.
    ByClient,
    /// As `ByClient`, on the path that also has sessions.
    Streamable,
    /// The tools of a profile, which the client can restrict further.
    Profile(Profile),
}

/// The authenticated sender of a POST, with the settings for all messages of the POST.
struct PostSender {
    principal: Principal,
    holder: Holder,
    headers: HeaderMap,
    settings: AgreedSettings,
    /// Date of the MCP revision in the metadata of the message, if any.
    stated: Option<String>,
    view: ToolFilter,
    /// Whether the client accepts `text/event-stream`.
    accepts_events: bool,
    session: Option<Arc<Session>>,
    /// Whether an `initialize` in this POST may begin a session.
    can_begin_session: bool,
}

/// MCP revision in the metadata of a message.
#[derive(Default)]
struct StatedRevision {
    /// Date of the revision in the metadata, which the revision header must repeat.
    stated: Option<String>,
    /// Whether the message is the handshake, which negotiates a revision whatever the headers contain.
    is_handshake: bool,
}

impl StatedRevision {
    fn from_message(message: &Message) -> Self {
        let is_handshake = message.method == HANDSHAKE;
        Self { stated: stated_revision(message).filter(|_| !is_handshake), is_handshake }
    }
}

/// Method with which client and server agree on a revision.
const HANDSHAKE: &str = "initialize";

impl PostSender {
    /// Returns the owner of a session that this POST begins.
    fn owner(&self) -> SessionOwner {
        SessionOwner { credential_hash: self.principal.credential_hash(), holder: self.holder }
    }

    /// Returns the scope in which a cancellation finds a request of this sender by id.
    fn scope(&self) -> RequestScope {
        let session = self.session.as_ref().map(|session| session.id.clone());
        RequestScope { credential_hash: self.principal.credential_hash(), session }
    }
}

impl Endpoint {
    /// Creates the endpoint for a router.
    pub fn new(service: &Service, router: Router) -> Self {
        Self { service: service.clone(), router, cancellable: Arc::default(), sessions: Arc::default() }
    }

    /// Handles a POST of one message or a batch.
    pub async fn post(
        self: &Arc<Self>,
        shown: ToolSelection,
        state: &Arc<ServerState>,
        link: &PeerLink,
        request: Request<Incoming>,
        unverified: &mut UnverifiedRequest,
    ) -> Response {
        let peer = state.peer(link, request.headers());
        let has_token = refusals::has_bearer_token(request.headers());
        let (head, body) = request.into_parts();
        let principal = match self.admit(state, &head, peer).await {
            Ok(principal) => principal,
            Err(refusal) => {
                unverified.store_limit_states(refusal.limit_states());
                let id = read_message_id(state, Holder::at(peer), &head.headers, body).await;
                return refusals::error_response(id.as_ref(), &refusal.into(), has_token);
            }
        };
        unverified.release_slot(principal.limit_states());
        let holder = principal.holder().unwrap_or(Holder::at(peer));
        let max = state.settings.body_max_bytes;
        let body = async {
            let body = state.bodies.read(holder, &head.headers, body, max, body::JSON_MEDIA_TYPES).await?;
            let busy = state.in_flight.busy_slot_for_body(holder, body.len()).await?;
            Ok((body, busy))
        };
        let (body, busy) = match body.await {
            Ok(body) => body,
            Err(refusal) => {
                let error = principal.refuse(&self.service, refusal).await;
                return refusals::error_response(None, &error, has_token);
            }
        };
        self.respond_to_payload(shown, state, (principal, holder), head, (&body, busy)).await
    }

    async fn respond_to_payload(
        self: &Arc<Self>,
        shown: ToolSelection,
        state: &Arc<ServerState>,
        (principal, holder): (Principal, Holder),
        head: Parts,
        (body, busy): (&Bytes, Option<BusySlot>),
    ) -> Response {
        let payload = match wire::parse_payload(body) {
            Ok(payload) => payload,
            Err(invalid) => {
                drop(busy);
                return self.invalid_message_response(&principal, &invalid).await;
            }
        };
        let (id, said) = match &payload {
            Payload::One(message) => (message.id.clone(), StatedRevision::from_message(message)),
            Payload::Batch(_) => (None, StatedRevision::default()),
        };
        let principal = principal.with_address(&state.base_url(&head.uri, &head.headers));
        let sender = match self.post_sender(shown, (principal.clone(), holder), head, said) {
            Ok(sender) => sender,
            Err(refusal) => {
                drop(busy);
                return self.refusal_response(&principal, id.as_ref(), refusal).await;
            }
        };
        match payload {
            Payload::One(message) => {
                MessagePost { endpoint: self, state, sender: &sender }.respond(message, busy).await
            }
            Payload::Batch(items) => {
                // Each item of the batch waits for separate slots.
                drop(busy);
                match sender.settings.revision.has_batches() {
                    true => BatchPost::new(self, state, sender).run(items, body.len()).await,
                    false => {
                        self.invalid_message_response(&principal, &InvalidMessage::no_batches(None)).await
                    }
                }
            }
        }
    }

    /// Admits a POST before its body is read.
    ///
    /// A page of another site is always rejected. A foreign host name is rejected only without a credential,
    /// because DNS rebinding is useless to an attacker who has no token.
    async fn admit(
        &self,
        state: &ServerState,
        parts: &Parts,
        peer: Peer,
    ) -> std::result::Result<Principal, AdmissionFailure> {
        state.hosts.check_origin(&parts.headers)?;
        let credential = match state.credential(peer, &parts.headers, None).await? {
            Credential::Nothing if state.settings.auth_disabled => Credential::FirstPerson,
            Credential::Nothing => {
                state.settings.anonymous_workspace.map_or(Credential::Nothing, Credential::Anonymous)
            }
            sent => sent,
        };
        if !matches!(credential, Credential::Bearer(_)) {
            state.hosts.check_target_and_origin(&parts.uri, &parts.headers)?;
        }
        Principal::admitted(&self.service, head(credential, Some(peer))).await
    }

    /// Determines the settings for all messages of a POST from the request head.
    fn post_sender(
        &self,
        shown: ToolSelection,
        (principal, holder): (Principal, Holder),
        head: Parts,
        said: StatedRevision,
    ) -> std::result::Result<PostSender, Refusal> {
        let can_begin_session = matches!(shown, ToolSelection::Streamable);
        let query = query_fields(&head.uri)?;
        let named = if can_begin_session { sessions::session_id(&head.headers, &query)? } else { None };
        let session = named.map(|id| self.sessions.find(&id, principal.credential_hash())).transpose()?;
        let mut settings = match &session {
            Some(session) => session.settings(),
            None => AgreedSettings::for_revision(match headers::requested_revision(&head.headers) {
                _ if said.is_handshake => Revision::UNSTATED,
                // The message contains the revision. The revision header is checked later, with the other
                // headers.
                Err(_) if said.stated.is_some() => Revision::UNSTATED,
                named => named?,
            }),
        };
        let choice = tool_selection::parse_tool_choice(&head.headers, &query)?;
        let view = match shown {
            ToolSelection::Profile(profile) => ToolFilter::for_profile_and_choice(profile, &choice),
            ToolSelection::ByClient | ToolSelection::Streamable => {
                ToolFilter::chosen(self.service.table(), &choice)
            }
        };
        let view = view.map_err(Refusal::params)?;
        if declares_cards(&query) {
            settings = settings.with_cards();
        }
        let accepts_events =
            AcceptedTypes::from_headers(&head.headers).has_exact_type("text", "event-stream");
        let headers = head.headers;
        let stated = said.stated;
        Ok(PostSender {
            principal,
            holder,
            headers,
            settings,
            stated,
            view,
            accepts_events,
            session,
            can_begin_session,
        })
    }

    /// Returns the response to an invalid message.
    async fn invalid_message_response(&self, principal: &Principal, invalid: &InvalidMessage) -> Response {
        self.refusal_response(principal, invalid.id.as_ref(), Refusal::from(invalid)).await
    }

    /// Returns the response to a request that is refused before it reaches a method. If the credential has
    /// ended, the response reports that instead of the refusal.
    async fn refusal_response(
        &self,
        principal: &Principal,
        id: Option<&RequestId>,
        refusal: Refusal,
    ) -> Response {
        let own = refusal.error.as_deref().cloned();
        let error = own.unwrap_or_else(|| Error::malformed(refusal.message().to_owned()));
        let error = principal.refuse(&self.service, error).await;
        let mut response = if error.code() == Code::Malformed {
            let status = refusals::http_status(refusal.fault, Revision::UNSTATED);
            encode::json_response(status, refusal.response(id).into())
        } else {
            refusals::error_response(id, &error, true)
        };
        encode::insert_lsn_header(response.headers_mut(), principal.room_lsn());
        response
    }
}

fn query_fields(uri: &Uri) -> std::result::Result<decode::TextFields, Refusal> {
    let mut fields = decode::TextFields::new();
    let read = decode::append_query_fields(uri.query(), &mut fields);
    read.map_err(|error| Refusal::params(error.detail().to_owned()))?;
    Ok(fields)
}

/// Returns whether the query declares with `extensions=ui` that the client shows cards.
///
/// The query declares this because the server does not store handshakes.
fn declares_cards(query: &decode::TextFields) -> bool {
    let mut extensions = query.iter().filter(|(name, _)| name == "extensions");
    extensions.any(|(_, list)| list.split(',').any(|extension| extension.trim() == "ui"))
}

/// Reads the id of a rejected message, so that the client can match the error to its request.
async fn read_message_id(
    state: &ServerState,
    holder: Holder,
    headers: &HeaderMap,
    body: Incoming,
) -> Option<RequestId> {
    let body =
        state.bodies.read(holder, headers, body, OPEN_ROUTE_BODY_MAX, body::JSON_MEDIA_TYPES).await.ok()?;
    match wire::parse_payload(&body) {
        Ok(Payload::One(message)) => message.id,
        Ok(Payload::Batch(_)) => None,
        Err(invalid) => invalid.id,
    }
}
