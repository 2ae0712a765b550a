//! Revoking share tickets. A revoked ticket stops working on every server immediately.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ShareTicketRevoked, load_ticket};
use crate::error::Result;
use crate::id::{ChannelId, MemberId, ShareTicketId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::event::{RecordedEvent, Subject};
use crate::op::{Answer, Read, Write};
use crate::request::request;
use crate::time::Time;

request! {
    /// Revokes a share ticket, which stops working immediately. Revoking a ticket again changes nothing.
    ///
    /// The ticket is not found if you cannot see its channel.
    #[derive(Serialize)]
    pub(super) struct RevokeShareTicket {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        /// The ticket to revoke.
        ticket_id: ShareTicketId,
    }

    revoke_share_ticket(ticket_id: ShareTicketId) -> TicketRevocation
}

/// The revocation of a share ticket.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TicketRevocation {
    /// Id of the revoked ticket.
    pub id: ShareTicketId,
    /// Time at which the ticket was revoked.
    pub revoked_at: Time,
}

const REVOKE_TICKET: &str = "update share_tickets set revoked_at = $2 where id = $1";

pub(super) fn revoke_share_ticket(cx: &mut Write<'_>, input: &RevokeShareTicket) -> Result<TicketRevocation> {
    input.workspace_id.of(cx)?;
    let ticket = load_ticket(cx, input.ticket_id)?;
    if let Some(revoked_at) = ticket.revoked_at {
        return Ok(TicketRevocation { id: ticket.id, revoked_at });
    }
    revoke_ticket(cx, ticket.id, ticket.channel_id, ticket.owner_id)?;
    Ok(TicketRevocation { id: ticket.id, revoked_at: cx.now() })
}

impl Answer<RevokeShareTicket> for TicketRevocation {
    type Kept = Self;

    fn kept(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn answer_repeat(cx: &Read<'_>, _: &RevokeShareTicket, kept: Self) -> Result<Self> {
        load_ticket(cx, kept.id)?;
        Ok(kept)
    }
}

/// Emits the event of the revocation, and marks the ticket as revoked.
fn revoke_ticket(cx: &mut Write<'_>, id: ShareTicketId, channel: ChannelId, owner: MemberId) -> Result<()> {
    cx.emit(Subject::channel(channel).about(owner), &ShareTicketRevoked { ticket_id: id })?;
    let now = cx.now();
    cx.execute(1, REVOKE_TICKET, &[&id, &now])
}

/// Selects the live tickets that a member owns or has issued, each through its own index.
const LIVE_OF_MEMBER: &str = "
    select id, channel_id, owner_id from (
        select s.id, s.channel_id, s.owner_id, s.lsn from share_tickets s
        where s.owner_id = $1 and s.revoked_at is null and s.expires_at > $2
        union
        select s.id, s.channel_id, s.owner_id, s.lsn from share_tickets s
        where s.created_by = $1 and s.revoked_at is null and s.expires_at > $2
    ) live order by live.lsn";

/// Revokes the tickets that deactivated members own or have issued. Reactivating a member does not restore
/// the tickets.
pub(super) fn revoke_tickets_of_deactivated(cx: &mut Write<'_>, events: &[RecordedEvent]) -> Result<()> {
    let now = cx.now();
    for member in events.iter().filter_map(|event| event.subject.member_id) {
        let ending: Vec<(ShareTicketId, ChannelId, MemberId)> = cx.query(LIVE_OF_MEMBER, &[&member, &now])?;
        for (id, channel, owner) in ending {
            revoke_ticket(cx, id, channel, owner)?;
        }
    }
    Ok(())
}
