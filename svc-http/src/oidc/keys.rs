//! Fetches and caches the provider's discovery document and keys.
//!
//! The document and the keys are fetched when they are first needed, and again after an hour. The keys are
//! also fetched again when they do not verify a token, but no more than once a minute, because an attacker
//! can send any number of invalid tokens.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use svc_core::time::Time;
use svc_core::{Code, Error, Result};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::discovery::Discovery;
use super::document::DocumentKind;
use super::key_set::KeySet;
use crate::outbound::OutboundClient;

/// Time for which the discovery document and the keys are cached.
const CACHE_LIFETIME: Duration = Duration::from_secs(3600);
/// Minimum time between two fetches of the provider's keys.
const KEY_FETCH_INTERVAL: Duration = Duration::from_secs(60);

/// Discovery document and keys of the provider.
#[derive(Clone)]
pub(super) struct ProviderKeys {
    pub discovery: Arc<Discovery>,
    pub keys: Arc<KeySet>,
    discovered_at: Time,
    keys_fetched_at: Time,
}

/// Cache of the discovery document and the keys. Only one request at a time fetches them.
pub(super) struct ProviderCache {
    issuer: String,
    last: Mutex<LastFetch>,
}

/// Outcome of the last fetch of the discovery document and the keys.
#[derive(Default)]
struct LastFetch {
    known: Option<ProviderKeys>,
    /// The last failure of a fetch, with the time of the failure.
    failed: Option<(Instant, Error)>,
}

impl ProviderCache {
    pub fn new(issuer: String) -> Self {
        Self { issuer, last: Mutex::default() }
    }

    /// Returns the cached discovery document and keys, after fetching them if they are missing or expired.
    ///
    /// If a fetch fails, all requests that waited for it fail too.
    pub async fn get_or_fetch(&self, outbound: &OutboundClient, now: Time) -> Result<ProviderKeys> {
        let begun = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(known) =
            last.known.as_ref().filter(|known| now.since(known.discovered_at) < CACHE_LIFETIME)
        {
            return Ok(known.clone());
        }
        if let Some((_, error)) = last.failed.as_ref().filter(|(at, _)| *at >= begun) {
            return Err(error.clone());
        }
        let found = self.fetch_all(outbound, now).await;
        match &found {
            Ok(known) => *last = LastFetch { known: Some(known.clone()), failed: None },
            Err(error) => last.failed = Some((Instant::now(), error.clone())),
        }
        found
    }

    /// Returns keys that are newer than those in `rejected_keys`, or `None` if the keys were fetched less
    /// than a minute ago.
    pub async fn fetch_newer(
        &self,
        outbound: &OutboundClient,
        rejected_keys: &ProviderKeys,
        now: Time,
    ) -> Result<Option<ProviderKeys>> {
        let mut last = self.last.lock().await;
        let held = last.known.as_ref().unwrap_or(rejected_keys).clone();
        if held.keys_fetched_at != rejected_keys.keys_fetched_at {
            return Ok(Some(held));
        }
        if now.since(held.keys_fetched_at) < KEY_FETCH_INTERVAL {
            return Ok(None);
        }
        let mut newer = ProviderKeys { keys_fetched_at: now, ..held };
        // The time is stored before the fetch, so that a failing provider is not queried more often.
        last.known = Some(newer.clone());
        newer.keys = fetch_keys(outbound, &newer.discovery.jwks_uri).await?;
        last.known = Some(newer.clone());
        Ok(Some(newer))
    }

    async fn fetch_all(&self, outbound: &OutboundClient, now: Time) -> Result<ProviderKeys> {
        let address = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let json = outbound
            .get(&address)
            .await
            .map_err(|failed| provider_unavailable_error(DocumentKind::Discovery, failed))?;
        let discovery = Discovery::parse(&json, &self.issuer)
            .map_err(|why| provider_unavailable_error(DocumentKind::Discovery, why))?;
        // The sign-in redirects the browser to this URL, where the person enters a password.
        let checked = outbound.check(&discovery.authorization_endpoint);
        checked.map_err(|failed| provider_unavailable_error(DocumentKind::Discovery, failed))?;
        let keys = fetch_keys(outbound, &discovery.jwks_uri).await?;
        Ok(ProviderKeys { discovery: Arc::new(discovery), keys, discovered_at: now, keys_fetched_at: now })
    }
}

async fn fetch_keys(outbound: &OutboundClient, address: &Url) -> Result<Arc<KeySet>> {
    let json = outbound
        .get(address.as_str())
        .await
        .map_err(|failed| provider_unavailable_error(DocumentKind::Keys, failed))?;
    KeySet::parse(&json).map(Arc::new).map_err(|why| provider_unavailable_error(DocumentKind::Keys, why))
}

/// Logs a missing or invalid document of the provider, and returns the error for it.
pub(super) fn provider_unavailable_error(
    document: DocumentKind,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    let error = Error::new(Code::ProviderUnavailable, "the identity provider does not respond as it should");
    let error = error.caused_by(cause);
    tracing::warn!(%document, cause = ?error.cause(), "the identity provider cannot be used");
    error
}
