//! The event log: one hash chain per workspace, the batch that extends it, the bus that says how far it reached,
//! and the sealing of words that may have to disappear from it. Nothing here knows what the events mean.

pub(crate) mod batch;
pub(crate) mod bus;
pub(crate) mod cache;
pub(crate) mod canonical;
pub mod chain;
pub(crate) mod event;
pub mod key_tree;
pub(crate) mod keys;
#[cfg(test)]
mod probe;
pub mod seal;
pub(crate) mod stored;
pub(crate) mod tree_cache;
pub mod verify;
