//! Parses Markdown texts for the board, and returns the parsed trees as JSON to a browser with a session.
//!
//! The request changes nothing, but is a POST because texts are too long for a query. As with any POST, the
//! session cookie is accepted only if a page of this service has sent the request.

use svc_core::Error;
use svc_core::op::Reply;

use super::Framing;
use crate::encode::{self, Response};
use crate::state::ServerState;
use crate::ui;

/// Frame that parses Markdown texts into trees.
pub(super) struct Markdown;

impl Framing for Markdown {
    fn is_served(&self, state: &ServerState) -> bool {
        state.service.session_key().is_some()
    }

    fn response(&self, _state: &ServerState, reply: &Reply) -> Response {
        with_board_headers(encode::reply_response(reply))
    }

    fn error_response(&self, error: &Error) -> Response {
        with_board_headers(encode::problem_response(error))
    }
}

/// Adds the headers of responses below `/ui/`, and removes the log position.
fn with_board_headers(response: Response) -> Response {
    let mut response = ui::with_security_headers(response);
    encode::remove_lsn_header(response.headers_mut());
    response
}
