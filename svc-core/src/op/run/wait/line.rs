//! A line: the waits that share something out, such as threads to claim. Each thing that an event brought is offered
//! to one of them, in the order in which they came; only if it is still there a second later, to the next. So a new
//! thread does not call thousands who would find it gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::log::bus::NewEvent;
use crate::log::event::Subject;
use crate::op::declare::operation::Supply;
use crate::op::run::wait::{Attempt, Parked};

/// Events whose things may still be there, at the most. More than these are not asked for again: whoever waits is
/// offered one of these first.
const OPEN_MAX: usize = 1000;
/// Events that are measured in one transaction.
const MEASURED_MAX: usize = 16;

/// The waits of one operation in one workspace that have a reason to be asked.
pub(in crate::op) struct Line {
    supply: Supply,
    due: BTreeMap<u64, Arc<Parked>>,
    /// Events whose things were still there when that was last asked.
    open: BTreeMap<i64, Subject>,
    /// Of these, those of which it is to be asked how much there is.
    fresh: BTreeMap<i64, Subject>,
    /// Events of which nothing was left. The waits hear of an event one after the other, so it must be known for a
    /// while that it was dealt with.
    gone: BTreeSet<i64>,
    /// How many more waits may be answered.
    budget: usize,
    running: bool,
    resting: bool,
}

/// What a line does next.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::op) enum Next {
    /// It can be asked.
    Run,
    /// It is being asked, or rests.
    Wait,
    /// Whoever is left is asked again after a while.
    Rest,
    /// Nobody can be helped before the next event.
    Over,
}

impl Line {
    pub fn new(supply: Supply) -> Self {
        Self {
            supply,
            due: BTreeMap::new(),
            open: BTreeMap::new(),
            fresh: BTreeMap::new(),
            gone: BTreeSet::new(),
            budget: 0,
            running: false,
            resting: false,
        }
    }

    /// Events that matter to the wait at `place` in the line.
    pub fn offer(&mut self, place: u64, parked: &Arc<Parked>, events: &[NewEvent]) {
        self.due.insert(place, Arc::clone(parked));
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

    /// The wait at `place` has ended.
    pub fn leave(&mut self, place: u64) -> Option<Arc<Parked>> {
        self.due.remove(&place)
    }

    /// What there is to do, if nothing is under way.
    pub fn next(&mut self) -> Next {
        if self.running {
            Next::Wait
        } else if !self.due.is_empty() && (self.budget > 0 || !self.fresh.is_empty()) {
            Next::Run
        } else if self.resting {
            Next::Wait
        } else if self.open.is_empty() && self.gone.is_empty() {
            Next::Over
        } else {
            self.resting = true;
            Next::Rest
        }
    }

    pub fn begin(&mut self) {
        self.running = true;
    }

    /// The rest is over: what is still there is offered again, if somebody is left to whom it was not.
    pub fn rested(&mut self) {
        self.resting = false;
        self.budget = 0;
        self.gone.clear();
        if self.due.is_empty() {
            self.open.clear();
        }
        self.fresh = self.open.clone();
    }

    /// What is to be measured, and by what.
    pub fn to_measure(&self) -> (Supply, Vec<(i64, Subject)>) {
        let fresh = self.fresh.iter().take(MEASURED_MAX);
        (self.supply, fresh.map(|(lsn, subject)| (*lsn, *subject)).collect())
    }

    /// Each event with how much of what it brought is there.
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

    /// The first of those who are due.
    pub fn take(&mut self, most: usize) -> Vec<(u64, Arc<Parked>)> {
        (0..most).map_while(|_| self.due.pop_first()).collect()
    }

    /// A round is over: who was not asked is still due.
    pub fn end(&mut self, answered: usize, unasked: Vec<(u64, Arc<Parked>)>) {
        self.running = false;
        self.budget = self.budget.saturating_sub(answered);
        self.due.extend(unasked);
    }
}

/// An attempt with its place in the line.
pub(in crate::op) type Placed = (u64, Attempt);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ThreadId;

    fn passed(lsn: i64) -> NewEvent {
        let thread: ThreadId = uuid::Uuid::from_u128(lsn.unsigned_abs().into()).into();
        NewEvent { lsn, subject: Subject { thread_id: Some(thread), ..Subject::WORKSPACE } }
    }

    #[test]
    fn an_event_counts_once_and_only_as_long_as_its_thing_is_there() {
        let mut line = Line::new(|_, _| Ok(1));
        assert_eq!(line.next(), Next::Over, "nobody is in it");
        line.add(&[passed(1), passed(2)]);
        line.add(&[passed(2)]);
        assert_eq!(line.to_measure().1.len(), 2);
        assert_eq!(line.measured(&[(1, 1), (2, 0)]), 1);
        line.end(1, Vec::new());
        // Others hear of the same events later.
        line.add(&[passed(1), passed(2)]);
        assert!(line.to_measure().1.is_empty());
        assert_eq!((line.next(), line.next()), (Next::Rest, Next::Wait));
        line.rested();
        assert_eq!(line.next(), Next::Over, "nobody is left");
        line.add(&[passed(1), passed(3)]);
        assert_eq!(line.to_measure().1.len(), 2, "whoever comes later begins anew");
    }
}
