//! Formats refusals below `/mcp`: the body of every response that is not a success is a JSON-RPC error.
//!
//! MCP clients do not show other bodies.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use rmcp::model::RequestId;
use svc_core::{Code, Error};
use svc_mcp_stdio::refusal::{Fault, Refusal};
use svc_mcp_stdio::revision::Revision;
use svc_mcp_stdio::router::Answer;

use crate::encode::{self, Response};

/// Authorization scheme of tokens, with the space after it.
const BEARER: &[u8] = b"Bearer ";
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// `WWW-Authenticate` header for a token that is not valid (RFC 6750, section 3.1).
const INVALID_TOKEN: HeaderValue = HeaderValue::from_static("Bearer error=\"invalid_token\"");

/// Returns whether a path is `/mcp` or a path below `/mcp`.
pub(crate) fn is_mcp_path(path: &str) -> bool {
    path.strip_prefix("/mcp").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the response to a request that was refused before it reached an MCP method.
pub(crate) fn error_response(id: Option<&RequestId>, error: &Error, has_token: bool) -> Response {
    let mut response = encode::problem_response(error);
    let body = Refusal::from_error(error.clone()).response(id);
    *response.body_mut() = Bytes::from(body).into();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    if has_token && error.code() == Code::Unauthenticated {
        headers.insert(WWW_AUTHENTICATE, INVALID_TOKEN);
    }
    response
}

/// Returns whether a request has a bearer token, valid or not.
pub(crate) fn has_bearer_token(headers: &HeaderMap) -> bool {
    let sent = headers.get(AUTHORIZATION).and_then(|sent| sent.as_bytes().get(..BEARER.len()));
    sent.is_some_and(|scheme| scheme.eq_ignore_ascii_case(BEARER))
}

/// Returns the HTTP response for an answer of the router.
pub(super) fn answer_response(answer: Answer, revision: Revision) -> Response {
    let Some(refusal) = &answer.refusal else {
        let mut response = encode::json_response(StatusCode::OK, answer.bytes.start.into());
        response.body_mut().set_next(answer.bytes.rest);
        return response;
    };
    match &refusal.error {
        Some(error) if concerns_whole_request(error.code()) => {
            let mut response = error_response(None, error, true);
            *response.body_mut() = Bytes::from(answer.bytes.into_contiguous()).into();
            response
        }
        _ => {
            encode::json_response(http_status(refusal.fault, revision), answer.bytes.into_contiguous().into())
        }
    }
}

/// Returns whether an error concerns the whole HTTP request instead of the requested object.
fn concerns_whole_request(code: Code) -> bool {
    matches!(
        code,
        Code::Unauthenticated
            | Code::RateLimited
            | Code::Overloaded
            | Code::Unavailable
            | Code::Closing
            | Code::BodyTooLarge
    )
}

/// Returns the HTTP status for a fault that the router reports.
pub(super) fn http_status(fault: Fault, revision: Revision) -> StatusCode {
    match fault {
        Fault::NotJson
        | Fault::NotAMessage
        | Fault::Headers
        | Fault::Revision
        | Fault::ClientCapability
        | Fault::Meta => StatusCode::BAD_REQUEST,
        Fault::Method if revision.is_stateless() => StatusCode::NOT_FOUND,
        Fault::Cancelled => StatusCode::ACCEPTED,
        Fault::Method | Fault::Params | Fault::Resource | Fault::Refused(_) => StatusCode::OK,
    }
}
