//! Serves SCIM (RFC 7644), with its media type, its error format, and absolute URLs of this service.
//!
//! Attribute names are case-insensitive. Unknown attributes are ignored, because identity providers send
//! every attribute that they have; the server's log reports each ignored attribute once. Every failure below
//! `/scim/v2` is an error in the format of the RFC instead of a problem, even if no route matches. An error
//! has the same headers as the corresponding problem.

use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, HeaderValue, LOCATION};
use serde_json::{Map, Value, json};
use svc_core::ignored;
use svc_core::lenient::{self, ReadFailure};
use svc_core::op::{self, Reply};
use svc_core::{Error, Result};

use futures_util::future::BoxFuture;

use super::{FrameCall, Framing, ReceivedRequest};
use crate::decode::{self, TextFields};
use crate::encode::{self, Response};

const SCIM_MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/scim+json");
/// Base path of the SCIM routes.
pub(super) const BASE_PATH: &str = "/scim/v2";

/// Query fields that RFC 7644 defines.
const QUERY_FIELDS: [&str; 7] =
    ["filter", "startIndex", "count", "attributes", "excludedAttributes", "sortBy", "sortOrder"];

/// Frame of the SCIM resources.
pub(super) struct Scim;

impl Framing for Scim {
    fn decode_input(&self, received: ReceivedRequest) -> Result<op::Input> {
        let schema = received.row.input_schema();
        let none = Map::new();
        let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let mut text = received.text;
        let mut query = TextFields::new();
        decode::append_query_fields(received.head.uri.query(), &mut query)?;
        query.retain(|(name, _)| QUERY_FIELDS.contains(&name.as_str()) && fields.contains_key(name));
        let is_search = received.row.effect().is_read_only();
        let named = |name: &str| {
            // In a resource, a member with the name of a query field is an unrelated attribute, such as
            // Keycloak's `attributes`.
            let is_asked = !is_search && QUERY_FIELDS.iter().any(|asked| asked.eq_ignore_ascii_case(name));
            let field = if is_asked { None } else { field_of(name, fields) };
            // The path identifies the resource, even if the body contains the same field.
            field.filter(|field| text.iter().all(|(named, _)| named != field))
        };
        let members = if received.body.is_empty() { Map::new() } else { row_fields(&received.body, named)? };
        text.extend(query);
        for (_, value) in &mut text {
            *value = lenient::text(value);
        }
        let body = serde_json::to_vec(&members).map_err(Error::internal)?;
        Ok(op::Input { text, body: body.into(), ..op::Input::default() })
    }

    fn error_response(&self, error: &Error) -> Response {
        scim_error_response(error)
    }

    fn respond<'a>(&'a self, call: FrameCall<'a>) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            let own = call.state.base_url(call.uri()?, call.headers()?);
            let mut call = call;
            let head = call.request_head().await?;
            let admission = call.admit(head).await?;
            let received = call.read_body(&admission).await;
            let input = match received.and_then(|received| self.decode_input(received)) {
                Ok(input) => input,
                Err(refusal) => return Err(call.record_refusal(admission, refusal).await),
            };
            call.run(admission, &input, |reply| scim_response(reply, &own)).await
        })
    }
}

/// Returns the members of a JSON body that match fields of the row, under the names of those fields.
fn row_fields(body: &[u8], field_name: impl Fn(&str) -> Option<String>) -> Result<Map<String, Value>> {
    lenient::members(body, field_name).map_err(|unread| {
        let detail = match unread {
            ReadFailure::NotJson => "the body is not JSON",
            ReadFailure::NotAnObject => "the body is not a JSON object",
            ReadFailure::TooMany => "the body has too many values",
        };
        Error::malformed(detail).with("scimType", "invalidSyntax")
    })
}

/// Returns the field of a row whose name equals a member's name, ignoring case, or `None` if no field does.
fn field_of(name: &str, fields: &Map<String, Value>) -> Option<String> {
    let field = fields.keys().find(|field| field.eq_ignore_ascii_case(name));
    if field.is_none() {
        ignored::note("SCIM", name, "it is not kept");
    }
    field.cloned()
}

/// Returns the SCIM response for a successful reply. URLs in the response begin with `base_url`.
fn scim_response(reply: &Reply, base_url: &str) -> Response {
    let mut response = if reply.status == StatusCode::NO_CONTENT.as_u16() {
        encode::empty_response(StatusCode::NO_CONTENT)
    } else {
        match resource_response(reply, base_url) {
            Ok(response) => response,
            Err(error) => return scim_error_response(&error),
        }
    };
    encode::insert_lsn_header(response.headers_mut(), reply.lsn);
    response
}

/// Returns a response that contains a SCIM resource with absolute URLs of this service.
fn resource_response(reply: &Reply, base_url: &str) -> Result<Response> {
    let mut body: Value = serde_json::from_slice(&reply.body()?).map_err(Error::internal)?;
    make_urls_absolute(&mut body, base_url);
    let location = body.pointer("/meta/location").and_then(Value::as_str);
    let location = location.map(HeaderValue::from_str).transpose().map_err(Error::internal)?;
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
    let bytes = serde_json::to_vec(&body).map_err(Error::internal)?;
    let mut response = encode::json_response(status, bytes.into());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, SCIM_MEDIA_TYPE);
    if let Some(location) = location {
        headers.insert(LOCATION, location);
    }
    Ok(response)
}

/// Prepends the address of this service to each SCIM path in a `location` or `$ref` member.
fn make_urls_absolute(value: &mut Value, base_url: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| make_urls_absolute(item, base_url)),
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(path)
                        if matches!(&**name, "location" | "$ref") && path.starts_with(BASE_PATH) =>
                    {
                        path.insert_str(0, base_url);
                    }
                    _ => make_urls_absolute(value, base_url),
                }
            }
        }
        _ => {}
    }
}

/// Returns the SCIM error response for a failure below `/scim/v2`.
fn scim_error_response(error: &Error) -> Response {
    with_scim_body(encode::problem_response(error), error)
}

/// Replaces the body of a problem response with a SCIM error (RFC 7644, 3.12).
fn with_scim_body(problem: Response, error: &Error) -> Response {
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
    let mut response = encode::json_response(status, serde_json::to_vec(&body).unwrap_or_default().into());
    *response.headers_mut() = problem.headers().clone();
    response.headers_mut().insert(CONTENT_TYPE, SCIM_MEDIA_TYPE);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_in_any_case_and_others_are_dropped() {
        let fields = json!({"userName": {}, "Operations": {}});
        let fields = fields.as_object().unwrap();
        let sent = |body: &str| row_fields(body.as_bytes(), |name| field_of(name, fields)).map(Value::from);
        assert_eq!(
            sent(r#"{"USERNAME": 1, "operations": [], "emails": [], "emails": 1e999}"#).unwrap(),
            json!({"userName": 1, "Operations": []})
        );
        for body in ["[]", "{"] {
            assert_eq!(scim_error_response(&sent(body).unwrap_err()).status(), 400, "{body}");
        }
    }

    #[test]
    fn addresses_name_the_service() {
        let mut body = json!({"Resources": [{"meta": {"location": "/scim/v2/Users/1"},
                                             "userName": "/scim/v2"}],
                              "$ref": "/scim/v2/Users/2", "location": "elsewhere"});
        make_urls_absolute(&mut body, "http://svc.example");
        assert_eq!(
            body,
            json!({"Resources": [{"meta": {"location": "http://svc.example/scim/v2/Users/1"},
                                  "userName": "/scim/v2"}],
                   "$ref": "http://svc.example/scim/v2/Users/2", "location": "elsewhere"})
        );
    }
}
