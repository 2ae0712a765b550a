//! The identity provider: the address for the browser, and the proof with which it returns.
//!
//! Only the parts of the provider's answers that its signature or TLS covers are trusted, and its errors are
//! not shown. The core decides which member a verified person is.
//!
//! Its documents are read tolerantly: only the members that are used, in the forms that providers write.
//! Checks that determine security are strict.

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
    /// Limits the requests that wait for the provider at the same time.
    calls: Ceiling,
}

enum ProviderKind {
    Remote(Box<RemoteProvider>),
    Mock(MockProvider),
}

/// The route to the provider for one sign-in, which is checked before the sign-in begins.
pub(crate) struct SignInRoute<'a>(RouteTarget<'a>);

enum RouteTarget<'a> {
    Remote(&'a RemoteProvider, ProviderKeys),
    Mock(&'a MockProvider, MockPerson),
}

/// A person for whom the provider vouches.
pub(crate) struct IdentifiedPerson<'a>(IdentitySource<'a>);

enum IdentitySource<'a> {
    Remote(&'a RemoteProvider, Box<VerifiedPerson>),
    Mock(ProviderClaims),
}

impl Provider {
    /// Creates the client of the provider, without a request to it.
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

    /// Finds the route to the provider. Fails with 503 if the provider does not return its address.
    pub async fn way(&self, holder: Holder, login: &OidcLogin, now: Time) -> Result<SignInRoute<'_>> {
        match &self.kind {
            ProviderKind::Mock(mock) => Ok(SignInRoute(RouteTarget::Mock(mock, login.mock_person()?))),
            ProviderKind::Remote(remote) => {
                let _call = self.calls.take(holder, 1)?;
                Ok(SignInRoute(RouteTarget::Remote(remote, remote.known(now).await?)))
            }
        }
    }

    /// Returns the signed claims about the person who has returned from the provider.
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

    /// Returns the claims of a person whom the service does not know yet.
    ///
    /// UserInfo is queried for a missing email.
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
    /// Returns the address for the browser.
    pub fn address(&self, login: &BegunLogin) -> Result<String> {
        match &self.0 {
            RouteTarget::Mock(mock, person) => mock.address(person, login),
            RouteTarget::Remote(remote, known) => Ok(remote.address(known, login)),
        }
    }
}

/// Returns the error if the provider has not vouched for a person.
fn refused() -> Error {
    Error::new(
        Code::Unauthenticated,
        "the identity provider has not signed you in: begin again at /auth/oidc/login",
    )
}

/// Logs why a sign-in is refused, which the response omits.
fn sign_in_refused(document: DocumentKind, why: &str) -> Error {
    tracing::warn!(%document, why, "a sign-in was refused");
    refused()
}

fn owned(secret: &SecretString) -> String {
    secret.expose_secret().to_owned()
}
