//! Frames: what surrounds the rows of the table that are no operations of the API.
//!
//! Such a row has a typed function like every operation, and goes through the same dispatch: admission, the
//! pipeline, audit. But what is on the wire around its input and its output is prescribed by somebody else,
//! or made for browsers: a form, a cookie, the media type of another protocol. A frame says which; a shell
//! that serves HTTP implements it. Framed rows are routes, and in the OpenAPI document; they are neither
//! tools nor in the contract of operations.

use crate::capability::Needs;
use crate::op::call::caller::Surface;

/// The frame of a route that is no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// JSON whose field `token` is the credential, and a cookie in the response.
    SignIn,
    /// JSON, by the session of a browser, whose cookie the response may remove.
    Session,
    /// A link to the identity provider: a cookie, and a redirect that takes the browser there.
    OidcLogin,
    /// The way back from the identity provider: its query and that cookie, and a redirect into the service.
    OidcCallback,
    /// RFC 6749's token endpoint: a form or JSON, and the client's credentials in there or by HTTP Basic.
    AppToken,
    /// What a share ticket shows, for a reader that is no member.
    Share,
    /// RFC 7644: the resources of SCIM, and its own errors.
    Scim,
    /// JSON by the session of a browser, or the page of the board with the same status.
    Approval,
    /// JSON by the session of a browser, for what the board draws.
    Markdown,
    /// RFC 8058: a link in a mail, which is all that it takes. A form with a button, and any body at all.
    Unsubscribe,
    /// The files of the board, which the shell has: the same for everybody.
    Board,
}

/// Which credentials in the head of a request count; any other is as if it had not been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// None: the credential, if there is one, is in the body.
    Nothing,
    /// What the Authorization header has, and no cookie.
    Authorization,
    /// What the Authorization header has, and the session cookie.
    All,
}

/// The media type of an HTML form.
const FORM: &str = "application/x-www-form-urlencoded";
/// The media type of JSON.
pub(in crate::op) const JSON: &str = "application/json";
/// The media type of a page.
pub(in crate::op) const HTML: &str = "text/html";
/// The media type of SCIM.
const SCIM: &str = "application/scim+json";

impl Frame {
    /// Returns which credentials of the head count.
    pub fn takes(self) -> Takes {
        match self {
            Self::SignIn
            | Self::AppToken
            | Self::OidcLogin
            | Self::OidcCallback
            | Self::Unsubscribe
            | Self::Board => Takes::Nothing,
            Self::Share => Takes::Authorization,
            Self::Session | Self::Approval | Self::Markdown => Takes::All,
            Self::Scim => Takes::Authorization,
        }
    }

    /// Returns the media types that a body may have.
    pub fn bodies(self) -> &'static [&'static str] {
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

    /// Returns the media type of a success that is no redirect.
    pub fn answers(self) -> &'static str {
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

    /// Returns the surface that audit rows name.
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

    /// Returns the fields of a change that are in the query, not in the body.
    pub(in crate::op) fn query_of_changes(self) -> &'static [&'static str] {
        match self {
            Self::Scim => &["attributes", "excludedAttributes"],
            _ => &[],
        }
    }

    /// Returns what contracts call the credential of a row with these needs.
    pub fn credential(self, needs: Needs) -> String {
        match (self.takes(), needs) {
            (Takes::Nothing, _) => "none".to_owned(),
            (_, needs) => needs.expression(),
        }
    }
}
