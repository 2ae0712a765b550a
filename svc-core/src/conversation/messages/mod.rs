//! Messages: what members say in a thread. Words are sealed per message; rows and events hold sealed bytes, and
//! withdrawing a message destroys its key, after which the words are unreadable wherever the bytes were copied.
//! Reading is here; posting, editing and withdrawing have a file each. Mentions, reactions, pins and search are
//! other features.

mod edit;
mod post;
mod withdraw;
mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::places::{visible_channel, visible_place};
use crate::Result;
use crate::capability::Capability::{ChannelAdmin, MessagePost, TokenAdmin, WorkspaceRead};
use crate::error::{Code, Error};
use crate::id::{ChannelId, MemberId, MessageId, ThreadId, WorkspaceId};
use crate::log::event::{EventKind, Place};
use crate::log::seal::{MessageKey, Sealer};
use crate::op::{Effect, Feature, Read, destructive, idempotent, prepared, read};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::store::{FromRow, Row};
use crate::time::Time;
pub(crate) use post::{SealedPost, post_sealed, seal_post};
use words::{Metadata, Words};

/// A message. A withdrawn one keeps its row, with a blank body and no metadata.
#[derive(Serialize, JsonSchema)]
struct Message {
    /// The message.
    id: MessageId,
    /// The workspace it belongs to.
    workspace_id: WorkspaceId,
    /// The channel of its thread.
    channel_id: ChannelId,
    /// The thread it was posted in.
    thread_id: ThreadId,
    /// Who posted it.
    author_id: MemberId,
    /// When it was posted.
    posted_at: Time,
    /// When it was last edited; null if never.
    edited_at: Option<Time>,
    /// How often it was edited.
    edits: i64,
    /// Whether it was withdrawn.
    withdrawn: bool,
    /// What it says; blank once withdrawn.
    body: String,
    /// What else the author attached; empty once withdrawn.
    metadata: Metadata,
    /// Its address for citations, which does not change.
    uri: String,
    /// The position of its posting in the workspace's log.
    lsn: i64,
}

/// A message as a thread's context pack shows it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ContextMessage {
    /// The message.
    pub id: MessageId,
    /// Who posted it.
    pub author_id: MemberId,
    /// When it was posted.
    pub posted_at: Time,
    /// What it says.
    pub body: String,
}

pub(crate) fn feature() -> Feature {
    let rows = vec![
        prepared("post_message", Effect::Write, post::seal_input, post::post_message)
            .title("Post a message")
            .post("/threads/{thread_id}/messages")
            .needs(&[MessagePost])
            .created()
            .example(|w| {
                json!({"thread_id": w.thread_id, "body": "The build is green again.",
                       "metadata": {"commit": "0f3c9a1"}})
            }),
        read("list_messages", list_messages)
            .title("List a thread's messages")
            .get("/threads/{thread_id}/messages")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"thread_id": w.thread_id, "limit": 10})),
        read("get_message", get_message)
            .quick()
            .title("Read a message")
            .get("/messages/{message_id}")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"message_id": w.message_id})),
        idempotent("edit_message", edit::edit_message)
            .title("Edit a message")
            .patch("/messages/{message_id}")
            .needs(&[MessagePost])
            .example(|w| {
                json!({"message_id": w.message_id, "body": "The build is green, and fast.",
                       "metadata": {"commit": "5be01d7"}})
            }),
        destructive("delete_message", withdraw::delete_message)
            .title("Withdraw a message")
            .delete("/messages/{message_id}")
            .needs(&[MessagePost, ChannelAdmin])
            .example(|w| json!({"message_id": w.message_id})),
        destructive("purge_message", withdraw::purge_message)
            .title("Purge a withdrawn message")
            .post("/messages/{message_id}/purge")
            .needs(&[TokenAdmin])
            .example(|w| json!({"message_id": w.withdrawn_message_id})),
        read("list_message_edits", edit::list_message_edits)
            .title("List a message's earlier texts")
            .get("/messages/{message_id}/edits")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"message_id": w.message_id, "limit": 10})),
    ];
    Feature::new().operations("messages", rows).events(vec![
        EventKind::of::<post::MessagePosted>(),
        EventKind::of::<edit::MessageEdited>(),
        EventKind::of::<withdraw::MessageTombstoned>(),
        EventKind::of::<withdraw::MessagePurged>(),
    ])
}

/// Reads a message. A withdrawn message has a blank body; a purged one, and one in a private channel that you are
/// not a member of, is not found.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetMessage {
    /// The message.
    message_id: MessageId,
}

fn get_message(cx: &Read<'_>, input: &GetMessage) -> Result<Message> {
    visible_message(cx, input.message_id)?.open(cx.sealer())
}

/// Lists a thread's messages, oldest first. Withdrawn messages keep their place, with a blank body.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListMessages {
    /// The thread.
    thread_id: ThreadId,
    /// Where to read on: `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<Cursor>,
    /// Rows on a page.
    #[serde(default)]
    limit: Option<Limit>,
}

fn list_messages(cx: &Read<'_>, input: &ListMessages) -> Result<Page<Message>> {
    let place = visible_place(cx, input.thread_id)?;
    let rows: Vec<Stored> =
        cx.query(LIST, &[&place.thread_id, &Cursor::after(input.cursor), &rows_to_read(input.limit)])?;
    let page = Page::of(rows, input.limit, |row| row.lsn);
    let items = page.items.into_iter().map(|row| row.open(cx.sealer())).collect::<Result<_>>()?;
    Ok(Page { items, next_cursor: page.next_cursor })
}

/// The last `limit` live messages of a thread that the caller may see, oldest first.
pub(crate) fn context_messages(cx: &Read<'_>, thread: ThreadId, limit: i64) -> Result<Vec<ContextMessage>> {
    let place = visible_place(cx, thread)?;
    let rows: Vec<Stored> = cx.query(LAST, &[&place.thread_id, &limit])?;
    let newest_first = rows.into_iter().map(|row| {
        let body = row.words(cx.sealer())?.body;
        Ok(ContextMessage { id: row.id, author_id: row.author_id, posted_at: row.posted_at, body })
    });
    newest_first.rev().collect()
}

/// A message's row with its key.
struct Stored {
    id: MessageId,
    workspace_id: WorkspaceId,
    channel_id: ChannelId,
    thread_id: ThreadId,
    author_id: MemberId,
    posted_at: Time,
    edited_at: Option<Time>,
    edits: i64,
    withdrawn: bool,
    sealed: Option<Vec<u8>>,
    lsn: i64,
    wrapped: Option<Vec<u8>>,
}

/// The message, if the caller may see its channel. Who asks again is known to see it, so that what agents ask most
/// comes down to one statement.
fn visible_message(cx: &Read<'_>, id: MessageId) -> Result<Stored> {
    let found: Option<Stored> = cx.one(BY_ID, &[&id, &cx.caller().workspace_id])?;
    let stored = found.ok_or_else(|| Error::not_found("message"))?;
    let hidden = |error: Error| match error.code() {
        Code::NotFound => Error::not_found("message"),
        _ => error,
    };
    visible_channel(cx, stored.channel_id).map_err(hidden)?;
    Ok(stored)
}

macro_rules! select_messages {
    ($rest:literal) => {
        concat!(
            "select m.id, m.workspace_id, m.channel_id, m.thread_id, m.author_id, m.posted_at, m.edited_at,
                    m.edits, m.withdrawn_at is not null, m.sealed, m.lsn, k.wrapped
             from messages m left join message_keys k on k.message_id = m.id ",
            $rest
        )
    };
}

const BY_ID: &str = select_messages!("where m.id = $1 and m.workspace_id = $2");

const LIST: &str = select_messages!("where m.thread_id = $1 and m.lsn > $2 order by m.lsn limit $3");

const LAST: &str =
    select_messages!("where m.thread_id = $1 and m.withdrawn_at is null order by m.lsn desc limit $2");

impl Stored {
    /// The place of the message's events, about its author.
    fn place(&self) -> Place {
        Place::thread(self.channel_id, self.thread_id).about(self.author_id)
    }

    /// The key of a live message.
    fn key(&self, sealer: &Sealer) -> Result<MessageKey> {
        let wrapped = self.wrapped.as_deref().ok_or_else(|| damaged(self.id, "key"))?;
        sealer.unwrap(self.id, wrapped)
    }

    /// What the message says now; nothing once it is withdrawn.
    fn words(&self, sealer: &Sealer) -> Result<Words> {
        if self.withdrawn {
            return Ok(Words::default());
        }
        let sealed = self.sealed.as_deref().ok_or_else(|| damaged(self.id, "text"))?;
        words::open(sealer, &self.key(sealer)?, self.id, self.edits, sealed)
    }

    fn open(self, sealer: &Sealer) -> Result<Message> {
        let words = self.words(sealer)?;
        Ok(self.saying(words))
    }

    fn saying(self, words: Words) -> Message {
        Message {
            uri: uri(self.workspace_id, self.channel_id, self.thread_id, self.id),
            id: self.id,
            workspace_id: self.workspace_id,
            channel_id: self.channel_id,
            thread_id: self.thread_id,
            author_id: self.author_id,
            posted_at: self.posted_at,
            edited_at: self.edited_at,
            edits: self.edits,
            withdrawn: self.withdrawn,
            body: words.body,
            metadata: words.metadata,
            lsn: self.lsn,
        }
    }
}

/// Length of a message's address.
const URI_BYTES: usize = 180;

/// A message's address. The authority is always the workspace's id, never its handle.
fn uri(workspace: WorkspaceId, channel: ChannelId, thread: ThreadId, message: MessageId) -> String {
    let mut uri = String::with_capacity(URI_BYTES);
    let parts = [
        ("svc://", workspace.uuid()),
        ("/channels/", channel.uuid()),
        ("/threads/", thread.uuid()),
        ("/messages/", message.uuid()),
    ];
    for (before, id) in parts {
        uri.push_str(before);
        uri.push_str(id.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
    }
    uri
}

/// A live message that has lost what it needs: somebody else wrote to the database.
fn damaged(message: MessageId, missing: &'static str) -> Error {
    Error::internal(format!("the live message {message} has no {missing}"))
}

impl FromRow for Stored {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            id: row.take()?,
            workspace_id: row.take()?,
            channel_id: row.take()?,
            thread_id: row.take()?,
            author_id: row.take()?,
            posted_at: row.take()?,
            edited_at: row.take()?,
            edits: row.take()?,
            withdrawn: row.take()?,
            sealed: row.take()?,
            lsn: row.take()?,
            wrapped: row.take()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::entropy::Entropy;

    fn stored(sealer: &Sealer) -> Stored {
        let (id, key) = (MessageId::from(Uuid::from_u128(4)), sealer.new_key().unwrap());
        let sealed = words::seal(sealer, &key, id, 0, "hello", &Metadata::new()).unwrap();
        Stored {
            id,
            workspace_id: Uuid::from_u128(1).into(),
            channel_id: Uuid::from_u128(2).into(),
            thread_id: Uuid::from_u128(3).into(),
            author_id: Uuid::from_u128(5).into(),
            posted_at: Time::from_micros(0),
            edited_at: None,
            edits: 0,
            withdrawn: false,
            sealed: Some(sealed.bytes),
            lsn: 9,
            wrapped: Some(sealer.wrap(id, &key).unwrap()),
        }
    }

    #[test]
    fn a_live_message_opens_and_a_withdrawn_one_is_blank() {
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        let live = stored(&sealer).open(&sealer).unwrap();
        assert_eq!((live.body.as_str(), live.withdrawn), ("hello", false));
        assert!(live.uri.starts_with("svc://00000000-0000-0000-0000-000000000001/channels/"), "{}", live.uri);
        let gone = Stored { withdrawn: true, sealed: None, wrapped: None, ..stored(&sealer) };
        let gone = gone.open(&sealer).unwrap();
        assert!(gone.body.is_empty() && gone.metadata.is_empty() && gone.withdrawn);
    }

    #[test]
    fn a_live_message_without_its_key_is_our_fault() {
        let sealer = Sealer::new([7; 32], &[], Entropy::System);
        for damaged in
            [Stored { wrapped: None, ..stored(&sealer) }, Stored { sealed: None, ..stored(&sealer) }]
        {
            assert!(damaged.open(&sealer).is_err_and(|error| error.code().status() == 500));
        }
    }
}
