//! The event log: one hash chain per workspace.
//!
//! It includes the batch that extends the chain, the bus that announces how far it reaches, and the sealing
//! of content that may have to disappear from it. Nothing here depends on what the events mean.

pub(crate) mod batch;
pub(crate) mod bus;
pub(crate) mod cache;
pub(crate) mod canonical;
mod cipher;
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
