//! A row of the table: everything there is to say about one operation. The generics end here: from a typed
//! function a row keeps a *bind* step, which decodes and prepares on the caller's side, and which yields a *job*
//! that a core thread runs, and may run again.

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
    /// The name on the wire.
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

/// What calling it does to the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes nothing; answers when something has happened, or the time is over.
    Wait,
    /// Adds something at each call.
    Write,
    /// Changes something; a second identical call changes nothing more.
    Idempotent,
    /// Ends or removes something.
    Destructive,
}

impl Effect {
    /// The name in contracts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Wait => "wait",
            Self::Write => "write",
            Self::Idempotent => "idempotent",
            Self::Destructive => "destructive",
        }
    }

    /// Whether it leaves the world as it was.
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
    /// The HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::Ok => 200,
            Self::Created => 201,
        }
    }
}

/// An answer that is encoded on the caller's side, after the commit.
pub(crate) type Answer = Box<dyn Encode + Send>;

pub(crate) trait Encode {
    fn encode(&self) -> Result<Vec<u8>>;
}

/// Room for an answer of the usual size.
const ANSWER_BYTES: usize = 1024;

impl<T: Serialize> Encode for T {
    fn encode(&self) -> Result<Vec<u8>> {
        let mut body = Vec::with_capacity(ANSWER_BYTES);
        serde_json::to_writer(&mut body, self).map_err(Error::internal)?;
        Ok(body)
    }
}

/// A bound function that reads, and returns a `T`.
pub(crate) type ReadingJob<T> = Box<dyn FnMut(&Read<'_>) -> Result<T> + Send>;
pub(crate) type ReadJob = ReadingJob<Answer>;
pub(crate) type WaitJob = ReadingJob<Poll<Answer>>;
pub(crate) type LongJob = ReadingJob<Option<Answer>>;
pub(crate) type WriteJob = Box<dyn FnMut(&mut Write<'_>) -> Result<Answer> + Send>;

/// A bound request, ready for a core thread.
pub(crate) enum Job {
    Read(ReadJob),
    /// Answers nothing while there are more pages to read.
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
    },
}

/// What a change needs before it is queued: named from its input alone, before anybody is authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// The workspaces, beside the caller's own, in whose logs it writes: their heads are locked with that one, in
    /// the order of ids.
    pub workspaces: Vec<WorkspaceId>,
}

impl Wants {
    /// The log of one more workspace.
    pub fn workspace(id: WorkspaceId) -> Self {
        Self { workspaces: vec![id] }
    }
}

type PrepareCall = Box<dyn Fn(&Input, &Shared, Time) -> Result<Job> + Send + Sync>;

/// What a wait's function answers.
#[derive(Debug)]
pub enum Poll<T> {
    /// It has happened.
    Ready(T),
    /// Not yet: ask again when a matching event comes.
    Pending,
    /// Not in the part that was read, and there is more: ask again soon. Answered as it is when the time is over.
    More(T),
}

/// How much of what waits share out an event at this subject brought, and is still there.
pub type Supply = fn(&Read<'_>, &Subject) -> Result<usize>;

/// The input of a wait: which events may change its answer, and how long the caller has timeout.
pub trait LongPoll {
    /// The events to look at.
    fn filter(&self) -> EventFilter;
    /// How long to wait at the most.
    fn timeout(&self) -> Duration;
    /// Of waits that share something out, how much of it an event brought: so many of them are answered, in the
    /// order in which they came, and a second later others, as long as it is still there.
    fn supply(&self) -> Option<Supply> {
        None
    }
}

/// One operation: everything there is to say about it, each thing once.
pub struct Operation {
    pub(crate) name: &'static str,
    pub(crate) http: Http,
    pub(crate) access: Access,
    pub(crate) run: Run,
    pub(crate) docs: Docs,
}

/// Where HTTP has it.
pub(crate) struct Http {
    pub method: Method,
    pub path: &'static str,
    pub aliases: Vec<&'static str>,
    pub success: Success,
    /// It is no tool.
    pub rest_only: bool,
}

/// Who may call it, and what the service itself sees when it does.
pub(crate) struct Access {
    pub needs: Needs,
    pub sight_of_instance: Sight,
}

/// How it runs.
pub(crate) struct Run {
    pub effect: Effect,
    pub quick: bool,
    pub prepare_call: PrepareCall,
}

/// What it says of itself.
pub(crate) struct Docs {
    pub title: &'static str,
    pub area: &'static str,
    pub refuses: &'static [Code],
    pub example: Option<fn(&Fixture) -> Value>,
    pub input: SchemaOf,
    pub output: SchemaOf,
}

/// An operation that reads.
pub fn read<I, O>(name: &'static str, run: fn(&Read<'_>, &I) -> Result<O>) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    Operation::new::<I, O>(name, Effect::Read, move |raw, _, _| {
        let input: I = input::decode(raw)?;
        Ok(Job::Read(Box::new(move |cx| Ok(Box::new(run(cx, &input)?)))))
    })
}

/// An operation that reads much, a page at a time: `begin` makes what the pages share, and `page` reads one and answers once it
/// has read all. Each page has a transaction of its own, in which the caller is authenticated again, so that nobody
/// waits for the end; a page that failed may be read again. One at a time for a workspace, for a limited time.
pub fn long_read<I, S, O>(
    name: &'static str,
    begin: fn(&I) -> Result<S>,
    page: fn(&Read<'_>, &I, &mut S) -> Result<Option<O>>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    S: Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    Operation::new::<I, O>(name, Effect::Read, move |raw, _, _| {
        let input: I = input::decode(raw)?;
        let mut state = begin(&input)?;
        Ok(Job::Long(Box::new(move |cx| {
            let read = page(cx, &input, &mut state)?;
            Ok(read.map(|output| -> Answer { Box::new(output) }))
        })))
    })
}

/// An operation that adds something at each call.
pub fn write<I, O>(name: &'static str, run: fn(&mut Write<'_>, &I) -> Result<O>) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    changing(name, Effect::Write, run)
}

/// An operation whose second identical call changes nothing more.
pub fn idempotent<I, O>(name: &'static str, run: fn(&mut Write<'_>, &I) -> Result<O>) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    changing(name, Effect::Idempotent, run)
}

/// An operation that ends or removes something.
pub fn destructive<I, O>(name: &'static str, run: fn(&mut Write<'_>, &I) -> Result<O>) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    changing(name, Effect::Destructive, run)
}

fn changing<I, O>(name: &'static str, effect: Effect, run: fn(&mut Write<'_>, &I) -> Result<O>) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    wanting(name, effect, |_| Wants::default(), run)
}

/// An operation that changes something and that says from its input what it needs before it is queued.
pub fn wanting<I, O>(
    name: &'static str,
    effect: Effect,
    wants: fn(&I) -> Wants,
    run: fn(&mut Write<'_>, &I) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    Operation::new::<I, O>(name, effect, move |raw, _, _| {
        let input: I = input::decode(raw)?;
        let wants = wants(&input);
        Ok(Job::Write { job: Box::new(move |cx| Ok(Box::new(run(cx, &input)?))), wants })
    })
}

/// An operation that changes something and with work that needs no database: `prepare` runs once, before the queue, with the time of the
/// request. What it makes is kept for every run of the job.
pub fn prepared<I, P, O>(
    name: &'static str,
    effect: Effect,
    prepare: fn(&I, &Shared, Time) -> Result<P>,
    run: fn(&mut Write<'_>, &I, &P) -> Result<O>,
) -> Operation
where
    I: DeserializeOwned + JsonSchema + Send + 'static,
    P: Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    Operation::new::<I, O>(name, effect, move |raw, shared, now| {
        let input: I = input::decode(raw)?;
        let made = prepare(&input, shared, now)?;
        let job: WriteJob = Box::new(move |cx| Ok(Box::new(run(cx, &input, &made)?)));
        Ok(Job::Write { job, wants: Wants::default() })
    })
}

/// An operation that answers when something has happened, or `{"timed_out": true}`. The function may note in its input how
/// far it has looked.
pub fn wait<I, O>(name: &'static str, run: fn(&Read<'_>, &mut I) -> Result<Poll<O>>) -> Operation
where
    I: LongPoll + DeserializeOwned + JsonSchema + Send + 'static,
    O: Serialize + JsonSchema + Send + 'static,
{
    Operation::new::<I, O>(name, Effect::Wait, move |raw, _, _| {
        let mut input: I = input::decode(raw)?;
        let (filter, timeout, supply) = (input.filter(), input.timeout(), input.supply());
        let job: WaitJob = Box::new(move |cx| {
            Ok(match run(cx, &mut input)? {
                Poll::Ready(output) => Poll::Ready(Box::new(output)),
                Poll::Pending => Poll::Pending,
                Poll::More(output) => Poll::More(Box::new(output)),
            })
        });
        Ok(Job::Wait { job, filter, timeout, supply })
    })
}

/// What a wait returns when its time is over.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TimedOut {
    /// True, and alone, when the time was over.
    timed_out: bool,
}

/// What a wait returns when its time is over.
pub(crate) fn timed_out() -> Answer {
    Box::new(TimedOut { timed_out: true })
}

impl Operation {
    fn new<I: JsonSchema, O: JsonSchema>(
        name: &'static str,
        effect: Effect,
        prepare_call: impl Fn(&Input, &Shared, Time) -> Result<Job> + Send + Sync + 'static,
    ) -> Self {
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
            run: Run { effect, quick: false, prepare_call: Box::new(prepare_call) },
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

    /// A short name for people.
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

    /// Serves another path too.
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

    /// Is not a tool.
    #[must_use]
    pub fn rest_only(mut self) -> Self {
        self.http.rest_only = true;
        self
    }

    /// Reads a few rows by their keys.
    ///
    /// Where that needs no network, an idle reader's connection is used on the caller's thread, which is cheaper than
    /// handing so little work over.
    #[must_use]
    pub fn quick(mut self) -> Self {
        self.run.quick = true;
        self
    }

    /// Shows the service itself, and an administrator of the machine, every channel of the workspace.
    ///
    /// Unless an operation says so they see none, whatever they may do.
    #[must_use]
    pub fn whole_for_instance(mut self) -> Self {
        self.access.sight_of_instance = Sight::Whole;
        self
    }

    /// Can fail with these codes, beside those with which every operation can.
    #[must_use]
    pub fn refuses(mut self, codes: &'static [Code]) -> Self {
        self.docs.refuses = codes;
        self
    }

    /// An input that succeeds in the prepared world.
    #[must_use]
    pub fn example(mut self, example: fn(&Fixture) -> Value) -> Self {
        self.docs.example = Some(example);
        self
    }

    pub(crate) fn in_area(mut self, area: &'static str) -> Self {
        self.docs.area = area;
        self
    }

    /// The name: of the tool, of the OpenAPI operation.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The title.
    pub fn title_text(&self) -> &'static str {
        self.docs.title
    }

    /// The part of the service it belongs to.
    pub fn area(&self) -> &'static str {
        self.docs.area
    }

    /// The HTTP method.
    pub fn method(&self) -> Method {
        self.http.method
    }

    /// The path template.
    pub fn path(&self) -> &'static str {
        self.http.path
    }

    /// Every path template it answers under, the first one first.
    pub fn paths(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.http.path).chain(self.http.aliases.iter().copied())
    }

    /// The other path templates.
    pub fn aliases(&self) -> &[&'static str] {
        &self.http.aliases
    }

    /// What it asks of the credential.
    pub fn needed(&self) -> Needs {
        self.access.needs
    }

    /// What it does to the world.
    pub fn effect(&self) -> Effect {
        self.run.effect
    }

    /// The status of a success.
    pub fn success(&self) -> Success {
        self.http.success
    }

    /// What the service itself sees when it calls it.
    pub(crate) fn sight_of_instance(&self) -> Sight {
        self.access.sight_of_instance
    }

    /// Whether it is offered over REST alone.
    pub fn is_rest_only(&self) -> bool {
        self.http.rest_only
    }

    /// Returns the codes with which it can fail beside those of every operation.
    pub fn own_refusals(&self) -> &'static [Code] {
        self.docs.refuses
    }

    /// Returns every code with which it can fail.
    pub fn refusals(&self) -> impl Iterator<Item = Code> {
        Code::OF_EVERY_OPERATION.iter().chain(self.docs.refuses).copied()
    }

    /// The example's input in the world `fixture`, if there is one.
    pub fn example_input(&self, fixture: &Fixture) -> Option<Value> {
        self.docs.example.map(|example| example(fixture))
    }

    /// The JSON Schema (2020-12) of the input: one flat object, without references.
    pub fn input_schema(&self) -> Value {
        schema::inlined_input(self.docs.input)
    }

    /// The JSON Schema (2020-12) of the output: one object, without references. Of outputs that are one of several
    /// objects it has the members of all.
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
