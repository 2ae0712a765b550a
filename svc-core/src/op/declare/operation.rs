//! An operation of the table: everything that is declared about it.
//!
//! The generics end here: from a typed function an operation keeps a step that prepares a call on the caller's
//! side, and which yields a *job* that a core thread runs, and may run again. There are two ways into that
//! step: with the input of a request, which is decoded, and with a typed input by a [`TypedOperation`].

use std::any::{Any, TypeId};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::capability::{Capability, Needs};
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::log::bus::EventFilter;
use crate::log::event::Subject;
use crate::op::call::caller::Sight;
use crate::op::call::input;
use crate::op::call::request::Input;
use crate::op::declare::example::Fixture;
use crate::op::declare::typed::TypedOperation;
use crate::op::run::context::{Read, Shared, Write};
use crate::schema::{self, SchemaOf};
use crate::time::Time;

/// An HTTP method of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    /// Returns the name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// What calling an operation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes nothing; returns when something has happened, or the timeout expires.
    Wait,
    /// Adds something with each call.
    Write,
    /// Changes something; a second identical call changes nothing more.
    Idempotent,
    /// Ends or removes something.
    Destructive,
}

impl Effect {
    /// Returns the name in contracts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Wait => "wait",
            Self::Write => "write",
            Self::Idempotent => "idempotent",
            Self::Destructive => "destructive",
        }
    }

    /// Returns whether it changes nothing.
    pub fn changes_nothing(self) -> bool {
        matches!(self, Self::Read | Self::Wait)
    }
}

/// The status of a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Success {
    /// 200.
    Ok,
    /// 201: something new has an address.
    Created,
}

impl Success {
    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::Created => 201,
        }
    }
}

/// An operation's output, which is encoded on the caller's side, after the commit.
pub(crate) type Answer = Box<dyn Output>;

/// Any type that an operation returns.
pub(crate) trait Output: Send {
    fn encode(&self) -> Result<Vec<u8>>;
    fn to_value(&self) -> Result<Value>;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Capacity for an output of the usual size.
const ANSWER_BYTES: usize = 1024;

impl<T: Serialize + Send + 'static> Output for T {
    fn encode(&self) -> Result<Vec<u8>> {
        let mut body = Vec::with_capacity(ANSWER_BYTES);
        serde_json::to_writer(&mut body, self).map_err(Error::internal)?;
        Ok(body)
    }

    fn to_value(&self) -> Result<Value> {
        serde_json::to_value(self).map_err(Error::internal)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// A bound function that reads and returns a `T`.
pub(crate) type ReadingJob<T> = Box<dyn FnMut(&Read<'_>) -> Result<T> + Send>;
pub(crate) type ReadJob = ReadingJob<Answer>;
pub(crate) type WaitJob = ReadingJob<Poll<Answer>>;
pub(crate) type LongJob = ReadingJob<Option<Answer>>;
pub(crate) type WriteJob = Box<dyn FnMut(&mut Write<'_>) -> Result<Answer> + Send>;

/// A bound request, ready for a core thread.
pub(crate) enum Job {
    Read(ReadJob),
    /// Returns none while there are more pages to read.
    Long(LongJob),
    Write {
        job: WriteJob,
        wants: Wants,
    },
    Wait {
        job: WaitJob,
        filter: EventFilter,
        timeout: Duration,
        supply: Option<Supply>,
        timed_out: fn() -> Answer,
    },
}

/// What a change needs before it is queued.
///
/// It is derived from the input alone, before the caller is authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// The workspaces in whose logs it writes, besides the caller's own.
    ///
    /// Their heads are locked together with that one's, in the order of ids.
    pub workspaces: Vec<WorkspaceId>,
}

impl Wants {
    /// Returns the need for the log of one more workspace.
    pub fn workspace(id: WorkspaceId) -> Self {
        Self { workspaces: vec![id] }
    }
}

/// Decodes the input of a request and prepares its job.
type PrepareCall = Box<dyn Fn(&Input, &Shared, Time) -> Result<Job> + Send + Sync>;

/// Prepares the job of a call with a decoded input.
type PrepareTyped<I> = Box<dyn Fn(I, &Shared, Time) -> Result<Job> + Send + Sync>;

/// What a wait's function returns.
#[derive(Debug)]
pub enum Poll<T> {
    /// It has happened.
    Ready(T),
    /// Not yet: poll again when a matching event arrives.
    Pending,
    /// Not in the part that was read, and there is more: poll again soon.
    ///
    /// Returned as it is if the timeout expires.
    More(T),
}

/// Counts the things that an event at this subject brought and that are still available.
///
/// For operations whose waits compete for them.
pub type Supply = fn(&Read<'_>, &Subject) -> Result<usize>;

/// The input of a wait: which events may change its output, and how long it may take.
pub trait LongPoll {
    /// Returns the events that cause another poll.
    fn filter(&self) -> EventFilter;
    /// Returns how long to wait at most.
    fn timeout(&self) -> Duration;
    /// Returns what counts the things that an event brought, for operations whose waits compete for them.
    ///
    /// That many of the waits are woken, in the order of their arrival; a second later others are, as long as
    /// there are things still available.
    fn supply(&self) -> Option<Supply> {
        None
    }
}

/// One operation: everything that is declared about it, each thing once.
pub struct Operation {
    pub(crate) name: &'static str,
    pub(crate) http: Http,
    pub(crate) access: Access,
    pub(crate) run: Run,
    pub(crate) docs: Docs,
}

/// Where HTTP serves it.
pub(crate) struct Http {
    pub method: Method,
    pub path: &'static str,
    pub aliases: Vec<&'static str>,
    pub success: Success,
    /// It is not an MCP tool.
    pub rest_only: bool,
}

/// What its caller needs, and what the service itself sees as the caller.
pub(crate) struct Access {
    pub needs: Needs,
    pub sight_of_instance: Sight,
}

pub(crate) struct Run {
    pub effect: Effect,
    pub quick: bool,
    pub prepare_call: PrepareCall,
    /// The [`PrepareTyped`] of its input type.
    prepare_typed: Arc<dyn Any + Send + Sync>,
    /// The type of its input, if it is called by type.
    pub called_by: Option<TypeId>,
}

/// What the documentation shows of it.
pub(crate) struct Docs {
    pub title: &'static str,
    pub area: &'static str,
    pub refuses: &'static [Code],
    pub example: Option<fn(&Fixture) -> Value>,
    pub input: SchemaOf,
    pub output: SchemaOf,
}

/// The name of an operation, and the type of its input if it is called by type.
type Key = (&'static str, Option<TypeId>);

fn key_of<I: 'static, O>(operation: impl Into<TypedOperation<I, O>>) -> Key {
    let operation = operation.into();
    (operation.name(), operation.key())
}

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
    Operation::new::<I, O>(key_of(operation), Effect::Read, move |input: I, _, _| {
        let mut state = begin(&input)?;
        Ok(Job::Long(Box::new(move |cx| {
            let read = page(cx, &input, &mut state)?;
            Ok(read.map(|output| -> Answer { Box::new(output) }))
        })))
    })
}

/// Declares an operation that adds something with each call.
pub fn write<I, O>(
    operation: impl Into<TypedOperation<I, O>>,
    run: fn(&mut Write<'_>, &I) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
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
    O: Serialize + JsonSchema + Send + 'static,
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
    O: Serialize + JsonSchema + Send + 'static,
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
    O: Serialize + JsonSchema + Send + 'static,
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
    O: Serialize + JsonSchema + Send + 'static,
{
    Operation::new::<I, O>(key_of(operation), effect, move |input: I, _, _| {
        let wants = wants(&input);
        Ok(Job::Write { job: Box::new(move |cx| Ok(Box::new(run(cx, &input)?))), wants })
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
    O: Serialize + JsonSchema + Send + 'static,
{
    Operation::new::<I, O>(key_of(operation), effect, move |input: I, shared, now| {
        let made = prepare(&input, shared, now)?;
        let job: WriteJob = Box::new(move |cx| Ok(Box::new(run(cx, &input, &made)?)));
        Ok(Job::Write { job, wants: Wants::default() })
    })
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
        let timed_out = || -> Answer { Box::new(WaitOutput::<O>::timed_out()) };
        Ok(Job::Wait { job, filter, timeout, supply, timed_out })
    })
}

/// The output of a wait.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum WaitOutput<O> {
    /// It has happened.
    Ready(O),
    /// The timeout expired first.
    TimedOut(TimedOut),
}

/// What a wait returns when its time is over.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TimedOut {
    /// True, and alone, when the time was over.
    timed_out: bool,
}

impl<O> WaitOutput<O> {
    fn timed_out() -> Self {
        Self::TimedOut(TimedOut { timed_out: true })
    }
}

impl Operation {
    fn new<I, O>(
        (name, called_by): Key,
        effect: Effect,
        prepare: impl Fn(I, &Shared, Time) -> Result<Job> + Send + Sync + 'static,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: JsonSchema,
    {
        let prepare_typed: Arc<PrepareTyped<I>> = Arc::new(Box::new(prepare));
        let prepare = Arc::clone(&prepare_typed);
        Self {
            name,
            http: Http {
                method: Method::Get,
                path: "",
                aliases: Vec::new(),
                success: Success::Ok,
                rest_only: false,
            },
            access: Access { needs: Needs::AnyCredential, sight_of_instance: Sight::Nothing },
            run: Run {
                effect,
                quick: false,
                prepare_call: Box::new(move |raw, shared, now| prepare(input::decode(raw)?, shared, now)),
                prepare_typed,
                called_by,
            },
            docs: Docs {
                title: "",
                area: "",
                refuses: &[],
                example: None,
                input: schema::of::<I>,
                output: schema::of::<O>,
            },
        }
    }

    /// Sets the title, a short name for people.
    #[must_use]
    pub fn title(mut self, title: &'static str) -> Self {
        self.docs.title = title;
        self
    }

    /// Serves `GET path`.
    #[must_use]
    pub fn get(self, path: &'static str) -> Self {
        self.served(Method::Get, path)
    }

    /// Serves `POST path`.
    #[must_use]
    pub fn post(self, path: &'static str) -> Self {
        self.served(Method::Post, path)
    }

    /// Serves `PUT path`.
    #[must_use]
    pub fn put(self, path: &'static str) -> Self {
        self.served(Method::Put, path)
    }

    /// Serves `PATCH path`.
    #[must_use]
    pub fn patch(self, path: &'static str) -> Self {
        self.served(Method::Patch, path)
    }

    /// Serves `DELETE path`.
    #[must_use]
    pub fn delete(self, path: &'static str) -> Self {
        self.served(Method::Delete, path)
    }

    fn served(mut self, method: Method, path: &'static str) -> Self {
        (self.http.method, self.http.path) = (method, path);
        self
    }

    /// Serves another path as well.
    #[must_use]
    pub fn alias(mut self, path: &'static str) -> Self {
        self.http.aliases.push(path);
        self
    }

    /// Requires a credential with at least one of `any`.
    #[must_use]
    pub fn needs(mut self, any: &'static [Capability]) -> Self {
        self.access.needs = Needs::OneOf(any);
        self
    }

    /// Requires no credential.
    #[must_use]
    pub fn open_to_all(mut self) -> Self {
        self.access.needs = Needs::Nothing;
        self
    }

    /// Succeeds with 201.
    #[must_use]
    pub fn created(mut self) -> Self {
        self.http.success = Success::Created;
        self
    }

    /// Excludes it from the MCP tools.
    #[must_use]
    pub fn rest_only(mut self) -> Self {
        self.http.rest_only = true;
        self
    }

    /// Marks it as one that reads only a few rows by their keys.
    ///
    /// If that needs no network, it runs on the caller's thread with the connection of an idle reader, which
    /// is cheaper than handing over so little work.
    #[must_use]
    pub fn quick(mut self) -> Self {
        self.run.quick = true;
        self
    }

    /// Lets the service itself, and an administrator of the machine, see every channel of the workspace.
    ///
    /// By default they see none, whatever they may do.
    #[must_use]
    pub fn whole_for_instance(mut self) -> Self {
        self.access.sight_of_instance = Sight::Whole;
        self
    }

    /// Declares the codes with which it can fail, besides those of every operation.
    #[must_use]
    pub fn refuses(mut self, codes: &'static [Code]) -> Self {
        self.docs.refuses = codes;
        self
    }

    /// Sets an example: an input that succeeds in the prepared world.
    #[must_use]
    pub fn example(mut self, example: fn(&Fixture) -> Value) -> Self {
        self.docs.example = Some(example);
        self
    }

    /// Prepares the job of a call whose input is an `I`, the type that it takes.
    pub(in crate::op) fn prepare<I: 'static>(&self, input: I, shared: &Shared, now: Time) -> Result<Job> {
        let prepare = self.run.prepare_typed.downcast_ref::<PrepareTyped<I>>();
        let prepare = prepare.ok_or_else(|| Error::internal(format!("{self:?} takes another input")))?;
        prepare(input, shared, now)
    }

    pub(crate) fn in_area(mut self, area: &'static str) -> Self {
        self.docs.area = area;
        self
    }

    /// Returns the name of the operation, which is also that of the MCP tool and of the OpenAPI operation.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the title.
    pub fn title_text(&self) -> &'static str {
        self.docs.title
    }

    /// Returns the part of the service that it belongs to.
    pub fn area(&self) -> &'static str {
        self.docs.area
    }

    /// Returns the HTTP method.
    pub fn method(&self) -> Method {
        self.http.method
    }

    /// Returns the path template.
    pub fn path(&self) -> &'static str {
        self.http.path
    }

    /// Returns every path template that it is served under, the main one first.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.http.path).chain(self.http.aliases.iter().copied())
    }

    /// Returns the other path templates.
    pub fn aliases(&self) -> &[&'static str] {
        &self.http.aliases
    }

    /// Returns what it requires of the credential.
    pub fn needed(&self) -> Needs {
        self.access.needs
    }

    /// Returns what it changes.
    pub fn effect(&self) -> Effect {
        self.run.effect
    }

    /// Returns the status of a success.
    pub fn success(&self) -> Success {
        self.http.success
    }

    /// Returns what the service itself sees as the caller.
    pub(crate) fn sight_of_instance(&self) -> Sight {
        self.access.sight_of_instance
    }

    /// Returns whether it is offered over REST only.
    pub fn is_rest_only(&self) -> bool {
        self.http.rest_only
    }

    /// Returns the codes with which it can fail, besides those of every operation.
    pub fn own_refusals(&self) -> &'static [Code] {
        self.docs.refuses
    }

    /// Returns every code with which it can fail.
    pub fn refusals(&self) -> impl Iterator<Item = Code> {
        Code::OF_EVERY_OPERATION.iter().chain(self.docs.refuses).copied()
    }

    /// Returns the example's input in the world `fixture`, if there is one.
    pub fn example_input(&self, fixture: &Fixture) -> Option<Value> {
        self.docs.example.map(|example| example(fixture))
    }

    /// Returns the JSON Schema (2020-12) of the input: one flat object, without references.
    pub fn input_schema(&self) -> Value {
        schema::inlined_input(self.docs.input)
    }

    /// Returns the JSON Schema (2020-12) of the output: one object, without references.
    ///
    /// If the output is one of several objects, the schema has the members of all of them.
    pub fn output_schema(&self) -> Value {
        let schema = schema::inlined_output(self.docs.output);
        if self.effect() == Effect::Wait {
            let timed_out = schema::inlined_output(schema::of::<TimedOut>);
            return schema::one_object(json!({
                "description": schema.get("description"),
                "anyOf": [schema, timed_out],
            }));
        }
        schema::one_object(schema)
    }
}

impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Operation({} {} {})", self.name, self.http.method.name(), self.http.path)
    }
}
