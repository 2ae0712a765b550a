//! What one server takes up at once, and how long it waits for bytes. Rate limits are the core's.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use svc_core::config::Config;
use svc_core::limits::{BODY_MAX_BYTES, CONCURRENT_REQUESTS_MAX, CONNECTIONS_MAX, WS_CONNECTIONS_MAX};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a client may take over its request's head.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// A peer that takes nothing of what is sent to it for so long is cut off.
pub(crate) const TAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long connections may take to finish once the listener is closed.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// What an operator can set.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Bytes of a request body.
    pub body_max_bytes: usize,
    /// Requests in flight; none means any number.
    pub concurrent_requests: Option<NonZeroU32>,
    /// Connections; none means any number.
    pub connections: Option<NonZeroU32>,
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
            connections: u32::try_from(CONNECTIONS_MAX).ok().and_then(NonZeroU32::new),
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
            connections: config.connections,
            ws_connections: config.ws_connections,
            trusted_proxy_hops: config.trusted_proxy_hops,
            allowed_hosts: config.allowed_hosts.clone(),
            shutdown_drain: config.shutdown_drain,
        }
    }
}

impl HttpSettings {
    /// The same with no more connections than a process with so many `descriptors` can have.
    #[must_use]
    pub fn within(self, descriptors: usize) -> Self {
        let left = u32::try_from(descriptors.saturating_sub(OWN_DESCRIPTORS)).unwrap_or(u32::MAX).max(1);
        let connections = self.connections.map(|most| most.min(NonZeroU32::new(left).unwrap_or(most)));
        Self { connections, ..self }
    }

    /// How many connections there may be in all, and from one address.
    pub(crate) fn connections(&self) -> (usize, usize) {
        let most = self.connections.and_then(|most| usize::try_from(most.get()).ok());
        let Some(most) = most else { return (usize::MAX, usize::MAX) };
        // A trusted proxy brings everybody's.
        let each = if self.trusted_proxy_hops == 0 { (most / PEER_PART).max(1) } else { most };
        (most, each)
    }
}

/// Descriptors that are kept for the database, files and the runtime.
const OWN_DESCRIPTORS: usize = 128;
/// One address may have this part of all connections.
const PEER_PART: usize = 10;

/// How many of something there may be at once.
pub(crate) struct Ceiling {
    most: usize,
    left: Arc<Semaphore>,
}

/// One of them; gives its place back when dropped.
pub(crate) type Permit = OwnedSemaphorePermit;

impl Ceiling {
    pub fn new(most: Option<u32>) -> Self {
        let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(Semaphore::MAX_PERMITS);
        Self { most, left: Arc::new(Semaphore::new(most)) }
    }

    /// How many there are.
    pub fn taken(&self) -> usize {
        self.most.saturating_sub(self.left.available_permits())
    }

    /// A place, if there is one left.
    pub fn take(&self) -> Option<Permit> {
        Arc::clone(&self.left).try_acquire_owned().ok()
    }

    /// Whether there is one left.
    pub fn is_left(&self) -> bool {
        self.left.available_permits() > 0
    }

    /// A place, as soon as there is one left.
    pub async fn wait(&self) -> Option<Permit> {
        Arc::clone(&self.left).acquire_owned().await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_a_part_of_the_connections() {
        let settings = |most, trusted_proxy_hops| HttpSettings {
            connections: NonZeroU32::new(most),
            trusted_proxy_hops,
            ..HttpSettings::default()
        };
        assert_eq!(settings(20_000, 0).connections(), (20_000, 2000));
        assert_eq!(settings(20_000, 1).connections(), (20_000, 20_000));
        assert_eq!(settings(5, 0).connections(), (5, 1));
        assert_eq!(settings(0, 0).connections(), (usize::MAX, usize::MAX));
        assert_eq!(settings(20_000, 0).within(1024).connections(), (896, 89));
        assert_eq!(settings(20_000, 0).within(1 << 20).connections(), (20_000, 2000));
        assert_eq!(settings(0, 0).within(1024).connections(), (usize::MAX, usize::MAX));
    }

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
