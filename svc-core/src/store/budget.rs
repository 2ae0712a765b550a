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

    pub fn is_interrupted(&self) -> bool {
        self.0.0.load(Ordering::Acquire)
    }

    /// Resolves once reads are interrupted.
    pub async fn interrupted(&self) {
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
    ends: AtomicU64,
    /// Time at which the current page of rows must end.
    page_ends: AtomicU64,
    half_micros: AtomicU64,
}

/// The deadline of a budget without a limit.
const UNLIMITED: u64 = u64::MAX;

impl ReadBudget {
    /// Creates a budget without a limit.
    pub fn new(clock: &Clock) -> Self {
        let never = || AtomicU64::new(UNLIMITED);
        let times = BudgetTimes { ends: never(), page_ends: never(), half_micros: AtomicU64::new(0) };
        Self { times: Arc::new(times), clock: clock.clone() }
    }

    /// Begins a read with the time limit `span`, or without a limit if `span` is `None`.
    pub fn begin(&self, span: Option<Duration>) {
        let (ends, page_ends, half) = match span {
            None => (UNLIMITED, UNLIMITED, 0),
            Some(span) => {
                let now = self.clock.monotonic();
                let half = span / 2;
                (now.plus(span).micros(), now.plus(half).micros(), micros(half))
            }
        };
        self.times.ends.store(ends, Ordering::Relaxed);
        self.times.page_ends.store(page_ends, Ordering::Relaxed);
        self.times.half_micros.store(half, Ordering::Relaxed);
    }

    /// Returns the time at which the read is interrupted, in microseconds of the monotonic clock.
    pub fn ends(&self) -> u64 {
        self.times.ends.load(Ordering::Relaxed)
    }

    /// Returns the remaining time of the read, or `None` if the read has no time limit.
    pub fn remaining(&self) -> Option<Duration> {
        let ends = self.ends();
        (ends != UNLIMITED).then(|| Duration::from_micros(ends.saturating_sub(self.now())))
    }

    pub fn is_over(&self) -> bool {
        self.now() >= self.ends()
    }

    /// Returns whether the current page of rows has used up its share of the budget, so that it must end.
    pub fn is_page_over(&self) -> bool {
        let page_ends = self.times.page_ends.load(Ordering::Relaxed);
        page_ends != UNLIMITED && self.now() >= page_ends
    }

    /// Extends the budget for completing the items of a page whose rows were cut off.
    ///
    /// The page gets half of the original budget again, once per read.
    pub fn complete_page(&self) {
        let half = self.times.half_micros.swap(0, Ordering::Relaxed);
        if half > 0 {
            let now = self.now();
            self.times.ends.fetch_max(now.saturating_add(half), Ordering::Relaxed);
            self.times.page_ends.store(now.saturating_add(half / 2), Ordering::Relaxed);
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
pub(crate) fn too_expensive(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Code::ReadTooExpensive, "the read reached its time limit before it could return anything")
        .caused_by(cause)
}

/// Returns the error for a read that was interrupted because the service closes.
pub(crate) fn interrupted() -> Error {
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
        assert!(!budget.is_over() && !budget.is_page_over() && budget.remaining().is_none());
        budget.begin(Some(second));
        assert!(!budget.is_over() && !budget.is_page_over());
        clock.advance(second / 2);
        assert!(budget.is_page_over() && !budget.is_over());
        clock.advance(second / 2);
        assert!(budget.is_over() && budget.remaining() == Some(Duration::ZERO));
        budget.complete_page();
        assert_eq!((budget.remaining(), budget.is_page_over()), (Some(second / 2), false));
        clock.advance(second / 4);
        budget.complete_page();
        assert_eq!((budget.remaining(), budget.is_page_over()), (Some(second / 4), true), "it is given once");
        budget.begin(None);
        budget.complete_page();
        assert!(!budget.is_over() && !budget.is_page_over());
    }
}
