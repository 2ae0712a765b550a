//! The scrub: a withdrawal is finished only when the destroyed key's bytes are gone from the database's files,
//! which a commit alone does not do. A withdrawal asks for a scrub in its own transaction; a periodic worker sees
//! that one is pending, scrubs with the engine's means (which belong to the store), and reports how far it came.
//! What was asked for while a scrub ran is left for the next one.

use crate::Result;
use crate::op::{Read, Write};

/// Asks for a scrub. The row is shared by all workspaces: call it last in a transaction.
pub(crate) fn ask(cx: &mut Write<'_>) -> Result<()> {
    cx.execute(1, ASK, &[])
}

const ASK: &str = "
    insert into chores (name, asked, done) values ('scrub', 1, 0)
    on conflict (name) do update set asked = chores.asked + 1";

/// The number of the newest request that no scrub has answered yet. Read it before scrubbing: every key whose
/// destruction it counts is committed.
pub(crate) fn pending(cx: &Read<'_>) -> Result<Option<i64>> {
    let found: Option<(i64,)> = cx.one(PENDING, &[])?;
    Ok(found.map(|(asked,)| asked))
}

const PENDING: &str = "select asked from chores where name = 'scrub' and asked > done";

/// Records that a scrub that began after request `asked` has succeeded.
pub(crate) fn finished(cx: &mut Write<'_>, asked: i64) -> Result<()> {
    cx.execute_any(FINISHED, &[&asked])
}

const FINISHED: &str = "update chores set done = $1 where name = 'scrub' and done < $1";
