//! A tail: the newest events of one workspace's log, for the subscribers of this process.
//!
//! The bus's background thread reads each event once, verifies that it links to the previous one, and keeps
//! it in a bounded ring, from which all subscribers read. A subscriber that is behind the ring reads the log
//! itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::event::FeedEvent;
use crate::Result;
use crate::id::WorkspaceId;
use crate::limits::{
    FEED_BYTES_MAX, FEED_READ_BYTES, FEED_READ_EVENTS_MAX, FEED_TAIL_BYTES_MAX, FEED_TAIL_EVENTS_MAX,
};
use crate::log::verify::{Break, ChainCursor, ReadBounds};
use crate::store::{Conn, Engine};
use crate::sync::lock;
use crate::time::{Clock, Monotonic};

/// The newest events of one workspace's log.
pub(crate) struct Tail {
    workspace: WorkspaceId,
    state: Mutex<State>,
    /// Total bytes of the events in all tails.
    total_bytes: Arc<AtomicUsize>,
}

struct State {
    ring: VecDeque<Arc<FeedEvent>>,
    /// Approximate bytes of the events in the ring.
    bytes: usize,
    /// The position up to which the log has been read and verified.
    cursor: ChainCursor,
    head: TailHead,
    /// The first defect of the log, if it was found to be broken.
    broken: Option<Break>,
}

/// The last known head of a workspace's log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TailHead {
    pub lsn: i64,
    /// The epoch of the workspace's access rules.
    pub epoch: i64,
    /// Time at which this process read the head.
    pub read_at: Monotonic,
}

/// The result of reading a tail after a position.
pub(crate) enum TailView {
    /// The events after the position, the position up to which events were examined, and the head of the log.
    Events { events: Vec<Arc<FeedEvent>>, up_to: i64, head: TailHead },
    /// The events after the position are no longer in the tail.
    Behind,
    /// The log is broken. Contains the first defect.
    Broken(Break),
}

impl Tail {
    /// Creates a tail whose first event is the one after `lsn`.
    pub fn new(workspace: WorkspaceId, lsn: i64, clock: &Clock, total_bytes: Arc<AtomicUsize>) -> Self {
        let head = TailHead { lsn, epoch: -1, read_at: clock.monotonic() };
        let cursor = ChainCursor::after(workspace, lsn, None);
        let state = State { ring: VecDeque::new(), bytes: 0, cursor, head, broken: None };
        Self { workspace, state: Mutex::new(state), total_bytes }
    }

    /// Returns up to `limit` events after position `after` for which `is_wanted` returns true.
    pub fn view(&self, after: i64, limit: usize, is_wanted: impl Fn(&FeedEvent) -> bool) -> TailView {
        let state = lock(&self.state);
        if let Some(broken) = state.broken {
            return TailView::Broken(broken);
        }
        let last = state.cursor.lsn();
        let head = state.head;
        if after >= last {
            return TailView::Events { events: Vec::new(), up_to: after, head };
        }
        let first = state.ring.front().map_or(i64::MAX, |event| event.lsn);
        if after.saturating_add(1) < first {
            return TailView::Behind;
        }
        let skipped = usize::try_from(after.saturating_add(1).saturating_sub(first)).unwrap_or(usize::MAX);
        let mut events = Vec::new();
        let mut up_to = after;
        for event in state.ring.iter().skip(skipped) {
            if is_wanted(event) {
                if events.len() >= limit {
                    break;
                }
                events.push(Arc::clone(event));
            }
            up_to = event.lsn;
        }
        TailView::Events { events, up_to, head }
    }

    /// Returns the last known head of the log.
    pub fn head(&self) -> TailHead {
        lock(&self.state).head
    }

    /// Returns up to `limit` events after position `after`, if the tail still contains all of them.
    ///
    /// Returns `None` if the tail has not been filled up to `after`, if it has dropped an event after it, or
    /// if the log is broken.
    pub fn complete_events_after(&self, after: i64, limit: usize) -> Option<Vec<Arc<FeedEvent>>> {
        if after > lock(&self.state).cursor.lsn() {
            return None;
        }
        match self.view(after, limit, |_| true) {
            TailView::Events { events, .. } => Some(events),
            TailView::Behind | TailView::Broken(_) => None,
        }
    }

    /// Records a head that this process has read or committed.
    pub fn record_head(&self, lsn: i64, epoch: i64, clock: &Clock) {
        let mut state = lock(&self.state);
        if lsn >= state.head.lsn && epoch >= state.head.epoch {
            state.head = TailHead { lsn, epoch, read_at: clock.monotonic() };
        }
    }

    /// Records that the log has not changed since the head was read.
    pub fn mark_head_current(&self, clock: &Clock) {
        lock(&self.state).head.read_at = clock.monotonic();
    }

    /// Returns whether the log was found to be broken.
    pub fn is_broken(&self) -> bool {
        lock(&self.state).broken.is_some()
    }

    /// Reads the next events of the log into the tail. Returns whether the log has more events.
    ///
    /// The head is read first. Everything up to the head is committed, so an event that is not found is
    /// missing.
    pub fn pull(&self, conn: &Conn, clock: &Clock) -> Result<bool> {
        let Some(LogHead { lsn, epoch, floor }) = read_head(conn, self.workspace, clock)? else {
            return Ok(false);
        };
        let (mut cursor, broken) = {
            let mut state = lock(&self.state);
            self.skip_pruned(&mut state, floor);
            (state.cursor.clone(), state.broken)
        };
        if broken.is_some() || lsn <= cursor.lsn() {
            self.record_head(lsn, epoch, clock);
            return Ok(false);
        }
        let bounds =
            ReadBounds { up_to: lsn, rows: FEED_READ_EVENTS_MAX, bytes: FEED_READ_BYTES, young: None };
        let mut events = Vec::new();
        let read = cursor.read(conn, bounds, |lsn, row| {
            events.push(Arc::new(FeedEvent::of(lsn, row)));
            true
        })?;
        if read.is_err() && self.is_pruned_after(conn, clock, cursor.lsn())? {
            return Ok(true);
        }
        let has_more = read.is_ok() && cursor.lsn() < lsn;
        self.record_head(lsn, epoch, clock);
        self.append(events, cursor, read.err());
        Ok(has_more)
    }

    /// Drops the events below the floor of the log. If the next events to read were pruned, continues at the
    /// floor.
    fn skip_pruned(&self, state: &mut State, floor: i64) {
        while state.ring.front().is_some_and(|event| event.lsn < floor) {
            self.drop_oldest(state);
        }
        if state.cursor.lsn() < floor.saturating_sub(1) && state.broken.is_none() {
            state.cursor = ChainCursor::after(self.workspace, floor.saturating_sub(1), None);
        }
    }

    /// Returns whether the log was pruned beyond position `lsn`, so that the event after it is missing.
    fn is_pruned_after(&self, conn: &Conn, clock: &Clock, lsn: i64) -> Result<bool> {
        let head = read_head(conn, self.workspace, clock)?;
        Ok(head.is_some_and(|head| lsn < head.floor.saturating_sub(1)))
    }

    fn drop_oldest(&self, state: &mut State) {
        let Some(oldest) = state.ring.pop_front() else { return };
        state.bytes = state.bytes.saturating_sub(oldest.weight());
        self.total_bytes.fetch_sub(oldest.weight(), Ordering::Relaxed);
    }

    /// Adds events that were read up to `cursor`, and drops the oldest events beyond the limits.
    fn append(&self, events: Vec<Arc<FeedEvent>>, cursor: ChainCursor, broken: Option<Break>) {
        let mut state = lock(&self.state);
        (state.cursor, state.broken) = (cursor, broken);
        for event in events {
            state.bytes = state.bytes.saturating_add(event.weight());
            self.total_bytes.fetch_add(event.weight(), Ordering::Relaxed);
            state.ring.push_back(event);
        }
        while state.ring.len() > FEED_TAIL_EVENTS_MAX
            || state.bytes > FEED_TAIL_BYTES_MAX
            || self.total_bytes.load(Ordering::Relaxed) > FEED_BYTES_MAX
        {
            if state.ring.is_empty() {
                break;
            }
            self.drop_oldest(&mut state);
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.total_bytes.fetch_sub(lock(&self.state).bytes, Ordering::Relaxed);
    }
}

/// The head row of a log, as far as a tail uses it.
struct LogHead {
    lsn: i64,
    /// The epoch of the workspace's access rules.
    epoch: i64,
    floor: i64,
}

/// Reads the head row of a workspace's log, and follows the time of the database.
fn read_head(conn: &Conn, workspace: WorkspaceId, clock: &Clock) -> Result<Option<LogHead>> {
    let sql = match conn.engine() {
        Engine::Sqlite => SELECT_HEAD_SQLITE,
        Engine::Postgres => SELECT_HEAD_POSTGRES,
    };
    let asked = clock.monotonic();
    let mut rows = conn.query(sql, &[&workspace])?;
    let Some(row) = rows.first_mut() else { return Ok(None) };
    let lsn = row.take()?;
    let epoch = row.take()?;
    let floor = row.take()?;
    if let Some(theirs) = row.take()? {
        clock.follow_database(theirs, asked);
    }
    Ok(Some(LogHead { lsn, epoch, floor }))
}

const SELECT_HEAD_SQLITE: &str = "select lsn, epoch, floor, null from heads where workspace_id = $1";

const SELECT_HEAD_POSTGRES: &str = "
    select lsn, epoch, floor, cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)
    from heads where workspace_id = $1";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::event::Subject;
    use crate::log::probe::log_of_probes;
    use crate::store::migrate::migrate;
    use crate::store::sqlite_for_tests;
    use crate::time::Time;

    const EVENTS: i64 = 20;

    fn workspace() -> WorkspaceId {
        uuid::Uuid::from_u128(7).into()
    }

    fn stored(conn: &Conn) {
        migrate(conn, Time::from_micros(1)).unwrap();
        let log = log_of_probes(workspace(), Subject::default(), EVENTS);
        for event in &log {
            conn.execute(
                "insert into events (workspace_id, lsn, kind, at, prev_hash, content_hash, payload)
                 values ($1, $2, $3, $4, $5, $6, $7)",
                &[
                    &workspace(),
                    &event.lsn,
                    &event.kind,
                    &event.at,
                    &event.prev_hash,
                    &event.content_hash,
                    &event.payload,
                ],
            )
            .unwrap();
        }
        conn.execute(
            "insert into heads (workspace_id, lsn, hash, at, audit_seq, epoch) values ($1, $2, $3, 0, 0, 4)",
            &[&workspace(), &EVENTS, &log.last().unwrap().content_hash],
        )
        .unwrap();
    }

    fn tail_after(lsn: i64) -> Tail {
        Tail::new(workspace(), lsn, &Clock::mock(Time::from_micros(5)), Arc::default())
    }

    fn lsns(view: TailView) -> Result<Vec<i64>, &'static str> {
        match view {
            TailView::Events { events, .. } => Ok(events.iter().map(|event| event.lsn).collect()),
            TailView::Behind => Err("behind"),
            TailView::Broken(_) => Err("broken"),
        }
    }

    #[test]
    fn a_tail_has_what_followed_its_beginning() {
        let (_folder, conn) = sqlite_for_tests();
        stored(&conn);
        let tail = tail_after(12);
        let clock = Clock::mock(Time::from_micros(9));
        assert!(!tail.pull(&conn, &clock).unwrap());
        let all = |after| lsns(tail.view(after, 100, |_| true));
        assert_eq!(all(12), Ok((13..=20).collect()));
        assert_eq!(all(20), Ok(Vec::new()));
        assert_eq!(all(30), Ok(Vec::new()), "who has read further waits");
        assert_eq!(all(11), Err("behind"));
        assert_eq!(lsns(tail.view(12, 2, |event| event.lsn % 2 == 0)), Ok(vec![14, 16]));
        let TailView::Events { up_to, head, .. } = tail.view(12, 2, |event| event.lsn % 2 == 0) else {
            panic!("it has events");
        };
        assert_eq!((up_to, head.lsn, head.epoch), (17, 20, 4), "up to before the next that matches");
        assert_eq!(tail.complete_events_after(15, 100).unwrap().len(), 5);
        assert!(tail.complete_events_after(3, 100).is_none());
    }

    #[test]
    fn a_broken_log_ends_a_tail() {
        for tamper in [
            "update events set payload = replace(payload, 'number', 'numbes') where lsn = 15",
            "delete from events where lsn = 15",
            "delete from events where lsn >= 15",
            "update events set prev_hash = zeroblob(32) where lsn = 15",
        ] {
            let (_folder, conn) = sqlite_for_tests();
            stored(&conn);
            conn.execute(tamper, &[]).unwrap();
            let tail = tail_after(12);
            assert!(!tail.pull(&conn, &Clock::mock(Time::from_micros(9))).unwrap());
            let TailView::Broken(broken) = tail.view(12, 100, |_| true) else { panic!("{tamper}") };
            assert_eq!(broken.lsn, 15, "{tamper}");
        }
    }

    #[test]
    fn a_tail_goes_on_at_the_floor_of_a_log_that_was_pruned() {
        let (_folder, conn) = sqlite_for_tests();
        stored(&conn);
        let clock = Clock::mock(Time::from_micros(9));
        let ahead = tail_after(2);
        let behind = tail_after(2);
        ahead.pull(&conn, &clock).unwrap();
        conn.batch("update heads set floor = 15; delete from events where lsn < 15").unwrap();
        for tail in [&ahead, &behind] {
            assert!(!tail.pull(&conn, &clock).unwrap());
            assert_eq!(lsns(tail.view(14, 100, |_| true)), Ok((15..=20).collect()));
            assert_eq!(lsns(tail.view(13, 100, |_| true)), Err("behind"), "what was pruned is not shown");
        }
        conn.batch("delete from events where lsn = 15").unwrap();
        let late = tail_after(14);
        late.pull(&conn, &clock).unwrap();
        assert_eq!(lsns(late.view(14, 100, |_| true)), Err("broken"), "which pruning does not excuse");
    }

    #[test]
    fn rings_are_bounded_together() {
        let (_folder, conn) = sqlite_for_tests();
        stored(&conn);
        let total_bytes = Arc::new(AtomicUsize::new(FEED_BYTES_MAX));
        let clock = Clock::mock(Time::from_micros(5));
        let tail = Tail::new(workspace(), 12, &clock, Arc::clone(&total_bytes));
        tail.pull(&conn, &clock).unwrap();
        assert_eq!(lsns(tail.view(12, 100, |_| true)), Err("behind"), "others have taken all tail");
        assert_eq!(total_bytes.load(Ordering::Relaxed), FEED_BYTES_MAX);
        drop(tail);
        assert_eq!(total_bytes.load(Ordering::Relaxed), FEED_BYTES_MAX);
    }
}
