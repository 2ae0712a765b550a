//! The row of a message: loading the row, decrypting the content, and building the message that members read.

use std::collections::HashMap;

use uuid::Uuid;

use super::Message;
use super::keys;
use super::marks::{self, MessageMarks};
use super::plaintext::{self, Plaintext};
use crate::Result;
use crate::conversation::mentions::{self, PossibleMentions, ReachedMembers};
use crate::conversation::visibility::{check_not_archived, visible_channel};
use crate::error::{Code, Error};
use crate::hash::format_hash;
use crate::id::{ChannelId, MemberId, MessageId, ThreadId, WorkspaceId};
use crate::log::event::Subject;
use crate::log::key_tree::Binding;
use crate::log::seal::{DecryptionFailed, MessageKey};
use crate::op::{Read, Write};
use crate::page::Page;
use crate::store::columns;
use crate::time::Time;

/// The row of a message, including its wrapped key.
pub(super) struct StoredMessage {
    pub id: MessageId,
    pub workspace_id: WorkspaceId,
    pub channel_id: ChannelId,
    pub thread_id: ThreadId,
    pub author_id: Option<MemberId>,
    pub posted_at: Time,
    pub edited_at: Option<Time>,
    pub edits: i64,
    pub withdrawn: bool,
    pub sealed: Option<Vec<u8>>,
    /// Whether the message has, or once had, marks (reactions or a pin).
    pub marked: bool,
    /// Content hash of the event that contains the message's current content.
    pub content_hash: Option<[u8; 32]>,
    pub lsn: i64,
    /// The message's key, wrapped with the key-tree leaf for the message's position.
    pub wrapped: Option<Vec<u8>>,
}

columns! {
    pub(crate) message_columns: StoredMessage as m {
        id,
        workspace_id,
        channel_id,
        thread_id,
        author_id,
        posted_at,
        edited_at,
        edits,
        withdrawn = "m.withdrawn_at is not null",
        sealed,
        marked,
        content_hash,
        lsn,
        wrapped,
    }
}

/// The content of a message, or the reason why it cannot be read.
pub(super) enum MessageContent {
    Plaintext(Plaintext),
    Withdrawn,
    /// The sealed content cannot be decrypted, because the database or a key is damaged.
    Unreadable,
}

impl MessageContent {
    /// Converts the result of decrypting the message `id`. Writes a failure to the server's log.
    pub fn from_decrypted(id: MessageId, decrypted: Result<Plaintext, DecryptionFailed>) -> Self {
        match decrypted {
            Ok(plaintext) => Self::Plaintext(plaintext),
            Err(unopened) => {
                tracing::warn!(message = %id, %unopened, "a message cannot be read");
                Self::Unreadable
            }
        }
    }

    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable)
    }

    /// Returns the plaintext, or a blank plaintext if the message is withdrawn or unreadable.
    pub fn into_plaintext(self) -> Plaintext {
        match self {
            Self::Plaintext(plaintext) => plaintext,
            Self::Withdrawn | Self::Unreadable => Plaintext::default(),
        }
    }
}

/// Loads the row of a message. Fails with *not found* if the caller may not see the message's channel.
///
/// The visibility of channels is cached per member, so a repeated read takes only one statement.
pub(super) fn visible_message(cx: &Read<'_>, id: MessageId) -> Result<StoredMessage> {
    let found: Option<StoredMessage> = cx.one(SELECT_MESSAGE, &[&id, &cx.caller().workspace_id])?;
    let stored = found.ok_or_else(|| Error::not_found("message"))?;
    let hidden = |error: Error| match error.code() {
        Code::NotFound => Error::not_found("message"),
        _ => error,
    };
    visible_channel(cx, stored.channel_id).map_err(hidden)?;
    Ok(stored)
}

/// Channel, thread and author of a message, and whether the message is withdrawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessagePlace {
    pub id: MessageId,
    pub channel_id: ChannelId,
    pub thread_id: ThreadId,
    pub author_id: Option<MemberId>,
    pub withdrawn: bool,
}

impl MessagePlace {
    pub(super) fn from_stored(stored: &StoredMessage) -> Self {
        let StoredMessage { id, channel_id, thread_id, author_id, withdrawn, .. } = *stored;
        Self { id, channel_id, thread_id, author_id, withdrawn }
    }
}

/// Loads the channel, the thread and the author of a message. Fails with *not found* if the caller may not
/// see the message's channel.
pub(crate) fn visible_message_place(cx: &Read<'_>, id: MessageId) -> Result<MessagePlace> {
    visible_message(cx, id).map(|stored| MessagePlace::from_stored(&stored))
}

/// SQL that selects messages and omits pruned messages, whose rows may still exist.
macro_rules! select_messages {
    ($($rest:tt)*) => {
        concat!(
            "select ",
            $crate::conversation::messages::message_row::message_columns!(),
            " from messages m where ",
            $crate::conversation::messages::message_row::not_pruned!(),
            " and ",
            $($rest)*
        )
    };
}

pub(super) use select_messages;

/// SQL condition that the row `m` of `messages` is not a pruned message.
macro_rules! not_pruned {
    () => {
        "m.lsn > (select h.words_floor from heads h where h.workspace_id = m.workspace_id)"
    };
}
pub(crate) use not_pruned;

pub(super) const SELECT_MESSAGE: &str = select_messages!("m.id = $1 and m.workspace_id = $2");

impl StoredMessage {
    /// Returns the subject of the message's events: the channel, the thread and the author of the message.
    pub fn subject(&self) -> Subject {
        Subject { member_id: self.author_id, ..Subject::thread(self.channel_id, self.thread_id) }
    }

    /// Returns the ids to which the message's key is bound.
    fn key_binding(&self) -> Binding {
        Binding {
            workspace_id: self.workspace_id,
            thread_id: self.thread_id,
            author_id: self.author_id,
            message_id: self.id,
        }
    }

    /// Decrypts the key of a live message. The inner error means that the key cannot be decrypted.
    pub fn key(&self, cx: &Read<'_>) -> Result<Result<MessageKey, DecryptionFailed>> {
        keys::open_key(cx, &self.key_binding(), self.lsn, self.wrapped.as_deref())
    }

    /// Decrypts the current content of the message.
    pub fn content(&self, cx: &Read<'_>) -> Result<MessageContent> {
        if self.withdrawn {
            return Ok(MessageContent::Withdrawn);
        }
        self.content_of_edit(cx, self.edits, self.sealed.as_deref())
    }

    /// Decrypts text number `edit` of a live message.
    pub fn content_of_edit(&self, cx: &Read<'_>, edit: i64, sealed: Option<&[u8]>) -> Result<MessageContent> {
        let key = self.key(cx)?;
        let opened = key.and_then(|key| {
            plaintext::open(cx.sealer(), &key, self.id, edit, sealed.ok_or(DecryptionFailed)?)
        });
        Ok(MessageContent::from_decrypted(self.id, opened))
    }

    /// Resolves the mentions of the message, and returns the members that the message reaches now.
    pub fn reached_members(&self, cx: &Read<'_>) -> Result<ReachedMembers> {
        let plaintext = self.content(cx)?.into_plaintext();
        mentions::resolve_mentions(
            cx,
            self.channel_id,
            self.author_id,
            &PossibleMentions::find(&plaintext.texts()),
        )
    }

    /// Returns the reactions and the pin of the message.
    pub fn marks(&self, cx: &Read<'_>) -> Result<MessageMarks> {
        Ok(load_marks_if_marked(cx, [self])?.remove(&self.id).unwrap_or_default())
    }

    /// Sets `marked` in the message's row, because the message has a reaction or a pin.
    pub fn set_marked(&self, cx: &mut Write<'_>) -> Result<()> {
        if self.marked {
            return Ok(());
        }
        cx.execute(1, SET_MARKED, &[&self.id])
    }

    /// Fails if the message cannot receive reactions or a pin, because it is withdrawn or its channel is
    /// archived.
    pub fn check_accepts_marks(&self, cx: &Read<'_>) -> Result<()> {
        if self.withdrawn {
            return Err(Error::wrong_state("the message is withdrawn and accepts no reactions and no pin"));
        }
        check_not_archived(&visible_channel(cx, self.channel_id)?)
    }

    /// Returns the message as members read it.
    pub fn decrypt(self, cx: &Read<'_>) -> Result<Message> {
        let mut marks = load_marks_if_marked(cx, [&self])?;
        self.decrypt_with_marks(cx, &mut marks)
    }

    /// Returns the message as members read it, with marks that the caller of this function has loaded.
    pub fn decrypt_with_marks(
        self,
        cx: &Read<'_>,
        marks: &mut HashMap<MessageId, MessageMarks>,
    ) -> Result<Message> {
        let content = self.content(cx)?;
        let marks = marks.remove(&self.id).unwrap_or_default();
        Ok(self.into_message(content, marks))
    }

    pub fn into_message(self, content: MessageContent, marks: MessageMarks) -> Message {
        let unreadable = content.is_unreadable();
        let plaintext = content.into_plaintext();
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
            unreadable,
            body: plaintext.body,
            metadata: plaintext.metadata,
            content: plaintext.content,
            reactions: marks.reactions,
            pinned: marks.pinned,
            content_hash: self.content_hash.as_ref().map(format_hash),
            lsn: self.lsn,
        }
    }
}

const SET_MARKED: &str = "update messages set marked = true where id = $1";

/// Returns the marks of the given messages. Runs no statement if none of the messages has marks.
pub(super) fn load_marks_if_marked<'m>(
    cx: &Read<'_>,
    messages: impl IntoIterator<Item = &'m StoredMessage>,
) -> Result<HashMap<MessageId, MessageMarks>> {
    marks::load_marks(cx, messages.into_iter().filter(|message| message.marked).map(|message| message.id))
}

/// Converts a page of message rows to the messages that members read.
pub(super) fn decrypt_page(cx: &Read<'_>, page: Page<StoredMessage>) -> Result<Page<Message>> {
    let mut marks = load_marks_if_marked(cx, page.items())?;
    page.try_map(|stored| stored.decrypt_with_marks(cx, &mut marks))
}

/// Length of a message's address, in bytes.
const MESSAGE_URI_BYTES: usize = 180;

/// Returns the address of a message. The address contains the id of the workspace, never its handle.
pub(crate) fn uri(
    workspace: WorkspaceId,
    channel: ChannelId,
    thread: ThreadId,
    message: MessageId,
) -> String {
    let mut uri = String::with_capacity(MESSAGE_URI_BYTES);
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
