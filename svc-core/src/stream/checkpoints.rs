//! The progress of the Merkle tree over each log, so that a checkpoint reads only the newest events.
//!
//! A table has the frontier of each tree up to a position that a chore advances, a bounded number of events
//! at a time, each of which is verified before it becomes a leaf. It is a cache: verifying a log builds the
//! whole tree again, and a row that does not fit the log is ignored. Nothing is stored if the service signs
//! nothing.

use std::sync::Mutex;
use std::time::Duration;

use crate::Result;
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::identity::floor::LogRange;
use crate::identity::workspaces;
use crate::limits::{CHECKPOINT_LAG, CHECKPOINT_WORKSPACES, FEED_READ_BYTES, FEED_READ_ROWS};
use crate::log::chain::genesis;
use crate::log::floor::DeclaredFloor;
use crate::log::tree::Frontier;
use crate::log::verify::{Break, ChainCursor, ReadBounds};
use crate::op::{Chore, ChoreProcesses, ChoreRound, Feature, Read, Records, StepOutcome, Write};
use crate::stream::events::broken_log;
use crate::sync::lock;

pub(crate) fn feature() -> Feature {
    let pass = Mutex::default();
    Feature::new().records(vec![Records::table("checkpoints", "workspace_id").stays()]).chore(Chore {
        name: "checkpoints",
        every: |settings| settings.signer.is_some().then_some(PULSE),
        lease: LEASE,
        who: ChoreProcesses::OneLeader,
        run: Box::new(move |round| step(round, &pass)),
    })
}

/// Time between two scans for logs that have grown.
const PULSE: Duration = Duration::from_secs(5);

/// The lease on growing trees, after which another process replaces one that has died.
const LEASE: Duration = Duration::from_secs(10);

/// The tree over a log, up to a position.
#[derive(Clone)]
pub(super) struct LogTree {
    workspace: WorkspaceId,
    cursor: ChainCursor,
    frontier: Frontier,
    /// The position in the table from which it was continued; 0 without one.
    kept: i64,
}

impl LogTree {
    /// Begins with the stored tree of a log, or at its floor.
    pub fn begin(cx: &Read<'_>, workspace: WorkspaceId) -> Result<Self> {
        let range = LogRange::of(cx, workspace)?;
        let kept: Option<(i64, Vec<u8>)> = cx.one(KEPT, &[&workspace])?;
        let lsn = kept.as_ref().map_or(0, |(lsn, _)| *lsn);
        if let Some((lsn, frontier)) = kept
            && (range.floor..=range.head).contains(&lsn)
            && let (Some(hash), Some(frontier)) =
                (range.hash_in(cx, workspace, lsn)?, frontier_of(lsn, &frontier))
        {
            let cursor = ChainCursor::after(workspace, lsn, Some(hash));
            return Ok(Self { workspace, cursor, frontier, kept: lsn });
        }
        let (cursor, frontier) = at_floor(cx, workspace, range.floor)?;
        Ok(Self { workspace, cursor, frontier, kept: lsn })
    }

    /// Returns the position up to which it was grown.
    pub fn lsn(&self) -> i64 {
        self.cursor.lsn()
    }

    /// Returns the hash of the event at that position.
    pub fn hash(&self) -> [u8; 32] {
        self.cursor.hash()
    }

    /// Returns the root of the tree.
    pub fn root(&self) -> [u8; 32] {
        self.frontier.root()
    }

    /// Adds the next events up to a position of the log, each of which is verified before.
    ///
    /// The inner error is a break of the chain.
    pub fn grow(&mut self, cx: &Read<'_>, up_to: i64) -> Result<Result<(), Break>> {
        let bounds = ReadBounds { up_to, rows: FEED_READ_ROWS, bytes: FEED_READ_BYTES, young: None };
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

    /// Stores it, unless another process has stored a different one in between.
    fn keep(&self, cx: &mut Write<'_>) -> Result<()> {
        let kept: Option<(i64, Vec<u8>)> = cx.one(KEPT, &[&self.workspace])?;
        if kept.map_or(0, |(lsn, _)| lsn) != self.kept {
            return Ok(());
        }
        let frontier = self.frontier.subtrees().concat();
        cx.execute(1, KEEP, &[&self.workspace, &self.lsn(), &frontier])
    }
}

const KEPT: &str = "select lsn, frontier from checkpoints where workspace_id = $1";

const KEEP: &str = "
    insert into checkpoints (workspace_id, lsn, frontier) values ($1, $2, $3)
    on conflict (workspace_id) do update set lsn = excluded.lsn, frontier = excluded.frontier";

/// Reads a frontier from the roots of its subtrees, one after the other.
fn frontier_of(lsn: i64, bytes: &[u8]) -> Option<Frontier> {
    let (roots, rest) = bytes.as_chunks::<32>();
    if !rest.is_empty() {
        return None;
    }
    Frontier::of(u64::try_from(lsn).ok()?, roots.to_vec())
}

/// Returns the position before the floor of a log, and the tree over the events up to it.
///
/// Both are as the newest pruning has declared them.
pub(crate) fn at_floor(cx: &Read<'_>, workspace: WorkspaceId, floor: i64) -> Result<(ChainCursor, Frontier)> {
    let (hash, frontier) = match cx.one::<(String,)>(DECLARED, &[&workspace])? {
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

const DECLARED: &str = "
    select e.payload from heads h join events e on e.workspace_id = h.workspace_id and e.lsn = h.pruned_at
    where h.workspace_id = $1";

/// The result of a scan for a tree to grow.
enum ScanResult {
    Nothing,
    NothingUntil(WorkspaceId),
    Grown(Box<LogTree>),
}

/// A pass over all workspaces, by their ids.
#[derive(Default)]
struct WorkspacePass {
    last: Option<WorkspaceId>,
    /// Whether it has grown a tree, so that there may be more.
    has_grown: bool,
}

/// Grows the tree of the next log that has grown.
///
/// Each workspace has its turn, so that none delays the others.
fn step(round: &ChoreRound<'_>, pass: &Mutex<WorkspacePass>) -> Result<StepOutcome> {
    let WorkspacePass { last, has_grown } = std::mem::take(&mut *lock(pass));
    match round.read(move |cx| find(cx, last))? {
        ScanResult::Nothing => return Ok(if has_grown { StepOutcome::More } else { StepOutcome::Done }),
        ScanResult::NothingUntil(workspace) => {
            *lock(pass) = WorkspacePass { last: Some(workspace), has_grown }
        }
        ScanResult::Grown(tree) => {
            let Some(lead) = round.lead()? else { return Ok(StepOutcome::Done) };
            *lock(pass) = WorkspacePass { last: Some(tree.workspace), has_grown: true };
            lead.write(tree.workspace, move |cx| tree.keep(cx))?;
        }
    }
    Ok(StepOutcome::More)
}

fn find(cx: &Read<'_>, last: Option<WorkspaceId>) -> Result<ScanResult> {
    let next = workspaces::next(cx, last, CHECKPOINT_WORKSPACES)?;
    for workspace in &next {
        let head = LogRange::of(cx, *workspace)?.head;
        let mut tree = LogTree::begin(cx, *workspace)?;
        if head.saturating_sub(tree.lsn()) < CHECKPOINT_LAG {
            continue;
        }
        match tree.grow(cx, head)? {
            Ok(()) => return Ok(ScanResult::Grown(Box::new(tree))),
            // Callers of the snapshot receive the error.
            Err(broken) => {
                let error = broken_log(*workspace, broken);
                tracing::warn!(%workspace, %error, "no checkpoint can be made of a log");
            }
        }
    }
    Ok(next.last().map_or(ScanResult::Nothing, |workspace| ScanResult::NothingUntil(*workspace)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frontier_that_does_not_fit_its_position_is_passed_over() {
        for (lsn, bytes, fits) in
            [(5, 64, true), (5, 63, false), (5, 32, false), (0, 0, true), (-1, 0, false), (8, 32, true)]
        {
            assert_eq!(frontier_of(lsn, &vec![7; bytes]).is_some(), fits, "{lsn}, {bytes}");
        }
    }
}
