//! Timers: what is to be done at a moment of the service's clock. One thread rings them and waits for nothing else,
//! so that a deadline is kept whatever the database does. What is rung must only hand on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::sync::Monitor;
use crate::time::{Clock, Monotonic};

type Ring = Box<dyn FnOnce() + Send>;

/// Names a timer, to stop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerId(Monotonic, u64);

#[derive(Default)]
struct State {
    due: BTreeMap<TimerId, Ring>,
    next: u64,
    closing: bool,
}

/// All timers of a service. Clones are handles to the same ones.
#[derive(Clone)]
pub(crate) struct Timers {
    state: Arc<Monitor<State>>,
}

impl Timers {
    pub fn new(clock: &Clock) -> Self {
        Self { state: Monitor::new(clock, State::default()) }
    }

    /// The clock by which they ring.
    pub fn clock(&self) -> &Clock {
        self.state.clock()
    }

    /// Rings at `moment`, or at once if that has passed.
    pub fn at(&self, moment: Monotonic, ring: impl FnOnce() + Send + 'static) -> TimerId {
        let mut state = self.state.lock();
        let id = TimerId(moment, state.next);
        state.next += 1;
        state.due.insert(id, Box::new(ring));
        let is_first = state.due.first_key_value().is_some_and(|(first, _)| *first == id);
        drop(state);
        if is_first {
            self.state.notify();
        }
        id
    }

    /// Rings after `span`.
    pub fn after(&self, span: Duration, ring: impl FnOnce() + Send + 'static) -> TimerId {
        self.at(self.clock().deadline(span), ring)
    }

    /// Stops a timer that has not rung.
    pub fn stop(&self, id: TimerId) {
        let stopped = self.state.lock().due.remove(&id);
        // Outside of the lock: what it holds may stop other timers when it goes.
        drop(stopped);
    }

    /// Ends [`Timers::serve`].
    pub fn close(&self) {
        self.state.lock().closing = true;
        self.state.notify();
    }

    /// Rings timers, until closed.
    pub fn serve(&self) {
        let mut state = self.state.lock();
        while !state.closing {
            let first = state.due.first_key_value().map(|(TimerId(moment, _), _)| *moment);
            match first {
                Some(moment) if self.clock().remaining(moment).is_zero() => {
                    let rung = state.due.pop_first();
                    drop(state);
                    if let Some((_, ring)) = rung {
                        ring();
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
    fn timers_ring_in_order_when_their_moment_has_come() {
        let clock = Clock::mock(Time::from_micros(0));
        let timers = Timers::new(&clock);
        let (sender, receiver) = mpsc::channel();
        let ring = |name: &'static str| {
            let sender = sender.clone();
            move || sender.send(name).unwrap()
        };
        std::thread::scope(|scope| {
            scope.spawn(|| timers.serve());
            timers.after(Duration::from_secs(3), ring("third"));
            timers.after(Duration::from_secs(1), ring("first"));
            let stopped = timers.after(Duration::from_secs(2), ring("stopped"));
            timers.after(Duration::from_secs(2), ring("second"));
            timers.after(Duration::ZERO, ring("at once"));
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
