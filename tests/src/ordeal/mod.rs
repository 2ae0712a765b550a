//! Ordeals: real servers under load while something beneath them fails. Callers remember what they were told of every
//! write ([`callers`]), and a checker compares that with rows, events and what can be read ([`checker`]). What breaks is
//! always outside of the programs: none of them has a switch that brings a fault.

pub mod callers;
pub mod checker;
pub mod record;
pub mod replay;
mod rows;

use std::time::Duration;

/// How soon after the end of a fault a write must succeed.
pub const RECOVERY: Duration = Duration::from_secs(2);
