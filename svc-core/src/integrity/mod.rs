//! What makes the record trustworthy: the event log, the proof that it is whole, and the audit trail;
//! and what of the record is shown to those who are no members.
//!
//! - `events`: reading the log, waiting for new events, and verifying the chain
//! - `catch_up`: the whole log as a chain, and `tombstones`: what was withdrawn
//! - `checkpoints`: the trees over the logs, kept for signing, and `snapshot`: what a log comes to now
//! - `census`: how many events of each kind there are
//! - `room`: where the record is, and how far it goes
//! - `subscriptions`: following the log as it grows
//! - `resource_subscriptions`: what a token has subscribed to beyond a request
//! - `idempotency_keys`: the requests that came with a key, for a day
//! - `taps`: how far consumers inside the service have come in each log
//! - `audit`: the rows that every change and every delegated request leaves
//! - `holds`: legal holds, under which nothing is destroyed, and `retention`: how long things are kept
//! - `purge`: destroying every word of a workspace
//! - `portability`: a workspace as a file
//! - `state`: the tables of a workspace against its log
//! - `sharing`: tickets by which somebody who is no member reads one channel

pub(crate) mod audit;
mod catch_up;
mod tombstones;
pub(crate) mod events;
pub(crate) mod room;
pub(crate) mod checkpoints;
pub(crate) mod snapshot;
pub(crate) mod subscriptions;
pub(crate) mod resource_subscriptions;
pub(crate) mod idempotency_keys;
pub(crate) mod taps;
pub(crate) mod holds;
pub(crate) mod census;
pub(crate) mod retention;
pub(crate) mod purge;
pub(crate) mod portability;
pub(crate) mod state;
pub(crate) mod sharing;
