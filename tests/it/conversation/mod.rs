//! Channels, messages and shared texts: visibility, retention, and the remains of a withdrawal.

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
