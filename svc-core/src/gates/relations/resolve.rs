//! Resolving refutations, and reading the unresolved refutations of a thread.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Relation, RelationKind, is_kept, unresolved, visible_relation};
use crate::Result;
use crate::conversation::messages::not_pruned;
use crate::coordination::thread_row::visible_thread;
use crate::coordination::workers::{self, worked_on};
use crate::error::Error;
use crate::gates::verdict_rules::VerdictAuthor;
use crate::id::{MemberId, MessageId, RelationId, ThreadId};
use crate::identity::members;
use crate::limits::REASON_IDS_MAX;
use crate::log::event::Event;
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Read, UnmetRequirement, Write};
use crate::request::request;

/// A refutation was resolved, so it no longer prevents the refuted message's thread from closing.
#[derive(Serialize, JsonSchema)]
pub(super) struct RelationResolved {
    /// Id of the resolved refutation.
    relation_id: RelationId,
    /// Id of the message that refutes the target.
    from_id: MessageId,
    /// Id of the refuted message; null if some members who can see the event may not see that message.
    to_id: Option<MessageId>,
    /// Kind of the relation; always `refutes`.
    kind: RelationKind,
    /// The member who resolved the refutation.
    member_id: MemberId,
}

impl Event for RelationResolved {
    const KIND: &'static str = "RelationResolved";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let relation = event.row_of("relations", "from_id relation_id")?.set_to("resolved_by", "member_id");
        relation.set("resolved_actor_id", event.actor()).set("resolved_at", event.at()).keep()
    }
}

request! {
    /// Resolves a refutation and returns it. A resolved refutation no longer prevents the target's thread
    /// from closing.
    ///
    /// You must be the refutation's author, or have the skill `review` and not have worked on that thread. A
    /// reviewer's resolution stops counting if the reviewer later works on the thread.
    ///
    /// Resolving a refutation again changes nothing.
    ///
    /// Fails with 403 `forbidden` if you may not resolve the refutation; 409 `wrong-state` if the relation is
    /// not a refutation, or if the target's thread is archived.
    #[derive(Serialize)]
    pub(super) struct ResolveRelation {
        /// The refutation's relation id.
        relation_id: RelationId,
    }

    resolve_relation(relation_id: RelationId) -> Relation
}

pub(super) fn resolve_relation(cx: &mut Write<'_>, input: &ResolveRelation) -> Result<Relation> {
    let (relation, channels) = visible_relation(cx, input.relation_id)?;
    let by = VerdictAuthor::of(cx.caller())?;
    check_may_resolve(cx, &relation, by)?;
    if relation.kind != RelationKind::Refutes {
        return Err(Error::wrong_state("only a refutation is resolved"));
    }
    visible_thread(cx, relation.to_thread_id)?.check_not_archived()?;
    if !relation.unresolved {
        return Ok(relation);
    }
    let event = RelationResolved {
        relation_id: relation.id,
        from_id: relation.from_id,
        to_id: channels.target_in_events(relation.to_id),
        kind: relation.kind,
        member_id: by.member,
    };
    let resolved_at = cx.emit(channels.event_subject(&relation), &event)?.at;
    cx.execute(1, RESOLVE_REFUTATION, &[&relation.id, &by.member, &by.actor, &resolved_at])?;
    Ok(Relation {
        open: false,
        unresolved: false,
        resolved_by: Some(by.member),
        resolved_actor_id: by.delegate(),
        resolved_at: Some(resolved_at),
        ..relation
    })
}

const RESOLVE_REFUTATION: &str =
    "update relations set resolved_by = $2, resolved_actor_id = $3, resolved_at = $4 where id = $1";

impl<I> Answer<I> for Relation {
    type Kept = RelationId;

    fn kept(&self) -> Option<RelationId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: RelationId) -> Result<Self> {
        visible_relation(cx, id).map(|(relation, _)| relation)
    }
}

/// Fails unless the caller may resolve the refutation: as its author, or as a reviewer who has not worked on
/// the thread.
///
/// A reviewer is a member with the skill `review`. A delegate who has worked on the thread may not resolve
/// the refutation, even for the refutation's author.
fn check_may_resolve(cx: &Read<'_>, relation: &Relation, resolver: VerdictAuthor) -> Result<()> {
    let workers = workers::of(cx, relation.to_thread_id)?;
    let by_worker = resolver.delegate().is_some_and(|delegate| workers.contains(&delegate));
    if relation.made_by == Some(resolver.member) && !by_worker {
        return Ok(());
    }
    if resolver.member_and_delegate().iter().any(|member| workers.contains(member)) {
        return Err(Error::forbidden("a member who has worked on the thread cannot resolve a refutation"));
    }
    if members::member_has_skill(cx, resolver.member, members::REVIEW_SKILL)? {
        return Ok(());
    }
    Err(Error::forbidden("only its maker, or a member with the skill review, resolves a refutation"))
}

/// Returns the unresolved refutations of messages in a thread, which prevent the thread from closing.
pub(super) fn open_refutations(cx: &Read<'_>, thread_id: ThreadId) -> Result<Vec<UnmetRequirement>> {
    let found: Vec<(RelationId, i64)> = cx.query(OPEN_REFUTATIONS, &[&thread_id, &REASON_IDS_MAX])?;
    let detail = match found.first() {
        None => return Ok(Vec::new()),
        Some((_, 1)) => "a refutation of one of its messages is not resolved".to_owned(),
        Some((_, count)) => format!("{count} refutations of its messages are not resolved"),
    };
    Ok(vec![UnmetRequirement { detail, ids: found.iter().map(|(id, _)| id.to_string()).collect() }])
}

/// Query that uses the index of refutations. Each thread has a limited number of refutations.
const OPEN_REFUTATIONS: &str = concat!(
    "select o.id, count(*) over () from (
        select r.id, r.lsn from relations r where r.to_thread_id = $1 and ",
    unresolved!(),
    " and exists (select 1 from messages t where t.id = r.to_id and t.withdrawn_at is null) and ",
    is_kept!("to_id"),
    " and ",
    is_kept!("from_id"),
    ") o order by o.lsn limit $2"
);
