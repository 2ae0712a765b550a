//! MCP over HTTP, without sessions: each POST stands for itself. rmcp speaks the protocol; what stands in front of
//! it answers what is no message, takes the batches of revision 2025-03-26 apart, and says 401 where a credential is
//! missing or dead. Only JSON is ever answered, so whatever a client accepts is served.

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
use svc_core::{Client, Code, Error, Result, Service};
use svc_mcp_stdio::wire::{self, Kind, Message, Payload, Refusal, WAIT_BATCH_MAX};
use svc_mcp_stdio::{Mcp, Principal, large_wait};
use tokio::time::Instant;
use tower_service::Service as _;

use crate::encode::{self, Response};
use crate::in_flight::RequestSlot;
use crate::limits::HttpSettings;
use crate::server::{Link, Server, Unknown};
use crate::shares::Share;
use crate::{body, unread};

/// The server behind `POST /mcp`, made once.
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
            // One rule for the whole server: `Hosts`.
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

/// Answers `POST /mcp`.
pub(crate) async fn handle(
    server: &Server,
    link: &Link,
    request: Request<Incoming>,
    unknown: &mut Unknown,
) -> Result<Response> {
    let endpoint = &server.mcp;
    let peer = server.peer(link, request.headers());
    let principal = match endpoint.admit(server, request.uri(), request.headers(), peer).await {
        Ok(principal) => principal,
        Err(refusal) => {
            body::discard(request).await;
            return Err(refusal);
        }
    };
    drop(unknown.take());
    let client = principal.client().unwrap_or(Client::at(peer));
    let (head, body) = request.into_parts();
    let body = match server.bodies.read(client, &head.headers, body, server.settings.body_max_bytes).await {
        Ok(body) => body,
        Err(refusal) => return Err(principal.refuse(&endpoint.service, refusal).await),
    };
    let mail = endpoint.open(body);
    let call = Call::of(&head, principal);
    drop(head);
    match mail {
        Ok(Mail::One(letter)) if letter.is_large_wait() => {
            Err(call.principal.refuse(&endpoint.service, large_wait()).await)
        }
        Ok(Mail::One(letter)) => {
            let changes = letter.tool.is_some_and(|tool| tool.changes);
            server.unread.answer(client, changes, || endpoint.one(server, client, &call, &letter)).await
        }
        Ok(Mail::Batch(items, size)) if has_batches(&call.head.headers) => {
            if size > WAIT_BATCH_MAX && items.iter().flatten().any(Letter::waits) {
                return Err(call.principal.refuse(&endpoint.service, large_batch()).await);
            }
            Batch { server, call, client, place: None, answers: Vec::new(), share: None }.answer(items).await
        }
        Ok(Mail::Batch(..)) => {
            let refusal = Refusal::invalid("batches exist in revision 2025-03-26 alone", Value::Null);
            endpoint.refuse(&call.principal, &refusal).await
        }
        Err(refusal) => endpoint.refuse(&call.principal, &refusal).await,
    }
}

fn large_batch() -> Error {
    Error::new(Code::BodyTooLarge, format!("a batch with a wait in it is larger than {WAIT_BATCH_MAX} bytes"))
}

/// What a POST brings. Of messages only the bytes are kept: parsed they would be many times as large.
enum Mail {
    One(Letter),
    /// A batch that came in so many bytes.
    Batch(Vec<Item>, usize),
}

/// A message that is still to be answered.
struct Letter {
    kind: Kind,
    id: Value,
    opens: bool,
    /// The tool that it calls, which may be none of ours.
    tool: Option<Tool>,
    bytes: Bytes,
}

/// What is to be known of a tool that is called.
#[derive(Clone, Copy)]
struct Tool {
    waits: bool,
    changes: bool,
}

/// A message of a batch, or what stands in the place of one.
type Item = std::result::Result<Letter, Refusal>;

impl Letter {
    fn waits(&self) -> bool {
        self.tool.is_some_and(|tool| tool.waits)
    }

    fn is_large_wait(&self) -> bool {
        self.waits() && self.bytes.len() > WAIT_INPUT_MAX_BYTES
    }
}

/// The head of a POST, with a credential that was sent.
struct Call {
    head: Parts,
    principal: Principal,
}

impl Call {
    /// Only what rmcp reads of the head is kept. So the credential travels from here on where no trace shows it.
    fn of(head: &Parts, principal: Principal) -> Self {
        let (mut kept, ()) = Request::new(()).into_parts();
        kept.method = head.method.clone();
        kept.uri = Uri::from_static("/mcp");
        // Whatever it was, it was one of ours.
        kept.headers.insert(HOST, HeaderValue::from_static("localhost"));
        kept.headers.insert(ACCEPT, BOTH);
        kept.headers.insert(CONTENT_TYPE, JSON);
        for name in READ {
            // A second one is enough to be refused for.
            for value in head.headers.get_all(&name).iter().take(2) {
                kept.headers.append(&name, own(value));
            }
        }
        Self { head: kept, principal }
    }
}

/// The headers that rmcp reads beside those that are put there.
const READ: [HeaderName; 3] = [
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
];

/// Bytes of a header that are kept. No revision, method or tool has as many.
const READ_MAX: usize = 1024;

/// The value without the head that it stands in.
fn own(value: &HeaderValue) -> HeaderValue {
    let bytes = value.as_bytes();
    HeaderValue::from_bytes(bytes.get(..READ_MAX).unwrap_or(bytes)).unwrap_or_else(|_| value.clone())
}

impl Endpoint {
    /// Lets a POST in before its body is read.
    async fn admit(
        &self,
        server: &Server,
        uri: &Uri,
        headers: &HeaderMap,
        peer: IpAddr,
    ) -> Result<Principal> {
        server.hosts.check(uri, headers).map_err(|_| {
            Error::forbidden("MCP is served only under this server's own names; see SVC_ALLOWED_HOSTS")
        })?;
        let token = server.bearer(peer, headers).await?;
        Principal::admitted(&self.service, svc_mcp_stdio::head(token, Some(peer))).await
    }

    /// Reads what a POST brings.
    fn open(&self, body: Bytes) -> std::result::Result<Mail, Refusal> {
        Ok(match wire::read(&body)? {
            Payload::One(message) => Mail::One(self.letter(&message, body)),
            Payload::Batch(items) => {
                let letter = |message: Message| self.letter(&message, message.value.to_string().into());
                Mail::Batch(items.into_iter().map(|item| item.map(letter)).collect(), body.len())
            }
        })
    }

    fn letter(&self, message: &Message, bytes: Bytes) -> Letter {
        let tool = called_tool(message);
        let tool = tool.map(|tool| Tool { waits: self.mcp.waits(tool), changes: self.mcp.changes(tool) });
        let opens = message.method() == "initialize";
        Letter { kind: message.kind, id: message.id(), opens, tool, bytes }
    }

    /// Answers one message. A parked wait is not in flight.
    async fn one(&self, server: &Server, client: Client, call: &Call, letter: &Letter) -> Result<Response> {
        let forwarded = self.forward(call, letter);
        let answered = if letter.waits() {
            server.unless_closing(forwarded).await?
        } else {
            let _place = server.in_flight.take(client).await?;
            forwarded.await
        };
        match answered {
            // Said by rmcp, which knows nothing of the log.
            Err(error) if error.code() == Code::Malformed => {
                let mut response = encode::problem(&error);
                encode::tell_lsn(response.headers_mut(), call.principal.room_lsn());
                Ok(response)
            }
            answered => answered,
        }
    }

    /// Has rmcp answer one message, which may call a tool. What it says in plain text becomes a problem.
    async fn forward(&self, call: &Call, letter: &Letter) -> Result<Response> {
        let mut head = call.head.clone();
        let principal = call.principal.clone();
        // The operation that is called looks at the credential itself, in its own transaction.
        let principal = if letter.tool.is_some() {
            principal
        } else {
            principal.with_capabilities(&self.service).await?
        };
        head.extensions.insert(principal.clone());
        principal.take_turn(letter.bytes.len()).await;
        let request = Request::from_parts(head, Full::new(letter.bytes.clone()));
        let Ok(response) = self.rmcp.clone().call(request).await;
        let (parts, body) = response.into_parts();
        let Ok(body) = body.collect().await;
        let body = body.to_bytes();
        principal.end_turn();
        if principal.is_unasked() {
            // It was refused before it came to an operation.
            accepted(principal.refuse(&self.service, Error::malformed("no operation was called")).await)?;
        }
        if let Some(refusal) = principal.refusal() {
            return Err(refusal.clone());
        }
        if parts.status.is_success() || parts.headers.get(CONTENT_TYPE) == Some(&JSON) {
            let mut response = Response::from_parts(parts, body.into());
            encode::tell_lsn(response.headers_mut(), principal.room_lsn());
            return Ok(response);
        }
        let text = String::from_utf8_lossy(&body).into_owned();
        Err(if parts.status.is_client_error() { Error::malformed(text) } else { Error::internal(text) })
    }

    /// Answers what is no message.
    async fn refuse(&self, principal: &Principal, refusal: &Refusal) -> Result<Response> {
        accepted(principal.refuse(&self.service, refusal.error()).await)?;
        let mut response = document(StatusCode::BAD_REQUEST, &refusal.answer());
        encode::tell_lsn(response.headers_mut(), principal.room_lsn());
        Ok(response)
    }
}

/// What is wrong beside the message itself, which is known.
fn accepted(error: Error) -> Result<()> {
    if error.code() == Code::Malformed { Ok(()) } else { Err(error) }
}

/// A batch on its way. Its messages are answered one after the other, so that their effects come in the order they
/// stand in. It takes one place in flight, none while it waits; its waits share one deadline; once its answers are
/// large, what is left is refused.
struct Batch<'a> {
    server: &'a Server,
    call: Call,
    client: Client,
    place: Option<RequestSlot>,
    /// The encoded answers.
    answers: Vec<Bytes>,
    /// What they count for.
    share: Option<Share<Client>>,
}

impl Batch<'_> {
    async fn answer(mut self, items: Vec<Item>) -> Result<Response> {
        let longest = Duration::from_secs(WAIT_MAX_SECS.unsigned_abs());
        self.call.principal = self.call.principal.until(Instant::now() + longest);
        for (number, item) in items.into_iter().enumerate() {
            let answer = match self.item(number, &item).await {
                // A dead credential ends all of it.
                Err(error) if error.code() == Code::Unauthenticated => return Err(error),
                Err(error) => refused(&item, &error),
                Ok(answer) => answer,
            };
            if item.as_ref().map_or(true, |letter| letter.kind == Kind::Request) {
                self.answers.push(answer);
            }
        }
        self.place = None;
        Ok(self.together())
    }

    /// Answers what stands in the batch, which is counted whatever it is.
    async fn item(&mut self, number: usize, item: &Item) -> Result<Bytes> {
        let service = &self.server.mcp.service;
        if number > 0 {
            self.call.principal = self.call.principal.again(service).await?;
        }
        self.server.unread.wait(self.client, Instant::now() + unread::TIMEOUT).await?;
        match item {
            Ok(letter) if letter.kind == Kind::Response => {
                self.call.principal.clone().with_capabilities(service).await.map(|_| Bytes::new())
            }
            Ok(letter) => self.letter(number, letter).await,
            Err(refusal) => {
                accepted(self.call.principal.refuse(service, refusal.error()).await)?;
                Ok(refusal.answer().to_string().into())
            }
        }
    }

    /// Answers one message, or refuses it before anything is done.
    async fn letter(&mut self, number: usize, letter: &Letter) -> Result<Bytes> {
        let endpoint = &self.server.mcp;
        if letter.is_large_wait() {
            return Err(self.call.principal.refuse(&endpoint.service, large_wait()).await);
        }
        if letter.opens {
            let refusal = Error::malformed("initialize must not be in a batch");
            return Err(self.call.principal.refuse(&endpoint.service, refusal).await);
        }
        if self.size() >= BATCH_ANSWER_MAX {
            return Err(Error::new(Code::Overloaded, "the answer of the batch is full; send the rest again"));
        }
        if letter.waits() {
            self.place = None;
        } else if self.place.is_none() {
            let places = &self.server.in_flight;
            self.place = Some(match number {
                0 => places.take(self.client).await?,
                _ => places.take_again(self.client).await?,
            });
        }
        let forwarded = endpoint.forward(&self.call, letter);
        let response =
            if letter.waits() { self.server.unless_closing(forwarded).await?? } else { forwarded.await? };
        let Ok(body) = response.into_body().collect().await;
        let body = body.to_bytes();
        let changes = letter.tool.is_some_and(|tool| tool.changes);
        let share =
            self.server.unread.take(self.client, changes, body.len(), None).ok_or_else(unread::full)?;
        match &mut self.share {
            Some(all) => all.merge(share),
            None => self.share = Some(share),
        }
        Ok(body)
    }

    fn size(&self) -> usize {
        self.answers.iter().map(Bytes::len).sum()
    }

    /// One array of all answers.
    fn together(self) -> Response {
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
        encode::tell_lsn(response.headers_mut(), self.call.principal.room_lsn());
        if let Some(share) = self.share {
            response.body_mut().counted(share);
        }
        response
    }
}

/// Bytes of a batch's answers after which nothing more is done for it.
const BATCH_ANSWER_MAX: usize = 1 << 20;

/// The answer to a message of a batch that was not forwarded.
fn refused(item: &Item, error: &Error) -> Bytes {
    let code = match error_form(error.code()) {
        ErrorForm::Error(code) => code,
        ErrorForm::Result if error.code() == Code::Malformed => wire::INVALID_REQUEST,
        ErrorForm::Result => SERVER_ERROR,
    };
    let id = item.as_ref().map_or_else(Refusal::id, |letter| letter.id.clone());
    let error = json!({"code": code, "message": error.detail(), "data": error.problem()});
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string().into()
}

/// The JSON-RPC code of what the server could not do.
const SERVER_ERROR: i32 = -32_603;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");

fn called_tool(message: &Message) -> Option<&str> {
    let calls = message.kind == Kind::Request && message.method() == "tools/call";
    calls.then(|| message.value.pointer("/params/name").and_then(Value::as_str).unwrap_or_default())
}

/// Revision 2025-03-26 has no version header yet.
fn has_batches(headers: &HeaderMap) -> bool {
    headers.get("mcp-protocol-version").is_none_or(|version| version == "2025-03-26")
}

fn document(status: StatusCode, value: &Value) -> Response {
    encode::json(status, value.to_string().into())
}
