//! Posting messages.
//!
//! The content is sealed on the caller's thread, before the request is queued. The operation then wraps the
//! message's key with the leaf of the message's position, which is known only inside the transaction, and
//! writes the rows. Other features post through [`seal_post`] and [`post_sealed`]. A function whose text
//! depends on rows that it reads seals the text inside the transaction, with [`seal_in_transaction`].

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::citations::{self, CitationChange, CitationRelation};
use super::content::{self, Block, GivenContent, Metadata, ServiceBlock};
use super::keys;
use super::message_row::{MessagePlace, uri, visible_message};
use super::plaintext::{self, GivenMetadata, Plaintext, SealedContent};
use crate::Result;
use crate::conversation::mentions::{
    self, MentionedMember, PossibleMentions, ReachedMembers, UnreachedMention,
};
use crate::conversation::visibility::{ThreadPlace, visible_thread_place};
use crate::entropy::Entropy;
use crate::error::Error;
use crate::hash::format_hash;
use crate::id::{MemberId, MessageId, ThreadId};
use crate::limits::MESSAGE_MAX;
use crate::log::event::{Event, RecordedEvent, Subject};
use crate::log::key_tree::Binding;
use crate::log::replay::ReplayedEvent;
use crate::log::seal::{MessageKey, Sealer};
use crate::op::{Answer, Read, SharedState, Write};
use crate::request::request;
use crate::store::new_row;
use crate::text::Prose;
use crate::time::Time;

/// Result of posting a message: the message's id and address, and the members whom it reaches.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Posted")]
#[non_exhaustive]
pub struct PostedMessage {
    /// Id of the message.
    pub id: MessageId,
    /// Id of the message's author, which is your own id; null if the service itself posted the message.
    pub author_id: Option<MemberId>,
    /// Time at which the message was posted.
    pub posted_at: Time,
    /// Address of the message, for citations.
    pub uri: String,
    /// Content hash of the event that contains the message's text, as `sha256:<hex>`. An edit changes the
    /// hash.
    pub content_hash: String,
    /// The members that the message mentions by handle and reaches, without yourself.
    pub mentioned: Vec<MentionedMember>,
    /// The mentions in the message that reach no member.
    pub not_reached: Vec<UnreachedMention>,
    /// Position in the workspace's log at which the message was posted.
    pub lsn: i64,
}

impl Answer<PostMessage> for PostedMessage {
    type Kept = MessageId;

    fn kept(&self) -> Option<MessageId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &PostMessage, id: MessageId) -> Result<Self> {
        let stored = visible_message(cx, id)?;
        let ReachedMembers { mentioned, not_reached, .. } = stored.reached_members(cx)?;
        let hash = stored.content_hash.as_ref().map(format_hash);
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
/// The payload contains the sealed content of the message. Members receive the plaintext in addition to the
/// payload.
#[derive(Serialize, JsonSchema)]
pub(super) struct MessagePosted {
    /// Id of the message.
    message_id: MessageId,
    /// Id of the member who posted the message; null if the service itself posted it.
    author_id: Option<MemberId>,
    /// The sealed content of the message, as base64.
    sealed: String,
    /// Relations to other messages that the message's citations create.
    cites: Vec<CitationRelation>,
}

impl Event for MessagePosted {
    const KIND: &'static str = "MessagePosted";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let message = event.row_of("messages", "message_id")?.made().copy("author_id sealed");
        let message = message.set_to("channel_id", "$channel").set_to("thread_id", "$thread");
        let message = message.set("posted_at", event.at()).clear("edited_at").clear("withdrawn_at");
        let message = message.set("edits", 0).set("marked", false).set("lsn", event.lsn());
        message.set("content_hash", event.content_hash()).keep()?;
        citations::replay(event)
    }
}

request! {
    /// Posts a message in a thread in your name, and returns the id of the message.
    ///
    /// An `@` followed by a handle notifies that member. `mentioned` lists the members reached, `not_reached`
    /// the mentions that reach no member.
    ///
    /// `@channel` mentions all members of the channel, `@here` only the members who are online. Mentioning
    /// more than 15 other members in this way needs `channel:admin`, and more than 1000 cannot be mentioned.
    /// Mentions in code, quotes, addresses and HTML are ignored. The body and text blocks can contain
    /// mentions, of which the first 50 have an effect. In a direct message, all other members are notified.
    /// Only you can edit the message; `delete_message` withdraws it.
    ///
    /// Fails with 409 `wrong-state` if the channel is archived.
    #[derive(Serialize)]
    pub(super) struct PostMessage {
        /// Id of the thread.
        thread_id: ThreadId,
        /// Text of the message, in Markdown.
        body: Prose<1, MESSAGE_MAX>,
        /// Any JSON object for programs, up to 256 KiB.
        ///
        /// `artifacts` is a list of SHA-256 sums of artifacts, `citations` a list of up to 100 {uri,
        /// content_hash}. A citation whose uri contains a different hash is rejected. A citation of a message
        /// that you can see creates the relation `cites`. The member `notice` is reserved for the service and
        /// rejected. Numbers of 2^53 or more are rejected too: send them as strings.
        metadata: Option<GivenMetadata>,
        /// Up to 64 blocks in addition to the body, each with the fields of its `type`.
        ///
        /// Blocks and metadata together may have up to 256 KiB of JSON.
        #[serde(default)]
        content: Option<GivenContent>,
    }

    post_message(thread_id: ThreadId, body: Prose<1, MESSAGE_MAX>) -> PostedMessage
}

/// A message that is ready to be posted: its id, its key, and its content sealed under that key.
pub(crate) struct SealedPost {
    message_id: MessageId,
    key: MessageKey,
    sealed: SealedContent,
    possible_mentions: PossibleMentions,
}

impl SealedPost {
    /// Returns the id of the message. The id is assigned before the message is posted.
    pub(crate) fn message_id(&self) -> MessageId {
        self.message_id
    }
}

/// Seals a message before the request is queued. `metadata` must be a JSON object.
pub(crate) fn seal_post(shared: &SharedState, now: Time, body: &str, metadata: &Value) -> Result<SealedPost> {
    let plaintext = Plaintext::new(body, parse_metadata(metadata)?);
    seal_plaintext(&shared.entropy, &shared.sealer, now, &plaintext)
}

/// Seals a message inside the transaction that posts it, if the text depends on rows that the transaction
/// reads.
///
/// `metadata` must be a JSON object.
pub(crate) fn seal_in_transaction(cx: &Write<'_>, body: &str, metadata: &Value) -> Result<SealedPost> {
    let plaintext = Plaintext::new(body, parse_metadata(metadata)?);
    seal_plaintext(cx.entropy(), cx.sealer(), cx.now(), &plaintext)
}

/// Seals a message with a block that only the service can create, before the request is queued.
pub(crate) fn seal_post_with_block(
    shared: &SharedState,
    now: Time,
    body: &str,
    block: ServiceBlock,
) -> Result<SealedPost> {
    let content = vec![Block::Own(block)];
    let plaintext = Plaintext { content, ..Plaintext::new(body, Metadata::new()) };
    seal_plaintext(&shared.entropy, &shared.sealer, now, &plaintext)
}

fn parse_metadata(metadata: &Value) -> Result<Metadata> {
    metadata.as_object().cloned().ok_or_else(|| Error::in_field("metadata", "expected an object"))
}

fn seal_plaintext(
    entropy: &Entropy,
    sealer: &Sealer,
    now: Time,
    plaintext: &Plaintext,
) -> Result<SealedPost> {
    let message_id = entropy.id(now)?;
    let key = sealer.generate_message_key()?;
    let sealed = plaintext::seal(sealer, &key, message_id, 0, plaintext)?;
    Ok(SealedPost { message_id, key, sealed, possible_mentions: PossibleMentions::find(&plaintext.texts()) })
}

pub(super) fn seal_input(input: &PostMessage, shared: &SharedState, now: Time) -> Result<SealedPost> {
    let metadata = input.metadata.as_deref().cloned().unwrap_or_default();
    let plaintext = Plaintext {
        content: content::to_blocks(input.content.as_ref()),
        ..Plaintext::new(&input.body, metadata)
    };
    seal_plaintext(&shared.entropy, &shared.sealer, now, &plaintext)
}

pub(super) fn post_message(
    cx: &mut Write<'_>,
    input: &PostMessage,
    post: &SealedPost,
) -> Result<PostedMessage> {
    let place = visible_thread_place(cx, input.thread_id)?;
    place.check_not_archived()?;
    let author = cx.caller().member;
    let Some(metadata) = &input.metadata else { return post_sealed(cx, &place, author, post) };
    let ThreadPlace { channel_id, thread_id, .. } = place;
    let at = MessagePlace { id: post.message_id, channel_id, thread_id, author_id: author, withdrawn: false };
    let citations = CitationChange::for_new_message(cx, &at, metadata)?;
    let posted = post_with_citations(cx, &place, author, post, citations.added_relations())?;
    citations.write_rows(cx, &at, (posted.lsn, posted.posted_at))?;
    Ok(posted)
}

/// Posts a sealed message as the member `author_id`, or as the service itself if `author_id` is `None`.
///
/// The calling function must have checked that the channel accepts messages.
pub(crate) fn post_sealed(
    cx: &mut Write<'_>,
    place: &ThreadPlace,
    author_id: Option<MemberId>,
    post: &SealedPost,
) -> Result<PostedMessage> {
    post_with_citations(cx, place, author_id, post, Vec::new())
}

/// Posts a message like [`post_sealed`]. `cites` are the relations that the message's citations create.
fn post_with_citations(
    cx: &mut Write<'_>,
    place: &ThreadPlace,
    author_id: Option<MemberId>,
    post: &SealedPost,
    cites: Vec<CitationRelation>,
) -> Result<PostedMessage> {
    let id = post.message_id;
    let event = MessagePosted { message_id: id, author_id, sealed: post.sealed.base64.clone(), cites };
    let event_place = Subject { member_id: author_id, ..Subject::thread(place.channel_id, place.thread_id) };
    // `posted_at` is the time of the event, which never decreases, because pruning finds old messages by
    // binary search.
    let recorded = cx.emit(event_place, &event)?;
    let RecordedEvent { lsn, at: posted_at, content_hash, .. } = recorded;
    let bound =
        Binding { workspace_id: place.workspace_id, thread_id: place.thread_id, author_id, message_id: id };
    let wrapped = keys::wrap_new_key(cx, &bound, lsn, &post.key)?;
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
        Some(_) => mentions::resolve_mentions(cx, place.channel_id, author_id, &post.possible_mentions)?,
        None => ReachedMembers::default(),
    };
    mentions::notify_reached_members(cx, &recorded, id, &reached, place.dm)?;
    let ReachedMembers { mentioned, not_reached, .. } = reached;
    let uri = uri(place.workspace_id, place.channel_id, place.thread_id, id);
    let content_hash = format_hash(&content_hash);
    Ok(PostedMessage { id, author_id, posted_at, uri, content_hash, mentioned, not_reached, lsn })
}
