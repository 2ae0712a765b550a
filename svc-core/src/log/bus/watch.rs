//! The watch over one workspace's log: its listeners, and the position up to which they have received events.
//!
//! No announcement is lost: an announcement during a read of the log causes another read, and a listener that
//! is behind moves the watch back to the position up to which that listener has read the log.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::EventFilter;
use crate::id::MemberId;
use crate::log::event::Subject;

/// The position and the subject of a new event, as passed to listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewEvent {
    pub lsn: i64,
    pub subject: Subject,
}

/// A function that the bus's background thread calls with the matching events.
///
/// The function must only pass the events on, because the thread serves all listeners.
pub(crate) type Wake = Arc<dyn Fn(&[NewEvent]) + Send + Sync>;

/// A function to call when events match a filter.
pub(super) struct Listener {
    /// The position up to which the listener has read the log, or has received events.
    pub read_up_to: i64,
    pub filter: EventFilter,
    pub wake: Wake,
}

/// The listeners for one workspace, and the position up to which they have received events.
pub(super) struct Watch {
    /// The position up to which events have been delivered to listeners.
    pub delivered_up_to: i64,
    /// Whether there may be events that have not been read from the log yet.
    pub is_stale: bool,
    /// The listeners for events, in the order in which they are woken.
    listeners: BTreeMap<u64, Listener>,
    /// The listeners for inboxes, by the owner of the inbox.
    inbox_listeners: HashMap<MemberId, BTreeMap<u64, Listener>>,
    /// For each listener for an inbox, the owner of the inbox.
    inbox_owners: HashMap<u64, MemberId>,
}

/// A new item in an inbox, with the position of its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NewInboxItem {
    pub member_id: MemberId,
    pub lsn: i64,
}

/// A listener to wake, with the events that the listener's filter selects.
pub(super) type PendingWake = (Wake, Vec<NewEvent>);

impl Watch {
    /// Creates a watch of a log that has been read up to `delivered_up_to`.
    pub fn new(delivered_up_to: i64) -> Self {
        let (listeners, inbox_listeners, inbox_owners) = Default::default();
        Self { delivered_up_to, is_stale: true, listeners, inbox_listeners, inbox_owners }
    }

    pub fn insert(&mut self, id: u64, listener: Listener) {
        match listener.filter.inbox_owner() {
            Some(member) => {
                self.inbox_owners.insert(id, member);
                self.inbox_listeners.entry(member).or_default().insert(id, listener);
            }
            None => drop(self.listeners.insert(id, listener)),
        }
    }

    pub fn remove(&mut self, id: u64) -> Option<Listener> {
        let Some(member) = self.inbox_owners.remove(&id) else { return self.listeners.remove(&id) };
        let of_member = self.inbox_listeners.get_mut(&member)?;
        let removed = of_member.remove(&id);
        if of_member.is_empty() {
            self.inbox_listeners.remove(&member);
        }
        removed
    }

    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.inbox_owners.is_empty()
    }

    /// Returns how many listeners are compared with each event.
    pub fn event_listener_count(&self) -> usize {
        self.listeners.len()
    }

    /// Returns whether any listener waits for items in an inbox.
    pub fn has_inbox_listeners(&self) -> bool {
        !self.inbox_owners.is_empty()
    }

    /// Returns all listeners, to be woken without events.
    pub fn all_listeners(&self) -> Vec<PendingWake> {
        let inbox_listeners = self.inbox_listeners.values().flat_map(BTreeMap::values);
        let all = self.listeners.values().chain(inbox_listeners);
        all.map(|listener| (Arc::clone(&listener.wake), Vec::new())).collect()
    }

    /// Returns the listeners to wake for new events and items, each with the events that its filter selects.
    pub fn listeners_to_wake(
        &mut self,
        events: &[(String, NewEvent)],
        items: &[NewInboxItem],
    ) -> Vec<PendingWake> {
        let mut woken = Vec::new();
        for listener in self.listeners.values_mut() {
            let new = events.iter().filter(|(_, event)| event.lsn > listener.read_up_to);
            let matching: Vec<NewEvent> = new
                .filter(|(kind, event)| listener.filter.matches(kind, &event.subject))
                .map(|(_, event)| *event)
                .collect();
            if let Some(last) = matching.last() {
                listener.read_up_to = last.lsn;
                woken.push((Arc::clone(&listener.wake), matching));
            }
        }
        for NewInboxItem { member_id, lsn } in items {
            let of_member =
                self.inbox_listeners.get_mut(member_id).into_iter().flat_map(BTreeMap::values_mut);
            for listener in of_member.filter(|listener| *lsn > listener.read_up_to) {
                listener.read_up_to = *lsn;
                let event = NewEvent { lsn: *lsn, subject: Subject::WORKSPACE };
                woken.push((Arc::clone(&listener.wake), vec![event]));
            }
        }
        woken
    }

    /// Begins a read of the log, and returns the position after which to read.
    ///
    /// The read may miss events that are announced after this call; they make the watch stale again.
    pub fn begin_read(&mut self) -> i64 {
        self.is_stale = false;
        self.delivered_up_to
    }

    /// Records that the log has reached `lsn`. Returns `false` if that was already known.
    pub fn announce(&mut self, lsn: i64) -> bool {
        let is_new = lsn > self.delivered_up_to;
        self.is_stale |= is_new;
        is_new
    }

    /// Moves the watch back to `read_up_to`, the position up to which a new listener has read the log.
    pub fn rewind_to(&mut self, read_up_to: i64) {
        if read_up_to < self.delivered_up_to {
            self.delivered_up_to = read_up_to;
            self.is_stale = true;
        }
    }

    /// Records that the events after `after` were delivered, up to `last`.
    ///
    /// If a listener has moved the watch back since [`Self::begin_read`], its position is kept. `has_more` is
    /// whether the log may contain events after `last`.
    pub fn end_read(&mut self, after: i64, last: Option<i64>, has_more: bool) {
        if let Some(last) = last
            && self.delivered_up_to == after
        {
            self.delivered_up_to = last;
        }
        self.is_stale |= has_more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_during_a_read_causes_another_read() {
        let mut watch = Watch::new(5);
        let after = watch.begin_read();
        // The read has just begun, and does not see the new event.
        assert!(watch.announce(6));
        watch.end_read(after, None, false);
        assert!(watch.is_stale);
        let after = watch.begin_read();
        watch.end_read(after, Some(6), false);
        assert!(!watch.is_stale && !watch.announce(6), "nothing is read twice");
        assert!(watch.announce(7));
        let after = watch.begin_read();
        watch.rewind_to(4);
        watch.end_read(after, Some(7), false);
        assert_eq!((watch.delivered_up_to, watch.is_stale), (4, true), "a late listener is not skipped");
        let after = watch.begin_read();
        watch.end_read(after, Some(7), true);
        assert_eq!((watch.delivered_up_to, watch.is_stale), (7, true));
    }

    #[test]
    fn an_item_wakes_those_who_wait_for_its_inbox_and_nobody_else() {
        let [one, other] = [1, 2].map(|id| MemberId::from(uuid::Uuid::from_u128(id)));
        let listener = |member| Listener {
            read_up_to: 5,
            filter: EventFilter::inbox().of(Some(member)),
            wake: Arc::new(|_: &[NewEvent]| {}),
        };
        let mut watch = Watch::new(5);
        for (id, member) in [(1, one), (2, other), (3, one)] {
            watch.insert(id, listener(member));
        }
        let events = [("Any".to_owned(), NewEvent { lsn: 6, subject: Subject::WORKSPACE.about(one) })];
        assert!(watch.listeners_to_wake(&events, &[]).is_empty(), "an event about a member is no item");
        let item = |member_id, lsn| NewInboxItem { member_id, lsn };
        assert_eq!(watch.listeners_to_wake(&events, &[item(one, 6)]).len(), 2);
        assert_eq!(
            watch.listeners_to_wake(&[], &[item(one, 6), item(other, 7)]).len(),
            1,
            "each item counts once"
        );
        assert_eq!(watch.all_listeners().len(), 3);
        let left = [1, 3, 2].map(|id| (watch.remove(id).is_some(), watch.has_inbox_listeners()));
        assert_eq!(left, [(true, true), (true, true), (true, false)]);
        assert!(watch.is_empty() && watch.remove(2).is_none());
    }
}
