//! Rounds: one round polls many due waits in one read transaction.
//!
//! A round polls the waits of one workspace, and occupies one place in the executor's queue, however many
//! waits it polls. If that queue is full, the waits stay due, and the round is retried.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{Code, Result};
use crate::id::WorkspaceId;
use crate::limits::{WAITS_MAX, WAITS_PER_CLIENT_MAX};
use crate::log::bus::NewEvent;
use crate::log::cache::ReaderCache;
use crate::op::call::caller::Surface;
use crate::op::declare::job::{CountAvailable, ReadingJob};
use crate::op::run::wait::access::WaitCallers;
use crate::op::run::wait::queue::{NumberedAttempt, QueueAction, WaitQueue};
use crate::op::run::wait::{ParkedWait, PollOutcome};
use crate::op::run::{self, Call, Dispatch, Prepared, ReadTransaction, ServiceWork};
use crate::rate::{Client, Holder};
use crate::round_robin::RoundRobin;
use crate::share::{Ceiling, PlaceGuard, Quotas};
use crate::store::executor::{ReadTask, Reader, Task, TaskSource};
use crate::sync::lock;

/// Maximum number of waits polled in one transaction.
const ROUND_WAITS_MAX: usize = 32;
/// Approximate bytes of memory that a round occupies, without its waits.
const ROUND_BYTES: usize = 1024;
/// Maximum concurrent rounds of a workspace if reads need no network, so that other reads of the workspace
/// also run.
const LOCAL_ROUNDS_MAX: usize = 1;
/// Maximum concurrent rounds of a workspace if each statement waits for the network.
const REMOTE_ROUNDS_MAX: usize = 4;
/// Time after which a round polls no further waits. The remaining waits are polled in another round.
const ROUND_DURATION_MAX: Duration = Duration::from_millis(10);
/// Delay before rounds are retried after a full queue or a database that does not respond.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Time for which an object that was offered to one wait is not offered to another wait.
const OFFER_DURATION: Duration = Duration::from_secs(1);

/// Key of a wait queue: the operation `name` in a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueKey {
    pub workspace: WorkspaceId,
    /// The workspace that polls of the queue are charged to.
    pub charged_to: WorkspaceId,
    pub name: &'static str,
}

/// The number of parked waits, and the total numbers of polls and rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCounts {
    /// Number of waits that are parked now.
    pub parked: usize,
    /// Total number of polls, of all waits.
    pub asked: u64,
    /// Total number of read transactions that polled waits.
    pub rounds: u64,
}

/// The number and the place of a wait that may start.
pub(in crate::op) struct AdmittedWait {
    /// Sequence number of the wait, in the order in which waits began.
    pub number: u64,
    /// Place of the wait among the parked waits, which the wait occupies until this value is dropped.
    pub place: PlaceGuard,
}

/// The due waits of a service, and the rounds that poll them.
pub(crate) struct WaitScheduler {
    schedule: Mutex<Schedule>,
    next_number: AtomicU64,
    places: Ceiling,
    callers: Mutex<WaitCallers>,
    parked: AtomicUsize,
    polls: AtomicU64,
    rounds: AtomicU64,
}

/// The waits to poll and the rounds in progress, by workspace.
#[derive(Default)]
struct Schedule {
    /// The due waits, by charged workspace. Each workspace has separate rounds.
    workspaces: HashMap<WorkspaceId, DueWork>,
    queues: HashMap<QueueKey, WaitQueue>,
    /// Number of queue rounds that have begun.
    queue_rounds: u64,
    /// Whether polling has ended permanently.
    is_closed: bool,
}

/// The due waits of one workspace, and their rounds in progress.
#[derive(Default)]
struct DueWork {
    woken: WokenWaits,
    /// Number of rounds in progress.
    running: usize,
    /// Whether the last round was for a queue. If so, the next round is for other waits.
    queue_was_last: bool,
    /// Whether polling is paused, after a full queue or a database that did not respond.
    paused: bool,
}

/// The woken waits of a workspace, by client. The clients take turns.
#[derive(Default)]
struct WokenWaits {
    clients: RoundRobin<Option<Client>, VecDeque<Arc<ParkedWait>>>,
    len: usize,
}

impl WokenWaits {
    fn push(&mut self, parked: Arc<ParkedWait>) {
        self.clients.entry(parked.client).push_back(parked);
        self.len = self.len.saturating_add(1);
    }

    fn pop(&mut self) -> Option<Arc<ParkedWait>> {
        let client = self.clients.keys().next()?;
        let parked = self.clients.pop(client)?;
        self.len = self.len.saturating_sub(1);
        Some(parked)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<ParkedWait>> {
        self.clients.iter().flat_map(|(_, waits)| waits)
    }
}

impl Default for WaitScheduler {
    fn default() -> Self {
        let quotas = Quotas { client: Some(WAITS_PER_CLIENT_MAX), ..Quotas::default() };
        Self {
            schedule: Mutex::default(),
            next_number: AtomicU64::default(),
            places: Ceiling::new("parked waits", WAITS_MAX, quotas),
            callers: Mutex::default(),
            parked: AtomicUsize::default(),
            polls: AtomicU64::default(),
            rounds: AtomicU64::default(),
        }
    }
}

impl WaitScheduler {
    /// Assigns a number and a place to a new wait. Fails if all places, or the places of the holder, are
    /// occupied.
    pub(in crate::op) fn admit(&self, holder: Holder) -> Result<AdmittedWait> {
        let place = self.places.take(holder, 1)?;
        Ok(AdmittedWait { number: self.next_number.fetch_add(1, Ordering::SeqCst), place })
    }

    /// Returns an unused number, for a listener on the event bus that is not a wait.
    pub fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::SeqCst)
    }

    /// Returns the parked waits whose callers are checked.
    pub(super) fn callers(&self) -> &Mutex<WaitCallers> {
        &self.callers
    }

    /// Counts a newly parked wait.
    pub fn count_parked(&self) {
        self.parked.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a wait that has ended.
    pub fn count_ended(&self, was_parked: bool) {
        if was_parked {
            self.parked.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Returns the number of parked waits, and the total numbers of polls and rounds.
    pub fn counts(&self) -> WaitCounts {
        WaitCounts {
            parked: self.parked.load(Ordering::SeqCst),
            asked: self.polls.load(Ordering::SeqCst),
            rounds: self.rounds.load(Ordering::SeqCst),
        }
    }

    /// Queues a woken wait for a poll.
    pub(in crate::op) fn queue_woken(&self, parked: Arc<ParkedWait>) {
        lock(&self.schedule).workspaces.entry(parked.charged_to).or_default().woken.push(parked);
    }

    /// Offers the objects of events to a wait in a queue.
    pub(in crate::op) fn offer(
        &self,
        key: QueueKey,
        count_available: CountAvailable,
        number: u64,
        parked: &Arc<ParkedWait>,
        events: &[NewEvent],
    ) {
        let mut schedule = lock(&self.schedule);
        schedule
            .queues
            .entry(key)
            .or_insert_with(|| WaitQueue::new(count_available))
            .offer(number, parked, events);
    }

    /// Abandons every wait, on shutdown.
    pub fn close(&self) {
        let mut schedule = lock(&self.schedule);
        schedule.is_closed = true;
        let workspaces = std::mem::take(&mut schedule.workspaces);
        let queues = std::mem::take(&mut schedule.queues);
        drop(schedule);
        workspaces.values().flat_map(|due| due.woken.all()).for_each(|parked| parked.abandon());
        drop(queues);
    }

    /// Removes the wait `number`, which has ended, from its queue.
    pub fn remove_wait(&self, key: QueueKey, number: u64) {
        let left = lock(&self.schedule).queues.get_mut(&key).and_then(|queue| queue.remove_wait(number));
        drop(left);
    }
}

/// The waits that a round polls.
#[derive(Clone, Copy)]
enum PollTarget {
    /// The woken waits of a workspace.
    Woken(WorkspaceId),
    Queue(QueueKey),
}

impl PollTarget {
    fn charged_to(self) -> WorkspaceId {
        match self {
            Self::Woken(workspace) => workspace,
            Self::Queue(key) => key.charged_to,
        }
    }
}

/// Submits rounds to the readers for all due work.
pub(in crate::op) fn submit_rounds(dispatch: &Arc<Dispatch>) {
    let max_rounds = if dispatch.executor.has_local_reads() { LOCAL_ROUNDS_MAX } else { REMOTE_ROUNDS_MAX };
    for target in begin_due_rounds(dispatch, max_rounds) {
        let task = PollRound { dispatch: Arc::clone(dispatch), target, attempts: None };
        dispatch.executor.read(Box::new(task), false);
    }
}

/// Begins rounds for all due work, with at most `max_rounds` rounds in progress per workspace. Returns
/// their targets.
fn begin_due_rounds(dispatch: &Arc<Dispatch>, max_rounds: usize) -> Vec<PollTarget> {
    let mut schedule = lock(&dispatch.rounds.schedule);
    if schedule.is_closed {
        return Vec::new();
    }
    let Schedule { workspaces, queues, queue_rounds, .. } = &mut *schedule;
    let mut targets = Vec::new();
    let mut idle = Vec::new();
    // The queues of a workspace take turns.
    let mut by_turn: Vec<(&QueueKey, &mut WaitQueue)> = queues.iter_mut().collect();
    by_turn.sort_unstable_by_key(|(_, queue)| queue.last_round());
    for (key, queue) in by_turn {
        let here = workspaces.entry(key.charged_to).or_default();
        // After a round for a queue, other woken waits are next.
        let may_run = here.can_begin_round(max_rounds) && !(here.has_waits_to_poll() && here.queue_was_last);
        match queue.next_action() {
            QueueAction::Run if may_run => {
                *queue_rounds = queue_rounds.saturating_add(1);
                queue.begin(*queue_rounds);
                here.begin(true);
                targets.push(PollTarget::Queue(*key));
            }
            QueueAction::Run | QueueAction::Wait => {}
            QueueAction::Idle => idle.push(*key),
            QueueAction::Retry => resume_later(dispatch, *key),
        }
    }
    for (workspace, here) in &mut *workspaces {
        while here.can_begin_round(max_rounds) && here.has_waits_to_poll() {
            here.begin(false);
            targets.push(PollTarget::Woken(*workspace));
        }
    }
    workspaces.retain(|_, here| here.running > 0 || here.paused || here.woken.len > 0);
    // Idle queues are dropped after the lock was released.
    let idle: Vec<WaitQueue> = idle.iter().filter_map(|key| queues.remove(key)).collect();
    drop(schedule);
    drop(idle);
    targets
}

impl DueWork {
    /// Returns whether more waits are woken than the rounds in progress can poll.
    fn has_waits_to_poll(&self) -> bool {
        self.woken.len > self.running.saturating_mul(ROUND_WAITS_MAX)
    }

    /// Returns whether another round may begin, with at most `max_rounds` rounds in progress.
    fn can_begin_round(&self, max_rounds: usize) -> bool {
        !self.paused && self.running < max_rounds
    }

    /// Records that a round begins, for a queue or for other waits.
    fn begin(&mut self, is_for_queue: bool) {
        self.queue_was_last = is_for_queue;
        self.running = self.running.saturating_add(1);
    }
}

/// Resumes a queue after a delay.
fn resume_later(dispatch: &Arc<Dispatch>, key: QueueKey) {
    let weak = Arc::downgrade(dispatch);
    dispatch.timers.after(OFFER_DURATION, move || {
        let Some(dispatch) = weak.upgrade() else { return };
        if let Some(queue) = lock(&dispatch.rounds.schedule).queues.get_mut(&key) {
            queue.resume();
        }
        submit_rounds(&dispatch);
    });
}

/// A task that polls waits in one transaction.
struct PollRound {
    dispatch: Arc<Dispatch>,
    target: PollTarget,
    /// The polls, chosen right before the round's transaction begins.
    ///
    /// They include waits that became due after the round was submitted, but not waits that become due later,
    /// for which that transaction is too old.
    attempts: Option<Vec<NumberedAttempt>>,
}

impl PollRound {
    /// Polls the waits of the round in order. Fails if the database has failed.
    fn poll(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        self.dispatch.rounds.rounds.fetch_add(1, Ordering::Relaxed);
        let max_ready = match self.target {
            PollTarget::Woken(_) => usize::MAX,
            PollTarget::Queue(key) => self.count_ready_waits(reader, key)?,
        };
        let attempts = self.attempts.get_or_insert_default();
        let mut ready = 0;
        let clock = &self.dispatch.clock;
        let until = clock.deadline(ROUND_DURATION_MAX);
        attempts.iter_mut().for_each(|(_, attempt)| attempt.outcome = PollOutcome::Skipped);
        for (place, (_, attempt)) in attempts.iter_mut().enumerate() {
            let is_late = place > 0 && clock.remaining(until).is_zero();
            if ready == max_ready || is_late || reader.conn.failure().is_some() {
                break;
            }
            // Each poll has the budget of a read.
            reader.conn.begin_budget();
            ready += usize::from(attempt.poll(reader));
            self.dispatch.rounds.polls.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns how many waits of a queue may become ready now: as many as objects are available.
    fn count_ready_waits(&self, reader: &Reader<ReaderCache>, key: QueueKey) -> Result<usize> {
        let schedule = || lock(&self.dispatch.rounds.schedule);
        let fresh = schedule().queues.get(&key).map(WaitQueue::events_to_count);
        let Some((count_available, fresh)) = fresh else { return Ok(0) };
        let mut service = Call::instance(&self.dispatch, ServiceWork::on(key.workspace), Surface::System);
        let count: ReadingJob<Vec<(i64, usize)>> = Box::new(move |cx| {
            fresh.iter().map(|(lsn, subject)| Ok((*lsn, count_available(cx, subject)?))).collect()
        });
        let mut counts = run::run(&ReadTransaction::new(reader), &mut service, &mut Prepared::Ready(count))?;
        // Objects of events after this snapshot must be counted in another transaction.
        let reached = reader.cache.borrow().cached_lsn(key.workspace).unwrap_or(0);
        counts.retain(|(lsn, _)| *lsn <= reached);
        Ok(schedule().queues.get_mut(&key).map_or(0, |queue| queue.apply_available_counts(&counts)))
    }

    /// Sends replies and parks waits, after the transaction has ended.
    fn settle(self, outcome: Result<()>) {
        let Self { dispatch, target, attempts } = self;
        if outcome.is_err() || attempts.iter().flatten().any(|(_, attempt)| attempt.has_failed_transiently())
        {
            pause_rounds(&dispatch, target.charged_to());
        }
        let mut ready = 0;
        let mut not_polled = Vec::new();
        for (number, mut attempt) in attempts.into_iter().flatten() {
            attempt.mark_for_repeat_if_parked(outcome.as_ref().err());
            if attempt.is_skipped() {
                not_polled.push((number, Arc::clone(&attempt.parked)));
            }
            ready += usize::from(attempt.settle());
        }
        let mut schedule = lock(&dispatch.rounds.schedule);
        if let Some(here) = schedule.workspaces.get_mut(&target.charged_to()) {
            here.running = here.running.saturating_sub(1);
        }
        if let PollTarget::Queue(key) = target
            && let Some(queue) = schedule.queues.get_mut(&key)
        {
            queue.end(ready, not_polled);
        }
        drop(schedule);
        submit_rounds(&dispatch);
    }
}

/// Removes and returns the waits that a round polls, up to `ROUND_WAITS_MAX`.
fn take_waits(dispatch: &Arc<Dispatch>, target: &PollTarget) -> Vec<NumberedAttempt> {
    let mut schedule = lock(&dispatch.rounds.schedule);
    let chosen: Vec<(u64, Arc<ParkedWait>)> = match target {
        PollTarget::Woken(workspace) => {
            let woken = schedule.workspaces.get_mut(workspace).map(|here| &mut here.woken);
            woken.map_or_else(Vec::new, |woken| {
                (0..ROUND_WAITS_MAX).map_while(|_| Some((0, woken.pop()?))).collect()
            })
        }
        PollTarget::Queue(key) => {
            schedule.queues.get_mut(key).map_or_else(Vec::new, |queue| queue.take_due(ROUND_WAITS_MAX))
        }
    };
    drop(schedule);
    let from_queue = matches!(target, PollTarget::Queue(_));
    chosen
        .into_iter()
        .filter_map(|(number, parked)| Some((number, parked.take_attempt(from_queue)?)))
        .collect()
}

/// Pauses the rounds of a workspace for the duration `RETRY_DELAY`.
fn pause_rounds(dispatch: &Arc<Dispatch>, workspace: WorkspaceId) {
    let set = move |dispatch: &Dispatch, paused| {
        let mut schedule = lock(&dispatch.rounds.schedule);
        std::mem::replace(&mut schedule.workspaces.entry(workspace).or_default().paused, paused)
    };
    if set(dispatch, true) {
        return;
    }
    let weak = Arc::downgrade(dispatch);
    dispatch.timers.after(RETRY_DELAY, move || {
        let Some(dispatch) = weak.upgrade() else { return };
        set(&dispatch, false);
        submit_rounds(&dispatch);
    });
}

impl Task for PollRound {
    fn source(&self) -> TaskSource {
        TaskSource { workspace: Some(self.target.charged_to()), client: None }
    }

    fn bytes(&self) -> usize {
        ROUND_BYTES
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let mut round = *self;
        // If the queue was full, the waits are not affected. If the database failed, new waits receive the
        // error.
        if outcome.as_ref().is_err_and(|error| error.code() != Code::Overloaded) {
            round.attempts.get_or_insert_with(|| take_waits(&round.dispatch, &round.target));
        }
        round.settle(outcome);
    }
}

impl ReadTask<ReaderCache> for PollRound {
    fn prepare(&mut self) {
        self.attempts.get_or_insert_with(|| take_waits(&self.dispatch, &self.target));
    }

    fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        self.poll(reader)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::limits::READ_BUDGET_MS;
    use crate::op::declare::job::{Poll, WaitJob};
    use crate::op::run::pipeline::Stage as _;
    use crate::op::run::wait::tests::{Fixture, RunOutcome, script};
    use crate::time::Clock;

    #[test]
    fn the_number_of_waits_is_limited() {
        let fixture = Fixture::new();
        // Twenty workspaces with twenty clients each occupy all places.
        let holders = (0..400_u16).map(|number| Holder {
            client: Client::Peer([10, 0, 0, u8::try_from(number % 20).unwrap()].into()),
            workspace: WorkspaceId::from(uuid::Uuid::from_u128(u128::from(number / 20) + 1)),
        });
        let rounds = &fixture.dispatch().rounds;
        let places = |holder| (0..WAITS_MAX / 400).map(move |_| rounds.admit(holder).unwrap());
        let mut held: Vec<_> = holders.flat_map(places).collect();
        let (job, polled) = script([RunOutcome::Ready]);
        let (parked, outcome) = fixture.wait(job);
        assert!(parked.is_none());
        assert_eq!(outcome.recv().unwrap(), Err(Code::Overloaded));
        assert!(polled.recv().is_err(), "it was not polled");
        held.pop();
        let (_parked, outcome) = fixture.wait(script([RunOutcome::Ready]).0);
        assert_eq!(outcome.recv().unwrap(), Ok(()));
    }

    #[test]
    fn a_wait_counts_against_its_token_until_it_ends_or_is_abandoned() {
        let fixture = Fixture::new();
        let never = || script([]).0;
        let held: Vec<_> = (0..WAITS_PER_CLIENT_MAX).map(|_| fixture.wait(never())).collect();
        let (parked, outcome) = fixture.wait(never());
        assert!(parked.is_none(), "one token parks no more than its share");
        assert_eq!(outcome.recv().unwrap(), Err(Code::Overloaded));
        held.iter().take(1).flat_map(|(parked, _)| parked).for_each(|parked| parked.abandon());
        let (parked, outcome) = fixture.wait(script([RunOutcome::Ready]).0);
        assert_eq!(outcome.recv().unwrap(), Ok(()), "one was abandoned");
        drop(parked);
        let last = fixture.wait(never());
        assert!(last.0.is_some(), "and one has ended");
        assert!(fixture.wait(never()).0.is_none());
        drop(last);
    }

    #[test]
    fn many_waits_share_a_transaction_of_bounded_size() {
        let fixture = Fixture::new();
        let count = 3 * ROUND_WAITS_MAX;
        let waits: Vec<_> =
            (0..count).map(|_| fixture.parked(script([RunOutcome::Pending, RunOutcome::Ready]).0)).collect();
        let before = fixture.dispatch().rounds.counts();
        lock(&fixture.dispatch().rounds.schedule).is_closed = true;
        fixture.emit_event();
        lock(&fixture.dispatch().rounds.schedule).is_closed = false;
        submit_rounds(fixture.dispatch());
        waits.into_iter().for_each(|(_, outcome)| assert_eq!(outcome.recv().unwrap(), Ok(())));
        let after = fixture.dispatch().rounds.counts();
        assert_eq!((after.asked - before.asked, after.rounds - before.rounds), (count as u64, 3));
    }

    /// A task that fixes its snapshot with a read, then lets the test emit an event, and then polls.
    struct Stale {
        fixture: Arc<Fixture>,
        emit: Option<Emit>,
        sender: Sender<(PollRound, u64)>,
        round: PollRound,
        /// Time at which the budget of the last poll ends, in microseconds.
        budget_ends: u64,
    }

    type Emit = Box<dyn FnOnce(&Fixture) + Send>;

    impl Stale {
        /// Returns the round after its poll.
        fn run(fixture: &Arc<Fixture>, emit: impl FnOnce(&Fixture) + Send + 'static) -> PollRound {
            Self::run_within(fixture, emit).0
        }

        /// Runs a round as `run` does. Also returns the time at which the budget of its last poll ends.
        fn run_within(
            fixture: &Arc<Fixture>,
            emit: impl FnOnce(&Fixture) + Send + 'static,
        ) -> (PollRound, u64) {
            let (sender, receiver) = channel();
            let round = PollRound {
                dispatch: Arc::clone(fixture.dispatch()),
                target: PollTarget::Woken(fixture.workspace()),
                attempts: None,
            };
            let emit: Emit = Box::new(emit);
            let stale =
                Self { fixture: Arc::clone(fixture), emit: Some(emit), sender, round, budget_ends: 0 };
            fixture.dispatch().executor.read(Box::new(stale), false);
            receiver.recv().unwrap()
        }
    }

    impl Task for Stale {
        fn source(&self) -> TaskSource {
            self.round.source()
        }

        fn bytes(&self) -> usize {
            ROUND_BYTES
        }

        fn is_abandoned(&self) -> bool {
            false
        }

        fn finish(self: Box<Self>, outcome: Result<()>) {
            outcome.unwrap();
            let Self { fixture, sender, round, budget_ends, .. } = *self;
            // The last handle of a service must not be dropped on a thread of that service.
            drop(fixture);
            sender.send((round, budget_ends)).unwrap();
        }
    }

    impl ReadTask<ReaderCache> for Stale {
        fn prepare(&mut self) {
            self.round.prepare();
        }

        fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
            let dispatch = self.fixture.dispatch();
            let workspace = self.fixture.workspace();
            let call = Call::instance(dispatch, ServiceWork::on(workspace), Surface::System);
            ReadTransaction::<()>::new(reader).find_caller(&call)?;
            self.emit.take().unwrap()(&self.fixture);
            self.round.poll(reader)?;
            self.budget_ends = reader.conn.budget().unwrap().deadline_micros();
            Ok(())
        }
    }

    /// Pauses or resumes all rounds except those that a test starts.
    fn set_paused(fixture: &Fixture, paused: bool) {
        lock(&fixture.dispatch().rounds.schedule).is_closed = paused;
        submit_rounds(fixture.dispatch());
    }

    fn woken(fixture: &Fixture) -> usize {
        let schedule = lock(&fixture.dispatch().rounds.schedule);
        schedule.workspaces.values().map(|here| here.woken.len).sum()
    }

    #[test]
    fn a_wait_polled_in_a_snapshot_older_than_its_event_is_polled_again() {
        let fixture = Arc::new(Fixture::new());
        let (job, polled) = script([RunOutcome::Pending, RunOutcome::Pending, RunOutcome::Ready]);
        let (parked, outcome) = fixture.parked(job);
        set_paused(&fixture, true);
        fixture.emit_event();
        let round = Stale::run(&fixture, Fixture::emit_event);
        assert_eq!(polled.try_iter().count(), 2, "the snapshot lacks the event that woke it");
        round.settle(Ok(()));
        assert_eq!(woken(&fixture), 1);
        set_paused(&fixture, false);
        assert_eq!(outcome.recv().unwrap(), Ok(()));
        drop(parked);
    }

    #[test]
    fn each_poll_of_a_round_has_a_budget_of_its_own() {
        let fixture = Arc::new(Fixture::new());
        let (sender, polled) = channel();
        let poll = || -> WaitJob {
            let sender = sender.clone();
            let clock = Clock::system();
            Box::new(move |_| {
                let began = clock.monotonic();
                let _ = sender.send(began);
                // The next poll of the round begins later.
                while clock.monotonic() == began {}
                Ok(Poll::Pending)
            })
        };
        let waits = [fixture.parked(poll()), fixture.parked(poll())];
        set_paused(&fixture, true);
        fixture.emit_event();
        assert_eq!(polled.try_iter().count(), waits.len());
        let (round, ends) = Stale::run_within(&fixture, |_| {});
        let began: Vec<_> = polled.try_iter().collect();
        assert_eq!(began.len(), waits.len(), "the round has polled both");
        let budget = Duration::from_millis(READ_BUDGET_MS.unsigned_abs());
        assert!(ends > began[0].plus(budget).micros(), "the second one has as much time as the first");
        round.settle(Ok(()));
        set_paused(&fixture, false);
        drop(waits);
    }

    #[test]
    fn what_comes_after_the_deadline_is_not_waited_for() {
        let fixture = Arc::new(Fixture::new());
        let (job, polled) = script([RunOutcome::Pending, RunOutcome::Pending, RunOutcome::Unavailable]);
        let (parked, outcome) = fixture.parked(job);
        set_paused(&fixture, true);
        fixture.clock.advance(Duration::from_secs(30));
        fixture.until(|| woken(&fixture) == 1);
        let round = Stale::run(&fixture, Fixture::emit_event);
        round.settle(Ok(()));
        assert_eq!(outcome.recv().unwrap(), Ok(()), "events that never end would let no wait end");
        drop(parked);
        assert_eq!(polled.iter().count(), 2);
    }

    #[test]
    fn a_wait_that_arrives_after_a_snapshot_was_taken_is_not_polled_in_it() {
        let fixture = Arc::new(Fixture::new());
        let (job, polled) = script([RunOutcome::Ready]);
        let (sender, receiver) = channel();
        set_paused(&fixture, true);
        let round = Stale::run(&fixture, move |fixture| sender.send(fixture.wait(job)).unwrap());
        let (parked, outcome) = receiver.recv().unwrap();
        assert!(polled.try_recv().is_err(), "it may know a change that the snapshot lacks");
        round.settle(Ok(()));
        set_paused(&fixture, false);
        assert_eq!(outcome.recv().unwrap(), Ok(()));
        drop(parked);
    }
}
