//! Revoking: a share ticket stops at once, on every server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ShareTicketRevoked, load_ticket};
use crate::error::Result;
use crate::id::{ShareTicketId, WorkspaceId};
use crate::identity::workspaces::own_workspace;
use crate::log::event::Subject;
use crate::op::Write;
use crate::time::Time;

/// Revokes a share ticket. It stops working at once; revoking it again changes nothing.
///
/// A ticket for a channel that you may not see is not found.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RevokeShareTicket {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
    /// The ticket.
    ticket_id: ShareTicketId,
}

/// The end of a share ticket.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TicketRevocation {
    /// The ticket.
    id: ShareTicketId,
    /// When it was revoked.
    revoked_at: Time,
}

const REVOKE: &str = "update share_tickets set revoked_at = $2 where id = $1";

pub(super) fn revoke_share_ticket(cx: &mut Write<'_>, input: &RevokeShareTicket) -> Result<TicketRevocation> {
    own_workspace(cx, input.workspace_id)?;
    let ticket = load_ticket(cx, input.ticket_id)?;
    if let Some(revoked_at) = ticket.revoked_at {
        return Ok(TicketRevocation { id: ticket.id, revoked_at });
    }
    let subject = Subject::channel(ticket.channel_id).about(ticket.owner_id);
    cx.emit(subject, &ShareTicketRevoked { ticket_id: ticket.id })?;
    let revoked_at = cx.now();
    cx.execute(1, REVOKE, &[&ticket.id, &revoked_at])?;
    Ok(TicketRevocation { id: ticket.id, revoked_at })
}
