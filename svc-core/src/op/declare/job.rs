//! The job of a prepared call: a function bound to its input, and its result.

use std::any::Any;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::log::bus::EventFilter;
use crate::log::event::Subject;
use crate::op::call::request::Input;
use crate::op::run::context::{Read, Write};

/// A type of an operation's input.
pub trait InputType: DeserializeOwned + JsonSchema + Send + Sync + 'static {}

impl<T: DeserializeOwned + JsonSchema + Send + Sync + 'static> InputType for T {}

/// A type of an operation's output.
pub trait OutputType: Serialize + JsonSchema + Send + 'static {}

impl<T: Serialize + JsonSchema + Send + 'static> OutputType for T {}

/// An operation's output, which is encoded on the caller's side, after the commit.
pub(crate) type BoxedOutput = Box<dyn Output>;

/// Any type that an operation returns.
pub(crate) trait Output: Send {
    fn encode(&self) -> Result<Vec<u8>>;
    fn as_any(&self) -> &dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Capacity for an output of the usual size.
const OUTPUT_BYTES: usize = 1024;

impl<T: Serialize + Send + 'static> Output for T {
    fn encode(&self) -> Result<Vec<u8>> {
        let mut body = Vec::with_capacity(OUTPUT_BYTES);
        serde_json::to_writer(&mut body, self).map_err(Error::internal)?;
        Ok(body)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Checks a request whose file has not arrived yet: only the text of its input is known.
pub(crate) type BeforeFile = fn(&Read<'_>, &Input) -> Result<()>;

/// A bound function that reads and returns a `T`.
pub(crate) type ReadingJob<T> = Box<dyn FnMut(&Read<'_>) -> Result<T> + Send>;
pub(crate) type ReadJob = ReadingJob<BoxedOutput>;
pub(crate) type WaitJob = ReadingJob<Poll<BoxedOutput>>;
pub(crate) type LongJob = ReadingJob<Option<BoxedOutput>>;
pub(crate) type WriteJob = Box<dyn FnMut(&mut Write<'_>) -> Result<Progress> + Send>;
/// A bounded step before a change. It returns whether there may be more to do first.
pub(crate) type FirstSteps = fn(&mut Write<'_>) -> Result<bool>;

/// Returns a change with the steps before it, if there are any.
pub(in crate::op) fn after_first(first: Option<FirstSteps>, mut job: WriteJob) -> WriteJob {
    match first {
        Some(first) => Box::new(move |cx| if first(cx)? { Ok(Progress::Again(None)) } else { job(cx) }),
        None => job,
    }
}

/// A bound change, based on the result of a read.
pub(crate) struct Preflight {
    /// The workspace that it belongs to, if no credential determines that.
    pub home: Option<WorkspaceId>,
    pub job: WriteJob,
    /// Approximate bytes that it holds in addition to the request.
    pub bytes: usize,
}

/// The result of a read for a change, kept while the change is queued.
pub trait PreflightResult {
    /// Returns its approximate size in bytes.
    fn bytes(&self) -> usize {
        0
    }

    /// Returns the workspace that the change belongs to, if no credential determines that.
    fn home(&self) -> Option<WorkspaceId> {
        None
    }
}

impl PreflightResult for WorkspaceId {
    fn home(&self) -> Option<WorkspaceId> {
        Some(*self)
    }
}

impl<T: PreflightResult> PreflightResult for Option<T> {
    fn bytes(&self) -> usize {
        self.as_ref().map_or(0, PreflightResult::bytes)
    }

    fn home(&self) -> Option<WorkspaceId> {
        self.as_ref().and_then(PreflightResult::home)
    }
}

/// The progress of a change that can be committed.
pub(crate) enum Progress {
    /// The change is done.
    Done(BoxedOutput),
    /// The change was done before; contains the stored part of its answer.
    Repeated(String),
    /// A step is done, and there is more to do: it runs again, in a later batch, with the state that its
    /// steps share, as JSON.
    Again(Option<String>),
    /// The change is refused, and its events report that.
    Refused(Error),
}

/// A refusal by a function that may leave an event.
pub struct RecordedRefusal {
    error: Error,
    recorded: bool,
}

impl RecordedRefusal {
    /// Creates a refusal whose events and notes are committed.
    ///
    /// The function has changed nothing else.
    pub fn recorded(error: Error) -> Self {
        Self { error, recorded: true }
    }

    /// Returns the progress of the change, if the refusal is to be committed.
    pub(in crate::op) fn progress(self) -> Result<Progress> {
        if self.recorded { Ok(Progress::Refused(self.error)) } else { Err(self.error) }
    }
}

/// Any other refusal leaves no trace.
impl From<Error> for RecordedRefusal {
    fn from(error: Error) -> Self {
        Self { error, recorded: false }
    }
}

/// A bound request, ready for a core thread.
pub(crate) enum Job {
    Read(ReadJob),
    /// Returns `None` while there are more pages to read.
    Long(LongJob),
    /// The same, with a page that has no time limit.
    Scan(LongJob),
    /// The same without a time limit, one per workspace at a time.
    Download(LongJob),
    Write {
        job: WriteJob,
        wants: WriteNeeds,
    },
    /// A change with a read before it.
    Preflight(ReadingJob<Preflight>),
    Wait {
        job: WaitJob,
        filter: EventFilter,
        timeout: Duration,
        supply: Option<CountAvailable>,
        timed_out: fn() -> BoxedOutput,
    },
}

/// The needs of a change before it is queued.
///
/// They are derived from the input alone, before the caller is authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteNeeds {
    /// The workspaces whose logs it writes, in addition to the caller's workspace.
    ///
    /// Their heads are locked together with that one's, in the order of ids.
    pub workspaces: Vec<WorkspaceId>,
    /// Whether it takes the next thread of a queue.
    pub takes_next: bool,
    /// The code of its failure if the instance already has a row with an id that it inserts. Default: a fault
    /// of the service.
    pub if_present: Option<Code>,
}

impl WriteNeeds {
    /// Returns the need for the log of one more workspace.
    pub fn workspace(id: WorkspaceId) -> Self {
        Self { workspaces: vec![id], ..Self::default() }
    }

    /// Returns the need for the next thread of a queue.
    pub fn next_thread() -> Self {
        Self { takes_next: true, ..Self::default() }
    }
}

/// The result of a wait's function.
#[derive(Debug)]
pub enum Poll<T> {
    /// The awaited event has occurred.
    Ready(T),
    /// Not yet: poll again when a matching event arrives.
    Pending,
    /// The awaited event is not in the part that was read, and there is more: poll again soon.
    ///
    /// Returned unchanged if the timeout expires.
    More(T),
}

/// Counts the objects that an event at this subject added and that are still available.
///
/// For operations whose waits compete for them.
pub type CountAvailable = fn(&Read<'_>, &Subject) -> Result<usize>;

/// The input of a wait: which events may change its output, and how long it may take.
pub trait LongPoll {
    /// Returns the events that cause another poll.
    fn filter(&self) -> EventFilter;
    /// Returns the maximum time to wait.
    fn timeout(&self) -> Duration;
    /// Returns the function that counts the objects that an event added, for operations whose waits compete
    /// for them.
    ///
    /// That many of the waits are woken, in the order in which they began; a second later others are, as long
    /// as objects are still available.
    fn supply(&self) -> Option<CountAvailable> {
        None
    }
}

/// The awaited result, or a timeout; on the wire one object or the other.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum WaitOutput<O> {
    /// The awaited event has occurred.
    Ready(O),
    /// The timeout expired first.
    TimedOut(TimedOut),
}

/// The result of a wait whose time is over.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TimedOut {
    /// True, and alone, when the time was over.
    timed_out: bool,
}

impl<O> WaitOutput<O> {
    pub(super) fn timed_out() -> Self {
        Self::TimedOut(TimedOut { timed_out: true })
    }
}
