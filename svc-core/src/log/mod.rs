//! The event log: one hash chain per workspace.
//!
//! It includes the batch that extends the chain, the bus that announces how far it reaches, and the sealing
//! of content that may have to disappear from it. Nothing here depends on what the events mean.

pub(crate) mod canonical;
mod cipher;
pub(crate) mod event;
pub(crate) mod bus;
pub(crate) mod cache;
pub mod chain;
pub(crate) mod batch;
pub mod key_tree;
#[cfg(test)]
mod probe;
pub(crate) mod stored;
pub(crate) mod tree_cache;
pub mod seal;
pub(crate) mod keys;
pub mod verify;
