//! The page where a person decides about an approval gate: static markup, one script, and what it shows.
//!
//! What it shows is data that the script puts in as text. The script posts what the person decides to the
//! route of the operation, as any client does; the page has no route for a form. It loads nothing, and cannot
//! be put into the page of another site. A refusal is a page, too, and without a session one to sign in.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use hyper::StatusCode;
use hyper::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use serde_json::{Value, json};
use svc_core::hash::sha256;
use svc_core::op::Reply;
use svc_core::{Code, Error, Result};
use svc_mcp_stdio::card::{SCRIPT, STYLE};

use super::{Call, Framing, in_usual_steps};
use crate::encode::{self, Response};
use crate::html::Form;
use crate::state::ServerState;

/// Where a browser signs in with a token.
const SIGN_IN: &str = "/auth/session/from-token";

/// What a link to an approval gate shows: JSON, or a page for a browser.
pub(super) struct Approval;

impl Framing for Approval {
    fn is_served(&self, state: &ServerState) -> bool {
        state.service.session_key().is_some()
    }

    fn respond<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            let form = call.form()?;
            if form != Form::Page {
                let mut response = in_usual_steps(self, call).await?;
                response.headers_mut().insert(VARY, BY_FORM);
                return Ok(response);
            }
            let responded = in_usual_steps(&Page, call).await;
            Ok(responded.unwrap_or_else(|error| Page.refusal(&error)))
        })
    }
}

/// The same as a page.
struct Page;

impl Framing for Page {
    fn answer(&self, _: &ServerState, reply: &Reply) -> Response {
        let read = |body: Vec<u8>| serde_json::from_slice::<Value>(&body).map_err(Error::internal);
        match reply.body().and_then(read) {
            Ok(approval) => page(encode::reply(reply), &json!({"approval": approval})),
            Err(error) => self.refusal(&error),
        }
    }

    fn refusal(&self, error: &Error) -> Response {
        let data = match error.code() {
            Code::Unauthenticated => json!({"sign_in": {"path": SIGN_IN}}),
            _ => json!({"problem": error.problem()}),
        };
        page(encode::problem(error), &data)
    }
}

const BY_FORM: HeaderValue = HeaderValue::from_static("accept");

/// Returns a response with the page of `data` as its body.
fn page(mut response: Response, data: &Value) -> Response {
    *response.body_mut() = Bytes::from(markup(data)).into();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(VARY, BY_FORM);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // The address has the link.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    match HeaderValue::from_str(&POLICY) {
        Ok(policy) => drop(headers.insert(CONTENT_SECURITY_POLICY, policy)),
        // It is ASCII.
        Err(_) => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
    }
    response
}

/// The page's own script and stylesheet run, and nothing else; the script reaches this server alone.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(sha256(text.as_bytes())));
    format!(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; base-uri 'none'; form-action \
         'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
});

fn markup(data: &Value) -> String {
    // The data end where the next tag begins, so they have none.
    let data = data.to_string().replace('<', "\\u003c");
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>Approval</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <main></main>\n<script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_data_is_markup() {
        let words = "</script><script>alert(1)</script><!--";
        let markup = markup(&json!({"problem": {"detail": words}}));
        assert_eq!(markup.matches("<script").count(), 2);
        assert!(!markup.contains("<!--"));
        let (_, data) = markup.split_once("id=\"data\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["problem"]["detail"], words);
    }

    #[test]
    fn a_refusal_is_a_page_of_its_status() {
        for (code, wanted) in [(Code::Unauthenticated, "sign_in"), (Code::NotFound, "problem")] {
            let refused = Page.refusal(&Error::new(code, "x"));
            assert_eq!(refused.status().as_u16(), code.status());
            assert_eq!(refused.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
            let policy = refused.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
            assert!(policy.contains("script-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
            assert_eq!(refused.headers()[REFERRER_POLICY], "no-referrer", "{wanted}");
        }
    }
}
