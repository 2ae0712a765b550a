//! Gates: the requirements before a thread may close.
//!
//! Each gate registers a condition for closing a thread; other layers know nothing else about gates. No gate
//! lets authors decide about their own work: the owner of a thread and members who have worked on it cannot
//! approve or pass anything in that thread.

mod commit;
mod verdict_rules;
pub(crate) mod reviews;
pub(crate) mod land_gate;
pub(crate) mod approvals;
pub(crate) mod relations;
pub(crate) mod backlinks;
pub(crate) mod context;
