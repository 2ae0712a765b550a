//! What members can read of the record: events, their verification, and the audit trail.

mod audit;
mod events;
