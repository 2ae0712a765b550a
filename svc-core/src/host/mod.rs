//! The composition root, which connects all modules and so depends on all of them.
//!
//! Exempt from the layer order.

mod start_checks;
mod delivery_slots;
mod core_health;
pub(crate) mod calls;
pub(crate) mod keeper;
pub(crate) mod features;
mod housekeeping;
mod scheduler;
mod shared_limits;
mod task_yield;
pub mod service;
mod health;
mod file_checks;
mod delivery_batches;
mod sign_in;
mod refusals;
pub(crate) mod typed_calls;
pub mod rewrap;
pub mod ops;
pub mod setup;
