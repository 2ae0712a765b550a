//! The queue of credential lookups.
//!
//! The server looks up every credential that is not cached, however many requests its sender's address has
//! sent. So only a few lookups run at a time, and addresses take turns: invented credentials wait for each
//! other, but do not delay requests with known credentials.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;

use crate::error::{Code, Error};
use crate::limits::{LOOKUPS_MAX, LOOKUPS_QUEUED_MAX, LOOKUPS_QUEUED_PER_ADDRESS_MAX};
use crate::rate::Client;
use crate::share::CeilingScope;
use crate::sync::lock;

/// The source of a lookup: the sender's address, or `None` if the address is not known.
type Source = Option<Client>;

/// The lookups in progress and the queued lookups.
pub(super) struct Lookups<T>(Mutex<Queues<T>>);

/// The queued lookups of each source, and the number of lookups in progress.
struct Queues<T> {
    /// Number of lookups in progress.
    running: usize,
    /// The queued lookups by source, oldest first.
    waiting: HashMap<Source, VecDeque<T>>,
    /// The sources with queued lookups, in the order of their turns.
    turns: VecDeque<Source>,
    /// Number of queued lookups.
    count: usize,
}

/// The outcome of starting a lookup.
pub(super) enum LookupStart<T> {
    /// A lookup that must run now: the new one, or one that was queued before it.
    RunNow(T),
    Queued,
    /// The new lookup is rejected with this error, because too many lookups are queued, from its address or
    /// in total.
    Rejected(T, Error),
}

impl<T> Default for Lookups<T> {
    fn default() -> Self {
        let waiting = HashMap::new();
        let turns = VecDeque::new();
        Self(Mutex::new(Queues { running: 0, waiting, turns, count: 0 }))
    }
}

impl<T> Lookups<T> {
    /// Starts a lookup from `source`, or queues it if too many lookups are in progress.
    pub fn begin(&self, source: Source, lookup: T) -> LookupStart<T> {
        let mut queues = lock(&self.0);
        if queues.count >= LOOKUPS_QUEUED_MAX {
            return LookupStart::Rejected(lookup, too_many_lookups(CeilingScope::Server));
        }
        let queue = queues.waiting.entry(source).or_default();
        if queue.len() >= LOOKUPS_QUEUED_PER_ADDRESS_MAX {
            return LookupStart::Rejected(lookup, too_many_lookups(CeilingScope::Client));
        }
        queue.push_back(lookup);
        if queue.len() == 1 {
            queues.turns.push_back(source);
        }
        queues.count += 1;
        if queues.running >= LOOKUPS_MAX {
            return LookupStart::Queued;
        }
        queues.running += 1;
        queues.next().map_or(LookupStart::Queued, LookupStart::RunNow)
    }

    /// Records the end of a lookup, and returns the queued lookup to run next, if any.
    pub fn end(&self) -> Option<T> {
        let mut queues = lock(&self.0);
        let next = queues.next();
        if next.is_none() {
            queues.running = queues.running.saturating_sub(1);
        }
        next
    }

    /// Records the end of a lookup for which no reader was available.
    ///
    /// If no other lookup is in progress, returns all queued lookups, because no running lookup remains that
    /// would start them.
    pub fn end_without_reader(&self) -> Vec<T> {
        let mut queues = lock(&self.0);
        queues.running = queues.running.saturating_sub(1);
        let left = if queues.running == 0 { queues.count } else { 0 };
        (0..left).map_while(|_| queues.next()).collect()
    }
}

impl<T> Queues<T> {
    /// Removes and returns the oldest lookup of the source whose turn it is.
    fn next(&mut self) -> Option<T> {
        let source = self.turns.pop_front()?;
        let queue = self.waiting.get_mut(&source)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&source);
        } else {
            self.turns.push_back(source);
        }
        self.count = self.count.saturating_sub(1);
        next
    }
}

/// Returns the error for a lookup that is rejected because too many are queued.
fn too_many_lookups(scope: CeilingScope) -> Error {
    Error::new(Code::Overloaded, "too many credential lookups are in progress").with("scope", scope.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u8) -> Source {
        Some(Client::Peer([192, 0, 2, number].into()))
    }

    #[test]
    fn few_lookups_are_under_way_and_each_address_has_its_turn() {
        let lookups = Lookups::<usize>::default();
        for number in 0..LOOKUPS_MAX {
            assert!(matches!(lookups.begin(peer(1), number), LookupStart::RunNow(now) if now == number));
        }
        for number in 0..LOOKUPS_QUEUED_PER_ADDRESS_MAX {
            assert!(matches!(lookups.begin(peer(1), number), LookupStart::Queued));
        }
        assert!(matches!(lookups.begin(peer(1), 7), LookupStart::Rejected(7, _)));
        assert!(
            matches!(lookups.begin(peer(2), 9_000), LookupStart::Queued),
            "another address has a queue of its own"
        );
        assert_eq!([lookups.end(), lookups.end(), lookups.end()], [Some(0), Some(9_000), Some(1)]);
        for _ in 1..LOOKUPS_MAX {
            assert!(lookups.end_without_reader().is_empty(), "those that are left start the others");
        }
        assert_eq!(lookups.end_without_reader().len(), LOOKUPS_QUEUED_PER_ADDRESS_MAX - 2);
        assert!(matches!(lookups.begin(peer(1), 8), LookupStart::RunNow(8)), "all slots are free again");
        assert_eq!(lookups.end(), None);
    }

    #[test]
    fn a_rejected_lookup_learns_whose_queue_is_full() {
        let lookups = Lookups::<()>::default();
        let refusal = |address| match lookups.begin(peer(address), ()) {
            LookupStart::Rejected((), error) => Some((error.code(), error.problem().extra["scope"].clone())),
            LookupStart::RunNow(()) | LookupStart::Queued => None,
        };
        let of = |scope: &str| Some((Code::Overloaded, scope.into()));
        let mut queued = 0;
        for address in 1..=4 {
            let refused = loop {
                match refusal(address) {
                    None => queued += 1,
                    refused => break refused,
                }
            };
            assert_eq!(refused, of(if address < 4 { "client" } else { "server" }));
        }
        assert_eq!(queued, LOOKUPS_MAX + LOOKUPS_QUEUED_MAX);
        assert_eq!(refusal(5), of("server"), "other addresses have no place either");
    }
}
