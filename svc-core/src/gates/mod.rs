//! Gates: what must be settled before a thread may close.
//!
//! Each gate brings a condition of the close, by which alone the layers above know of it. None of them
//! decides for its own author: whoever owns a thread or has worked on it judges nothing there.

mod commit;
mod judges;
pub(crate) mod reviews;
pub(crate) mod land_gate;
pub(crate) mod approvals;
pub(crate) mod relations;
pub(crate) mod backlinks;
pub(crate) mod context;
