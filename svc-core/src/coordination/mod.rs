//! Coordination: threads as tasks, what they wait for, who works on them, and what came of it. Rows of a thread
//! are changed in here and nowhere else; the ready queue is kept true by one projector over the events of a job.

pub(crate) mod claims;
pub(crate) mod dependencies;
pub(crate) mod notices;
pub(crate) mod queue;
pub(crate) mod reaper;
pub(crate) mod results;
pub(crate) mod skill_sets;
pub(crate) mod thread;
mod workers;
