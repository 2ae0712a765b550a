//! Frames: wire formats of routes in the operation table that are not operations of the API.
//!
//! A framed route has a typed function like every operation, and passes through the same admission, pipeline
//! and audit. But another specification or the needs of a browser determine the format of its input and
//! output: a form, a cookie, the media type of another protocol. The frame identifies that format; a shell
//! that serves HTTP implements the frame. Framed routes appear in the OpenAPI document, but are neither tools
//! nor part of the contract of operations.

use crate::capability::Needs;
use crate::op::call::caller::Surface;

/// The wire format of a route that is not an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Sign-in with a token: JSON whose field `token` is the credential. The response sets a cookie.
    SignIn,
    /// JSON in a request with a browser session. The response may remove the session's cookie.
    Session,
    /// A sign-in link: sets a cookie and redirects the browser to the identity provider.
    OidcLogin,
    /// The callback from the identity provider: reads the query and the sign-in cookie, and redirects into
    /// the service.
    OidcCallback,
    /// The token endpoint of RFC 6749: a form or JSON, with the client's credentials in the body or in HTTP
    /// Basic.
    AppToken,
    /// The content of a shared channel, for a reader with a share ticket.
    Share,
    /// The SCIM resources of RFC 7644, with the SCIM error format.
    Scim,
    /// An approval gate, shown in a browser session: JSON, or a page of the board with the same status.
    Approval,
    /// Markdown rendered for the board: JSON in a request with a browser session.
    Markdown,
    /// One-click unsubscription of RFC 8058: a link in a mail, which contains the whole input. GET returns a
    /// form with a button; the body of a POST is ignored.
    Unsubscribe,
    /// The static files of the board, which are built into the shell and are the same for all callers.
    Board,
}

/// The request headers from which a route accepts a credential. Credentials in other headers are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptedCredentials {
    /// No header. If the request has a credential, the body contains it.
    Nothing,
    /// The Authorization header, but not the session cookie.
    Authorization,
    /// The Authorization header and the session cookie.
    All,
}

/// The media type of an HTML form.
const FORM: &str = "application/x-www-form-urlencoded";
/// The media type of JSON.
pub(in crate::op) const JSON: &str = "application/json";
/// The media type of HTML.
pub(in crate::op) const HTML: &str = "text/html";
/// The media type of SCIM.
const SCIM: &str = "application/scim+json";

impl Frame {
    /// Returns the request headers from which the route accepts a credential.
    pub fn accepted_credentials(self) -> AcceptedCredentials {
        match self {
            Self::SignIn
            | Self::AppToken
            | Self::OidcLogin
            | Self::OidcCallback
            | Self::Unsubscribe
            | Self::Board => AcceptedCredentials::Nothing,
            Self::Share => AcceptedCredentials::Authorization,
            Self::Session | Self::Approval | Self::Markdown => AcceptedCredentials::All,
            Self::Scim => AcceptedCredentials::Authorization,
        }
    }

    /// Returns the media types that a request body may have.
    pub fn request_media_types(self) -> &'static [&'static str] {
        match self {
            Self::SignIn
            | Self::Session
            | Self::OidcLogin
            | Self::OidcCallback
            | Self::Share
            | Self::Approval
            | Self::Markdown
            | Self::Board => &[JSON],
            Self::AppToken | Self::Unsubscribe => &[FORM, JSON],
            Self::Scim => &[SCIM, JSON],
        }
    }

    /// Returns the media type of a successful response, unless the response is a redirect.
    pub fn response_media_type(self) -> &'static str {
        match self {
            Self::SignIn
            | Self::Session
            | Self::AppToken
            | Self::OidcLogin
            | Self::OidcCallback
            | Self::Share
            | Self::Approval
            | Self::Markdown
            | Self::Unsubscribe => JSON,
            Self::Scim => SCIM,
            Self::Board => HTML,
        }
    }

    /// Returns the surface that audit rows report for the route.
    pub fn surface(self) -> Surface {
        match self {
            Self::SignIn
            | Self::Session
            | Self::OidcLogin
            | Self::OidcCallback
            | Self::Approval
            | Self::Markdown
            | Self::Board => Surface::Session,
            Self::AppToken | Self::Unsubscribe => Surface::Rest,
            Self::Share => Surface::Share,
            Self::Scim => Surface::Scim,
        }
    }

    /// Returns the names of the input fields that a change reads from the query instead of the body.
    pub(in crate::op) fn query_fields_of_changes(self) -> &'static [&'static str] {
        match self {
            Self::Scim => &["attributes", "excludedAttributes"],
            _ => &[],
        }
    }

    /// Returns the name that contracts use for the credential of a route with the requirements `needs`.
    pub fn credential(self, needs: Needs) -> String {
        match (self.accepted_credentials(), needs) {
            (AcceptedCredentials::Nothing, _) => "none".to_owned(),
            (_, needs) => needs.expression(),
        }
    }
}
