//! The trees of texts for the board: JSON, by the session of a browser.
//!
//! The row only reads, but by a POST, since texts are too long for a query: so a cookie counts only from a
//! page of this service.

use svc_core::Error;
use svc_core::op::Reply;

use super::Framing;
use crate::encode::{self, Response};
use crate::state::ServerState;
use crate::ui;

/// Texts in Markdown as trees.
pub(super) struct Markdown;

impl Framing for Markdown {
    fn is_served(&self, state: &ServerState) -> bool {
        state.service.session_key().is_some()
    }

    fn answer(&self, _state: &ServerState, reply: &Reply) -> Response {
        of_board(encode::reply(reply))
    }

    fn refusal(&self, error: &Error) -> Response {
        of_board(encode::problem(error))
    }
}

/// Returns a response with the headers of paths below `/ui/`, without a position in a log.
fn of_board(response: Response) -> Response {
    let mut response = ui::protected(response);
    encode::remove_lsn(response.headers_mut());
    response
}
