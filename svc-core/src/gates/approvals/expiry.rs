//! Expiry: the event of a gate whose time is over.
//!
//! Every read takes such a gate for expired before this has happened; the row and the log follow.

use std::time::Duration;

use super::decide::ApprovalDecided;
use super::{GateState, Stored, gate_columns};
use crate::Result;
use crate::id::WorkspaceId;
use crate::limits::REAP_TICK_SECS;
use crate::log::event::Subject;
use crate::op::{Chore, Round, Step, Who, Write};

/// Maximum number of workspaces per step.
const WORKSPACES: i64 = 100;
/// Maximum number of gates of one workspace per step, so that none delays the others.
const OF_ONE_WORKSPACE: i64 = 100;
/// The lease on the chore: two rounds, after which another process takes over from one that has died.
const LEASE: Duration = Duration::from_secs(2 * REAP_TICK_SECS.unsigned_abs());

/// Returns the chore that expires gates; its rounds are those of the reaper.
pub(super) fn chore() -> Chore {
    Chore {
        name: "approval-gates",
        every: |settings| settings.reap_tick,
        lease: LEASE,
        who: Who::OneLeader,
        run: Box::new(expire_some),
    }
}

/// Runs one step. A workspace whose gates cannot be expired does not affect others.
fn expire_some(round: &Round<'_>) -> Result<Step> {
    let due: Vec<(WorkspaceId,)> = round.read(|cx| cx.query(DUE, &[&cx.now(), &WORKSPACES]))?;
    if due.is_empty() {
        return Ok(Step::Done);
    }
    let Some(lead) = round.lead()? else { return Ok(Step::Done) };
    let (mut expired, mut failed) = (0_usize, None);
    for (workspace,) in due {
        match lead.write(workspace, expire) {
            Ok(count) => expired = expired.saturating_add(count),
            Err(error) => {
                let cause = error.cause();
                tracing::warn!(%workspace, %error, ?cause, "approval gates of a workspace did not expire");
                failed = Some(error);
            }
        }
    }
    match failed {
        _ if expired > 0 => Ok(Step::More),
        Some(error) => Err(error),
        None => Ok(Step::Done),
    }
}

const DUE: &str = "
    select distinct workspace_id from approval_gates
    where state = 'pending' and expires_at is not null and expires_at <= $1 limit $2";

/// Expires gates of the caller's workspace whose time is over, and returns how many.
fn expire(cx: &mut Write<'_>) -> Result<usize> {
    let due: Vec<Stored> = cx.query(OVER, &[&cx.caller().workspace_id, &cx.now(), &OF_ONE_WORKSPACE])?;
    for Stored(gate) in &due {
        let decided = ApprovalDecided {
            gate_id: gate.id,
            decision: None,
            state: GateState::Expired,
            resolved_by: None,
        };
        cx.emit(Subject::thread(gate.channel_id, gate.thread_id).about(gate.requested_by), &decided)?;
        cx.execute(1, EXPIRE, &[&gate.id])?;
    }
    Ok(due.len())
}

const OVER: &str = concat!(
    "select ",
    gate_columns!(),
    " from approval_gates g
     where g.workspace_id = $1 and g.state = 'pending' and g.expires_at is not null and g.expires_at <= $2
     order by g.expires_at, g.id limit $3"
);

const EXPIRE: &str = "
    update approval_gates set state = 'expired', resolved_at = expires_at
    where id = $1 and state = 'pending'";
