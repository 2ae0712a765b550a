//! Obstacles: conflicts that block a thread because of its footprint.
//!
//! A thread's obstacles are the live claims whose footprints overlap its own, the full slots among its items,
//! and its repository while it is paused. Whether an obstacle blocks a thread depends only on the footprint,
//! not on the thread itself or on who claims it. A claim whose lease has lapsed blocks no thread.

mod prefixes;
mod workspace_limits;
mod live_items;
mod probe;
mod full_slots;

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::Result;
use crate::coordination::footprint::{
    Extent, Footprint, FootprintItem, ItemSpace, RepoKey, current_and_earlier_extents,
};
use crate::error::{Code, Error};
use crate::hash::sha256;
use crate::id::{MemberId, ThreadId, WorkspaceId};
use crate::limits::CONFLICTS_MAX;
use crate::op::Read;
use crate::store::{FromValue, Param, ToParam, Value};
use crate::time::Time;
use full_slots::FullSlots;
pub(in crate::coordination) use full_slots::{count_uses, load_slot_claims};
pub(in crate::coordination) use live_items::{insert_live_items, remove_live_items, uses};
use workspace_limits::{WorkspaceLimits, load_workspace_limits};

/// The id of an obstacle, which is an item, a slot or a pause. The id is unique across workspaces.
///
/// The id identifies the item, not a claim: two claims that touch the same item are the same obstacle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::coordination) struct Obstacle(Uuid);

impl Obstacle {
    /// Returns the obstacle that blocks other threads while a claim touches this extent.
    pub fn of(workspace: WorkspaceId, extent: &Extent) -> Self {
        Self::new(workspace, &extent.repo_key, extent.space.name(), &extent.prefix)
    }

    /// Returns the obstacle that blocks threads while a slot is full.
    pub fn slot(workspace: WorkspaceId, slot_key: &str) -> Self {
        Self::new(workspace, &RepoKey::default(), ItemSpace::Slot.name(), slot_key)
    }

    /// Returns the obstacle that blocks threads while a repository is paused.
    pub fn pause(workspace: WorkspaceId, repo: &RepoKey) -> Self {
        Self::new(workspace, repo, "pause", "")
    }

    /// Returns the obstacle's id as a plain UUID.
    pub fn uuid(self) -> Uuid {
        self.0
    }

    fn new(workspace: WorkspaceId, repo: &RepoKey, space: &str, prefix: &str) -> Self {
        let mut text = workspace.uuid().as_bytes().to_vec();
        // The separator cannot occur in a repository's key or the name of a space.
        for part in [&**repo, space, prefix] {
            text.push(b'\n');
            text.extend_from_slice(part.as_bytes());
        }
        let hash = sha256(&text);
        // A UUID has 16 bytes.
        Self(Uuid::from_slice(hash.get(..16).unwrap_or_default()).unwrap_or_default())
    }
}

/// Returns the ids of the obstacles that could block a footprint: its items, and a pause of its repository.
pub(in crate::coordination) fn obstacle_ids(workspace: WorkspaceId, footprint: &Footprint) -> Vec<Uuid> {
    let touched =
        current_and_earlier_extents(footprint).into_iter().map(|extent| Obstacle::of(workspace, &extent));
    let paused = Obstacle::pause(workspace, &footprint.repo_key());
    touched.chain([paused]).map(Obstacle::uuid).collect()
}

impl ToParam for Obstacle {
    fn param(&self) -> Param<'_> {
        Param::Uuid(self.0)
    }
}

impl FromValue for Obstacle {
    fn from_value(value: Value) -> Result<Self> {
        Uuid::from_value(value).map(Self)
    }
}

/// The reason why a thread cannot be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum ConflictReason {
    /// A live claim touches the same item.
    Overlap,
    /// The repository is paused.
    RepoPaused,
    /// Claims use the whole capacity of the slot.
    SlotFull,
    /// The thread waits for unfinished threads.
    Dependencies,
    /// No active, unfrozen member has all skills that the thread requires.
    Skills,
    /// A limit of the thread's budget is used up.
    Budget,
    /// The thread has an unsettled dead letter.
    DeadLetter,
}

/// A conflict that prevents a claim of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Conflict {
    /// The reason: `overlap`, `repo-paused` or `slot-full`; in lists of deferred threads also `dependencies`,
    /// `skills`, `budget` or `dead-letter`.
    pub reason: ConflictReason,
    /// The item of the footprint that conflicts; null if the reason does not concern a single item.
    pub item: Option<FootprintItem>,
    /// The member who holds the conflicting claim; null if the conflict is not with a claim.
    pub holder: Option<MemberId>,
    /// Time at which the conflicting claim lapses unless it is renewed; null if the conflict is not with a
    /// claim.
    pub lease_expires_at: Option<Time>,
    /// The thread of the conflicting claim; absent if the conflict is not with a claim, or if you may not see
    /// the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<ThreadId>,
}

impl Conflict {
    /// Returns a conflict without a conflicting claim and without an item.
    pub fn without_claim(reason: ConflictReason) -> Self {
        Self { reason, item: None, holder: None, lease_expires_at: None, thread_id: None }
    }
}

/// A conflict, with the obstacle behind which the blocked thread would be parked.
#[derive(Clone, Debug)]
pub(in crate::coordination) struct BlockingConflict {
    pub conflict: Conflict,
    /// The thread of the conflicting claim, even if the caller may not see it; `None` without such a claim.
    pub thread: Option<ThreadId>,
    /// The obstacle that causes the conflict.
    pub obstacle: Obstacle,
    /// Whether the footprint's item conflicts with shared claims too.
    pub exclusive: bool,
}

/// Returns the conflicts with a footprint, up to `limit`.
///
/// A claim on `ignored_thread` is ignored.
pub(in crate::coordination) fn conflicts_with(
    cx: &Read<'_>,
    footprint: &Footprint,
    ignored_thread: Option<ThreadId>,
    limit: i64,
) -> Result<Vec<BlockingConflict>> {
    let limits = load_workspace_limits(cx)?;
    let mut found = Vec::new();
    found.extend(limits.pause_conflict(cx.caller().workspace_id, footprint));
    let full = FullSlots::find(cx, &[footprint], &limits, ignored_thread)?;
    found.extend(full.load_claims(cx, ignored_thread, limit)?.conflicts_with(cx, footprint));
    found.extend(probe::find_overlaps(cx, footprint, ignored_thread, limit)?);
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found)
}

/// Returns the conflicts with each footprint. If one read cannot find all overlaps, only the first footprints
/// are covered, at least one.
pub(in crate::coordination) fn conflicts_with_each(
    cx: &Read<'_>,
    footprints: &[&Footprint],
) -> Result<Vec<Vec<BlockingConflict>>> {
    let limits = load_workspace_limits(cx)?;
    let full = FullSlots::find(cx, footprints, &limits, None)?.load_claims(cx, None, CONFLICTS_MAX)?;
    let overlaps = probe::find_overlaps_of_each(cx, footprints, CONFLICTS_MAX)?;
    let of_each = footprints.iter().zip(overlaps).map(|(footprint, overlaps)| {
        let mut found: Vec<BlockingConflict> = Vec::new();
        found.extend(limits.pause_conflict(cx.caller().workspace_id, footprint));
        found.extend(full.conflicts_with(cx, footprint));
        found.extend(overlaps);
        found.truncate(usize::try_from(CONFLICTS_MAX).unwrap_or(usize::MAX));
        found
    });
    Ok(of_each.collect())
}

/// Returns, for each footprint, whether anything conflicts with it.
pub(in crate::coordination) fn are_blocked(cx: &Read<'_>, footprints: &[&Footprint]) -> Result<Vec<bool>> {
    let limits = load_workspace_limits(cx)?;
    let full = FullSlots::find(cx, footprints, &limits, None)?;
    let overlapped = probe::find_overlapped_footprints(cx, footprints)?;
    let workspace = cx.caller().workspace_id;
    let is_blocked = footprints.iter().enumerate().map(|(number, footprint)| {
        limits.pause_conflict(workspace, footprint).is_some()
            || full.has_full_slot(cx, footprint)
            || overlapped.contains(&number)
    });
    Ok(is_blocked.collect())
}

/// Fails with `footprint-conflict` if anything conflicts with a footprint.
pub(in crate::coordination) fn check_no_conflicts(
    cx: &Read<'_>,
    footprint: &Footprint,
    ignored_thread: Option<ThreadId>,
) -> Result<()> {
    let found = conflicts_with(cx, footprint, ignored_thread, CONFLICTS_MAX)?;
    if found.is_empty() {
        return Ok(());
    }
    // Count each claim once: it can conflict with several items.
    let claims: HashSet<ThreadId> = found.iter().filter_map(|blocked| blocked.thread).collect();
    let others = claims.len().saturating_add(found.iter().filter(|found| found.thread.is_none()).count());
    let conflicts: Vec<Conflict> = found.into_iter().map(|blocked| blocked.conflict).collect();
    let seen = conflicts.iter().find_map(|conflict| conflict.thread_id);
    let first = seen.map(|thread| format!(", among them the claim of thread {thread}"));
    let detail = format!("the footprint conflicts with {others} other(s){}", first.unwrap_or_default());
    Err(Error::new(Code::FootprintConflict, detail).with("conflicts", conflicts))
}
