//! Time limits of reads, and the switch that interrupts all reads when the service closes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::error::{Code, Error};
use crate::time::{Clock, Monotonic};

/// A switch that permanently interrupts the reads of a service. Clones share the switch.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadInterrupt(Arc<(AtomicBool, Notify)>);

impl ReadInterrupt {
    /// Interrupts current and future reads.
    pub fn interrupt(&self) {
        self.0.0.store(true, Ordering::Release);
        self.0.1.notify_waiters();
    }

    /// Returns whether reads have been interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.0.0.load(Ordering::Acquire)
    }

    /// Resolves once reads are interrupted.
    pub async fn wait_until_interrupted(&self) {
        let notified = self.0.1.notified();
        let mut notified = std::pin::pin!(notified);
        // The future is registered before the switch is read, so that no notification is missed.
        notified.as_mut().enable();
        if !self.is_interrupted() {
            notified.await;
        }
    }
}

/// The remaining time of the current read on a connection. Clones share the budget.
///
/// A page of rows ends when half of the budget is used up. The other half remains for completing the items on
/// the page.
#[derive(Clone, Debug)]
pub(crate) struct ReadBudget {
    times: Arc<BudgetTimes>,
    clock: Clock,
}

/// Deadlines of a budget in microseconds of the monotonic clock.
#[derive(Debug)]
struct BudgetTimes {
    /// Time at which the read is interrupted.
    deadline: AtomicU64,
    /// Time at which the current page of rows must end.
    page_deadline: AtomicU64,
    /// Duration in microseconds by which the budget is extended for completing a page, or 0 if it has been
    /// extended.
    page_extension_micros: AtomicU64,
}

/// The deadline of a budget without a limit.
const UNLIMITED: u64 = u64::MAX;

impl ReadBudget {
    /// Creates a budget without a limit.
    pub fn new(clock: &Clock) -> Self {
        let never = || AtomicU64::new(UNLIMITED);
        let times = BudgetTimes {
            deadline: never(),
            page_deadline: never(),
            page_extension_micros: AtomicU64::new(0),
        };
        Self { times: Arc::new(times), clock: clock.clone() }
    }

    /// Begins a read with the time limit `limit`, or without a limit if `limit` is `None`.
    pub fn begin(&self, limit: Option<Duration>) {
        let (deadline, page_deadline, half) = match limit {
            None => (UNLIMITED, UNLIMITED, 0),
            Some(limit) => {
                let now = self.clock.monotonic();
                let half = limit / 2;
                (now.plus(limit).micros(), now.plus(half).micros(), micros(half))
            }
        };
        self.times.deadline.store(deadline, Ordering::Relaxed);
        self.times.page_deadline.store(page_deadline, Ordering::Relaxed);
        self.times.page_extension_micros.store(half, Ordering::Relaxed);
    }

    /// Returns the time at which the read is interrupted, in microseconds of the monotonic clock.
    pub fn deadline_micros(&self) -> u64 {
        self.times.deadline.load(Ordering::Relaxed)
    }

    /// Returns the remaining time of the read, or `None` if the read has no time limit.
    pub fn remaining(&self) -> Option<Duration> {
        let deadline = self.deadline_micros();
        (deadline != UNLIMITED).then(|| Duration::from_micros(deadline.saturating_sub(self.now())))
    }

    /// Returns whether the time limit of the read has been reached.
    pub fn is_used_up(&self) -> bool {
        self.now() >= self.deadline_micros()
    }

    /// Returns whether the current page of rows has used up its share of the budget, so that it must end.
    pub fn is_page_time_used_up(&self) -> bool {
        let page_deadline = self.times.page_deadline.load(Ordering::Relaxed);
        page_deadline != UNLIMITED && self.now() >= page_deadline
    }

    /// Extends the budget for completing the items of a page whose rows were cut off.
    ///
    /// The page gets half of the original budget again, once per read.
    pub fn extend_for_page(&self) {
        let half = self.times.page_extension_micros.swap(0, Ordering::Relaxed);
        if half > 0 {
            let now = self.now();
            self.times.deadline.fetch_max(now.saturating_add(half), Ordering::Relaxed);
            self.times.page_deadline.store(now.saturating_add(half / 2), Ordering::Relaxed);
        }
    }

    fn now(&self) -> u64 {
        self.clock.monotonic().micros()
    }
}

fn micros(span: Duration) -> u64 {
    Monotonic::default().plus(span).micros()
}

/// Returns the error for a read that has used up its budget.
pub(crate) fn too_expensive_error(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Code::ReadTooExpensive, "the read reached its time limit before it could return anything")
        .caused_by(cause)
}

/// Returns the error for a read that was interrupted because the service closes.
pub(crate) fn interrupted_error() -> Error {
    Error::new(Code::Closing, "the server is shutting down")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    #[test]
    fn a_page_ends_halfway_and_has_half_a_budget_left() {
        let clock = Clock::mock(Time::from_micros(0));
        let budget = ReadBudget::new(&clock);
        let second = Duration::from_secs(1);
        clock.advance(second);
        assert!(!budget.is_used_up() && !budget.is_page_time_used_up() && budget.remaining().is_none());
        budget.begin(Some(second));
        assert!(!budget.is_used_up() && !budget.is_page_time_used_up());
        clock.advance(second / 2);
        assert!(budget.is_page_time_used_up() && !budget.is_used_up());
        clock.advance(second / 2);
        assert!(budget.is_used_up() && budget.remaining() == Some(Duration::ZERO));
        budget.extend_for_page();
        assert_eq!((budget.remaining(), budget.is_page_time_used_up()), (Some(second / 2), false));
        clock.advance(second / 4);
        budget.extend_for_page();
        assert_eq!(
            (budget.remaining(), budget.is_page_time_used_up()),
            (Some(second / 4), true),
            "it is given once"
        );
        budget.begin(None);
        budget.extend_for_page();
        assert!(!budget.is_used_up() && !budget.is_page_time_used_up());
    }
}
