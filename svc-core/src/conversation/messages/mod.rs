//! Messages that members and the service post in threads.
//!
//! The content of each message is sealed under a separate key; rows and events contain only sealed bytes.
//! Withdrawing a message destroys its key, which makes the content unreadable wherever the sealed bytes were
//! copied. A message that cannot be decrypted is returned as unreadable and does not affect other messages.
//! This file reads messages. Posting, editing, withdrawing, the plaintext of events, citations, reactions and
//! pins are in separate files. Mentions and inboxes are separate features.

mod keys;
pub(crate) mod content;
mod plaintext;
pub(crate) mod marks;
mod message_row;
pub(crate) mod citations;
pub(crate) mod edit;
pub(crate) mod post;
pub(crate) mod event_content;
pub(crate) mod withdraw;
mod prune;
pub(crate) mod reactions;
pub(crate) mod pins;

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use super::visibility::visible_thread_place;
use crate::Result;
use crate::capability::Capability::{ChannelAdmin, MessagePost, TokenAdmin, WorkspaceRead};
use crate::conversation::mentions::ReachedMembers;
use crate::error::Code;
use crate::id::{ChannelId, MemberId, MessageId, ThreadId, WorkspaceId};
use crate::limits::PAGE_SCAN_MAX;
use crate::log::event::EventKind;
use crate::log::floor::MessagesPruned;
use crate::op::{Answer, Effect, Feature, Operation, Read, Records, Sample, changing, destructive, read};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::store::Engine;
use crate::time::Time;
pub(crate) use citations::{CitableMessage, CitationState, find_cited_message, replay_created_relation};
use content::Block;
pub(crate) use content::{Metadata, ServiceBlock};
pub use event_content::OpenedEvent;
pub(crate) use event_content::{
    add_message_content, find_purged, frames_with_content, has_content, is_content_event, load_live_keys,
    unreadable_dms,
};
pub(crate) use keys::{content_key, wrap_imported_key};
use marks::ReactionCount;
use message_row::{
    MessageContent, SELECT_MESSAGE, StoredMessage, decrypt_page, select_messages, visible_message,
};
pub(crate) use message_row::{MessagePlace, not_pruned, uri, visible_message_place};
use plaintext::Plaintext;
pub(crate) use plaintext::reseal;
pub(crate) use post::{SealedPost, post_sealed, seal_in_transaction, seal_post, seal_post_with_block};
pub(crate) use prune::{DueMessages, PruneReason, due, has_pruned_rows, prune, remove_pruned_batch};
#[cfg(test)]
pub(crate) use withdraw::MessageTombstoned;
pub(crate) use withdraw::VOTES_OF_MESSAGES;

/// A message in a thread.
///
/// A withdrawn message is returned with a blank body, no metadata and no content blocks.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Message {
    /// Id of the message.
    pub id: MessageId,
    /// Id of the workspace that contains the message.
    pub workspace_id: WorkspaceId,
    /// Id of the channel that contains the message's thread.
    pub channel_id: ChannelId,
    /// Id of the thread that contains the message.
    pub thread_id: ThreadId,
    /// Id of the member who posted the message; null if the service itself posted it.
    pub author_id: Option<MemberId>,
    /// Time at which the message was posted.
    pub posted_at: Time,
    /// Time of the last edit of the message; null if the message was never edited.
    pub edited_at: Option<Time>,
    /// Number of times that the message was edited.
    pub edits: i64,
    /// Whether the message was withdrawn.
    pub withdrawn: bool,
    /// Whether the message is live but cannot be decrypted, because the database or a key is damaged.
    pub unreadable: bool,
    /// Body of the message, in Markdown; blank if the message is withdrawn or unreadable.
    pub body: String,
    /// Metadata of the message; empty if the message is withdrawn or unreadable.
    pub metadata: Metadata,
    /// Content blocks in addition to the body; empty if the message is withdrawn or unreadable.
    pub content: Vec<Block>,
    /// Number of reactions per emoji, in the order in which each emoji was first used; empty if the message
    /// is withdrawn.
    pub reactions: Vec<ReactionCount>,
    /// Whether the message is pinned in its channel.
    pub pinned: bool,
    /// Address of the message, for citations. The address never changes.
    pub uri: String,
    /// Content hash of the event that contains the message's current or last content, as `sha256:<hex>`; null
    /// if the event was pruned by an old version of the service that did not keep the hash.
    pub content_hash: Option<String>,
    /// Position in the workspace's log at which the message was posted.
    pub lsn: i64,
}

impl<I> Answer<I> for Message {
    type Kept = MessageId;

    fn kept(&self) -> Option<MessageId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: MessageId) -> Result<Self> {
        visible_message(cx, id)?.decrypt(cx)
    }
}

/// A message in the result of `get_thread_context`.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ContextMessage {
    /// Id of the message.
    pub id: MessageId,
    /// Id of the member who posted the message; null if the service itself posted it.
    pub author_id: Option<MemberId>,
    /// Time at which the message was posted.
    pub posted_at: Time,
    /// Whether the message cannot be decrypted, because the database or a key is damaged.
    pub unreadable: bool,
    /// Body of the message, in Markdown; blank if the message is unreadable.
    pub body: String,
    /// Content blocks in addition to the body; empty if the message is unreadable.
    pub content: Vec<Block>,
}

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("messages", operations())
        .events(vec![
            EventKind::of::<post::MessagePosted>(),
            EventKind::of::<edit::MessageEdited>(),
            EventKind::of::<withdraw::MessageTombstoned>(),
            EventKind::of::<withdraw::MessagePurged>(),
            EventKind::of::<MessagesPruned>(),
        ])
        .cleaner("message_edits", edit::remove_edits)
        // The sample is declared here because messages are the first feature that needs it.
        .sample(Sample::new(
            "thread",
            "create_thread",
            |w| json!({"channel_id": w.id("channel"), "title": "Port the lexer"}),
        ))
        .sample(
            Sample::new(
                "message",
                "post_message",
                |w| json!({"thread_id": w.id("thread"), "body": "the lexer has three states"}),
            )
            .then(
                "edit_message",
                |w| json!({"message_id": w.id("message"), "body": "the lexer has four states"}),
            ),
        )
        .sample(
            Sample::new(
                "withdrawn_message",
                "post_message",
                |w| json!({"thread_id": w.id("thread"), "body": "said too soon"}),
            )
            .then("delete_message", |w| json!({"message_id": w.id("withdrawn_message")})),
        )
        .records(vec![
            Records::table("messages", "lsn id")
                .after("threads")
                .ids("id workspace_id channel_id thread_id author_id")
                .times("posted_at edited_at withdrawn_at")
                .ints("edits lsn")
                .bools("marked")
                .hashes("content_hash")
                .sealed("sealed")
                .secrets("wrapped")
                .proven(
                    "id",
                    "channel_id thread_id author_id posted_at edited_at withdrawn_at edits lsn marked \
                     content_hash sealed",
                ),
            Records::table("message_edits", "message_id edit")
                .through("message_id", "messages")
                .ids("message_id")
                .ints("edit lsn")
                .times("written_at")
                .sealed("sealed")
                .proven("message_id edit", "written_at sealed lsn")
                .removed_with("message_id", "messages"),
            Records::table("shelves", "workspace_id shelf").keys().stays(),
            Records::table("scrubs", "key_table workspace_id lsn").stays(),
        ])
}

fn operations() -> Vec<Operation> {
    vec![
        changing("post_message", Effect::Write)
            .prepare(post::seal_input)
            .run(post::post_message)
            .title("Post a message")
            .when(
                "Post a message in a thread, such as a finding. Use `set_thread_result` to submit a result.",
            )
            .post("/threads/{thread_id}/messages")
            .needs(&[MessagePost])
            .created()
            .refuses(&[Code::WrongState])
            .example(|w| {
                json!({"thread_id": w.id("thread"), "body": "The build is green again.",
                       "metadata": {"commit": "0f3c9a1"},
                       "content": [{"type": "code", "text": "test result: ok", "language": "text"}]})
            }),
        read("list_messages", list_messages)
            .title("List a thread's messages")
            .when("List all messages of a thread. `get_thread_context` returns only the last messages.")
            .detailed()
            .get("/threads/{thread_id}/messages")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"thread_id": w.id("thread"), "newest_first": true, "limit": 10})),
        read("get_message", get_message)
            .quick()
            .resumes_text("body")
            .title("Read a message")
            .when("Return one message by its id. Use `list_messages` for all messages of a thread.")
            .get("/messages/{message_id}")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"message_id": w.id("message")})),
        changing("edit_message", Effect::Idempotent)
            .preflight(edit::draft_edit)
            .run(edit::edit_message)
            .title("Edit a message")
            .when("Edit one of your own messages. Use `delete_message` to withdraw a message.")
            .patch("/messages/{message_id}")
            .needs(&[MessagePost])
            .refuses(&[Code::Forbidden, Code::WrongState])
            .example(|w| {
                json!({"message_id": w.id("message"), "body": "The build is green, and fast.",
                       "metadata": {"commit": "5be01d7"}})
            }),
        destructive("delete_message", withdraw::delete_message)
            .title("Delete a message")
            .when("Withdraw (delete) a message permanently. Use `edit_message` to correct your own message.")
            .delete("/messages/{message_id}")
            .needs(&[MessagePost, ChannelAdmin])
            .refuses(&[Code::Forbidden, Code::LegalHold])
            .example(|w| json!({"message_id": w.id("message")})),
        destructive("purge_message", withdraw::purge_message)
            .title("Purge a withdrawn message")
            .when("Remove a withdrawn message completely. Use `delete_message` to withdraw it first.")
            .post("/messages/{message_id}/purge")
            .needs(&[TokenAdmin])
            .refuses(&[Code::WrongState, Code::LegalHold])
            .example(|w| json!({"message_id": w.id("withdrawn_message")})),
        read("list_message_edits", edit::list_message_edits)
            .resumes_text("body")
            .title("List a message's edits")
            .when("List the earlier texts of an edited message, oldest first.")
            .detailed()
            .get("/messages/{message_id}/edits")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"message_id": w.id("message"), "limit": 10})),
    ]
}

request! {
    /// Returns one message by its id.
    ///
    /// The body is blank if the message is withdrawn, or if the service cannot decrypt it (`unreadable`).
    ///
    /// A purged message is not found.
    struct GetMessage {
        /// Id of the message.
        message_id: MessageId,
    }

    get_message(message_id: MessageId) -> Message
}

fn get_message(cx: &Read<'_>, input: &GetMessage) -> Result<Message> {
    visible_message(cx, input.message_id)?.decrypt(cx)
}

request! {
    /// Returns the messages of a thread, oldest first by default.
    ///
    /// Withdrawn messages, and messages that the service cannot decrypt (`unreadable`), have a blank body.
    struct ListMessages {
        /// Id of the thread.
        thread_id: ThreadId,
        /// Whether to return the newest message first.
        #[serde(default)]
        newest_first: bool,
        #[serde(default)]
        cursor: Option<Cursor>,
        #[serde(default)]
        limit: Option<Limit>,
    }

    list_messages(thread_id: ThreadId) -> Page<Message>
}

fn list_messages(cx: &Read<'_>, input: &ListMessages) -> Result<Page<Message>> {
    let place = visible_thread_place(cx, input.thread_id)?;
    let sql = if input.newest_first { LIST_NEWEST_FIRST } else { LIST_MESSAGES };
    let from = Cursor::beyond(input.cursor, input.newest_first);
    let rows = cx.rows(sql, &[&place.thread_id, &from, &rows_to_read(input.limit)])?;
    decrypt_page(cx, Page::of(rows, input.limit, |row: &StoredMessage| row.lsn))
}

/// A message that was not withdrawn, for the bearers of share tickets.
pub(crate) struct LiveMessage {
    pub id: MessageId,
    pub author_id: Option<MemberId>,
    pub posted_at: Time,
    pub edited_at: Option<Time>,
    /// Whether the message cannot be decrypted, because the database or a key is damaged.
    pub unreadable: bool,
    pub body: String,
    pub metadata: Metadata,
}

/// Returns the messages of a thread that were not withdrawn, oldest first, without notices of the service.
///
/// Notices are omitted because they reveal who works on the thread, and what the thread waits for.
pub(crate) fn live_messages(
    cx: &Read<'_>,
    thread: ThreadId,
    cursor: Option<Cursor>,
    limit: Option<Limit>,
) -> Result<Page<LiveMessage>> {
    let place = visible_thread_place(cx, thread)?;
    let rows = cx.rows(LIST_MESSAGES, &[&place.thread_id, &Cursor::after(cursor), &rows_to_read(limit)])?;
    Page::of(rows, limit, |row: &StoredMessage| row.lsn).try_filter_map(|row| {
        let content = row.content(cx)?;
        let is_live = !row.withdrawn;
        let unreadable = content.is_unreadable();
        let Plaintext { body, metadata, .. } = content.into_plaintext();
        let StoredMessage { id, author_id, posted_at, edited_at, .. } = row;
        let live = LiveMessage { id, author_id, posted_at, edited_at, unreadable, body, metadata };
        Ok((is_live && !plaintext::is_notice(&live.metadata)).then_some(live))
    })
}

/// Returns the last messages of a thread that were not withdrawn, and the number of older such messages.
///
/// Returns only messages after the position `since`, up to `limit` messages and the bytes of a page. Only the
/// last 2000 messages, including withdrawn ones, are read and counted.
pub(crate) fn context_messages(
    cx: &Read<'_>,
    thread: ThreadId,
    since: i64,
    limit: i64,
) -> Result<(Vec<ContextMessage>, i64)> {
    let place = visible_thread_place(cx, thread)?;
    let rows: Vec<StoredMessage> =
        cx.query_first_page(LAST_MESSAGES, &[&place.thread_id, &limit, &since, &PAGE_SCAN_MAX])?;
    let oldest = rows.last().map_or(0, |row| row.lsn);
    let older: Option<(i64,)> = cx.one(COUNT_OLDER, &[&place.thread_id, &oldest, &since, &PAGE_SCAN_MAX])?;
    let newest_first = rows.into_iter().map(|row| {
        let content = row.content(cx)?;
        let unreadable = content.is_unreadable();
        let Plaintext { body, content, .. } = content.into_plaintext();
        Ok(ContextMessage {
            id: row.id,
            author_id: row.author_id,
            posted_at: row.posted_at,
            unreadable,
            body,
            content,
        })
    });
    Ok((newest_first.rev().collect::<Result<_>>()?, older.map_or(0, |(count,)| count)))
}

/// Resolves the mentions of a message, and returns the members that the message reaches now, or `None` if the
/// caller does not find the message.
pub(crate) fn reaches(cx: &Read<'_>, id: MessageId) -> Result<Option<ReachedMembers>> {
    match visible_message(cx, id) {
        Ok(stored) => stored.reached_members(cx).map(Some),
        Err(error) if error.code() == Code::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the body and the metadata of a message that contains the text of a record, such as a review.
///
/// Returns `None` if the message is withdrawn or cannot be decrypted. The calling function must have checked
/// that the caller may see the record.
pub(crate) fn body_and_metadata(cx: &Read<'_>, id: MessageId) -> Result<Option<(String, Metadata)>> {
    let found: Option<StoredMessage> = cx.one(SELECT_MESSAGE, &[&id, &cx.caller().workspace_id])?;
    let Some(stored) = found else { return Ok(None) };
    Ok(match stored.content(cx)? {
        MessageContent::Plaintext(Plaintext { body, metadata, .. }) => Some((body, metadata)),
        MessageContent::Withdrawn | MessageContent::Unreadable => None,
    })
}

/// Returns the number of bytes of sealed content for each given message. Messages without content are
/// omitted.
pub(crate) fn load_sealed_sizes(cx: &Read<'_>, messages: &[MessageId]) -> Result<HashMap<MessageId, usize>> {
    let sql = match cx.engine() {
        Engine::Sqlite => SEALED_SIZES_SQLITE,
        Engine::Postgres => SEALED_SIZES_POSTGRES,
    };
    let ids: Vec<Uuid> = messages.iter().map(|message| message.uuid()).collect();
    let found: Vec<(MessageId, i64)> = cx.query(sql, &[&ids])?;
    Ok(found.into_iter().map(|(id, bytes)| (id, usize::try_from(bytes).unwrap_or(usize::MAX))).collect())
}

macro_rules! select_bytes {
    ($which:literal) => {
        concat!(
            "select m.id, cast(length(m.sealed) as bigint) from messages m
             where m.sealed is not null and m.id ",
            $which
        )
    };
}

const SEALED_SIZES_SQLITE: &str = select_bytes!("in (select unhex(value) from json_each($1))");

const SEALED_SIZES_POSTGRES: &str = select_bytes!("= any($1)");

/// Returns the first `max_chars` characters of the bodies of the given messages. Withdrawn and unreadable
/// messages are omitted.
///
/// The calling function must have checked that the reader may see the messages. Messages of other workspaces
/// are omitted.
pub(crate) fn load_previews(
    cx: &Read<'_>,
    messages: &[MessageId],
    max_chars: usize,
) -> Result<HashMap<MessageId, String>> {
    let sql = match cx.engine() {
        Engine::Sqlite => LISTED_MESSAGES_SQLITE,
        Engine::Postgres => LISTED_MESSAGES_POSTGRES,
    };
    let mut left: Vec<Uuid> = messages.iter().map(|message| message.uuid()).collect();
    left.sort_unstable();
    left.dedup();
    let mut found = HashMap::new();
    // One statement may return only some of the rows, so further statements read the remaining messages.
    while !left.is_empty() {
        let rows: Vec<StoredMessage> = cx.query_first_page(sql, &[&left, &cx.caller().workspace_id])?;
        let Some(last) = rows.last().map(|row| row.id.uuid()) else { break };
        for row in rows {
            let id = row.id;
            if let MessageContent::Plaintext(Plaintext { body, .. }) = row.content(cx)? {
                found.insert(id, body.chars().take(max_chars).collect());
            }
        }
        left.retain(|id| *id > last);
    }
    Ok(found)
}

const LISTED_MESSAGES_SQLITE: &str = select_messages!(
    "m.id in (select unhex(value) from json_each($1)) and m.workspace_id = $2 order by m.id"
);

const LISTED_MESSAGES_POSTGRES: &str =
    select_messages!("m.id = any($1) and m.workspace_id = $2 order by m.id");

/// Returns the block that the service created in a message, such as the block of a vote.
///
/// Returns `None` if the message is withdrawn or cannot be decrypted. The calling function must have checked
/// that the caller may see the record.
pub(crate) fn find_service_block(cx: &Read<'_>, id: MessageId) -> Result<Option<ServiceBlock>> {
    let found: Option<StoredMessage> = cx.one(SELECT_MESSAGE, &[&id, &cx.caller().workspace_id])?;
    let Some(stored) = found else { return Ok(None) };
    let blocks = stored.content(cx)?.into_plaintext().content;
    Ok(blocks.into_iter().find_map(|block| match block {
        Block::Own(block) => Some(block),
        Block::Given(_) => None,
    }))
}

const LIST_MESSAGES: &str = select_messages!("m.thread_id = $1 and m.lsn > $2 order by m.lsn limit $3");

const LIST_NEWEST_FIRST: &str =
    select_messages!("m.thread_id = $1 and m.lsn < $2 order by m.lsn desc limit $3");

/// SQL condition that the row `m` of `messages` is not withdrawn, and is among the last messages of a thread.
macro_rules! among_last {
    () => {
        "m.thread_id = $1 and m.withdrawn_at is null and m.lsn > $3
         and m.lsn > coalesce((
             select x.lsn from messages x where x.thread_id = $1 order by x.lsn desc limit 1 offset $4), 0)"
    };
}

const LAST_MESSAGES: &str = select_messages!(among_last!(), " order by m.lsn desc limit $2");

const COUNT_OLDER: &str =
    concat!("select count(*) from messages m where m.lsn < $2 and ", not_pruned!(), " and ", among_last!());
