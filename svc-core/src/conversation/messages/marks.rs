//! What members have put on messages, as whoever reads these is shown it: reactions by emoji, and pins.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::Result;
use crate::id::MessageId;
use crate::op::Read;
use crate::store::{Engine, columns};

/// How many members react to a message in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct ReactionCount {
    /// The emoji, or a name of the workspace's own, such as `shipit`.
    emoji: String,
    /// How many members react with it.
    count: i64,
}

/// What members have put on a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    /// Those that came first stand first.
    pub reactions: Vec<ReactionCount>,
    pub pinned: bool,
}

/// The reactions to a message with one emoji, or its pin, which has none.
struct Mark {
    message_id: MessageId,
    emoji: Option<String>,
    count: i64,
}

columns! { mark_columns: Mark as r { message_id, emoji, count = "count(*)" } }

/// Returns what there is on messages, with one statement.
pub(super) fn of(
    cx: &Read<'_>,
    messages: impl Iterator<Item = MessageId>,
) -> Result<HashMap<MessageId, Marks>> {
    let ids: Vec<Uuid> = messages.map(MessageId::uuid).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = match cx.engine() {
        Engine::Sqlite => MARKS_SQLITE,
        Engine::Postgres => MARKS_POSTGRES,
    };
    let found: Vec<Mark> = cx.query(sql, &[&ids])?;
    let mut marks: HashMap<MessageId, Marks> = HashMap::new();
    for Mark { message_id, emoji, count } in found {
        let of_message = marks.entry(message_id).or_default();
        match emoji {
            Some(emoji) => of_message.reactions.push(ReactionCount { emoji, count }),
            None => of_message.pinned = true,
        }
    }
    Ok(marks)
}

macro_rules! select_marks {
    ($which:literal) => {
        concat!(
            "select ",
            mark_columns!(),
            ", min(r.lsn) as since from reactions r where r.message_id ",
            $which,
            " group by r.message_id, r.emoji
             union all select p.message_id, cast(null as text), 1, p.lsn from pins p where p.message_id ",
            $which,
            " order by since"
        )
    };
}

const MARKS_SQLITE: &str = select_marks!("in (select unhex(value) from json_each($1))");

const MARKS_POSTGRES: &str = select_marks!("= any($1)");
