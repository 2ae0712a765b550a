//! What makes the record trustworthy: the event log, the proof that it is whole, and the audit trail;
//! and what of the record is shown to those who are no members.
//!
//! - `events`: reading the log, waiting for new events, and verifying the chain
//! - `audit`: the rows that every change and every delegated request leaves
//! - `sharing`: tickets by which somebody who is no member reads one channel

pub(crate) mod audit;
pub(crate) mod events;
pub(crate) mod sharing;
