//! The data that the bearer of a share ticket can read: only the types in this file.
//!
//! An outside reader does not learn who works on a thread or how the work is managed. The types contain no
//! assignee, lease, footprint, budget, skill or notice. They contain only one part of a message's metadata:
//! the artifacts that the ticket lists. Archived threads and withdrawn messages are omitted. A new field of
//! threads or messages is not shown until it is added to these types.

use std::collections::BTreeMap;

without_requests! { GetShareManifest, ListSharedThreads, ListSharedMessages, GetSharedArtifact }

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::artifacts::{self, SharedArtifact};
use super::{ShareTicket, load_ticket};
use crate::conversation::messages::{LiveMessage, live_messages};
use crate::conversation::visibility::is_channel_visible_to;
use crate::coordination::thread_row::{Thread, ThreadState, visible_thread};
use crate::coordination::{results, thread_reads};
use crate::error::{Code, Error, Result};
use crate::hash::ArtifactSha;
use crate::id::{ChannelId, MemberId, MessageId, ShareTicketId, ThreadId};
use crate::identity::members::{MemberKind, load_member};
use crate::limits::SHARE_PAGE_MAX;
use crate::op::{CredentialKind, Read, without_requests};
use crate::page::{Cursor, Limit, Page};
use crate::store::columns;
use crate::text::Count;
use crate::time::Time;

/// Returns the ticket that authenticated the request.
///
/// The ticket is valid only while its owner can see the channel, because members cannot share channels that
/// they can no longer read.
pub(super) fn load_own_ticket(cx: &Read<'_>) -> Result<ShareTicket> {
    let CredentialKind::Ticket(id) = cx.caller().via else {
        return Err(Error::internal("a request was let in without a share ticket"));
    };
    let ticket = load_ticket(cx, id)?;
    if !is_channel_visible_to(cx, ticket.channel_id, ticket.owner_id)? {
        return Err(Error::new(Code::Unauthenticated, "the ticket's owner does not see the channel"));
    }
    Ok(ticket)
}

/// A member, as shown to the bearers of a share ticket.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SharedMember {
    /// Id of the member.
    id: MemberId,
    /// Display name of the member. If no display name is set: the member's handle, without the domain of an
    /// email address.
    name: String,
    /// Whether the member is a person or an agent.
    kind: MemberKind,
}

/// The members on a page. Each member is loaded only once.
#[derive(Default)]
struct LoadedMembers(BTreeMap<MemberId, SharedMember>);

impl LoadedMembers {
    /// Returns a member, which is loaded only on the first call with its id.
    fn load_once(&mut self, cx: &Read<'_>, id: Option<MemberId>) -> Result<Option<SharedMember>> {
        let Some(id) = id else { return Ok(None) };
        if let Some(known) = self.0.get(&id) {
            return Ok(Some(known.clone()));
        }
        let member = load_member(cx, id)?;
        let name = name_for_outsiders(member.display_name, &member.handle);
        let shown = SharedMember { id, name, kind: member.kind };
        self.0.insert(id, shown.clone());
        Ok(Some(shown))
    }
}

/// Returns a member's name, as the bearers of a share ticket read it.
fn name_for_outsiders(display_name: Option<String>, handle: &str) -> String {
    let before_domain = || handle.split('@').next().unwrap_or_default().to_owned();
    display_name.unwrap_or_else(before_domain)
}

/// Returns the shared channel, the shared artifacts and the expiry time of your share ticket.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetShareManifest {}

/// Manifest of a share ticket: the shared channel, the shared artifacts, and the expiry time of the ticket.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ShareManifest {
    /// Id of the ticket.
    id: ShareTicketId,
    /// Time at which the ticket expires.
    expires_at: Time,
    /// The owner of the ticket, who shares the channel.
    owner: Option<SharedMember>,
    /// The shared channel.
    channel: SharedChannel,
    /// The shared artifacts.
    artifacts: Vec<SharedArtifact>,
}

/// A channel, as shown to the bearers of a share ticket.
#[derive(Debug, Serialize, JsonSchema)]
struct SharedChannel {
    /// Id of the channel.
    id: ChannelId,
    /// Name of the channel.
    name: String,
    /// Topic of the channel; null if not set.
    topic: Option<String>,
}

columns! { channel_columns: SharedChannel as c { id, name, topic } }

const SELECT_CHANNEL: &str = concat!("select ", channel_columns!(), " from channels c where c.id = $1");

pub(super) fn get_share_manifest(cx: &Read<'_>, _: &GetShareManifest) -> Result<ShareManifest> {
    let ticket = load_own_ticket(cx)?;
    let channel: Option<SharedChannel> = cx.one(SELECT_CHANNEL, &[&ticket.channel_id])?;
    Ok(ShareManifest {
        id: ticket.id,
        expires_at: ticket.expires_at,
        owner: LoadedMembers::default().load_once(cx, Some(ticket.owner_id))?,
        channel: channel.ok_or_else(|| Error::internal("a share ticket has no channel"))?,
        artifacts: ticket.artifact_shas.into_iter().map(|sha| SharedArtifact { sha }).collect(),
    })
}

/// Returns the live threads of the shared channel, oldest first.
///
/// Archived threads are omitted, so a page may be short or empty although more threads follow: continue while
/// `next_cursor` is not null.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSharedThreads {
    cursor: Option<Cursor>,
    /// Maximum number of items to return. Default: 50.
    limit: Option<Count<1, SHARE_PAGE_MAX>>,
}

/// A thread, as shown to the bearers of a share ticket.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SharedThread {
    /// Id of the thread.
    id: ThreadId,
    /// Title of the thread, which states the task in one line.
    title: String,
    /// State of the thread.
    state: ThreadState,
    /// Time at which the thread was created.
    created_at: Time,
    /// The member who created the thread; null if the service itself created it.
    created_by: Option<SharedMember>,
    /// Latest result of the thread; null if the thread has no result, or if the result was purged.
    result: Option<Map<String, Json>>,
    #[serde(skip)]
    lsn: i64,
}

impl SharedThread {
    fn from_thread(cx: &Read<'_>, thread: Thread, members: &mut LoadedMembers) -> Result<Self> {
        let latest = if thread.has_result { results::latest(cx, thread.id)? } else { None };
        Ok(Self {
            id: thread.id,
            created_by: members.load_once(cx, thread.created_by)?,
            title: thread.title,
            state: thread.state,
            created_at: thread.created_at,
            result: latest.and_then(|latest| latest.result),
            lsn: thread.lsn,
        })
    }
}

pub(super) fn list_shared_threads(cx: &Read<'_>, input: &ListSharedThreads) -> Result<Page<SharedThread>> {
    let ticket = load_own_ticket(cx)?;
    let threads = thread_reads::list_threads_in_channel(
        cx,
        ticket.channel_id,
        None,
        input.cursor,
        page_limit(input.limit),
    )?;
    let live = threads
        .try_filter_map(|thread| Ok(Some(thread).filter(|thread| thread.state != ThreadState::Archived)))?;
    let mut members = LoadedMembers::default();
    live.try_fill(
        |thread: &SharedThread| thread.lsn,
        |thread| SharedThread::from_thread(cx, thread, &mut members),
    )
}

/// Returns the live messages of a thread of the shared channel, oldest first.
///
/// Withdrawn messages and notices of the service, which include reviews and questions of gates, are omitted.
/// A page may therefore be short or empty although more messages follow: continue while `next_cursor` is not
/// null. Archived threads and threads of other channels are not found.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSharedMessages {
    /// Id of the thread whose messages are returned.
    thread_id: ThreadId,
    cursor: Option<Cursor>,
    /// Maximum number of items to return. Default: 50.
    limit: Option<Count<1, SHARE_PAGE_MAX>>,
}

/// A message, as shown to the bearers of a share ticket.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SharedMessage {
    /// Id of the message.
    id: MessageId,
    /// Author of the message; null if the service itself posted it.
    author: Option<SharedMember>,
    /// Time at which the message was posted.
    posted_at: Time,
    /// Time of the last edit of the message; null if the message was never edited.
    edited_at: Option<Time>,
    /// Whether the service cannot decrypt the message because the database or a key is damaged.
    unreadable: bool,
    /// Text of the message; blank if `unreadable` is true.
    body: String,
    /// SHA-256 sums of the artifacts that both the message's metadata and the ticket list.
    artifacts: Vec<ArtifactSha>,
}

impl SharedMessage {
    fn from_message(
        cx: &Read<'_>,
        message: LiveMessage,
        ticket: &ShareTicket,
        members: &mut LoadedMembers,
    ) -> Result<Self> {
        Ok(Self {
            id: message.id,
            author: members.load_once(cx, message.author_id)?,
            posted_at: message.posted_at,
            edited_at: message.edited_at,
            unreadable: message.unreadable,
            body: message.body,
            artifacts: shared_artifacts(&message.metadata, &ticket.artifact_shas),
        })
    }
}

/// Returns the artifacts in a message's metadata that the ticket shares.
fn shared_artifacts(metadata: &Map<String, Json>, shared: &[ArtifactSha]) -> Vec<ArtifactSha> {
    let named = metadata.get("artifacts").and_then(Json::as_array).into_iter().flatten();
    let shas = named.filter_map(|sha| ArtifactSha::parse(sha.as_str()?));
    shas.filter(|sha| shared.contains(sha)).collect()
}

pub(super) fn list_shared_messages(cx: &Read<'_>, input: &ListSharedMessages) -> Result<Page<SharedMessage>> {
    let ticket = load_own_ticket(cx)?;
    let thread = visible_thread(cx, input.thread_id)?;
    if thread.state == ThreadState::Archived {
        return Err(Error::not_found("thread"));
    }
    let mut members = LoadedMembers::default();
    live_messages(cx, thread.id, input.cursor, page_limit(input.limit))?
        .try_map(|message| SharedMessage::from_message(cx, message, &ticket, &mut members))
}

/// Returns an artifact that your share ticket lists.
///
/// Any other artifact is not found, even if it exists.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetSharedArtifact {
    /// SHA-256 of the artifact's bytes, as 64 hex digits in lower case.
    sha256: ArtifactSha,
}

pub(super) fn get_shared_artifact(cx: &Read<'_>, input: &GetSharedArtifact) -> Result<SharedArtifact> {
    let ticket = load_own_ticket(cx)?;
    if !ticket.artifact_shas.contains(&input.sha256) {
        return Err(Error::not_found("artifact"));
    }
    artifacts::find_artifact(cx, input.sha256)
}

/// Converts the requested page limit, at most 100 items for share tickets, to the limit of a page.
fn page_limit(requested: Option<Count<1, SHARE_PAGE_MAX>>) -> Option<Limit> {
    requested.and_then(|limit| Limit::new(limit.get()).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nobody_outside_learns_an_email_address() {
        assert_eq!(name_for_outsiders(None, "ada"), "ada");
        assert_eq!(name_for_outsiders(None, "ada@example.com"), "ada");
        assert_eq!(name_for_outsiders(Some("Ada L.".to_owned()), "ada@example.com"), "Ada L.");
    }

    #[test]
    fn only_artifacts_on_the_ticket_are_shown() {
        let [one, other] = ["00", "11"].map(|byte| byte.repeat(32));
        let shared = [ArtifactSha::parse(&one).unwrap()];
        for (metadata, wanted) in [
            (json!({"artifacts": [other, one, 3, "x"], "citations": []}), &shared[..]),
            (json!({"artifacts": [other]}), &[]),
            (json!({"artifacts": one}), &[]),
            (json!({"other": [one]}), &[]),
        ] {
            assert_eq!(shared_artifacts(metadata.as_object().unwrap(), &shared), wanted, "{metadata}");
        }
    }
}
