//! Signs people in at the identity provider: sends the browser there, and verifies the proof with which it
//! returns.
//!
//! Only parts of the provider's responses that its signature or TLS protects are trusted, and its error
//! messages are not shown. The core decides which member a verified person is.
//!
//! The provider's documents are read tolerantly: only the members that are used, in every form that providers
//! write. Security checks are strict.

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
use svc_core::ops::{BegunLogin, LoginSecrets, MockPerson, OidcCallback, OidcLogin, ProviderClaims};
use svc_core::time::Time;
use svc_core::{Ceiling, Code, Error, Holder, Result};

use crate::limits::PROVIDER_CALLS_MAX;
use document::DocumentKind;
use mock::MockProvider;
use remote::{ProviderKeys, RemoteProvider, VerifiedPerson};

/// The identity provider at which people sign in.
pub(crate) struct Provider {
    kind: ProviderKind,
    /// Limits the number of requests that wait for the provider at the same time.
    calls: Ceiling,
}

enum ProviderKind {
    Remote(Box<RemoteProvider>),
    Mock(MockProvider),
}

/// A provider that was found to be reachable, for one sign-in that is about to begin.
pub(crate) struct SignInRoute<'a>(RouteTarget<'a>);

enum RouteTarget<'a> {
    Remote(&'a RemoteProvider, ProviderKeys),
    Mock(&'a MockProvider, MockPerson),
}

/// A person whom the provider has identified.
pub(crate) struct IdentifiedPerson<'a>(IdentitySource<'a>);

enum IdentitySource<'a> {
    Remote(&'a RemoteProvider, Box<VerifiedPerson>),
    Mock(ProviderClaims),
}

impl Provider {
    /// Creates the client of the provider, without sending a request.
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

    /// Finds the provider's sign-in address. Fails with 503 if the provider does not return its documents.
    pub async fn way(&self, holder: Holder, login: &OidcLogin, now: Time) -> Result<SignInRoute<'_>> {
        match &self.kind {
            ProviderKind::Mock(mock) => Ok(SignInRoute(RouteTarget::Mock(mock, login.mock_person()?))),
            ProviderKind::Remote(remote) => {
                let _call = self.calls.take(holder, 1)?;
                Ok(SignInRoute(RouteTarget::Remote(remote, remote.known(now).await?)))
            }
        }
    }

    /// Verifies the callback of a sign-in, and returns the person whom the provider has identified.
    pub async fn identify(
        &self,
        holder: Holder,
        callback: &OidcCallback,
        secrets: &LoginSecrets,
        now: Time,
    ) -> Result<IdentifiedPerson<'_>> {
        let code = callback.code().ok_or_else(refused)?;
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

    /// Returns the full claims of a person who has not signed in before.
    ///
    /// If the ID token has no email, the UserInfo endpoint is queried.
    pub async fn complete(
        &self,
        holder: Holder,
        identified: IdentifiedPerson<'_>,
        now: Time,
    ) -> Result<ProviderClaims> {
        match identified.0 {
            IdentitySource::Remote(remote, vouched) if vouched.claims.email.is_none() => {
                let _call = self.calls.take(holder, 1)?;
                remote.complete(*vouched, now).await
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

impl SignInRoute<'_> {
    /// Returns the URL to which the browser is sent to sign in.
    pub fn address(&self, login: &BegunLogin) -> Result<String> {
        match &self.0 {
            RouteTarget::Mock(mock, person) => mock.address(person, login),
            RouteTarget::Remote(remote, known) => Ok(remote.address(known, login)),
        }
    }
}

/// Returns the error for a sign-in in which the provider has not identified a person.
fn refused() -> Error {
    Error::new(
        Code::Unauthenticated,
        "the identity provider has not signed you in: begin again at /auth/oidc/login",
    )
}

/// Logs the reason for refusing a sign-in, and returns the error, which omits the reason.
fn sign_in_refused(document: DocumentKind, why: &str) -> Error {
    tracing::warn!(%document, why, "a sign-in was refused");
    refused()
}

fn owned(secret: &SecretString) -> String {
    secret.expose_secret().to_owned()
}
