//! The slots of each delivery channel in this process, and the order in which workspaces take turns.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use crate::id::WorkspaceId;
use crate::limits::DELIVERY_BATCHES_MAX;
use crate::share::{Ceiling, Quotas};
use crate::sync::lock;

/// The slots of one delivery channel, and the order in which workspaces take turns.
pub(crate) struct ChannelSlots {
    pub places: Ceiling,
    turns: Mutex<WorkspaceTurns>,
}

/// The last turn of each workspace, as the number of turns taken so far.
#[derive(Debug, Default)]
struct WorkspaceTurns {
    count: u64,
    /// The last turn of each charged workspace, and of each pair of a charged workspace and one charged to
    /// it.
    last: BTreeMap<(WorkspaceId, Option<WorkspaceId>), u64>,
    /// The workspace after which the next scan begins, if one scan does not cover all workspaces.
    covered: Option<WorkspaceId>,
}

/// Maximum number of remembered turns. When it is reached, all turns are dropped and the order starts over.
const TURNS_MAX: usize = 50_000;

impl Default for ChannelSlots {
    fn default() -> Self {
        let places = Ceiling::new("parcels in flight", DELIVERY_BATCHES_MAX, Quotas::default());
        Self { places, turns: Mutex::default() }
    }
}

impl ChannelSlots {
    /// Returns the workspace after which the next scan begins.
    pub fn covered(&self) -> WorkspaceId {
        lock(&self.turns).covered.unwrap_or(WorkspaceId::INSTANCE)
    }

    /// Sets the workspace after which the next scan begins.
    pub fn begin_after(&self, covered: Option<WorkspaceId>) {
        lock(&self.turns).covered = covered;
    }

    /// Sorts workspaces by their turns: charged workspaces by oldest turn first, and the workspaces charged
    /// to the same one likewise.
    pub fn put_in_order(&self, waiting: &mut [(WorkspaceId, WorkspaceId, bool)]) {
        let turns = lock(&self.turns);
        let last = |key| turns.last.get(&key).copied().unwrap_or(0);
        waiting.sort_by_key(|(workspace, charged_to, _)| {
            (last((*charged_to, None)), last((*charged_to, Some(*workspace))))
        });
    }

    /// Records a turn of a workspace, and of the workspace that is charged for it.
    pub fn record_turn(&self, workspace: WorkspaceId, charged_to: WorkspaceId) {
        let mut turns = lock(&self.turns);
        if turns.last.len() >= TURNS_MAX {
            turns.last.clear();
        }
        turns.count = turns.count.saturating_add(1);
        let count = turns.count;
        turns.last.insert((charged_to, None), count);
        turns.last.insert((charged_to, Some(workspace)), count);
    }
}

/// The slots of all delivery channels, by channel name.
#[derive(Default)]
pub(crate) struct SlotsByChannel(Mutex<HashMap<&'static str, Arc<ChannelSlots>>>);

impl SlotsByChannel {
    /// Returns the slots of the delivery channel named `channel`.
    pub fn on(&self, channel: &'static str) -> Arc<ChannelSlots> {
        Arc::clone(lock(&self.0).entry(channel).or_default())
    }
}
