//! A queue of waits that compete for the same objects, such as threads to claim.
//!
//! Each object that an event has added is offered to one wait, in the order in which the waits began. If the
//! object is still available a second later, it is offered to the next wait. So a new thread does not wake
//! thousands of callers that would find it already claimed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::log::bus::NewEvent;
use crate::log::event::Subject;
use crate::op::declare::job::CountAvailable;
use crate::op::run::wait::{ParkedWait, PollAttempt};

/// Maximum number of events whose objects a queue offers at the same time.
///
/// Further events are ignored, because waits first receive the objects of the known events.
const OPEN_EVENTS_MAX: usize = 1000;
/// Maximum number of events whose available objects are counted in one transaction.
const COUNTED_EVENTS_MAX: usize = 16;

/// The queue of the waits of one operation in one workspace, with the reasons to poll them.
pub(in crate::op) struct WaitQueue {
    count_available: CountAvailable,
    due: BTreeMap<u64, Arc<ParkedWait>>,
    /// Events whose objects were still available at the last count.
    open_events: BTreeMap<i64, Subject>,
    /// Open events whose available objects must be counted.
    uncounted_events: BTreeMap<i64, Subject>,
    /// Events whose objects are no longer available.
    ///
    /// One event wakes many waits, one after the other, so the queue remembers for a while that it has
    /// handled the event.
    closed_events: BTreeSet<i64>,
    /// Number of waits that may still become ready, because objects are available for them.
    budget: usize,
    running: bool,
    paused: bool,
    /// Number of the queue's last round, counted over all queues.
    last_round: u64,
}

/// The next action of a queue.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::op) enum QueueAction {
    /// The queue can be polled.
    Run,
    /// The queue is being polled, or is paused.
    Wait,
    /// The remaining waits are polled again after a delay.
    Retry,
    /// No wait can become ready before the next event.
    Idle,
}

impl WaitQueue {
    pub fn new(count_available: CountAvailable) -> Self {
        Self {
            count_available,
            due: BTreeMap::new(),
            open_events: BTreeMap::new(),
            uncounted_events: BTreeMap::new(),
            closed_events: BTreeSet::new(),
            budget: 0,
            running: false,
            paused: false,
            last_round: 0,
        }
    }

    /// Adds the wait `number`, and the events that woke the wait.
    pub fn offer(&mut self, number: u64, parked: &Arc<ParkedWait>, events: &[NewEvent]) {
        self.due.insert(number, Arc::clone(parked));
        self.add(events);
    }

    /// Adds events whose objects are to be offered.
    fn add(&mut self, events: &[NewEvent]) {
        for event in events {
            if self.closed_events.contains(&event.lsn) || self.open_events.len() >= OPEN_EVENTS_MAX {
                continue;
            }
            if self.open_events.insert(event.lsn, event.subject).is_none() {
                self.uncounted_events.insert(event.lsn, event.subject);
            }
        }
    }

    /// Removes the wait `number`, which has ended.
    pub fn remove_wait(&mut self, number: u64) -> Option<Arc<ParkedWait>> {
        self.due.remove(&number)
    }

    /// Returns the next action of the queue. For `Retry`, also pauses the queue.
    pub fn next_action(&mut self) -> QueueAction {
        if self.running {
            QueueAction::Wait
        } else if !self.due.is_empty() && (self.budget > 0 || !self.uncounted_events.is_empty()) {
            QueueAction::Run
        } else if self.paused {
            QueueAction::Wait
        } else if self.open_events.is_empty() && self.closed_events.is_empty() {
            QueueAction::Idle
        } else {
            self.paused = true;
            QueueAction::Retry
        }
    }

    /// Begins the round `round`, a number counted over all queues.
    pub fn begin(&mut self, round: u64) {
        self.running = true;
        self.last_round = round;
    }

    /// Returns the number of the queue's last round. The queue with the lowest number has the next turn.
    pub fn last_round(&self) -> u64 {
        self.last_round
    }

    /// Ends the pause. If waits remain, the objects that are still available are offered again.
    pub fn resume(&mut self) {
        self.paused = false;
        self.budget = 0;
        self.closed_events.clear();
        if self.due.is_empty() {
            self.open_events.clear();
        }
        self.uncounted_events = self.open_events.clone();
    }

    /// Returns the function that counts available objects, and the next events for which to count them.
    pub fn events_to_count(&self) -> (CountAvailable, Vec<(i64, Subject)>) {
        let uncounted_events = self.uncounted_events.iter().take(COUNTED_EVENTS_MAX);
        (self.count_available, uncounted_events.map(|(lsn, subject)| (*lsn, *subject)).collect())
    }

    /// Records how many objects of each event are still available, and returns how many waits may become
    /// ready.
    pub fn apply_available_counts(&mut self, counts: &[(i64, usize)]) -> usize {
        for (lsn, count) in counts {
            self.uncounted_events.remove(lsn);
            if *count == 0 {
                self.open_events.remove(lsn);
                self.closed_events.insert(*lsn);
            }
            self.budget = self.budget.saturating_add(*count);
        }
        self.budget
    }

    /// Removes and returns up to `max_waits` due waits, oldest first.
    pub fn take_due(&mut self, max_waits: usize) -> Vec<(u64, Arc<ParkedWait>)> {
        (0..max_waits).map_while(|_| self.due.pop_first()).collect()
    }

    /// Records the end of a round with `ready` results. Waits that were not polled stay due.
    pub fn end(&mut self, ready: usize, not_polled: Vec<(u64, Arc<ParkedWait>)>) {
        self.running = false;
        self.budget = self.budget.saturating_sub(ready);
        self.due.extend(not_polled);
    }
}

/// A poll attempt with the number of its wait.
pub(in crate::op) type NumberedAttempt = (u64, PollAttempt);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ThreadId;

    fn passed(lsn: i64) -> NewEvent {
        let thread: ThreadId = uuid::Uuid::from_u128(lsn.unsigned_abs().into()).into();
        NewEvent { lsn, subject: Subject { thread_id: Some(thread), ..Subject::WORKSPACE } }
    }

    #[test]
    fn an_event_counts_once_and_only_while_its_thing_is_available() {
        let mut queue = WaitQueue::new(|_, _| Ok(1));
        assert_eq!(queue.next_action(), QueueAction::Idle, "nobody is in it");
        queue.add(&[passed(1), passed(2)]);
        queue.add(&[passed(2)]);
        assert_eq!(queue.events_to_count().1.len(), 2);
        assert_eq!(queue.apply_available_counts(&[(1, 1), (2, 0)]), 1);
        queue.end(1, Vec::new());
        // The same events wake other waits later.
        queue.add(&[passed(1), passed(2)]);
        assert!(queue.events_to_count().1.is_empty());
        assert_eq!((queue.next_action(), queue.next_action()), (QueueAction::Retry, QueueAction::Wait));
        queue.resume();
        assert_eq!(queue.next_action(), QueueAction::Idle, "nobody is left");
        queue.add(&[passed(1), passed(3)]);
        assert_eq!(queue.events_to_count().1.len(), 2, "a later wait starts afresh");
    }
}
