//! Time limits for SQLite statements, and for waiting for SQLite's locks.
//!
//! Postgres has settings for both limits. SQLite calls a function at intervals, which can stop the statement.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use super::errors::sqlite_error;
use crate::error::Result;
use crate::limits::SQLITE_BUSY_TIMEOUT;
use crate::store::budget::{ReadBudget, ReadInterrupt, interrupted_error, too_expensive_error};
use crate::time::Clock;

/// Interval at which a waiting writer retries the lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// Number of virtual machine steps between two checks of the clock. They take some tenths of a millisecond.
const STEPS_PER_CHECK: i32 = 20_000;

/// Interrupts a reader's statement after a time limit, or when the service closes.
///
/// On Postgres, the server enforces such a limit. There are few readers, so a long statement would keep other
/// callers from reading.
pub(super) struct StatementLimit {
    clock: Clock,
    /// Time at which the statement is interrupted, in microseconds of the monotonic clock.
    deadline: Arc<AtomicU64>,
    pub budget: ReadBudget,
    pub interrupt: ReadInterrupt,
}

impl StatementLimit {
    /// Installs the limit on a connection. `clock` measures the duration of statements.
    pub fn install(conn: &mut Connection, clock: Clock, interrupt: ReadInterrupt) -> Result<Self> {
        let deadline = Arc::new(AtomicU64::new(u64::MAX));
        let limit = Self { clock, deadline, budget: ReadBudget::new(&Clock::system()), interrupt };
        let deadline = Arc::clone(&limit.deadline);
        let now = limit.clock.clone();
        let budget = limit.budget.clone();
        let interrupt = limit.interrupt.clone();
        let must_stop = move || {
            interrupt.is_interrupted()
                || budget.is_used_up()
                || now.monotonic().micros() > deadline.load(Ordering::Relaxed)
        };
        conn.progress_handler(STEPS_PER_CHECK, Some(must_stop)).map_err(sqlite_error)?;
        Ok(limit)
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Fails if the service is closing, or if the time budget of the read is used up.
    pub fn check(&self) -> Result<()> {
        if self.interrupt.is_interrupted() {
            return Err(interrupted_error());
        }
        if self.budget.is_used_up() {
            return Err(too_expensive_error("the time limit was reached before a statement"));
        }
        Ok(())
    }

    /// Sets the time limit of the next statement to `span` from now.
    pub fn restart(&self, span: Duration) {
        self.deadline.store(self.clock.deadline(span).micros(), Ordering::Relaxed);
    }
}

thread_local! {
    /// Maximum time that the current thread waits for a lock.
    pub(super) static BUSY_TIMEOUT: Cell<Duration> = const { Cell::new(SQLITE_BUSY_TIMEOUT) };
}

/// Waits for a moment while another connection holds the lock, and returns whether SQLite should try again.
///
/// SQLite calls this function; `tries` counts up from 0.
pub(super) fn wait_for_lock(tries: i32) -> bool {
    let waited = LOCK_RETRY_INTERVAL.saturating_mul(tries.unsigned_abs());
    if waited >= BUSY_TIMEOUT.get() {
        return false;
    }
    std::thread::park_timeout(LOCK_RETRY_INTERVAL);
    true
}
