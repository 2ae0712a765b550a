//! The way of a request. [`admit`] lets it in from its head alone, before anything more of it is read; [`run`] runs it
//! inside the transaction of its function. Reads, waits, changes and the service's own work all go this way, and
//! whatever a request has to pass stands in one of these two functions.

use super::call::{Call, Entered};
use super::credentials::{Found, Gate};
use crate::error::{Error, Result};

/// Lets a request in from its head, or refuses it. A cached credential may let it in, which decides nothing: [`run`]
/// asks the same again of the database. What the cache refuses is asked of the database at once.
pub(super) fn admit(gate: &mut Gate<'_>, found: &Found) -> Result<()> {
    gate.charge(found)?;
    let caller = found.caller(gate.needs)?;
    caller.check_live(gate.now)?;
    caller.check_capability(gate.needs)
}

/// Runs a request inside the transaction of its function; the commit follows.
pub(in crate::op) fn run<S: Stage>(
    stage: &S,
    call: &mut Call,
    job: &mut Prepared<S::Job>,
) -> Result<S::Answer> {
    call.enter(stage)?;
    call.check_live()?;
    call.check_capability()?;
    let job = job.decoded()?;
    stage.check_not_frozen(call)?;
    stage.guard(call)?;
    let answer = stage.perform(call, job)?;
    stage.project(call)?;
    stage.audit(call)?;
    Ok(answer)
}

/// A transaction in which requests run. One that only reads stops nobody who is frozen, and leaves nothing to project
/// or audit.
pub(in crate::op) trait Stage {
    /// The function, bound to its input.
    type Job;
    /// What the function returns.
    type Answer;

    /// Finds the caller by its credential, whatever it may do.
    fn find(&self, call: &Call) -> Result<Entered>;

    /// Refuses a change by a frozen member.
    fn check_not_frozen(&self, _call: &Call) -> Result<()> {
        Ok(())
    }

    /// Asks the guards of all features.
    fn guard(&self, _call: &Call) -> Result<()> {
        Ok(())
    }

    /// Runs the function.
    fn perform(&self, call: &Call, job: &mut Self::Job) -> Result<Self::Answer>;

    /// Lets projectors follow the events of the function.
    fn project(&self, _call: &Call) -> Result<()> {
        Ok(())
    }

    /// Writes the audit rows.
    fn audit(&self, _call: &Call) -> Result<()> {
        Ok(())
    }
}

/// A function bound to its input, or why the input could not be decoded: which is told only to a caller who may call
/// the operation.
pub(in crate::op) enum Prepared<J> {
    Ready(J),
    Rejected(Error),
}

impl<J> Prepared<J> {
    fn decoded(&mut self) -> Result<&mut J> {
        match self {
            Self::Ready(job) => Ok(job),
            Self::Rejected(error) => Err(error.clone()),
        }
    }
}
