//! The composition: it puts the parts together and so depends on all of them.
//!
//! Exempt from the order of the layers.

mod ask;
pub(crate) mod features;
mod housekeeping;
mod opening;
pub mod ops;
mod scheduler;
pub mod service;
pub mod setup;
