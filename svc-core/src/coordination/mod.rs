//! Coordination: threads as tasks, what they wait for, who works on them, and what came of it. Rows of a thread
//! are changed in here and nowhere else; the ready queue is kept true by one projector over the events of a job.

pub(crate) mod cancel;
pub(crate) mod claims;
pub(crate) mod dependencies;
pub(crate) mod ready;
pub(crate) mod reaper;
pub(crate) mod results;
pub(crate) mod skills;
pub(crate) mod thread_reads;
pub(crate) mod threads;
pub(crate) mod transitions;
mod workers;
