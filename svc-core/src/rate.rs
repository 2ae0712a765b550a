//! Rate limits: a number of requests per window for each client and each workspace.
//!
//! They use GCRA and are kept in this process. Rejected requests count too. The caller decides whom a request
//! is charged to.

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock as _;
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};

use crate::error::{Code, Error, Result};
use crate::id::{MemberId, TokenId, WorkspaceId};
use crate::limits;
use crate::time::Clock;

/// Whom a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// A token and all tokens derived from it: a token cannot multiply its limit.
    Token(TokenId),
    /// A member, with all its sessions that were made from no token.
    Member(MemberId),
    /// An address. For IPv6 the whole /64, which one host is usually given.
    Peer(IpAddr),
}

impl Client {
    /// Returns the client at an address.
    pub fn at(peer: IpAddr) -> Self {
        Self::Peer(match peer.to_canonical() {
            IpAddr::V6(address) => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << PREFIX_REST_BITS)))
            }
            v4 => v4,
        })
    }
}

/// The bits of an IPv6 address after its /64 prefix.
const PREFIX_REST_BITS: u32 = 64;

type Limiter<K> = RateLimiter<K, DefaultKeyedStateStore<K>, Ticks, NoOpMiddleware<Duration>>;

/// The service's clock, as the limiter reads it.
#[derive(Clone)]
struct Ticks(Clock);

impl governor::clock::Clock for Ticks {
    type Instant = Duration;

    fn now(&self) -> Duration {
        Duration::from_micros(self.0.monotonic().micros())
    }
}

/// Counts the requests of this process, by client and by workspace, and rejects too many.
pub struct RateLimits {
    clients: Option<Limiter<Client>>,
    workspaces: Option<Limiter<WorkspaceId>>,
    clock: Ticks,
}

/// How many requests are allowed per window.
#[derive(Clone, Copy, Debug)]
pub struct RateSettings {
    /// Per client; 0 means no limit.
    pub per_client: i64,
    /// Per workspace; 0 means no limit.
    pub per_workspace: i64,
    /// How long it takes until a used-up allowance is whole again.
    pub window: Duration,
}

impl Default for RateSettings {
    fn default() -> Self {
        Self {
            per_client: limits::RATE_LIMIT_MAX,
            per_workspace: limits::WORKSPACE_RATE_LIMIT_MAX,
            window: Duration::from_secs(limits::RATE_LIMIT_WINDOW_SECS.unsigned_abs()),
        }
    }
}

impl RateLimits {
    /// Creates the limits from the settings.
    pub fn new(settings: RateSettings, clock: &Clock) -> Self {
        let clock = Ticks(clock.clone());
        Self {
            clients: limiter(settings.per_client, settings.window, &clock),
            workspaces: limiter(settings.per_workspace, settings.window, &clock),
            clock,
        }
    }

    /// Counts a request of a client, or rejects it and says how long to wait.
    pub fn charge(&self, client: Client) -> Result<()> {
        self.check(self.clients.as_ref(), &client)
    }

    /// Counts a request in a workspace, or rejects it and says how long to wait.
    pub fn charge_workspace(&self, workspace: WorkspaceId) -> Result<()> {
        self.check(self.workspaces.as_ref(), &workspace)
    }

    fn check<K: Clone + Eq + std::hash::Hash>(&self, limiter: Option<&Limiter<K>>, key: &K) -> Result<()> {
        let Some(limiter) = limiter else { return Ok(()) };
        limiter.check_key(key).map_err(|until| {
            let secs = until.wait_time_from(self.clock.now()).as_secs().saturating_add(1);
            Error::new(Code::RateLimited, format!("too many requests; the next is admitted in {secs} s"))
                .with("retry_after_secs", secs)
        })
    }

    /// Drops the state of clients and workspaces that have been idle for a window.
    pub fn tidy(&self) {
        if let Some(limiter) = &self.clients {
            limiter.retain_recent();
        }
        if let Some(limiter) = &self.workspaces {
            limiter.retain_recent();
        }
    }
}

/// Creates a limiter that admits a whole window's quota at once and then refills evenly.
fn limiter<K: Clone + Eq + std::hash::Hash>(
    per_window: i64,
    window: Duration,
    clock: &Ticks,
) -> Option<Limiter<K>> {
    let burst = NonZeroU32::new(u32::try_from(per_window).ok()?)?;
    let quota = Quota::with_period(window / burst.get())?.allow_burst(burst);
    Some(RateLimiter::new(quota, DefaultKeyedStateStore::default(), clock.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(3600);

    fn limits(per_client: i64, per_workspace: i64) -> (RateLimits, Clock) {
        let clock = Clock::mock(crate::time::Time::from_micros(0));
        (RateLimits::new(RateSettings { per_client, per_workspace, window: WINDOW }, &clock), clock)
    }

    fn peer(address: &str) -> Client {
        Client::at(address.parse().unwrap())
    }

    #[test]
    fn a_client_is_rejected_beyond_its_quota_and_admitted_after_a_refill() {
        let (limits, clock) = limits(2, 3);
        let workspace = || limits.charge_workspace(WorkspaceId::INSTANCE);
        for _ in 0..2 {
            limits.charge(peer("192.0.2.1")).and_then(|()| workspace()).unwrap();
        }
        let rejected = limits.charge(peer("192.0.2.1")).unwrap_err();
        assert_eq!((rejected.code(), rejected.retry_after_secs()), (Code::RateLimited, Some(1801)));
        limits.charge(peer("192.0.2.2")).and_then(|()| workspace()).unwrap();
        assert!(workspace().is_err(), "the workspace has a window of its own");
        clock.advance(WINDOW / 2);
        limits.charge(peer("192.0.2.1")).unwrap();
        assert!(limits.charge(peer("192.0.2.1")).is_err());
    }

    #[test]
    fn zero_means_no_limit() {
        let (limits, _) = limits(0, 0);
        assert!((0..100).all(|_| limits.charge(peer("192.0.2.1")).is_ok()));
    }

    #[test]
    fn an_ipv6_host_is_one_client_with_all_its_addresses() {
        assert_eq!(peer("2001:db8:0:1::5"), peer("2001:db8:0:1:ffff::"));
        assert_ne!(peer("2001:db8:0:1::5"), peer("2001:db8:0:2::5"));
        assert_ne!(peer("192.0.2.1"), peer("192.0.2.2"));
        assert_eq!(peer("::ffff:192.0.2.1"), peer("192.0.2.1"));
    }
}
