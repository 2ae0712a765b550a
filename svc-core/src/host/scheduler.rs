//! The scheduler: one thread that lets each chore have its round when it is due, a few steps at a time. A chore that
//! fails is noted and has its next round as usual, and keeps no other from its own. One that another process leads is
//! asked again when that process's lease must have ended.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::op::{Chore, Dispatch, Leases, Round, Step};
use crate::sync::Monitor;
use crate::time::Monotonic;

/// Steps that a chore does before others have their turn.
const STEPS_MAX: usize = 32;
/// How soon after the start every chore has its first round: what came due while no process ran does not wait.
const FIRST: Duration = Duration::from_millis(500);
/// How soon after the end of another process's lease it is asked for.
const AFTER_LEASE: Duration = Duration::from_millis(10);

/// The chores of one process.
pub(crate) struct Scheduler {
    dispatch: Arc<Dispatch>,
    leases: Leases,
    closing: Arc<Monitor<bool>>,
}

/// What a chore's turn has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Done, or failed.
    Over,
    /// There is more to do.
    More,
    /// Another process leads, for so long at the most.
    Busy(Duration),
}

impl Outcome {
    /// How long after it the chore is due again, which comes round every `every`.
    fn pause(self, every: Duration) -> Duration {
        match self {
            Self::Over => every,
            Self::More => Duration::ZERO,
            Self::Busy(span) => span.saturating_add(AFTER_LEASE).min(every),
        }
    }
}

/// A chore that the operator has not switched off.
struct Due<'a> {
    chore: &'a Chore,
    every: Duration,
    at: Monotonic,
}

impl Scheduler {
    pub fn new(dispatch: Arc<Dispatch>) -> Result<Arc<Self>> {
        let holder = dispatch.shared.entropy.id::<WorkspaceId>(dispatch.clock.now())?.uuid();
        let closing = Monitor::new(&dispatch.clock, false);
        Ok(Arc::new(Self { dispatch, leases: Leases::new(holder), closing }))
    }

    /// Starts the thread.
    pub fn start(scheduler: &Arc<Self>) -> Result<JoinHandle<()>> {
        let scheduler = Arc::clone(scheduler);
        let body = move || scheduler.serve();
        std::thread::Builder::new().name("svc-chores".to_owned()).spawn(body).map_err(Error::internal)
    }

    /// Has the thread end after the step that it is in, and give back the leases of this process.
    pub fn close(&self) {
        *self.closing.lock() = true;
        self.closing.notify();
    }

    /// Gives back the leases of this process: the last thing its thread does. Whoever closes the service may be driving
    /// a runtime of its own, in which the database must not be waited for.
    fn release(&self) {
        if let Err(error) = self.leases.release(&self.dispatch) {
            tracing::warn!(%error, cause = ?error.cause(), "leases were not given back; they end by themselves");
        }
    }

    fn serve(&self) {
        let (settings, clock) = (&self.dispatch.shared.settings, &self.dispatch.clock);
        let mut chores: Vec<Due<'_>> = Vec::new();
        for chore in self.dispatch.table.chores() {
            chores.extend((chore.every)(settings).map(|every| {
                let at = clock.deadline(every.min(FIRST));
                Due { chore, every, at }
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

    /// Waits for the moment, or for ever; true when closing.
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

    /// Lets a chore do some steps.
    fn run_chore(&self, chore: &Chore) -> Outcome {
        let round = Round::new(&self.dispatch, chore, &self.leases);
        for _ in 0..STEPS_MAX {
            match round.step() {
                Ok(Step::More) if !self.is_closing() => {}
                Ok(Step::More) => break,
                Ok(Step::Done) => return round.busy().map_or(Outcome::Over, Outcome::Busy),
                Err(_) if round.busy().is_some() => return round.busy().map_or(Outcome::Over, Outcome::Busy),
                Err(error) => {
                    let (name, cause) = (chore.name, error.cause());
                    tracing::warn!(chore = name, %error, ?cause, "a chore failed and will be repeated");
                    return Outcome::Over;
                }
            }
        }
        Outcome::More
    }

    /// Lets every chore do all there is to do, whether it is due or not. Answers the first failure, after every other
    /// chore has had its turn.
    pub fn round(&self) -> Result<()> {
        let mut outcome = Ok(());
        for chore in self.dispatch.table.chores() {
            let round = Round::new(&self.dispatch, chore, &self.leases);
            let done = loop {
                match round.step() {
                    Ok(Step::More) => {}
                    Ok(Step::Done) => break Ok(()),
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
    fn a_chore_comes_round_and_sooner_when_there_is_more_or_a_lease_ends() {
        let every = Duration::from_secs(5);
        assert_eq!(Outcome::Over.pause(every), every);
        assert_eq!(Outcome::More.pause(every), Duration::ZERO);
        let second = Duration::from_secs(1);
        assert_eq!(Outcome::Busy(second).pause(every), second + AFTER_LEASE);
        assert_eq!(Outcome::Busy(Duration::from_secs(60)).pause(every), every);
    }
}
