//! Serves the page of each problem type, at the path that identifies the type.
//!
//! A page explains what the problem means and what to do. It is JSON unless the client prefers text, as
//! browsers do.

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use svc_core::{Code, Error, PROBLEM_BASE, Result};

use crate::accept::AcceptedTypes;
use crate::encode::{self, Response};

/// Returns the page of the problem type at `path`, which starts with [`PROBLEM_BASE`].
pub(crate) fn problem_page(path: &str, headers: &HeaderMap) -> Result<Response> {
    let name = path.strip_prefix(PROBLEM_BASE).map(|name| name.strip_suffix('/').unwrap_or(name));
    let code = name.and_then(Code::named);
    let unknown = || Error::new(Code::NotFound, "there is no such problem type; svc-errors(7) lists them");
    let page = code.ok_or_else(unknown)?.page();
    let mut response = if prefers_text(headers) {
        let mut response = encode::json_response(StatusCode::OK, page.to_string().into());
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response
    } else {
        encode::json_response(StatusCode::OK, serde_json::to_vec(&page).map_err(Error::internal)?.into())
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// Returns whether the Accept header prefers plain text or HTML to JSON.
fn prefers_text(headers: &HeaderMap) -> bool {
    let accepted = AcceptedTypes::from_headers(headers);
    let text = accepted.weight("text", "plain").max(accepted.weight("text", "html"));
    text > accepted.weight("application", "json")
}

#[cfg(test)]
mod tests {
    use hyper::header::ACCEPT;

    use super::*;

    fn accepting(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !accept.is_empty() {
            headers.insert(ACCEPT, accept.parse().unwrap());
        }
        headers
    }

    #[test]
    fn text_is_served_where_preferred() {
        let cases = [
            ("", false),
            ("*/*", false),
            ("application/json", false),
            ("text/plain", true),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("application/json, text/plain;q=0.5", false),
            ("application/json;q=0.2, text/*", true),
            ("text/plain;q=0", false),
            ("nonsense", false),
        ];
        for (accept, text) in cases {
            assert_eq!(prefers_text(&accepting(accept)), text, "{accept}");
        }
    }

    #[test]
    fn every_problem_type_has_a_page() {
        for code in Code::ALL {
            let page = problem_page(&code.address(), &accepting("text/plain")).unwrap();
            assert_eq!(page.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
        }
        assert_eq!(problem_page("/problems/nonsense", &accepting("")).err().unwrap().code(), Code::NotFound);
    }
}
