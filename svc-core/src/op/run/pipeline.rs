//! The pipeline that every request passes through.
//!
//! [`admit`] admits the request by its head alone, before the body is read; [`run`] runs the request inside
//! the transaction of its function. Reads, waits, changes and work of the service itself all pass through the
//! pipeline. The two functions contain every check that a request must pass.

use super::call::{Call, VerifiedCaller};
use super::credentials::{AdmissionCheck, CredentialLookup};
use crate::error::{Error, Result};

/// Admits or rejects a request by its head.
///
/// Admission by a cached credential is not final: [`run`] repeats the checks in the database. If a check
/// fails for a cached credential, the database checks the credential immediately.
pub(super) fn admit(check: &mut AdmissionCheck<'_>, lookup: &CredentialLookup) -> Result<()> {
    check.charge(lookup)?;
    let caller = lookup.caller(check.needs)?;
    caller.check_live(check.now)?;
    caller.check_right(check.needs)
}

/// Runs a request inside the transaction of its function. The caller commits.
pub(in crate::op) fn run<S: Stage>(
    stage: &S,
    call: &mut Call,
    job: &mut Prepared<S::Job>,
) -> Result<S::Output> {
    call.reset();
    call.found_caller = Some(stage.find_caller(call)?);
    call.check_live()?;
    call.check_right()?;
    call.check_personal()?;
    let job = job.job_or_rejection()?;
    stage.check_not_frozen(call)?;
    stage.check_guards(call)?;
    if let Some(output) = stage.find_repeat(call)? {
        return Ok(output);
    }
    call.mark_function_run();
    let output = stage.run_job(call, job)?;
    stage.run_projectors(call)?;
    stage.audit(call, &output)?;
    Ok(output)
}

/// A kind of transaction in which requests run, with the steps of the pipeline.
///
/// The default methods are those of a read: frozen members may read, no guard is called, and there is nothing
/// to project or to audit.
pub(in crate::op) trait Stage {
    /// The function that this kind of transaction runs, bound to its input.
    type Job;
    /// The result of the function.
    type Output;

    /// Finds the caller by the request's credential, whatever rights the caller has.
    fn find_caller(&self, call: &Call) -> Result<VerifiedCaller>;

    /// Rejects a change by a frozen member.
    fn check_not_frozen(&self, _call: &Call) -> Result<()> {
        Ok(())
    }

    /// Calls the guards of all features.
    fn check_guards(&self, _call: &Call) -> Result<()> {
        Ok(())
    }

    /// Returns the answer to a repeated request, or `None` if the request was not answered before.
    fn find_repeat(&self, _call: &mut Call) -> Result<Option<Self::Output>> {
        Ok(None)
    }

    /// Calls the function of the operation.
    fn run_job(&self, call: &Call, job: &mut Self::Job) -> Result<Self::Output>;

    /// Calls the projectors with the events that the function has emitted.
    fn run_projectors(&self, _call: &Call) -> Result<()> {
        Ok(())
    }

    /// Writes the audit rows of the request.
    fn audit(&self, _call: &Call, _output: &Self::Output) -> Result<()> {
        Ok(())
    }
}

/// A function bound to its input, or the reason why the input could not be decoded.
///
/// Only a caller that may call the operation receives the reason.
pub(in crate::op) enum Prepared<J> {
    Ready(J),
    Rejected(Error),
}

impl<J> Prepared<J> {
    /// Returns the job, or the reason why the input was rejected.
    fn job_or_rejection(&mut self) -> Result<&mut J> {
        match self {
            Self::Ready(job) => Ok(job),
            Self::Rejected(error) => Err(error.clone()),
        }
    }
}
