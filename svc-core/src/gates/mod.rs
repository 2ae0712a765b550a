//! Gates: requirements that a thread must meet before it may close.
//!
//! Each gate registers a condition for closing a thread. Other layers use gates only through these
//! conditions. Members cannot judge their own work: the owner of a thread and members who have worked on it
//! can neither approve the thread in a review nor pass its land gate, and a member cannot accept their own
//! approval request.

pub(crate) mod commit;
pub(crate) mod verdict_rules;
pub(crate) mod reviews;
pub(crate) mod land_gate;
pub(crate) mod approvals;
pub(crate) mod relations;
pub(crate) mod backlinks;
pub(crate) mod context;
