//! The event log: one hash chain per workspace.
//!
//! This folder includes the batch that extends the chain, the bus that announces the last position, the feed
//! for subscribers, and the sealing of content that may have to be destroyed. Nothing here depends on the
//! meaning of the events.

pub(crate) mod canonical;
mod cipher;
pub(crate) mod replay;
pub(crate) mod event;
pub mod chain;
pub(crate) mod tree;
pub(crate) mod floor;
pub mod signed_note;
#[cfg(test)]
pub(crate) mod probe;
pub mod verify;
pub(crate) mod feed;
pub(crate) mod bus;
pub(crate) mod cache;
pub(crate) mod batch;
pub mod key_tree;
pub(crate) mod stored_event;
pub(crate) mod tree_cache;
pub mod seal;
pub(crate) mod keys;
