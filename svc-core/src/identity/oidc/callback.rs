//! The return of a browser from the identity provider: finds the begun sign-in by its two secrets and removes
//! it.

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::login::LoginSecrets;
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::op::{Read, Write, secret_hash};
use crate::text::Text;

/// Signs in the person whose browser the identity provider has sent back, and redirects the browser to the
/// board.
///
/// The response sets the session's cookie. The session's capabilities are `workspace:read`,
/// `event:subscribe`, `search:query`, `workspace:write`, `message:post`, `thread:transition` and
/// `artifact:upload`. The state is valid once, and only in the browser that began the sign-in.
///
/// Fails with 403 `forbidden` if the person is a deactivated member, or is not a member and the operator does
/// not let people join by signing in; 404 `unknown-route` if the operator has not enabled signing in at an
/// identity provider; 503 `provider-unavailable` if the identity provider does not respond.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcCallback {
    /// The `state` parameter that the service sent to the provider when the sign-in began.
    state: Text<1, 128>,
    /// The authorization code from the provider; absent if the provider rejected the sign-in.
    code: Option<Text<1, 4096>>,
    /// The issuer that the provider claims to be (RFC 9207).
    iss: Option<Text<1, 2048>>,
    /// The provider's error code; present if the provider rejected the sign-in.
    error: Option<Text<1, 256>>,
    /// The browser's secret. The frame of the route reads this value from the cookie, never from the query.
    #[schemars(skip)]
    browser: Option<String>,
}

impl OidcCallback {
    /// Returns the authorization code, unless the provider has also sent an error.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref().filter(|_| self.error.is_none())
    }

    /// Returns the issuer that the provider claims to be.
    pub fn issuer(&self) -> Option<&str> {
        self.iss.as_deref()
    }
}

/// A begun sign-in, which the server removed because the browser has returned.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TakenLogin")]
pub struct ReturnedLogin {
    /// Id of the workspace to sign in to.
    #[serde(skip)]
    pub workspace_id: WorkspaceId,
    /// Path on the board to which the server redirects the browser.
    #[serde(skip)]
    pub return_to: String,
    /// Derived secrets: the verifier to send to the provider, and the nonce that the provider's token must
    /// repeat.
    #[serde(skip)]
    pub secrets: LoginSecrets,
}

/// The two secrets of a begun sign-in: the state and the browser's secret.
struct LoginSecretPair {
    state: SecretString,
    browser: SecretString,
}

impl LoginSecretPair {
    /// Takes the two secrets from a callback. Fails if the browser sent no cookie.
    fn from_callback(input: &OidcCallback) -> Result<Self> {
        let browser = input.browser.as_deref().ok_or_else(unknown_login_error)?;
        Ok(Self { state: SecretString::from(&*input.state), browser: SecretString::from(browser) })
    }

    fn state_and_browser_hashes(&self) -> ([u8; 32], [u8; 32]) {
        (secret_hash(&self.state), secret_hash(&self.browser))
    }
}

/// Returns the same error for an unknown state, a wrong browser and an expired sign-in.
///
/// The caller therefore does not learn which secret was right.
fn unknown_login_error() -> Error {
    Error::new(
        Code::Unauthenticated,
        "this browser has begun no such sign-in, or too long ago: begin again at /auth/oidc/login",
    )
}

const LIVE_LOGIN: &str = "
    select workspace_id, return_to from oidc_logins
    where state_hash = $1 and browser_hash = $2 and expires_at > $3";

/// Returns the workspace of a begun sign-in, and the path to which the browser is redirected afterwards.
fn find_live_login(cx: &Read<'_>, secrets: &LoginSecretPair) -> Result<(WorkspaceId, String)> {
    let (state, browser) = secrets.state_and_browser_hashes();
    cx.one(LIVE_LOGIN, &[&state, &browser, &cx.now()])?.ok_or_else(unknown_login_error)
}

/// Returns the workspace of the begun sign-in to which the browser returns.
pub(super) fn login_workspace(cx: &Read<'_>, input: &OidcCallback) -> Result<WorkspaceId> {
    find_live_login(cx, &LoginSecretPair::from_callback(input)?).map(|(workspace, _)| workspace)
}

const REMOVE_LOGIN: &str = "delete from oidc_logins where state_hash = $1";

/// Removes the begun sign-in and returns it. If two callbacks arrive simultaneously, only one of them finds
/// the sign-in.
pub(super) fn take_login(
    cx: &mut Write<'_>,
    input: &OidcCallback,
    &workspace_id: &WorkspaceId,
) -> Result<ReturnedLogin> {
    let secrets_sent = LoginSecretPair::from_callback(input)?;
    let (of_login, return_to) = find_live_login(cx, &secrets_sent)?;
    if of_login != workspace_id || cx.change(REMOVE_LOGIN, &[&secret_hash(&secrets_sent.state)])? != 1 {
        return Err(unknown_login_error());
    }
    let secrets = LoginSecrets::derive(cx, &secrets_sent.browser, &secrets_sent.state)?;
    Ok(ReturnedLogin { workspace_id, return_to, secrets })
}
