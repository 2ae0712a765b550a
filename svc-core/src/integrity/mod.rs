//! What makes the record trustworthy: the event log, the proof that it is whole, and the audit trail.
//!
//! - `events`: reading the log, waiting for new events, and verifying the chain
//! - `audit`: the rows that every change and every delegated request leaves

pub(crate) mod audit;
pub(crate) mod events;
