//! Marks of messages: the number of reactions per emoji, and whether a message is pinned.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::Result;
use crate::id::MessageId;
use crate::limits::{REACTION_KINDS_MAX, REACTIONS_COUNTED_MAX};
use crate::op::Read;
use crate::store::{Engine, columns};

/// The number of reactions to a message with one emoji.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ReactionCount {
    /// The emoji, or a custom name such as `shipit`.
    pub emoji: String,
    /// Number of members who reacted with the emoji.
    pub count: i64,
    /// Present and true if `count` is a lower bound, because the messages have too many reactions to count.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

/// The marks of a message: its reactions, and whether it is pinned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MessageMarks {
    /// Number of reactions per emoji, in the order in which each emoji was first used.
    pub reactions: Vec<ReactionCount>,
    pub pinned: bool,
}

/// Row of the query for marks: the reactions to a message with one emoji, or the pin if `emoji` is `None`.
struct MessageMark {
    message_id: MessageId,
    emoji: Option<String>,
    count: i64,
}

columns! { mark_columns: MessageMark as r { message_id, emoji, count = "count(*)" } }

/// Returns the marks of the given messages.
///
/// Runs one statement, or two if the messages have too many reactions to count.
pub(super) fn load_marks(
    cx: &Read<'_>,
    messages: impl Iterator<Item = MessageId>,
) -> Result<HashMap<MessageId, MessageMarks>> {
    let ids: Vec<Uuid> = messages.map(MessageId::uuid).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let (sql, of_each) = match cx.engine() {
        Engine::Sqlite => (MARKS_SQLITE, LIMITED_MARKS_SQLITE),
        Engine::Postgres => (MARKS_POSTGRES, LIMITED_MARKS_POSTGRES),
    };
    let mut found: Vec<MessageMark> = cx.query(sql, &[&ids, &REACTIONS_COUNTED_MAX])?;
    let reactions = found.iter().filter(|mark| mark.emoji.is_some());
    let counted = reactions.fold(0_i64, |all, mark| all.saturating_add(mark.count));
    let mut limit = i64::MAX;
    if counted >= REACTIONS_COUNTED_MAX {
        let kinds = i64::try_from(ids.len()).unwrap_or(i64::MAX).saturating_mul(REACTION_KINDS_MAX);
        limit = REACTIONS_COUNTED_MAX.checked_div(kinds).unwrap_or_default().max(1);
        found = cx.query(of_each, &[&ids, &limit])?;
    }
    let mut marks: HashMap<MessageId, MessageMarks> = HashMap::new();
    for MessageMark { message_id, emoji, count } in found {
        let of_message = marks.entry(message_id).or_default();
        match emoji {
            Some(emoji) => {
                of_message.reactions.push(ReactionCount { emoji, count, at_least: count >= limit });
            }
            None => of_message.pinned = true,
        }
    }
    Ok(marks)
}

/// SQL that adds the pins to the query for the marks of messages.
macro_rules! and_pins {
    ($which:literal) => {
        concat!(
            " union all select p.message_id, cast(null as text), 1, p.lsn from pins p where p.message_id ",
            $which,
            " order by since"
        )
    };
}

macro_rules! select_marks {
    ($which:literal) => {
        concat!(
            "select ",
            mark_columns!(),
            ", min(r.lsn) as since from (
                 select message_id, emoji, lsn from reactions where message_id ",
            $which,
            " limit $2) r group by r.message_id, r.emoji",
            and_pins!($which)
        )
    };
}

const MARKS_SQLITE: &str = select_marks!("in (select unhex(value) from json_each($1))");

const MARKS_POSTGRES: &str = select_marks!("= any($1)");

/// SQL query that steps through the emoji of each message, and counts the reactions with each emoji up to a
/// limit.
macro_rules! select_of_each {
    ($messages:literal, $which:literal) => {
        concat!(
            "with recursive kinds (message_id, emoji) as (
                 select m.id, (
                     select r.emoji from reactions r where r.message_id = m.id order by r.emoji limit 1)
                 from ",
            $messages,
            " m union all
                 select k.message_id, (
                     select r.emoji from reactions r
                     where r.message_id = k.message_id and r.emoji > k.emoji order by r.emoji limit 1)
                 from kinds k where k.emoji is not null)
             select k.message_id, k.emoji, (
                 select count(*) from (
                     select 1 from reactions r
                     where r.message_id = k.message_id and r.emoji = k.emoji limit $2) counted), (
                 select r.lsn from reactions r
                 where r.message_id = k.message_id and r.emoji = k.emoji order by r.lsn limit 1) as since
             from kinds k where k.emoji is not null",
            and_pins!($which)
        )
    };
}

const LIMITED_MARKS_SQLITE: &str = select_of_each!(
    "(select unhex(value) as id from json_each($1))",
    "in (select unhex(value) from json_each($1))"
);

const LIMITED_MARKS_POSTGRES: &str = select_of_each!("(select unnest($1::uuid[]) as id)", "= any($1)");
