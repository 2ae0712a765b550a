//! Withdrawing and purging messages.
//!
//! Withdrawing a message keeps its row as a tombstone and destroys the message's key. The sealed bytes in the
//! log remain and the chain still verifies, but the bytes can no longer be decrypted. A withdrawal is
//! complete when the scrub has also removed the bytes of the key from the database's files. Purging removes
//! the row; the events of the message remain in the log.

use std::slice::from_ref;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::marks::MessageMarks;
use super::message_row::{MessageContent, StoredMessage, visible_message};
use super::{Message, citations};
use crate::Result;
use crate::capability::Capability;
use crate::conversation::key_segments;
use crate::conversation::visibility::visible_channel;
use crate::error::Error;
use crate::id::{ChannelId, MemberId, MessageId};
use crate::log::event::{Event, RecordedEvent};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Caller, DestroyPermit, Read, Write};
use crate::request::request;

/// The id of a message that was purged.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Purged")]
#[non_exhaustive]
pub struct PurgedMessage {
    /// Id of the purged message, which can no longer be found.
    pub message_id: MessageId,
    /// Id of the channel that contained the message.
    #[serde(skip)]
    channel_id: ChannelId,
}

impl Answer<PurgeMessage> for PurgedMessage {
    type Kept = (MessageId, ChannelId);

    fn kept(&self) -> Option<(MessageId, ChannelId)> {
        Some((self.message_id, self.channel_id))
    }

    fn answer_repeat(
        cx: &Read<'_>,
        _: &PurgeMessage,
        (message_id, channel): (MessageId, ChannelId),
    ) -> Result<Self> {
        Ok(Self { message_id, channel_id: visible_channel(cx, channel)?.id })
    }
}

/// A message was withdrawn: its key was destroyed, and the content in its events can no longer be read.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MessageTombstoned {
    /// Id of the message.
    message_id: MessageId,
    /// Id of the member who posted the message; null if the service itself posted it.
    author_id: Option<MemberId>,
    /// Id of the member who withdrew the message; null if the service itself withdrew it.
    withdrawn_by: Option<MemberId>,
}

impl Event for MessageTombstoned {
    const KIND: &'static str = "MessageTombstoned";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let Some(message) = event.field("message_id") else { return Ok(()) };
        let row = event.row("messages", [message.clone()])?.clear("sealed");
        row.set("withdrawn_at", event.at()).keep()?;
        event.rows("message_edits", from_ref(message), |edit| edit.clear("sealed").keep())?;
        replay_content_removal(event, message)
    }
}

/// Replays the removal of a withdrawn message's reactions, pin and relations.
fn replay_content_removal(event: &ReplayedEvent<'_>, message: &Value) -> Result<()> {
    // The primary key of each of these tables begins with the id of the message.
    let mut tables = ["pins", "reactions", "relations"].into_iter();
    tables.try_for_each(|table| event.rows(table, from_ref(message), |row| row.remove()))
}

/// Name of the index of votes by message, which exists only while a log is replayed.
pub(crate) const VOTES_OF_MESSAGES: &str = "votes of messages";

/// A withdrawn message was purged: its row was removed.
#[derive(Serialize, JsonSchema)]
pub(super) struct MessagePurged {
    /// Id of the message.
    message_id: MessageId,
    /// Id of the member who posted the message; null if the service itself posted it.
    author_id: Option<MemberId>,
    /// Id of the member who purged the message; null if the service itself purged it.
    purged_by: Option<MemberId>,
}

impl Event for MessagePurged {
    const KIND: &'static str = "MessagePurged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let Some(message) = event.field("message_id") else { return Ok(()) };
        event.row("messages", [message.clone()])?.remove()?;
        event.rows("message_edits", from_ref(message), |edit| edit.remove())?;
        replay_content_removal(event, message)?;
        citations::replay_removed_relations(event, message)?;
        event.rows(VOTES_OF_MESSAGES, from_ref(message), |of_message| {
            let vote = of_message.key().last().cloned();
            of_message.forget()?;
            event.rows("ballots", vote.as_slice(), |ballot| ballot.remove())?;
            event.row("votes", vote)?.remove()
        })
    }
}

request! {
    /// Withdraws a message permanently, and returns the message with a blank body.
    ///
    /// Destroys the message's key, so that its content can never be read again.
    ///
    /// The message's reactions, pin and relations to other messages are removed. If the message is the
    /// question of a vote, the vote is closed. Withdrawing a withdrawn message changes nothing. If the
    /// message contains the reason for a cancel, the reason also disappears from the thread's notices, but
    /// the event ThreadCancelled still contains it. Withdrawing your own message needs `message:post` or
    /// `channel:admin`.
    ///
    /// Fails with 403 `forbidden` if another member posted the message and you lack `channel:admin`. Fails
    /// with 409 `legal-hold` while the workspace is under a legal hold.
    #[derive(Serialize)]
    pub(super) struct DeleteMessage {
        /// Id of the message.
        message_id: MessageId,
    }

    delete_message(message_id: MessageId) -> Message
}

pub(super) fn delete_message(cx: &mut Write<'_>, input: &DeleteMessage) -> Result<Message> {
    let mut stored = visible_message(cx, input.message_id)?;
    check_may_withdraw(cx.caller(), stored.author_id)?;
    if stored.withdrawn {
        return Ok(stored.into_message(MessageContent::Withdrawn, MessageMarks::default()));
    }
    let permit = cx.permit()?;
    let event = MessageTombstoned {
        message_id: stored.id,
        author_id: stored.author_id,
        withdrawn_by: cx.caller().member,
    };
    let withdrawal = cx.emit(stored.subject(), &event)?;
    destroy_content(cx, &permit, &stored, &withdrawal)?;
    stored.withdrawn = true;
    Ok(stored.into_message(MessageContent::Withdrawn, MessageMarks::default()))
}

/// Destroys the content, the earlier texts, the marks and the relations of a message that is withdrawn.
fn destroy_content(
    cx: &mut Write<'_>,
    permit: &DestroyPermit<'_>,
    stored: &StoredMessage,
    withdrawal: &RecordedEvent,
) -> Result<()> {
    cx.execute(1, BLANK_MESSAGE, &[&stored.id, &withdrawal.at])?;
    cx.execute_any(BLANK_EDITS, &[&stored.id])?;
    cx.clean_references_to_withdrawn(permit, &[stored.id])?;
    if stored.wrapped.is_some() {
        key_segments::cut_leaf(cx, permit, stored.lsn, withdrawal.lsn)
    } else {
        Ok(())
    }
}

const BLANK_MESSAGE: &str =
    "update messages set sealed = null, wrapped = null, withdrawn_at = $2 where id = $1";

const BLANK_EDITS: &str = "update message_edits set sealed = null where message_id = $1";

/// Fails unless the caller has `channel:admin`, or is the author and has `message:post`.
fn check_may_withdraw(caller: &Caller, author: Option<MemberId>) -> Result<()> {
    let own = caller.is_member() && author == caller.member;
    if caller.capabilities.has(Capability::ChannelAdmin)
        || (own && caller.capabilities.has(Capability::MessagePost))
    {
        return Ok(());
    }
    Err(Error::forbidden("withdrawing another member's message needs the capability channel:admin"))
}

request! {
    /// Purges a withdrawn message and returns the message's id.
    ///
    /// Removes the message and its edits, which can then no longer be found.
    ///
    /// Fails with 409 `wrong-state` if the message is not withdrawn. Fails with 409 `legal-hold` while the
    /// workspace is under a legal hold.
    #[derive(Serialize)]
    pub(super) struct PurgeMessage {
        /// Id of the message.
        message_id: MessageId,
    }

    purge_message(message_id: MessageId) -> PurgedMessage
}

pub(super) fn purge_message(cx: &mut Write<'_>, input: &PurgeMessage) -> Result<PurgedMessage> {
    let stored = visible_message(cx, input.message_id)?;
    if !stored.withdrawn {
        return Err(Error::wrong_state("only a withdrawn message can be purged"));
    }
    let permit = cx.permit()?;
    let event =
        MessagePurged { message_id: stored.id, author_id: stored.author_id, purged_by: cx.caller().member };
    cx.emit(stored.subject(), &event)?;
    remove_messages(cx, &permit, &[stored.id])?;
    Ok(PurgedMessage { message_id: stored.id, channel_id: stored.channel_id })
}

/// Removes the rows of messages, and all rows of other tables that depend on these messages.
pub(super) fn remove_messages(
    cx: &mut Write<'_>,
    permit: &DestroyPermit<'_>,
    messages: &[MessageId],
) -> Result<()> {
    cx.clean(permit, messages)?;
    messages.iter().try_for_each(|id| cx.execute(1, DELETE_MESSAGE, &[id]))
}

const DELETE_MESSAGE: &str = "delete from messages where id = $1";

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::id::WorkspaceId;

    #[test]
    fn the_author_and_administrators_may_withdraw() {
        let author = MemberId::from(Uuid::from_u128(1));
        let other = MemberId::from(Uuid::from_u128(2));
        let cases = [
            (author, [Capability::MessagePost].as_slice(), true),
            (author, &[Capability::ChannelAdmin], true),
            (other, &[Capability::MessagePost], false),
            (other, &[Capability::MessagePost, Capability::WorkspaceWrite, Capability::TokenAdmin], false),
            (other, &[Capability::ChannelAdmin], true),
            (author, &[], false),
        ];
        for (member, capabilities, may) in cases {
            let caller = Caller::bearer_for_tests(WorkspaceId::INSTANCE, member, capabilities);
            assert_eq!(check_may_withdraw(&caller, Some(author)).is_ok(), may, "{member} {capabilities:?}");
        }
        assert!(check_may_withdraw(&Caller::instance(WorkspaceId::INSTANCE), None).is_ok());
    }
}
