//! Checks the HTTP headers that repeat values of an MCP message, so that proxies can route the message
//! without reading the body.
//!
//! Since MCP revision 2026-07-28, these headers are required and must agree with the message. Text other than
//! visible ASCII is encoded as `=?base64?...?=`.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};
use svc_mcp_stdio::refusal::{Fault, Refusal};
use svc_mcp_stdio::request_context::RequestContext;
use svc_mcp_stdio::revision::Revision;
use svc_mcp_stdio::wire::Message;

use super::HANDSHAKE;

pub(super) const VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
const NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");
/// Prefix of the headers that repeat arguments of a tool call.
const PARAM_HEADER_PREFIX: &str = "mcp-param-";
/// Member of a property's JSON schema that contains the suffix of the property's header.
const SCHEMA_HEADER_MEMBER: &str = "x-mcp-header";

/// Returns the MCP revision in the header `MCP-Protocol-Version`, or the default revision if the header is
/// absent.
pub(super) fn requested_revision(headers: &HeaderMap) -> Result<Revision, Refusal> {
    let Some(named) = decode_single_header(headers, &VERSION_HEADER)? else { return Ok(Revision::UNSTATED) };
    Revision::from_date(&named).ok_or_else(|| Refusal::revision(&named))
}

/// Checks that the revision header, if present, equals the revision in the message, even one that the server
/// does not know.
pub(super) fn check_revision(headers: &HeaderMap, stated: Option<&str>) -> Result<(), Refusal> {
    stated.map_or(Ok(()), |stated| check_header_value(headers, &VERSION_HEADER, stated, false))
}

/// Checks that the MCP headers of a request agree with its message.
///
/// Revisions before 2026-07-28 do not require these headers, but a header that the client sends is checked.
pub(super) fn check_headers<'a>(
    headers: &HeaderMap,
    message: &Message,
    context: &RequestContext,
    schema: impl FnOnce() -> Option<&'a Value>,
) -> Result<(), Refusal> {
    let is_required = context.revision.is_stateless();
    if message.method != HANDSHAKE || is_required {
        check_header_value(headers, &VERSION_HEADER, context.revision.date(), is_required)?;
    }
    check_header_value(headers, &METHOD_HEADER, &message.method, is_required)?;
    let member = match message.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return Ok(()),
    };
    if let Some(name) = message.params.string(member) {
        check_header_value(headers, &NAME_HEADER, &name, is_required)?;
    }
    if is_required && message.method == "tools/call" {
        check_argument_headers(headers, message, schema)?;
    }
    Ok(())
}

/// Checks that a header, if present, has the value `wanted`. Fails if a required header is absent.
fn check_header_value(
    headers: &HeaderMap,
    name: &HeaderName,
    wanted: &str,
    is_required: bool,
) -> Result<(), Refusal> {
    match decode_single_header(headers, name)? {
        Some(said) if said == wanted => Ok(()),
        Some(_) => Err(header_mismatch(format!("the header {name} does not match the message"))),
        None if is_required => Err(header_mismatch(format!("the header {name} is missing"))),
        None => Ok(()),
    }
}

/// Checks that the headers `Mcp-Param-*` agree with the arguments of a tool call.
fn check_argument_headers<'a>(
    headers: &HeaderMap,
    message: &Message,
    schema: impl FnOnce() -> Option<&'a Value>,
) -> Result<(), Refusal> {
    let mut repeated = Vec::new();
    if let Some(schema) = schema() {
        collect_header_properties(schema, &mut Vec::new(), &mut repeated);
    }
    if repeated.is_empty() {
        return Ok(());
    }
    let arguments: Map<String, Value> = message.params.read("arguments").ok().flatten().unwrap_or_default();
    for (path, suffix) in repeated {
        let Ok(name) = HeaderName::try_from(format!("{PARAM_HEADER_PREFIX}{}", suffix.to_ascii_lowercase()))
        else {
            continue;
        };
        let value = path.iter().fold(None, |of: Option<&Value>, member| match of {
            None => arguments.get(*member),
            Some(of) => of.get(*member),
        });
        let said = decode_single_header(headers, &name)?;
        match (value.filter(|value| !value.is_null()), said) {
            (None, None) => {}
            (None, Some(_)) => return Err(header_mismatch(format!("the header {name} repeats no argument"))),
            (Some(_), None) => return Err(header_mismatch(format!("the header {name} is missing"))),
            (Some(value), Some(said)) if header_equals_argument(&said, value) => {}
            (Some(_), Some(_)) => {
                return Err(header_mismatch(format!("the header {name} does not match the argument")));
            }
        }
    }
    Ok(())
}

/// Collects the properties of a schema that a header repeats: the path of each property, and the suffix of
/// its header.
fn collect_header_properties<'a>(
    schema: &'a Value,
    path: &mut Vec<&'a str>,
    properties_found: &mut Vec<(Vec<&'a str>, &'a str)>,
) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        path.push(name);
        if let Some(suffix) = property.get(SCHEMA_HEADER_MEMBER).and_then(Value::as_str) {
            properties_found.push((path.clone(), suffix));
        }
        collect_header_properties(property, path, properties_found);
        path.pop();
    }
}

/// Returns whether the text `header` of a header equals an argument.
fn header_equals_argument(header: &str, argument: &Value) -> bool {
    match argument {
        Value::String(text) => header == text,
        Value::Bool(flag) => header == if *flag { "true" } else { "false" },
        Value::Number(number) => number.as_i64().map_or_else(
            || header.parse::<f64>().ok() == number.as_f64(),
            |number| {
                header
                    .parse::<f64>()
                    .is_ok_and(|header| header.fract() == 0.0 && header_equals_integer(header, number))
            },
        ),
        _ => false,
    }
}

/// Returns whether a number in a header equals an integer argument, so that `42.0` equals `42`.
fn header_equals_integer(header: f64, argument: i64) -> bool {
    format!("{header:.0}") == argument.to_string()
}

/// Returns the decoded text of a header, or `None` if the header is absent. Fails if the header occurs more
/// than once or cannot be decoded.
fn decode_single_header<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<Cow<'a, str>>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(header_mismatch(format!("the header {name} is sent twice")));
    }
    decode_header_text(value)
        .map(Some)
        .ok_or_else(|| header_mismatch(format!("the header {name} cannot be decoded")))
}

fn decode_header_text(value: &HeaderValue) -> Option<Cow<'_, str>> {
    let text = value.to_str().ok()?.trim();
    let encoded = text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok().map(Cow::Owned),
        None => Some(Cow::Borrowed(text)),
    }
}

fn header_mismatch(message: String) -> Refusal {
    Refusal::new(Fault::Headers, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_may_be_encoded() {
        let read =
            |value: &str| decode_header_text(&HeaderValue::from_str(value).unwrap()).map(Cow::into_owned);
        assert_eq!(read(" plain "), Some("plain".to_owned()));
        assert_eq!(read("=?base64?w6Q=?="), Some("ä".to_owned()));
        assert_eq!(read("=?base64?/w==?="), None, "no UTF-8");
        assert_eq!(read("=?base64?!?="), None);
        assert_eq!(decode_header_text(&HeaderValue::from_bytes(&[0xe4]).unwrap()), None);
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        let cases = [
            ("42", json!(42), true),
            ("42.0", json!(42), true),
            ("42.5", json!(42), false),
            ("4.25", json!(4.25), true),
            ("true", json!(true), true),
            ("True", json!(true), false),
            ("x", json!("x"), true),
            ("x", json!(["x"]), false),
        ];
        for (said, value, is_same) in cases {
            assert_eq!(header_equals_argument(said, &value), is_same, "{said} {value}");
        }
    }

    #[test]
    fn headers_of_nested_arguments_are_found() {
        let schema = json!({"properties": {
            "a": {"x-mcp-header": "Region"},
            "b": {"properties": {"c": {"x-mcp-header": "Deep"}}},
        }});
        let mut found = Vec::new();
        collect_header_properties(&schema, &mut Vec::new(), &mut found);
        found.sort();
        assert_eq!(found, [(vec!["a"], "Region"), (vec!["b", "c"], "Deep"),]);
    }
}
