//! Operations out of functions: one way for each thing that a function can do.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::op::declare::answer::Returned;
use crate::op::declare::effect::Effect;
use crate::op::declare::job::{
    BoxedOutput, Found, Job, LongJob, LongPoll, Looked, Poll, Progress, Refused, WaitJob, WaitOutput, Wants,
    WriteJob,
};
use crate::op::declare::operation::{Key, Operation};
use crate::op::declare::typed::TypedOperation;
use crate::op::run::context::{Read, Write};
use crate::op::run::settings::Shared;
use crate::spool::{Content, Spooled, TakesFile};
use crate::time::Time;

/// Declares an operation that reads.
pub fn read<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    run: fn(&Read<'_>, &I) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    Operation::new::<I, O>(key_of(operation), Effect::Read, move |input: I, _, _| {
        Ok(Job::Read(Box::new(move |cx| Ok(Box::new(run(cx, &input)?)))))
    })
}

/// Declares a row that the shell which frames it answers by itself, once the request is admitted.
///
/// Nothing is read for it: what it returns is the same for everybody.
pub fn answered_by_shell<I>(name: &'static str) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
{
    Operation::new::<I, ()>((name, None), Effect::Read, |_, _, _| {
        Err(Error::internal("a row was run that has nothing to run"))
    })
}

/// Declares an operation that reads a lot, one page at a time.
///
/// `begin` creates the state that the pages share; `page` reads one page and returns the output once all are
/// read. Each page has its own transaction, in which the caller is authenticated again, so that nothing else
/// waits for the end; a page that failed may be read again. A workspace has one long read at a time, for a
/// limited time.
pub fn long_read<I, S, O>(
    operation: impl Into<TypedOperation<I, O>>,
    begin: fn(&I) -> Result<S>,
    page: fn(&Read<'_>, &I, &mut S) -> Result<Option<O>>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    S: Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    in_pages(operation, Job::Long, begin, page)
}

/// Declares an operation that goes through all that a workspace has.
///
/// It reads as [`long_read`] does, but one of its pages may take as long as it takes: what was read has to be
/// of one moment. Those of a workspace wait for each other, and nothing else does.
pub fn scan<I, S, O>(
    operation: impl Into<TypedOperation<I, O>>,
    begin: fn(&I) -> Result<S>,
    page: fn(&Read<'_>, &I, &mut S) -> Result<Option<O>>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    S: Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    in_pages(operation, Job::Scan, begin, page)
}

fn in_pages<I, S, O>(
    operation: impl Into<TypedOperation<I, O>>,
    job: fn(LongJob) -> Job,
    begin: fn(&I) -> Result<S>,
    page: fn(&Read<'_>, &I, &mut S) -> Result<Option<O>>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    S: Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    Operation::new::<I, O>(key_of(operation), Effect::Read, move |input: I, _, _| {
        let mut state = begin(&input)?;
        Ok(job(Box::new(move |cx| {
            let read = page(cx, &input, &mut state)?;
            Ok(read.map(|output| -> BoxedOutput { Box::new(output) }))
        })))
    })
}

/// Declares an operation whose output is a file, which is written one page at a time.
///
/// It reads as [`scan`] does, but for as long as it takes; a workspace has one such file made at a time. `O`
/// is what the file holds. A page that failed may be read again, so each begins where the one before ended.
pub fn download<I, S, O>(
    operation: impl Into<TypedOperation<I, Content>>,
    begin: fn(&I, &Shared) -> Result<S>,
    page: fn(&Read<'_>, &I, &mut S) -> Result<Option<Content>>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    S: Send + 'static,
    O: JsonSchema + 'static,
{
    let mut operation =
        Operation::new::<I, O>(key_of(operation), Effect::Read, move |input: I, shared, _| {
            let mut state = begin(&input, shared)?;
            Ok(Job::Download(Box::new(move |cx| {
                let written = page(cx, &input, &mut state)?;
                Ok(written.map(|content| -> BoxedOutput { Box::new(content) }))
            })))
        });
    operation.http.returns_file = true;
    operation
}

/// Declares an operation that takes a file and changes nothing.
///
/// `check` reads the file, before anything is queued and for as long as that takes; its result is the output.
pub fn check_file<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    check: fn(&I, &Spooled, &Shared) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + TakesFile + Send + 'static,
    O: Serialize + JsonSchema + Clone + Send + 'static,
{
    Operation::with_file::<I, O>(key_of(operation), Effect::Read, move |input: I, file, shared, _| {
        let output = check(&input, &file, shared)?;
        Ok(Job::Read(Box::new(move |_| Ok(Box::new(output.clone())))))
    })
}

/// Declares an operation that takes a file and adds something, in bounded steps.
///
/// `prepare` reads the file as [`check_file`] does; its result is kept for all steps. A step that returns
/// none is committed, and others have their turn before the next; one that failed may be taken again.
pub fn write_file<I, P, O>(
    operation: impl Into<TypedOperation<I, O>>,
    prepare: fn(&I, &Spooled, &Shared, Time) -> Result<P>,
    wants: fn(&P) -> Wants,
    step: fn(&mut Write<'_>, &I, &mut P) -> Result<Option<O>>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + TakesFile + Send + 'static,
    P: Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    Operation::with_file::<I, O>(key_of(operation), Effect::Write, move |input: I, file, shared, now| {
        let mut prepared = prepare(&input, &file, shared, now)?;
        let wants = wants(&prepared);
        let job: WriteJob = Box::new(move |cx| step(cx, &input, &mut prepared).map(progress));
        Ok(Job::Write { job, wants })
    })
}

/// Declares an operation that destroys things in bounded steps.
///
/// A step that returns none is committed, and others have their turn before the next; one that failed may be
/// taken again. `S` is what the committed steps of one request share, ids and numbers. It outlives a crash if
/// the request has a key: its repeat goes on from there.
pub fn destructive_in_steps<I, S, O>(
    operation: impl Into<TypedOperation<I, O>>,
    step: fn(&mut Write<'_>, &I, &mut S) -> Result<Option<O>>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    S: Default + Serialize + DeserializeOwned + 'static,
    O: Returned<I> + JsonSchema,
{
    Operation::changing::<I, O>(key_of(operation), Effect::Destructive, move |input: I, _, _| {
        let job: WriteJob = Box::new(move |cx| {
            let mut shared: S = cx.begun()?.unwrap_or_default();
            match step(cx, &input, &mut shared)? {
                Some(output) => Ok(Progress::Done(Box::new(output))),
                None => Ok(Progress::Again(Some(serde_json::to_string(&shared).map_err(Error::internal)?))),
            }
        });
        Ok(Job::Write { job, wants: Wants::default() })
    })
}

/// Declares an operation that adds something with each call.
pub fn write<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    run: fn(&mut Write<'_>, &I) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Returned<I> + JsonSchema,
{
    changing(operation, Effect::Write, run)
}

/// Declares an operation whose second identical call changes nothing more.
pub fn idempotent<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    run: fn(&mut Write<'_>, &I) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Returned<I> + JsonSchema,
{
    changing(operation, Effect::Idempotent, run)
}

/// Declares an operation that ends or removes something.
pub fn destructive<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    run: fn(&mut Write<'_>, &I) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Returned<I> + JsonSchema,
{
    changing(operation, Effect::Destructive, run)
}

fn changing<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    effect: Effect,
    run: fn(&mut Write<'_>, &I) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Returned<I> + JsonSchema,
{
    wanting(operation, effect, |_| Wants::default(), run)
}

/// Declares an operation that changes something and whose input determines what it needs before it is queued.
pub fn wanting<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    effect: Effect,
    wants: fn(&I) -> Wants,
    run: fn(&mut Write<'_>, &I) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Returned<I> + JsonSchema,
{
    Operation::changing::<I, O>(key_of(operation), effect, move |input: I, _, _| {
        let wants = wants(&input);
        let job: WriteJob = Box::new(move |cx| Ok(Progress::Done(Box::new(run(cx, &input)?))));
        Ok(Job::Write { job, wants })
    })
}

/// Declares an operation that takes the next thread of a queue, after any number of bounded steps.
///
/// A step that returns none is committed, and others have their turn before the next. It must leave a state
/// that is right without the steps that follow, which may never come.
pub fn write_in_steps<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    run: fn(&mut Write<'_>, &I) -> Result<Option<O>>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Returned<I> + JsonSchema,
{
    stepping(operation, Effect::Write, Wants { takes_next: true, ..Wants::default() }, run)
}

/// Declares an operation that changes something in any number of bounded steps.
///
/// They are as in [`write_in_steps`]. Each finds in the database what is left to do.
pub fn in_steps<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    effect: Effect,
    step: fn(&mut Write<'_>, &I) -> Result<Option<O>>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Returned<I> + JsonSchema,
{
    stepping(operation, effect, Wants::default(), step)
}

fn stepping<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    effect: Effect,
    wants: Wants,
    step: fn(&mut Write<'_>, &I) -> Result<Option<O>>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Returned<I> + JsonSchema,
{
    Operation::changing::<I, O>(key_of(operation), effect, move |input: I, _, _| {
        let job: WriteJob = Box::new(move |cx| step(cx, &input).map(progress));
        Ok(Job::Write { job, wants: wants.clone() })
    })
}

/// A step without an output is followed by another one.
fn progress<O: Serialize + Send + 'static>(output: Option<O>) -> Progress {
    output.map_or(Progress::Again(None), |output| Progress::Done(Box::new(output)))
}

/// Declares an operation that adds something with each call, and some of whose refusals stand in the log.
///
/// `prepare` does what needs no database, as in [`prepared`].
pub fn write_recording_refusals<I, P, O>(
    operation: impl Into<TypedOperation<I, O>>,
    prepare: fn(&I, &Shared, Time) -> Result<P>,
    run: fn(&mut Write<'_>, &I, &P) -> Result<O, Refused>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    P: Send + 'static,
    O: Returned<I> + JsonSchema,
{
    recording_refusals(operation, Effect::Write, prepare, run)
}

/// Declares an operation whose second identical call changes nothing more, and some of whose refusals count.
pub fn idempotent_recording_refusals<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    run: fn(&mut Write<'_>, &I) -> Result<O, Refused>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Returned<I> + JsonSchema,
{
    recording_refusals(operation, Effect::Idempotent, |_, _, _| Ok(()), move |cx, input, ()| run(cx, input))
}

fn recording_refusals<I, P, O>(
    operation: impl Into<TypedOperation<I, O>>,
    effect: Effect,
    prepare: fn(&I, &Shared, Time) -> Result<P>,
    run: impl Fn(&mut Write<'_>, &I, &P) -> Result<O, Refused> + Copy + Send + Sync + 'static,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    P: Send + 'static,
    O: Returned<I> + JsonSchema,
{
    Operation::changing::<I, O>(key_of(operation), effect, move |input: I, shared, now| {
        let made = prepare(&input, shared, now)?;
        let job: WriteJob = Box::new(move |cx| match run(cx, &input, &made) {
            Ok(output) => Ok(Progress::Done(Box::new(output))),
            Err(refused) => refused.progress(),
        });
        Ok(Job::Write { job, wants: Wants::default() })
    })
}

/// Declares a change in a workspace that its input determines, and no credential.
///
/// `home` finds the workspace before the change is queued. The function gets it, acts there with
/// [`Write::within`], and loads again what the workspace was found by: only what its own transaction finds
/// counts.
pub fn homed<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    effect: Effect,
    home: fn(&Read<'_>, &I) -> Result<WorkspaceId>,
    run: fn(&mut Write<'_>, &I, WorkspaceId) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    O: Returned<I> + JsonSchema,
{
    Operation::changing::<I, O>(key_of(operation), effect, move |input: I, _, _| {
        let input = Arc::new(input);
        Ok(Job::Looked(Box::new(move |cx| {
            let (workspace, input) = (home(cx, &input)?, Arc::clone(&input));
            let job: WriteJob = Box::new(move |cx| Ok(Progress::Done(Box::new(run(cx, &input, workspace)?))));
            Ok(Looked { home: Some(workspace), job, bytes: 0 })
        })))
    })
}

/// Declares an operation that changes something, and part of whose work needs no database.
///
/// `prepare` does that part once, before the change is queued, with the time of the request. Its result is
/// kept for every run of the job.
pub fn prepared<I, P, O>(
    operation: impl Into<TypedOperation<I, O>>,
    effect: Effect,
    prepare: fn(&I, &Shared, Time) -> Result<P>,
    run: fn(&mut Write<'_>, &I, &P) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    P: Send + 'static,
    O: Returned<I> + JsonSchema,
{
    Operation::changing::<I, O>(key_of(operation), effect, move |input: I, shared, now| {
        let made = prepare(&input, shared, now)?;
        let job: WriteJob = Box::new(move |cx| Ok(Progress::Done(Box::new(run(cx, &input, &made)?))));
        Ok(Job::Write { job, wants: Wants::default() })
    })
}

/// Declares an operation that changes something, and part of whose work needs what is stored, but no lock.
///
/// `look` does that part in a reader's transaction, before the change is queued. Only what the function's own
/// transaction finds counts, so `look` returns with its result what that can be compared with. If it fails
/// with a refusal, the function runs without its result and finds the reason again.
pub fn looked<I, P, O>(
    operation: impl Into<TypedOperation<I, O>>,
    effect: Effect,
    look: fn(&Read<'_>, &I) -> Result<P>,
    run: fn(&mut Write<'_>, &I, Option<&P>) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + Sync + 'static,
    P: Found + Send + 'static,
    O: Returned<I> + JsonSchema,
{
    Operation::changing::<I, O>(key_of(operation), effect, move |input: I, _, _| {
        let input = Arc::new(input);
        Ok(Job::Looked(Box::new(move |cx| {
            let (found, input) = (or_refused(look(cx, &input))?, Arc::clone(&input));
            let bytes = found.as_ref().map_or(0, Found::bytes);
            let job: WriteJob =
                Box::new(move |cx| Ok(Progress::Done(Box::new(run(cx, &input, found.as_ref())?))));
            Ok(Looked { home: None, job, bytes })
        })))
    })
}

/// Returns none for a refusal: only a failure of the service is an error.
fn or_refused<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code().status() < 500 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Declares an operation that waits until something has happened, or returns `{"timed_out": true}`.
///
/// The function may record in its input how far it has read.
pub fn wait<I, O>(
    operation: impl Into<TypedOperation<I, WaitOutput<O>>>,
    run: fn(&Read<'_>, &mut I) -> Result<Poll<O>>,
) -> Operation
where
    I: LongPoll + DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    Operation::new::<I, O>(key_of(operation), Effect::Wait, move |mut input: I, _, _| {
        let (filter, timeout, supply) = (input.filter(), input.timeout(), input.supply());
        let job: WaitJob = Box::new(move |cx| {
            Ok(match run(cx, &mut input)? {
                Poll::Ready(output) => Poll::Ready(Box::new(WaitOutput::Ready(output))),
                Poll::Pending => Poll::Pending,
                Poll::More(output) => Poll::More(Box::new(WaitOutput::Ready(output))),
            })
        });
        let timed_out = || -> BoxedOutput { Box::new(WaitOutput::<O>::timed_out()) };
        Ok(Job::Wait { job, filter, timeout, supply, timed_out })
    })
}

fn key_of<I: 'static, O: 'static>(operation: impl Into<TypedOperation<I, O>>) -> Key {
    let operation = operation.into();
    (operation.name(), operation.key())
}
