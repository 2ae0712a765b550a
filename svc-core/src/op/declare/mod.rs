//! Declarations of a feature: operations, samples, guards, projectors, conditions, chores and health checks.
//!
//! The table holds those of all features. Nothing here runs; signatures of functions name the contexts of
//! `run`.

pub(super) mod part;
pub(super) mod chore;
pub(super) mod due;
pub(super) mod job;
pub(super) mod sample;
pub(super) mod frame;
pub(super) mod http;
pub(super) mod lean;
pub(super) mod told;
pub(super) mod fit;
pub(super) mod answer;
pub(super) mod effect;
pub(super) mod docs;
pub(super) mod operation;
mod bounded;
pub(super) mod hooks;
pub(super) mod class;
pub(super) mod records;
mod proof;
pub(super) mod way;
pub(super) mod table;
pub(super) mod typed;
pub(super) mod functions;
pub(super) mod wait_secs;
