//! A browser comes back from the provider: its login is found by both of its secrets, and removed.

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::login::LoginSecrets;
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::op::{Read, Write, secret_hash};
use crate::text::Text;

/// Signs in the person whom the identity provider has sent back, and sends the browser into the service.
///
/// The response sets the cookie of the session, which can read, search, subscribe, create, post, transition
/// and upload. The state counts once, and only in the browser that began the sign-in.
///
/// Fails with 403 `forbidden` if the person is a deactivated member, or is no member and nobody may join this
/// way; 404 `unknown-route` if the operator has not enabled it; 503 `provider-unavailable` if the identity
/// provider does not respond.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcCallback {
    /// What the sign-in was given when it began.
    state: Text<1, 128>,
    /// What the provider gives for the person's signature; absent if it has refused.
    code: Option<Text<1, 4096>>,
    /// Who the provider says it is (RFC 9207).
    iss: Option<Text<1, 2048>>,
    /// Why the provider has refused.
    error: Option<Text<1, 256>>,
    /// The browser's secret, which the frame takes from the cookie and never from the query.
    #[schemars(skip)]
    browser: Option<String>,
}

impl OidcCallback {
    /// Returns the code, if the provider has given one and not refused.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref().filter(|_| self.error.is_none())
    }

    /// Returns who the provider says it is.
    pub fn issuer(&self) -> Option<&str> {
        self.iss.as_deref()
    }
}

/// A login that was removed because its browser has come back.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TakenLogin {
    /// The workspace to sign in to.
    #[serde(skip)]
    pub workspace_id: WorkspaceId,
    /// Where the browser goes.
    #[serde(skip)]
    pub return_to: String,
    /// What the provider must know, or repeat.
    #[serde(skip)]
    pub secrets: LoginSecrets,
}

/// The two secrets of a login.
struct Brought {
    state: SecretString,
    browser: SecretString,
}

impl Brought {
    fn of(input: &OidcCallback) -> Result<Self> {
        let browser = input.browser.as_deref().ok_or_else(begin_again)?;
        Ok(Self { state: SecretString::from(&*input.state), browser: SecretString::from(browser) })
    }

    fn hashes(&self) -> ([u8; 32], [u8; 32]) {
        (secret_hash(&self.state), secret_hash(&self.browser))
    }
}

/// One error whatever is wrong, so that nobody learns which half was right.
fn begin_again() -> Error {
    Error::new(
        Code::Unauthenticated,
        "this browser has begun no such sign-in, or too long ago: begin again at /auth/oidc/login",
    )
}

const LIVE: &str = "
    select workspace_id, return_to from oidc_logins
    where state_hash = $1 and browser_hash = $2 and expires_at > $3";

fn live(cx: &Read<'_>, brought: &Brought) -> Result<(WorkspaceId, String)> {
    let (state, browser) = brought.hashes();
    cx.one(LIVE, &[&state, &browser, &cx.now()])?.ok_or_else(begin_again)
}

pub(super) fn home(cx: &Read<'_>, input: &OidcCallback) -> Result<WorkspaceId> {
    live(cx, &Brought::of(input)?).map(|(workspace, _)| workspace)
}

const REMOVE: &str = "delete from oidc_logins where state_hash = $1";

/// Removes the login and returns what it was. Of two callbacks at once, one finds nothing.
pub(super) fn take(
    cx: &mut Write<'_>,
    input: &OidcCallback,
    &workspace_id: &WorkspaceId,
) -> Result<TakenLogin> {
    let brought = Brought::of(input)?;
    let (of_login, return_to) = live(cx, &brought)?;
    if of_login != workspace_id || cx.change(REMOVE, &[&secret_hash(&brought.state)])? != 1 {
        return Err(begin_again());
    }
    let secrets = LoginSecrets::derive(cx, &brought.browser, &brought.state)?;
    Ok(TakenLogin { workspace_id, return_to, secrets })
}
