//! The limits of a workspace: the capacities of its slots, and its paused repositories.
//!
//! A workspace has few of these limits, so they are cached. The events that change a limit invalidate the
//! cache.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{BlockingConflict, Conflict, ConflictReason, Obstacle};
use crate::Result;
use crate::coordination::footprint::{Footprint, RepoKey, slot_key};
use crate::id::WorkspaceId;
use crate::log::cache::{Cached, Lifetime, SINGLE_ENTRY};
use crate::log::event::CachedEntryKind;
use crate::op::Read;

/// The capacities of slots and the pauses of repositories in a workspace.
#[derive(Clone, Default)]
pub(super) struct WorkspaceLimits {
    capacities: Arc<HashMap<String, i64>>,
    paused: Arc<HashSet<RepoKey>>,
}

impl Cached for WorkspaceLimits {
    const LIFETIME: Lifetime = Lifetime::Epoch(CachedEntryKind::Rules);
}

impl WorkspaceLimits {
    /// Returns how many claims may use a slot at the same time, or `None` if any number may.
    pub fn capacity(&self, slot_key: &str) -> Option<i64> {
        self.capacities.get(slot_key).copied()
    }

    /// Returns the conflict of a footprint whose repository is paused, or `None` if the repository is not
    /// paused.
    pub fn pause_conflict(&self, workspace: WorkspaceId, footprint: &Footprint) -> Option<BlockingConflict> {
        let repo = footprint.repo_key();
        self.paused.contains(&repo).then(|| BlockingConflict {
            conflict: Conflict::without_claim(ConflictReason::RepoPaused),
            thread: None,
            obstacle: Obstacle::pause(workspace, &repo),
            exclusive: true,
        })
    }
}

/// Returns the limits of the caller's workspace.
pub(super) fn load_workspace_limits(cx: &Read<'_>) -> Result<WorkspaceLimits> {
    let workspace = cx.caller().workspace_id;
    cx.cached_or_load(&SINGLE_ENTRY, || {
        let capacities = cx.query::<(String, i64)>(CAPACITIES, &[&workspace])?.into_iter();
        // A stored key may have an earlier form than the keys by which slots are now compared.
        let capacities = capacities.map(|(key, capacity)| (slot_key(&key), capacity));
        let paused = cx.query::<(RepoKey,)>(PAUSED, &[&workspace])?;
        Ok(WorkspaceLimits {
            capacities: Arc::new(capacities.collect()),
            paused: Arc::new(paused.into_iter().map(|(repo,)| repo).collect()),
        })
    })
}

const CAPACITIES: &str = "select slot_key, capacity from slots where workspace_id = $1";

const PAUSED: &str = "select repo_key from repo_pauses where workspace_id = $1";
