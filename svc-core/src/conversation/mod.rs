//! Conversation: channels and their visibility, presence, the messages of threads, and texts that members
//! share.
//!
//! Every feature loads channels and threads through [`visibility`]. Objects that the caller may not see are
//! reported as *not found*. The layer `coordination` defines tasks and their states.

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
