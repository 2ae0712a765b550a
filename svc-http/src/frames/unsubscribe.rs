//! Serves the unsubscribe link of a mail (RFC 8058): a page with a button, and the request that the button
//! sends.
//!
//! Only the path of the link matters: the server ignores cookies, Origin, query and body. A browser gets
//! pages without scripts, and other clients get JSON.

use futures_util::future::BoxFuture;
use hyper::header::{HeaderValue, VARY};
use svc_core::{Error, Result};

use super::{FrameCall, Framing};
use crate::encode::{self, Response};
use crate::html::OutputFormat;
use crate::ui;

/// Frame of the unsubscribe link in a mail.
pub(super) struct Unsubscribe;

impl Framing for Unsubscribe {
    fn error_response(&self, error: &Error) -> Response {
        ui::with_security_headers(encode::problem_response(error))
    }

    fn respond<'a>(&'a self, call: FrameCall<'a>) -> BoxFuture<'a, Result<Response>> {
        Box::pin(respond(call))
    }
}

async fn respond(call: FrameCall<'_>) -> Result<Response> {
    let board = call.state.redirect_location(call.uri()?.path(), "/ui/");
    let form = call.output_format()?;
    let is_question = call.is_read_only();
    let answered = unsubscribe_member(call).await;
    let mut response = match (form, answered) {
        (OutputFormat::Page, Ok(_)) if is_question => ui::unsubscribe_page(),
        (OutputFormat::Page, Ok(_)) => ui::unsubscribed_page(&board),
        (OutputFormat::Page, Err(refusal)) => ui::error_page(&refusal, Some(&board)),
        (_, answered) => {
            ui::with_security_headers(answered.unwrap_or_else(|refusal| encode::problem_response(&refusal)))
        }
    };
    encode::remove_lsn_header(response.headers_mut());
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

async fn unsubscribe_member(mut call: FrameCall<'_>) -> Result<Response> {
    let head = call.request_head_unchecked().await?;
    let admission = call.admit(head).await?;
    match call.path_input().await {
        Ok(input) => call.run(admission, &input, encode::reply_response).await,
        Err(refusal) => Err(call.record_refusal(admission, refusal).await),
    }
}
