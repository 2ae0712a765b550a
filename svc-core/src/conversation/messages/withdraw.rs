//! Withdrawing and purging. Withdrawing leaves a tombstone and destroys the key: the sealed bytes in the log stay,
//! the chain still verifies, and nobody can read them. It is finished when the scrub has removed the key's bytes
//! from the files too. Purging removes the tombstone's row; what the log says about it stays.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Message, Stored, visible_message};
use crate::Result;
use crate::capability::Capability;
use crate::conversation::{acting_member, scrub};
use crate::error::Error;
use crate::id::{MemberId, MessageId};
use crate::log::event::Event;
use crate::op::{Caller, Write};

/// A message that was purged.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Purged {
    /// The message, which from now on is not found.
    message_id: MessageId,
}

/// A message was withdrawn: its key is destroyed, and the words of its events cannot be read any more.
#[derive(Serialize, JsonSchema)]
pub(super) struct MessageTombstoned {
    /// The message.
    message_id: MessageId,
    /// Who posted it.
    author_id: MemberId,
    /// Who withdrew it; null for the service itself.
    withdrawn_by: Option<MemberId>,
}

impl Event for MessageTombstoned {
    const KIND: &'static str = "MessageTombstoned";
}

/// A withdrawn message's row was removed.
#[derive(Serialize, JsonSchema)]
pub(super) struct MessagePurged {
    /// The message.
    message_id: MessageId,
    /// Who had posted it.
    author_id: MemberId,
    /// Who purged it; null for the service itself.
    purged_by: Option<MemberId>,
}

impl Event for MessagePurged {
    const KIND: &'static str = "MessagePurged";
}

/// Withdraws a message for good: its key is destroyed, and it reads with a blank body from now on. Answers the
/// message as it reads now; withdrawing it again changes nothing. Your own needs `message:post`, another's
/// `channel:admin` (403).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeleteMessage {
    /// The message.
    message_id: MessageId,
}

pub(super) fn delete_message(cx: &mut Write<'_>, input: &DeleteMessage) -> Result<Message> {
    let stored = visible_message(cx, input.message_id)?;
    check_may_withdraw(cx.caller(), stored.author_id)?;
    if stored.withdrawn {
        return stored.open(cx.sealer());
    }
    let event = MessageTombstoned {
        message_id: stored.id,
        author_id: stored.author_id,
        withdrawn_by: acting_member(cx.caller()),
    };
    cx.emit(stored.place(), &event)?;
    let now = cx.now();
    cx.execute(1, BLANK_MESSAGE, &[&stored.id, &now])?;
    cx.execute_any(BLANK_EDITS, &[&stored.id])?;
    cx.execute(1, DESTROY_KEY, &[&stored.id])?;
    scrub::ask(cx)?;
    Stored { withdrawn: true, sealed: None, wrapped: None, ..stored }.open(cx.sealer())
}

const BLANK_MESSAGE: &str = "update messages set sealed = null, withdrawn_at = $2 where id = $1";

const BLANK_EDITS: &str = "update message_edits set sealed = null where message_id = $1";

const DESTROY_KEY: &str = "delete from message_keys where message_id = $1";

/// The author withdraws with `message:post`; `channel:admin` withdraws anybody's.
fn check_may_withdraw(caller: &Caller, author: MemberId) -> Result<()> {
    let own = caller.is_member() && caller.member_id == author;
    if caller.capabilities.has(Capability::ChannelAdmin)
        || (own && caller.capabilities.has(Capability::MessagePost))
    {
        return Ok(());
    }
    Err(Error::forbidden("withdrawing another's message needs the capability channel:admin"))
}

/// Removes a withdrawn message's row and those of its edits; it is not found from now on. A message that is not
/// withdrawn cannot be purged (409): withdraw it first.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PurgeMessage {
    /// The message.
    message_id: MessageId,
}

pub(super) fn purge_message(cx: &mut Write<'_>, input: &PurgeMessage) -> Result<Purged> {
    let stored = visible_message(cx, input.message_id)?;
    if !stored.withdrawn {
        return Err(Error::wrong_state("only a withdrawn message can be purged; withdraw it first"));
    }
    let event = MessagePurged {
        message_id: stored.id,
        author_id: stored.author_id,
        purged_by: acting_member(cx.caller()),
    };
    cx.emit(stored.place(), &event)?;
    cx.execute_any(DELETE_EDITS, &[&stored.id])?;
    cx.execute(1, DELETE_MESSAGE, &[&stored.id])?;
    Ok(Purged { message_id: stored.id })
}

const DELETE_EDITS: &str = "delete from message_edits where message_id = $1";

const DELETE_MESSAGE: &str = "delete from messages where id = $1";

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::id::WorkspaceId;

    #[test]
    fn who_may_withdraw() {
        let (author, other) = (MemberId::from(Uuid::from_u128(1)), MemberId::from(Uuid::from_u128(2)));
        let cases = [
            (author, [Capability::MessagePost].as_slice(), true),
            (author, &[Capability::ChannelAdmin], true),
            (other, &[Capability::MessagePost], false),
            (other, &[Capability::MessagePost, Capability::WorkspaceWrite, Capability::TokenAdmin], false),
            (other, &[Capability::ChannelAdmin], true),
            (author, &[], false),
        ];
        for (member, capabilities, may) in cases {
            let mut caller = Caller::instance(WorkspaceId::INSTANCE);
            caller.token_id = Some(Uuid::from_u128(9).into());
            caller.member_id = member;
            caller.capabilities = capabilities.iter().copied().collect();
            assert_eq!(check_may_withdraw(&caller, author).is_ok(), may, "{member} {capabilities:?}");
        }
        assert!(check_may_withdraw(&Caller::instance(WorkspaceId::INSTANCE), author).is_ok());
    }
}
