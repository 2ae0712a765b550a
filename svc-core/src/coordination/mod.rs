//! Coordination: threads as tasks, what they wait for, who works on them, and their results.
//!
//! Only this layer changes a thread's rows. One projector keeps the ready queue up to date, from the events
//! of each job.

mod skill_sets;
mod footprint;
pub(crate) mod thread;
pub(crate) mod notices;
mod budget;
mod obstacles;
mod rules;
mod queue;
mod blocked;
pub(crate) mod dependencies;
pub(crate) mod dead_letters;
pub(crate) mod workers;
pub(crate) mod checkpoint;
pub(crate) mod claims;
pub(crate) mod freeze;
pub(crate) mod deactivated;
pub(crate) mod revoked;
pub(crate) mod footprints;
pub(crate) mod slots;
pub(crate) mod pauses;
mod waiting;
pub(crate) mod deferred;
pub(crate) mod budgets;
pub(crate) mod lifecycle;
pub(crate) mod results;
pub(crate) mod dms;
mod context;
pub(crate) mod take;
mod workspace_threads;
pub(crate) mod views;
pub(crate) mod occupancy;
pub(crate) mod wait_for_ready;
pub(crate) mod queue_projector;
pub(crate) mod reaper;
