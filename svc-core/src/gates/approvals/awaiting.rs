//! Pending approval gates that the caller may accept.

use super::{ApprovalGate, StoredGate, gate_columns, is_agent};
use crate::Result;
use crate::capability::Capability::ApprovalGrant;
use crate::conversation::visibility::visible;
use crate::op::Read;

/// Returns the oldest pending approval gates that the caller may accept now, up to `limit`.
///
/// Only the oldest 2000 pending gates of the workspace are examined.
pub(in crate::gates) fn gates_to_decide(cx: &Read<'_>, limit: i64) -> Result<Vec<ApprovalGate>> {
    let caller = cx.caller();
    let Some(member) = caller.member else { return Ok(Vec::new()) };
    if caller.is_delegated() || !caller.capabilities.has(ApprovalGrant) || caller.frozen {
        return Ok(Vec::new());
    }
    let workspace = caller.workspace_id;
    let now = cx.now();
    let is_agent = is_agent(cx, member)?;
    let last = cx.horizon(PENDING_HORIZON, &[&workspace], 0)?.up_to();
    let params = caller.visibility.params();
    let params = params.and(&[&workspace, &now, &member, &limit, &last, &is_agent]);
    let gates: Vec<StoredGate> = cx.query(GATES_TO_DECIDE, &params)?;
    gates.into_iter().map(|gate| gate.into_gate(cx)).collect()
}

/// Query that uses the index of pending gates.
const GATES_TO_DECIDE: &str = concat!(
    "select ",
    gate_columns!(),
    " from approval_gates g join channels c on c.id = g.channel_id
     join threads t on t.id = g.thread_id
     where g.workspace_id = $5 and t.state <> 'archived' and g.lsn <= $9
         and g.state = 'pending' and (g.expires_at is null or g.expires_at > $6)
         and g.requested_by <> $7 and g.requested_actor_id <> $7 and not (g.needs_person and $10) and ",
    visible!(c),
    " order by g.lsn limit $8"
);

const PENDING_HORIZON: &str = "
    select lsn from approval_gates where workspace_id = $1 and state = 'pending' and lsn > $2
    order by lsn limit 1 offset $3";
