//! Backlinks: everything that refers to a message, in one list.
//!
//! Backlinks are relations from other messages, the message's pin, its reactions, and the vote whose question
//! the message contains. Mentions are not backlinks, because they are part of the message's own content.
//! Backlinks from messages that the reader may not see are omitted.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::messages::{self, not_pruned};
use crate::conversation::visibility::visible;
use crate::error::Error;
use crate::gates::relations::RelationKind;
use crate::id::{MemberId, MessageId, RelationId, ThreadId, VoteId};
use crate::op::{Feature, Read, read};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::store::columns;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "messages",
        vec![
            read("list_message_backlinks", list_message_backlinks)
                .title("List backlinks of a message")
                .when(
                    "List everything that refers to a message: relations, pin, reactions, vote. Use \
                     `list_message_relations` for relations from the message too.",
                )
                .detailed()
                .get("/messages/{message_id}/backlinks")
                .needs(&[WorkspaceRead])
                .example(|w| json!({"message_id": w.id("disputed_message"), "limit": 10})),
        ],
    )
}

/// A backlink of a message: a relation, a pin, a reaction or a vote.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Backlink {
    /// Another message has a relation to the message.
    Relation {
        /// Position of the relation's creation in the workspace's event log.
        lsn: i64,
        /// Id of the relation.
        relation_id: RelationId,
        /// Kind of the relation, such as `refutes`.
        kind: RelationKind,
        /// Id of the source message of the relation.
        from_id: MessageId,
        /// Id of the thread that contains the source message.
        from_thread_id: ThreadId,
        /// Whether the server derived the relation from a citation in the source message.
        derived: bool,
        /// Id of the member who made the relation; null for the service itself.
        made_by: Option<MemberId>,
        /// Time at which the relation was made.
        made_at: Time,
    },
    /// The message is pinned in its channel.
    Pin {
        /// Position of the pin's creation in the workspace's event log.
        lsn: i64,
        /// Id of the member who pinned the message; null for the service itself.
        pinned_by: Option<MemberId>,
        /// Time at which the message was pinned.
        pinned_at: Time,
    },
    /// A member reacted to the message.
    Reaction {
        /// Position of the reaction in the workspace's event log.
        lsn: i64,
        /// The emoji of the reaction, or a custom name.
        emoji: String,
        /// Id of the member who reacted.
        member_id: MemberId,
    },
    /// The message contains the question of a vote.
    Vote {
        /// Position of the vote's creation in the workspace's event log.
        lsn: i64,
        /// Id of the vote whose question the message contains.
        vote_id: VoteId,
        /// Id of the member who opened the vote.
        created_by: MemberId,
    },
}

/// Row of the backlinks query. Columns that do not apply to the row's type are null.
struct BacklinkRow {
    name: String,
    lsn: i64,
    id: Option<Uuid>,
    member_id: Option<MemberId>,
    at: Option<Time>,
    emoji: Option<String>,
    kind: Option<RelationKind>,
    from_id: Option<MessageId>,
    from_thread_id: Option<ThreadId>,
    derived: Option<bool>,
}

columns! {
    backlink_columns: BacklinkRow as b {
        name, lsn, id, member_id, at, emoji, kind, from_id, from_thread_id, derived
    }
}

impl BacklinkRow {
    fn into_backlink(self) -> Result<Backlink> {
        let lsn = self.lsn;
        let made: Option<Backlink> = match self.name.as_str() {
            "relation" => self.into_relation(),
            "pin" => self.at.map(|pinned_at| Backlink::Pin { lsn, pinned_by: self.member_id, pinned_at }),
            "reaction" => self.emoji.zip(self.member_id).map(|(emoji, member_id)| Backlink::Reaction {
                lsn,
                emoji,
                member_id,
            }),
            _ => self.id.zip(self.member_id).map(|(id, created_by)| Backlink::Vote {
                lsn,
                vote_id: id.into(),
                created_by,
            }),
        };
        made.ok_or_else(|| Error::internal("a backlink lacks a column"))
    }

    fn into_relation(self) -> Option<Backlink> {
        Some(Backlink::Relation {
            lsn: self.lsn,
            relation_id: self.id?.into(),
            kind: self.kind?,
            from_id: self.from_id?,
            from_thread_id: self.from_thread_id?,
            derived: self.derived?,
            made_by: self.member_id,
            made_at: self.at?,
        })
    }
}

request! {
    /// Returns everything that refers to a message, oldest first.
    ///
    /// The result includes relations to a withdrawn message.
    ///
    /// Backlinks are relations from other messages, the message's pin, its reactions, and the vote whose
    /// question the message contains.
    ///
    /// Backlinks from messages that you may not see are omitted, so a page may be short or empty although
    /// more backlinks follow: continue while `next_cursor` is not null.
    struct ListMessageBacklinks {
        /// The message whose backlinks to list.
        message_id: MessageId,
        #[serde(default)]
        cursor: Option<Cursor>,
        #[serde(default)]
        limit: Option<Limit>,
    }

    list_message_backlinks(message_id: MessageId) -> Page<Backlink>
}

fn list_message_backlinks(cx: &Read<'_>, input: &ListMessageBacklinks) -> Result<Page<Backlink>> {
    let message = messages::visible_message_place(cx, input.message_id)?.id;
    let after = Cursor::after(input.cursor);
    let horizon = cx.horizon(RELATION_HORIZON, &[&message], after)?;
    let last = horizon.up_to();
    let rows = rows_to_read(input.limit);
    let visibility = cx.caller().visibility.params();
    let found = cx.rows(BACKLINKS_OF_MESSAGE, &visibility.and(&[&message, &after, &last, &rows]))?;
    Page::within(horizon, found, input.limit, |row: &BacklinkRow| row.lsn).try_map(BacklinkRow::into_backlink)
}

/// Query for the scan horizon. Counts relations only, because backlinks of other types are never omitted.
const RELATION_HORIZON: &str =
    "select lsn from relations where to_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

const BACKLINKS_OF_MESSAGE: &str = concat!(
    "select ",
    backlink_columns!(),
    " from (
        select 'relation' as name, r.lsn as lsn, r.id as id, r.made_by as member_id, r.made_at as at,
            cast(null as text) as emoji, r.kind as kind, r.from_id as from_id,
            r.from_thread_id as from_thread_id, r.derived as derived
        from relations r join channels c on c.id = r.from_channel_id join messages m on m.id = r.from_id
        where r.to_id = $5 and ",
    not_pruned!(),
    " and ",
    visible!(c),
    "
        union all
        select 'pin', p.lsn, cast(null as uuid), p.pinned_by, p.at, cast(null as text), cast(null as text),
            cast(null as uuid), cast(null as uuid), cast(null as boolean)
        from pins p where p.message_id = $5
        union all
        select 'reaction', x.lsn, cast(null as uuid), x.member_id, cast(null as bigint), x.emoji,
            cast(null as text), cast(null as uuid), cast(null as uuid), cast(null as boolean)
        from reactions x where x.message_id = $5
        union all
        select 'vote', v.lsn, v.id, v.created_by, cast(null as bigint), cast(null as text),
            cast(null as text), cast(null as uuid), cast(null as uuid), cast(null as boolean)
        from votes v where v.message_id = $5
     ) b where b.lsn > $6 and b.lsn <= $7 order by b.lsn limit $8"
);
