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
pub struct TakenLogin {
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
    fn of(input: &OidcCallback) -> Result<Self> {
        let browser = input.browser.as_deref().ok_or_else(unknown_login)?;
        Ok(Self { state: SecretString::from(&*input.state), browser: SecretString::from(browser) })
    }

    fn hashes(&self) -> ([u8; 32], [u8; 32]) {
        (secret_hash(&self.state), secret_hash(&self.browser))
    }
}

/// Returns the same error for an unknown state, a wrong browser and an expired sign-in.
///
/// The caller therefore does not learn which secret was right.
fn unknown_login() -> Error {
    Error::new(
        Code::Unauthenticated,
        "this browser has begun no such sign-in, or too long ago: begin again at /auth/oidc/login",
    )
}

const LIVE: &str = "
    select workspace_id, return_to from oidc_logins
    where state_hash = $1 and browser_hash = $2 and expires_at > $3";

fn find_live_login(cx: &Read<'_>, secrets_sent: &LoginSecretPair) -> Result<(WorkspaceId, String)> {
    let (state, browser) = secrets_sent.hashes();
    cx.one(LIVE, &[&state, &browser, &cx.now()])?.ok_or_else(unknown_login)
}

pub(super) fn login_workspace(cx: &Read<'_>, input: &OidcCallback) -> Result<WorkspaceId> {
    find_live_login(cx, &LoginSecretPair::of(input)?).map(|(workspace, _)| workspace)
}

const REMOVE: &str = "delete from oidc_logins where state_hash = $1";

/// Removes the begun sign-in and returns it. If two callbacks arrive simultaneously, only one of them finds
/// the sign-in.
pub(super) fn take_login(
    cx: &mut Write<'_>,
    input: &OidcCallback,
    &workspace_id: &WorkspaceId,
) -> Result<TakenLogin> {
    let secrets_sent = LoginSecretPair::of(input)?;
    let (of_login, return_to) = find_live_login(cx, &secrets_sent)?;
    if of_login != workspace_id || cx.change(REMOVE, &[&secret_hash(&secrets_sent.state)])? != 1 {
        return Err(unknown_login());
    }
    let secrets = LoginSecrets::derive(cx, &secrets_sent.browser, &secrets_sent.state)?;
    Ok(TakenLogin { workspace_id, return_to, secrets })
}
