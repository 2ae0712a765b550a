//! The floor of a log: the position of the oldest event that it still has.
//!
//! Pruning is declared by an event in the log itself, and removes events only after that. The event says
//! where the log begins from then on and what it links to, so that the rest can be verified without what is
//! gone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::hash::parse_hash;
use crate::log::event::Event;
use crate::log::tree::Frontier;
use crate::time::Time;

/// The oldest events of the log were pruned. The log begins at `floor` from this event on.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct EventsPruned {
    /// The position of the oldest event that is left.
    pub floor: i64,
    /// The content hash of the event before it, to which it links, as `sha256:<hex>`.
    pub prev_hash: String,
    /// The hashes of the complete subtrees of the Merkle tree (RFC 6962) over the content hashes of all
    /// events before the floor, the largest first. They are as many as `floor - 1` has one bits.
    pub frontier: Vec<String>,
    /// Events that happened before this time were pruned.
    pub before: Time,
}

impl Event for EventsPruned {
    const KIND: &'static str = "EventsPruned";
}

/// What an event that declares pruning says about the beginning of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeclaredFloor {
    pub floor: i64,
    pub prev_hash: [u8; 32],
    /// The frontier of the tree over all events before the floor.
    pub frontier: Frontier,
}

impl DeclaredFloor {
    /// Reads it from the payload of an [`EventsPruned`]; none if that is not one.
    pub fn of(payload: &str) -> Option<Self> {
        let EventsPruned { floor, prev_hash, frontier, .. } = serde_json::from_str(payload).ok()?;
        let subtrees: Option<Vec<[u8; 32]>> = frontier.iter().map(|hash| parse_hash(hash)).collect();
        let size = u64::try_from(floor.checked_sub(1)?).ok()?;
        Some(Self { floor, prev_hash: parse_hash(&prev_hash)?, frontier: Frontier::of(size, subtrees?)? })
    }
}
