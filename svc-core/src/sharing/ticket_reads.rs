//! The data that a share ticket shows: only the types in this file.
//!
//! An outside reader does not learn who works on a thread or how the work is managed: the types contain no
//! assignee, lease, footprint, budget, skill or notice, and of a message's metadata only the artifacts of the
//! ticket. Archived threads and withdrawn messages are omitted. A new field of threads or messages is not
//! shown until it is added here.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::artifacts::{self, SharedArtifact};
use super::{ShareTicket, load_ticket};
use crate::conversation::messages::{LiveMessage, live_messages};
use crate::conversation::visibility::channel_visible_to;
use crate::coordination::thread_row::{Thread, ThreadState, visible_thread};
use crate::coordination::{results, thread_reads};
use crate::error::{Code, Error, Result};
use crate::hash::ArtifactSha;
use crate::id::{ChannelId, MemberId, MessageId, ShareTicketId, ThreadId};
use crate::identity::members::{MemberKind, load_member};
use crate::limits::SHARE_PAGE_MAX;
use crate::op::{CredentialKind, Read};
use crate::page::{Cursor, Limit, Page};
use crate::store::columns;
use crate::text::Count;
use crate::time::Time;

/// Returns the ticket that authenticated the request.
///
/// The ticket is valid only while its owner can see the channel, because a member cannot share a channel that
/// it may no longer read.
pub(super) fn own_ticket(cx: &Read<'_>) -> Result<ShareTicket> {
    let CredentialKind::Ticket(id) = cx.caller().via else {
        return Err(Error::internal("a request was let in without a share ticket"));
    };
    let ticket = load_ticket(cx, id)?;
    if !channel_visible_to(cx, ticket.channel_id, ticket.owner_id)? {
        return Err(Error::new(Code::Unauthenticated, "the ticket's owner does not see the channel"));
    }
    Ok(ticket)
}

/// A member, as shown to the bearers of a share ticket.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct SharedMember {
    /// The member's id.
    id: MemberId,
    /// The member's display name, or otherwise its handle, without the domain of an email address.
    name: String,
    /// Whether the member is a person or an agent.
    kind: MemberKind,
}

/// The members on a page, each of which is loaded only once.
#[derive(Default)]
struct NamedMembers(BTreeMap<MemberId, SharedMember>);

impl NamedMembers {
    fn load_once(&mut self, cx: &Read<'_>, id: Option<MemberId>) -> Result<Option<SharedMember>> {
        let Some(id) = id else { return Ok(None) };
        if let Some(known) = self.0.get(&id) {
            return Ok(Some(known.clone()));
        }
        let member = load_member(cx, id)?;
        let name = outside_name(member.display_name, &member.handle);
        let shown = SharedMember { id, name, kind: member.kind };
        self.0.insert(id, shown.clone());
        Ok(Some(shown))
    }
}

/// Returns the name of a member that is shown to the bearers of a share ticket.
fn outside_name(display_name: Option<String>, handle: &str) -> String {
    let before_domain = || handle.split('@').next().unwrap_or_default().to_owned();
    display_name.unwrap_or_else(before_domain)
}

/// Returns the channel and the artifacts that your share ticket shows, and when the ticket expires.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetShareManifest {}

/// The channel and the artifacts that a share ticket shows, and when the ticket expires.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ShareManifest {
    /// The ticket's id.
    id: ShareTicketId,
    /// When the ticket expires.
    expires_at: Time,
    /// The member who shares the channel.
    owner: Option<SharedMember>,
    /// The only channel that the ticket shows.
    channel: SharedChannel,
    /// The artifacts that the ticket shows.
    artifacts: Vec<SharedArtifact>,
}

/// A channel, as shown to the bearers of a share ticket.
#[derive(Debug, Serialize, JsonSchema)]
struct SharedChannel {
    /// The channel's id.
    id: ChannelId,
    /// The channel's name.
    name: String,
    /// The channel's purpose; null if it is not set.
    topic: Option<String>,
}

columns! { channel_columns: SharedChannel as c { id, name, topic } }

const CHANNEL: &str = concat!("select ", channel_columns!(), " from channels c where c.id = $1");

pub(super) fn get_share_manifest(cx: &Read<'_>, _: &GetShareManifest) -> Result<ShareManifest> {
    let ticket = own_ticket(cx)?;
    let channel: Option<SharedChannel> = cx.one(CHANNEL, &[&ticket.channel_id])?;
    Ok(ShareManifest {
        id: ticket.id,
        expires_at: ticket.expires_at,
        owner: NamedMembers::default().load_once(cx, Some(ticket.owner_id))?,
        channel: channel.ok_or_else(|| Error::internal("a share ticket has no channel"))?,
        artifacts: ticket.artifact_shas.into_iter().map(|sha| SharedArtifact { sha }).collect(),
    })
}

/// Returns the live threads of the shared channel, oldest first.
///
/// Archived threads are omitted, so a page may be short or empty although there is more: continue while
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
    /// The thread's id.
    id: ThreadId,
    /// The task, in one line.
    title: String,
    /// The thread's state.
    state: ThreadState,
    /// When the thread was created.
    created_at: Time,
    /// The member who created the thread; null for the service itself.
    created_by: Option<SharedMember>,
    /// The latest result of the thread; null if there is none or it was purged.
    result: Option<Map<String, Json>>,
    #[serde(skip)]
    lsn: i64,
}

impl SharedThread {
    fn of(cx: &Read<'_>, thread: Thread, people: &mut NamedMembers) -> Result<Self> {
        let latest = if thread.has_result { results::latest(cx, thread.id)? } else { None };
        Ok(Self {
            id: thread.id,
            created_by: people.load_once(cx, thread.created_by)?,
            title: thread.title,
            state: thread.state,
            created_at: thread.created_at,
            result: latest.and_then(|latest| latest.result),
            lsn: thread.lsn,
        })
    }
}

pub(super) fn list_shared_threads(cx: &Read<'_>, input: &ListSharedThreads) -> Result<Page<SharedThread>> {
    let ticket = own_ticket(cx)?;
    let threads =
        thread_reads::threads_in(cx, ticket.channel_id, None, input.cursor, page_limit(input.limit))?;
    let live = threads
        .try_filter_map(|thread| Ok(Some(thread).filter(|thread| thread.state != ThreadState::Archived)))?;
    let mut people = NamedMembers::default();
    live.try_fill(|thread: &SharedThread| thread.lsn, |thread| SharedThread::of(cx, thread, &mut people))
}

/// Returns the live messages of a thread of the shared channel, oldest first.
///
/// Withdrawn messages and notices of the service, which include reviews and questions of gates, are omitted.
/// A page may therefore be short or empty although there is more: continue while `next_cursor` is not null.
/// Archived threads and threads of other channels are not found.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListSharedMessages {
    /// The thread whose messages to return.
    thread_id: ThreadId,
    cursor: Option<Cursor>,
    /// Maximum number of items to return. Default: 50.
    limit: Option<Count<1, SHARE_PAGE_MAX>>,
}

/// A message, as shown to the bearers of a share ticket.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SharedMessage {
    /// The message's id.
    id: MessageId,
    /// The message's author; null for the service itself.
    author: Option<SharedMember>,
    /// When the message was posted.
    posted_at: Time,
    /// When the message was last edited; null if never.
    edited_at: Option<Time>,
    /// Whether the service cannot decrypt the message because the database or a key is damaged.
    unreadable: bool,
    /// The message's text; blank if `unreadable` is true.
    body: String,
    /// The artifacts that the message refers to and the ticket names.
    artifacts: Vec<ArtifactSha>,
}

impl SharedMessage {
    fn of(
        cx: &Read<'_>,
        message: LiveMessage,
        ticket: &ShareTicket,
        people: &mut NamedMembers,
    ) -> Result<Self> {
        Ok(Self {
            id: message.id,
            author: people.load_once(cx, message.author_id)?,
            posted_at: message.posted_at,
            edited_at: message.edited_at,
            unreadable: message.unreadable,
            body: message.body,
            artifacts: shared_artifacts(&message.metadata, &ticket.artifact_shas),
        })
    }
}

/// Returns the shared artifacts that the metadata of a message names.
fn shared_artifacts(metadata: &Map<String, Json>, shared: &[ArtifactSha]) -> Vec<ArtifactSha> {
    let named = metadata.get("artifacts").and_then(Json::as_array).into_iter().flatten();
    let shas = named.filter_map(|sha| ArtifactSha::parse(sha.as_str()?));
    shas.filter(|sha| shared.contains(sha)).collect()
}

pub(super) fn list_shared_messages(cx: &Read<'_>, input: &ListSharedMessages) -> Result<Page<SharedMessage>> {
    let ticket = own_ticket(cx)?;
    let thread = visible_thread(cx, input.thread_id)?;
    if thread.state == ThreadState::Archived {
        return Err(Error::not_found("thread"));
    }
    let mut people = NamedMembers::default();
    live_messages(cx, thread.id, input.cursor, page_limit(input.limit))?
        .try_map(|message| SharedMessage::of(cx, message, &ticket, &mut people))
}

/// Returns an artifact that your share ticket names.
///
/// Any other artifact is not found, whether it exists or not.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetSharedArtifact {
    /// The SHA-256 of the artifact's bytes.
    sha256: ArtifactSha,
}

pub(super) fn get_shared_artifact(cx: &Read<'_>, input: &GetSharedArtifact) -> Result<SharedArtifact> {
    let ticket = own_ticket(cx)?;
    if !ticket.artifact_shas.contains(&input.sha256) {
        return Err(Error::not_found("artifact"));
    }
    artifacts::find_artifact(cx, input.sha256)
}

/// Returns the limit of a page. A share ticket reads at most 100 items at once.
fn page_limit(asked: Option<Count<1, SHARE_PAGE_MAX>>) -> Option<Limit> {
    asked.and_then(|asked| Limit::new(asked.get()).ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nobody_outside_learns_an_email_address() {
        assert_eq!(outside_name(None, "ada"), "ada");
        assert_eq!(outside_name(None, "ada@example.com"), "ada");
        assert_eq!(outside_name(Some("Ada L.".to_owned()), "ada@example.com"), "Ada L.");
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
