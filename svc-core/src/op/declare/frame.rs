//! Frames: the wire format of rows of the table that are not operations of the API.
//!
//! Such a row has a typed function like every operation, and goes through the same dispatch: admission, the
//! pipeline, audit. But another specification or a browser's needs define the format around its input and
//! output: a form, a cookie, the media type of another protocol. The frame names that format; a shell that
//! serves HTTP implements it. Framed rows are routes and appear in the OpenAPI document; they are neither
//! tools nor part of the contract of operations.

use crate::capability::Needs;
use crate::op::call::caller::Surface;

/// The frame of a route that is not an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// JSON whose field `token` is the credential, and a cookie in the response.
    SignIn,
    /// JSON, by the session of a browser, whose cookie the response may remove.
    Session,
    /// A link to the identity provider: a cookie, and a redirect that takes the browser there.
    OidcLogin,
    /// The callback from the identity provider: its query and that cookie, and a redirect into the service.
    OidcCallback,
    /// RFC 6749's token endpoint: a form or JSON, with the client's credentials in it or in HTTP Basic.
    AppToken,
    /// The content that a share ticket opens, for a reader that is not a member.
    Share,
    /// RFC 7644: the resources of SCIM, with its error format.
    Scim,
    /// JSON by the session of a browser, or the page of the board with the same status.
    Approval,
    /// JSON by the session of a browser, for the board.
    Markdown,
    /// RFC 8058: a link in a mail, which is the whole input. A form with a button, and any body.
    Unsubscribe,
    /// The files of the board, which the shell contains: the same for everyone.
    Board,
}

/// The credentials in the head of a request that count; others are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptedCredentials {
    /// No credential of the head: the credential, if there is one, is in the body.
    Nothing,
    /// The Authorization header, and no cookie.
    Authorization,
    /// The Authorization header and the session cookie.
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
    pub fn takes(self) -> AcceptedCredentials {
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

    /// Returns the media type of a success that is not a redirect.
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

    /// Returns the name in contracts for the credential of a row with these needs.
    pub fn credential(self, needs: Needs) -> String {
        match (self.takes(), needs) {
            (AcceptedCredentials::Nothing, _) => "none".to_owned(),
            (_, needs) => needs.expression(),
        }
    }
}
