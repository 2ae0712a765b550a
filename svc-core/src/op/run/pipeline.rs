//! The pipeline that every request goes through.
//!
//! [`admit`] admits it by its head alone, before the rest is read; [`run`] runs it inside the transaction of
//! its function. Reads, waits, changes and the service's work all go through the pipeline, and these two
//! functions contain every check that a request has to pass.

use super::call::{Call, VerifiedCaller};
use super::credentials::{CredentialLookup, Gate};
use crate::error::{Error, Result};

/// Admits a request by its head, or rejects it.
///
/// A cached credential may admit it, which is not final: [`run`] checks the same again in the database. A
/// rejection by the cache is checked in the database at once.
pub(super) fn admit(gate: &mut Gate<'_>, found: &CredentialLookup) -> Result<()> {
    gate.charge(found)?;
    let caller = found.caller(gate.needs)?;
    caller.check_live(gate.now)?;
    caller.check_right(gate.needs)
}

/// Runs a request inside the transaction of its function; the commit follows.
pub(in crate::op) fn run<S: Stage>(
    stage: &S,
    call: &mut Call,
    job: &mut Prepared<S::Job>,
) -> Result<S::Output> {
    call.begin();
    call.entered = Some(stage.find(call)?);
    call.check_live()?;
    call.check_right()?;
    call.check_personal()?;
    let job = job.decoded()?;
    stage.check_not_frozen(call)?;
    stage.guard(call)?;
    if let Some(output) = stage.repeat(call)? {
        return Ok(output);
    }
    call.has_run();
    let output = stage.perform(call, job)?;
    stage.project(call)?;
    stage.audit(call, &output)?;
    Ok(output)
}

/// A transaction in which requests run.
///
/// A reading one also runs for frozen members, passes no guard, and has nothing to project or audit.
pub(in crate::op) trait Stage {
    /// The function, bound to its input.
    type Job;
    /// The result of the function.
    type Output;

    /// Finds the caller by its credential, whatever its rights.
    fn find(&self, call: &Call) -> Result<VerifiedCaller>;

    /// Rejects a change by a frozen member.
    fn check_not_frozen(&self, _call: &Call) -> Result<()> {
        Ok(())
    }

    /// Calls the guards of all features.
    fn guard(&self, _call: &Call) -> Result<()> {
        Ok(())
    }

    /// Returns the answer to a request that was answered before.
    fn repeat(&self, _call: &mut Call) -> Result<Option<Self::Output>> {
        Ok(None)
    }

    fn perform(&self, call: &Call, job: &mut Self::Job) -> Result<Self::Output>;

    /// Calls the projectors with the events that the function has emitted.
    fn project(&self, _call: &Call) -> Result<()> {
        Ok(())
    }

    /// Writes the audit rows.
    fn audit(&self, _call: &Call, _output: &Self::Output) -> Result<()> {
        Ok(())
    }
}

/// A function bound to its input, or the reason why the input could not be decoded.
///
/// Only a caller that may call the operation receives that reason.
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
