//! The floors of a log: the position of its oldest remaining event, and the position up to which its messages
//! were purged.
//!
//! An event in the log itself declares pruning, and data is removed only after that. An event that declares
//! pruned events contains the new beginning of the log and the hash that the oldest remaining event links to,
//! so that the rest can be verified without the pruned events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::hash::parse_hash;
use crate::log::event::Event;
use crate::log::replay::ReplayedEvent;
use crate::log::tree::Frontier;
use crate::time::Time;

/// The oldest events of the log were pruned. From this event on, the log begins at `floor`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct EventsPruned {
    /// The position of the oldest remaining event.
    pub floor: i64,
    /// The content hash of the event before the floor, as `sha256:<hex>`. The oldest remaining event links to
    /// it.
    pub prev_hash: String,
    /// The subtree hashes of the Merkle tree (RFC 6962) over all events before the floor, the largest subtree
    /// first: one hash for each set bit of `floor - 1`.
    pub frontier: Vec<String>,
    /// The time before which events were pruned.
    pub before: Time,
}

impl Event for EventsPruned {
    const KIND: &'static str = "EventsPruned";

    fn replay(_: &ReplayedEvent<'_>) -> Result<()> {
        Ok(())
    }
}

/// All messages that were posted up to a position were purged. The log keeps their sealed events.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct MessagesPruned {
    /// The position in the log up to which messages were purged.
    pub up_to_lsn: i64,
    /// The number of purged messages.
    pub messages: i64,
    /// The reason for the purge.
    pub reason: PruneReason,
}

impl Event for MessagesPruned {
    const KIND: &'static str = "MessagesPruned";

    fn replay(_: &ReplayedEvent<'_>) -> Result<()> {
        Ok(())
    }
}

/// The reason why messages were pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PruneReason {
    /// The messages exceeded the retention period of the workspace.
    Retention,
    /// All messages of the workspace were purged.
    Purge,
}

impl MessagesPruned {
    /// Returns the position up to which a payload declares messages as purged, or `None` if the payload is of
    /// another kind.
    pub fn parse_purged_up_to(payload: &str) -> Option<i64> {
        serde_json::from_str(payload).ok().map(|Self { up_to_lsn, .. }| up_to_lsn)
    }
}

/// The beginning of a pruned log, as an [`EventsPruned`] declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredFloor {
    pub floor: i64,
    pub prev_hash: [u8; 32],
    /// The frontier of the Merkle tree over all events before the floor.
    pub frontier: Frontier,
}

impl DeclaredFloor {
    /// Parses the beginning of the log from the payload of an [`EventsPruned`]. Returns `None` for a payload
    /// of another kind.
    pub fn of(payload: &str) -> Option<Self> {
        let EventsPruned { floor, prev_hash, frontier, .. } = serde_json::from_str(payload).ok()?;
        let subtrees: Option<Vec<[u8; 32]>> = frontier.iter().map(|hash| parse_hash(hash)).collect();
        let size = u64::try_from(floor.checked_sub(1)?).ok()?;
        Some(Self { floor, prev_hash: parse_hash(&prev_hash)?, frontier: Frontier::of(size, subtrees?)? })
    }
}
