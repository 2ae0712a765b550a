//! The places of each way in this process, and whose turn it was when.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use crate::id::WorkspaceId;
use crate::limits::PARCELS_MAX;
use crate::share::{Ceiling, Quotas};
use crate::sync::lock;

/// The places of one way, and whose turn it was when.
pub(crate) struct Sending {
    pub places: Ceiling,
    turns: Mutex<Turns>,
}

/// When workspaces had their turns, counted in turns.
#[derive(Debug, Default)]
struct Turns {
    count: u64,
    /// The last turn of each workspace that is charged, and of each that is charged to it.
    last: BTreeMap<(WorkspaceId, Option<WorkspaceId>), u64>,
    /// The workspace after which the next look begins, if more have something due than one look covers.
    covered: Option<WorkspaceId>,
}

/// Maximum turns that are remembered. At the maximum all are forgotten, and the order begins anew.
const TURNS_MAX: usize = 50_000;

impl Default for Sending {
    fn default() -> Self {
        let places = Ceiling::new("parcels in flight", PARCELS_MAX, Quotas::default());
        Self { places, turns: Mutex::default() }
    }
}

impl Sending {
    /// Returns the workspace after which the next look begins.
    pub fn covered(&self) -> WorkspaceId {
        lock(&self.turns).covered.unwrap_or(WorkspaceId::INSTANCE)
    }

    /// Lets the next look begin after this workspace.
    pub fn begin_after(&self, covered: Option<WorkspaceId>) {
        lock(&self.turns).covered = covered;
    }

    /// Puts workspaces in the order of turns: of those that are charged, and of those charged to the same
    /// one, the one whose turn is longest ago comes first.
    pub fn put_in_order(&self, waiting: &mut [(WorkspaceId, WorkspaceId, bool)]) {
        let turns = lock(&self.turns);
        let last = |key| turns.last.get(&key).copied().unwrap_or(0);
        waiting.sort_by_key(|(workspace, charged_to, _)| {
            (last((*charged_to, None)), last((*charged_to, Some(*workspace))))
        });
    }

    /// Records that a workspace, and the one that it is charged to, had a turn now.
    pub fn had_turn(&self, workspace: WorkspaceId, charged_to: WorkspaceId) {
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

/// The places of the ways, by their names.
#[derive(Default)]
pub(crate) struct SendingByWay(Mutex<HashMap<&'static str, Arc<Sending>>>);

impl SendingByWay {
    /// Returns the places of the way of this name.
    pub fn on(&self, way: &'static str) -> Arc<Sending> {
        Arc::clone(lock(&self.0).entry(way).or_default())
    }
}
