//! The scrub: a withdrawal is finished only when the destroyed key's bytes are gone from the database's files,
//! which a commit alone does not do. A withdrawal marks the table that held them in its own transaction; a periodic
//! worker sees the marks, cleans the files with the engine's means (which belong to the store), and takes away those
//! that it saw before. What was marked while it cleaned is left for the next time. Nobody shares a mark, so that
//! withdrawals do not wait for each other.

use crate::Result;
use crate::id::WorkspaceId;
use crate::op::{Read, Write};
use crate::store::Engine;

/// Where keys are that were wrapped before there were shelves.
pub(super) const OLD_KEYS: &str = "message_keys";

/// Every table whose rows are keys, as the engines name their parts.
const KEY_TABLES: &[&str] = &[
    OLD_KEYS,
    "shelves",
    "shelves_00",
    "shelves_01",
    "shelves_02",
    "shelves_03",
    "shelves_04",
    "shelves_05",
    "shelves_06",
    "shelves_07",
    "shelves_08",
    "shelves_09",
    "shelves_10",
    "shelves_11",
    "shelves_12",
    "shelves_13",
    "shelves_14",
    "shelves_15",
];

/// Marks the part of the shelves that a shelf of the caller's workspace is in, for the event at `because`.
pub(super) fn ask_for_shelf(cx: &mut Write<'_>, shelf: i64, because: i64) -> Result<()> {
    let workspace = cx.caller().workspace_id;
    match cx.engine() {
        Engine::Sqlite => ask(cx, "shelves", because),
        Engine::Postgres => cx.execute(1, ASK_FOR_PART_POSTGRES, &[&workspace, &shelf, &because]),
    }
}

const ASK_FOR_PART_POSTGRES: &str = "
    insert into scrubs (key_table, workspace_id, lsn)
    select c.relname::text, s.workspace_id, $3
    from shelves s join pg_class c on c.oid = s.tableoid
    where s.workspace_id = $1 and s.shelf = $2";

/// Marks a table of keys for the event at `because` of the caller's workspace. Marking it again changes nothing.
pub(super) fn ask(cx: &mut Write<'_>, key_table: &'static str, because: i64) -> Result<()> {
    let workspace = cx.caller().workspace_id;
    cx.execute_any(ASK, &[&key_table, &workspace, &because])
}

const ASK: &str = "
    insert into scrubs (key_table, workspace_id, lsn) values ($1, $2, $3)
    on conflict (key_table, workspace_id, lsn) do nothing";

/// Marks of one table, by one workspace up to a position.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub key_table: &'static str,
    workspace: WorkspaceId,
    lsn: i64,
}

/// What is marked now. Every key that a mark speaks of is gone from its row.
pub(crate) fn pending(cx: &Read<'_>) -> Result<Vec<Asked>> {
    let found: Vec<(String, WorkspaceId, i64)> = cx.query(PENDING, &[])?;
    let known = |name: &String| KEY_TABLES.iter().find(|known| **known == name.as_str());
    let marks = found.into_iter().filter_map(|(name, workspace, lsn)| {
        known(&name).map(|key_table| Asked { key_table, workspace, lsn })
    });
    Ok(marks.collect())
}

/// Old keys are moved to shelves; their table is rewritten when it has become small.
const PENDING: &str = "
    select key_table, workspace_id, max(lsn) from scrubs
    where key_table <> 'message_keys' or (select count(*) from (select 1 from message_keys limit 5001) few) <= 5000
    group by key_table, workspace_id order by key_table, workspace_id limit 1000";

/// Takes marks away whose bytes are gone from the files. A workspace's marks are committed in the order of their
/// positions, so that those before a mark that was seen were seen too.
pub(crate) fn finished(cx: &mut Write<'_>, marks: &[Asked]) -> Result<()> {
    marks.iter().try_for_each(|mark| cx.execute_any(FINISHED, &[&mark.key_table, &mark.workspace, &mark.lsn]))
}

const FINISHED: &str = "delete from scrubs where key_table = $1 and workspace_id = $2 and lsn <= $3";
