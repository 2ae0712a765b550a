//! Rate limits: so many requests per window for each client and for each workspace (GCRA, kept in this process).
//! A client is its token, or its address while it has none; refused requests count too.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};

use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits;

type Limiter<K> = RateLimiter<K, DefaultKeyedStateStore<K>, DefaultClock>;

/// The limits of one process.
pub struct RateLimits {
    clients: Option<Limiter<[u8; 32]>>,
    workspaces: Option<Limiter<WorkspaceId>>,
    clock: DefaultClock,
}

/// How many requests per window.
#[derive(Clone, Copy, Debug)]
pub struct RateSettings {
    /// Per client; 0 is no limit.
    pub per_client: i64,
    /// Per workspace; 0 is no limit.
    pub per_workspace: i64,
    /// The window.
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
    /// Limits as set.
    pub fn new(settings: RateSettings) -> Self {
        Self {
            clients: quota(settings.per_client, settings.window).map(RateLimiter::keyed),
            workspaces: quota(settings.per_workspace, settings.window).map(RateLimiter::keyed),
            clock: DefaultClock::default(),
        }
    }

    /// Counts a request, or refuses it and says how long to wait.
    pub fn admit(&self, client: Option<&[u8; 32]>, workspace: Option<WorkspaceId>) -> Result<()> {
        if let (Some(limiter), Some(client)) = (&self.clients, client) {
            limiter
                .check_key(client)
                .map_err(|until| self.refusal(until.wait_time_from(self.clock.now())))?;
        }
        if let (Some(limiter), Some(workspace)) = (&self.workspaces, workspace) {
            limiter
                .check_key(&workspace)
                .map_err(|until| self.refusal(until.wait_time_from(self.clock.now())))?;
        }
        Ok(())
    }

    /// Drops what is known of clients that have been quiet for a window.
    pub fn tidy(&self) {
        if let Some(limiter) = &self.clients {
            limiter.retain_recent();
        }
        if let Some(limiter) = &self.workspaces {
            limiter.retain_recent();
        }
    }

    fn refusal(&self, wait: Duration) -> Error {
        let secs = wait.as_secs().saturating_add(1);
        Error::new(Code::RateLimited, format!("too many requests; try again in {secs} s"))
            .with("retry_after_secs", secs)
    }
}

/// A whole window's worth may come at once; then it refills evenly.
fn quota(per_window: i64, window: Duration) -> Option<Quota> {
    let burst = NonZeroU32::new(u32::try_from(per_window).ok()?)?;
    Some(Quota::with_period(window / burst.get())?.allow_burst(burst))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_refused_beyond_its_window() {
        let window = Duration::from_secs(3600);
        let limits = RateLimits::new(RateSettings { per_client: 2, per_workspace: 3, window });
        let workspace = Some(WorkspaceId::INSTANCE);
        for _ in 0..2 {
            limits.admit(Some(&[1; 32]), workspace).unwrap();
        }
        let refused = limits.admit(Some(&[1; 32]), workspace).unwrap_err();
        assert_eq!(refused.code(), Code::RateLimited);
        assert!(refused.retry_after_secs().is_some());
        limits.admit(Some(&[2; 32]), workspace).unwrap();
        assert!(limits.admit(Some(&[3; 32]), workspace).is_err(), "the workspace has its own window");
        let off = RateLimits::new(RateSettings { per_client: 0, per_workspace: 0, window });
        assert!((0..100).all(|_| off.admit(Some(&[1; 32]), workspace).is_ok()));
    }
}
