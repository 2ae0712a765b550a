//! Removing the rows of a workspace in bounded steps: what an import has left that has ended early.

use std::time::Duration;

use uuid::Uuid;

use crate::error::Result;
use crate::id::WorkspaceId;
use crate::op::{Chore, Round, Step, Who, Write};

/// Time between two looks for imports that have ended early.
const PULSE: Duration = Duration::from_secs(5);
const LEASE: Duration = Duration::from_secs(10);

/// Rows that one step removes.
const ROWS: i64 = 500;

/// The holder of an import whose rows are being removed.
pub(super) const REMOVED: Uuid = Uuid::nil();

pub(super) fn chore() -> Chore {
    Chore { name: "imports", every: |_| Some(PULSE), lease: LEASE, who: Who::OneLeader, run: Box::new(step) }
}

fn step(round: &Round<'_>) -> Result<Step> {
    let left = round.read(|cx| cx.one::<(String, WorkspaceId)>(LEFT, &[&cx.now()]))?;
    let Some((import, workspace)) = left else { return Ok(Step::Done) };
    let Some(lead) = round.lead()? else { return Ok(Step::Done) };
    lead.write(WorkspaceId::INSTANCE, move |cx| {
        let now = cx.now();
        // From here on nobody goes on with it.
        if cx.change(GIVE_UP, &[&import, &REMOVED, &now])? == 0 || remove_some(cx, workspace)? {
            return Ok(());
        }
        cx.execute(1, FORGET, &[&import])
    })?;
    Ok(Step::More)
}

const LEFT: &str =
    "select id, workspace_id from imports where outcome is null and until < $1 order by until limit 1";

const GIVE_UP: &str = "update imports set holder = $2 where id = $1 and outcome is null and until < $3";

const FORGET: &str = "delete from imports where id = $1 and outcome is null";

/// Removes some of the rows of a workspace. Returns whether there may be more.
fn remove_some(cx: &mut Write<'_>, workspace: WorkspaceId) -> Result<bool> {
    let mut left = ROWS;
    for records in cx.records().iter().rev().filter(|records| records.is_of_workspaces()) {
        let removed = cx.change(records.remove(), &[&workspace, &left])?;
        left = left.saturating_sub(i64::try_from(removed).unwrap_or(i64::MAX));
        if left <= 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
