//! Serves the page and the files of the board, and the redirect from the root, to clients that name this
//! server as the host.
//!
//! These routes run no operation. If a browser is refused, for example because it calls the server by another
//! name, it gets a page with the reason, since users do not see the body of a problem.

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
    fn refusal(&self, error: &Error) -> Response {
        ui::protected(encode::problem(error))
    }

    fn options(&self, allow: HeaderValue) -> Response {
        ui::protected(encode::options(allow))
    }

    fn respond<'a>(&'a self, call: FrameCall<'a>) -> BoxFuture<'a, Result<Response>> {
        Box::pin(async move {
            let takes_page = call.takes_page()?;
            match answer(call, takes_page).await {
                Err(refusal) if takes_page => Ok(ui::error_page(&refusal, None)),
                answered => answered,
            }
        })
    }
}

async fn answer(mut call: FrameCall<'_>, takes_page: bool) -> Result<Response> {
    let head = call.head().await?;
    let found = if call.redirects() { None } else { Some(serve(&call).await) };
    if let Some(Ok(response)) = found {
        // These requests do not count towards a rate limit, since one page may load more files than the limit
        // allows.
        call.discard().await;
        return Ok(response);
    }
    let admission = call.admit(head).await?;
    match found.unwrap_or_else(|| go(&call, takes_page)) {
        Ok(response) => {
            call.discard().await;
            Ok(response)
        }
        Err(refusal) => {
            let refusal = call.refuse(admission, refusal).await;
            call.discard().await;
            Err(refusal)
        }
    }
}

async fn serve(call: &FrameCall<'_>) -> Result<Response> {
    call.state.board.response(call.uri()?.path(), call.headers()?).await
}

/// Redirects to the board and keeps the query. At the root, only clients that accept a page are redirected.
fn go(call: &FrameCall<'_>, takes_page: bool) -> Result<Response> {
    if call.uri()?.path() == "/" && !takes_page {
        return Err(Error::new(Code::UnknownRoute, "there is no route /; see GET /openapi.json"));
    }
    let mut response = encode::empty(StatusCode::SEE_OTHER);
    let mut location = call.state.location(call.uri()?.path(), "/ui/");
    if let Some(query) = call.uri()?.query() {
        location.push('?');
        location.push_str(query);
    }
    response.headers_mut().insert(LOCATION, HeaderValue::from_str(&location).map_err(Error::internal)?);
    Ok(ui::protected(response))
}
