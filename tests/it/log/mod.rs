//! The event log: what it proves about its own past, and what its events invalidate in caches.

mod cache;
mod checkpoints;
mod verify;
