//! Serves the link to an approval gate: returns the gate as JSON, or the board's page, whose script requests
//! the gate as JSON.
//!
//! The page contains no data, but has the same status as the JSON response: for example 401 if the user must
//! sign in first, and 404 if the link has expired or the gate is decided. At a path that cannot be a screen
//! of the board, the browser gets a page with the error.

use futures_util::future::BoxFuture;
use hyper::header::{HeaderValue, VARY};
use svc_core::{Code, Error, Result};

use super::{FrameCall, Framing, admit_read_run};
use crate::encode::{self, Response};
use crate::html::OutputFormat;
use crate::state::ServerState;
use crate::ui::{self, Board};

/// Frame of the link to an approval gate.
pub(super) struct Approval;

impl Framing for Approval {
    fn is_served(&self, state: &ServerState) -> bool {
        state.service.session_key().is_some()
    }

    fn error_response(&self, error: &Error) -> Response {
        ui::with_security_headers(encode::problem_response(error))
    }

    fn respond<'a>(&'a self, call: FrameCall<'a>) -> BoxFuture<'a, Result<Response>> {
        Box::pin(self.open_gate(call))
    }
}

impl Approval {
    async fn open_gate(&self, call: FrameCall<'_>) -> Result<Response> {
        let form = call.output_format()?;
        let board = &call.state.board;
        let path = call.uri()?.path().to_owned();
        if form == OutputFormat::Page
            && let Err(refusal) = call.state.hosts.check_target_and_origin(call.uri()?, call.headers()?)
        {
            return Ok(ui::error_page(&refusal, None));
        }
        let opened = admit_read_run(self, call).await;
        let response = match opened {
            // No link leads to such a path. An anonymous caller gets the same response as for any unknown
            // path.
            Err(refusal) if form == OutputFormat::Page && !Board::has_screen(&path) => match refusal.code() {
                Code::Unauthenticated => ui::error_page(&Error::not_found("page or file"), None),
                _ => ui::error_page(&refusal, None),
            },
            opened => {
                let response = opened.unwrap_or_else(|error| encode::problem_response(&error));
                if form == OutputFormat::Page { board.with_board_page(&path, response)? } else { response }
            }
        };
        let mut response = ui::with_security_headers(response);
        // Responses below /ui/ do not contain the position of a log.
        encode::remove_lsn_header(response.headers_mut());
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        Ok(response)
    }
}
