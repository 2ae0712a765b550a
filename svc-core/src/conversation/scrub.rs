//! The scrub: a withdrawal is finished only when the destroyed key's bytes are gone from the database's files,
//! which a commit alone does not do. A withdrawal marks the table that held them in its own transaction; a periodic
//! worker sees the marks, cleans the files with the engine's means (which belong to the store), and takes away exactly
//! those that it saw before. What was marked while it cleaned is left for the next time. Nobody shares a mark, so that
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
        Engine::Postgres => cx.execute_any(ASK_FOR_PART_POSTGRES, &[&workspace, &shelf, &because]),
    }
}

const ASK_FOR_PART_POSTGRES: &str = "
    insert into scrubs (key_table, workspace_id, lsn)
    select c.relname::text, s.workspace_id, $3
    from shelves s join pg_class c on c.oid = s.tableoid
    where s.workspace_id = $1 and s.shelf = $2
    on conflict (key_table, workspace_id, lsn) do nothing";

/// Marks a table of keys for the event at `because` of the caller's workspace. Who asks for the first time names an
/// event that nobody has named before: what is marked again while the table is being cleaned has to be a new mark.
pub(super) fn ask(cx: &mut Write<'_>, key_table: &'static str, because: i64) -> Result<()> {
    let workspace = cx.caller().workspace_id;
    cx.execute_any(ASK, &[&key_table, &workspace, &because])
}

const ASK: &str = "
    insert into scrubs (key_table, workspace_id, lsn) values ($1, $2, $3)
    on conflict (key_table, workspace_id, lsn) do nothing";

/// A mark of a table: for an event of a workspace.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub key_table: &'static str,
    workspace: WorkspaceId,
    lsn: i64,
}

/// What is marked now, up to a bound for each table. Every key that a mark speaks of is gone from its row. A large
/// table of old keys is left out while they are `still_moving`.
pub(crate) fn pending(cx: &Read<'_>, still_moving: bool) -> Result<Vec<Asked>> {
    if cx.query::<(String,)>(ANY, &[])?.is_empty() {
        return Ok(Vec::new());
    }
    let leave_out = still_moving && has_many_old_keys(cx)?;
    let mut pending = Vec::new();
    for key_table in KEY_TABLES.iter().copied().filter(|table| !leave_out || *table != OLD_KEYS) {
        let marks: Vec<(WorkspaceId, i64)> = cx.query(MARKS, &[&key_table, &MARKS_MAX])?;
        pending.extend(marks.into_iter().map(|(workspace, lsn)| Asked { key_table, workspace, lsn }));
    }
    Ok(pending)
}

const ANY: &str = "select key_table from scrubs limit 1";

/// Marks of one table that one scrub sees to.
const MARKS_MAX: i64 = 1000;

const MARKS: &str =
    "select workspace_id, lsn from scrubs where key_table = $1 order by workspace_id, lsn limit $2";

/// Whether Postgres would take long to rewrite the table of old keys. On SQLite nothing is rewritten.
fn has_many_old_keys(cx: &Read<'_>) -> Result<bool> {
    let many = cx.engine() == Engine::Postgres && cx.one::<(i64,)>(COUNT_OLD_KEYS, &[])? == Some((FEW + 1,));
    Ok(many)
}

/// Old keys in a table that is rewritten in no time.
const FEW: i64 = 5000;

const COUNT_OLD_KEYS: &str = "select count(*) from (select 1 from message_keys limit 5001) few";

/// Takes away the marks whose bytes are gone from the files: those and no others.
pub(crate) fn finished(cx: &mut Write<'_>, marks: &[Asked]) -> Result<()> {
    marks.iter().try_for_each(|mark| cx.execute_any(FINISHED, &[&mark.key_table, &mark.workspace, &mark.lsn]))
}

const FINISHED: &str = "delete from scrubs where key_table = $1 and workspace_id = $2 and lsn = $3";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FromRow as _, migrate, sqlite_for_tests};
    use crate::time::Time;

    #[test]
    fn a_mark_that_is_set_while_the_files_are_cleaned_is_left() {
        let (_folder, conn) = sqlite_for_tests();
        migrate::migrate(&conn, Time::from_micros(1)).unwrap();
        let workspace = WorkspaceId::INSTANCE;
        let ask = |lsn: i64| conn.execute(ASK, &[&OLD_KEYS, &workspace, &lsn]).map(drop).unwrap();
        let marks = || -> Vec<i64> {
            let mut rows = conn.query(MARKS, &[&OLD_KEYS, &MARKS_MAX]).unwrap();
            rows.iter_mut().map(|row| <(WorkspaceId, i64)>::from_row(row).unwrap().1).collect()
        };
        ask(500);
        let seen = marks();
        // Moved meanwhile: the key of a message that is older than what was withdrawn.
        ask(7);
        for lsn in seen {
            conn.execute(FINISHED, &[&OLD_KEYS, &workspace, &lsn]).unwrap();
        }
        assert_eq!(marks(), [7]);
    }
}
