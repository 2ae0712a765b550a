//! Signs people in at the identity provider: redirects the browser to the provider, and verifies the
//! callback.
//!
//! Only data that the provider's signature or TLS protects is trusted, and the provider's error messages are
//! not shown. The core decides which member a verified person is.
//!
//! Parsing of the provider's documents is tolerant: this module reads only the members that it uses, in every
//! form that providers write. Security checks are strict.

mod document;
mod discovery;
mod key_set;
mod claims;
mod keys;
mod tokens;
mod mock;
mod remote;

use secrecy::{ExposeSecret, SecretString};
use svc_core::config::{OidcConfig, OidcProvider};
use svc_core::ops::{LoginSecrets, MockPerson, OidcCallback, OidcLogin, PendingLogin, ProviderClaims};
use svc_core::time::Time;
use svc_core::{Ceiling, Code, Error, Holder, Result};

use crate::limits::PROVIDER_CALLS_MAX;
use document::DocumentKind;
use mock::MockProvider;
use remote::{ProviderKeys, RemoteProvider, VerifiedPerson};

/// The identity provider at which people sign in.
pub(crate) struct Provider {
    kind: ProviderKind,
    /// Limits the number of sign-in requests that wait for the provider at the same time.
    calls: Ceiling,
}

enum ProviderKind {
    Remote(Box<RemoteProvider>),
    Mock(MockProvider),
}

/// Reachable provider for one sign-in, with the provider's current endpoints.
pub(crate) struct SignInTarget<'a>(ProviderTarget<'a>);

enum ProviderTarget<'a> {
    Remote(&'a RemoteProvider, ProviderKeys),
    Mock(&'a MockProvider, MockPerson),
}

/// Person identified by the provider, with the claims of the ID token.
pub(crate) struct IdentifiedPerson<'a>(IdentitySource<'a>);

enum IdentitySource<'a> {
    Remote(&'a RemoteProvider, Box<VerifiedPerson>),
    Mock(ProviderClaims),
}

impl Provider {
    /// Creates the client of the provider. Sends no request.
    pub fn new(config: &OidcConfig) -> Result<Self> {
        let kind = match &config.provider {
            OidcProvider::Mock => {
                tracing::warn!("SVC_OIDC_MOCK is on: anybody can sign in as anybody");
                ProviderKind::Mock(MockProvider::new(config.redirect_uri.clone()))
            }
            OidcProvider::At { .. } => ProviderKind::Remote(Box::new(RemoteProvider::new(config)?)),
        };
        let calls = Ceiling::with_client_limit(
            "sign-ins at the provider",
            PROVIDER_CALLS_MAX,
            PROVIDER_CALLS_MAX / 2,
        );
        Ok(Self { kind, calls })
    }

    /// Returns the provider for a sign-in. Fails with 503 if the provider does not return its documents.
    pub async fn sign_in_target(
        &self,
        holder: Holder,
        login: &OidcLogin,
        now: Time,
    ) -> Result<SignInTarget<'_>> {
        match &self.kind {
            ProviderKind::Mock(mock) => Ok(SignInTarget(ProviderTarget::Mock(mock, login.mock_person()?))),
            ProviderKind::Remote(remote) => {
                let _call = self.calls.take(holder, 1)?;
                Ok(SignInTarget(ProviderTarget::Remote(remote, remote.provider_keys(now).await?)))
            }
        }
    }

    /// Verifies the callback of a sign-in, and returns the person that the provider has identified.
    pub async fn identify(
        &self,
        holder: Holder,
        callback: &OidcCallback,
        secrets: &LoginSecrets,
        now: Time,
    ) -> Result<IdentifiedPerson<'_>> {
        let code = callback.code().ok_or_else(not_signed_in_error)?;
        match &self.kind {
            ProviderKind::Mock(mock) => {
                Ok(IdentifiedPerson(IdentitySource::Mock(mock.identify(code, callback.issuer(), secrets)?)))
            }
            ProviderKind::Remote(remote) => {
                let _call = self.calls.take(holder, 1)?;
                let vouched = remote.identify(code, callback.issuer(), secrets, now).await?;
                Ok(IdentifiedPerson(IdentitySource::Remote(remote, Box::new(vouched))))
            }
        }
    }

    /// Returns all claims of a person, for the first sign-in of that person.
    ///
    /// If the ID token has no email, the UserInfo endpoint is queried.
    pub async fn complete_claims(
        &self,
        holder: Holder,
        identified: IdentifiedPerson<'_>,
        now: Time,
    ) -> Result<ProviderClaims> {
        match identified.0 {
            IdentitySource::Remote(remote, vouched) if vouched.claims.email.is_none() => {
                let _call = self.calls.take(holder, 1)?;
                remote.complete_claims(*vouched, now).await
            }
            IdentitySource::Remote(_, vouched) => Ok(vouched.claims),
            IdentitySource::Mock(claims) => Ok(claims),
        }
    }
}

impl IdentifiedPerson<'_> {
    /// Returns the claims of the ID token.
    pub fn claims(&self) -> &ProviderClaims {
        match &self.0 {
            IdentitySource::Remote(_, vouched) => &vouched.claims,
            IdentitySource::Mock(claims) => claims,
        }
    }
}

impl SignInTarget<'_> {
    /// Returns the URL to which the sign-in redirects the browser.
    pub fn sign_in_url(&self, login: &PendingLogin) -> Result<String> {
        match &self.0 {
            ProviderTarget::Mock(mock, person) => mock.callback_url(person, login),
            ProviderTarget::Remote(remote, known) => Ok(remote.sign_in_url(known, login)),
        }
    }
}

/// Returns the error for a sign-in if the provider has not identified a person.
fn not_signed_in_error() -> Error {
    Error::new(
        Code::Unauthenticated,
        "the identity provider has not signed you in: begin again at /auth/oidc/login",
    )
}

/// Logs the reason for refusing a sign-in, and returns the error, which omits the reason.
fn sign_in_refused_error(document: DocumentKind, why: &str) -> Error {
    tracing::warn!(%document, why, "a sign-in was refused");
    not_signed_in_error()
}

fn expose_secret_text(secret: &SecretString) -> String {
    secret.expose_secret().to_owned()
}
