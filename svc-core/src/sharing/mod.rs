//! Sharing: share tickets, with which readers outside the workspace can read one channel for up to two days.
//!
//! An administrator issues a ticket for a channel that the administrator can see, and passes the secret on;
//! the service stores only the hash of the secret. Bearers of the secret can read the data that
//! `ticket_reads` defines, and cannot change anything. A ticket ends when it is revoked or expires, when its
//! owner or its issuer is deactivated, and with the app installation that issued it. A ticket shows nothing
//! while its owner cannot see the channel. This file defines tickets and their events, and lists tickets. The
//! service does not store artifacts yet, so a ticket cannot list any.

mod artifacts;
pub(crate) mod create;
pub(crate) mod revoke;
mod ticket_reads;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::Result;
use crate::capability::Capability::TokenAdmin;
use crate::capability::Right;
use crate::conversation::visibility::visible;
use crate::error::{Code, Error};
use crate::hash::ArtifactSha;
use crate::id::{ChannelId, InstallationId, MemberId, ShareTicketId, WorkspaceId};
use crate::identity::member_ends::MemberDeactivated;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::event::{CachedEntryKind, Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{Feature, Fixture, Frame, Operation, Read, Records, Sample, destructive, read, write};
use crate::page::{Cursor, Limit, Page, ScanHorizon, rows_to_read};
use crate::request::request;
use crate::store::columns;
use crate::time::Time;

/// A share ticket, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ShareTicket {
    /// Id of the ticket. The id is not a credential; only the secret is.
    pub id: ShareTicketId,
    /// Id of the channel's workspace.
    pub workspace_id: WorkspaceId,
    /// Id of the shared channel.
    pub channel_id: ChannelId,
    /// SHA-256 sums of the shared artifacts, in ascending order.
    pub artifact_shas: Vec<ArtifactSha>,
    /// Id of the member who owns the ticket. The ticket ends when the owner is deactivated.
    pub owner_id: MemberId,
    /// Id of the member who issued the ticket. It differs from `owner_id` only if a delegate issued the
    /// ticket.
    pub creator: MemberId,
    /// Time at which the ticket was issued.
    pub created_at: Time,
    /// Time at which the ticket expires.
    pub expires_at: Time,
    /// Time at which the ticket was revoked; null if the ticket was not revoked.
    pub revoked_at: Option<Time>,
    #[serde(skip)]
    lsn: i64,
}

columns! {
    ticket_columns: ShareTicket as s {
        id,
        workspace_id,
        channel_id,
        owner_id,
        creator = created_by,
        created_at,
        expires_at,
        revoked_at,
        lsn,
    }
    read { shas: Json = artifact_shas }
    make { artifact_shas: serde_json::from_value(shas).map_err(Error::internal)? }
}

/// A share ticket was issued.
#[derive(Debug, Serialize, JsonSchema)]
struct ShareTicketIssued {
    /// Id of the new ticket.
    ticket_id: ShareTicketId,
    /// Id of the shared channel.
    channel_id: ChannelId,
    /// Time at which the ticket expires.
    expires_at: Time,
    /// SHA-256 sums of the shared artifacts.
    artifact_shas: Vec<ArtifactSha>,
    /// Id of the app installation that issued the ticket; null if no app issued the ticket. The ticket ends
    /// with the installation.
    installation_id: Option<InstallationId>,
}

impl Event for ShareTicketIssued {
    const KIND: &'static str = "ShareTicketIssued";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let owner = event.member();
        let actor = event.actor();
        let creator = if actor.is_null() { owner.clone() } else { actor };
        let ticket = event.row_of("share_tickets", "ticket_id")?.made();
        let ticket = ticket.copy("channel_id expires_at installation_id");
        let ticket = ticket.set("owner_id", owner).set("created_by", creator);
        let shas = event.field("artifact_shas").map(|shas| shas.to_string().into());
        let ticket = ticket.set_known("artifact_shas", shas).set("created_at", event.at());
        ticket.clear("revoked_at").set("lsn", event.lsn()).keep()
    }
}

/// A share ticket was revoked.
#[derive(Debug, Serialize, JsonSchema)]
struct ShareTicketRevoked {
    /// Id of the revoked ticket.
    ticket_id: ShareTicketId,
}

impl Event for ShareTicketRevoked {
    const KIND: &'static str = "ShareTicketRevoked";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("share_tickets", "ticket_id")?.set("revoked_at", event.at()).keep()
    }
}

pub(crate) fn feature() -> Feature {
    let ticket = |w: &Fixture| {
        json!({"workspace_id": w.id("workspace"), "channel_id": w.id("channel"),
               "expires_in_secs": 86_400, "artifact_shas": []})
    };
    Feature::new()
        .operations(
            "sharing",
            vec![
                write("create_share_ticket", create::create_share_ticket)
                    .title("Share a channel with an outsider")
                    .when("Issue a share ticket, a secret with which an outsider can read one channel.")
                    .post("/workspaces/{workspace_id}/share-tickets")
                    .needs(&[TokenAdmin])
                    .created()
                    .refuses(&[Code::WrongState])
                    .example(ticket),
                read("list_share_tickets", list_share_tickets)
                    .title("List the share tickets of a workspace")
                    .when(
                        "List the share tickets that let outsiders read channels. Use `revoke_share_ticket` \
                         to end one.",
                    )
                    .detailed()
                    .get("/workspaces/{workspace_id}/share-tickets")
                    .needs(&[TokenAdmin])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
                destructive("revoke_share_ticket", revoke::revoke_share_ticket)
                    .title("Revoke a share ticket")
                    .when("Revoke a share ticket, so that outsiders can no longer read the channel with it.")
                    .delete("/workspaces/{workspace_id}/share-tickets/{ticket_id}")
                    .needs(&[TokenAdmin])
                    .example(
                        |w| json!({"workspace_id": w.id("workspace"), "ticket_id": w.id("share_ticket")}),
                    ),
            ],
        )
        .operations("sharing", ticket_operations())
        .events(vec![
            EventKind::of::<ShareTicketIssued>(),
            EventKind::of::<ShareTicketRevoked>().invalidates(CachedEntryKind::Access),
        ])
        .projector(&[MemberDeactivated::KIND], revoke::revoke_tickets_of_deactivated)
        .sample(Sample::new("share_ticket", "create_share_ticket", ticket))
        .records(vec![
            Records::table("share_tickets", "id")
                .erased_first()
                .after("channels")
                .after("app_installations")
                .stays()
                .ids("id workspace_id channel_id owner_id created_by installation_id")
                .texts("artifact_shas")
                .times("created_at expires_at revoked_at")
                .ints("lsn")
                .secrets("secret_hash")
                .proven(
                    "id",
                    "channel_id owner_id created_by installation_id artifact_shas created_at expires_at \
                     revoked_at lsn",
                ),
        ])
}

/// Returns the operations that only the bearer of a share ticket can call.
fn ticket_operations() -> Vec<Operation> {
    let rows = vec![
        read("get_share_manifest", ticket_reads::get_share_manifest)
            .title("Read the manifest of a share ticket")
            .get("/share/manifest")
            .example(|_| json!({})),
        read("list_shared_threads", ticket_reads::list_shared_threads)
            .title("List the threads of a shared channel")
            .get("/share/threads")
            .example(|_| json!({"limit": 10})),
        read("list_shared_messages", ticket_reads::list_shared_messages)
            .title("List the messages of a shared thread")
            .get("/share/threads/{thread_id}/messages")
            .example(|w| json!({"thread_id": w.id("thread"), "limit": 10})),
        read("get_shared_artifact", ticket_reads::get_shared_artifact)
            .title("Read a shared artifact")
            .get("/share/artifacts/{sha256}")
            .example(|_| json!({"sha256": "00".repeat(32)})),
    ];
    rows.into_iter().map(|row| row.framed(Frame::Share).needs(&[Right::Ticket])).collect()
}

request! {
    /// Returns the share tickets of a workspace, in the order in which they were issued.
    ///
    /// Expired and revoked tickets are included; tickets for channels that you cannot see are omitted.
    ///
    /// One page covers up to 2000 tickets, so it may be short or empty although more tickets follow: continue
    /// while `next_cursor` is not null. Secrets are never returned.
    struct ListShareTickets {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_share_tickets() -> Page<ShareTicket>
}

const LIST_TICKETS: &str = concat!(
    "select ",
    ticket_columns!(),
    " from share_tickets s join channels c on c.id = s.channel_id
     where s.workspace_id = $5 and s.lsn > $6 and s.lsn <= $8 and ",
    visible!(c),
    " order by s.lsn limit $7"
);

const TICKET_SCAN_HORIZON: &str =
    "select lsn from share_tickets where workspace_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

fn list_share_tickets(cx: &Read<'_>, input: &ListShareTickets) -> Result<Page<ShareTicket>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let limit = rows_to_read(input.limit);
    let horizon: ScanHorizon = cx.horizon(TICKET_SCAN_HORIZON, &[&workspace_id], after)?;
    let visibility = cx.caller().visibility.params();
    let last = horizon.up_to();
    let rows = cx.rows(LIST_TICKETS, &visibility.and(&[&workspace_id, &after, &limit, &last]))?;
    Ok(Page::within(horizon, rows, input.limit, |ticket: &ShareTicket| ticket.lsn))
}

const SELECT_TICKET: &str = concat!(
    "select ",
    ticket_columns!(),
    " from share_tickets s join channels c on c.id = s.channel_id
     where s.id = $5 and s.workspace_id = $6 and ",
    visible!(c)
);

/// Loads a share ticket of the caller's workspace. Fails with *not found* if the caller cannot see the
/// ticket's channel.
fn load_ticket(cx: &Read<'_>, id: ShareTicketId) -> Result<ShareTicket> {
    let found =
        cx.one(SELECT_TICKET, &cx.caller().visibility.params().and(&[&id, &cx.caller().workspace_id]))?;
    found.ok_or_else(|| Error::not_found("share ticket"))
}
