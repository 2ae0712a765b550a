//! Timers, which call a callback at a given time of the service's clock.
//!
//! One thread calls the callbacks and does nothing else, so that deadlines do not depend on the database. A
//! callback must not block: it may only pass work to another thread.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::monitor::Monitor;
use crate::time::{Clock, Monotonic};

type Callback = Box<dyn FnOnce() + Send>;

/// Identifies a timer, to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerId(Monotonic, u64);

#[derive(Default)]
struct TimerState {
    callbacks: BTreeMap<TimerId, Callback>,
    next_number: u64,
    is_closing: bool,
}

/// The timers of a service. Clones share the timers.
#[derive(Clone)]
pub(crate) struct Timers {
    state: Arc<Monitor<TimerState>>,
}

impl Timers {
    pub fn new(clock: &Clock) -> Self {
        Self { state: Monitor::new(clock, TimerState::default()) }
    }

    /// Returns the clock that the timers run on.
    pub fn clock(&self) -> &Clock {
        self.state.clock()
    }

    /// Calls `callback` at `moment`, or immediately if that time has passed.
    pub fn at(&self, moment: Monotonic, callback: impl FnOnce() + Send + 'static) -> TimerId {
        let mut state = self.state.lock();
        let id = TimerId(moment, state.next_number);
        state.next_number += 1;
        state.callbacks.insert(id, Box::new(callback));
        let is_first = state.callbacks.first_key_value().is_some_and(|(first, _)| *first == id);
        drop(state);
        if is_first {
            self.state.notify();
        }
        id
    }

    /// Calls `callback` after `delay`.
    pub fn after(&self, delay: Duration, callback: impl FnOnce() + Send + 'static) -> TimerId {
        self.at(self.clock().deadline(delay), callback)
    }

    /// Cancels a timer that has not fired.
    pub fn stop(&self, id: TimerId) {
        let stopped = self.state.lock().callbacks.remove(&id);
        // The callback is dropped outside of the lock, because dropping its captured values may cancel other
        // timers.
        drop(stopped);
    }

    /// Stops the timers, which makes [`Timers::serve`] return.
    pub fn close(&self) {
        self.state.lock().is_closing = true;
        self.state.notify();
    }

    /// Runs the callbacks of due timers, until the timers are closed.
    pub fn serve(&self) {
        let mut state = self.state.lock();
        while !state.is_closing {
            let first = state.callbacks.first_key_value().map(|(TimerId(moment, _), _)| *moment);
            match first {
                Some(moment) if self.clock().remaining(moment).is_zero() => {
                    let due = state.callbacks.pop_first();
                    drop(state);
                    if let Some((_, callback)) = due {
                        callback();
                    }
                    state = self.state.lock();
                }
                moment => state = self.state.wait(state, moment),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::time::Time;

    #[test]
    fn timers_fire_in_order_when_they_are_due() {
        let clock = Clock::mock(Time::from_micros(0));
        let timers = Timers::new(&clock);
        let (sender, receiver) = mpsc::channel();
        let callback = |name: &'static str| {
            let sender = sender.clone();
            move || sender.send(name).unwrap()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| timers.serve());
            timers.after(Duration::from_secs(3), callback("third"));
            timers.after(Duration::from_secs(1), callback("first"));
            let stopped = timers.after(Duration::from_secs(2), callback("stopped"));
            timers.after(Duration::from_secs(2), callback("second"));
            timers.after(Duration::ZERO, callback("at once"));
            assert_eq!(receiver.recv().unwrap(), "at once");
            clock.set(Time::from_micros(i64::MAX));
            timers.stop(stopped);
            clock.advance(Duration::from_secs(2));
            assert_eq!([receiver.recv().unwrap(), receiver.recv().unwrap()], ["first", "second"]);
            assert!(receiver.try_recv().is_err(), "the third is not due");
            clock.advance(Duration::from_secs(1));
            assert_eq!(receiver.recv().unwrap(), "third");
            timers.close();
        });
    }
}
