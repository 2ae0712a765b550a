//! Encodes responses: JSON, RFC 9457 problems and the documented headers.

use std::time::Duration;

use bytes::Bytes;
use hyper::body::Body as _;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue,
    RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, StatusCode};
use svc_core::op::Reply;
use svc_core::spool::FileContent;
use svc_core::{Code, Error, LimitState};

pub(crate) use crate::limits::response_body::Response;
use crate::limits::response_body::ResponseBody;

const ROOM_LSN: HeaderName = HeaderName::from_static("svc-room-lsn");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const TRUE: HeaderValue = HeaderValue::from_static("true");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const BEARER: HeaderValue = HeaderValue::from_static("Bearer");

/// Adds the header `Svc-Room-LSN`: the last position in the log of the caller's workspace.
pub(crate) fn insert_lsn_header(headers: &mut HeaderMap, lsn: Option<i64>) {
    if let Some(lsn) = lsn {
        headers.insert(ROOM_LSN, lsn.into());
    }
}

/// Adds the header `Idempotency-Replayed` if the response answers a repeated request.
fn insert_replayed_header(headers: &mut HeaderMap, is_repeated: bool) {
    if is_repeated {
        headers.insert(IDEMPOTENCY_REPLAYED, TRUE);
    }
}

/// Removes the header `Svc-Room-LSN`.
pub(crate) fn remove_lsn_header(headers: &mut HeaderMap) {
    headers.remove(ROOM_LSN);
}

/// Adds the headers `RateLimit-Policy` and `RateLimit`, so that a client can slow down before it is rejected.
///
/// Both headers follow the IETF draft `draft-ietf-httpapi-ratelimit-headers`, version 10.
pub(crate) fn insert_rate_limit_headers(headers: &mut HeaderMap, limit_states: &[LimitState]) {
    let list = |item: &dyn Fn(&LimitState) -> String| {
        let items: Vec<String> = limit_states.iter().map(item).collect();
        HeaderValue::from_str(&items.join(", "))
    };
    let policy = |s: &LimitState| format!("\"{}\";q={};w={}", s.limit, s.requests, s.window.as_secs());
    let left = |s: &LimitState| format!("\"{}\";r={};t={}", s.limit, s.left, seconds_rounded_up(s.full_in));
    if limit_states.is_empty() {
        return;
    }
    for (name, value) in [(RATE_LIMIT_POLICY, list(&policy)), (RATE_LIMIT, list(&left))] {
        // The names of the rate limits are visible ASCII, so the conversion always succeeds.
        value.into_iter().for_each(|value| drop(headers.insert(&name, value)));
    }
}

/// Converts a duration to seconds, rounded up.
fn seconds_rounded_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

/// Returns the HTTP response for the reply of an operation.
pub(crate) fn reply_response(reply: &Reply) -> Response {
    if let Some(content) = reply.content() {
        return file_response(reply, content);
    }
    let body = match reply.body() {
        Ok(body) => body,
        Err(error) => return problem_response(&error),
    };
    let mut response =
        json_response(StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK), body.into());
    insert_lsn_header(response.headers_mut(), reply.lsn);
    insert_replayed_header(response.headers_mut(), reply.is_repeated);
    response
}

/// Returns a response that contains a file as an attachment. A browser saves the attachment under the file's
/// name.
fn file_response(reply: &Reply, content: &FileContent) -> Response {
    let mut response = empty_response(StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK));
    *response.body_mut() = content.spooled.clone().into();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content.media_type));
    let disposition = format!("attachment; filename=\"{}\"", content.file_name);
    // The file name contains only ids and numbers, so the conversion always succeeds.
    if let Ok(disposition) = HeaderValue::from_str(&disposition) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    insert_lsn_header(headers, reply.lsn);
    response
}

/// Returns the problem response for an error, and logs the cause of an internal error.
pub(crate) fn problem_response(error: &Error) -> Response {
    if error.code() == Code::Internal {
        tracing::error!(cause = ?error.cause(), "a request failed");
    }
    let status = StatusCode::from_u16(error.code().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_vec(&error.problem()).unwrap_or_default();
    let mut response = json_response(status, body.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, PROBLEM);
    if let Some(seconds) = error.retry_after_secs() {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, BEARER);
    }
    insert_lsn_header(headers, error.room_lsn());
    insert_replayed_header(headers, error.is_repeated());
    response
}

/// Returns a JSON response that must not be cached.
pub(crate) fn json_response(status: StatusCode, body: Bytes) -> Response {
    let mut response = hyper::Response::new(ResponseBody::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    *headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(CACHE_CONTROL, NO_STORE);
    response
}

/// Returns a JSON response that any cache may keep for an hour.
pub(crate) fn cacheable_json_response(body: &serde_json::Value) -> Response {
    let mut response = json_response(StatusCode::OK, body.to_string().into());
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    response
}

/// Returns a response without a body that must not be cached.
pub(crate) fn empty_response(status: StatusCode) -> Response {
    let mut response = hyper::Response::new(ResponseBody::default());
    *response.status_mut() = status;
    response.headers_mut().insert(CACHE_CONTROL, NO_STORE);
    response
}

/// Returns an empty 204 response whose `Allow` header lists the methods of the path.
pub(crate) fn options_response(allow: HeaderValue) -> Response {
    let mut response = hyper::Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(ALLOW, allow);
    response
}

/// Converts the response to a GET into the response to a HEAD: removes the body, and sets `Content-Length` to
/// the length of the body.
pub(crate) fn into_head_response(mut response: Response) -> Response {
    // A 304 response has no body, so the length of the file is not known here.
    let length = response.body().size_hint().exact();
    if let Some(length) = length.filter(|_| response.status() != StatusCode::NOT_MODIFIED) {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = ResponseBody::default();
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_carry_their_headers() {
        let refused = problem_response(&Error::new(Code::Unauthenticated, "send a token"));
        assert_eq!(refused.status(), 401);
        assert_eq!(refused.headers()[WWW_AUTHENTICATE], "Bearer");
        assert_eq!(refused.headers()[CONTENT_TYPE], "application/problem+json");
        let full = problem_response(&Error::new(Code::Overloaded, "full"));
        assert_eq!((full.status().as_u16(), &full.headers()[RETRY_AFTER]), (503, &HeaderValue::from(1)));
    }

    #[test]
    fn head_keeps_the_length() {
        let response = into_head_response(json_response(StatusCode::OK, Bytes::from_static(b"{\"a\":1}")));
        assert_eq!(response.headers()[CONTENT_LENGTH], "7");
        assert_eq!(response.body().size_hint().exact(), Some(0));
    }
}
