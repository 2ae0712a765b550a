//! Serves the routes for share tickets: JSON responses that must not be cached, and one refusal for all
//! invalid tickets.
//!
//! A client without a live ticket always gets the same response bytes, whether it sent nothing, a token, a
//! cookie, an invalid secret, two secrets, or the secret of a ticket that has ended. No response contains the
//! position of the workspace's log.

use hyper::header::{HeaderValue, REFERRER_POLICY, VARY, WWW_AUTHENTICATE};
use svc_core::op::Reply;
use svc_core::{Code, Error};

use super::Framing;
use crate::encode::{self, Response};
use crate::state::ServerState;

const TICKET_SCHEME: HeaderValue = HeaderValue::from_static("ShareTicket");
const NO_REFERRER: HeaderValue = HeaderValue::from_static("no-referrer");
const VARY_BY_AUTHORIZATION: HeaderValue = HeaderValue::from_static("Authorization");

/// Error message for a client without a live share ticket.
const TICKET_REQUIRED: &str = "the request needs a share ticket that is live";

/// Frame of the routes that require a share ticket.
pub(super) struct Share;

impl Framing for Share {
    fn response(&self, _: &ServerState, reply: &Reply) -> Response {
        with_privacy_headers(encode::reply_response(reply))
    }

    /// Treats a malformed credential, such as two tickets, like a missing ticket.
    fn map_head_error(&self, error: Error) -> Error {
        if error.code() == Code::Malformed {
            Error::new(Code::Unauthenticated, TICKET_REQUIRED)
        } else {
            error
        }
    }

    fn error_response(&self, error: &Error) -> Response {
        if error.code() != Code::Unauthenticated {
            return with_privacy_headers(encode::problem_response(error));
        }
        let refused = Error::new(Code::Unauthenticated, TICKET_REQUIRED);
        let mut response = with_privacy_headers(encode::problem_response(&refused));
        response.headers_mut().insert(WWW_AUTHENTICATE, TICKET_SCHEME);
        response
    }
}

/// Adds `Referrer-Policy` and `Vary` headers to a response, and removes the log position.
///
/// Together with `no-store`, which every response has, this keeps the response private to its reader.
fn with_privacy_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    encode::remove_lsn_header(headers);
    headers.insert(REFERRER_POLICY, NO_REFERRER);
    headers.insert(VARY, VARY_BY_AUTHORIZATION);
    response
}

#[cfg(test)]
mod tests {
    use hyper::header::CACHE_CONTROL;

    use super::*;

    #[test]
    fn refusals_are_kept_private_and_say_nothing_of_the_credential() {
        for code in [Code::Unauthenticated, Code::NotFound, Code::Malformed, Code::RateLimited] {
            let refused = Share.error_response(&Error::new(code, "x"));
            let headers = refused.headers();
            assert_eq!(headers[CACHE_CONTROL], "no-store", "{code:?}");
            assert_eq!((&headers[REFERRER_POLICY], &headers[VARY]), (&NO_REFERRER, &VARY_BY_AUTHORIZATION));
            assert_eq!(headers.contains_key(WWW_AUTHENTICATE), code == Code::Unauthenticated);
        }
        let refused = Share.error_response(&Error::new(Code::Unauthenticated, "x"));
        assert_eq!(refused.headers()[WWW_AUTHENTICATE], TICKET_SCHEME);
    }
}
