//! What the provider says about itself: its discovery document and its keys.
//!
//! Both are fetched when they are first needed, and again after an hour. The keys are fetched at once if a
//! token names one that is not among them, but at most once a minute: anybody can make up the name of a key.

use std::sync::Arc;
use std::time::Duration;

use openidconnect::core::{CoreJsonWebKeySet, CoreProviderMetadata};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use svc_core::time::Time;
use svc_core::{Code, Error, Result};
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::outbound::{Failed, Outbound};

/// How long the document and the keys are used.
const USED_FOR: Duration = Duration::from_secs(3600);
/// The shortest time between two fetches of the keys.
const BETWEEN_KEYS: Duration = Duration::from_secs(60);

/// The provider's document with its keys.
#[derive(Clone)]
pub(super) struct Known {
    /// The keys are in it.
    pub metadata: Arc<CoreProviderMetadata>,
    /// Whether its answers name it (RFC 9207).
    pub names_itself: bool,
    found_at: Time,
    keys_at: Time,
}

/// The member of the document that the library does not read.
#[derive(Deserialize)]
struct NamesItself {
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// What is known of the provider; one request at a time asks it.
pub(super) struct Keys {
    issuer: String,
    last: Mutex<Last>,
}

/// The outcome of the last time that the provider was asked.
#[derive(Default)]
struct Last {
    known: Option<Known>,
    /// When it was in vain.
    failed: Option<(Instant, Error)>,
}

impl Keys {
    pub fn new(issuer: String) -> Self {
        Self { issuer, last: Mutex::default() }
    }

    /// Returns what is known, asking the provider if that is nothing or old.
    ///
    /// If that was in vain, it was so for everybody who has waited meanwhile.
    pub async fn known(&self, outbound: &Outbound, now: Time) -> Result<Known> {
        let begun = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(known) = last.known.as_ref().filter(|known| now.since(known.found_at) < USED_FOR) {
            return Ok(known.clone());
        }
        if let Some((_, error)) = last.failed.as_ref().filter(|(at, _)| *at >= begun) {
            return Err(error.clone());
        }
        let found = self.discover(outbound, now).await;
        match &found {
            Ok(known) => *last = Last { known: Some(known.clone()), failed: None },
            Err(error) => last.failed = Some((Instant::now(), error.clone())),
        }
        found
    }

    /// Returns newer keys than `seen`; none if the provider was asked less than a minute ago.
    pub async fn newer(&self, outbound: &Outbound, seen: &Known, now: Time) -> Result<Option<Known>> {
        let mut last = self.last.lock().await;
        let held = last.known.as_ref().unwrap_or(seen).clone();
        if held.keys_at != seen.keys_at {
            return Ok(Some(held));
        }
        if now.since(held.keys_at) < BETWEEN_KEYS {
            return Ok(None);
        }
        let mut newer = Known { keys_at: now, ..held };
        // Noted before the provider is asked, so that one which fails is not asked more often.
        last.known = Some(newer.clone());
        newer.metadata = Arc::new(with_keys(outbound, (*newer.metadata).clone()).await?);
        last.known = Some(newer.clone());
        Ok(Some(newer))
    }

    async fn discover(&self, outbound: &Outbound, now: Time) -> Result<Known> {
        let address = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let document = outbound.get(&address).await.map_err(away)?;
        let metadata: CoreProviderMetadata = read(&document)?;
        if metadata.issuer().as_str() != self.issuer {
            return Err(broken("its discovery document names another issuer"));
        }
        if metadata.token_endpoint().is_none() {
            return Err(broken("its discovery document names no token endpoint"));
        }
        // The browser goes there, and its person types a password there.
        outbound.check(metadata.authorization_endpoint().url()).map_err(away)?;
        let NamesItself { authorization_response_iss_parameter_supported: names_itself } = read(&document)?;
        let metadata = Arc::new(with_keys(outbound, metadata).await?);
        Ok(Known { metadata, names_itself, found_at: now, keys_at: now })
    }
}

async fn with_keys(outbound: &Outbound, metadata: CoreProviderMetadata) -> Result<CoreProviderMetadata> {
    let keys = outbound.get(metadata.jwks_uri().as_str()).await.map_err(away)?;
    let keys: CoreJsonWebKeySet = read(&keys)?;
    Ok(metadata.set_jwks(keys))
}

fn read<T: DeserializeOwned>(document: &[u8]) -> Result<T> {
    serde_json::from_slice(document).map_err(|error| unavailable(error.to_string()))
}

/// The provider could not be reached.
pub(super) fn away(failed: Failed) -> Error {
    unavailable(failed)
}

/// The provider answers, but not as one.
pub(super) fn broken(how: &'static str) -> Error {
    unavailable(how)
}

fn unavailable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    let error = Error::new(Code::ProviderUnavailable, "the identity provider does not respond as it should");
    let error = error.caused_by(cause);
    tracing::warn!(cause = ?error.cause(), "the identity provider cannot be used");
    error
}
