//! The composition: what puts the parts together and so knows them all. Exempt from the order of the layers.

pub(crate) mod features;
mod housekeeping;
mod opening;
mod scheduler;
pub mod service;
pub mod setup;
