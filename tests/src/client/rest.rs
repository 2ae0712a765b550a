//! REST over a real connection.
//!
//! An operation's input is one object; this client puts each field where the path template, the method and
//! the rest of the operation's contract expect it.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value};
use svc_core::op::Operation;
use svc_core::spool::FILE_FIELD;
use tokio::net::TcpStream;

use super::Answer;
use crate::{refusals, runtime};

/// A client of one server.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// The address of the server.
    pub address: SocketAddr,
}

impl Rest {
    /// Sends a request and waits for the response.
    pub fn send(
        &self,
        token: Option<&str>,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        runtime().block_on(self.exchange(token, method, target, headers, body))
    }

    /// Sends a request from asynchronous code.
    pub async fn exchange(
        &self,
        token: Option<&str>,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Answer {
        let bytes = body.map(|body| Bytes::from(body.to_string()));
        self.answer(token, method, target, headers, bytes).await
    }

    /// Sends a form without a token.
    pub fn send_form(&self, target: &str, headers: &[(&str, &str)], form: &str) -> Answer {
        let media = [("content-type", "application/x-www-form-urlencoded")];
        self.post_bytes(target, &[&media, headers].concat(), form)
    }

    /// Posts bytes without a token, with the media type in the headers or else as JSON.
    pub fn post_bytes(&self, target: &str, headers: &[(&str, &str)], bytes: &str) -> Answer {
        let bytes = Bytes::from(bytes.to_owned());
        runtime().block_on(self.answer(None, "POST", target, headers, Some(bytes)))
    }

    async fn answer(
        &self,
        token: Option<&str>,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<Bytes>,
    ) -> Answer {
        let response = self.raw(token, method, target, headers, body).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status.as_u16(), body: read(&parts.headers, &bytes), headers: parts.headers }
    }

    /// Sends a request and returns before the body has arrived.
    pub async fn raw(
        &self,
        token: Option<&str>,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: Option<Bytes>,
    ) -> Response<Incoming> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        let has = |wanted: &str| headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(wanted));
        let mut request = Request::builder().method(method.parse::<Method>().unwrap()).uri(target);
        if !has("host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if body.is_some() && !has("content-type") {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(body.unwrap_or_default())).unwrap();
        sender.send_request(request).await.unwrap()
    }

    /// Calls an operation under its first path.
    pub fn call(&self, token: Option<&str>, operation: &Operation, input: &Value) -> Answer {
        self.call_at(token, operation, operation.http().path, input)
    }

    /// Calls an operation under one of its paths.
    pub fn call_at(&self, token: Option<&str>, operation: &Operation, path: &str, input: &Value) -> Answer {
        self.call_by(token, &[], operation, path, input)
    }

    /// Calls an operation under one of its paths, with these headers.
    pub fn call_by(
        &self,
        token: Option<&str>,
        headers: &[(&str, &str)],
        operation: &Operation,
        path: &str,
        input: &Value,
    ) -> Answer {
        let (target, body) = address(operation, path, input);
        let answer = self.send(token, operation.http().method.name(), &target, headers, body.as_ref());
        refusals::check(operation, answer)
    }
}

/// Returns the request target and the body for an operation's input.
pub fn address(operation: &Operation, path: &str, input: &Value) -> (String, Option<Value>) {
    let mut rest: Map<String, Value> = input.as_object().cloned().unwrap_or_default();
    let segments = path.split('/').map(|segment| match segment.strip_prefix('{') {
        Some(name) => {
            let name = name.trim_start_matches('*').trim_end_matches('}');
            encode(&text(&rest.remove(name).unwrap_or_default()))
        }
        None => segment.to_owned(),
    });
    let mut target = segments.collect::<Vec<_>>().join("/");
    let file = rest.remove(FILE_FIELD).filter(|_| operation.http().takes_file);
    if file.is_none() && matches!(operation.http().method.name(), "POST" | "PUT" | "PATCH") {
        return (target, Some(Value::Object(rest)));
    }
    let mut separator = '?';
    for (name, value) in rest {
        let values = if let Value::Array(values) = value { values } else { vec![value] };
        for value in values {
            target.push_str(&format!("{separator}{name}={}", encode(&text(&value))));
            separator = '&';
        }
    }
    (target, file)
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Percent-encodes all characters that are not unreserved.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Returns a JSON body as JSON, any other as a string.
fn read(headers: &HeaderMap, bytes: &[u8]) -> Value {
    let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match serde_json::from_slice(bytes) {
        Ok(body) if kind.contains("json") => body,
        _ => String::from_utf8_lossy(bytes).into(),
    }
}
