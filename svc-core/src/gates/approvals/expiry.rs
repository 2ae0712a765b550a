//! Expiry of approval gates: emits the event for each gate whose expiry time has passed.
//!
//! Reads report a gate as expired as soon as its expiry time has passed. The chore updates the row and the
//! log later.

use uuid::Uuid;

use super::decide::ApprovalDecided;
use super::{GateState, StoredGate, gate_columns};
use crate::Result;
use crate::identity::workspaces::is_live;
use crate::log::event::Subject;
use crate::op::{Chore, DueObjects, Write};

/// Returns the chore that marks approval gates as expired.
pub(super) fn chore() -> Chore {
    DueObjects { next: DUE_GATES, settle: expire_gates }.chore("approval-gates")
}

/// Query that uses the index of pending gates that have an expiry time.
const DUE_GATES: &str = concat!(
    "select g.expires_at, g.id, g.workspace_id from approval_gates g
     where g.state = 'pending' and g.expires_at is not null and g.expires_at <= $1
        and (g.expires_at, g.id) > ($2, $3) and ",
    is_live!("g.workspace_id"),
    " order by g.expires_at, g.id limit $4"
);

/// Marks the gates in `gate_ids` as expired whose expiry time has passed.
///
/// Skips gates that are not pending or are not in the caller's workspace.
fn expire_gates(cx: &mut Write<'_>, gate_ids: &[Uuid]) -> Result<()> {
    for id in gate_ids {
        let due: Option<StoredGate> = cx.one(DUE_GATE_BY_ID, &[id, &cx.caller().workspace_id, &cx.now()])?;
        let Some(StoredGate(gate)) = due else { continue };
        let decided = ApprovalDecided {
            gate_id: gate.id,
            decision: None,
            state: GateState::Expired,
            resolved_by: None,
        };
        cx.emit(Subject::thread(gate.channel_id, gate.thread_id).about(gate.requested_by), &decided)?;
        cx.execute(1, EXPIRE_GATE, &[&gate.id])?;
    }
    Ok(())
}

const DUE_GATE_BY_ID: &str = concat!(
    "select ",
    gate_columns!(),
    " from approval_gates g
     where g.id = $1 and g.workspace_id = $2
        and g.state = 'pending' and g.expires_at is not null and g.expires_at <= $3"
);

const EXPIRE_GATE: &str = "
    update approval_gates set state = 'expired', resolved_at = expires_at
    where id = $1 and state = 'pending'";
