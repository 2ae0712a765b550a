//! Determines where a log begins, and checks the beginning of a pruned log.
//!
//! Pruning raises the floor, which is both in the head row and in an event, and removes events only after
//! that. So there may still be events below the floor. They must be intact, and be linked up to the floor.

use super::rows::{
    Head, HeadRow, PositionRow, Source, read_declared_floor, read_head_row, read_link, read_oldest_event,
};
use super::verifier::{Position, Verifier};
use super::{Break, Defect};
use crate::Result;
use crate::log::tree::Frontier;

/// Positions a verifier before the oldest stored event.
///
/// This event is read before the head: a floor never goes back, and only events below it are removed. The
/// link of the oldest event is trusted at first; [`check_declared_beginning`] verifies it after the walk.
pub(super) fn begin_at_oldest_event(
    source: &impl Source,
    verifier: &mut Verifier,
) -> Result<Result<(), Break>> {
    let workspace = verifier.workspace_id;
    let oldest = read_oldest_event(source, workspace)?;
    let (floor, pruned_at) = read_floor(source, verifier)?;
    verifier.floor = floor;
    if let Some(tree) = &mut verifier.tree {
        match (&oldest, read_declared_floor(source, workspace, pruned_at)?) {
            (Some(PositionRow(Some((lsn, _)))), Some(Some(declared))) if *lsn > 1 => {
                tree.begin(declared.frontier);
            }
            _ => tree.begin(Frontier::default()),
        }
    }
    Ok(match oldest {
        Some(PositionRow(Some((lsn, _)))) if lsn > 1 && lsn > floor => {
            Err(Break { lsn: floor.max(1), defect: Defect::Missing })
        }
        Some(PositionRow(Some((lsn, prev_hash)))) if lsn > 1 => {
            verifier.begin_after(Position { lsn: lsn.saturating_sub(1), hash: prev_hash })
        }
        _ => verifier.begin_after(Position::before_first_event()),
    })
}

/// Returns whether a walk missed events because they were pruned during the walk.
pub(super) fn is_pruned_during_walk(
    source: &impl Source,
    verifier: &Verifier,
    broken: Break,
) -> Result<bool> {
    if broken.defect != Defect::Missing {
        return Ok(false);
    }
    let Some(PositionRow(Some((oldest, _)))) = read_oldest_event(source, verifier.workspace_id)? else {
        return Ok(false);
    };
    let is_gone = oldest > broken.lsn && oldest > verifier.began_after.saturating_add(1);
    Ok(is_gone && oldest <= read_floor(source, verifier)?.0)
}

/// Returns the floor in the head row, and the position of the event that declared the floor.
///
/// If the head row cannot be read, returns the values of a log that was never pruned.
fn read_floor(source: &impl Source, verifier: &Verifier) -> Result<(i64, i64)> {
    Ok(match read_head_row(source, verifier.workspace_id)? {
        Some(HeadRow(Some(head))) => (head.floor, head.pruned_at),
        _ => (1, 0),
    })
}

/// Checks, after a walk up to `head`, that the log and its messages begin where the newest prunings have
/// declared.
///
/// Returns `None` if the log was pruned during the walk, so that the walk must be repeated.
pub(super) fn check_declared_beginning(
    source: &impl Source,
    verifier: &mut Verifier,
    head: Head,
) -> Result<Option<Result<(), Break>>> {
    let checked = check_floor(source, verifier, head)?;
    Ok(checked.map(|checked| checked.and_then(|()| verifier.check_purged_messages(head.words_floor))))
}

fn check_floor(
    source: &impl Source,
    verifier: &mut Verifier,
    head: Head,
) -> Result<Option<Result<(), Break>>> {
    let Head { floor, pruned_at, .. } = head;
    verifier.floor = floor;
    let newest = pruned_at.max(verifier.pruned_at);
    let broken = |lsn| Ok(Some(Err(Break { lsn, defect: Defect::Floor })));
    if pruned_at != verifier.pruned_at {
        return broken(newest);
    }
    if pruned_at == 0 {
        return if floor == 1 && verifier.began_after == 0 { Ok(Some(Ok(()))) } else { broken(verifier.lsn) };
    }
    let Some(declared) = read_declared_floor(source, verifier.workspace_id, pruned_at)? else {
        return Ok(None);
    };
    let Some(declared) = declared else { return broken(pruned_at) };
    if declared.floor != floor || floor > pruned_at || floor <= verifier.began_after {
        return broken(pruned_at);
    }
    match read_link(source, verifier.workspace_id, floor)? {
        None => Ok(None),
        Some(PositionRow(Some((_, hash)))) if hash == declared.prev_hash => Ok(Some(Ok(()))),
        Some(_) => broken(pruned_at),
    }
}
