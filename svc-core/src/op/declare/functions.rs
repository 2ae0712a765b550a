//! Declares operations from typed functions.
//!
//! [`read`], [`wait`], [`write`], [`idempotent`] and [`destructive`] declare an operation with one function.
//! For operations with more steps, [`reading`] or [`changing`] returns a [`Builder`]: it has a method for
//! each step before the function, and a last method for the function itself.

use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::op::declare::answer::ChangeOutput;
use crate::op::declare::effect::Effect;
use crate::op::declare::job::{
    BoxedOutput, InputType, Job, LongJob, LongPoll, OutputType, Poll, Preflight, PreflightResult, Progress,
    RecordedRefusal, WaitJob, WaitOutput, WriteJob, WriteNeeds,
};
use crate::op::declare::operation::{InputFile, Operation};
use crate::op::run::context::{Read, Write};
use crate::op::run::settings::SharedState;
use crate::spool::{CompleteSpool, FILE_FIELD, FileContent, HasUpload};
use crate::time::Time;

/// Declares an operation that reads data, with one function.
pub fn read<I: InputType<O>, O: OutputType>(
    name: &'static str,
    run: fn(&Read<'_>, &I) -> Result<O>,
) -> Operation {
    reading(name).declare::<O>(move |input, ()| Job::Read(Box::new(move |cx| Ok(Box::new(run(cx, &input)?)))))
}

/// Declares an operation that waits until an event has occurred, or returns `{"timed_out": true}`.
///
/// The function may store in its input the position up to which it has read.
pub fn wait<I: InputType<WaitOutput<O>> + LongPoll, O: OutputType>(
    name: &'static str,
    run: fn(&Read<'_>, &mut I) -> Result<Poll<O>>,
) -> Operation {
    Builder::<Reads, I, WaitOutput<O>, _>::new(name, Effect::Wait).declare::<O>(move |mut input, ()| {
        let filter = input.filter();
        let timeout = input.timeout();
        let count_available = input.supply();
        let job: WaitJob = Box::new(move |cx| {
            Ok(match run(cx, &mut input)? {
                Poll::Ready(output) => Poll::Ready(Box::new(WaitOutput::Ready(output))),
                Poll::Pending => Poll::Pending,
                Poll::More(output) => Poll::More(Box::new(WaitOutput::Ready(output))),
            })
        });
        let timeout_output = || -> BoxedOutput { Box::new(WaitOutput::<O>::timed_out()) };
        Job::Wait { job, filter, timeout, count_available, timeout_output }
    })
}

/// Declares an operation that adds an object on each call.
pub fn write<I: InputType<O>, O: ChangeOutput<I>>(
    name: &'static str,
    run: fn(&mut Write<'_>, &I) -> Result<O>,
) -> Operation {
    changing(name, Effect::Write).run(run)
}

/// Declares an operation that changes data once, even if an identical call is repeated.
pub fn idempotent<I: InputType<O>, O: ChangeOutput<I>>(
    name: &'static str,
    run: fn(&mut Write<'_>, &I) -> Result<O>,
) -> Operation {
    changing(name, Effect::Idempotent).run(run)
}

/// Declares an operation that ends or removes an object.
pub fn destructive<I: InputType<O>, O: ChangeOutput<I>>(
    name: &'static str,
    run: fn(&mut Write<'_>, &I) -> Result<O>,
) -> Operation {
    changing(name, Effect::Destructive).run(run)
}

/// Begins the declaration of an operation that reads data in several steps.
pub fn reading<I: InputType<O>, O: 'static>(name: &'static str) -> Builder<Reads, I, O, ()> {
    Builder::new(name, Effect::Read)
}

/// Begins the declaration of an operation that changes data in several steps.
pub fn changing<I: InputType<O>, O: 'static>(
    name: &'static str,
    effect: Effect,
) -> Builder<Changes, I, O, ()> {
    Builder::new(name, effect)
}

/// An unfinished declaration of an operation: its effect, and the steps before its function.
///
/// `P` is the value that the steps prepare for the function: nothing, or an `ExtraValue`.
#[must_use = "the function is missing"]
pub struct Builder<E, I, O, P> {
    name: &'static str,
    effect: Effect,
    /// Function that returns the field of the input for the file, if the operation accepts a file.
    file: Option<InputFile<I>>,
    prepare: Prepare<I, P>,
    write_needs: fn(&I) -> WriteNeeds,
    types: PhantomData<fn(E) -> O>,
}

type Prepare<I, P> = Box<dyn Fn(&mut I, &SharedState, Time) -> Result<P> + Send + Sync>;

/// A value that the operation's function receives in addition to the input.
pub struct ExtraValue<P>(P);

/// Type parameter of a [`Builder`] for an operation that reads data.
pub enum Reads {}

/// Type parameter of a [`Builder`] for an operation that changes data.
pub enum Changes {}

impl<E, I: InputType<O>, O: 'static> Builder<E, I, O, ()> {
    fn new(name: &'static str, effect: Effect) -> Self {
        let prepare: Prepare<I, ()> = Box::new(|_, _, _| Ok(()));
        let types = PhantomData;
        Self { name, effect, file: None, prepare, write_needs: |_| WriteNeeds::default(), types }
    }

    /// Sets a step that runs once, without the database, before the call is queued.
    ///
    /// Every run of the operation's function receives the result of this step.
    pub fn prepare<P: 'static>(
        self,
        prepare: fn(&I, &SharedState, Time) -> Result<P>,
    ) -> Builder<E, I, O, ExtraValue<P>> {
        self.with_preparation(move |input, shared, now| prepare(input, shared, now))
    }

    /// Makes the operation accept a file, and sets a step that reads the file before the call is queued,
    /// without a time limit.
    ///
    /// Every run of the operation's function receives the result of this step.
    pub fn file<P: 'static>(
        mut self,
        prepare: fn(&I, &CompleteSpool, &SharedState, Time) -> Result<P>,
    ) -> Builder<E, I, O, ExtraValue<P>>
    where
        I: HasUpload,
    {
        self.file = Some(I::file);
        self.with_preparation(move |input, shared, now| {
            let file = input.file().take().ok_or_else(|| Error::in_field(FILE_FIELD, "missing"))?;
            prepare(input, &file.spooled(&shared.settings.spools)?, shared, now)
        })
    }

    /// Sets the step that prepares a value for the function.
    fn with_preparation<P: 'static>(
        self,
        prepare: impl Fn(&mut I, &SharedState, Time) -> Result<P> + Send + Sync + 'static,
    ) -> Builder<E, I, O, ExtraValue<P>> {
        let Self { name, effect, file, write_needs, types, .. } = self;
        let prepare: Prepare<I, ExtraValue<P>> =
            Box::new(move |input, shared, now| prepare(input, shared, now).map(ExtraValue));
        Builder { name, effect, file, prepare, write_needs, types }
    }
}

impl<E, I: InputType<O>, O: 'static, P: 'static> Builder<E, I, O, P> {
    /// Declares the operation. `job` binds the function to an input and to the prepared value, and `S` is the
    /// type of the documented output.
    fn declare<S: JsonSchema>(self, job: impl Fn(I, P) -> Job + Send + Sync + 'static) -> Operation {
        let Self { name, effect, file, prepare, .. } = self;
        Operation::new::<I, O, S>(name, effect, file, move |mut input, shared, now| {
            let prepared = prepare(&mut input, shared, now)?;
            Ok(job(input, prepared))
        })
    }
}

impl<I: InputType<O>, O: Serialize + Send + 'static, P: Send + 'static> Builder<Reads, I, O, ExtraValue<P>> {
    /// Sets the function of the operation, which reads in one transaction.
    pub fn run(self, run: fn(&Read<'_>, &I, &P) -> Result<O>) -> Operation
    where
        O: JsonSchema,
    {
        self.declare::<O>(move |input, ExtraValue(prepared)| {
            Job::Read(Box::new(move |cx| Ok(Box::new(run(cx, &input, &prepared)?))))
        })
    }

    /// Sets a function that reads one page at a time. The function returns the output after the last page.
    /// All pages share the value that the steps before the function have prepared.
    ///
    /// Each page has a separate transaction, which authenticates the caller again, so no other request waits
    /// for the end of the read. A page that failed may be read again. Only one such read runs per workspace
    /// at a time, for a limited time.
    pub fn in_pages(self, page: fn(&Read<'_>, &I, &mut P) -> Result<Option<O>>) -> Operation
    where
        O: JsonSchema,
    {
        self.declare_pages::<O>(Job::Long, page)
    }

    /// Sets a function that reads as with [`Builder::in_pages`], but without a time limit for a page.
    ///
    /// For reads that need one consistent snapshot. At most one such read of a workspace runs at a time, and
    /// no other request waits for it.
    pub fn scan(self, page: fn(&Read<'_>, &I, &mut P) -> Result<Option<O>>) -> Operation
    where
        O: JsonSchema,
    {
        self.declare_pages::<O>(Job::Scan, page)
    }

    /// Declares a read in pages. `job` returns the kind of job that reads the pages.
    fn declare_pages<S: JsonSchema>(
        self,
        job: fn(LongJob) -> Job,
        page: fn(&Read<'_>, &I, &mut P) -> Result<Option<O>>,
    ) -> Operation {
        self.declare::<S>(move |input, ExtraValue(mut state)| {
            job(Box::new(move |cx| {
                let read = page(cx, &input, &mut state)?;
                Ok(read.map(|output| -> BoxedOutput { Box::new(output) }))
            }))
        })
    }
}

impl<I: InputType<FileContent>, P: Send + 'static> Builder<Reads, I, FileContent, ExtraValue<P>> {
    /// Sets a function that writes a file one page at a time, without a time limit. The file's content is an
    /// `S`.
    ///
    /// Only one such file is written per workspace at a time. A page that failed may be read again, so each
    /// page begins where the previous one ended.
    pub fn download<S: JsonSchema>(
        self,
        page: fn(&Read<'_>, &I, &mut P) -> Result<Option<FileContent>>,
    ) -> Operation {
        let mut operation = self.declare_pages::<S>(Job::Download, page);
        operation.http.returns_file = true;
        operation
    }
}

impl<I: InputType<O>, O: ChangeOutput<I>, P: Send + 'static> Builder<Changes, I, O, P> {
    /// Sets the function that derives the [`WriteNeeds`] of the change from the input, before the change is
    /// queued.
    pub fn wants(mut self, write_needs: fn(&I) -> WriteNeeds) -> Self {
        self.write_needs = write_needs;
        self
    }

    /// Declares a change. `run` makes the change, or one step of it.
    fn declare_change(
        self,
        run: impl Fn(&mut Write<'_>, &I, &mut P) -> Result<Progress> + Copy + Send + Sync + 'static,
    ) -> Operation {
        let write_needs = self.write_needs;
        let operation = self.declare::<O>(move |input, mut prepared| {
            let write_needs = write_needs(&input);
            Job::Write { job: Box::new(move |cx| run(cx, &input, &mut prepared)), write_needs }
        });
        set_repeat_policy::<I, O>(operation)
    }
}

impl<I: InputType<O>, O: ChangeOutput<I>> Builder<Changes, I, O, ()> {
    /// Sets a read that runs before the change is queued. It does slow work that needs no lock, or finds the
    /// workspace of a change without a credential.
    ///
    /// The read runs in a reader's transaction. Only data that the function's own transaction reads is
    /// authoritative, so the result contains keys to compare with that data.
    pub fn preflight<P: PreflightResult + Send + 'static>(
        self,
        read: fn(&Read<'_>, &I) -> Result<P>,
    ) -> AfterPreflight<I, O, P> {
        AfterPreflight { change: self, read }
    }

    /// Sets the function of the operation, which makes the change in one transaction.
    pub fn run(self, run: fn(&mut Write<'_>, &I) -> Result<O>) -> Operation {
        self.declare_change(move |cx, input, ()| run(cx, input).map(completed_progress))
    }

    /// Sets a function that makes the change in a variable number of bounded steps.
    ///
    /// A step that returns `None` is committed. Other work runs before the next step, which finds the
    /// remaining work in the database. Each step must leave a valid state even if the later steps never run.
    /// A step that failed may run again.
    pub fn in_steps(self, step: fn(&mut Write<'_>, &I) -> Result<Option<O>>) -> Operation {
        self.declare_change(move |cx, input, ()| step(cx, input).map(step_progress))
    }

    /// Sets a function that makes the change in several steps, which share an `S`, such as ids and numbers.
    ///
    /// If the request has an idempotency key, `S` survives a crash: a repeat of the request continues with
    /// the stored `S`.
    pub fn in_resumed_steps<S>(self, step: fn(&mut Write<'_>, &I, &mut S) -> Result<Option<O>>) -> Operation
    where
        S: Default + Serialize + DeserializeOwned + 'static,
    {
        self.declare_change(move |cx, input, ()| {
            let mut shared: S = cx.step_state()?.unwrap_or_default();
            Ok(match step(cx, input, &mut shared)? {
                Some(output) => completed_progress(output),
                None => Progress::Unfinished(Some(serde_json::to_string(&shared).map_err(Error::internal)?)),
            })
        })
    }

    /// Sets a function that makes the change in one transaction, or refuses the change and may record the
    /// refusal in the log.
    pub fn records_refusals(self, run: fn(&mut Write<'_>, &I) -> Result<O, RecordedRefusal>) -> Operation {
        self.declare_change(move |cx, input, ()| {
            run(cx, input).map_or_else(RecordedRefusal::progress, |it| Ok(completed_progress(it)))
        })
    }
}

/// Methods for changes whose function also receives the value that the steps before it have prepared.
impl<I: InputType<O>, O: ChangeOutput<I>, P: Send + 'static> Builder<Changes, I, O, ExtraValue<P>> {
    pub fn run(self, run: fn(&mut Write<'_>, &I, &P) -> Result<O>) -> Operation {
        self.declare_change(move |cx, input, ExtraValue(prepared)| {
            run(cx, input, prepared).map(completed_progress)
        })
    }

    pub fn in_steps(self, step: fn(&mut Write<'_>, &I, &mut P) -> Result<Option<O>>) -> Operation {
        self.declare_change(move |cx, input, ExtraValue(prepared)| {
            step(cx, input, prepared).map(step_progress)
        })
    }

    pub fn records_refusals(
        self,
        run: fn(&mut Write<'_>, &I, &P) -> Result<O, RecordedRefusal>,
    ) -> Operation {
        self.declare_change(move |cx, input, ExtraValue(prepared)| {
            run(cx, input, prepared).map_or_else(RecordedRefusal::progress, |it| Ok(completed_progress(it)))
        })
    }
}

/// The declaration of a change with a preflight read.
#[must_use = "the function is missing"]
pub struct AfterPreflight<I, O, P> {
    change: Builder<Changes, I, O, ()>,
    read: fn(&Read<'_>, &I) -> Result<P>,
}

impl<I: InputType<O>, O: ChangeOutput<I>, P: PreflightResult + Send + 'static> AfterPreflight<I, O, P> {
    /// Sets the function of the operation. It makes the change in one transaction, with the result of the
    /// preflight read.
    ///
    /// If the result of the read is a workspace, the function changes that workspace with [`Write::within`].
    pub fn run(self, run: fn(&mut Write<'_>, &I, &P) -> Result<O>) -> Operation {
        let read = self.read;
        let write_needs = self.change.write_needs;
        let operation = self.change.declare::<O>(move |input, ()| {
            let input = Arc::new(input);
            Job::Preflight(Box::new(move |cx| {
                let found = read(cx, &input)?;
                let write_needs = write_needs(&input);
                let input = Arc::clone(&input);
                let workspace = found.workspace();
                let bytes = found.bytes();
                let job: WriteJob = Box::new(move |cx| run(cx, &input, &found).map(completed_progress));
                Ok(Preflight { workspace, write_needs, job, bytes })
            }))
        });
        set_repeat_policy::<I, O>(operation)
    }
}

/// Sets how repeated requests are answered, as the output type `O` declares.
fn set_repeat_policy<I, O: ChangeOutput<I>>(mut operation: Operation) -> Operation {
    operation.run.repeat_policy = O::repeats();
    operation
}

/// Returns the progress of a change that is complete, with its output.
fn completed_progress<O: OutputType>(output: O) -> Progress {
    Progress::Done(Box::new(output))
}

/// Returns the progress after a step. A step without an output is followed by another step.
fn step_progress<O: OutputType>(output: Option<O>) -> Progress {
    output.map_or(Progress::Unfinished(None), completed_progress)
}
