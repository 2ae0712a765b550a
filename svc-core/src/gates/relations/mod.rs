//! Relations between messages: one message supports, refutes, cites, supersedes, replies to or duplicates
//! another.
//!
//! Members may relate their own messages to any message that they can see. A refutation prevents the thread
//! of the refuted message from closing until the refutation is resolved, so every member who can see the
//! refuted message must be able to read the refutation. Citations in a message are relations too; the server
//! removes them with the message's content. Withdrawing a message removes the relations from the message, and
//! makes the relations to the message ineffective. Relations never reveal a message to members who may not
//! see that message. `list` lists the relations of a message, `resolve` resolves the refutations that keep a
//! thread open, and `remove` removes relations.

pub(crate) mod list;
pub(crate) mod resolve;
pub(crate) mod remove;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{MessagePost, ThreadTransition, WorkspaceRead};
use crate::conversation::inbox::{self, InboxReason, Recipients};
use crate::conversation::messages::{self, MessagePlace, not_pruned};
use crate::conversation::visibility::{ChannelPlace, check_not_archived, visible_channel};
use crate::coordination::lifecycle::transition::CLOSE;
use crate::coordination::workers::worked_on;
use crate::error::{Code, Error};
use crate::gates::verdict_rules::VerdictAuthor;
use crate::id::{ChannelId, MemberId, MessageId, RelationId, ThreadId};
use crate::limits::{REFUTATIONS_MAX, RELATIONS_PER_MESSAGE_MAX};
use crate::log::event::{Event, EventKind, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{
    Condition, Feature, Operation, Read, Records, Sample, Write, destructive, idempotent, read, write,
};
use crate::request::request;
use crate::store::{columns, named_enum, new_row};
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("relations", operations())
        .events(vec![
            EventKind::of::<MessageRelated>(),
            EventKind::of::<remove::RelationRemoved>(),
            EventKind::of::<resolve::RelationResolved>(),
        ])
        .condition(Condition { name: "refutes", action: CLOSE, unmet: resolve::open_refutations })
        .cleaners("relations", remove::remove_relations_from, remove::remove_all_relations_of)
        .sample(Sample::new(
            "disputed_thread",
            "create_thread",
            |w| json!({"channel_id": w.id("channel"), "title": "Choose the spooler"}),
        ))
        .sample(Sample::new(
            "disputed_message",
            "post_message",
            |w| json!({"thread_id": w.id("disputed_thread"), "body": "the old spooler is never full"}),
        ))
        .sample(Sample::new(
            "objection",
            "post_message",
            |w| json!({"thread_id": w.id("disputed_thread"), "body": "it was full on Monday"}),
        ))
        .sample(Sample::new("relation", "relate_message", |w| {
            json!({"message_id": w.id("objection"), "target_message_id": w.id("disputed_message"),
                   "kind": "refutes"})
        }))
        .records(records())
}

fn records() -> Vec<Records> {
    vec![
        Records::table("relations", "lsn id")
            .after("messages")
            .after("members")
            .ids(
                "id workspace_id from_id from_thread_id from_channel_id to_id to_thread_id \
                 to_channel_id made_by resolved_by resolved_actor_id",
            )
            .texts("kind")
            .bools("derived")
            .times("made_at resolved_at")
            .ints("lsn")
            .proven(
                "from_id id",
                "from_thread_id from_channel_id to_id to_thread_id to_channel_id kind derived \
                 made_by made_at lsn resolved_by resolved_actor_id resolved_at",
            )
            .removed_with("from_id", "messages")
            .removed_with("to_id", "messages"),
    ]
}

fn operations() -> Vec<Operation> {
    vec![
        write("relate_message", relate_message)
            .title("Link a message to another")
            .when(
                "Link a message of yours to a message that it supports, refutes or cites, for example. Use \
                 `post_message` to write a message.",
            )
            .post("/messages/{message_id}/relations")
            .needs(&[MessagePost])
            .created()
            .refuses(&[Code::Forbidden, Code::WrongState, Code::NotVisibleToAll])
            .example(|w| {
                json!({"message_id": w.id("objection"), "target_message_id": w.id("message"),
                       "kind": "supports"})
            }),
        read("list_message_relations", list::list_message_relations)
            .title("List the relations of a message")
            .when(
                "List a message's relations, such as refutations, from and to other messages. Use \
                 `list_message_backlinks` for pins and votes.",
            )
            .detailed()
            .get("/messages/{message_id}/relations")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"message_id": w.id("disputed_message"), "limit": 10})),
        idempotent("resolve_relation", resolve::resolve_relation)
            .title("Resolve a refutation")
            .when(
                "Resolve a refutation of a message, so that it no longer prevents the message's thread from \
                 closing.",
            )
            .post("/relations/{relation_id}/resolve")
            .needs(&[ThreadTransition])
            .refuses(&[Code::Forbidden, Code::WrongState])
            .example(|w| json!({"relation_id": w.id("relation")})),
        destructive("remove_relation", remove::remove_relation)
            .title("Remove a relation")
            .when(
                "Remove the relation from one message to another. Use `resolve_relation` to settle a \
                 refutation.",
            )
            .reversible()
            .delete("/relations/{relation_id}")
            .needs(&[MessagePost])
            .refuses(&[Code::Forbidden, Code::WrongState])
            .example(|w| json!({"relation_id": w.id("relation")})),
    ]
}

named_enum! {
    /// Kind of a relation from one message to another. A message that `refutes` another prevents the other
    /// message's thread from closing until the refutation is resolved.
    #[non_exhaustive]
    pub enum RelationKind {
        Supports = "supports",
        Refutes = "refutes",
        Cites = "cites",
        Supersedes = "supersedes",
        RepliesTo = "replies_to",
        Duplicates = "duplicates",
    }
}

/// A message was related to another message.
///
/// The event is recorded in the target's thread. If some members who can see the target may not see the
/// source message, the event is recorded in the source message's thread instead.
#[derive(Serialize, JsonSchema)]
struct MessageRelated {
    /// Id of the new relation.
    relation_id: RelationId,
    /// Id of the source message of the relation.
    from_id: MessageId,
    /// Id of the target message; null if some members who can see the event may not see the target.
    to_id: Option<MessageId>,
    /// Kind of the relation, such as `refutes`.
    kind: RelationKind,
    /// The member who made the relation.
    member_id: MemberId,
}

impl Event for MessageRelated {
    const KIND: &'static str = "MessageRelated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let fields = (event.field("relation_id"), event.field("from_id"), event.field("to_id"));
        let (Some(id), Some(from), Some(to)) = fields else { return Ok(()) };
        let relation =
            messages::replay_created_relation(event, id, [from, to])?.copy("kind").set("derived", false);
        relation.set_to("made_by", "member_id").keep()
    }
}

/// A relation from a source message to a target message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Relation {
    /// Id of the relation.
    pub id: RelationId,
    /// Kind of the relation, such as `refutes`.
    pub kind: RelationKind,
    /// Id of the source message.
    pub from_id: MessageId,
    /// Id of the thread that contains the source message.
    pub from_thread_id: ThreadId,
    /// Id of the target message.
    pub to_id: MessageId,
    /// Id of the thread that contains the target message.
    pub to_thread_id: ThreadId,
    /// Whether the server derived the relation from a citation in the source message. A derived relation is
    /// removed with the citation.
    pub derived: bool,
    /// Whether the relation prevents the target's thread from closing: the relation is an unresolved
    /// refutation, and the target is not withdrawn.
    pub open: bool,
    /// Whether the target message is withdrawn. If it is, the relation has no effect.
    pub target_withdrawn: bool,
    /// The member who made the relation; null for the service itself.
    pub made_by: Option<MemberId>,
    /// Time at which the relation was made.
    pub made_at: Time,
    /// The member who resolved the refutation; null if the refutation is unresolved, and for other kinds of
    /// relations.
    ///
    /// The refutation is open again if its resolver later works on the thread, unless the resolver also made
    /// the relation.
    pub resolved_by: Option<MemberId>,
    /// The delegate who resolved the refutation for that member; absent if the member acted directly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolved_actor_id: Option<MemberId>,
    /// Time at which the refutation was resolved; null if `resolved_by` is null.
    pub resolved_at: Option<Time>,
    /// Position of the relation's creation in the workspace's event log.
    pub lsn: i64,
    /// Id of the channel that contains the source message.
    #[serde(skip)]
    from_channel_id: ChannelId,
    /// Id of the channel that contains the target message.
    #[serde(skip)]
    to_channel_id: ChannelId,
    /// Whether the relation is a refutation that has no valid resolution.
    #[serde(skip)]
    unresolved: bool,
}

/// SQL condition: relation `r` is a refutation that has no valid resolution.
macro_rules! unresolved {
    () => {
        concat!(
            "(r.kind = 'refutes' and (r.resolved_at is null or ",
            worked_on!(
                "r.to_thread_id",
                "nullif(r.resolved_by, r.made_by), nullif(r.resolved_actor_id, r.made_by)"
            ),
            "))"
        )
    };
}
use unresolved;

columns! {
    pub(super) relation_columns: Relation as r {
        id,
        kind,
        from_id,
        from_thread_id,
        to_id,
        to_thread_id,
        derived,
        target_withdrawn: bool = (
            "exists (select 1 from messages w where w.id = r.to_id and w.withdrawn_at is not null)"
        ),
        made_by,
        made_at,
        resolved_by,
        resolved_actor_id = "nullif(r.resolved_actor_id, r.resolved_by)",
        resolved_at,
        lsn,
        from_channel_id,
        to_channel_id,
        unresolved: bool = (unresolved!()),
    }
    make { open: unresolved && !target_withdrawn }
}

/// SQL condition: the message whose id is in column `$id` of relation `r` was not pruned.
macro_rules! is_kept {
    ($id:literal) => {
        concat!("exists (select 1 from messages m where m.id = r.", $id, " and ", not_pruned!(), ")")
    };
}
use is_kept;

request! {
    /// Creates a relation from a message of yours to another message, and returns the relation.
    ///
    /// A refutation prevents its target's thread from closing until `resolve_relation` resolves it.
    ///
    /// The server notifies the author of the target of refutations and replies. Withdrawing your message
    /// removes the relation. Withdrawing the target makes the relation ineffective. Repeating a relation
    /// returns the existing one.
    ///
    /// Fails with 403 `forbidden` if the message is not yours; 409 `wrong-state` if either message is
    /// withdrawn or in an archived channel, if your message already has 100 relations, or if the target's
    /// thread already has 1000 refutations; 409 `not-visible-to-all` if your message refutes a message that
    /// is visible to members who cannot see yours.
    #[derive(Serialize)]
    struct RelateMessage {
        /// Your message.
        message_id: MessageId,
        /// The message that yours relates to.
        target_message_id: MessageId,
        /// Relation of your message to the target.
        kind: RelationKind,
    }

    relate_message(message_id: MessageId, target_message_id: MessageId, kind: RelationKind) -> Relation
}

fn relate_message(cx: &mut Write<'_>, input: &RelateMessage) -> Result<Relation> {
    let from = messages::visible_message_place(cx, input.message_id)?;
    let to = messages::visible_message_place(cx, input.target_message_id)?;
    let by = VerdictAuthor::of(cx.caller())?;
    if from.author_id != Some(by.member) {
        return Err(Error::forbidden("only the author of a message relates it to another"));
    }
    if from.id == to.id {
        return Err(Error::in_field("target_message_id", "expected another message"));
    }
    if let Some(found) = cx.one(RELATION_BETWEEN, &[&from.id, &to.id, &input.kind])? {
        return Ok(found);
    }
    let channels = RelationChannels::of(cx, from.channel_id, to.channel_id)?;
    check_may_be_related(cx, &from, &to, &channels, input.kind)?;
    let relation = Relation {
        id: cx.new_id()?,
        kind: input.kind,
        from_id: from.id,
        from_thread_id: from.thread_id,
        to_id: to.id,
        to_thread_id: to.thread_id,
        derived: false,
        open: input.kind == RelationKind::Refutes,
        target_withdrawn: false,
        made_by: Some(by.member),
        made_at: cx.now(),
        resolved_by: None,
        resolved_actor_id: None,
        resolved_at: None,
        lsn: 0,
        from_channel_id: from.channel_id,
        to_channel_id: to.channel_id,
        unresolved: input.kind == RelationKind::Refutes,
    };
    let event = MessageRelated {
        relation_id: relation.id,
        from_id: from.id,
        to_id: channels.target_in_events(to.id),
        kind: relation.kind,
        member_id: by.member,
    };
    let recorded = cx.emit(channels.event_subject(&relation), &event)?;
    let relation = Relation { made_at: recorded.at, lsn: recorded.lsn, ..relation };
    insert_relation(cx, &relation)?;
    let reason = match relation.kind {
        RelationKind::Refutes => Some(InboxReason::Refuted),
        RelationKind::RepliesTo => Some(InboxReason::Reply),
        _ => None,
    };
    if let (Some(reason), Some(author)) = (reason, to.author_id) {
        inbox::notify(cx, &recorded, reason, Some(from.id), Recipients::Members(&[author]))?;
    }
    Ok(relation)
}

const RELATION_BETWEEN: &str = concat!(
    "select ",
    relation_columns!(),
    " from relations r where r.from_id = $1 and r.to_id = $2 and r.kind = $3"
);

fn insert_relation(cx: &mut Write<'_>, relation: &Relation) -> Result<()> {
    let Relation { from_thread_id, from_channel_id, to_thread_id, to_channel_id, .. } = *relation;
    let workspace_id = cx.caller().workspace_id;
    cx.insert(&new_row!("insert into relations" {
        id: relation.id, workspace_id, kind: relation.kind, from_id: relation.from_id, from_thread_id,
        from_channel_id, to_id: relation.to_id, to_thread_id, to_channel_id, derived: relation.derived,
        made_by: relation.made_by, made_at: relation.made_at, lsn: relation.lsn
    }))
}

/// Fails if a rule forbids a new relation of this kind from `source` to `target`.
fn check_may_be_related(
    cx: &Read<'_>,
    source: &MessagePlace,
    target: &MessagePlace,
    channels: &RelationChannels,
    kind: RelationKind,
) -> Result<()> {
    if source.withdrawn || target.withdrawn {
        return Err(Error::wrong_state("a withdrawn message has no new relations"));
    }
    check_not_archived(&channels.from)?;
    check_not_archived(&channels.to)?;
    let (of_message,): (i64,) = cx.one(COUNT_RELATIONS_OF_SOURCE, &[&source.id])?.unwrap_or_default();
    if of_message >= RELATIONS_PER_MESSAGE_MAX {
        let most = RELATIONS_PER_MESSAGE_MAX;
        return Err(Error::wrong_state(format!("the message has {most} relations, the maximum")));
    }
    if kind != RelationKind::Refutes {
        return Ok(());
    }
    if !channels.is_source_visible_with_target() {
        let detail = "not all who see the message could read what refutes it: refute it in its own channel, \
                      or in a public one";
        return Err(Error::new(Code::NotVisibleToAll, detail));
    }
    let (of_thread,): (i64,) = cx.one(COUNT_REFUTATIONS_OF_THREAD, &[&target.thread_id])?.unwrap_or_default();
    if of_thread >= REFUTATIONS_MAX {
        let most = REFUTATIONS_MAX;
        return Err(Error::wrong_state(format!("{most} refutations lead to the thread, the maximum")));
    }
    Ok(())
}

const COUNT_RELATIONS_OF_SOURCE: &str = "select count(*) from relations where from_id = $1 and not derived";

const COUNT_REFUTATIONS_OF_THREAD: &str =
    "select count(*) from relations where to_thread_id = $1 and kind = 'refutes'";

/// The channels of a relation's source and target messages. The caller can see both channels.
struct RelationChannels {
    from: ChannelPlace,
    to: ChannelPlace,
}

impl RelationChannels {
    /// Loads the channels of a source and a target message. Fails unless the caller can see both channels.
    fn of(cx: &Read<'_>, source: ChannelId, target: ChannelId) -> Result<Self> {
        Ok(Self { from: visible_channel(cx, source)?, to: visible_channel(cx, target)? })
    }

    /// Returns whether every member who can see the target can also see the source message.
    fn is_source_visible_with_target(&self) -> bool {
        !self.from.private || self.from.id == self.to.id
    }

    /// Returns the channel and thread in which the relation's events are recorded.
    ///
    /// Readers of these events may see both messages, or only the source message.
    fn event_subject(&self, relation: &Relation) -> Subject {
        if self.is_source_visible_with_target() {
            Subject::thread(relation.to_channel_id, relation.to_thread_id)
        } else {
            Subject::thread(relation.from_channel_id, relation.from_thread_id)
        }
    }

    /// Returns the target to include in an event, or `None` if some readers of the event may not see the
    /// target.
    fn target_in_events(&self, target: MessageId) -> Option<MessageId> {
        (self.is_source_visible_with_target() || !self.to.private).then_some(target)
    }
}

/// Loads a relation by its id, and the channels of its two messages. Fails with *not found* unless the caller
/// can see both messages.
fn visible_relation(cx: &Read<'_>, id: RelationId) -> Result<(Relation, RelationChannels)> {
    let found: Option<Relation> = cx.one(RELATION_BY_ID, &[&id, &cx.caller().workspace_id])?;
    let relation = found.ok_or_else(|| Error::not_found("relation"))?;
    let channels = RelationChannels::of(cx, relation.from_channel_id, relation.to_channel_id);
    let channels = channels.map_err(|error| match error.code() {
        Code::NotFound => Error::not_found("relation"),
        _ => error,
    })?;
    Ok((relation, channels))
}

const RELATION_BY_ID: &str = concat!(
    "select ",
    relation_columns!(),
    " from relations r where r.id = $1 and r.workspace_id = $2 and ",
    is_kept!("from_id"),
    " and ",
    is_kept!("to_id")
);

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::id::WorkspaceId;

    #[test]
    fn an_event_shows_no_message_that_its_readers_may_not_see() {
        let channel = |n: u128, private| ChannelPlace {
            dm: false,
            id: Uuid::from_u128(n).into(),
            workspace_id: WorkspaceId::INSTANCE,
            archived: false,
            private,
        };
        let target = MessageId::from(Uuid::from_u128(9));
        // Each case: the channel of the event, whether the event includes the target, and whether a
        // refutation is allowed.
        for (from, to, in_target, shown) in [
            (channel(1, false), channel(1, false), true, true),
            (channel(1, false), channel(2, false), true, true),
            (channel(1, false), channel(2, true), true, true),
            (channel(1, true), channel(1, true), true, true),
            (channel(1, true), channel(2, false), false, true),
            (channel(1, true), channel(2, true), false, false),
        ] {
            let channels = RelationChannels { from, to };
            assert_eq!(channels.is_source_visible_with_target(), in_target);
            assert_eq!(channels.target_in_events(target).is_some(), shown);
        }
    }
}
