//! Posting messages.
//!
//! The content is sealed on the caller's thread, before the request is queued. The function wraps the
//! message's key with the leaf of the message's position, which is known only inside the transaction, and
//! writes the rows. Other features post through [`seal_post`] and [`post_sealed`]; a function whose text
//! depends on rows that it reads seals the text itself with [`seal_in_job`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::citations::{self, CitationChange, Cites};
use super::content::{self, Block, GivenContent, Metadata, OwnBlock};
use super::keys;
use super::message_row::{MessagePlace, uri, visible_message};
use super::plaintext::{self, GivenMetadata, Plaintext, SealedContent};
use crate::Result;
use crate::conversation::mentions::{self, Mentioned, NotReached, PossibleMentions, ReachedMembers};
use crate::conversation::visibility::{ThreadPlace, visible_place};
use crate::entropy::Entropy;
use crate::error::Error;
use crate::hash::hash_text;
use crate::id::{MemberId, MessageId, ThreadId};
use crate::limits::MESSAGE_MAX;
use crate::log::event::{Event, Recorded, Subject};
use crate::log::key_tree::Binding;
use crate::log::replay::Replayed;
use crate::log::seal::{MessageKey, Sealer};
use crate::op::{Answer, Read, SharedState, Write};
use crate::store::new_row;
use crate::text::Prose;
use crate::time::Time;

/// A message that was posted.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Posted {
    /// The message's id.
    pub id: MessageId,
    /// The member who posted the message, always you; null for the service itself.
    pub author_id: Option<MemberId>,
    /// When the message was posted.
    pub posted_at: Time,
    /// Address with which the message can be cited.
    pub uri: String,
    /// Content hash of the message's event, as `sha256:<hex>`; an edit changes it.
    pub content_hash: String,
    /// The members that the message mentions by their handles, without yourself.
    pub mentioned: Vec<Mentioned>,
    /// The mentions that reach no member.
    pub not_reached: Vec<NotReached>,
    /// Position in the workspace's log at which the message was posted.
    pub lsn: i64,
}

impl Answer<PostMessage> for Posted {
    type Kept = MessageId;

    fn kept(&self) -> Option<MessageId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &PostMessage, id: MessageId) -> Result<Self> {
        let stored = visible_message(cx, id)?;
        let ReachedMembers { mentioned, not_reached, .. } = stored.reaches(cx)?;
        let hash = stored.content_hash.as_ref().map(hash_text);
        Ok(Self {
            id,
            author_id: stored.author_id,
            posted_at: stored.posted_at,
            uri: uri(stored.workspace_id, stored.channel_id, stored.thread_id, id),
            content_hash: hash.ok_or_else(|| Error::internal("a new message has no content hash"))?,
            mentioned,
            not_reached,
            lsn: stored.lsn,
        })
    }
}

/// A message was posted in a thread.
///
/// The payload contains the sealed content of the message; members receive the plaintext beside the payload.
#[derive(Serialize, JsonSchema)]
pub(super) struct MessagePosted {
    /// The message.
    message_id: MessageId,
    /// The member who posted the message; null for the service itself.
    author_id: Option<MemberId>,
    /// The sealed content of the message, as base64.
    sealed: String,
    /// Relations to other messages that the citations of the message create.
    cites: Vec<Cites>,
}

impl Event for MessagePosted {
    const KIND: &'static str = "MessagePosted";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        let message = event.row_of("messages", "message_id")?.made().copy("author_id sealed");
        let message = message.set_to("channel_id", "$channel").set_to("thread_id", "$thread");
        let message = message.set("posted_at", event.at()).clear("edited_at").clear("withdrawn_at");
        let message = message.set("edits", 0).set("marked", false).set("lsn", event.lsn());
        message.set("content_hash", event.content_hash()).keep()?;
        citations::replay(event)
    }
}

/// Posts a message in a thread, as yourself, and returns its id.
///
/// An `@` followed by a handle notifies that member: `mentioned` lists the members reached, `not_reached` the
/// mentions that reach no one.
///
/// `@channel` mentions the members of the channel, `@here` only those who are online; for more than 15 that
/// needs `channel:admin`, and neither reaches more than 1000. Mentions in code, quotes, addresses and HTML do
/// not count; text blocks can mention like the body. The first 50 mentions of a message count. In a direct
/// message, all other members are notified. Only you can edit the message; `delete_message` withdraws it.
///
/// Fails with 409 `wrong-state` if the channel is archived.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PostMessage {
    /// The thread.
    thread_id: ThreadId,
    /// The text, in Markdown.
    body: Prose<1, MESSAGE_MAX>,
    /// Any JSON object for programs, up to 256 KiB.
    ///
    /// `artifacts` is a list of SHA-256 sums of artifacts, `citations` a list of up to 100 {uri,
    /// content_hash}. A citation whose uri has another hash is rejected; a citation of a message that you see
    /// creates the relation `cites`. `notice` is reserved for the service and rejected. Numbers from 2^53 on
    /// are rejected too: send them as strings.
    metadata: Option<GivenMetadata>,
    /// Up to 64 blocks beside the body, each with the fields of its `type`.
    ///
    /// Blocks and metadata together have up to 256 KiB.
    #[serde(default)]
    content: Option<GivenContent>,
}

/// A message that is ready to be posted: it has an id, and its content is sealed under the message's own key.
pub(crate) struct SealedPost {
    message_id: MessageId,
    key: MessageKey,
    sealed: SealedContent,
    mentioning: PossibleMentions,
}

impl SealedPost {
    /// Returns the id that the message will have once it is posted.
    pub(crate) fn message_id(&self) -> MessageId {
        self.message_id
    }
}

/// Seals a message before the request is queued. `metadata` must be an object.
pub(crate) fn seal_post(shared: &SharedState, now: Time, body: &str, metadata: &Value) -> Result<SealedPost> {
    let words = Plaintext::new(body, members_of(metadata)?);
    seal_words(&shared.entropy, &shared.sealer, now, &words)
}

/// Seals a message inside the transaction that posts it, for text that is not known earlier.
///
/// `metadata` must be an object.
pub(crate) fn seal_in_job(cx: &Write<'_>, body: &str, metadata: &Value) -> Result<SealedPost> {
    let words = Plaintext::new(body, members_of(metadata)?);
    seal_words(cx.entropy(), cx.sealer(), cx.now(), &words)
}

/// Seals a message with a service-made block, before the request is queued.
pub(crate) fn seal_block(shared: &SharedState, now: Time, body: &str, block: OwnBlock) -> Result<SealedPost> {
    let content = vec![Block::Own(block)];
    let words = Plaintext { content, ..Plaintext::new(body, Metadata::new()) };
    seal_words(&shared.entropy, &shared.sealer, now, &words)
}

fn members_of(metadata: &Value) -> Result<Metadata> {
    metadata.as_object().cloned().ok_or_else(|| Error::in_field("metadata", "expected an object"))
}

fn seal_words(entropy: &Entropy, sealer: &Sealer, now: Time, words: &Plaintext) -> Result<SealedPost> {
    let message_id = entropy.id(now)?;
    let key = sealer.new_key()?;
    let sealed = plaintext::seal(sealer, &key, message_id, 0, words)?;
    Ok(SealedPost { message_id, key, sealed, mentioning: PossibleMentions::of(&words.texts()) })
}

pub(super) fn seal_input(input: &PostMessage, shared: &SharedState, now: Time) -> Result<SealedPost> {
    let metadata = input.metadata.as_deref().cloned().unwrap_or_default();
    let words = Plaintext {
        content: content::to_blocks(input.content.as_ref()),
        ..Plaintext::new(&input.body, metadata)
    };
    seal_words(&shared.entropy, &shared.sealer, now, &words)
}

pub(super) fn post_message(cx: &mut Write<'_>, input: &PostMessage, post: &SealedPost) -> Result<Posted> {
    let place = visible_place(cx, input.thread_id)?;
    place.check_not_archived()?;
    let author = cx.caller().member;
    let Some(metadata) = &input.metadata else { return post_sealed(cx, &place, author, post) };
    let ThreadPlace { channel_id, thread_id, .. } = place;
    let at = MessagePlace { id: post.message_id, channel_id, thread_id, author_id: author, withdrawn: false };
    let citations = CitationChange::of_new(cx, &at, metadata)?;
    let posted = post_citing(cx, &place, author, post, citations.made())?;
    citations.write(cx, &at, (posted.lsn, posted.posted_at))?;
    Ok(posted)
}

/// Posts a sealed message as the caller, or as the service itself.
///
/// The caller of this function must have checked that the channel accepts messages.
pub(crate) fn post_sealed(
    cx: &mut Write<'_>,
    place: &ThreadPlace,
    author_id: Option<MemberId>,
    post: &SealedPost,
) -> Result<Posted> {
    post_citing(cx, place, author_id, post, Vec::new())
}

/// Posts a message like [`post_sealed`], and adds the relations that its citations create.
fn post_citing(
    cx: &mut Write<'_>,
    place: &ThreadPlace,
    author_id: Option<MemberId>,
    post: &SealedPost,
    cites: Vec<Cites>,
) -> Result<Posted> {
    let id = post.message_id;
    let event = MessagePosted { message_id: id, author_id, sealed: post.sealed.base64.clone(), cites };
    let event_place = Subject { member_id: author_id, ..Subject::thread(place.channel_id, place.thread_id) };
    // Uses the event's own time, which never goes back, because pruning finds old messages by binary search.
    let recorded = cx.emit(event_place, &event)?;
    let Recorded { lsn, at: posted_at, content_hash, .. } = recorded;
    let bound =
        Binding { workspace_id: place.workspace_id, thread_id: place.thread_id, author_id, message_id: id };
    let wrapped = keys::wrap_new(cx, &bound, lsn, &post.key)?;
    cx.insert(&new_row!("insert into messages" {
        id,
        workspace_id: place.workspace_id,
        channel_id: place.channel_id,
        thread_id: place.thread_id,
        author_id,
        posted_at,
        edits: 0_i64,
        sealed: post.sealed.bytes,
        lsn,
        wrapped,
        content_hash,
    }))?;
    let reached = match author_id {
        Some(_) => mentions::reached(cx, place.channel_id, author_id, &post.mentioning)?,
        None => ReachedMembers::default(),
    };
    mentions::notify_reached(cx, &recorded, id, &reached, place.dm)?;
    let ReachedMembers { mentioned, not_reached, .. } = reached;
    let uri = uri(place.workspace_id, place.channel_id, place.thread_id, id);
    let content_hash = hash_text(&content_hash);
    Ok(Posted { id, author_id, posted_at, uri, content_hash, mentioned, not_reached, lsn })
}
