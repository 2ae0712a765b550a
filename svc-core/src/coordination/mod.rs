//! Coordination: threads as tasks, with their dependencies, claims and results.
//!
//! Only this layer changes a thread's rows. One projector keeps the ready queue up to date, from the events
//! of each job.

mod skill_sets;
pub(crate) mod footprint;
pub(crate) mod thread_row;
pub(crate) mod notices;
pub(crate) mod budget;
pub(crate) mod obstacles;
mod rules;
mod queue;
mod blocked;
pub(crate) mod dependencies;
pub(crate) mod dead_letters;
pub(crate) mod workers;
pub(crate) mod checkpoint;
pub(crate) mod claims;
pub(crate) mod freeze;
pub(crate) mod member_deactivation;
pub(crate) mod token_revocation;
pub(crate) mod footprint_ops;
pub(crate) mod slots;
pub(crate) mod pauses;
pub(crate) mod conflicts;
pub(crate) mod deferred;
pub(crate) mod budget_ops;
pub(crate) mod lifecycle;
pub(crate) mod results;
pub(crate) mod dms;
pub(crate) mod context;
pub(crate) mod claim_ops;
pub(crate) mod workspace_threads;
pub(crate) mod thread_reads;
pub(crate) mod occupancy;
pub(crate) mod wait_for_ready;
pub(crate) mod queue_projector;
pub(crate) mod reaper;
