//! Reads of the record: events, their verification, and subscriptions.

mod census;
mod consumers;
mod crowd;
mod events;
mod followers;
mod record;
mod second_verifier;
mod snapshot;
mod subscriptions;
mod taps;
