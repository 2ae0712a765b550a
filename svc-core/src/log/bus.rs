//! The bus: who waits for what, and how far each watched workspace's log has reached. It carries no events; one
//! thread reads new ones from the log and wakes those whose filter matches. Whoever listens has read the log up
//! to a position and names it, so nothing that came between reading and listening is missed.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Result;
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::limits::{BUS_RECONCILE, SQLITE_POLL};
use crate::log::event::Place;
use crate::store::{Conn, Engine, Row};
use crate::time::{Clock, Monotonic};

/// Which events are of interest.
#[derive(Clone, Debug, Default)]
pub struct Wakes {
    kinds: Vec<String>,
    channel_id: Option<ChannelId>,
    thread_id: Option<ThreadId>,
    member_id: Option<MemberId>,
}

impl Wakes {
    /// Events of these kinds; of any kind if there are none.
    pub fn on<K: Into<String>>(kinds: impl IntoIterator<Item = K>) -> Self {
        Self { kinds: kinds.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Only those in this channel, if one is named.
    #[must_use]
    pub fn in_channel(self, channel_id: Option<ChannelId>) -> Self {
        Self { channel_id, ..self }
    }

    /// Only those in this thread, if one is named.
    #[must_use]
    pub fn in_thread(self, thread_id: Option<ThreadId>) -> Self {
        Self { thread_id, ..self }
    }

    /// Only those about this member, if one is named.
    #[must_use]
    pub fn about(self, member_id: Option<MemberId>) -> Self {
        Self { member_id, ..self }
    }

    fn matches(&self, kind: &str, place: &Place) -> bool {
        (self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind))
            && (self.channel_id.is_none() || self.channel_id == place.channel_id)
            && (self.thread_id.is_none() || self.thread_id == place.thread_id)
            && (self.member_id.is_none() || self.member_id == place.member_id)
    }
}

/// Why a listener is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A matching event has come.
    Event,
    /// The time is over. Nothing follows.
    Deadline,
}

/// Called on the bus's thread; it must only hand on.
pub(crate) type Wake = Arc<dyn Fn(Signal) + Send + Sync>;

struct Listener {
    seen: i64,
    wakes: Wakes,
    wake: Wake,
    deadline: Monotonic,
}

#[derive(Default)]
struct Room {
    delivered: i64,
    reached: i64,
    listeners: HashMap<u64, Listener>,
}

#[derive(Default)]
struct State {
    rooms: HashMap<WorkspaceId, Room>,
    deadlines: BTreeSet<(Monotonic, u64, WorkspaceId)>,
    next: u64,
    closing: bool,
}

impl Room {
    /// Notes what a look from `after` on has found. Both positions may have moved during the look: `delivered`
    /// back, by a listener with an older position, and `reached` on, by a commit.
    fn advance(&mut self, after: i64, reached: i64, last: Option<i64>) {
        match last {
            Some(last) => {
                if self.delivered == after {
                    self.delivered = last;
                }
                // There may be more than one look takes.
                self.reached = self.reached.max(last.saturating_add(1));
            }
            None if self.reached == reached && self.delivered == after => self.reached = after,
            None => {}
        }
    }
}

/// An event's position, kind and place.
fn passing(row: &mut Row) -> Result<(i64, String, Place)> {
    let (lsn, kind) = (row.take()?, row.take()?);
    Ok((lsn, kind, Place { channel_id: row.take()?, thread_id: row.take()?, member_id: row.take()? }))
}

/// Who waits for what.
#[derive(Default)]
pub(crate) struct Bus {
    state: Mutex<State>,
    changed: Condvar,
    listening: AtomicUsize,
    /// Whether notifications of other servers are interrupted.
    deaf: AtomicBool,
}

impl Bus {
    /// A workspace's log has reached `lsn`. Cheap while nobody listens.
    pub fn reached(&self, workspace: WorkspaceId, lsn: i64) {
        if self.listening.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut state = self.lock();
        if let Some(room) = state.rooms.get_mut(&workspace).filter(|room| room.reached < lsn) {
            room.reached = lsn;
            self.changed.notify_all();
        }
    }

    /// Wakes on every matching event after `seen`, and once at the deadline.
    pub fn listen(
        &self,
        workspace: WorkspaceId,
        seen: i64,
        wakes: Wakes,
        deadline: Monotonic,
        wake: Wake,
    ) -> u64 {
        self.listening.fetch_add(1, Ordering::SeqCst);
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        state.deadlines.insert((deadline, id, workspace));
        let room =
            state.rooms.entry(workspace).or_insert_with(|| Room { delivered: seen, ..Room::default() });
        room.delivered = room.delivered.min(seen);
        // The log may have grown since the listener read it: look once in any case.
        room.reached = room.reached.max(seen.saturating_add(1));
        room.listeners.insert(id, Listener { seen, wakes, wake, deadline });
        self.changed.notify_all();
        id
    }

    /// Stops waking.
    pub fn forget(&self, workspace: WorkspaceId, id: u64) {
        let mut state = self.lock();
        let Some(room) = state.rooms.get_mut(&workspace) else { return };
        let Some(listener) = room.listeners.remove(&id) else { return };
        if room.listeners.is_empty() {
            state.rooms.remove(&workspace);
        }
        state.deadlines.remove(&(listener.deadline, id, workspace));
        self.listening.fetch_sub(1, Ordering::SeqCst);
    }

    /// How many listen now.
    pub fn listening(&self) -> usize {
        self.listening.load(Ordering::SeqCst)
    }

    /// Ends [`Bus::serve`].
    pub fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
    }

    /// Whether [`Bus::close`] was called.
    pub fn is_closing(&self) -> bool {
        self.lock().closing
    }

    /// Notifications of other servers come again, or are interrupted.
    pub fn set_deaf(&self, deaf: bool) {
        self.deaf.store(deaf, Ordering::SeqCst);
    }

    /// Whether notifications of other servers are interrupted.
    pub fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::SeqCst)
    }

    /// Reads new events and wakes listeners, until closed.
    pub fn serve(&self, conn: &Conn) {
        while let Some(behind) = self.next_work(conn) {
            for workspace in behind {
                if let Err(error) = self.deliver(conn, workspace) {
                    tracing::warn!(%error, cause = ?error.cause(), "the bus could not read the log");
                    std::thread::park_timeout(BUS_RECONCILE);
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a watched log has grown; None when closed.
    fn next_work(&self, conn: &Conn) -> Option<Vec<WorkspaceId>> {
        let poll = match conn.engine() {
            Engine::Sqlite => SQLITE_POLL,
            Engine::Postgres => BUS_RECONCILE,
        };
        let mut state = self.lock();
        loop {
            state = self.ring_deadlines(state);
            // Last, because nobody holds the lock while deadlines ring: whoever is told may close the service.
            if state.closing {
                return None;
            }
            let behind: Vec<WorkspaceId> = state
                .rooms
                .iter()
                .filter(|(_, room)| room.reached > room.delivered)
                .map(|(id, _)| *id)
                .collect();
            if !behind.is_empty() {
                return Some(behind);
            }
            if state.rooms.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let patience = state.deadlines.first().map_or(poll, |(at, _, _)| {
                Clock::System.remaining(*at).clamp(Duration::from_millis(1), poll)
            });
            let (woken, timeout) =
                self.changed.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if timeout.timed_out() {
                let watched: Vec<WorkspaceId> = state.rooms.keys().copied().collect();
                drop(state);
                self.look_elsewhere(conn, &watched);
                state = self.lock();
            }
        }
    }

    /// Finds what other processes have committed.
    fn look_elsewhere(&self, conn: &Conn, watched: &[WorkspaceId]) {
        let looked = conn.engine() == Engine::Postgres || conn.others_wrote().unwrap_or(true);
        if !looked {
            return;
        }
        for workspace in watched {
            let head = conn.query("select lsn from heads where workspace_id = $1", &[workspace]);
            match head.and_then(|mut rows| rows.first_mut().map_or(Ok(0), Row::take)) {
                Ok(lsn) => self.reached(*workspace, lsn),
                Err(error) => tracing::warn!(%error, cause = ?error.cause(), "the bus could not read a head"),
            }
        }
    }

    fn deliver(&self, conn: &Conn, workspace: WorkspaceId) -> Result<()> {
        let position = self.lock().rooms.get(&workspace).map(|room| (room.delivered, room.reached));
        let Some((after, reached)) = position else { return Ok(()) };
        let events = conn
            .query(NEXT_EVENTS, &[&workspace, &after])?
            .iter_mut()
            .map(passing)
            .collect::<Result<Vec<_>>>()?;
        let mut woken: Vec<Wake> = Vec::new();
        let mut state = self.lock();
        let Some(room) = state.rooms.get_mut(&workspace) else { return Ok(()) };
        for (lsn, kind, place) in &events {
            for listener in room.listeners.values_mut() {
                if listener.seen < *lsn && listener.wakes.matches(kind, place) {
                    listener.seen = *lsn;
                    woken.push(Arc::clone(&listener.wake));
                }
            }
        }
        room.advance(after, reached, events.last().map(|(lsn, _, _)| *lsn));
        drop(state);
        woken.iter().for_each(|wake| wake(Signal::Event));
        Ok(())
    }

    fn ring_deadlines<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let now = Clock::System.monotonic();
        while let Some((_, id, workspace)) = state.deadlines.first().copied().filter(|(at, _, _)| *at <= now)
        {
            state.deadlines.pop_first();
            let wake = state
                .rooms
                .get(&workspace)
                .and_then(|room| room.listeners.get(&id))
                .map(|l| Arc::clone(&l.wake));
            drop(state);
            if let Some(wake) = wake {
                wake(Signal::Deadline);
            }
            state = self.lock();
        }
        state
    }
}

const NEXT_EVENTS: &str = "
    select lsn, kind, channel_id, thread_id, member_id from events
    where workspace_id = $1 and lsn > $2 order by lsn limit 1000";
