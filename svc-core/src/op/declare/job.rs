//! The job of a prepared call: a function bound to an input, and the result of the function.

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

/// A type that an operation can take as input.
pub trait InputType: DeserializeOwned + JsonSchema + Send + Sync + 'static {}

impl<T: DeserializeOwned + JsonSchema + Send + Sync + 'static> InputType for T {}

/// A type that an operation can return as output.
pub trait OutputType: Serialize + JsonSchema + Send + 'static {}

impl<T: Serialize + JsonSchema + Send + 'static> OutputType for T {}

/// An operation's output. It is encoded on the caller's thread, after the commit.
pub(crate) type BoxedOutput = Box<dyn Output>;

/// Any type that an operation returns.
pub(crate) trait Output: Send {
    fn encode(&self) -> Result<Vec<u8>>;
    fn as_any(&self) -> &dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Initial buffer capacity for an encoded output of the usual size.
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

/// Checks a request before its file is received, when only the text fields of the input are known.
pub(crate) type BeforeFile = fn(&Read<'_>, &Input) -> Result<()>;

/// A bound function that reads and returns a `T`.
pub(crate) type ReadingJob<T> = Box<dyn FnMut(&Read<'_>) -> Result<T> + Send>;
pub(crate) type ReadJob = ReadingJob<BoxedOutput>;
pub(crate) type WaitJob = ReadingJob<Poll<BoxedOutput>>;
pub(crate) type LongJob = ReadingJob<Option<BoxedOutput>>;
pub(crate) type WriteJob = Box<dyn FnMut(&mut Write<'_>) -> Result<Progress> + Send>;
/// A bounded step that runs before a change. Returns whether another step may be needed first.
pub(crate) type FirstSteps = fn(&mut Write<'_>) -> Result<bool>;

/// Returns a change that runs the steps in `first` before `job`.
pub(in crate::op) fn after_first(first: Option<FirstSteps>, mut job: WriteJob) -> WriteJob {
    match first {
        Some(first) => Box::new(move |cx| if first(cx)? { Ok(Progress::Again(None)) } else { job(cx) }),
        None => job,
    }
}

/// A bound change that uses the result of a preflight read.
pub(crate) struct Preflight {
    /// The workspace that the change belongs to, if no credential determines it.
    pub home: Option<WorkspaceId>,
    pub job: WriteJob,
    /// Approximate bytes that the read's result occupies in addition to the request.
    pub bytes: usize,
}

/// The result of a preflight read, kept while the change is queued.
pub trait PreflightResult {
    /// Returns the approximate size of the result in bytes.
    fn bytes(&self) -> usize {
        0
    }

    /// Returns the workspace that the change belongs to, if no credential determines it.
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

/// The progress of a change, to be committed.
pub(crate) enum Progress {
    /// The change is complete.
    Done(BoxedOutput),
    /// The change was made by an earlier request. Contains the stored part of its answer.
    Repeated(String),
    /// A step is complete and more remain: the change runs again in a later batch, with the state that its
    /// steps share, as JSON.
    Again(Option<String>),
    /// The change is refused, and its events record the refusal.
    Refused(Error),
}

/// A refusal by a function that may record the refusal with an event.
pub struct RecordedRefusal {
    error: Error,
    recorded: bool,
}

impl RecordedRefusal {
    /// Creates a refusal whose events and notes are committed.
    ///
    /// The function must not have changed anything else.
    pub fn recorded(error: Error) -> Self {
        Self { error, recorded: true }
    }

    /// Returns the progress of the change if the refusal is to be committed, or the error otherwise.
    pub(in crate::op) fn progress(self) -> Result<Progress> {
        if self.recorded { Ok(Progress::Refused(self.error)) } else { Err(self.error) }
    }
}

/// Converts an error to a refusal that leaves no trace.
impl From<Error> for RecordedRefusal {
    fn from(error: Error) -> Self {
        Self { error, recorded: false }
    }
}

/// A bound request, ready to run on a core thread.
pub(crate) enum Job {
    Read(ReadJob),
    /// A read in pages. Returns `None` while more pages remain.
    Long(LongJob),
    /// A read in pages without a time limit for a page.
    Scan(LongJob),
    /// A read in pages that writes a file, without a time limit, one per workspace at a time.
    Download(LongJob),
    Write {
        job: WriteJob,
        wants: WriteNeeds,
    },
    /// A change with a preflight read.
    Preflight(ReadingJob<Preflight>),
    Wait {
        job: WaitJob,
        filter: EventFilter,
        timeout: Duration,
        supply: Option<CountAvailable>,
        timed_out: fn() -> BoxedOutput,
    },
}

/// Requirements of a change that must be known before it is queued.
///
/// They are derived from the input alone, before the caller is authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteNeeds {
    /// The workspaces whose logs the change writes, in addition to the caller's workspace.
    ///
    /// The heads of all these workspaces are locked together, in the order of their ids.
    pub workspaces: Vec<WorkspaceId>,
    /// Whether the change takes the next thread of a queue.
    pub takes_next: bool,
    /// Error code if the instance already has a row with an id that the change inserts. Default: a failure of
    /// the service.
    pub if_present: Option<Code>,
}

impl WriteNeeds {
    /// Returns the requirement to write the log of one more workspace.
    pub fn workspace(id: WorkspaceId) -> Self {
        Self { workspaces: vec![id], ..Self::default() }
    }

    /// Returns the requirement to take the next thread of a queue.
    pub fn next_thread() -> Self {
        Self { takes_next: true, ..Self::default() }
    }
}

/// The result of polling a wait.
#[derive(Debug)]
pub enum Poll<T> {
    /// The awaited event has occurred.
    Ready(T),
    /// The awaited event has not occurred: poll again when a matching event arrives.
    Pending,
    /// The awaited event is not in the part that was read, but more remains to be read: poll again soon.
    ///
    /// The value is returned unchanged if the timeout expires.
    More(T),
}

/// Counts the objects that were added by an event on this subject and are still available.
///
/// For operations whose waits compete for these objects.
pub type CountAvailable = fn(&Read<'_>, &Subject) -> Result<usize>;

/// The input of a wait: which events may change its output, and the timeout.
pub trait LongPoll {
    /// Returns the events that cause another poll.
    fn filter(&self) -> EventFilter;
    /// Returns the timeout of the wait.
    fn timeout(&self) -> Duration;
    /// Returns the function that counts the objects that an event has added, for operations whose waits
    /// compete for them.
    ///
    /// As many waits are woken as there are objects, in the order in which they began. A second later,
    /// further waits are woken if objects are still available.
    fn supply(&self) -> Option<CountAvailable> {
        None
    }
}

/// The awaited result or a timeout; on the wire one object or the other.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum WaitOutput<O> {
    /// The awaited event has occurred.
    Ready(O),
    /// The timeout expired first.
    TimedOut(TimedOut),
}

/// The result of a wait whose timeout has expired.
#[derive(Debug, Serialize, JsonSchema)]
pub struct TimedOut {
    /// Always true. The only member of the object.
    timed_out: bool,
}

impl<O> WaitOutput<O> {
    pub(super) fn timed_out() -> Self {
        Self::TimedOut(TimedOut { timed_out: true })
    }
}
