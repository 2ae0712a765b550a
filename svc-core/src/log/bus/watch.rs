//! The watch over one workspace's log: its listeners, and how far they have been told of events.
//!
//! No announcement gets lost: one that comes while the log is read causes another read, and a listener that
//! is behind moves the watch back to where it has read the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::EventFilter;
use crate::log::event::Subject;

/// A new event's position and subject, as passed to listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewEvent {
    pub lsn: i64,
    pub subject: Subject,
}

/// Called on the bus's thread with the matching events; it must only hand them on.
pub(crate) type Wake = Arc<dyn Fn(&[NewEvent]) + Send + Sync>;

pub(super) struct Listener {
    pub seen: i64,
    pub filter: EventFilter,
    pub wake: Wake,
}

pub(super) struct Watch {
    /// Events up to here have been delivered.
    pub delivered: i64,
    /// There may be events that have not been read from the log yet.
    pub stale: bool,
    /// In the order in which they are woken.
    pub listeners: BTreeMap<u64, Listener>,
}

impl Watch {
    /// Starts a read of the log from the returned position. It may miss whatever is announced from now on.
    pub fn begin(&mut self) -> i64 {
        self.stale = false;
        self.delivered
    }

    /// Records that the log has reached `lsn`. Returns false if that is not new.
    pub fn announce(&mut self, lsn: i64) -> bool {
        let news = lsn > self.delivered;
        self.stale |= news;
        news
    }

    /// Goes back to `seen`, up to where a new listener has read the log.
    pub fn go_back(&mut self, seen: i64) {
        if seen < self.delivered {
            self.delivered = seen;
            self.stale = true;
        }
    }

    /// Records that the events after `after` were delivered, up to `last`.
    ///
    /// The position stays if a listener went back meanwhile. `more` says that some may be left.
    pub fn end(&mut self, after: i64, last: Option<i64>, more: bool) {
        if let Some(last) = last
            && self.delivered == after
        {
            self.delivered = last;
        }
        self.stale |= more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_during_a_read_causes_another_read() {
        let mut watch = Watch { delivered: 5, stale: true, listeners: BTreeMap::new() };
        let after = watch.begin();
        // The read has just begun, and does not see the new event.
        assert!(watch.announce(6));
        watch.end(after, None, false);
        assert!(watch.stale);
        let after = watch.begin();
        watch.end(after, Some(6), false);
        assert!(!watch.stale && !watch.announce(6), "nothing is read twice");
        assert!(watch.announce(7));
        let after = watch.begin();
        watch.go_back(4);
        watch.end(after, Some(7), false);
        assert_eq!((watch.delivered, watch.stale), (4, true), "a late listener is not skipped");
        let after = watch.begin();
        watch.end(after, Some(7), true);
        assert_eq!((watch.delivered, watch.stale), (7, true));
    }
}
