//! The composition root: it connects all modules and so depends on all of them.
//!
//! Exempt from the order of the layers.

mod opening;
mod sending;
mod parts;
pub(crate) mod features;
mod housekeeping;
mod scheduler;
mod shared_limits;
mod after_others;
pub mod service;
mod health;
mod incoming;
mod outgoing;
mod sign_in;
mod refusals;
mod ask;
pub mod rewrap;
pub mod ops;
pub mod setup;
