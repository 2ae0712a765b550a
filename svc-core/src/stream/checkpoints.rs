//! Progress of the Merkle tree over each log, stored so that a checkpoint reads only the newest events.
//!
//! A table stores the frontier of each tree up to a position. A chore advances the position by a bounded
//! number of events at a time and verifies each event before it becomes a leaf. The table is a cache:
//! verifying a log rebuilds the whole tree, and a row that does not match the log is ignored. Nothing is
//! stored if the service has no signing key.

use std::sync::Mutex;
use std::time::Duration;

use crate::Result;
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::identity::floor::LogRange;
use crate::identity::workspaces;
use crate::limits::{
    FEED_READ_BYTES, FEED_READ_EVENTS_MAX, MERKLE_TREE_NEW_EVENTS_MIN, MERKLE_TREE_STEP_WORKSPACES_MAX,
};
use crate::log::chain::genesis;
use crate::log::floor::DeclaredFloor;
use crate::log::tree::Frontier;
use crate::log::verify::{Break, ChainCursor, ReadBounds};
use crate::op::{Chore, ChoreProcesses, ChoreRound, Feature, Read, Records, StepOutcome, Write};
use crate::stream::events::broken_log_error;
use crate::sync::lock;

pub(crate) fn feature() -> Feature {
    let pass = Mutex::default();
    Feature::new().records(vec![Records::table("checkpoints", "workspace_id").stays()]).chore(Chore {
        name: "checkpoints",
        every: |settings| settings.signer.is_some().then_some(SCAN_INTERVAL),
        lease: LEASE,
        who: ChoreProcesses::OneLeader,
        run: Box::new(move |round| grow_next_tree(round, &pass)),
    })
}

/// Time between two scans for logs with new events.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// Duration of the lease of the process that grows trees. If that process dies, another one takes over after
/// the lease expires.
const LEASE: Duration = Duration::from_secs(10);

/// The Merkle tree over a log, up to a position.
#[derive(Clone)]
pub(super) struct LogTree {
    workspace: WorkspaceId,
    cursor: ChainCursor,
    frontier: Frontier,
    /// The position of the stored tree when this tree was loaded; 0 if no tree was stored.
    stored_lsn: i64,
}

impl LogTree {
    /// Starts from the stored tree of a log, or at the log's floor if no stored tree matches the log.
    pub fn load_or_start(cx: &Read<'_>, workspace: WorkspaceId) -> Result<Self> {
        let range = LogRange::of(cx, workspace)?;
        let stored: Option<(i64, Vec<u8>)> = cx.one(SELECT_TREE, &[&workspace])?;
        let lsn = stored.as_ref().map_or(0, |(lsn, _)| *lsn);
        if let Some((lsn, frontier)) = stored
            && (range.floor..=range.head).contains(&lsn)
            && let (Some(hash), Some(frontier)) =
                (range.event_hash_in(cx, workspace, lsn)?, parse_frontier(lsn, &frontier))
        {
            let cursor = ChainCursor::after(workspace, lsn, Some(hash));
            return Ok(Self { workspace, cursor, frontier, stored_lsn: lsn });
        }
        let (cursor, frontier) = load_tree_at_floor(cx, workspace, range.floor)?;
        Ok(Self { workspace, cursor, frontier, stored_lsn: lsn })
    }

    /// Returns the position of the last event in the tree.
    pub fn lsn(&self) -> i64 {
        self.cursor.lsn()
    }

    /// Returns the hash of the last event in the tree.
    pub fn hash(&self) -> [u8; 32] {
        self.cursor.hash()
    }

    /// Returns the root hash of the tree.
    pub fn root(&self) -> [u8; 32] {
        self.frontier.root()
    }

    /// Verifies the next events of the log, up to the position `up_to`, and adds them to the tree.
    ///
    /// The inner result is an error if the chain is broken. The tree is then unchanged.
    pub fn grow(&mut self, cx: &Read<'_>, up_to: i64) -> Result<Result<(), Break>> {
        let bounds = ReadBounds { up_to, rows: FEED_READ_EVENTS_MAX, bytes: FEED_READ_BYTES, young: None };
        let mut grown = self.clone();
        let frontier = &mut grown.frontier;
        let read = grown.cursor.read(cx, bounds, |_, event| {
            frontier.push(&event.content_hash);
            true
        })?;
        if read.is_ok() {
            *self = grown;
        }
        Ok(read)
    }

    /// Stores the tree, unless another process has stored a different tree in the meantime.
    fn store(&self, cx: &mut Write<'_>) -> Result<()> {
        let stored: Option<(i64, Vec<u8>)> = cx.one(SELECT_TREE, &[&self.workspace])?;
        if stored.map_or(0, |(lsn, _)| lsn) != self.stored_lsn {
            return Ok(());
        }
        let frontier = self.frontier.subtrees().concat();
        cx.execute(1, UPSERT_TREE, &[&self.workspace, &self.lsn(), &frontier])
    }
}

const SELECT_TREE: &str = "select lsn, frontier from checkpoints where workspace_id = $1";

const UPSERT_TREE: &str = "
    insert into checkpoints (workspace_id, lsn, frontier) values ($1, $2, $3)
    on conflict (workspace_id) do update set lsn = excluded.lsn, frontier = excluded.frontier";

/// Parses the frontier of a tree with `lsn` leaves from the concatenated roots of its subtrees.
fn parse_frontier(lsn: i64, bytes: &[u8]) -> Option<Frontier> {
    let (roots, rest) = bytes.as_chunks::<32>();
    if !rest.is_empty() {
        return None;
    }
    Frontier::of(u64::try_from(lsn).ok()?, roots.to_vec())
}

/// Returns the position before the floor of a log, and the tree over the events up to that position.
///
/// The hash and the tree are read from the event of the newest pruning. If the log was never pruned, the hash
/// is the genesis hash and the tree is empty.
pub(crate) fn load_tree_at_floor(
    cx: &Read<'_>,
    workspace: WorkspaceId,
    floor: i64,
) -> Result<(ChainCursor, Frontier)> {
    let (hash, frontier) = match cx.one::<(String,)>(SELECT_LAST_PRUNING, &[&workspace])? {
        Some((payload,)) => {
            let declared = DeclaredFloor::of(&payload).filter(|declared| declared.floor == floor);
            let DeclaredFloor { prev_hash, frontier, .. } = declared
                .ok_or_else(|| Error::internal("the newest pruning of a log does not declare its floor"))?;
            (prev_hash, frontier)
        }
        None => (genesis(), Frontier::default()),
    };
    Ok((ChainCursor::after(workspace, floor.saturating_sub(1), Some(hash)), frontier))
}

const SELECT_LAST_PRUNING: &str = "
    select e.payload from heads h join events e on e.workspace_id = h.workspace_id and e.lsn = h.pruned_at
    where h.workspace_id = $1";

/// The result of searching workspaces for a tree to grow.
enum ScanResult {
    /// The pass has reached the last workspace.
    EndOfPass,
    /// No tree up to this workspace has enough new events.
    NoneUpTo(WorkspaceId),
    GrownTree(Box<LogTree>),
}

/// Progress of a pass over all workspaces, in the order of their ids.
#[derive(Default)]
struct WorkspacePass {
    last_workspace: Option<WorkspaceId>,
    /// Whether this pass has grown a tree. If so, another pass follows.
    has_grown: bool,
}

/// Grows and stores the tree of the next log that has enough new events.
///
/// Workspaces take turns, so no workspace delays the others.
fn grow_next_tree(round: &ChoreRound<'_>, pass: &Mutex<WorkspacePass>) -> Result<StepOutcome> {
    let WorkspacePass { last_workspace, has_grown } = std::mem::take(&mut *lock(pass));
    match round.read(move |cx| find_and_grow_tree(cx, last_workspace))? {
        ScanResult::EndOfPass => return Ok(if has_grown { StepOutcome::More } else { StepOutcome::Done }),
        ScanResult::NoneUpTo(workspace) => {
            *lock(pass) = WorkspacePass { last_workspace: Some(workspace), has_grown }
        }
        ScanResult::GrownTree(tree) => {
            let Some(lead) = round.lead()? else { return Ok(StepOutcome::Done) };
            *lock(pass) = WorkspacePass { last_workspace: Some(tree.workspace), has_grown: true };
            lead.write(tree.workspace, move |cx| tree.store(cx))?;
        }
    }
    Ok(StepOutcome::More)
}

/// Grows the tree of the next workspace after `last` that has enough new events, without storing it.
fn find_and_grow_tree(cx: &Read<'_>, last: Option<WorkspaceId>) -> Result<ScanResult> {
    let next = workspaces::next(cx, last, MERKLE_TREE_STEP_WORKSPACES_MAX)?;
    for workspace in &next {
        let head = LogRange::of(cx, *workspace)?.head;
        let mut tree = LogTree::load_or_start(cx, *workspace)?;
        if head.saturating_sub(tree.lsn()) < MERKLE_TREE_NEW_EVENTS_MIN {
            continue;
        }
        match tree.grow(cx, head)? {
            Ok(()) => return Ok(ScanResult::GrownTree(Box::new(tree))),
            // Callers of the snapshot operation receive this error.
            Err(broken) => {
                let error = broken_log_error(*workspace, broken);
                tracing::warn!(%workspace, %error, "a log cannot be included in a checkpoint");
            }
        }
    }
    Ok(next.last().map_or(ScanResult::EndOfPass, |workspace| ScanResult::NoneUpTo(*workspace)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frontier_that_does_not_fit_its_position_is_passed_over() {
        for (lsn, bytes, fits) in
            [(5, 64, true), (5, 63, false), (5, 32, false), (0, 0, true), (-1, 0, false), (8, 32, true)]
        {
            assert_eq!(parse_frontier(lsn, &vec![7; bytes]).is_some(), fits, "{lsn}, {bytes}");
        }
    }
}
