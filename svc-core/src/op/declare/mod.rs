//! Declarations of a feature: operations, samples, guards, projectors, conditions, chores and health checks.
//!
//! The table contains the declarations of all features. No module here runs an operation. Function signatures
//! refer to the contexts in `run`.

pub(crate) mod health_check;
pub(super) mod chore;
pub(super) mod due_objects;
pub(super) mod job;
pub(super) mod sample;
pub(super) mod frame;
pub(super) mod http;
pub(super) mod lean_answer;
pub(super) mod cut_notes;
pub(super) mod byte_limit;
pub(super) mod answer;
pub(super) mod effect;
pub(super) mod docs;
pub(super) mod operation;
mod answer_limits;
pub(super) mod hooks;
pub(super) mod column_class;
pub(super) mod records;
mod proof;
pub(super) mod delivery_channel;
pub(super) mod table;
pub(super) mod functions;
pub(super) mod wait_secs;
