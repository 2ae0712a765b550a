//! The event log: its proof of the past, and the cache invalidations by its events.

mod cache;
mod checkpoints;
mod verify;
