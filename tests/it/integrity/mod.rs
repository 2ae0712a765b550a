//! What members can read of the record: events, their verification, and the audit trail; and what is shared.

pub mod origin;
mod audit;
mod census;
mod copies;
mod events;
mod followers;
mod hidden;
mod histories;
mod charged;
mod crowd;
mod erasing;
mod exports;
mod files;
mod held_content;
mod holds;
mod imports;
mod record;
mod purging;
mod retention;
mod second_verifier;
mod sharing;
mod snapshot;
mod subscriptions;
mod consumers;
mod tampering;
mod taps;
mod together;
