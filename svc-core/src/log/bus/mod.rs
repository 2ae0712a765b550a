//! The event bus: wakes listeners when matching events are appended to a workspace's log.
//!
//! One background thread reads new events from the log and wakes the listeners whose filter matches, and the
//! listeners for an inbox to which one of the events added an item. The bus does not pass the events on:
//! listeners that need them read them from the workspace's tail, which the thread fills. A listener passes
//! the position up to which it has read the log, so it misses nothing between reading and listening. The
//! thread polls for commits of other processes at fixed times, even while this process commits. The timers
//! handle deadlines.

mod filter;
mod watch;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use crate::Result;
use crate::id::WorkspaceId;
use crate::limits::{BUS_RETRY_PAUSE, BUS_TASK_MAX, SQLITE_POLL_INTERVAL};
use crate::log::event::Subject;
use crate::log::feed::{Feed, FeedEvent, Tail};
use crate::monitor::Monitor;
use crate::store::{Conn, Engine, Row};
use crate::time::{Clock, Monotonic};
pub use filter::EventFilter;
use watch::{Listener, NewInboxItem, Watch};
pub(crate) use watch::{NewEvent, Wake};

#[derive(Default)]
struct State {
    watches: HashMap<WorkspaceId, Watch>,
    /// The time of the next poll for commits of other processes.
    next_poll: Monotonic,
    /// The time at which the log is read again after a failure.
    retry_at: Monotonic,
    is_closing: bool,
}

/// The next work of the bus's background thread.
#[derive(Debug, PartialEq, Eq)]
enum BusWork {
    /// Read the new events of these workspaces and deliver them.
    Deliver(Vec<WorkspaceId>),
    /// Read the heads of these workspaces to find commits of other processes.
    PollHeads(Vec<WorkspaceId>),
}

/// Reads the kind of an event from its row, and the event with its position and subject.
fn read_kind_and_event(row: &mut Row) -> Result<(String, NewEvent)> {
    let lsn = row.take()?;
    let kind = row.take()?;
    let subject = Subject { channel_id: row.take()?, thread_id: row.take()?, member_id: row.take()? };
    Ok((kind, NewEvent { lsn, subject }))
}

/// Returns the position and the subject of an event in a tail.
fn event_of_feed(event: &FeedEvent) -> NewEvent {
    NewEvent { lsn: event.lsn, subject: event.subject }
}

/// The listeners of this process and the positions of the logs that they watch.
pub(crate) struct Bus {
    state: Arc<Monitor<State>>,
    feed: Feed,
    /// Interval between two polls of a Postgres database.
    poll_interval: Duration,
    /// Number of registered listeners, which is read without the lock.
    listener_count: AtomicUsize,
    /// Whether notifications from other servers are interrupted.
    notifications_interrupted: AtomicBool,
    /// The time at which the background thread began its current work, or 0 while that thread is idle.
    ///
    /// In microseconds of the monotonic clock, plus one.
    busy_since: AtomicU64,
}

impl Bus {
    /// Creates a bus that polls a Postgres database at `poll_interval`, even if it receives notifications.
    pub fn new(clock: &Clock, poll_interval: Duration) -> Self {
        Self {
            poll_interval,
            state: Monitor::new(clock, State::default()),
            feed: Feed::default(),
            listener_count: AtomicUsize::new(0),
            notifications_interrupted: AtomicBool::new(false),
            busy_since: AtomicU64::new(0),
        }
    }

    /// Announces that a workspace's log has reached `lsn`. This is cheap if the bus has no listeners.
    pub fn announce(&self, workspace: WorkspaceId, lsn: i64) {
        if self.listener_count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut state = self.state.lock();
        if state.watches.get_mut(&workspace).is_some_and(|watch| watch.announce(lsn)) {
            self.state.notify();
        }
    }

    /// Returns the tail of a workspace, which is filled while the workspace has a listener.
    ///
    /// A new tail begins after `lsn`, which the caller has read as committed.
    pub fn enter(&self, workspace: WorkspaceId, lsn: i64) -> Arc<Tail> {
        self.feed.enter(workspace, lsn, self.state.clock())
    }

    /// Records the head of a workspace's log after a commit of this process.
    pub fn record_head(&self, workspace: WorkspaceId, lsn: i64, epoch: i64) {
        if self.listener_count.load(Ordering::SeqCst) > 0
            && let Some(tail) = self.feed.tail(workspace)
        {
            tail.record_head(lsn, epoch, self.state.clock());
        }
    }

    /// Registers a listener: the bus calls `wake` with the matching events after position `read_up_to`,
    /// up to which the caller has read the log.
    ///
    /// Of several listeners, the one with the lowest `id` is woken first. Ids must be unique.
    pub fn listen(&self, workspace: WorkspaceId, id: u64, read_up_to: i64, filter: EventFilter, wake: Wake) {
        self.listener_count.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state.lock();
        // A watch notices every commit after its creation. Events between the listener's read of the log and
        // the creation of the watch are found by reading the log once.
        let watch = state.watches.entry(workspace).or_insert_with(|| Watch::new(read_up_to));
        watch.rewind_to(read_up_to);
        let behind = watch.is_stale;
        watch.insert(id, Listener { read_up_to, filter, wake });
        drop(state);
        if behind {
            self.state.notify();
        }
    }

    /// Removes the listener with this id.
    pub fn unlisten(&self, workspace: WorkspaceId, id: u64) {
        let mut state = self.state.lock();
        let Some(watch) = state.watches.get_mut(&workspace) else { return };
        let Some(listener) = watch.remove(id) else { return };
        if watch.is_empty() {
            state.watches.remove(&workspace);
        }
        self.listener_count.fetch_sub(1, Ordering::SeqCst);
        drop(state);
        // Dropped outside of the lock, because dropping the captured values may remove other listeners.
        drop(listener);
    }

    /// Ends the bus, which makes [`Bus::serve`] return.
    pub fn close(&self) {
        self.state.lock().is_closing = true;
        self.state.notify();
    }

    /// Returns whether [`Bus::close`] was called.
    pub fn is_closing(&self) -> bool {
        self.state.lock().is_closing
    }

    /// Records whether notifications from other servers are interrupted.
    ///
    /// When notifications resume, the bus polls immediately for the commits that it has missed.
    pub fn set_notifications_interrupted(&self, interrupted: bool) {
        self.notifications_interrupted.store(interrupted, Ordering::SeqCst);
        if !interrupted {
            self.state.lock().next_poll = Monotonic::default();
            self.state.notify();
        }
    }

    /// Returns whether notifications from other servers are interrupted.
    pub fn has_interrupted_notifications(&self) -> bool {
        self.notifications_interrupted.load(Ordering::SeqCst)
    }

    /// Returns whether the bus's background thread is stuck: it has spent too long on one read, so that it
    /// wakes no listener.
    pub fn is_stuck(&self) -> bool {
        let since = self.busy_since.load(Ordering::SeqCst);
        let now = self.state.clock().monotonic().micros();
        since > 0 && u128::from(now.saturating_sub(since)) > BUS_TASK_MAX.as_micros()
    }

    /// Reads new events and wakes listeners, until the bus is closed.
    pub fn serve(&self, conn: &Conn) {
        let poll = match conn.engine() {
            Engine::Sqlite => SQLITE_POLL_INTERVAL,
            Engine::Postgres => self.poll_interval,
        };
        while let Some(work) = self.wait_for_work(poll) {
            let now = self.state.clock().monotonic().micros();
            self.busy_since.store(now.saturating_add(1), Ordering::SeqCst);
            let done = match &work {
                BusWork::PollHeads(watched) => self.poll_heads(conn, watched),
                BusWork::Deliver(behind) => {
                    behind.iter().try_for_each(|workspace| self.deliver(conn, *workspace))
                }
            };
            if let Err(error) = done {
                tracing::warn!(%error, cause = ?error.cause(), "the bus could not read the log");
                let mut state = self.state.lock();
                state.retry_at = self.state.clock().deadline(BUS_RETRY_PAUSE);
            }
            self.busy_since.store(0, Ordering::SeqCst);
        }
    }

    /// Waits for the next work, or returns `None` once the bus is closed.
    ///
    /// A poll for commits of other processes has priority when its time has come, no matter how often this
    /// process wakes the bus.
    fn wait_for_work(&self, poll_interval: Duration) -> Option<BusWork> {
        let mut state: MutexGuard<'_, State> = self.state.lock();
        loop {
            if state.is_closing {
                return None;
            }
            if state.watches.is_empty() {
                state = self.state.wait(state, None);
                continue;
            }
            let now = self.state.clock().monotonic();
            if now < state.retry_at {
                let retry_at = state.retry_at;
                state = self.state.wait(state, Some(retry_at));
                continue;
            }
            if now >= state.next_poll {
                state.next_poll = now.plus(poll_interval);
                return Some(BusWork::PollHeads(state.watches.keys().copied().collect()));
            }
            let behind: Vec<WorkspaceId> =
                state.watches.iter().filter(|(_, watch)| watch.is_stale).map(|(id, _)| *id).collect();
            if !behind.is_empty() {
                return Some(BusWork::Deliver(behind));
            }
            let next_poll = state.next_poll;
            state = self.state.wait(state, Some(next_poll));
        }
    }

    /// Finds the commits of other processes, with one statement for all watched workspaces.
    fn poll_heads(&self, conn: &Conn, watched: &[WorkspaceId]) -> Result<()> {
        // Nothing has changed unless another process wrote to the file.
        if conn.engine() == Engine::Sqlite && !conn.have_others_written().unwrap_or(true) {
            let tails = watched.iter().filter_map(|workspace| self.feed.tail(*workspace));
            tails.for_each(|tail| tail.mark_head_current(self.state.clock()));
            return Ok(());
        }
        for LogEnd { workspace, lsn, epoch } in heads(conn, self.state.clock(), watched)? {
            self.record_head(workspace, lsn, epoch);
            self.announce(workspace, lsn);
        }
        Ok(())
    }

    /// Reads the new events of a workspace and wakes the listeners that wait for them.
    fn deliver(&self, conn: &Conn, workspace: WorkspaceId) -> Result<()> {
        let begin = |watch: &mut Watch| {
            (watch.begin_read(), watch.has_inbox_listeners(), events_per_read(watch.event_listener_count()))
        };
        let begun = self.state.lock().watches.get_mut(&workspace).map(begin);
        let Some((after, has_inbox_listeners, limit)) = begun else { return Ok(()) };
        let read = self.read_new_events(conn, workspace, after, limit).and_then(|new| {
            let last = new.events.last().map(|(_, event)| event.lsn).filter(|_| has_inbox_listeners);
            let items =
                last.map_or(Ok(Vec::new()), |last| read_new_inbox_items(conn, workspace, after, last))?;
            Ok((new, items))
        });
        let (NewEvents { events, has_more, is_log_broken }, items) = read.inspect_err(|_| {
            if let Some(watch) = self.state.lock().watches.get_mut(&workspace) {
                watch.is_stale = true;
            }
        })?;
        let mut state = self.state.lock();
        let Some(watch) = state.watches.get_mut(&workspace) else { return Ok(()) };
        // Listeners that follow the log must be notified that it is broken here.
        let mut woken = if is_log_broken { watch.all_listeners() } else { Vec::new() };
        woken.extend(watch.listeners_to_wake(&events, &items));
        watch.end_read(after, events.last().map(|(_, event)| event.lsn), has_more);
        drop(state);
        woken.iter().for_each(|(wake, matching)| wake(matching));
        Ok(())
    }

    /// Returns up to `limit` events after position `after`, from the workspace's tail if it still contains
    /// them, otherwise from the log.
    fn read_new_events(
        &self,
        conn: &Conn,
        workspace: WorkspaceId,
        after: i64,
        limit: usize,
    ) -> Result<NewEvents> {
        let tail = self.feed.tail(workspace);
        let tail_has_more = tail.as_ref().map_or(Ok(false), |tail| tail.pull(conn, self.state.clock()))?;
        let events = match tail.as_ref().and_then(|tail| tail.complete_events_after(after, limit)) {
            Some(kept) => kept.iter().map(|event| (event.kind.clone(), event_of_feed(event))).collect(),
            None => read_events_from_log(conn, workspace, after, limit)?,
        };
        let has_more = tail_has_more || events.len() >= limit;
        Ok(NewEvents { events, has_more, is_log_broken: tail.is_some_and(|tail| tail.is_broken()) })
    }
}

/// The events after a position, with their kinds.
struct NewEvents {
    events: Vec<(String, NewEvent)>,
    has_more: bool,
    /// Whether the log is broken after these events.
    is_log_broken: bool,
}

/// The last position of a workspace's log.
pub(crate) struct LogEnd {
    pub workspace: WorkspaceId,
    pub lsn: i64,
    /// The epoch of the workspace's access rules.
    pub epoch: i64,
}

/// Reads the log heads of `workspaces`. Workspaces without a log are omitted.
pub(crate) fn heads(conn: &Conn, clock: &Clock, workspaces: &[WorkspaceId]) -> Result<Vec<LogEnd>> {
    let sql = match conn.engine() {
        Engine::Sqlite => SELECT_HEADS_SQLITE,
        Engine::Postgres => SELECT_HEADS_POSTGRES,
    };
    let ids: Vec<uuid::Uuid> = workspaces.iter().map(|id| id.uuid()).collect();
    let asked = clock.monotonic();
    let head = |row: &mut Row| {
        let head = LogEnd { workspace: row.take()?, lsn: row.take()?, epoch: row.take()? };
        if let Some(theirs) = row.take()? {
            clock.follow_database(theirs, asked);
        }
        Ok(head)
    };
    conn.query(sql, &[&ids])?.iter_mut().map(head).collect()
}

const SELECT_HEADS_SQLITE: &str = "
    select workspace_id, lsn, epoch, null
    from heads where workspace_id in (select unhex(value) from json_each($1))";

const SELECT_HEADS_POSTGRES: &str = "
    select workspace_id, lsn, epoch, cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)
    from heads where workspace_id = any($1)";

/// Maximum number of events that one query reads from the log.
const EVENTS_PER_READ_MAX: usize = 1000;
/// Approximate maximum number of comparisons between listeners and events in one read of a workspace's log.
///
/// The commits of all workspaces wait for these comparisons, and so do the listeners of other workspaces.
const COMPARISONS_MAX: usize = 50_000;

/// Returns how many events to read in one query, if each event is compared with `listener_count` listeners.
fn events_per_read(listener_count: usize) -> usize {
    COMPARISONS_MAX.checked_div(listener_count).unwrap_or(EVENTS_PER_READ_MAX).clamp(1, EVENTS_PER_READ_MAX)
}

/// Reads up to `limit` events after position `after` from the log.
fn read_events_from_log(
    conn: &Conn,
    workspace: WorkspaceId,
    after: i64,
    limit: usize,
) -> Result<Vec<(String, NewEvent)>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    conn.query(SELECT_NEXT_EVENTS, &[&workspace, &after, &limit])?
        .iter_mut()
        .map(read_kind_and_event)
        .collect()
}

/// Selects events up to the head of the log, as every reader does.
///
/// A listener woken by an event beyond the head would not find that event, and would be woken again and
/// again.
const SELECT_NEXT_EVENTS: &str = "
    select lsn, kind, channel_id, thread_id, member_id from events
    where workspace_id = $1 and lsn > $2 and lsn <= (select lsn from heads where workspace_id = $1)
    order by lsn limit $3";

/// Returns the inboxes to which the events after position `after`, up to position `up_to`, have added items.
fn read_new_inbox_items(
    conn: &Conn,
    workspace: WorkspaceId,
    after: i64,
    up_to: i64,
) -> Result<Vec<NewInboxItem>> {
    let mut rows = conn.query(SELECT_NEW_INBOX_ITEMS, &[&workspace, &after, &up_to])?;
    rows.iter_mut().map(|row| Ok(NewInboxItem { member_id: row.take()?, lsn: row.take()? })).collect()
}

const SELECT_NEW_INBOX_ITEMS: &str = "
    select member_id, max(lsn) from inbox where workspace_id = $1 and lsn > $2 and lsn <= $3
    group by member_id";

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;
    use crate::store::{Database, OpenMode, Opener};
    use crate::time::Time;

    const HERE: WorkspaceId = WorkspaceId::INSTANCE;

    fn other() -> WorkspaceId {
        uuid::Uuid::from_u128(7).into()
    }

    /// A bus over a file with two empty logs, and a connection that writes to the file as another process
    /// would.
    struct Fixture {
        clock: Clock,
        bus: Arc<Bus>,
        writer: Conn,
        thread: Option<std::thread::JoinHandle<()>>,
        _folder: tempfile::TempDir,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let opener = Opener::new(&Database::Sqlite(folder.path().join("t.db"))).unwrap();
            let writer = opener.open_first_connection(OpenMode::Create).unwrap();
            writer
                .batch(
                    "create table heads (workspace_id blob primary key, lsn bigint, epoch bigint default 0);
                     create table events (workspace_id blob, lsn bigint, kind text, channel_id blob,
                         thread_id blob, member_id blob)",
                )
                .unwrap();
            let clock = Clock::mock(Time::from_micros(0));
            let bus = Arc::new(Bus::new(&clock, BUS_RETRY_PAUSE));
            let serving = Arc::clone(&bus);
            let conn = opener.reader().unwrap();
            let thread = Some(std::thread::spawn(move || serving.serve(&conn)));
            let fixture = Self { clock, bus, writer, thread, _folder: folder };
            for workspace in [HERE, other()] {
                fixture
                    .writer
                    .execute("insert into heads (workspace_id, lsn) values ($1, 0)", &[&workspace])
                    .unwrap();
            }
            fixture
        }

        /// Commits an event as another process would, without a notification.
        fn append(&self, workspace: WorkspaceId, lsn: i64, kind: &str) {
            self.writer
                .execute(
                    "insert into events values ($1, $2, $3, null, null, null)",
                    &[&workspace, &lsn, &kind],
                )
                .unwrap();
            self.writer
                .execute("update heads set lsn = $2 where workspace_id = $1", &[&workspace, &lsn])
                .unwrap();
        }

        /// Waits until the thread has no more work before the clock is advanced.
        fn wait_until_idle(&self) {
            let has_work = || {
                let state = self.bus.state.lock();
                let now = self.clock.monotonic();
                now >= state.next_poll || state.watches.values().any(|watch| watch.is_stale)
            };
            while has_work() || self.bus.busy_since.load(Ordering::SeqCst) > 0 {
                std::thread::yield_now();
            }
        }

        fn listen(&self, workspace: WorkspaceId, id: u64, seen: i64, kind: &str) -> Receiver<i64> {
            let (sender, receiver) = channel();
            let wake: Wake = Arc::new(move |events: &[NewEvent]| {
                for event in events {
                    // The test may have stopped listening.
                    let _ = sender.send(event.lsn);
                }
            });
            self.bus.listen(workspace, id, seen, EventFilter::on([kind]), wake);
            receiver
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            self.bus.close();
            self.thread.take().unwrap().join().unwrap();
        }
    }

    #[test]
    fn other_processes_are_polled_however_busy_this_one_is() {
        let fixture = Fixture::new();
        let busy = fixture.listen(other(), 1, 0, "Busy");
        let quiet = fixture.listen(HERE, 2, 0, "Quiet");
        for lsn in 1..=200 {
            // A commit of this process, which wakes the bus each time before its poll is due.
            fixture.append(other(), lsn, "Busy");
            fixture.bus.announce(other(), lsn);
            assert_eq!(busy.recv().unwrap(), lsn);
            if lsn == 100 {
                fixture.append(HERE, 1, "Quiet");
            }
            fixture.clock.advance(SQLITE_POLL_INTERVAL / 10);
        }
        assert_eq!(quiet.try_recv(), Ok(1), "it was polled although the bus was never idle for that long");
    }

    #[test]
    fn nothing_between_reading_and_listening_is_missed() {
        let fixture = Fixture::new();
        fixture.append(HERE, 1, "Early");
        // This listener read the log while it was empty, and did not yet listen when the event came.
        let first = fixture.listen(HERE, 1, 0, "Early");
        assert_eq!(first.recv().unwrap(), 1);
        fixture.append(HERE, 2, "Early");
        fixture.bus.announce(HERE, 2);
        assert_eq!(first.recv().unwrap(), 2);
        // The watch has advanced. A listener that read the log before that is woken, and only this listener.
        let late = fixture.listen(HERE, 2, 1, "Early");
        assert_eq!(late.recv().unwrap(), 2);
        fixture.bus.unlisten(HERE, 2);
        fixture.append(HERE, 3, "Early");
        fixture.bus.announce(HERE, 3);
        assert_eq!(first.recv().unwrap(), 3);
        assert!(late.recv().is_err(), "a removed listener is not woken");
    }

    #[test]
    fn a_lost_notification_is_made_up_for_on_demand_and_by_polling() {
        let fixture = Fixture::new();
        let received = fixture.listen(HERE, 1, 0, "Any");
        fixture.append(HERE, 1, "Any");
        fixture.bus.set_notifications_interrupted(false);
        assert_eq!(received.recv().unwrap(), 1);
        fixture.append(HERE, 2, "Any");
        fixture.clock.advance(SQLITE_POLL_INTERVAL);
        assert_eq!(received.recv().unwrap(), 2);
    }

    #[test]
    fn a_thread_that_works_on_one_thing_for_too_long_hangs() {
        let fixture = Fixture::new();
        let (entered, entering) = channel();
        let (release, released) = channel::<()>();
        let released = std::sync::Mutex::new(released);
        let wake: Wake = Arc::new(move |_: &[NewEvent]| {
            let _ = entered.send(());
            let _ = released.lock().unwrap().recv();
        });
        fixture.bus.listen(HERE, 1, 0, EventFilter::on(["Any"]), wake);
        fixture.wait_until_idle();
        fixture.clock.advance(BUS_TASK_MAX * 2);
        assert!(!fixture.bus.is_stuck(), "it is idle");
        fixture.append(HERE, 1, "Any");
        fixture.bus.announce(HERE, 1);
        entering.recv().unwrap();
        assert!(!fixture.bus.is_stuck());
        fixture.clock.advance(BUS_TASK_MAX + Duration::from_secs(1));
        assert!(fixture.bus.is_stuck());
        drop(release);
        let received = fixture.listen(HERE, 2, 1, "Any");
        fixture.append(HERE, 2, "Any");
        fixture.bus.announce(HERE, 2);
        assert_eq!(received.recv().unwrap(), 2);
        assert!(!fixture.bus.is_stuck());
    }

    #[test]
    fn events_beyond_the_head_wake_nobody() {
        let fixture = Fixture::new();
        fixture.append(HERE, 9, "Any");
        fixture.writer.execute("update heads set lsn = 0 where workspace_id = $1", &[&HERE]).unwrap();
        fixture.append(HERE, 1, "Any");
        let received = fixture.listen(HERE, 1, 0, "Any");
        assert_eq!(received.recv().unwrap(), 1);
        fixture.append(HERE, 2, "Any");
        fixture.bus.announce(HERE, 2);
        assert_eq!(received.recv().unwrap(), 2);
    }

    #[test]
    fn many_listeners_are_told_of_few_events_at_a_time() {
        assert_eq!([0, 1, 50].map(events_per_read), [EVENTS_PER_READ_MAX; 3]);
        assert_eq!([500, 50_000, 1_000_000].map(events_per_read), [100, 1, 1]);
        let fixture = Fixture::new();
        for lsn in 1..=8 {
            fixture.append(HERE, lsn, "Any");
        }
        for id in 1..u64::try_from(COMPARISONS_MAX / 2).unwrap() {
            fixture.bus.listen(HERE, id, 8, EventFilter::on(["Any"]), Arc::new(|_| {}));
        }
        let (sender, told) = channel();
        let wake: Wake = Arc::new(move |events: &[NewEvent]| sender.send(events.len()).unwrap_or_default());
        fixture.bus.listen(HERE, 0, 0, EventFilter::on(["Any"]), wake);
        assert_eq!(told.iter().take(4).collect::<Vec<_>>(), [2; 4]);
    }

    #[test]
    fn only_matching_events_wake() {
        let fixture = Fixture::new();
        let received = fixture.listen(HERE, 1, 0, "Wanted");
        for (lsn, kind) in [(1, "Other"), (2, "Wanted"), (3, "Other"), (4, "Wanted")] {
            fixture.append(HERE, lsn, kind);
        }
        fixture.bus.announce(HERE, 4);
        assert_eq!([received.recv().unwrap(), received.recv().unwrap()], [2, 4]);
    }
}
