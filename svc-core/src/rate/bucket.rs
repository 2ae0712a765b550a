//! The usage of one client or workspace: the generic cell rate algorithm (GCRA).
//!
//! A bucket is one point in time: when the whole allowance is available again. Each request moves it by the
//! time that one request takes to become available, and is rejected if that would be more than a window away.

use std::time::Duration;

use crate::limits::RATE_LIMIT_SHARES;
use crate::time::Monotonic;

/// Number of requests allowed per window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Number of requests, sent at once or one after the other.
    pub requests: u32,
    /// Time until a used-up allowance is whole again.
    pub window: Duration,
    /// Time until one request is available again.
    pub interval: Duration,
}

impl Allowance {
    /// Returns the allowance of a number of requests. Returns `None` for no limit.
    pub fn new(requests: i64, window: Duration) -> Option<Self> {
        let requests = u32::try_from(requests).unwrap_or(if requests > 0 { u32::MAX } else { 0 });
        let interval = window.checked_div(requests)?;
        (!interval.is_zero()).then_some(Self { requests, window, interval })
    }

    /// Returns how many requests a server may admit before it notifies the others.
    pub fn share(&self) -> u32 {
        self.requests.checked_div(RATE_LIMIT_SHARES).unwrap_or(0).max(1)
    }

    /// Returns how long `requests` take to become available again, up to a window.
    pub fn cost(&self, requests: u32) -> Duration {
        self.interval.saturating_mul(requests).min(self.window)
    }
}

/// The usage of one client or workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsageBucket {
    pub allowance: Allowance,
    /// When the whole allowance is available again. If that time has passed, it already is.
    full_at: Monotonic,
    /// Requests that were admitted here and not yet reported to the other servers.
    untold: u32,
    /// When the first of these was admitted.
    untold_since: Monotonic,
}

/// The rest of an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemainingAllowance {
    pub requests: u32,
    /// Time until all of it is available again.
    pub full_in: Duration,
}

impl UsageBucket {
    /// Creates the bucket of a client that has sent nothing yet.
    pub fn new(allowance: Allowance, now: Monotonic) -> Self {
        Self { allowance, full_at: now, untold: 0, untold_since: now }
    }

    /// Counts a request, or returns how long it has to wait.
    pub fn take(&mut self, now: Monotonic) -> Result<(), Duration> {
        let full_at = self.full_at.max(now).plus(self.allowance.interval);
        if let Some(early) = self.excess(full_at, now) {
            return Err(early);
        }
        self.full_at = full_at;
        self.count_unreported(now);
        Ok(())
    }

    /// Returns how far it exceeds the allowance, if it does.
    pub fn over(&self, now: Monotonic) -> Option<Duration> {
        self.excess(self.full_at, now)
    }

    fn excess(&self, full_at: Monotonic, now: Monotonic) -> Option<Duration> {
        full_at.since(now).checked_sub(self.allowance.window).filter(|excess| !excess.is_zero())
    }

    /// Returns the rest of the allowance.
    pub fn left(&self, now: Monotonic) -> RemainingAllowance {
        let full_in = self.full_at.since(now);
        let free = self.allowance.window.saturating_sub(full_in).as_nanos();
        let requests = free.checked_div(self.allowance.interval.as_nanos()).unwrap_or(0);
        RemainingAllowance { requests: u32::try_from(requests).unwrap_or(u32::MAX), full_in }
    }

    /// Requests older than a window are available again everywhere, so they need not be reported.
    fn count_unreported(&mut self, now: Monotonic) {
        if self.untold == 0 || now.since(self.untold_since) > self.allowance.window {
            (self.untold, self.untold_since) = (0, now);
        }
        self.untold = self.untold.saturating_add(1);
    }

    /// Returns the number of requests to report to the other servers, if it has reached a share.
    pub fn due(&self) -> Option<u32> {
        (self.untold >= self.allowance.share()).then_some(self.untold)
    }

    /// Applies the usage of all servers, which includes `told` requests of this one.
    pub fn adopt(&mut self, told: u32, full_in: Duration, now: Monotonic) {
        self.untold = self.untold.saturating_sub(told);
        self.untold_since = now;
        let all = now.plus(full_in).plus(self.allowance.cost(self.untold));
        self.full_at = self.full_at.max(all);
    }

    /// Returns whether its state is that of a new one.
    pub fn is_idle(&self, now: Monotonic) -> bool {
        self.full_at.since(now).is_zero() && now.since(self.untold_since) > self.allowance.window
    }
}
