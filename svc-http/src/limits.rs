//! What one server takes up at once, and how long it waits for bytes. Rate limits are the core's.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use svc_core::config::Config;
use svc_core::limits::{BODY_MAX_BYTES, CONCURRENT_REQUESTS_MAX, WS_CONNECTIONS_MAX};

/// How long a client may take over its request's head.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may take over its request's body.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// How long connections may take to finish once the listener is closed.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// What an operator can set.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Bytes of a request body.
    pub body_max_bytes: usize,
    /// Requests in flight; none means any number.
    pub concurrent_requests: Option<NonZeroU32>,
    /// WebSocket connections.
    pub ws_connections: u32,
    /// Proxies in front whose `X-Forwarded-For` entries are believed.
    pub trusted_proxy_hops: usize,
    /// Host names of this server beside localhost and its own address, in lower case.
    pub allowed_hosts: Vec<String>,
    /// How long to serve on and say `draining` after the signal to end.
    pub shutdown_drain: Duration,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            body_max_bytes: usize::try_from(BODY_MAX_BYTES).unwrap_or(usize::MAX),
            concurrent_requests: u32::try_from(CONCURRENT_REQUESTS_MAX).ok().and_then(NonZeroU32::new),
            ws_connections: u32::try_from(WS_CONNECTIONS_MAX).unwrap_or(u32::MAX),
            trusted_proxy_hops: 0,
            allowed_hosts: Vec::new(),
            shutdown_drain: Duration::ZERO,
        }
    }
}

impl From<&Config> for HttpSettings {
    fn from(config: &Config) -> Self {
        Self {
            body_max_bytes: config.body_max_bytes,
            concurrent_requests: config.concurrent_requests,
            ws_connections: config.ws_connections,
            trusted_proxy_hops: config.trusted_proxy_hops,
            allowed_hosts: config.allowed_hosts.clone(),
            shutdown_drain: config.shutdown_drain,
        }
    }
}

/// How many of something there may be at once.
pub(crate) struct Ceiling {
    taken: Arc<AtomicUsize>,
    most: usize,
}

/// One of them; gives its place back when dropped.
#[must_use = "dropping the permit gives its place back"]
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Ceiling {
    pub fn new(most: Option<u32>) -> Self {
        let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        Self { taken: Arc::default(), most }
    }

    /// A place, if there is one left.
    pub fn take(&self) -> Option<Permit> {
        // The permit exists before the check, so that a refusal gives its place back by dropping it.
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        let permit = Permit(Arc::clone(&self.taken));
        (before < self.most).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_given_back() {
        let ceiling = Ceiling::new(Some(1));
        let permit = ceiling.take();
        assert!(permit.is_some() && ceiling.take().is_none() && ceiling.take().is_none());
        drop(permit);
        assert!(ceiling.take().is_some());
        let open = Ceiling::new(None);
        let permits: Vec<_> = (0..5000).map(|_| open.take()).collect();
        assert!(permits.iter().all(Option::is_some));
    }
}
