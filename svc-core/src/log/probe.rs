//! A meaningless event for tests of the log, and logs of such events.

use schemars::JsonSchema;
use serde::Serialize;

use super::chain::{Link, genesis};
use super::event::{Attribution, Event, RecordedEvent, Subject};
use crate::hash::sha256;
use crate::id::WorkspaceId;
use crate::time::Time;

/// A meaningless event for tests.
#[derive(Serialize, JsonSchema)]
pub(super) struct Probe {
    pub number: i64,
}

impl Event for Probe {
    const KIND: &'static str = "Probe";

    fn replay(_: &crate::log::replay::ReplayedEvent<'_>) -> crate::Result<()> {
        Ok(())
    }
}

/// Creates the first events of a log as the writing code does, with the numbers 10, 20 and so on.
pub(crate) fn log_of_probes(workspace_id: WorkspaceId, subject: Subject, count: i64) -> Vec<RecordedEvent> {
    let mut prev_hash = genesis();
    (1..=count)
        .map(|lsn| {
            let event = probe(workspace_id, lsn, prev_hash, subject, lsn * 10);
            prev_hash = event.content_hash;
            event
        })
        .collect()
}

/// Creates a probe event at `lsn`, after the event with the hash `prev_hash`.
pub(super) fn probe(
    workspace_id: WorkspaceId,
    lsn: i64,
    prev_hash: [u8; 32],
    subject: Subject,
    number: i64,
) -> RecordedEvent {
    record(workspace_id, lsn, prev_hash, subject, &Probe { number })
}

/// Creates an event of any type at `lsn`, after the event with the hash `prev_hash`.
pub(super) fn record<E: Event>(
    workspace_id: WorkspaceId,
    lsn: i64,
    prev_hash: [u8; 32],
    subject: Subject,
    event: &E,
) -> RecordedEvent {
    let at = Time::from_micros(1_795_000_000_000_000 + lsn);
    let link = Link { workspace_id, lsn, kind: E::KIND, at, subject, prev_hash };
    let payload = link.payload(&Attribution::default(), event).unwrap();
    let content_hash = sha256(payload.as_bytes());
    RecordedEvent { workspace_id, lsn, kind: E::KIND, at, subject, prev_hash, content_hash, payload }
}
