//! The identity provider: where a browser is sent, and what its way back proves.
//!
//! Of the provider's answers nothing is believed that its signature or TLS does not cover, and nothing of
//! its errors is shown. Which member a verified person is, is decided in the core.
//!
//! Its documents are read tolerantly: only the members that are used, in the forms that providers write.
//! What decides security is strict.

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
use document::Kind as DocumentKind;
use mock::Mock;
use remote::{Known, Remote, Vouched};

/// The identity provider that people sign in at.
pub(crate) struct Provider {
    kind: Kind,
    /// Limits the requests that wait for the provider at the same time.
    calls: Ceiling,
}

enum Kind {
    Remote(Box<Remote>),
    Mock(Mock),
}

/// The way to the provider for one sign-in, which is known to exist before that begins.
pub(crate) struct Way<'a>(To<'a>);

enum To<'a> {
    Remote(&'a Remote, Known),
    Mock(&'a Mock, MockPerson),
}

/// A person for whom the provider vouches.
pub(crate) struct Identified<'a>(By<'a>);

enum By<'a> {
    Remote(&'a Remote, Box<Vouched>),
    Mock(ProviderClaims),
}

impl Provider {
    /// Creates the client of the provider, without a request to it.
    pub fn new(config: &OidcConfig) -> Result<Self> {
        let kind = match &config.provider {
            OidcProvider::Mock => {
                tracing::warn!("SVC_OIDC_MOCK is on: anybody can sign in as anybody");
                Kind::Mock(Mock::new(config.redirect_uri.clone()))
            }
            OidcProvider::At { .. } => Kind::Remote(Box::new(Remote::new(config)?)),
        };
        let calls =
            Ceiling::by_client("sign-ins at the provider", PROVIDER_CALLS_MAX, PROVIDER_CALLS_MAX / 2);
        Ok(Self { kind, calls })
    }

    /// Finds the way to the provider. Fails with 503 if the provider does not say where it is.
    pub async fn way(&self, holder: Holder, login: &OidcLogin, now: Time) -> Result<Way<'_>> {
        match &self.kind {
            Kind::Mock(mock) => Ok(Way(To::Mock(mock, login.mock_person()?))),
            Kind::Remote(remote) => {
                let _call = self.calls.take(holder, 1)?;
                Ok(Way(To::Remote(remote, remote.known(now).await?)))
            }
        }
    }

    /// Returns what the provider signs about the person who has come back from it.
    pub async fn identify(
        &self,
        holder: Holder,
        callback: &OidcCallback,
        secrets: &LoginSecrets,
        now: Time,
    ) -> Result<Identified<'_>> {
        let code = callback.code().ok_or_else(refused)?;
        match &self.kind {
            Kind::Mock(mock) => Ok(Identified(By::Mock(mock.identify(code, callback.issuer(), secrets)?))),
            Kind::Remote(remote) => {
                let _call = self.calls.take(holder, 1)?;
                let vouched = remote.identify(code, callback.issuer(), secrets, now).await?;
                Ok(Identified(By::Remote(remote, Box::new(vouched))))
            }
        }
    }

    /// Returns the claims of somebody whom the service does not know yet.
    ///
    /// UserInfo is asked for a missing email.
    pub async fn complete(
        &self,
        holder: Holder,
        identified: Identified<'_>,
        now: Time,
    ) -> Result<ProviderClaims> {
        match identified.0 {
            By::Remote(remote, vouched) if vouched.claims.email.is_none() => {
                let _call = self.calls.take(holder, 1)?;
                remote.complete(*vouched, now).await
            }
            By::Remote(_, vouched) => Ok(vouched.claims),
            By::Mock(claims) => Ok(claims),
        }
    }
}

impl Identified<'_> {
    /// Returns what the ID token says of the person.
    pub fn claims(&self) -> &ProviderClaims {
        match &self.0 {
            By::Remote(_, vouched) => &vouched.claims,
            By::Mock(claims) => claims,
        }
    }
}

impl Way<'_> {
    /// Returns the address that the browser goes to.
    pub fn address(&self, login: &BegunLogin) -> Result<String> {
        match &self.0 {
            To::Mock(mock, person) => mock.address(person, login),
            To::Remote(remote, known) => Ok(remote.address(known, login)),
        }
    }
}

/// The provider has not vouched for anybody.
fn refused() -> Error {
    Error::new(
        Code::Unauthenticated,
        "the identity provider has not signed you in: begin again at /auth/oidc/login",
    )
}

/// Logs why a sign-in is refused, which the response does not say.
fn turned_away(document: DocumentKind, why: &str) -> Error {
    tracing::warn!(%document, why, "a sign-in was refused");
    refused()
}

fn owned(secret: &SecretString) -> String {
    secret.expose_secret().to_owned()
}
