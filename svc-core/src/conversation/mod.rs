//! Conversation: channels, who may see what happens in them, and the messages of their threads. Everything with
//! a place in the workspace asks [`places`] for it; what the caller may not see is not there. Tasks and their
//! states belong to coordination.

pub(crate) mod channels;
pub(crate) mod messages;
pub(crate) mod places;
pub(crate) mod scrub;
mod shelves;
