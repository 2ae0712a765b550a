//! How long a statement may run, and how long it waits for a lock.
//!
//! Postgres has settings for both; SQLite calls back meanwhile, and stops if it is told to.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use super::errors::failed;
use crate::error::Result;
use crate::limits::SQLITE_BUSY;
use crate::time::Clock;

/// How long a waiting writer sleeps before it tries the lock again.
const BUSY_STEP: Duration = Duration::from_millis(1);

/// Steps of SQLite's virtual machine between two checks of the clock: some tenths of a millisecond.
const LIMIT_STEPS: i32 = 20_000;

/// Interrupts a reader's statement that takes too long, as Postgres does by itself.
///
/// There are few readers, and a statement that occupies one for long keeps everyone else from reading.
pub(super) struct StatementLimit {
    clock: Clock,
    /// In microseconds of the monotonic clock.
    until: Arc<AtomicU64>,
}

impl StatementLimit {
    pub fn on(conn: &mut Connection, clock: Clock) -> Result<Self> {
        let until = Arc::new(AtomicU64::new(u64::MAX));
        let (limit, now) = (Arc::clone(&until), clock.clone());
        let is_over = move || now.monotonic().micros() > limit.load(Ordering::Relaxed);
        conn.progress_handler(LIMIT_STEPS, Some(is_over)).map_err(failed)?;
        Ok(Self { clock, until })
    }

    pub fn restart(&self, span: Duration) {
        self.until.store(self.clock.deadline(span).micros(), Ordering::Relaxed);
    }
}

thread_local! {
    /// How long this thread waits for a lock.
    pub(super) static BUSY_TIMEOUT: Cell<Duration> = const { Cell::new(SQLITE_BUSY) };
}

/// Called by SQLite while another process holds the lock; `tries` counts up from 0.
pub(super) fn wait_for_lock(tries: i32) -> bool {
    let waited = BUSY_STEP.saturating_mul(tries.unsigned_abs());
    if waited >= BUSY_TIMEOUT.get() {
        return false;
    }
    std::thread::park_timeout(BUSY_STEP);
    true
}
