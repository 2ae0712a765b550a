//! The return of a browser from the provider: its login is found by both of its secrets, and removed.

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::login::LoginSecrets;
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::op::{Read, Write, secret_hash};
use crate::text::Text;

/// Signs in the person whom the identity provider has sent back, and redirects the browser into the service.
///
/// The response sets the cookie of the session, which can read, search, subscribe, create, post, transition
/// and upload. The state is valid once, and only in the browser that began the sign-in.
///
/// Fails with 403 `forbidden` if the person is a deactivated member, or is not a member and the operator does
/// not allow joining this way; 404 `unknown-route` if the operator has not enabled it; 503
/// `provider-unavailable` if the identity provider does not respond.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcCallback {
    /// The state that the sign-in sent to the provider.
    state: Text<1, 128>,
    /// The authorization code from the provider; absent if it has refused.
    code: Option<Text<1, 4096>>,
    /// The issuer that the provider claims to be (RFC 9207).
    iss: Option<Text<1, 2048>>,
    /// The error of a provider that has refused.
    error: Option<Text<1, 256>>,
    /// The browser's secret, which the frame takes from the cookie and never from the query.
    #[schemars(skip)]
    browser: Option<String>,
}

impl OidcCallback {
    /// Returns the code, if the provider has sent one and no error.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref().filter(|_| self.error.is_none())
    }

    /// Returns the issuer that the provider claims to be.
    pub fn issuer(&self) -> Option<&str> {
        self.iss.as_deref()
    }
}

/// A login that was removed because its browser has returned.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TakenLogin {
    /// The workspace to sign in to.
    #[serde(skip)]
    pub workspace_id: WorkspaceId,
    /// The path to which the browser is redirected.
    #[serde(skip)]
    pub return_to: String,
    /// The secrets that the provider needs or repeats.
    #[serde(skip)]
    pub secrets: LoginSecrets,
}

/// The two secrets of a login.
struct LoginSecretPair {
    state: SecretString,
    browser: SecretString,
}

impl LoginSecretPair {
    fn of(input: &OidcCallback) -> Result<Self> {
        let browser = input.browser.as_deref().ok_or_else(begin_again)?;
        Ok(Self { state: SecretString::from(&*input.state), browser: SecretString::from(browser) })
    }

    fn hashes(&self) -> ([u8; 32], [u8; 32]) {
        (secret_hash(&self.state), secret_hash(&self.browser))
    }
}

/// Returns the same error whatever is wrong, so that the caller does not learn which half was right.
fn begin_again() -> Error {
    Error::new(
        Code::Unauthenticated,
        "this browser has begun no such sign-in, or too long ago: begin again at /auth/oidc/login",
    )
}

const LIVE: &str = "
    select workspace_id, return_to from oidc_logins
    where state_hash = $1 and browser_hash = $2 and expires_at > $3";

fn live(cx: &Read<'_>, brought: &LoginSecretPair) -> Result<(WorkspaceId, String)> {
    let (state, browser) = brought.hashes();
    cx.one(LIVE, &[&state, &browser, &cx.now()])?.ok_or_else(begin_again)
}

pub(super) fn home(cx: &Read<'_>, input: &OidcCallback) -> Result<WorkspaceId> {
    live(cx, &LoginSecretPair::of(input)?).map(|(workspace, _)| workspace)
}

const REMOVE: &str = "delete from oidc_logins where state_hash = $1";

/// Removes the login and returns it. Of two callbacks at once, one finds nothing.
pub(super) fn take(
    cx: &mut Write<'_>,
    input: &OidcCallback,
    &workspace_id: &WorkspaceId,
) -> Result<TakenLogin> {
    let brought = LoginSecretPair::of(input)?;
    let (of_login, return_to) = live(cx, &brought)?;
    if of_login != workspace_id || cx.change(REMOVE, &[&secret_hash(&brought.state)])? != 1 {
        return Err(begin_again());
    }
    let secrets = LoginSecrets::derive(cx, &brought.browser, &brought.state)?;
    Ok(TakenLogin { workspace_id, return_to, secrets })
}
