//! The slots of each delivery channel in this process, and the order in which workspaces take turns.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use crate::id::WorkspaceId;
use crate::limits::DELIVERY_BATCHES_MAX;
use crate::share::{Ceiling, Quotas};
use crate::sync::lock;

/// The slots of one delivery channel, and the order in which workspaces take turns.
pub(crate) struct ChannelSlots {
    /// The limits on the slots, in total and per workspace.
    pub ceiling: Ceiling,
    turns: Mutex<WorkspaceTurns>,
}

/// A workspace with waiting notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitingWorkspace {
    pub workspace: WorkspaceId,
    /// The workspace that is charged for the notifications.
    pub charged_to: WorkspaceId,
    /// Whether a notification is due now.
    pub is_due: bool,
}

/// The last turn of each workspace. Turns are numbered in the order in which they are taken.
#[derive(Debug, Default)]
struct WorkspaceTurns {
    /// Number of turns that were taken.
    count: u64,
    /// The numbers of the last turns, by charged workspace alone and together with the workspace charged to
    /// it.
    last_turns: BTreeMap<(WorkspaceId, Option<WorkspaceId>), u64>,
    /// The workspace after which the next scan begins, if one scan does not cover all workspaces.
    scan_after: Option<WorkspaceId>,
}

/// Maximum number of remembered turns. When it is reached, all turns are dropped and the order starts over.
const TURNS_MAX: usize = 50_000;

impl Default for ChannelSlots {
    fn default() -> Self {
        let ceiling = Ceiling::new("delivery batches", DELIVERY_BATCHES_MAX, Quotas::default());
        Self { ceiling, turns: Mutex::default() }
    }
}

impl ChannelSlots {
    /// Returns the workspace after which the next scan begins.
    pub fn scan_after(&self) -> WorkspaceId {
        lock(&self.turns).scan_after.unwrap_or(WorkspaceId::INSTANCE)
    }

    /// Sets the workspace after which the next scan begins.
    pub fn set_scan_after(&self, workspace: Option<WorkspaceId>) {
        lock(&self.turns).scan_after = workspace;
    }

    /// Sorts workspaces by the last turn of the charged workspace, and then by their own last turn, oldest
    /// first.
    pub fn sort_by_turn(&self, waiting: &mut [WaitingWorkspace]) {
        let turns = lock(&self.turns);
        let last = |key| turns.last_turns.get(&key).copied().unwrap_or(0);
        waiting.sort_by_key(|WaitingWorkspace { workspace, charged_to, .. }| {
            (last((*charged_to, None)), last((*charged_to, Some(*workspace))))
        });
    }

    /// Records a turn of a workspace, and of the workspace that is charged for it.
    pub fn record_turn(&self, workspace: WorkspaceId, charged_to: WorkspaceId) {
        let mut turns = lock(&self.turns);
        if turns.last_turns.len() >= TURNS_MAX {
            turns.last_turns.clear();
        }
        turns.count = turns.count.saturating_add(1);
        let count = turns.count;
        turns.last_turns.insert((charged_to, None), count);
        turns.last_turns.insert((charged_to, Some(workspace)), count);
    }
}

/// The slots of all delivery channels, by channel name.
#[derive(Default)]
pub(crate) struct DeliverySlots(Mutex<HashMap<&'static str, Arc<ChannelSlots>>>);

impl DeliverySlots {
    /// Returns the slots of the delivery channel named `channel`.
    pub fn slots_of(&self, channel: &'static str) -> Arc<ChannelSlots> {
        Arc::clone(lock(&self.0).entry(channel).or_default())
    }
}
