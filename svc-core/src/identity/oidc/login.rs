//! The beginning of a sign-in: generates the secrets of the sign-in, and stores only their hashes.

use std::time::Duration;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::return_to::{BOARD_PREFIX, ReturnTo};
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::identity::setup::find_workspace;
use crate::limits::{EMAIL_MAX, NAME_MAX, OIDC_LOGIN_SECS, OIDC_LOGINS_MAX, OIDC_SUBJECT_MAX};
use crate::op::{Read, Write, secret_hash};
use crate::store::new_row;
use crate::text::Text;

/// Redirects the browser to the identity provider, where a person signs in to a workspace.
///
/// The response sets a cookie. Within ten minutes, the browser must return to the callback with the cookie
/// and with the state in the address. A browser can finish only its last sign-in. A workspace has at most
/// 10,000 unfinished sign-ins; the server deletes the oldest ones beyond this limit.
///
/// Fails with 404 `unknown-route` if the operator has not enabled signing in at an identity provider; 503
/// `provider-unavailable` if the identity provider does not respond.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcLogin {
    /// The workspace to sign in to. Required if the instance has several workspaces.
    workspace_id: Option<WorkspaceId>,
    /// The path under `/ui/` to which the browser is redirected after the sign-in. Default: `/ui/`.
    return_to: Option<ReturnTo>,
    /// Subject id of the person who signs in. Only read with `SVC_OIDC_MOCK`, where it is required.
    sub: Option<Text<1, OIDC_SUBJECT_MAX>>,
    /// Verified email address of the person who signs in. Only read with `SVC_OIDC_MOCK`.
    email: Option<Text<1, EMAIL_MAX>>,
    /// Name of the person who signs in. Only read with `SVC_OIDC_MOCK`.
    name: Option<Text<1, NAME_MAX>>,
}

/// The person who signs in at the mock identity provider of `SVC_OIDC_MOCK`.
#[derive(Clone, Debug)]
pub struct MockPerson {
    /// Subject id of the person at the provider.
    pub subject: String,
    /// Verified email address of the person.
    pub email: Option<String>,
    /// Name of the person.
    pub name: Option<String>,
}

impl OidcLogin {
    /// Returns the person to sign in at the mock provider, from the query of the request. Fails if `sub` is
    /// missing.
    pub fn mock_person(&self) -> Result<MockPerson> {
        let subject = self.sub.as_deref();
        let subject = subject.ok_or_else(|| Error::in_field("sub", "with SVC_OIDC_MOCK it is required"))?;
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Ok(MockPerson {
            subject: subject.to_owned(),
            email: owned(self.email.as_deref()),
            name: owned(self.name.as_deref()),
        })
    }
}

/// A begun sign-in, with secrets for a cookie and for the redirect's URL. `Debug` output redacts the secrets.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BegunLogin")]
pub struct PendingLogin {
    /// The `state` parameter, which the provider returns in the URL of the callback.
    #[serde(skip)]
    pub state: SecretString,
    /// The browser's secret, which the browser returns in a cookie.
    #[serde(skip)]
    pub browser: SecretString,
    /// Secrets derived from the state and the browser's secret.
    #[serde(skip)]
    pub secrets: LoginSecrets,
    /// Duration for which the state and the browser's secret are valid.
    #[serde(skip)]
    pub lasts: Duration,
}

/// Secrets of a sign-in that only the server knows. The server derives these secrets each time that it needs
/// them.
#[derive(Debug)]
pub struct LoginSecrets {
    /// The nonce, which the provider must repeat in the signed token.
    pub nonce: SecretString,
    /// The PKCE verifier, which the provider compares with the challenge from the service (RFC 7636).
    pub verifier: SecretString,
}

impl LoginSecrets {
    pub(super) fn derive(cx: &Read<'_>, browser: &SecretString, state: &SecretString) -> Result<Self> {
        let key = cx.session_key().ok_or_else(|| Error::internal("no key signs cookies"))?;
        let derived = |label| key.derived(label, browser, state);
        Ok(Self { nonce: derived("nonce"), verifier: derived("verifier") })
    }
}

/// Deletes the oldest begun sign-ins of a workspace beyond the workspace's limit. Uses an index.
const DELETE_EXCESS_LOGINS: &str = "
    delete from oidc_logins where state_hash in (
        select state_hash from oidc_logins where workspace_id = $1
        order by expires_at desc, state_hash limit $2 offset $3)";

/// Maximum excess sign-ins that one request deletes.
///
/// The value is greater than 1, so that the number falls quickly after the limit was lowered.
const EXCESS_DELETED_MAX: i64 = 100;

/// Returns the workspace to sign in to.
pub(super) fn login_workspace(cx: &Read<'_>, input: &OidcLogin) -> Result<WorkspaceId> {
    find_workspace(cx, input.workspace_id)
}

pub(super) fn begin_login(
    cx: &mut Write<'_>,
    input: &OidcLogin,
    &workspace: &WorkspaceId,
) -> Result<PendingLogin> {
    find_workspace(cx, Some(workspace))?;
    let random = || cx.entropy().bytes::<32>().map(|bytes| SecretString::from(hex::encode(bytes)));
    let state = random()?;
    let browser = random()?;
    let lasts = Duration::from_secs(OIDC_LOGIN_SECS);
    cx.execute_any(
        DELETE_EXCESS_LOGINS,
        &[&workspace, &EXCESS_DELETED_MAX, &OIDC_LOGINS_MAX.saturating_sub(1)],
    )?;
    cx.insert(&new_row!("insert into oidc_logins" {
        state_hash: secret_hash(&state),
        workspace_id: workspace,
        browser_hash: secret_hash(&browser),
        return_to: input.return_to.as_deref().unwrap_or(BOARD_PREFIX),
        expires_at: cx.now().plus(lasts),
    }))?;
    // A begun sign-in is not recorded in the workspace's log, and a chore removes it after it has expired.
    cx.unchanged();
    let secrets = LoginSecrets::derive(cx, &browser, &state)?;
    Ok(PendingLogin { state, browser, secrets, lasts })
}
