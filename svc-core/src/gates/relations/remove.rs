//! Removing relations: one relation on request, or all relations of withdrawn or deleted messages.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Relation, RelationKind, visible_relation};
use crate::Result;
use crate::capability::Capability::ChannelAdmin;
use crate::error::Error;
use crate::id::{MemberId, MessageId, RelationId};
use crate::log::event::Event;
use crate::log::replay::ReplayedEvent;
use crate::op::{Caller, DestroyPermit, Write};
use crate::request::request;

/// A relation between two messages was removed.
#[derive(Serialize, JsonSchema)]
pub(super) struct RelationRemoved {
    /// Id of the removed relation.
    relation_id: RelationId,
    /// Id of the source message of the removed relation.
    from_id: MessageId,
    /// Id of the target message; null if some members who can see the event may not see the target.
    to_id: Option<MessageId>,
    /// Kind of the removed relation, such as `cites`.
    kind: RelationKind,
    /// The member who removed the relation; null for the service itself.
    member_id: Option<MemberId>,
}

impl Event for RelationRemoved {
    const KIND: &'static str = "RelationRemoved";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("relations", "from_id relation_id")?.remove()
    }
}

request! {
    /// Removes a relation between two messages and returns the removed relation.
    ///
    /// Fails with 403 `forbidden` if you did not make the relation and lack `channel:admin`; 409
    /// `wrong-state` if the relation was derived from a citation in the source message.
    #[derive(Serialize)]
    pub(super) struct RemoveRelation {
        /// Id of the relation.
        relation_id: RelationId,
    }

    remove_relation(relation_id: RelationId) -> Relation
}

pub(super) fn remove_relation(cx: &mut Write<'_>, input: &RemoveRelation) -> Result<Relation> {
    let (relation, channels) = visible_relation(cx, input.relation_id)?;
    check_may_remove(cx.caller(), relation.made_by)?;
    if relation.derived {
        let detail = "the relation follows from what the message cites: edit the message";
        return Err(Error::wrong_state(detail));
    }
    let event = RelationRemoved {
        relation_id: relation.id,
        from_id: relation.from_id,
        to_id: channels.target_in_events(relation.to_id),
        kind: relation.kind,
        member_id: cx.caller().member,
    };
    cx.emit(channels.event_subject(&relation), &event)?;
    cx.execute(1, DELETE_RELATION, &[&relation.id])?;
    Ok(relation)
}

const DELETE_RELATION: &str = "delete from relations where id = $1";

/// Fails unless the caller made the relation or has the capability `channel:admin`.
fn check_may_remove(caller: &Caller, made_by: Option<MemberId>) -> Result<()> {
    let made = made_by.is_some() && made_by == caller.member;
    if made || caller.capabilities.has(ChannelAdmin) {
        return Ok(());
    }
    Err(Error::forbidden("only its maker or a member with channel:admin removes a relation"))
}

/// Removes all relations whose source message is in `messages`. Relations to these messages are kept, without
/// effect.
///
/// Called when messages are withdrawn.
pub(super) fn remove_relations_from(
    cx: &mut Write<'_>,
    _: &DestroyPermit<'_>,
    messages: &[MessageId],
) -> Result<()> {
    messages.iter().try_for_each(|id| cx.execute_any(DELETE_RELATIONS_FROM, &[id]))
}

/// Removes all relations from and to the messages in `messages`, whose rows are being deleted.
pub(super) fn remove_all_relations_of(
    cx: &mut Write<'_>,
    permit: &DestroyPermit<'_>,
    messages: &[MessageId],
) -> Result<()> {
    remove_relations_from(cx, permit, messages)?;
    messages.iter().try_for_each(|id| cx.execute_any(DELETE_RELATIONS_TO, &[id]))
}

const DELETE_RELATIONS_FROM: &str = "delete from relations where from_id = $1";

const DELETE_RELATIONS_TO: &str = "delete from relations where to_id = $1";
