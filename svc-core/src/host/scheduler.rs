//! The scheduler: one background thread that runs each chore at its interval, a few steps at a time.
//!
//! A failure of a chore is logged; its next round runs as usual, and other chores are not delayed. If another
//! process leads a chore, this process tries again when that process's lease must have ended.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::monitor::Monitor;
use crate::op::{Chore, ChoreRound, Dispatch, HeldLeases, StepOutcome};
use crate::time::Monotonic;

/// Maximum number of steps that a chore runs before other chores have their turn.
const STEPS_PER_TURN_MAX: usize = 32;
/// Maximum time between the start of the scheduler and the first round of a chore.
///
/// Work that became due while no process ran does not have to wait a full interval.
const FIRST_ROUND_MAX: Duration = Duration::from_millis(500);
/// Time between the end of another process's lease and this process's attempt to acquire the lease.
const LEASE_RETRY_DELAY: Duration = Duration::from_millis(10);

/// The chores of this process and the thread that runs them.
pub(crate) struct Scheduler {
    dispatch: Arc<Dispatch>,
    leases: HeldLeases,
    /// Whether the scheduler is closing.
    closing: Arc<Monitor<bool>>,
}

/// The result of one turn of a chore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChoreOutcome {
    /// The chore is done for now, or has failed.
    Done,
    /// The chore has more work.
    More,
    /// Another process leads the chore, for at most this duration.
    Busy(Duration),
}

impl ChoreOutcome {
    /// Returns the time until the next turn of a chore whose rounds have the interval `interval`.
    fn time_to_next_turn(self, interval: Duration) -> Duration {
        match self {
            Self::Done => interval,
            Self::More => Duration::ZERO,
            Self::Busy(span) => span.saturating_add(LEASE_RETRY_DELAY).min(interval),
        }
    }
}

/// A chore that the operator has not disabled.
struct ScheduledChore<'a> {
    chore: &'a Chore,
    interval: Duration,
    /// The time of the next turn.
    next_turn: Monotonic,
}

impl Scheduler {
    pub fn new(dispatch: Arc<Dispatch>) -> Result<Arc<Self>> {
        let holder = dispatch.shared.entropy.id::<WorkspaceId>(dispatch.clock.now())?.uuid();
        let closing = Monitor::new(&dispatch.clock, false);
        Ok(Arc::new(Self { dispatch, leases: HeldLeases::new(holder), closing }))
    }

    /// Starts the scheduler's background thread.
    pub fn start(scheduler: &Arc<Self>) -> Result<JoinHandle<()>> {
        let scheduler = Arc::clone(scheduler);
        let body = move || scheduler.serve();
        std::thread::Builder::new().name("svc-chores".to_owned()).spawn(body).map_err(Error::internal)
    }

    /// Stops the background thread after its current step. It then releases the leases of this process.
    pub fn close(&self) {
        *self.closing.lock() = true;
        self.closing.notify();
    }

    /// Releases the leases of this process, as the last step of the background thread.
    ///
    /// The caller that closes the service may be driving a runtime, in which waiting for the database is not
    /// allowed.
    fn release_leases(&self) {
        if let Err(error) = self.leases.release(&self.dispatch) {
            tracing::warn!(%error, cause = ?error.cause(), "leases were not released; they will expire");
        }
    }

    /// Runs chores when they are due, until the scheduler is closing.
    fn serve(&self) {
        let settings = &self.dispatch.shared.settings;
        let clock = &self.dispatch.clock;
        let mut chores: Vec<ScheduledChore<'_>> = Vec::new();
        for chore in self.dispatch.table.chores() {
            chores.extend((chore.every)(settings).map(|interval| {
                let next_turn = clock.deadline(interval.min(FIRST_ROUND_MAX));
                ScheduledChore { chore, interval, next_turn }
            }));
        }
        while !self.wait_until_closing(chores.iter().map(|chore| chore.next_turn).min()) {
            for due in chores.iter_mut().filter(|due| clock.remaining(due.next_turn).is_zero()) {
                let outcome = self.run_chore(due.chore);
                due.next_turn = clock.deadline(outcome.time_to_next_turn(due.interval));
            }
        }
        self.release_leases();
    }

    /// Waits until the scheduler is closing, or until `deadline` if that is set.
    ///
    /// Returns whether the scheduler is closing.
    fn wait_until_closing(&self, deadline: Option<Monotonic>) -> bool {
        let clock = self.closing.clock();
        let mut closing = self.closing.lock();
        while !*closing && deadline.is_none_or(|deadline| !clock.remaining(deadline).is_zero()) {
            closing = self.closing.wait(closing, deadline);
        }
        *closing
    }

    fn is_closing(&self) -> bool {
        *self.closing.lock()
    }

    /// Runs a chore once, for a limited number of steps.
    fn run_chore(&self, chore: &Chore) -> ChoreOutcome {
        let round = ChoreRound::new(&self.dispatch, chore, &self.leases);
        for _ in 0..STEPS_PER_TURN_MAX {
            match round.step() {
                Ok(StepOutcome::More) if !self.is_closing() => {}
                Ok(StepOutcome::More) => break,
                Ok(StepOutcome::Done) => return round.busy().map_or(ChoreOutcome::Done, ChoreOutcome::Busy),
                Err(_) if round.busy().is_some() => {
                    return round.busy().map_or(ChoreOutcome::Done, ChoreOutcome::Busy);
                }
                Err(error) => {
                    let name = chore.name;
                    let cause = error.cause();
                    tracing::warn!(chore = name, %error, ?cause, "a chore failed and will be retried");
                    return ChoreOutcome::Done;
                }
            }
        }
        ChoreOutcome::More
    }

    /// Runs every chore to completion, even if it is not due.
    ///
    /// Returns the first failure, after every other chore has had its turn.
    pub fn run_all_chores(&self) -> Result<()> {
        let mut outcome = Ok(());
        for chore in self.dispatch.table.chores() {
            let round = ChoreRound::new(&self.dispatch, chore, &self.leases);
            let done = loop {
                match round.step() {
                    Ok(StepOutcome::More) => {}
                    Ok(StepOutcome::Done) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            outcome = outcome.and(done);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chore_is_due_sooner_when_there_is_more_or_a_lease_ends() {
        let every = Duration::from_secs(5);
        assert_eq!(ChoreOutcome::Done.time_to_next_turn(every), every);
        assert_eq!(ChoreOutcome::More.time_to_next_turn(every), Duration::ZERO);
        let second = Duration::from_secs(1);
        assert_eq!(ChoreOutcome::Busy(second).time_to_next_turn(every), second + LEASE_RETRY_DELAY);
        assert_eq!(ChoreOutcome::Busy(Duration::from_secs(60)).time_to_next_turn(every), every);
    }
}
