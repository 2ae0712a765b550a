//! MCP over HTTP, without sessions: each POST is independent.
//!
//! rmcp implements the protocol. The code in front of it rejects payloads that are not messages, splits the
//! batches of revision 2025-03-26, and returns 401 if a credential is missing or has ended. Responses are
//! always JSON, whatever the client's Accept header says.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode, Uri};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};
use svc_core::limits::{WAIT_INPUT_MAX_BYTES, WAIT_MAX_SECS};
use svc_core::op::mcp::{ErrorForm, error_form};
use svc_core::op::{Credential, NotAdmitted};
use svc_core::{Client, Code, Error, Result, Service};
use svc_mcp_stdio::wire::{self, InvalidMessage, Kind, Message, Payload, WAIT_BATCH_MAX};
use svc_mcp_stdio::{CalledTool, Mcp, Principal, large_wait};
use tokio::time::Instant;
use tower_service::Service as _;

use crate::encode::{self, Response};
use crate::in_flight::RequestSlot;
use crate::limits::HttpSettings;
use crate::shares::Share;
use crate::state::{Link, ServerState, Unverified};
use crate::{body, unread};

/// The handler of `POST /mcp`, created once.
pub(crate) struct Endpoint {
    service: Service,
    mcp: Mcp,
    rmcp: StreamableHttpService<Mcp, NeverSessionManager>,
}

impl Endpoint {
    pub fn new(service: &Service, settings: &HttpSettings) -> Result<Self> {
        let mcp = Mcp::for_many(service.clone())?;
        let each = mcp.clone();
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_max_request_body_bytes(settings.body_max_bytes)
            // `Hosts` checks them for the whole server.
            .disable_allowed_hosts();
        Ok(Self {
            service: service.clone(),
            mcp,
            rmcp: StreamableHttpService::new(
                move || Ok(each.clone()),
                Arc::new(NeverSessionManager::default()),
                config,
            ),
        })
    }
}

/// Handles `POST /mcp`.
pub(crate) async fn handle(
    endpoint: &Endpoint,
    state: &ServerState,
    link: &Link,
    request: Request<Incoming>,
    unverified: &mut Unverified,
) -> Result<Response> {
    let peer = state.peer(link, request.headers());
    let principal = match endpoint.admit(state, request.uri(), request.headers(), peer).await {
        Ok(principal) => principal,
        Err(refusal) => {
            unverified.tell(refusal.standings());
            body::discard(request, state.settings.body_max_bytes).await;
            return Err(refusal.into());
        }
    };
    unverified.end(principal.standings());
    let client = principal.client().unwrap_or(Client::at(peer));
    let (head, body) = request.into_parts();
    let body = match read_body(state, client, &head.headers, body).await {
        Ok(body) => body,
        Err(refusal) => return Err(principal.refuse(&endpoint.service, refusal).await),
    };
    let parsed = endpoint.parse(body);
    let call = Post::of(&head, principal);
    drop(head);
    match parsed {
        Ok(Parsed::One(pending)) if pending.is_large_wait() => {
            Err(call.principal.refuse(&endpoint.service, large_wait()).await)
        }
        Ok(Parsed::One(pending)) => {
            let changes = pending.tool.as_ref().is_some_and(CalledTool::changes);
            let answer = || endpoint.handle_one(state, client, &call, &pending);
            match state.unread.answer(client, changes, answer).await {
                Err(refusal) => Err(endpoint.unless_asked(&call.principal, refusal).await),
                answered => answered,
            }
        }
        Ok(Parsed::Batch(items, size)) if has_batches(&call.head.headers) => {
            if size > WAIT_BATCH_MAX && items.iter().flatten().any(PendingMessage::waits) {
                return Err(call.principal.refuse(&endpoint.service, large_batch()).await);
            }
            BatchPost { endpoint, state, call, client, slot: None, answers: Vec::new(), share: None }
                .run(items)
                .await
        }
        Ok(Parsed::Batch(..)) => {
            let refusal = InvalidMessage::invalid("batches exist only in revision 2025-03-26", Value::Null);
            endpoint.refuse(&call.principal, &refusal).await
        }
        Err(refusal) => endpoint.refuse(&call.principal, &refusal).await,
    }
}

async fn read_body(
    state: &ServerState,
    client: Client,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Bytes> {
    state.bodies.read(client, headers, body, state.settings.body_max_bytes, body::JSON).await
}

fn large_batch() -> Error {
    Error::new(Code::BodyTooLarge, format!("a batch with a wait in it is larger than {WAIT_BATCH_MAX} bytes"))
}

/// The payload of a POST.
///
/// Only the bytes of messages are kept: parsed they would be many times as large.
enum Parsed {
    One(PendingMessage),
    /// A batch, with the bytes that it was sent in.
    Batch(Vec<Item>, usize),
}

/// A message that has no response yet.
struct PendingMessage {
    kind: Kind,
    id: Value,
    is_initialize: bool,
    /// The tool that it calls.
    tool: Option<CalledTool>,
    bytes: Bytes,
}

/// An item of a batch: a message, or the error to return in its place.
type Item = std::result::Result<PendingMessage, InvalidMessage>;

impl PendingMessage {
    fn waits(&self) -> bool {
        self.tool.as_ref().is_some_and(CalledTool::waits)
    }

    fn is_large_wait(&self) -> bool {
        self.waits() && self.bytes.len() > WAIT_INPUT_MAX_BYTES
    }
}

/// The head of a POST and its authenticated sender.
struct Post {
    head: Parts,
    principal: Principal,
}

impl Post {
    /// Keeps only the part of the head that rmcp reads, so the credential never gets into rmcp's logs.
    fn of(head: &Parts, principal: Principal) -> Self {
        let (mut kept, ()) = Request::new(()).into_parts();
        kept.method = head.method.clone();
        kept.uri = Uri::from_static("/mcp");
        // The Host was checked before, so any own name will do.
        kept.headers.insert(HOST, HeaderValue::from_static("localhost"));
        kept.headers.insert(ACCEPT, JSON_OR_SSE);
        kept.headers.insert(CONTENT_TYPE, JSON);
        for name in FORWARDED_HEADERS {
            // Two values are enough for rmcp to reject a repeated header.
            for value in head.headers.get_all(&name).iter().take(2) {
                kept.headers.append(&name, copied(value));
            }
        }
        Self { head: kept, principal }
    }
}

/// The headers of the request that are passed on to rmcp.
const FORWARDED_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
];

/// Bytes of a header value that are kept. No revision, method or tool name is as long.
const HEADER_VALUE_MAX: usize = 1024;

/// Copies a header value, so that it does not keep the buffer of the whole head alive.
fn copied(value: &HeaderValue) -> HeaderValue {
    let bytes = value.as_bytes();
    HeaderValue::from_bytes(bytes.get(..HEADER_VALUE_MAX).unwrap_or(bytes)).unwrap_or_else(|_| value.clone())
}

impl Endpoint {
    /// Admits a POST before its body is read.
    async fn admit(
        &self,
        state: &ServerState,
        uri: &Uri,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> std::result::Result<Principal, NotAdmitted> {
        state.hosts.check(uri, headers).map_err(|_| {
            Error::forbidden("MCP is served only under this server's own names; see SVC_ALLOWED_HOSTS")
        })?;
        let credential = match state.credential(peer, headers, None).await? {
            Credential::Nothing if state.settings.auth_disabled => Credential::FirstPerson,
            Credential::Nothing => {
                state.settings.anonymous_workspace.map_or(Credential::Nothing, Credential::Anonymous)
            }
            sent => sent,
        };
        Principal::admitted(&self.service, svc_mcp_stdio::head(credential, Some(peer))).await
    }

    /// Parses the payload of a POST.
    fn parse(&self, body: Bytes) -> std::result::Result<Parsed, InvalidMessage> {
        Ok(match wire::read(&body)? {
            Payload::One(message) => Parsed::One(self.pending(&message, body)),
            Payload::Batch(items) => {
                let pending = |message: Message| self.pending(&message, message.value.to_string().into());
                Parsed::Batch(items.into_iter().map(|item| item.map(pending)).collect(), body.len())
            }
        })
    }

    fn pending(&self, message: &Message, bytes: Bytes) -> PendingMessage {
        let tool = called_tool(message).map(|tool| self.mcp.tool(tool));
        let is_initialize = message.method() == "initialize";
        PendingMessage { kind: message.kind, id: message.id(), is_initialize, tool, bytes }
    }

    /// Handles one message. A parked wait does not count as in flight.
    async fn handle_one(
        &self,
        state: &ServerState,
        client: Client,
        call: &Post,
        pending: &PendingMessage,
    ) -> Result<Response> {
        let forwarded = self.forward(call, pending);
        let answered = if pending.waits() {
            state.unless_closing(forwarded).await?
        } else {
            let _slot = state.in_flight.take(client).await?;
            forwarded.await
        };
        match answered {
            // This error comes from rmcp, which does not know the position in the log.
            Err(error) if error.code() == Code::Malformed => {
                let mut response = encode::problem(&error);
                encode::insert_lsn(response.headers_mut(), call.principal.room_lsn());
                Ok(response)
            }
            answered => answered,
        }
    }

    /// Passes one message, which may call a tool, to rmcp.
    ///
    /// A plain-text error of rmcp is turned into a problem.
    async fn forward(&self, call: &Post, pending: &PendingMessage) -> Result<Response> {
        let mut head = call.head.clone();
        let principal = call.principal.clone();
        // A called operation checks the credential itself, in its own transaction.
        if let Some(tool) = &pending.tool {
            head.extensions.insert(tool.clone());
        }
        let principal = if pending.tool.is_some() {
            principal
        } else {
            principal.with_capabilities(&self.service).await?
        };
        head.extensions.insert(principal.clone());
        principal.take_turn(pending.bytes.len()).await;
        let request = Request::from_parts(head, Full::new(pending.bytes.clone()));
        let Ok(response) = self.rmcp.clone().call(request).await;
        let (parts, body) = response.into_parts();
        let Ok(body) = body.collect().await;
        let body = body.to_bytes();
        principal.end_turn();
        if principal.is_unasked() {
            // rmcp rejected it before it reached an operation.
            unless_malformed(
                principal.refuse(&self.service, Error::malformed("no operation was called")).await,
            )?;
        }
        if let Some(refusal) = principal.refusal() {
            return Err(refusal.clone());
        }
        if parts.status.is_success() || parts.headers.get(CONTENT_TYPE) == Some(&JSON) {
            let mut response = Response::from_parts(parts, body.into());
            encode::insert_lsn(response.headers_mut(), principal.room_lsn());
            return Ok(response);
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        Err(if parts.status.is_client_error() { Error::malformed(text) } else { Error::internal(text) })
    }

    /// Returns the error for a message that has ended with `refusal`, which the core may not know of yet.
    async fn unless_asked(&self, principal: &Principal, refusal: Error) -> Error {
        if principal.is_unasked() { principal.refuse(&self.service, refusal).await } else { refusal }
    }

    /// Returns the response to a payload that is not a message.
    async fn refuse(&self, principal: &Principal, refusal: &InvalidMessage) -> Result<Response> {
        unless_malformed(principal.refuse(&self.service, refusal.error()).await)?;
        let mut response = document(StatusCode::BAD_REQUEST, &refusal.answer());
        encode::insert_lsn(response.headers_mut(), principal.room_lsn());
        Ok(response)
    }
}

/// Fails with `error` unless it only says that the message is malformed, which the caller reports itself.
fn unless_malformed(error: Error) -> Result<()> {
    if error.code() == Code::Malformed { Ok(()) } else { Err(error) }
}

/// A batch in progress.
///
/// Its messages are handled one after the other, so their effects happen in order. It takes one slot in
/// flight, and none while it waits. Its waits share one deadline. Once the responses exceed a limit, the
/// remaining messages are rejected.
struct BatchPost<'a> {
    endpoint: &'a Endpoint,
    state: &'a ServerState,
    call: Post,
    client: Client,
    slot: Option<RequestSlot>,
    /// One JSON value each, in the order of the messages that they answer.
    answers: Vec<Bytes>,
    /// Their share of the unread bytes.
    share: Option<Share<Client>>,
}

impl BatchPost<'_> {
    async fn run(mut self, items: Vec<Item>) -> Result<Response> {
        let longest = Duration::from_secs(WAIT_MAX_SECS.unsigned_abs());
        self.call.principal = self.call.principal.until(Instant::now() + longest);
        for (number, item) in items.into_iter().enumerate() {
            let answered = match self.item(number, &item).await {
                Err(refusal) => Err(self.endpoint.unless_asked(&self.call.principal, refusal).await),
                answered => answered,
            };
            let answer = match answered {
                // A credential that has ended fails the whole batch.
                Err(error) if error.code() == Code::Unauthenticated => return Err(error),
                Err(error) => refused(&item, &error),
                Ok(answer) => answer,
            };
            if item.as_ref().map_or(true, |pending| pending.kind == Kind::Request) {
                self.answers.push(answer);
            }
        }
        self.slot = None;
        Ok(self.into_response())
    }

    /// Handles one item of the batch. Every item counts as a request, whatever it is.
    async fn item(&mut self, number: usize, item: &Item) -> Result<Bytes> {
        let service = &self.endpoint.service;
        if number > 0 {
            self.call.principal = self.call.principal.again(service).await?;
        }
        self.state.unread.wait(self.client, Instant::now() + unread::TIMEOUT).await?;
        match item {
            Ok(pending) if pending.kind == Kind::Response => {
                self.call.principal.clone().with_capabilities(service).await.map(|_| Bytes::new())
            }
            Ok(pending) => self.message(number, pending).await,
            Err(refusal) => {
                unless_malformed(self.call.principal.refuse(service, refusal.error()).await)?;
                Ok(refusal.answer().to_string().into())
            }
        }
    }

    /// Handles one message, or rejects it before it has any effect.
    async fn message(&mut self, number: usize, pending: &PendingMessage) -> Result<Bytes> {
        let endpoint = self.endpoint;
        if pending.is_large_wait() {
            return Err(self.call.principal.refuse(&endpoint.service, large_wait()).await);
        }
        if pending.is_initialize {
            let refusal = Error::malformed("initialize must not be in a batch");
            return Err(self.call.principal.refuse(&endpoint.service, refusal).await);
        }
        if self.size() >= BATCH_ANSWER_MAX {
            return Err(Error::new(
                Code::Overloaded,
                "the response of the batch is full, so this message and those after it were not run",
            ));
        }
        if pending.waits() {
            self.slot = None;
        } else if self.slot.is_none() {
            let slots = &self.state.in_flight;
            self.slot = Some(match number {
                0 => slots.take(self.client).await?,
                _ => slots.take_again(self.client).await?,
            });
        }
        let forwarded = endpoint.forward(&self.call, pending);
        let response =
            if pending.waits() { self.state.unless_closing(forwarded).await?? } else { forwarded.await? };
        let body = response.into_body().collect().await.map_err(Error::internal)?.to_bytes();
        let changes = pending.tool.as_ref().is_some_and(CalledTool::changes);
        let share =
            self.state.unread.take(self.client, changes, body.len(), None).ok_or_else(unread::full)?;
        match &mut self.share {
            Some(all) => all.merge(share),
            None => self.share = Some(share),
        }
        Ok(body)
    }

    fn size(&self) -> usize {
        self.answers.iter().map(Bytes::len).sum()
    }

    /// Returns one response with the array of all responses, or 202 if there are none.
    fn into_response(self) -> Response {
        if self.answers.is_empty() {
            let mut nothing = encode::json(StatusCode::ACCEPTED, Bytes::new());
            nothing.headers_mut().remove(CONTENT_TYPE);
            return nothing;
        }
        let mut array = Vec::with_capacity(self.size() + self.answers.len() + 1);
        for answer in self.answers {
            array.push(if array.is_empty() { b'[' } else { b',' });
            array.extend_from_slice(&answer);
        }
        array.push(b']');
        let mut response = encode::json(StatusCode::OK, array.into());
        encode::insert_lsn(response.headers_mut(), self.call.principal.room_lsn());
        if let Some(share) = self.share {
            response.body_mut().counted(share);
        }
        response
    }
}

/// Bytes of a batch's responses after which its remaining messages are rejected.
const BATCH_ANSWER_MAX: usize = 1 << 20;

/// Returns the error response to a message of a batch that was not forwarded.
fn refused(item: &Item, error: &Error) -> Bytes {
    let code = match error_form(error.code()) {
        ErrorForm::Error(code) => code,
        ErrorForm::Result if error.code() == Code::Malformed => wire::INVALID_REQUEST,
        ErrorForm::Result => SERVER_ERROR,
    };
    let id = item.as_ref().map_or_else(InvalidMessage::id, |pending| pending.id.clone());
    let error = json!({"code": code, "message": error.detail(), "data": error.problem()});
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string().into()
}

/// The JSON-RPC code of an internal error.
const SERVER_ERROR: i32 = -32_603;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const JSON_OR_SSE: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

fn called_tool(message: &Message) -> Option<&str> {
    let calls = message.kind == Kind::Request && message.method() == "tools/call";
    calls.then(|| message.value.pointer("/params/name").and_then(Value::as_str).unwrap_or_default())
}

/// Returns whether the request's revision has batches.
///
/// Revision 2025-03-26 has no version header yet, so a request without one may be of that revision.
fn has_batches(headers: &HeaderMap) -> bool {
    headers.get("mcp-protocol-version").is_none_or(|version| version == "2025-03-26")
}

fn document(status: StatusCode, value: &Value) -> Response {
    encode::json(status, value.to_string().into())
}
