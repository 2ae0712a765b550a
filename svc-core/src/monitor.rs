//! A value with notifications: threads can wait for its changes, up to a deadline of the service's clock.
//!
//! Only that clock ends a wait, so tests control these waits too.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use crate::sync::lock;
use crate::time::{Clock, Monotonic, Sleeper};

/// A value that several threads share. A thread can wait for a change of the value.
pub(crate) struct Monitor<T> {
    value: Mutex<T>,
    changed: Condvar,
    clock: Clock,
}

impl<T: Send + 'static> Monitor<T> {
    /// Creates a monitor whose waits end by `clock`.
    pub fn new(clock: &Clock, value: T) -> Arc<Self> {
        let monitor =
            Arc::new(Self { value: Mutex::new(value), changed: Condvar::new(), clock: clock.clone() });
        let sleeper: Weak<Self> = Arc::downgrade(&monitor);
        clock.wake(sleeper);
        monitor
    }
}

impl<T> Monitor<T> {
    /// Returns the clock that determines the end of waits.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Locks the value until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.value)
    }

    /// Wakes all waiters. A change without a notification is noticed at the next wake-up.
    pub fn notify(&self) {
        self.changed.notify_all();
    }

    /// Waits for [`Monitor::notify`] or until `deadline`, or indefinitely if `deadline` is `None`.
    ///
    /// May return early, so the caller must check its condition and the clock again.
    pub fn wait<'a>(&self, guard: MutexGuard<'a, T>, deadline: Option<Monotonic>) -> MutexGuard<'a, T> {
        let Some(deadline) = deadline else {
            return self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        };
        let left = self.clock.remaining(deadline);
        if left.is_zero() {
            return guard;
        }
        if self.clock.is_mock() {
            return self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.changed.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl<T: Send> Sleeper for Monitor<T> {
    fn on_clock_moved(&self) {
        // The lock prevents a thread from reading the clock before it moves and starting to wait afterwards.
        let _guard = self.lock();
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::time::Time;

    #[test]
    fn a_wait_ends_by_the_mock_clock() {
        let clock = Clock::mock(Time::from_micros(0));
        let monitor = Monitor::new(&clock, false);
        let until = clock.deadline(Duration::from_secs(3600));
        let (sender, receiver) = mpsc::channel();
        let waiting = Arc::clone(&monitor);
        let thread = std::thread::spawn(move || {
            let mut guard = waiting.lock();
            while !waiting.clock().remaining(until).is_zero() {
                sender.send(waiting.clock().remaining(until)).unwrap();
                guard = waiting.wait(guard, Some(until));
            }
            *guard
        });
        assert_eq!(receiver.recv().unwrap(), Duration::from_secs(3600));
        clock.set(Time::from_micros(i64::MAX));
        clock.advance(Duration::from_secs(3599));
        assert!(receiver.iter().any(|left| left == Duration::from_secs(1)), "it reads the clock again");
        *monitor.lock() = true;
        clock.advance(Duration::from_secs(1));
        assert!(thread.join().unwrap());
    }

    #[test]
    fn a_wait_ends_by_the_system_clock() {
        let clock = Clock::system();
        let monitor = Monitor::new(&clock, ());
        let until = clock.deadline(Duration::from_millis(5));
        let mut guard = monitor.lock();
        while !clock.remaining(until).is_zero() {
            guard = monitor.wait(guard, Some(until));
        }
        drop(guard);
        assert!(clock.monotonic() >= until);
    }
}
