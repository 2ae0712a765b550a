//! Renders the output of an operation as an HTML page without scripts, for people.
//!
//! An operation declares whether it has a page. The page lists the names and values of the output, loads
//! nothing, and cannot be embedded by another site. Failures are problems, as for every other route.

use hyper::HeaderMap;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, VARY, X_CONTENT_TYPE_OPTIONS};
use serde_json::{Map, Value};
use svc_core::op::{Operation, Reply};
use svc_core::{Error, Result};

use crate::accept::AcceptedTypes;
use crate::encode::{self, Response};

/// Format of an operation's output in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputFormat {
    /// JSON, because the operation has no page.
    Json,
    /// JSON, because the client does not prefer the operation's page.
    JsonPreferred,
    /// The HTML page.
    Page,
}

impl OutputFormat {
    /// Returns the format that the Accept header of a request selects.
    pub fn select(operation: &Operation, headers: &HeaderMap) -> Self {
        if !operation.http().is_page {
            return Self::Json;
        }
        let accepted = AcceptedTypes::from_headers(headers);
        let wants_page = accepted.weight("text", "html") > accepted.weight("application", "json");
        if wants_page { Self::Page } else { Self::JsonPreferred }
    }

    /// Returns the response for a successful reply in this format.
    pub fn response(self, operation: &Operation, reply: &Reply) -> Response {
        let mut response = encode::reply_response(reply);
        if self == Self::Json {
            return response;
        }
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        if self == Self::JsonPreferred {
            return response;
        }
        match render_page(operation.docs().title, reply) {
            Ok(page) => {
                *response.body_mut() = page.into();
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
                headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(LOADS_NOTHING_POLICY));
                headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
                response
            }
            Err(error) => encode::problem_response(&error),
        }
    }
}

const LOADS_NOTHING_POLICY: &str =
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn render_page(title: &str, reply: &Reply) -> Result<bytes::Bytes> {
    let output: Value = serde_json::from_slice(&reply.body()?).map_err(Error::internal)?;
    let title = escape_html(title);
    let mut body = String::new();
    write_value(&mut body, &output);
    Ok(format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         </head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
    .into())
}

/// Appends a JSON value as HTML. An object becomes a description list, which may be nested.
fn write_value(page: &mut String, value: &Value) {
    match value {
        Value::Object(members) => write_members(page, members),
        Value::Array(items) => {
            page.push_str("<ul>\n");
            for item in items {
                page.push_str("<li>");
                write_value(page, item);
                page.push_str("</li>\n");
            }
            page.push_str("</ul>\n");
        }
        Value::String(text) => page.push_str(&escape_html(text)),
        Value::Null => page.push_str("none"),
        Value::Bool(_) | Value::Number(_) => page.push_str(&escape_html(&value.to_string())),
    }
}

fn write_members(page: &mut String, members: &Map<String, Value>) {
    page.push_str("<dl>\n");
    for (name, value) in members {
        page.push_str("<dt>");
        page.push_str(&escape_html(&name.replace('_', " ")));
        page.push_str("</dt>\n<dd>");
        write_value(page, value);
        page.push_str("</dd>\n");
    }
    page.push_str("</dl>\n");
}

/// Escapes text for HTML.
pub(crate) fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(value: &Value) -> String {
        let mut page = String::new();
        write_value(&mut page, value);
        page
    }

    #[test]
    fn every_name_and_value_is_on_the_page() {
        let output = json!({"a_name": {"count": 3, "limit": null}, "list": [true, "x"]});
        let wanted = "<dl>\n<dt>a name</dt>\n<dd><dl>\n<dt>count</dt>\n<dd>3</dd>\n<dt>limit</dt>\n\
                      <dd>none</dd>\n</dl>\n</dd>\n<dt>list</dt>\n<dd><ul>\n<li>true</li>\n<li>x</li>\n\
                      </ul>\n</dd>\n</dl>\n";
        assert_eq!(shown(&output), wanted);
    }

    #[test]
    fn nothing_in_an_output_is_markup() {
        let page = shown(&json!({"<script>alert(1)</script>": "a & b \" ' <img src=x onerror=y>"}));
        assert_eq!(
            page,
            "<dl>\n<dt>&lt;script&gt;alert(1)&lt;/script&gt;</dt>\n\
             <dd>a &amp; b &quot; &#39; &lt;img src=x onerror=y&gt;</dd>\n</dl>\n"
        );
    }
}
