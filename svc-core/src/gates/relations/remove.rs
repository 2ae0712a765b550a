//! Removing relations: single ones on request, and all relations of withdrawn or deleted messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Relation, RelationKind, visible_relation};
use crate::Result;
use crate::capability::Capability::ChannelAdmin;
use crate::error::Error;
use crate::id::{MemberId, MessageId, RelationId};
use crate::log::event::Event;
use crate::log::replay::Replayed;
use crate::op::{Caller, DestroyPermit, Write};

/// A relation between two messages was removed.
#[derive(Serialize, JsonSchema)]
pub(super) struct RelationRemoved {
    /// The relation.
    relation_id: RelationId,
    /// The message that made the relation.
    from_id: MessageId,
    /// The target of the relation; null if not everyone who sees the event may see the target.
    to_id: Option<MessageId>,
    /// The kind of the relation.
    kind: RelationKind,
    /// The member who removed the relation; null for the service itself.
    member_id: Option<MemberId>,
}

impl Event for RelationRemoved {
    const KIND: &'static str = "RelationRemoved";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        event.row_of("relations", "from_id relation_id")?.remove()
    }
}

/// Removes a relation between two messages and returns the removed relation.
///
/// Fails with 403 `forbidden` if you did not make it and lack `channel:admin`; 409 `wrong-state` if it was
/// derived from a citation in the message.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveRelation {
    /// The relation.
    relation_id: RelationId,
}

pub(super) fn remove_relation(cx: &mut Write<'_>, input: &RemoveRelation) -> Result<Relation> {
    let (relation, ends) = visible_relation(cx, input.relation_id)?;
    check_may_remove(cx.caller(), relation.made_by)?;
    if relation.derived {
        let what = "the relation follows from what the message cites: edit the message";
        return Err(Error::wrong_state(what));
    }
    let event = RelationRemoved {
        relation_id: relation.id,
        from_id: relation.from_id,
        to_id: ends.shown(relation.to_id),
        kind: relation.kind,
        member_id: cx.caller().member,
    };
    cx.emit(ends.subject(&relation), &event)?;
    cx.execute(1, DELETE, &[&relation.id])?;
    Ok(relation)
}

const DELETE: &str = "delete from relations where id = $1";

/// Fails unless the caller made the relation or has the capability `channel:admin`.
fn check_may_remove(caller: &Caller, made_by: Option<MemberId>) -> Result<()> {
    let made = made_by.is_some() && made_by == caller.member;
    if made || caller.capabilities.has(ChannelAdmin) {
        return Ok(());
    }
    Err(Error::forbidden("only its maker or a member with channel:admin removes a relation"))
}

/// Removes the relations that withdrawn messages make. Relations to withdrawn messages stay, without effect.
pub(super) fn remove_from(cx: &mut Write<'_>, _: &DestroyPermit<'_>, messages: &[MessageId]) -> Result<()> {
    messages.iter().try_for_each(|id| cx.execute_any(DELETE_FROM, &[id]))
}

/// Removes the relations from and to messages whose rows are being deleted.
pub(super) fn remove_of(
    cx: &mut Write<'_>,
    permit: &DestroyPermit<'_>,
    messages: &[MessageId],
) -> Result<()> {
    remove_from(cx, permit, messages)?;
    messages.iter().try_for_each(|id| cx.execute_any(DELETE_TO, &[id]))
}

const DELETE_FROM: &str = "delete from relations where from_id = $1";

const DELETE_TO: &str = "delete from relations where to_id = $1";
