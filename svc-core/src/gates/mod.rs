//! Gates: the requirements before a thread may close.
//!
//! Each gate registers a condition of the close; the layers above know nothing else of it. No gate lets an
//! author decide about its own work: the owner of a thread and those who have worked on it judge nothing
//! there.

mod commit;
mod verdict_rules;
pub(crate) mod reviews;
pub(crate) mod land_gate;
pub(crate) mod approvals;
pub(crate) mod relations;
pub(crate) mod backlinks;
pub(crate) mod context;
