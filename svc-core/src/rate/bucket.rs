//! The usage of a rate limit by one client or workspace: the generic cell rate algorithm (GCRA).
//!
//! A bucket is a single point in time, at which the whole allowance is available again. Each request moves
//! this time forward by the time in which one request becomes available, and is rejected if the result would
//! be more than a window away.

use std::time::Duration;

use crate::limits::RATE_LIMIT_SHARES;
use crate::time::Monotonic;

/// Number of requests allowed per window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Number of requests that may be sent at the same time. They become available again evenly over a
    /// window.
    pub requests: u32,
    /// Time until a fully used allowance is available again.
    pub window: Duration,
    /// Time until one used request is available again.
    pub interval: Duration,
}

impl Allowance {
    /// Creates an allowance of `requests` per window. Returns `None` for 0, which means no limit.
    pub fn new(requests: i64, window: Duration) -> Option<Self> {
        let requests = u32::try_from(requests).unwrap_or(if requests > 0 { u32::MAX } else { 0 });
        let interval = window.checked_div(requests)?;
        (!interval.is_zero()).then_some(Self { requests, window, interval })
    }

    /// Returns how many requests a server may admit before it notifies the other servers.
    pub fn requests_per_share(&self) -> u32 {
        self.requests.checked_div(RATE_LIMIT_SHARES).unwrap_or(0).max(1)
    }

    /// Returns the time in which `requests` become available again, up to a window.
    pub fn refill_time(&self, requests: u32) -> Duration {
        self.interval.saturating_mul(requests).min(self.window)
    }
}

/// The usage of a rate limit by one client or workspace.
#[derive(Clone, Copy, Debug)]
pub(super) struct UsageBucket {
    pub allowance: Allowance,
    /// The time at which the whole allowance is available again. If it has passed, the allowance is already
    /// available.
    full_at: Monotonic,
    /// Number of requests admitted by this server and not yet reported to the other servers.
    unreported: u32,
    /// The time at which the first unreported request was admitted.
    unreported_since: Monotonic,
}

/// The unused requests of an allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemainingAllowance {
    pub requests: u32,
    /// Time until the whole allowance is available again.
    pub full_in: Duration,
}

impl UsageBucket {
    /// Creates the bucket of a client that has sent nothing yet.
    pub fn new(allowance: Allowance, now: Monotonic) -> Self {
        Self { allowance, full_at: now, unreported: 0, unreported_since: now }
    }

    /// Counts a request. If the allowance is used up, fails with the time until the next request is
    /// available.
    pub fn count_request(&mut self, now: Monotonic) -> Result<(), Duration> {
        let full_at = self.full_at.max(now).plus(self.allowance.interval);
        if let Some(early) = self.excess_at(full_at, now) {
            return Err(early);
        }
        self.full_at = full_at;
        self.count_unreported(now);
        Ok(())
    }

    /// Returns the time by which the usage exceeds the allowance, or `None` if it does not.
    pub fn excess_time(&self, now: Monotonic) -> Option<Duration> {
        self.excess_at(self.full_at, now)
    }

    fn excess_at(&self, full_at: Monotonic, now: Monotonic) -> Option<Duration> {
        full_at.since(now).checked_sub(self.allowance.window).filter(|excess| !excess.is_zero())
    }

    /// Returns the unused requests of the allowance.
    pub fn remaining(&self, now: Monotonic) -> RemainingAllowance {
        let full_in = self.full_at.since(now);
        let free = self.allowance.window.saturating_sub(full_in).as_nanos();
        let requests = free.checked_div(self.allowance.interval.as_nanos()).unwrap_or(0);
        RemainingAllowance { requests: u32::try_from(requests).unwrap_or(u32::MAX), full_in }
    }

    /// Counts the admitted request as unreported.
    ///
    /// Requests older than a window are available again on every server, so they need not be reported.
    fn count_unreported(&mut self, now: Monotonic) {
        if self.unreported == 0 || now.since(self.unreported_since) > self.allowance.window {
            (self.unreported, self.unreported_since) = (0, now);
        }
        self.unreported = self.unreported.saturating_add(1);
    }

    /// Returns the number of requests to report to the other servers, or `None` while it is smaller than a
    /// share.
    pub fn unreported_share(&self) -> Option<u32> {
        (self.unreported >= self.allowance.requests_per_share()).then_some(self.unreported)
    }

    /// Adopts the usage on all servers, which already includes this server's `reported` requests.
    pub fn adopt_shared_usage(&mut self, reported: u32, full_in: Duration, now: Monotonic) {
        self.unreported = self.unreported.saturating_sub(reported);
        self.unreported_since = now;
        let all = now.plus(full_in).plus(self.allowance.refill_time(self.unreported));
        self.full_at = self.full_at.max(all);
    }

    /// Returns whether the bucket is in the same state as a new one.
    pub fn is_idle(&self, now: Monotonic) -> bool {
        self.full_at.since(now).is_zero() && now.since(self.unreported_since) > self.allowance.window
    }
}
