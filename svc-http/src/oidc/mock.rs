//! Implements the mock provider of `SVC_OIDC_MOCK`, which immediately signs in the person described in the
//! query.
//!
//! Only the provider is replaced. The state, the cookie, the nonce and all steps after the code exchange are
//! the same as with a real provider.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use svc_core::ops::{LoginSecrets, MockPerson, PendingLogin, ProviderClaims};
use svc_core::{Error, Result};

use super::{expose_secret_text, not_signed_in_error};

/// Issuer of the mock provider. The issuer is not a URL, so that no real provider can have the same subjects.
const MOCK_ISSUER: &str = "urn:svc:oidc-mock";

/// Identity provider for development, which receives no requests.
pub(super) struct MockProvider {
    /// URL of the callback, which is on the same server unless another URL is configured.
    callback: String,
}

/// Content of a mock authorization code. A real provider would store this data.
#[derive(Serialize, Deserialize)]
struct CodeContent {
    subject: String,
    email: Option<String>,
    name: Option<String>,
    nonce: String,
}

impl MockProvider {
    pub fn new(redirect_uri: Option<String>) -> Self {
        Self { callback: redirect_uri.unwrap_or_else(|| "/auth/oidc/callback".to_owned()) }
    }

    /// Returns the callback URL, to which a real provider would redirect the browser.
    pub fn callback_url(&self, person: &MockPerson, login: &PendingLogin) -> Result<String> {
        let MockPerson { subject, email, name } = person.clone();
        let coded = CodeContent { subject, email, name, nonce: expose_secret_text(&login.secrets.nonce) };
        let code = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&coded).map_err(Error::internal)?);
        let separator = if self.callback.contains('?') { '&' } else { '?' };
        Ok(format!(
            "{}{separator}code={code}&state={}&iss={MOCK_ISSUER}",
            self.callback,
            expose_secret_text(&login.state)
        ))
    }

    pub fn identify(
        &self,
        code: &str,
        issuer: Option<&str>,
        secrets: &LoginSecrets,
    ) -> Result<ProviderClaims> {
        let bytes = URL_SAFE_NO_PAD.decode(code).map_err(|_| not_signed_in_error())?;
        let CodeContent { subject, email, name, nonce } =
            serde_json::from_slice(&bytes).map_err(|_| not_signed_in_error())?;
        if nonce != expose_secret_text(&secrets.nonce) || issuer.is_some_and(|issuer| issuer != MOCK_ISSUER) {
            return Err(not_signed_in_error());
        }
        Ok(ProviderClaims {
            issuer: MOCK_ISSUER.to_owned(),
            subject,
            email_verified: email.is_some(),
            email,
            name,
        })
    }
}
