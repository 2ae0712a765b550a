//! The scheduler: one thread that runs each chore at its interval, a few steps at a time.
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
const STEPS_MAX: usize = 32;
/// Maximum time between the start of the scheduler and the first round of a chore.
///
/// Work that became due while no process ran does not have to wait a full interval.
const FIRST_ROUND_MAX: Duration = Duration::from_millis(500);
/// Time between the end of another process's lease and this process's attempt to acquire the lease.
const AFTER_LEASE: Duration = Duration::from_millis(10);

/// The chores of this process and the thread that runs them.
pub(crate) struct Scheduler {
    dispatch: Arc<Dispatch>,
    leases: HeldLeases,
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
    /// Returns the time until the next turn of a chore whose rounds have the interval `every`.
    fn pause(self, every: Duration) -> Duration {
        match self {
            Self::Done => every,
            Self::More => Duration::ZERO,
            Self::Busy(span) => span.saturating_add(AFTER_LEASE).min(every),
        }
    }
}

/// A chore that the operator has not disabled.
struct ScheduledChore<'a> {
    chore: &'a Chore,
    every: Duration,
    at: Monotonic,
}

impl Scheduler {
    pub fn new(dispatch: Arc<Dispatch>) -> Result<Arc<Self>> {
        let holder = dispatch.shared.entropy.id::<WorkspaceId>(dispatch.clock.now())?.uuid();
        let closing = Monitor::new(&dispatch.clock, false);
        Ok(Arc::new(Self { dispatch, leases: HeldLeases::new(holder), closing }))
    }

    /// Starts the scheduler's thread.
    pub fn start(scheduler: &Arc<Self>) -> Result<JoinHandle<()>> {
        let scheduler = Arc::clone(scheduler);
        let body = move || scheduler.serve();
        std::thread::Builder::new().name("svc-chores".to_owned()).spawn(body).map_err(Error::internal)
    }

    /// Stops the thread after its current step. The thread then releases the leases of this process.
    pub fn close(&self) {
        *self.closing.lock() = true;
        self.closing.notify();
    }

    /// Releases the leases of this process, as the last step of the thread.
    ///
    /// The caller that closes the service may be driving a runtime, in which waiting for the database is not
    /// allowed.
    fn release(&self) {
        if let Err(error) = self.leases.release(&self.dispatch) {
            tracing::warn!(%error, cause = ?error.cause(), "leases were not released; they will expire");
        }
    }

    fn serve(&self) {
        let settings = &self.dispatch.shared.settings;
        let clock = &self.dispatch.clock;
        let mut chores: Vec<ScheduledChore<'_>> = Vec::new();
        for chore in self.dispatch.table.chores() {
            chores.extend((chore.every)(settings).map(|every| {
                let at = clock.deadline(every.min(FIRST_ROUND_MAX));
                ScheduledChore { chore, every, at }
            }));
        }
        while !self.wait(chores.iter().map(|due| due.at).min()) {
            for due in chores.iter_mut().filter(|due| clock.remaining(due.at).is_zero()) {
                let turn = self.run_chore(due.chore);
                due.at = clock.deadline(turn.pause(due.every));
            }
        }
        self.release();
    }

    /// Waits until `until`, or indefinitely if it is `None`. Returns `true` if the scheduler is closing.
    fn wait(&self, until: Option<Monotonic>) -> bool {
        let clock = self.closing.clock();
        let mut closing = self.closing.lock();
        while !*closing && until.is_none_or(|until| !clock.remaining(until).is_zero()) {
            closing = self.closing.wait(closing, until);
        }
        *closing
    }

    fn is_closing(&self) -> bool {
        *self.closing.lock()
    }

    /// Runs a chore once, for a limited number of steps.
    fn run_chore(&self, chore: &Chore) -> ChoreOutcome {
        let round = ChoreRound::new(&self.dispatch, chore, &self.leases);
        for _ in 0..STEPS_MAX {
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
    pub fn round(&self) -> Result<()> {
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
        assert_eq!(ChoreOutcome::Done.pause(every), every);
        assert_eq!(ChoreOutcome::More.pause(every), Duration::ZERO);
        let second = Duration::from_secs(1);
        assert_eq!(ChoreOutcome::Busy(second).pause(every), second + AFTER_LEASE);
        assert_eq!(ChoreOutcome::Busy(Duration::from_secs(60)).pause(every), every);
    }
}
