//! Coordination: threads as tasks, what they wait for, who works on them, and their results.
//!
//! Only this layer changes a thread's rows. One projector keeps the ready queue up to date, from the events
//! of each job.

pub(crate) mod claims;
pub(crate) mod dependencies;
pub(crate) mod notices;
pub(crate) mod queue;
pub(crate) mod queue_projector;
pub(crate) mod reaper;
pub(crate) mod results;
pub(crate) mod skill_sets;
pub(crate) mod thread;
pub(crate) mod wait_for_ready;
mod workers;
