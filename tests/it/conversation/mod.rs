//! Channels, messages and what members keep for each other: who sees them, what is kept of them, and what a
//! withdrawal leaves.

mod addresses;
mod boot;
mod channels;
mod content;
mod costs;
mod dms;
mod follows;
mod glossary;
mod in_events;
mod inbox;
mod inboxes;
mod leaks;
mod memory;
pub mod mentions;
mod messages;
mod places;
mod presence;
mod reactions;
pub mod sealed;
mod unreadable;
pub mod votes;
pub mod withdraw;
