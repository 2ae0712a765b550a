//! Checks the headers that repeat parts of an MCP message, with which proxies can route it without reading
//! the body.
//!
//! Since revision 2026-07-28 these headers are required and must agree with the message. Text other than
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

pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// Prefix of the headers that repeat arguments of a tool.
const PARAM: &str = "mcp-param-";
/// Name of the schema member that names the header of a property.
const IN_HEADER: &str = "x-mcp-header";

/// Returns the revision in the headers, or the default revision if the header is absent.
pub(super) fn revision(headers: &HeaderMap) -> Result<Revision, Refusal> {
    let Some(named) = one(headers, &VERSION)? else { return Ok(Revision::UNSTATED) };
    Revision::of(&named).ok_or_else(|| Refusal::revision(&named))
}

/// Checks that the revision header agrees with the revision that the message states, even if it is unknown.
pub(super) fn check_revision(headers: &HeaderMap, stated: Option<&str>) -> Result<(), Refusal> {
    stated.map_or(Ok(()), |stated| agree(headers, &VERSION, stated, false))
}

/// Checks that the headers agree with the message.
///
/// Earlier revisions do not require these headers, but they are checked if a client sends them.
pub(super) fn check<'a>(
    headers: &HeaderMap,
    message: &Message,
    context: &RequestContext,
    schema: impl FnOnce() -> Option<&'a Value>,
) -> Result<(), Refusal> {
    let is_required = context.revision.is_stateless();
    if message.method != HANDSHAKE || is_required {
        agree(headers, &VERSION, context.revision.date(), is_required)?;
    }
    agree(headers, &METHOD, &message.method, is_required)?;
    let member = match message.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return Ok(()),
    };
    if let Some(name) = message.params.string(member) {
        agree(headers, &NAME, &name, is_required)?;
    }
    if is_required && message.method == "tools/call" {
        check_arguments(headers, message, schema)?;
    }
    Ok(())
}

/// Checks that a header has the value `wanted`, and that a required header is present.
fn agree(headers: &HeaderMap, name: &HeaderName, wanted: &str, is_required: bool) -> Result<(), Refusal> {
    match one(headers, name)? {
        Some(said) if said == wanted => Ok(()),
        Some(_) => Err(mismatch(format!("the header {name} does not say what the message says"))),
        None if is_required => Err(mismatch(format!("the header {name} is missing"))),
        None => Ok(()),
    }
}

/// Checks that the headers that repeat arguments agree with the arguments of the call.
fn check_arguments<'a>(
    headers: &HeaderMap,
    message: &Message,
    schema: impl FnOnce() -> Option<&'a Value>,
) -> Result<(), Refusal> {
    let mut repeated = Vec::new();
    if let Some(schema) = schema() {
        collect(schema, &mut Vec::new(), &mut repeated);
    }
    if repeated.is_empty() {
        return Ok(());
    }
    let arguments: Map<String, Value> = message.params.read("arguments").ok().flatten().unwrap_or_default();
    for (path, suffix) in repeated {
        let Ok(name) = HeaderName::try_from(format!("{PARAM}{}", suffix.to_ascii_lowercase())) else {
            continue;
        };
        let value = path.iter().fold(None, |of: Option<&Value>, member| match of {
            None => arguments.get(*member),
            Some(of) => of.get(*member),
        });
        let said = one(headers, &name)?;
        match (value.filter(|value| !value.is_null()), said) {
            (None, None) => {}
            (None, Some(_)) => return Err(mismatch(format!("the header {name} repeats no argument"))),
            (Some(_), None) => return Err(mismatch(format!("the header {name} is missing"))),
            (Some(value), Some(said)) if says(&said, value) => {}
            (Some(_), Some(_)) => {
                return Err(mismatch(format!("the header {name} does not say what the argument says")));
            }
        }
    }
    Ok(())
}

/// Collects the properties that a header repeats, each with its path and the suffix of the header.
fn collect<'a>(schema: &'a Value, path: &mut Vec<&'a str>, found: &mut Vec<(Vec<&'a str>, &'a str)>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        path.push(name);
        if let Some(suffix) = property.get(IN_HEADER).and_then(Value::as_str) {
            found.push((path.clone(), suffix));
        }
        collect(property, path, found);
        path.pop();
    }
}

/// Returns whether the text of a header equals an argument.
fn says(said: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => said == text,
        Value::Bool(flag) => said == if *flag { "true" } else { "false" },
        Value::Number(number) => number.as_i64().map_or_else(
            || said.parse::<f64>().ok() == number.as_f64(),
            |number| said.parse::<f64>().is_ok_and(|said| said.fract() == 0.0 && same(said, number)),
        ),
        _ => false,
    }
}

/// Returns whether a number in a header equals an integer argument, so that `42.0` equals `42`.
fn same(said: f64, number: i64) -> bool {
    format!("{said:.0}") == number.to_string()
}

/// Returns the decoded text of a header, or `None` if it is absent. Fails if it is sent more than once.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<Cow<'a, str>>, Refusal> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format!("the header {name} is sent twice")));
    }
    text(value).map(Some).ok_or_else(|| mismatch(format!("the header {name} cannot be decoded")))
}

fn text(value: &HeaderValue) -> Option<Cow<'_, str>> {
    let text = value.to_str().ok()?.trim();
    let encoded = text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok().map(Cow::Owned),
        None => Some(Cow::Borrowed(text)),
    }
}

fn mismatch(message: String) -> Refusal {
    Refusal::new(Fault::Headers, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_may_be_encoded() {
        let read = |value: &str| text(&HeaderValue::from_str(value).unwrap()).map(Cow::into_owned);
        assert_eq!(read(" plain "), Some("plain".to_owned()));
        assert_eq!(read("=?base64?w6Q=?="), Some("ä".to_owned()));
        assert_eq!(read("=?base64?/w==?="), None, "no UTF-8");
        assert_eq!(read("=?base64?!?="), None);
        assert_eq!(text(&HeaderValue::from_bytes(&[0xe4]).unwrap()), None);
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
            assert_eq!(says(said, &value), is_same, "{said} {value}");
        }
    }

    #[test]
    fn headers_of_nested_arguments_are_found() {
        let schema = json!({"properties": {
            "a": {"x-mcp-header": "Region"},
            "b": {"properties": {"c": {"x-mcp-header": "Deep"}}},
        }});
        let mut found = Vec::new();
        collect(&schema, &mut Vec::new(), &mut found);
        found.sort();
        assert_eq!(found, [(vec!["a"], "Region"), (vec!["b", "c"], "Deep"),]);
    }
}
