//! Channels and messages: who sees them, what is kept of them, and what a withdrawal leaves.

mod channels;
mod in_events;
mod messages;
mod old_keys;
mod places;
mod reactions;
pub mod sealed;
mod unreadable;
pub mod withdraw;
