//! Shares the numbers of admitted requests between servers.
//!
//! Requests that wait for other servers' numbers are in a queue, which a background thread serves with a
//! separate connection: [`RateLimits::wait_for_sharing_task`] returns the next task, and [`UsageReport`]
//! contains the usage to report. This file contains no SQL. While the thread has no connection, no request
//! waits.

use std::sync::MutexGuard;
use std::time::Duration;

use uuid::Uuid;

use super::{LimitSubject, RateLimits, limit_exceeded_error};
use crate::error::Result;
use crate::time::Monotonic;

/// A callback that runs after the other servers were notified, with an error if a limit is now exceeded.
type LimitCallback = Box<dyn FnOnce(Result<()>) + Send>;

/// A request that waits for the usage on other servers.
struct WaitingRequest {
    due: Vec<LimitSubject>,
    then: LimitCallback,
}

/// The queue of usage to report to other servers.
#[derive(Default)]
pub(super) struct UsageQueue {
    waiting: Vec<WaitingRequest>,
    /// Whether the background thread that serves the queue has a connection.
    is_served: bool,
    is_closed: bool,
    /// Whether obsolete rows should be removed.
    pub is_tidy_requested: bool,
}

/// The next task of the background thread that shares rate limits.
pub(crate) enum SharingTask {
    /// Report this usage to the other servers, and then complete the report.
    Report(UsageReport),
    /// Remove obsolete rows.
    Tidy,
    /// Reconnect. Until then, no request waits.
    Connect,
}

/// Usage to report to other servers, with the requests that wait for the report.
pub(crate) struct UsageReport {
    waiting: Vec<WaitingRequest>,
    limits: Vec<LimitSubject>,
    usage: Vec<LimitUsage>,
}

/// Usage of one limit on this server since the last report to the other servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitUsage {
    /// The key of the limit, which is the same on every server.
    pub key: Uuid,
    /// Number of requests since the last report.
    requests: u32,
    /// Time until the requests are available again.
    pub cost: Duration,
}

impl UsageReport {
    fn without_usage(waiting: Vec<WaitingRequest>) -> Self {
        Self { waiting, limits: Vec::new(), usage: Vec::new() }
    }

    /// Returns the usage of each limit, ordered by key.
    pub fn usage(&self) -> &[LimitUsage] {
        &self.usage
    }
}

impl RateLimits {
    /// Reports the usage of these limits to other servers, and then calls `then`.
    ///
    /// If no background thread serves the queue, calls `then` immediately.
    pub fn share_usage(&self, due: Vec<LimitSubject>, then: impl FnOnce(Result<()>) + Send + 'static) {
        match self.served_queue() {
            Some(mut queue) => {
                queue.waiting.push(WaitingRequest { due, then: Box::new(then) });
                drop(queue);
                self.queue.iter().for_each(|queue| queue.notify());
            }
            None => then(Ok(())),
        }
    }

    /// Returns the queue if a background thread serves it.
    fn served_queue(&self) -> Option<MutexGuard<'_, UsageQueue>> {
        self.queue.as_ref().map(|queue| queue.lock()).filter(|queue| queue.is_served && !queue.is_closed)
    }

    /// Returns the window of the rate limits, or `None` on SQLite, where no other server shares the database.
    pub fn shared_window(&self) -> Option<Duration> {
        self.queue.as_ref().map(|_| self.window)
    }

    /// Sets whether the thread that calls [`RateLimits::wait_for_sharing_task`] has a connection.
    ///
    /// Without a connection, all waiting requests continue.
    pub fn set_served(&self, is_served: bool) {
        let Some(queue) = &self.queue else { return };
        let waiting = {
            let mut queue = queue.lock();
            queue.is_served = is_served;
            if is_served { Vec::new() } else { std::mem::take(&mut queue.waiting) }
        };
        self.complete_report(UsageReport::without_usage(waiting), None);
    }

    /// Waits for the next task. Returns `None` once the service closes.
    ///
    /// Without a connection, returns [`SharingTask::Connect`] at `retry_at`.
    pub fn wait_for_sharing_task(&self, retry_at: Option<Monotonic>) -> Option<SharingTask> {
        let monitor = self.queue.as_ref()?;
        let mut queue = monitor.lock();
        loop {
            if queue.is_closed {
                return None;
            }
            match retry_at {
                Some(retry_at) if self.clock.remaining(retry_at).is_zero() => {
                    return Some(SharingTask::Connect);
                }
                Some(_) => {}
                None if !queue.waiting.is_empty() => {
                    let waiting = std::mem::take(&mut queue.waiting);
                    drop(queue);
                    return Some(SharingTask::Report(self.create_report(waiting)));
                }
                None if std::mem::take(&mut queue.is_tidy_requested) => return Some(SharingTask::Tidy),
                None => {}
            }
            queue = monitor.wait(queue, retry_at);
        }
    }

    /// Creates a report with the usage of the limits that the requests wait for.
    fn create_report(&self, waiting: Vec<WaitingRequest>) -> UsageReport {
        let mut limits: Vec<LimitSubject> =
            waiting.iter().flat_map(|waiter| waiter.due.iter().copied()).collect();
        limits.sort_by_cached_key(|subject| subject.key());
        limits.dedup();
        let usage = |subject: &LimitSubject| {
            let bucket = self.buckets.get(subject)?;
            let requests = bucket.unreported_share()?;
            Some((
                *subject,
                LimitUsage { key: subject.key(), requests, cost: bucket.allowance.refill_time(requests) },
            ))
        };
        let (limits, usage) = limits.iter().filter_map(usage).unzip();
        UsageReport { waiting, limits, usage }
    }

    /// Updates the limits with the combined usage of all servers, and resumes the requests that waited for
    /// the report.
    ///
    /// `times_to_full` contains for each limit the time until it is fully available again, in the order of
    /// [`UsageReport::usage`]. If the usage could not be read, `times_to_full` is `None`, and this server's
    /// own usage decides.
    pub fn complete_report(&self, report: UsageReport, times_to_full: Option<Vec<Duration>>) {
        let now = self.now();
        for ((subject, usage), full_in) in
            report.limits.iter().zip(&report.usage).zip(times_to_full.into_iter().flatten())
        {
            if let Some(mut bucket) = self.buckets.get_mut(subject) {
                bucket.adopt_shared_usage(usage.requests, full_in, now);
            }
        }
        for WaitingRequest { due, then } in report.waiting {
            let over = due.iter().find_map(|subject| self.buckets.get(subject)?.excess_time(now));
            then(over.map_or(Ok(()), |early| Err(limit_exceeded_error(early))));
        }
    }

    /// Ends all waits for other servers. After this call, no request waits.
    pub fn close(&self) {
        let Some(monitor) = &self.queue else { return };
        let waiting = {
            let mut queue = monitor.lock();
            queue.is_closed = true;
            std::mem::take(&mut queue.waiting)
        };
        monitor.notify();
        self.complete_report(UsageReport::without_usage(waiting), None);
    }
}
