//! Conversation: channels, their visibility, presence, the messages of threads, and shared texts.
//!
//! Every feature finds channels and threads through [`visibility`]; an object that the caller may not see is
//! not found. Tasks and their states belong to coordination.

pub(crate) mod uris;
pub(crate) mod visibility;
pub(crate) mod presence;
pub(crate) mod inbox;
pub(crate) mod markdown;
pub(crate) mod mentions;
pub(crate) mod formatting;
pub(crate) mod channels;
pub(crate) mod scrub;
pub(crate) mod key_segments;
pub(crate) mod messages;
pub(crate) mod follows;
pub(crate) mod notifications;
pub(crate) mod addresses;
pub(crate) mod votes;
pub(crate) mod glossary;
pub(crate) mod boot;
pub(crate) mod memory;
