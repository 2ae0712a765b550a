//! The chore that removes the remaining rows of erased workspaces and of abandoned imports.

use std::time::Duration;

use uuid::Uuid;

use super::erase::erase_some_rows;
use super::removal::{RemovalProgress, remove_some_rows};
use crate::error::Result;
use crate::id::WorkspaceId;
use crate::identity::workspaces;
use crate::op::{Chore, ChoreProcesses, ChoreRound, Read, StepOutcome, Write};
use crate::time::Time;

/// Time between two scans for abandoned imports.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);
/// Duration of the lease of the process that removes rows.
const LEASE: Duration = Duration::from_secs(10);

/// Holder id of an import while its rows are being removed.
pub(super) const REMOVAL_HOLDER: Uuid = Uuid::nil();

pub(super) fn chore() -> Chore {
    Chore {
        name: "removals",
        every: |_| Some(SCAN_INTERVAL),
        lease: LEASE,
        who: ChoreProcesses::OneLeader,
        run: Box::new(remove_next_rows),
    }
}

/// Removes the remaining rows of workspaces that are being erased and of abandoned imports.
///
/// If one removal fails, the next one is tried. The failure is reported only if no other removal succeeds.
fn remove_next_rows(round: &ChoreRound<'_>) -> Result<StepOutcome> {
    let mut last = WorkspaceId::INSTANCE;
    let mut failed = None;
    while let Some(workspace) = round.read(move |cx| workspaces::erasing(cx, last))? {
        let Some(lead) = round.lead()? else { return Ok(StepOutcome::Done) };
        match lead.write(WorkspaceId::INSTANCE, move |cx| erase_some_rows(cx, workspace)) {
            Ok(_) => return Ok(StepOutcome::More),
            Err(error) => failed = Some(error),
        }
        last = workspace;
    }
    let mut last = (Time::from_micros(0), String::new());
    loop {
        let after = last.clone();
        let Some((import, workspace, until)) = round.read(move |cx| next_abandoned_import(cx, &after))?
        else {
            break;
        };
        let Some(lead) = round.lead()? else { return Ok(StepOutcome::Done) };
        last = (until, import.clone());
        match lead.write(WorkspaceId::INSTANCE, move |cx| remove_staged_rows(cx, &import, workspace)) {
            Ok(()) => return Ok(StepOutcome::More),
            Err(error) => failed = Some(error),
        }
    }
    failed.map_or(Ok(StepOutcome::Done), Err)
}

/// Returns the next abandoned import after `until` and `import`, in the order of expiry times and ids.
fn next_abandoned_import(
    cx: &Read<'_>,
    (until, import): &(Time, String),
) -> Result<Option<(String, WorkspaceId, Time)>> {
    cx.one(SELECT_ABANDONED, &[&cx.now(), until, import])
}

/// Removes some rows of an abandoned import, and finally the import itself.
pub(super) fn remove_staged_rows(cx: &mut Write<'_>, import: &str, workspace: WorkspaceId) -> Result<()> {
    let now = cx.now();
    // After this, no call can continue the import.
    if cx.change(MARK_REMOVED, &[&import, &REMOVAL_HOLDER, &now])? == 0 {
        return Ok(());
    }
    let stored = cx.one::<(Option<String>,)>(SELECT_PROGRESS, &[&import])?.and_then(|(place,)| place);
    let mut progress = RemovalProgress::parse(stored.as_deref())?;
    match remove_some_rows(cx, workspace, &mut progress)? {
        true => cx.execute(1, SET_PROGRESS, &[&import, &progress.to_json()?]),
        false => cx.execute(1, DELETE_IMPORT, &[&import]),
    }
}

const SELECT_ABANDONED: &str = "
    select id, workspace_id, until from imports
    where outcome is null and until < $1 and (until, id) > ($2, $3) order by until, id limit 1";

const MARK_REMOVED: &str = "
    update imports set holder = $2
    where id = $1 and outcome is null and (until < $3 or holder = $2)";

const SELECT_PROGRESS: &str = "select place from imports where id = $1";

const SET_PROGRESS: &str = "update imports set place = $2 where id = $1";

const DELETE_IMPORT: &str = "delete from imports where id = $1 and outcome is null";
