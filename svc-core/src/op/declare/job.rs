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

/// The input of an operation with the output `O`.
///
/// The macro `request!` implements this trait for the one output of the operation. Inputs of operations that
/// have no request, such as framed operations, are listed in [`without_requests!`].
pub trait InputType<O>: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// The request for the operation, if programs call it with one.
    const REQUEST: Option<RequestShape> = None;
}

/// The names in a request: of its operation, and of the fields that a program can set.
#[derive(Clone, Copy, Debug)]
pub struct RequestShape {
    /// Name of the operation.
    pub operation: &'static str,
    /// The fields that `new` takes.
    pub required: &'static [&'static str],
    /// All fields, each of which has a setter.
    pub fields: &'static [&'static str],
    /// The fields that have a method to clear them.
    pub cleared: &'static [&'static str],
}

/// Declares the input types of operations that have no request.
#[macro_export]
#[doc(hidden)]
macro_rules! without_requests {
    ($($input:ty),+ $(,)?) => {
        $(impl<O> $crate::op::InputType<O> for $input {})+
    };
}
pub(crate) use without_requests;

/// A type that can be the output of an operation.
pub trait OutputType: Serialize + JsonSchema + Send + 'static {}

impl<T: Serialize + JsonSchema + Send + 'static> OutputType for T {}

/// The output of an operation. The caller's thread encodes the output after the commit.
pub(crate) type BoxedOutput = Box<dyn Output>;

/// An output of any type, which can be encoded or converted back to its type.
pub(crate) trait Output: Send {
    fn encode(&self) -> Result<Vec<u8>>;
    fn as_any(&self) -> &dyn Any;
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

/// Initial capacity, in bytes, of the buffer for an encoded output.
const OUTPUT_CAPACITY_BYTES: usize = 1024;

impl<T: Serialize + Send + 'static> Output for T {
    fn encode(&self) -> Result<Vec<u8>> {
        let mut body = Vec::with_capacity(OUTPUT_CAPACITY_BYTES);
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
pub(crate) type FilePrecheck = fn(&Read<'_>, &Input) -> Result<()>;

/// A function, bound to its input, that reads and returns a `T`.
pub(crate) type ReadingJob<T> = Box<dyn FnMut(&Read<'_>) -> Result<T> + Send>;
pub(crate) type ReadJob = ReadingJob<BoxedOutput>;
pub(crate) type WaitJob = ReadingJob<Poll<BoxedOutput>>;
pub(crate) type LongJob = ReadingJob<Option<BoxedOutput>>;
pub(crate) type WriteJob = Box<dyn FnMut(&mut Write<'_>) -> Result<Progress> + Send>;
/// A bounded step that runs before a change. Returns whether another step may be needed before the change.
pub(crate) type FirstSteps = fn(&mut Write<'_>) -> Result<bool>;

/// Returns a change that runs the steps in `first_steps` before `job`.
pub(in crate::op) fn with_first_steps(first_steps: Option<FirstSteps>, mut job: WriteJob) -> WriteJob {
    match first_steps {
        Some(first) => Box::new(move |cx| if first(cx)? { Ok(Progress::Unfinished(None)) } else { job(cx) }),
        None => job,
    }
}

/// A change, bound to its input and to the result of its preflight read.
pub(crate) struct Preflight {
    /// Workspace of the change, if no credential determines it.
    pub workspace: Option<WorkspaceId>,
    pub write_needs: WriteNeeds,
    pub job: WriteJob,
    /// Approximate bytes of memory that the result of the read occupies in addition to the request.
    pub bytes: usize,
}

/// The result of a preflight read, kept while the change is queued.
pub trait PreflightResult {
    /// Returns the approximate size of the result in bytes.
    fn bytes(&self) -> usize {
        0
    }

    /// Returns the workspace of the change, if no credential determines it.
    fn workspace(&self) -> Option<WorkspaceId> {
        None
    }
}

impl PreflightResult for WorkspaceId {
    fn workspace(&self) -> Option<WorkspaceId> {
        Some(*self)
    }
}

impl<T: PreflightResult> PreflightResult for Option<T> {
    fn bytes(&self) -> usize {
        self.as_ref().map_or(0, PreflightResult::bytes)
    }

    fn workspace(&self) -> Option<WorkspaceId> {
        self.as_ref().and_then(PreflightResult::workspace)
    }
}

/// The result of one run of a change, to be committed.
pub(crate) enum Progress {
    /// The change is complete.
    Done(BoxedOutput),
    /// An earlier request with the same key has made the change. Contains the stored data of its answer.
    Repeated(String),
    /// A step is complete and further steps remain. The change runs again in a later batch, with the state
    /// that its steps share, as JSON.
    Unfinished(Option<String>),
    /// The change is refused, and its events record the refusal.
    Refused(Error),
}

/// A refusal of a change, which the function may record.
pub struct RecordedRefusal {
    error: Error,
    is_recorded: bool,
}

impl RecordedRefusal {
    /// Creates a refusal that commits its record, such as an event or a counted attempt.
    ///
    /// Apart from that record, the function must not have changed anything.
    pub fn recorded(error: Error) -> Self {
        Self { error, is_recorded: true }
    }

    /// Returns the progress of the change if the refusal is to be committed, or the error otherwise.
    pub(in crate::op) fn progress(self) -> Result<Progress> {
        if self.is_recorded { Ok(Progress::Refused(self.error)) } else { Err(self.error) }
    }
}

/// Converts an error to a refusal that is not recorded: the transaction is rolled back.
impl From<Error> for RecordedRefusal {
    fn from(error: Error) -> Self {
        Self { error, is_recorded: false }
    }
}

/// The job of a request: a function bound to its input, ready to run on a core thread.
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
        write_needs: WriteNeeds,
    },
    /// A change with a preflight read.
    Preflight(ReadingJob<Preflight>),
    Wait {
        job: WaitJob,
        filter: EventFilter,
        timeout: Duration,
        count_available: Option<CountAvailable>,
        timeout_output: fn() -> BoxedOutput,
    },
}

/// The requirements of a change that must be known before the change is queued.
///
/// They are derived from the input alone, before the caller is authenticated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteNeeds {
    /// The workspaces whose logs the change writes, in addition to the caller's workspace.
    ///
    /// The heads of all these workspaces are locked together, in the order of their ids.
    pub workspaces: Vec<WorkspaceId>,
    /// Whether the change claims the next thread of a ready queue.
    pub claims_next_thread: bool,
    /// Error code if the instance already has a row with an id that the change inserts. Default: a failure of
    /// the service.
    pub id_conflict_code: Option<Code>,
}

impl WriteNeeds {
    /// Returns the requirements of a change that also writes the log of the workspace `id`.
    pub fn workspace(id: WorkspaceId) -> Self {
        Self { workspaces: vec![id], ..Self::default() }
    }

    /// Returns the requirements of a change that claims the next thread of a ready queue.
    pub fn next_thread() -> Self {
        Self { claims_next_thread: true, ..Self::default() }
    }
}

/// The result of polling a wait.
#[derive(Debug)]
pub enum Poll<T> {
    /// The awaited event has occurred.
    Ready(T),
    /// The awaited event has not occurred: poll again when a matching event arrives.
    Pending,
    /// The poll has read some of the data without finding the awaited event, and more data remains: poll
    /// again soon.
    ///
    /// Contains the output to return if the timeout expires before the next poll.
    More(T),
}

/// Function that counts how many objects an event on this subject has added that are still available.
///
/// Used by operations whose waits compete for the objects.
pub type CountAvailable = fn(&Read<'_>, &Subject) -> Result<usize>;

/// The input of a wait: which events may change its output, and the timeout.
pub trait LongPoll {
    /// Returns the events that cause another poll.
    fn filter(&self) -> EventFilter;
    /// Returns the timeout of the wait.
    fn timeout(&self) -> Duration;
    /// Returns the function that counts the objects of an event, if the waits of the operation compete for
    /// objects.
    ///
    /// An event wakes as many waits as there are objects, oldest wait first. A second later, further waits
    /// are woken if objects are still available.
    fn supply(&self) -> Option<CountAvailable> {
        None
    }
}

/// The output of a wait: either the awaited result or [`TimedOut`], each as one JSON object.
#[derive(Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum WaitOutput<O> {
    /// The awaited event has occurred.
    Ready(O),
    /// The timeout expired before the awaited event occurred.
    TimedOut(TimedOut),
}

/// The result of a wait whose timeout has expired.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TimedOut {
    /// Always true. This is the only member of the object.
    pub timed_out: bool,
}

impl<O> WaitOutput<O> {
    pub(super) fn timed_out() -> Self {
        Self::TimedOut(TimedOut { timed_out: true })
    }
}
