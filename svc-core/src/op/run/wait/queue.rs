//! A queue of waits that compete for the same objects, such as threads to claim.
//!
//! Each object that an event has added is offered to one wait, in the order in which the waits began, and to
//! the next wait only if the object is still available a second later. So a new thread does not wake
//! thousands of callers that would find it gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::log::bus::NewEvent;
use crate::log::event::Subject;
use crate::op::declare::job::CountAvailable;
use crate::op::run::wait::{ParkedWait, PollAttempt};

/// Maximum number of events whose objects may still be available.
///
/// Objects of further events are not offered, because waits get one of these first.
const OPEN_MAX: usize = 1000;
/// Maximum number of events that are measured in one transaction.
const MEASURED_MAX: usize = 16;

/// The queue of the waits of one operation in one workspace, with the reasons to poll them.
pub(in crate::op) struct WaitQueue {
    supply: CountAvailable,
    due: BTreeMap<u64, Arc<ParkedWait>>,
    /// Events whose objects were still available when last measured.
    open: BTreeMap<i64, Subject>,
    /// Open events that must be measured.
    fresh: BTreeMap<i64, Subject>,
    /// Events whose objects are all gone.
    ///
    /// An event wakes the waits one after the other, so the queue remembers for a while that the event was
    /// handled.
    gone: BTreeSet<i64>,
    /// Number of further waits that may become ready.
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
    pub fn new(supply: CountAvailable) -> Self {
        Self {
            supply,
            due: BTreeMap::new(),
            open: BTreeMap::new(),
            fresh: BTreeMap::new(),
            gone: BTreeSet::new(),
            budget: 0,
            running: false,
            paused: false,
            last_round: 0,
        }
    }

    /// Adds the wait `number`, and the events that it was woken by.
    pub fn offer(&mut self, number: u64, parked: &Arc<ParkedWait>, events: &[NewEvent]) {
        self.due.insert(number, Arc::clone(parked));
        self.add(events);
    }

    fn add(&mut self, events: &[NewEvent]) {
        for event in events {
            if self.gone.contains(&event.lsn) || self.open.len() >= OPEN_MAX {
                continue;
            }
            if self.open.insert(event.lsn, event.subject).is_none() {
                self.fresh.insert(event.lsn, event.subject);
            }
        }
    }

    /// Removes a wait that has ended.
    pub fn leave(&mut self, number: u64) -> Option<Arc<ParkedWait>> {
        self.due.remove(&number)
    }

    /// Returns the next action, if nothing is in progress.
    pub fn next(&mut self) -> QueueAction {
        if self.running {
            QueueAction::Wait
        } else if !self.due.is_empty() && (self.budget > 0 || !self.fresh.is_empty()) {
            QueueAction::Run
        } else if self.paused {
            QueueAction::Wait
        } else if self.open.is_empty() && self.gone.is_empty() {
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

    /// Ends the pause: offers the available objects again, if there are waits that have not had an offer.
    pub fn resume(&mut self) {
        self.paused = false;
        self.budget = 0;
        self.gone.clear();
        if self.due.is_empty() {
            self.open.clear();
        }
        self.fresh = self.open.clone();
    }

    /// Returns the events to measure, and the function that counts their available objects.
    pub fn to_measure(&self) -> (CountAvailable, Vec<(i64, Subject)>) {
        let fresh = self.fresh.iter().take(MEASURED_MAX);
        (self.supply, fresh.map(|(lsn, subject)| (*lsn, *subject)).collect())
    }

    /// Records how many objects of each event are still available, and returns how many waits may become
    /// ready.
    pub fn measured(&mut self, found: &[(i64, usize)]) -> usize {
        for (lsn, count) in found {
            self.fresh.remove(lsn);
            if *count == 0 {
                self.open.remove(lsn);
                self.gone.insert(*lsn);
            }
            self.budget = self.budget.saturating_add(*count);
        }
        self.budget
    }

    /// Takes the first of the due waits, up to `most`.
    pub fn take(&mut self, most: usize) -> Vec<(u64, Arc<ParkedWait>)> {
        (0..most).map_while(|_| self.due.pop_first()).collect()
    }

    /// Ends a round. Waits that were not polled stay due.
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
        assert_eq!(queue.next(), QueueAction::Idle, "nobody is in it");
        queue.add(&[passed(1), passed(2)]);
        queue.add(&[passed(2)]);
        assert_eq!(queue.to_measure().1.len(), 2);
        assert_eq!(queue.measured(&[(1, 1), (2, 0)]), 1);
        queue.end(1, Vec::new());
        // The same events wake other waits later.
        queue.add(&[passed(1), passed(2)]);
        assert!(queue.to_measure().1.is_empty());
        assert_eq!((queue.next(), queue.next()), (QueueAction::Retry, QueueAction::Wait));
        queue.resume();
        assert_eq!(queue.next(), QueueAction::Idle, "nobody is left");
        queue.add(&[passed(1), passed(3)]);
        assert_eq!(queue.to_measure().1.len(), 2, "a later wait starts afresh");
    }
}
