//! Serves the page and the files of the board, and redirects the root path to the board.
//!
//! These routes run no operation. The Host of a request must be this server. A refused browser gets a page
//! with the reason, because browsers do not display problem documents well.

use futures_util::future::BoxFuture;
use hyper::StatusCode;
use hyper::header::{HeaderValue, LOCATION};
use svc_core::{Code, Error, Result};

use super::{FrameCall, Framing};
use crate::encode::{self, Response};
use crate::ui;

/// Frame of the board's page and files.
pub(super) struct Board;

impl Framing for Board {
    fn error_response(&self, error: &Error) -> Response {
        ui::with_security_headers(encode::problem_response(error))
    }

    fn options_response(&self, allow: HeaderValue) -> Response {
        ui::with_security_headers(encode::options_response(allow))
    }

    fn respond<'a>(&'a self, call: FrameCall<'a>) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            let accepts_page = call.accepts_html()?;
            match serve_or_redirect(call, accepts_page).await {
                Err(refusal) if accepts_page => Ok(ui::error_page(&refusal, None)),
                answered => answered,
            }
        })
    }
}

async fn serve_or_redirect(mut call: FrameCall<'_>, accepts_page: bool) -> Result<Response> {
    let head = call.request_head().await?;
    let found = if call.is_redirect() { None } else { Some(serve_file(&call).await) };
    if let Some(Ok(response)) = found {
        // Requests for the board's files do not count towards a rate limit, since one page may load more
        // files than the limit allows.
        call.discard_body().await;
        return Ok(response);
    }
    let admission = call.admit(head).await?;
    match found.unwrap_or_else(|| redirect_to_board(&call, accepts_page)) {
        Ok(response) => {
            call.discard_body().await;
            Ok(response)
        }
        Err(refusal) => {
            let refusal = call.record_refusal(admission, refusal).await;
            call.discard_body().await;
            Err(refusal)
        }
    }
}

async fn serve_file(call: &FrameCall<'_>) -> Result<Response> {
    call.state.board.response(call.uri()?.path(), call.headers()?).await
}

/// Redirects to the board and keeps the query. At the root path, redirects only clients that accept HTML.
fn redirect_to_board(call: &FrameCall<'_>, accepts_page: bool) -> Result<Response> {
    if call.uri()?.path() == "/" && !accepts_page {
        return Err(Error::new(Code::UnknownRoute, "there is no route /; see GET /openapi.json"));
    }
    let mut response = encode::empty_response(StatusCode::SEE_OTHER);
    let mut location = call.state.redirect_location(call.uri()?.path(), "/ui/");
    if let Some(query) = call.uri()?.query() {
        location.push('?');
        location.push_str(query);
    }
    response.headers_mut().insert(LOCATION, HeaderValue::from_str(&location).map_err(Error::internal)?);
    Ok(ui::with_security_headers(response))
}
