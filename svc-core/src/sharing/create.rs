//! Issuing share tickets: an administrator shares a channel that the administrator can see.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use secrecy::ExposeSecret;
use serde::Serialize;
use serde_json::json;

use super::artifacts;
use super::{ShareTicket, ShareTicketIssued};
use crate::conversation::visibility::{check_is_not_dm, visible_channel};
use crate::error::{Code, Error, Result};
use crate::hash::ArtifactSha;
use crate::id::{ChannelId, ShareTicketId};
use crate::identity::tokens::{EXPIRY, new_secret_with_prefix, requested_expiry};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{SHARE_ARTIFACTS_MAX, SHARE_TICKET_MAX_SECS};
use crate::log::event::Subject;
use crate::op::{Answer, Read, Write, secret_hash, secret_shown_once_error};
use crate::request::{dereferences, request};
use crate::schema::default_is;
use crate::store::new_row;
use crate::text::{Count, Items};
use crate::time::Time;

/// Prefix of the secrets of share tickets, which distinguishes them from API tokens.
const SECRET_PREFIX: &str = "svc_share_";

request! {
    /// Issues a share ticket, with which outsiders can read one channel, and returns the ticket.
    ///
    /// The ticket's `secret` is shown only once. Readers send it as `Authorization: ShareTicket <secret>` to
    /// the routes under `/share`; no other route accepts it. They can read the channel's live threads, with
    /// their messages and results, and the listed artifacts.
    ///
    /// You own the ticket: it ends when you are deactivated. A ticket issued by an app also ends with the
    /// app's installation. The ticket shows nothing while you cannot see the channel. It expires after at
    /// most 48 hours.
    ///
    /// Fails with 409 `wrong-state` if the channel is a direct message.
    #[derive(Serialize)]
    #[schemars(extend("allOf" = [
        {"oneOf": [{"required": ["expires_at"]}, {"required": ["expires_in_secs"]}]},
    ]))]
    pub(super) struct CreateShareTicket {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        /// The channel to share.
        channel_id: ChannelId,
        /// Time at which the ticket expires. Either this or `expires_in_secs` is required.
        expires_at: Option<Time>,
        /// Seconds until the ticket expires.
        expires_in_secs: Option<Count<1, SHARE_TICKET_MAX_SECS>>,
        /// The artifacts to share, each as the SHA-256 of its bytes.
        #[schemars(transform = default_is("none"))]
        #[serde(default)]
        artifact_shas: Items<ArtifactSha, SHARE_ARTIFACTS_MAX>,
    }

    create_share_ticket(channel_id: ChannelId) -> NewShareTicket
}

/// A new share ticket, with its secret.
#[derive(Serialize, JsonSchema)]
#[non_exhaustive]
pub struct NewShareTicket {
    #[serde(flatten)]
    pub ticket: ShareTicket,
    /// The secret to send as `Authorization: ShareTicket <secret>`. The secret is returned only once and
    /// never stored.
    pub secret: String,
}

crate::request::debug_without_secret! { NewShareTicket }

dereferences! { NewShareTicket => ticket: ShareTicket }

pub(super) fn create_share_ticket(cx: &mut Write<'_>, input: &CreateShareTicket) -> Result<NewShareTicket> {
    let workspace_id = input.workspace_id.of(cx)?;
    let owner_id = cx.caller().member_id()?;
    let expires_at = ticket_expiry(cx.now(), input.expires_at, input.expires_in_secs)?;
    let channel = visible_channel(cx, input.channel_id)?;
    check_is_not_dm(&channel)?;
    let artifact_shas: BTreeSet<ArtifactSha> = input.artifact_shas.iter().copied().collect();
    for sha in &artifact_shas {
        artifacts::find_artifact(cx, *sha)?;
    }
    let (id, secret): (ShareTicketId, _) = (cx.new_id()?, new_secret_with_prefix(cx, SECRET_PREFIX)?);
    let artifact_shas: Vec<ArtifactSha> = artifact_shas.into_iter().collect();
    let stored_shas = json!(artifact_shas).to_string();
    let channel_id = channel.id;
    let installation_id = cx.caller().installation;
    let event = ShareTicketIssued { ticket_id: id, channel_id, expires_at, artifact_shas, installation_id };
    let lsn = cx.emit(Subject::channel(channel.id).about(owner_id), &event)?.lsn;
    let ticket = ShareTicket {
        id,
        workspace_id,
        channel_id: channel.id,
        artifact_shas: event.artifact_shas,
        owner_id,
        creator: cx.caller().actor.unwrap_or(owner_id),
        created_at: cx.now(),
        expires_at,
        revoked_at: None,
        lsn,
    };
    cx.insert(&new_row!("insert into share_tickets" {
        id,
        workspace_id: ticket.workspace_id,
        channel_id: ticket.channel_id,
        owner_id,
        created_by: ticket.creator,
        installation_id,
        secret_hash: secret_hash(&secret),
        artifact_shas: stored_shas,
        created_at: ticket.created_at,
        expires_at,
        lsn,
    }))?;
    Ok(NewShareTicket { ticket, secret: secret.expose_secret().to_owned() })
}

impl Answer<CreateShareTicket> for NewShareTicket {
    type Kept = ShareTicketId;
    const REFUSES: &'static [Code] = &[Code::IdempotencyReplayed];

    fn kept(&self) -> Option<ShareTicketId> {
        Some(self.ticket.id)
    }

    fn answer_repeat(_: &Read<'_>, _: &CreateShareTicket, id: ShareTicketId) -> Result<Self> {
        Err(secret_shown_once_error(id))
    }
}

/// Returns the time at which the ticket expires. Fails if the time is more than 48 hours from now.
fn ticket_expiry(
    now: Time,
    at: Option<Time>,
    in_secs: Option<Count<1, SHARE_TICKET_MAX_SECS>>,
) -> Result<Time> {
    let expires_at = requested_expiry(now, at, in_secs)?
        .ok_or_else(|| Error::in_fields(&EXPIRY, "expected one of these fields: when the ticket expires"))?;
    let latest = now.plus(Duration::from_secs(SHARE_TICKET_MAX_SECS.unsigned_abs()));
    if expires_at > latest {
        return Err(Error::in_field(
            "expires_at",
            format!(
                "a share ticket is valid for at most {} hours: until {latest}",
                SHARE_TICKET_MAX_SECS / 3600
            ),
        ));
    }
    Ok(expires_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn a_ticket_lasts_two_days_at_most() {
        let at = |secs: i64| Time::from_micros(secs * 1_000_000);
        let now = at(1000);
        let secs = |secs| Some(Count::new(secs).unwrap());
        let longest = SHARE_TICKET_MAX_SECS;
        let latest = at(1000 + SHARE_TICKET_MAX_SECS);
        assert_eq!(longest, 48 * 60 * 60);
        assert_eq!(ticket_expiry(now, None, secs(1)).unwrap(), at(1001));
        assert_eq!(ticket_expiry(now, None, secs(longest)).unwrap(), latest);
        assert_eq!(ticket_expiry(now, Some(latest), None).unwrap(), latest);
        let too_late = Time::from_micros(latest.micros() + 1);
        for (at, secs) in [(Some(too_late), None), (Some(now), None), (None, None), (Some(latest), secs(1))] {
            assert_eq!(ticket_expiry(now, at, secs).unwrap_err().code(), Code::Malformed, "{at:?} {secs:?}");
        }
    }
}
