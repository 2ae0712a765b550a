//! The beginning of a sign-in: its secrets are drawn, and their hashes stored.

use std::time::Duration;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::return_to::{BOARD, ReturnTo};
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::identity::setup::the_workspace;
use crate::limits::{EMAIL_MAX, NAME_MAX, OIDC_LOGIN_SECS, OIDC_LOGINS_MAX, OIDC_SUBJECT_MAX};
use crate::op::{Read, Write, secret_hash};
use crate::store::new_row;
use crate::text::Text;

/// Redirects the browser to the identity provider, where a person signs in to a workspace.
///
/// The response sets a cookie, which the browser must send to the callback within ten minutes, together with
/// the state in the address. Only the last sign-in that a browser has begun can be finished, and only the
/// last 10,000 of a workspace.
///
/// Fails with 404 `unknown-route` if the operator has not enabled it; 503 `provider-unavailable` if the
/// identity provider does not respond.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcLogin {
    /// The workspace to sign in to. It is required if there are several.
    workspace_id: Option<WorkspaceId>,
    /// The path under `/ui/` to which the browser is redirected once it is signed in. Default: `/ui/`.
    return_to: Option<ReturnTo>,
    /// The person who signs in; read only with `SVC_OIDC_MOCK`, which requires it.
    sub: Option<Text<1, OIDC_SUBJECT_MAX>>,
    /// The person's verified email address; read only with `SVC_OIDC_MOCK`.
    email: Option<Text<1, EMAIL_MAX>>,
    /// The person's name; read only with `SVC_OIDC_MOCK`.
    name: Option<Text<1, NAME_MAX>>,
}

/// The person who signs in at the provider of `SVC_OIDC_MOCK`.
#[derive(Clone, Debug)]
pub struct MockPerson {
    /// Its subject.
    pub subject: String,
    /// Its verified email address.
    pub email: Option<String>,
    /// Its name.
    pub name: Option<String>,
}

impl OidcLogin {
    /// Returns the person that the query names.
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

/// A sign-in that has begun. It has no `Debug` output: it goes into a cookie and an address.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BegunLogin {
    /// The state, which the provider sends back in the address.
    #[serde(skip)]
    pub state: SecretString,
    /// The browser's secret, which it sends back in a cookie.
    #[serde(skip)]
    pub browser: SecretString,
    /// The secrets that are derived from these two.
    #[serde(skip)]
    pub secrets: LoginSecrets,
    /// Time for which they are valid.
    #[serde(skip)]
    pub lasts: Duration,
}

/// The secrets of a sign-in that only the server knows, derived whenever it needs them.
#[derive(Debug)]
pub struct LoginSecrets {
    /// The nonce, which the provider repeats in the token that it signs.
    pub nonce: SecretString,
    /// The verifier, which the provider compares with the challenge that it was sent (RFC 7636).
    pub verifier: SecretString,
}

impl LoginSecrets {
    pub(super) fn derive(cx: &Read<'_>, browser: &SecretString, state: &SecretString) -> Result<Self> {
        let key = cx.session_key().ok_or_else(|| Error::internal("no key signs cookies"))?;
        let derived = |label| key.derived(label, browser, state);
        Ok(Self { nonce: derived("nonce"), verifier: derived("verifier") })
    }
}

/// Removes sign-ins older than the last ones of their workspace, by the index of these.
const FORGET: &str = "
    delete from oidc_logins where state_hash in (
        select state_hash from oidc_logins where workspace_id = $1
        order by expires_at desc, state_hash limit $2 offset $3)";

/// More than one, so that a lowered limit is reached after some time.
const FORGOTTEN_AT_ONCE: i64 = 100;

pub(super) fn home(cx: &Read<'_>, input: &OidcLogin) -> Result<WorkspaceId> {
    the_workspace(cx, input.workspace_id)
}

pub(super) fn begin(cx: &mut Write<'_>, input: &OidcLogin, &workspace: &WorkspaceId) -> Result<BegunLogin> {
    the_workspace(cx, Some(workspace))?;
    let random = || cx.entropy().bytes::<32>().map(|bytes| SecretString::from(hex::encode(bytes)));
    let state = random()?;
    let browser = random()?;
    let lasts = Duration::from_secs(OIDC_LOGIN_SECS);
    cx.execute_any(FORGET, &[&workspace, &FORGOTTEN_AT_ONCE, &OIDC_LOGINS_MAX.saturating_sub(1)])?;
    cx.insert(&new_row!("insert into oidc_logins" {
        state_hash: secret_hash(&state),
        workspace_id: workspace,
        browser_hash: secret_hash(&browser),
        return_to: input.return_to.as_deref().unwrap_or(BOARD),
        expires_at: cx.now().plus(lasts),
    }))?;
    // A sign-in that has begun is of no workspace's history, and goes by itself.
    cx.unchanged();
    let secrets = LoginSecrets::derive(cx, &browser, &state)?;
    Ok(BegunLogin { state, browser, secrets, lasts })
}
