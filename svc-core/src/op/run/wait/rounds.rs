//! Rounds: waits that are due are asked together, many in one read transaction. A round takes one place in the
//! readers' queue, however many it asks; when that is full the waits stay where they are, and the round is tried
//! again.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::error::{Code, Result};
use crate::id::WorkspaceId;
use crate::log::bus::NewEvent;
use crate::log::cache::ReaderCache;
use crate::op::call::caller::Surface;
use crate::op::declare::operation::{ReadingJob, Supply};
use crate::op::run::wait::line::{Line, Next, Placed};
use crate::op::run::wait::quota::{Holder, WaitPermit, WaitQuota};
use crate::op::run::wait::{Outcome, Parked};
use crate::op::run::{self, Call, Dispatch, Prepared, Reading};
use crate::store::executor::{ReadTask, Reader, Task};
use crate::sync::lock;

/// Waits that are asked in one transaction.
const ROUND_MAX: usize = 32;
/// About how many bytes a round holds beside the waits, which are there in any case.
const ROUND_BYTES: usize = 1024;
/// Rounds under way where a read needs no network; others go on being answered.
const ROUNDS_LOCAL: usize = 1;
/// Rounds under way where each statement waits for the network.
const ROUNDS_REMOTE: usize = 4;
/// How long after a full queue, or a silent database, rounds are tried again.
const RETRY: Duration = Duration::from_millis(100);
/// How long what was offered to one wait is left to it.
const REST: Duration = Duration::from_secs(1);

/// Which line: the operation's, in the workspace.
type LineKey = (WorkspaceId, &'static str);

/// What waits have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitCounts {
    /// Waits that are parked now: nothing has happened yet.
    pub parked: usize,
    /// How often a wait was asked.
    pub asked: u64,
    /// Read transactions in which that was done.
    pub rounds: u64,
}

/// All waits of a service that are to be asked.
#[derive(Default)]
pub(crate) struct Rounds {
    schedule: Mutex<Schedule>,
    admitted: AtomicU64,
    quota: WaitQuota,
    parked: AtomicUsize,
    asked: AtomicU64,
    rounds: AtomicU64,
}

#[derive(Default)]
struct Schedule {
    woken: VecDeque<Arc<Parked>>,
    lines: HashMap<LineKey, Line>,
    running: usize,
    /// The readers' queue was full, or the database silent.
    resting: bool,
    /// The last round was of a line; others have their attempt.
    line_was_last: bool,
}

impl Rounds {
    /// Gives a new wait of these holders its number and its place, if one is left to them.
    pub(in crate::op) fn admit(&self, holders: Vec<Holder>) -> Result<(u64, WaitPermit)> {
        let permit = self.quota.take(holders)?;
        Ok((self.admitted.fetch_add(1, Ordering::SeqCst), permit))
    }

    /// A wait was parked.
    pub fn parked(&self) {
        self.parked.fetch_add(1, Ordering::SeqCst);
    }

    /// A wait has ended.
    pub fn ended(&self, was_parked: bool) {
        if was_parked {
            self.parked.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// What waits have come to.
    pub fn counts(&self) -> WaitCounts {
        WaitCounts {
            parked: self.parked.load(Ordering::SeqCst),
            asked: self.asked.load(Ordering::SeqCst),
            rounds: self.rounds.load(Ordering::SeqCst),
        }
    }

    /// A wait is to be asked.
    pub(in crate::op) fn woken(&self, parked: Arc<Parked>) {
        lock(&self.schedule).woken.push_back(parked);
    }

    /// Events matter to a wait that is in line.
    pub(in crate::op) fn offer(
        &self,
        key: LineKey,
        supply: Supply,
        place: u64,
        parked: &Arc<Parked>,
        events: &[NewEvent],
    ) {
        let mut schedule = lock(&self.schedule);
        schedule.lines.entry(key).or_insert_with(|| Line::new(supply)).offer(place, parked, events);
    }

    /// Gives every wait up: the service closes.
    pub fn close(&self) {
        let mut schedule = lock(&self.schedule);
        schedule.resting = true;
        let woken = std::mem::take(&mut schedule.woken);
        let lines = std::mem::take(&mut schedule.lines);
        drop(schedule);
        woken.iter().for_each(|parked| parked.give_up());
        drop(lines);
    }

    /// The wait at this place of its line has ended.
    pub fn leave(&self, key: LineKey, place: u64) {
        let left = lock(&self.schedule).lines.get_mut(&key).and_then(|line| line.leave(place));
        drop(left);
    }
}

/// What a round asks.
enum Of {
    Woken,
    Line(LineKey),
}

/// Hands rounds to the readers, as many as there is work for.
pub(in crate::op) fn pump(dispatch: &Arc<Dispatch>) {
    let most = if dispatch.executor.reads_locally() { ROUNDS_LOCAL } else { ROUNDS_REMOTE };
    while let Some(of) = next(dispatch, most) {
        let task = Round { dispatch: Arc::clone(dispatch), of, attempts: None };
        dispatch.executor.read(Box::new(task), false);
    }
}

/// What to ask next, if there is something and a reader for it.
fn next(dispatch: &Arc<Dispatch>, most: usize) -> Option<Of> {
    let mut schedule = lock(&dispatch.rounds.schedule);
    if schedule.resting || schedule.running >= most {
        return None;
    }
    let (mut ready, mut over) = (None, Vec::new());
    for (key, line) in &mut schedule.lines {
        match line.next() {
            Next::Run => ready = Some(*key),
            Next::Over => over.push(*key),
            Next::Rest => rest(dispatch, *key),
            Next::Wait => {}
        }
    }
    // They are let go outside of the lock.
    let over: Vec<Line> = over.iter().filter_map(|key| schedule.lines.remove(key)).collect();
    // A round that is under way may not have taken its share yet.
    let is_woken = schedule.woken.len() > schedule.running.saturating_mul(ROUND_MAX);
    let of = match ready {
        Some(key) if !(is_woken && schedule.line_was_last) => Some(Of::Line(key)),
        _ if is_woken => Some(Of::Woken),
        _ => None,
    };
    schedule.line_was_last = matches!(of, Some(Of::Line(_)));
    if let Some(Of::Line(key)) = of
        && let Some(line) = schedule.lines.get_mut(&key)
    {
        line.begin();
    }
    schedule.running += usize::from(of.is_some());
    drop(schedule);
    drop(over);
    of
}

/// Has a line asked again after a while.
fn rest(dispatch: &Arc<Dispatch>, key: LineKey) {
    let rested = Arc::downgrade(dispatch);
    dispatch.timers.after(REST, move || {
        let Some(dispatch) = rested.upgrade() else { return };
        if let Some(line) = lock(&dispatch.rounds.schedule).lines.get_mut(&key) {
            line.rested();
        }
        pump(&dispatch);
    });
}

/// Waits that are asked in one transaction.
struct Round {
    dispatch: Arc<Dispatch>,
    of: Of,
    /// Chosen right before its transaction begins, so that whoever became due meanwhile is among them; but nobody who
    /// comes later, for whom that transaction is too old.
    attempts: Option<Vec<Placed>>,
}

impl Round {
    /// Asks. An error means that the database had no answer.
    fn ask(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        self.dispatch.rounds.rounds.fetch_add(1, Ordering::Relaxed);
        let most = match self.of {
            Of::Woken => usize::MAX,
            Of::Line(key) => self.measure(reader, key)?,
        };
        let attempts = self.attempts.get_or_insert_default();
        let mut answered = 0;
        attempts.iter_mut().for_each(|(_, attempt)| attempt.outcome = Outcome::Unasked);
        for (_, attempt) in attempts {
            if answered == most || reader.conn.failure().is_some() {
                break;
            }
            answered += usize::from(attempt.ask(reader));
            self.dispatch.rounds.asked.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How many of a line may be answered now: as many as there are things for them.
    fn measure(&self, reader: &Reader<ReaderCache>, key: LineKey) -> Result<usize> {
        let schedule = || lock(&self.dispatch.rounds.schedule);
        let fresh = schedule().lines.get(&key).map(Line::to_measure);
        let Some((supply, fresh)) = fresh else { return Ok(0) };
        let mut service = Call::instance(&self.dispatch, key.0, Surface::System);
        let count: ReadingJob<Vec<(i64, usize)>> =
            Box::new(move |cx| fresh.iter().map(|(lsn, subject)| Ok((*lsn, supply(cx, subject)?))).collect());
        let mut found = run::run(&Reading::on(reader), &mut service, &mut Prepared::Ready(count))?;
        // Of what has come since the transaction began it has to be asked in another.
        let reached = reader.cache.borrow().cached_lsn(key.0).unwrap_or(0);
        found.retain(|(lsn, _)| *lsn <= reached);
        Ok(schedule().lines.get_mut(&key).map_or(0, |line| line.measured(&found)))
    }

    /// Answers and parks, after the transaction.
    fn settle(self, outcome: Result<()>) {
        let Self { dispatch, of, attempts } = self;
        if outcome.is_err() || attempts.iter().flatten().any(|(_, attempt)| attempt.was_unlucky()) {
            pause(&dispatch);
        }
        let (mut answered, mut unasked) = (0, Vec::new());
        for (place, mut attempt) in attempts.into_iter().flatten() {
            attempt.outlive(outcome.as_ref().err());
            if attempt.is_unasked() {
                unasked.push((place, Arc::clone(&attempt.parked)));
            }
            answered += usize::from(attempt.settle());
        }
        let mut schedule = lock(&dispatch.rounds.schedule);
        schedule.running = schedule.running.saturating_sub(1);
        if let Of::Line(key) = of
            && let Some(line) = schedule.lines.get_mut(&key)
        {
            line.end(answered, unasked);
        }
        drop(schedule);
        pump(&dispatch);
    }
}

/// Whom to ask now.
fn choose(dispatch: &Arc<Dispatch>, of: &Of) -> Vec<Placed> {
    let mut schedule = lock(&dispatch.rounds.schedule);
    let chosen: Vec<(u64, Arc<Parked>)> = match of {
        Of::Woken => (0..ROUND_MAX).map_while(|_| Some((0, schedule.woken.pop_front()?))).collect(),
        Of::Line(key) => schedule.lines.get_mut(key).map_or_else(Vec::new, |line| line.take(ROUND_MAX)),
    };
    drop(schedule);
    let from_line = matches!(of, Of::Line(_));
    chosen.into_iter().filter_map(|(place, parked)| Some((place, parked.attempt(from_line)?))).collect()
}

/// Asks nobody for a while.
fn pause(dispatch: &Arc<Dispatch>) {
    if std::mem::replace(&mut lock(&dispatch.rounds.schedule).resting, true) {
        return;
    }
    let rested = Arc::downgrade(dispatch);
    dispatch.timers.after(RETRY, move || {
        let Some(dispatch) = rested.upgrade() else { return };
        lock(&dispatch.rounds.schedule).resting = false;
        pump(&dispatch);
    });
}

impl Task for Round {
    fn bytes(&self) -> usize {
        ROUND_BYTES
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let mut round = *self;
        // A full queue concerns nobody; who has only just come is told of a silent database.
        if outcome.as_ref().is_err_and(|error| error.code() != Code::Overloaded) {
            round.attempts.get_or_insert_with(|| choose(&round.dispatch, &round.of));
        }
        round.settle(outcome);
    }
}

impl ReadTask<ReaderCache> for Round {
    fn prepare(&mut self) {
        self.attempts.get_or_insert_with(|| choose(&self.dispatch, &self.of));
    }

    fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        self.ask(reader)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::limits::{WAITS_MAX, WAITS_OF_CLIENT_MAX};
    use crate::op::run::wait::tests::{Run, Stage, script};

    #[test]
    fn there_is_an_end_to_the_waits_that_are_taken_up() {
        let stage = Stage::new();
        let of_all = || stage.dispatch().rounds.admit(vec![Holder::All]);
        let mut held: Vec<_> = (0..WAITS_MAX).map(|_| of_all().unwrap()).collect();
        let (job, asked) = script([Run::Ready]);
        let (parked, outcome) = stage.wait(job);
        assert!(parked.is_none());
        assert_eq!(outcome.recv().unwrap(), Err(Code::Overloaded));
        assert!(asked.recv().is_err(), "it was not asked");
        held.pop();
        let (_parked, outcome) = stage.wait(script([Run::Ready]).0);
        assert_eq!(outcome.recv().unwrap(), Ok(()));
    }

    #[test]
    fn a_wait_counts_for_its_token_until_it_ends_or_is_given_up() {
        let stage = Stage::new();
        let never = || script([]).0;
        let held: Vec<_> = (0..WAITS_OF_CLIENT_MAX).map(|_| stage.wait(never())).collect();
        let (parked, outcome) = stage.wait(never());
        assert!(parked.is_none(), "one token parks no more than its part");
        assert_eq!(outcome.recv().unwrap(), Err(Code::Overloaded));
        held.iter().take(1).flat_map(|(parked, _)| parked).for_each(|parked| parked.give_up());
        let (parked, outcome) = stage.wait(script([Run::Ready]).0);
        assert_eq!(outcome.recv().unwrap(), Ok(()), "one was given up");
        drop(parked);
        let last = stage.wait(never());
        assert!(last.0.is_some(), "and one has ended");
        assert!(stage.wait(never()).0.is_none());
        drop(last);
    }

    #[test]
    fn many_waits_share_a_transaction_and_none_takes_more_than_its_part() {
        let stage = Stage::new();
        let count = 3 * ROUND_MAX;
        let waits: Vec<_> = (0..count).map(|_| stage.parked(script([Run::Pending, Run::Ready]).0)).collect();
        let before = stage.dispatch().rounds.counts();
        lock(&stage.dispatch().rounds.schedule).resting = true;
        stage.happen();
        lock(&stage.dispatch().rounds.schedule).resting = false;
        pump(stage.dispatch());
        waits.into_iter().for_each(|(_, outcome)| assert_eq!(outcome.recv().unwrap(), Ok(())));
        let after = stage.dispatch().rounds.counts();
        assert_eq!((after.asked - before.asked, after.rounds - before.rounds), (count as u64, 3));
    }

    /// Reads, and so sees one moment from then on; lets something happen; and then asks.
    struct Stale {
        stage: Arc<Stage>,
        happens: Option<Happens>,
        sender: Sender<Round>,
        round: Round,
    }

    type Happens = Box<dyn FnOnce(&Stage) + Send>;

    impl Stale {
        /// The round that has asked.
        fn run(stage: &Arc<Stage>, happens: impl FnOnce(&Stage) + Send + 'static) -> Round {
            let (sender, receiver) = channel();
            let round = Round { dispatch: Arc::clone(stage.dispatch()), of: Of::Woken, attempts: None };
            let happens: Happens = Box::new(happens);
            let stale = Self { stage: Arc::clone(stage), happens: Some(happens), sender, round };
            stage.dispatch().executor.read(Box::new(stale), false);
            receiver.recv().unwrap()
        }
    }

    impl Task for Stale {
        fn bytes(&self) -> usize {
            ROUND_BYTES
        }

        fn is_abandoned(&self) -> bool {
            false
        }

        fn finish(self: Box<Self>, outcome: Result<()>) {
            outcome.unwrap();
            let Self { stage, sender, round, .. } = *self;
            // The last handle of a service must not go on one of its threads.
            drop(stage);
            sender.send(round).unwrap();
        }
    }

    impl ReadTask<ReaderCache> for Stale {
        fn prepare(&mut self) {
            self.round.prepare();
        }

        fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
            let (dispatch, workspace) = (self.stage.dispatch(), self.stage.workspace());
            Call::instance(dispatch, workspace, Surface::System).enter(&Reading::<()>::on(reader))?;
            self.happens.take().unwrap()(&self.stage);
            self.round.ask(reader)
        }
    }

    /// Lets rounds run, or no other than those of a test.
    fn set_resting(stage: &Stage, resting: bool) {
        lock(&stage.dispatch().rounds.schedule).resting = resting;
        pump(stage.dispatch());
    }

    fn woken(stage: &Stage) -> usize {
        lock(&stage.dispatch().rounds.schedule).woken.len()
    }

    #[test]
    fn who_was_asked_in_a_snapshot_from_before_its_event_is_asked_again() {
        let stage = Arc::new(Stage::new());
        let (job, asked) = script([Run::Pending, Run::Pending, Run::Ready]);
        let (parked, outcome) = stage.parked(job);
        set_resting(&stage, true);
        stage.happen();
        let round = Stale::run(&stage, Stage::happen);
        assert_eq!(asked.try_iter().count(), 2, "the snapshot does not have what it was woken by");
        round.settle(Ok(()));
        assert_eq!(woken(&stage), 1);
        set_resting(&stage, false);
        assert_eq!(outcome.recv().unwrap(), Ok(()));
        drop(parked);
    }

    #[test]
    fn who_comes_when_a_snapshot_is_taken_is_not_asked_in_it() {
        let stage = Arc::new(Stage::new());
        let (job, asked) = script([Run::Ready]);
        let (sender, receiver) = channel();
        set_resting(&stage, true);
        let round = Stale::run(&stage, move |stage| sender.send(stage.wait(job)).unwrap());
        let (parked, outcome) = receiver.recv().unwrap();
        assert!(asked.try_recv().is_err(), "it may know of a change that the snapshot does not have");
        round.settle(Ok(()));
        set_resting(&stage, false);
        assert_eq!(outcome.recv().unwrap(), Ok(()));
        drop(parked);
    }
}
