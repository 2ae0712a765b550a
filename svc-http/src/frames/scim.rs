//! SCIM (RFC 7644): its media type, its errors, and addresses that name this service.
//!
//! Names of attributes are in any case, and what a row does not take is left out, because identity providers
//! send all that they have; the log tells of each such name once. Every failure below `/scim/v2` is that
//! RFC's error, also where no route matches: this is the one exception to problems. The headers of a failure
//! are those of the problem that it would be.

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use serde_json::{Map, Value, json};
use svc_core::ignored;
use svc_core::json::{Unread, read_at_most};
use svc_core::op::{self, Reply};
use svc_core::{Error, Result};

use futures_util::future::BoxFuture;

use super::{Call, Framing, Received};
use crate::decode::{self, Text};
use crate::encode::{self, Response};

const SCIM: HeaderValue = HeaderValue::from_static("application/scim+json");
/// Where everything of SCIM is.
pub(super) const BASE: &str = "/scim/v2";
/// Most values of a body, counted over all depths.
const VALUES_MAX: usize = 100_000;

/// What RFC 7644 lets a query say.
const QUERY: [&str; 7] =
    ["filter", "startIndex", "count", "attributes", "excludedAttributes", "sortBy", "sortOrder"];

/// The resources of SCIM.
pub(super) struct Scim;

impl Framing for Scim {
    fn input(&self, received: Received) -> Result<op::Input> {
        let schema = received.row.input_schema();
        let none = Map::new();
        let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let mut text = received.text;
        let mut query = Text::new();
        decode::query(received.head.uri.query(), &mut query)?;
        query.retain(|(name, _)| QUERY.contains(&name.as_str()) && fields.contains_key(name));
        let mut members = if received.body.is_empty() { Map::new() } else { object(&received.body)? };
        if !received.row.effect().changes_nothing() {
            // In a resource they are attributes that it happens to have, such as `attributes` of Keycloak.
            members.retain(|name, _| !QUERY.iter().any(|asked| asked.eq_ignore_ascii_case(name)));
        }
        members = known(members, fields)?;
        // The path says which resource it is, whatever the body repeats.
        members.retain(|name, _| text.iter().all(|(named, _)| named != name));
        text.extend(query);
        let body = serde_json::to_vec(&members).map_err(Error::internal)?;
        Ok(op::Input { text, body: body.into(), ..op::Input::default() })
    }

    fn refusal(&self, error: &Error) -> Response {
        refusal(error)
    }

    fn respond<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            let own = call.state.own_address(call.uri()?, call.headers()?);
            let mut call = call;
            let head = call.head().await?;
            let admission = call.admit(head).await?;
            let received = call.read(&admission).await;
            let input = match received.and_then(|received| self.input(received)) {
                Ok(input) => input,
                Err(refusal) => return Err(call.refuse(admission, refusal).await),
            };
            call.run(admission, &input, |reply| answer(reply, &own)).await
        })
    }
}

/// Reads the body of a request.
fn object(body: &[u8]) -> Result<Map<String, Value>> {
    let unread = |detail: &'static str| Error::malformed(detail).with("scimType", "invalidSyntax");
    match read_at_most(&substituted(body), VALUES_MAX) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(unread("the body is not a JSON object")),
        Err(Unread::NotJson) => Err(unread("the body is not JSON")),
        Err(Unread::Twice) => Err(unread("a member of the body appears twice")),
        Err(Unread::TooMany) => Err(unread("the body has too many values")),
    }
}

/// Puts the control character SUBSTITUTE in the place of what nothing keeps: NUL, and half of a surrogate
/// pair, which a name has that was cut within a character.
///
/// What decides refuses it, and what decorates has a space for it.
fn substituted(body: &[u8]) -> Vec<u8> {
    let unit = |at: usize| {
        let digits = body.get(at..at.checked_add(6)?)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut written, mut at) = (Vec::with_capacity(body.len()), 0_usize);
    while let Some(byte) = body.get(at) {
        let (first, second) = (unit(at), unit(at.saturating_add(6)));
        let length = match (first, second) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0 | 0xd800..=0xdfff), _) => 6,
            // What is escaped does not begin an escape.
            _ if *byte == b'\\' => 2,
            _ => 1,
        };
        let end = at.saturating_add(length).min(body.len());
        match length {
            6 => written.extend_from_slice(b"\\u001a"),
            _ => written.extend_from_slice(body.get(at..end).unwrap_or_default()),
        }
        at = end;
    }
    written
}

/// Returns the members that a row takes, by the names that it has for them.
fn known(members: Map<String, Value>, fields: &Map<String, Value>) -> Result<Map<String, Value>> {
    let mut known = Map::new();
    for (name, value) in members {
        let Some(field) = fields.keys().find(|field| field.eq_ignore_ascii_case(&name)) else {
            ignored::note("SCIM", &name, "it is not kept");
            continue;
        };
        if known.insert(field.clone(), value).is_some() {
            let detail = format!("the attribute {field} appears twice");
            return Err(Error::malformed(detail).with("scimType", "invalidSyntax"));
        }
    }
    Ok(known)
}

/// Returns the response of a success.
fn answer(reply: &Reply, own: &str) -> Response {
    let mut response = if reply.status == StatusCode::NO_CONTENT.as_u16() {
        encode::empty(StatusCode::NO_CONTENT)
    } else {
        match resource(reply, own) {
            Ok(response) => response,
            Err(error) => return refusal(&error),
        }
    };
    encode::insert_lsn(response.headers_mut(), reply.lsn);
    response
}

/// Returns the response with a resource, whose addresses name this service.
fn resource(reply: &Reply, own: &str) -> Result<Response> {
    let mut body: Value = serde_json::from_slice(&reply.body()?).map_err(Error::internal)?;
    complete(&mut body, own);
    let location = body.pointer("/meta/location").and_then(Value::as_str);
    let location = location.map(HeaderValue::from_str).transpose().map_err(Error::internal)?;
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
    let bytes = serde_json::to_vec(&body).map_err(Error::internal)?;
    let mut response = encode::json(status, bytes.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, SCIM);
    if let Some(location) = location {
        headers.insert(LOCATION, location);
    }
    Ok(response)
}

/// Puts the address of this service before each `location` and `$ref`.
fn complete(value: &mut Value, own: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| complete(item, own)),
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(path)
                        if matches!(&**name, "location" | "$ref") && path.starts_with(BASE) =>
                    {
                        path.insert_str(0, own);
                    }
                    _ => complete(value, own),
                }
            }
        }
        _ => {}
    }
}

/// Returns the response of a failure below `/scim/v2`.
fn refusal(error: &Error) -> Response {
    of_problem(encode::problem(error), error)
}

/// Returns the same failure with the body of RFC 7644 (3.12).
fn of_problem(problem: Response, error: &Error) -> Response {
    let said = serde_json::to_value(error.problem()).unwrap_or_default();
    let status = problem.status();
    let kind = said.get("scimType").cloned();
    let kind = kind.or_else(|| (status == StatusCode::BAD_REQUEST).then(|| "invalidValue".into()));
    let mut body = json!({
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:Error"],
        "status": status.as_str(),
        "detail": said.get("detail"),
    });
    if let (Some(kind), Some(members)) = (kind, body.as_object_mut()) {
        members.insert("scimType".to_owned(), kind);
    }
    let mut response = encode::json(status, serde_json::to_vec(&body).unwrap_or_default().into());
    *response.headers_mut() = problem.headers().clone();
    response.headers_mut().insert(CONTENT_TYPE, SCIM);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_in_any_case_and_others_are_dropped() {
        let fields = json!({"userName": {}, "Operations": {}});
        let fields = fields.as_object().unwrap();
        let sent = |body: Value| known(body.as_object().unwrap().clone(), fields).map(Value::from);
        assert_eq!(
            sent(json!({"USERNAME": 1, "operations": [], "emails": []})).unwrap(),
            json!({"userName": 1, "Operations": []})
        );
        assert!(sent(json!({"userName": 1, "username": 2})).is_err());
        for body in ["[]", "{", "{\"a\":1,\"a\":2}"] {
            assert_eq!(refusal(&object(body.as_bytes()).unwrap_err()).status(), 400, "{body}");
        }
    }

    #[test]
    fn characters_that_nothing_keeps_are_substituted() {
        for (sent, wanted) in [
            (r"A\u0000da", "A\u{1a}da"),
            (r"Ada \ud83d", "Ada \u{1a}"),
            (r"\uDE00\ud83d", "\u{1a}\u{1a}"),
            (r"\ud83d\ud83d\ude00\u0041", "\u{1a}\u{1f600}A"),
            (r"\\u0000\u0041\n", "\\u0000A\n"),
            ("é\u{1f600}", "é\u{1f600}"),
        ] {
            let body = format!("{{\"displayName\": \"{sent}\"}}");
            assert_eq!(object(body.as_bytes()).unwrap()["displayName"], wanted, "{sent}");
        }
        for body in ["", "\\", "{\"a\": \"\\u00\"}", "{\"a\": \"\\"] {
            assert!(object(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn addresses_name_the_service() {
        let mut body = json!({"Resources": [{"meta": {"location": "/scim/v2/Users/1"},
                                             "userName": "/scim/v2"}],
                              "$ref": "/scim/v2/Users/2", "location": "elsewhere"});
        complete(&mut body, "http://svc.example");
        assert_eq!(
            body,
            json!({"Resources": [{"meta": {"location": "http://svc.example/scim/v2/Users/1"},
                                  "userName": "/scim/v2"}],
                   "$ref": "http://svc.example/scim/v2/Users/2", "location": "elsewhere"})
        );
    }
}
