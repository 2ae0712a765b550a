//! Expiry: the event of a gate whose time is over.
//!
//! Every read takes such a gate for expired before this has happened; the row and the log follow. A round
//! goes through the gates that are due in the order of their ends, once, so that each has its turn whatever
//! fails before it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use uuid::Uuid;

use super::decide::ApprovalDecided;
use super::{GateState, Stored, gate_columns};
use crate::Result;
use crate::error::Error;
use crate::id::{GateId, WorkspaceId};
use crate::identity::workspaces::is_live;
use crate::limits::REAP_TICK_SECS;
use crate::log::event::Subject;
use crate::op::{Chore, Round, Step, Who, Write};
use crate::sync::lock;
use crate::time::Time;

/// Maximum number of gates per step.
const OF_ONE_STEP: i64 = 200;
/// The lease on the chore: two rounds, after which another process takes over from one that has died.
const LEASE: Duration = Duration::from_secs(2 * REAP_TICK_SECS.unsigned_abs());

/// Returns the chore that expires gates; its rounds are those of the reaper.
pub(super) fn chore() -> Chore {
    let progress = Mutex::new(Progress::default());
    Chore {
        name: "approval-gates",
        every: |settings| settings.reap_tick,
        lease: LEASE,
        who: Who::OneLeader,
        run: Box::new(move |round| {
            let before = std::mem::take(&mut *lock(&progress));
            match expire_some(round, before)? {
                Some(after) => {
                    *lock(&progress) = after;
                    Ok(Step::More)
                }
                None => Ok(Step::Done),
            }
        }),
    }
}

/// How far a round has come.
struct Progress {
    /// The end and the id of the last gate that it has looked at.
    last: (Time, GateId),
    /// What has failed in it.
    failed: Option<Error>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { last: (Time::from_micros(i64::MIN), Uuid::nil().into()), failed: None }
    }
}

/// Runs one step, and returns how far the round has come; none at its end.
///
/// A workspace whose gates cannot be expired does not affect others, and is reported at the end.
fn expire_some(round: &Round<'_>, before: Progress) -> Result<Option<Progress>> {
    let Progress { last: (end, id), mut failed } = before;
    let due: Vec<(Time, GateId, WorkspaceId)> =
        round.read(move |cx| cx.query(DUE, &[&cx.now(), &end, &id, &OF_ONE_STEP]))?;
    let Some((end, id, _)) = due.last().copied() else { return failed.map_or(Ok(None), Err) };
    let Some(lead) = round.lead()? else { return Ok(None) };
    let mut of_workspaces: BTreeMap<WorkspaceId, Vec<GateId>> = BTreeMap::new();
    for (_, gate, workspace) in due {
        of_workspaces.entry(workspace).or_default().push(gate);
    }
    for (workspace, gates) in of_workspaces {
        if let Err(error) = lead.write(workspace, move |cx| expire(cx, &gates)) {
            let cause = error.cause();
            tracing::warn!(%workspace, %error, ?cause, "approval gates of a workspace did not expire");
            failed = Some(error);
        }
    }
    Ok(Some(Progress { last: (end, id), failed }))
}

/// By the index of pending gates that expire.
const DUE: &str = concat!(
    "select g.expires_at, g.id, g.workspace_id from approval_gates g
     where g.state = 'pending' and g.expires_at is not null and g.expires_at <= $1
        and (g.expires_at, g.id) > ($2, $3) and ",
    is_live!("g.workspace_id"),
    " order by g.expires_at, g.id limit $4"
);

/// Expires those of the gates of the caller's workspace that are pending and whose time is over.
fn expire(cx: &mut Write<'_>, gates: &[GateId]) -> Result<()> {
    for id in gates {
        let due: Option<Stored> = cx.one(OVER, &[id, &cx.caller().workspace_id, &cx.now()])?;
        let Some(Stored(gate)) = due else { continue };
        let decided = ApprovalDecided {
            gate_id: gate.id,
            decision: None,
            state: GateState::Expired,
            resolved_by: None,
        };
        cx.emit(Subject::thread(gate.channel_id, gate.thread_id).about(gate.requested_by), &decided)?;
        cx.execute(1, EXPIRE, &[&gate.id])?;
    }
    Ok(())
}

const OVER: &str = concat!(
    "select ",
    gate_columns!(),
    " from approval_gates g
     where g.id = $1 and g.workspace_id = $2
        and g.state = 'pending' and g.expires_at is not null and g.expires_at <= $3"
);

const EXPIRE: &str = "
    update approval_gates set state = 'expired', resolved_at = expires_at
    where id = $1 and state = 'pending'";
