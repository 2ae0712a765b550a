//! MCP over HTTP, without sessions: each POST stands for itself. rmcp speaks the protocol; what stands in front of
//! it answers what is no message, takes the batches of revision 2025-03-26 apart, and says 401 where a credential is
//! missing or dead. Only JSON is ever answered, so whatever a client accepts is served.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, COOKIE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, StatusCode};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;
use svc_core::{Code, Error, Result, Service};
use svc_mcp_stdio::wire::{self, Kind, Message, Parcel, Refusal};
use svc_mcp_stdio::{Mcp, Principal};
use tower_service::Service as _;

use crate::decode;
use crate::encode::{self, Response};
use crate::hosts::Hosts;
use crate::limits::{HttpSettings, Permit};
use crate::server::Server;

/// The server behind `POST /mcp`, made once.
pub(crate) struct Endpoint {
    service: Service,
    mcp: Mcp,
    rmcp: StreamableHttpService<Mcp, NeverSessionManager>,
    hosts: Hosts,
    body_max_bytes: usize,
}

impl Endpoint {
    pub fn new(service: &Service, settings: &HttpSettings, own: SocketAddr) -> Result<Self> {
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
            hosts: Hosts::new(own, settings.allowed_hosts.clone()),
            body_max_bytes: settings.body_max_bytes,
        })
    }
}

/// Answers `POST /mcp`. A parked wait is not in flight, and gives `permit` back.
pub(crate) async fn handle(server: &Server, request: Request<Incoming>, permit: Permit) -> Response {
    let answered = async {
        let (head, body) = request.into_parts();
        let endpoint = &server.mcp;
        let body = decode::body(&head.headers, body, endpoint.body_max_bytes).await?;
        let call = endpoint.read(head, body).await?;
        if call.waits {
            drop(permit);
            return server.unless_closing(endpoint.answer(call)).await?;
        }
        endpoint.answer(call).await
    };
    answered.await.unwrap_or_else(|error| encode::problem(&error))
}

/// What a POST asks for, with a credential that was sent.
struct Call {
    head: Parts,
    body: Bytes,
    principal: Principal,
    parcel: std::result::Result<Parcel, Refusal>,
    /// It may be parked.
    waits: bool,
}

impl Endpoint {
    async fn read(&self, mut head: Parts, body: Bytes) -> Result<Call> {
        self.hosts.check(&head.uri, &head.headers).map_err(|_| {
            Error::forbidden("MCP is served only under this server's own names; see SVC_ALLOWED_HOSTS")
        })?;
        let token = decode::bearer(&head.headers)?
            .ok_or_else(|| Error::new(Code::Unauthenticated, "send a token as `Authorization: Bearer`"))?;
        // From here on the credential travels where no trace shows it.
        head.headers.remove(AUTHORIZATION);
        head.headers.remove(COOKIE);
        head.headers.insert(ACCEPT, BOTH);
        head.headers.insert(CONTENT_TYPE, JSON);
        let parcel = wire::read(&body);
        let tool = match &parcel {
            Ok(Parcel::One(message)) => called_tool(message),
            _ => None,
        };
        let (principal, waits) = match tool {
            // The operation looks at the credential itself, in its own transaction.
            Some(tool) => (Principal::new(token), self.mcp.waits(tool)),
            None => (Principal::checked(&self.service, token).await?, false),
        };
        Ok(Call { head, body, principal, parcel, waits })
    }

    async fn answer(&self, call: Call) -> Result<Response> {
        match call.parcel {
            Ok(Parcel::One(_)) => {
                let response = self.forward(call.head, call.body, &call.principal).await?;
                Ok(response.map(Either::Right))
            }
            Ok(Parcel::Batch(items)) if has_batches(&call.head.headers) => {
                self.batch(&call.head, items, &call.principal).await
            }
            Ok(Parcel::Batch(_)) => {
                let refusal = Refusal::invalid("batches exist in revision 2025-03-26 alone", Value::Null);
                Ok(document(StatusCode::BAD_REQUEST, &refusal.answer()))
            }
            Err(refusal) => Ok(document(StatusCode::BAD_REQUEST, &refusal.answer())),
        }
    }

    /// Answers the messages one after the other, so that their effects come in the order they stand in.
    async fn batch(
        &self,
        head: &Parts,
        items: Vec<std::result::Result<Message, Refusal>>,
        principal: &Principal,
    ) -> Result<Response> {
        let mut answers = Vec::new();
        for item in items {
            match item {
                Ok(message) if message.method() == "initialize" => {
                    let refusal = Refusal::invalid("initialize must not be in a batch", message.id());
                    answers.push(refusal.answer());
                }
                Ok(message) if message.kind == Kind::Response => {}
                Ok(message) => {
                    let bytes = serde_json::to_vec(&message.value).map_err(Error::internal)?;
                    let answer = self.forward(head.clone(), bytes.into(), principal).await?;
                    let Ok(answer) = answer.into_body().collect().await;
                    if message.kind == Kind::Request {
                        answers.push(serde_json::from_slice(&answer.to_bytes()).map_err(Error::internal)?);
                    }
                }
                Err(refusal) => answers.push(refusal.answer()),
            }
        }
        if answers.is_empty() {
            let mut nothing = encode::json(StatusCode::ACCEPTED, Bytes::new());
            nothing.headers_mut().remove(CONTENT_TYPE);
            return Ok(nothing);
        }
        let mut response = document(StatusCode::OK, &Value::Array(answers));
        encode::tell_lsn(response.headers_mut(), principal.room_lsn());
        Ok(response)
    }

    /// Has rmcp answer one message. What it says in plain text becomes a problem.
    async fn forward(
        &self,
        mut head: Parts,
        body: Bytes,
        principal: &Principal,
    ) -> Result<hyper::Response<BoxBody<Bytes, Infallible>>> {
        head.extensions.insert(principal.clone());
        let Ok(mut response) = self.rmcp.clone().call(Request::from_parts(head, Full::new(body))).await;
        if let Some(refusal) = principal.refusal() {
            return Err(Error::new(refusal.code(), refusal.detail().to_owned()));
        }
        encode::tell_lsn(response.headers_mut(), principal.room_lsn());
        if response.status().is_success() || response.headers().get(CONTENT_TYPE) == Some(&JSON) {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let Ok(text) = body.collect().await;
        let text = String::from_utf8_lossy(&text.to_bytes()).into_owned();
        Err(if parts.status.is_client_error() { Error::malformed(text) } else { Error::internal(text) })
    }
}

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
