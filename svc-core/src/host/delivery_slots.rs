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

/// The last turn of each workspace. Turns are numbered in the order in which they are taken.
#[derive(Debug, Default)]
struct WorkspaceTurns {
    count: u64,
    /// The numbers of the last turns, by charged workspace alone and together with the workspace charged to
    /// it.
    last: BTreeMap<(WorkspaceId, Option<WorkspaceId>), u64>,
    /// The workspace after which the next scan begins, if one scan does not cover all workspaces.
    covered: Option<WorkspaceId>,
}

/// Maximum number of remembered turns. When it is reached, all turns are dropped and the order starts over.
const TURNS_MAX: usize = 50_000;

impl Default for ChannelSlots {
    fn default() -> Self {
        let places = Ceiling::new("delivery batches", DELIVERY_BATCHES_MAX, Quotas::default());
        Self { places, turns: Mutex::default() }
    }
}

impl ChannelSlots {
    /// Returns the workspace after which the next scan begins.
    pub fn scan_after(&self) -> WorkspaceId {
        lock(&self.turns).covered.unwrap_or(WorkspaceId::INSTANCE)
    }

    /// Sets the workspace after which the next scan begins.
    pub fn set_scan_after(&self, covered: Option<WorkspaceId>) {
        lock(&self.turns).covered = covered;
    }

    /// Sorts workspaces by the last turn of the charged workspace, and then by their own last turn, oldest
    /// first.
    pub fn sort_by_turn(&self, waiting: &mut [(WorkspaceId, WorkspaceId, bool)]) {
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
    pub fn slots_of(&self, channel: &'static str) -> Arc<ChannelSlots> {
        Arc::clone(lock(&self.0).entry(channel).or_default())
    }
}
