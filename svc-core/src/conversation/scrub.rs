//! The scrub: cleaning of the database's files, which removes the bytes of destroyed keys and purged texts.
//!
//! A withdrawal is complete only when the bytes of the message's key are no longer in the files, which a
//! commit alone does not achieve. In its transaction, a withdrawal inserts a mark for the table that
//! contained the key. A periodic worker reads the marks, cleans the files with engine-specific functions of
//! the store, and deletes exactly the marks that it had read. Marks inserted during the cleaning remain for
//! the next run. Every withdrawal inserts separate marks, so that withdrawals do not wait for each other.

use crate::Result;
use crate::id::WorkspaceId;
use crate::op::{Read, Records, Write};
use crate::store::Engine;

/// The names of all tables and partitions that store keys, on both engines.
const KEY_TABLES: &[&str] = &[
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

/// Marks the table or partition that stores a key segment of the caller's workspace for cleaning. `cause_lsn`
/// is the position of the event that requires it.
pub(super) fn request_segment_scrub(cx: &mut Write<'_>, segment: i64, cause_lsn: i64) -> Result<()> {
    let workspace = cx.caller().workspace_id;
    match cx.engine() {
        Engine::Sqlite => request_table_scrub(cx, "shelves", cause_lsn),
        Engine::Postgres => {
            cx.execute_any(INSERT_MARK_FOR_SEGMENT_POSTGRES, &[&workspace, &segment, &cause_lsn])
        }
    }
}

const INSERT_MARK_FOR_SEGMENT_POSTGRES: &str = "
    insert into scrubs (key_table, workspace_id, lsn)
    select c.relname::text, s.workspace_id, $3
    from shelves s join pg_class c on c.oid = s.tableoid
    where s.workspace_id = $1 and s.shelf = $2
    on conflict (key_table, workspace_id, lsn) do nothing";

/// Marks the tables that store keys of `workspace` for cleaning. `cause_lsn` is the position of the event in
/// the caller's workspace that requires it.
pub(crate) fn request_workspace_scrub(
    cx: &mut Write<'_>,
    workspace: WorkspaceId,
    cause_lsn: i64,
) -> Result<()> {
    let own = cx.caller().workspace_id;
    match cx.engine() {
        Engine::Sqlite => request_table_scrub(cx, "shelves", cause_lsn),
        Engine::Postgres => {
            cx.execute_any(INSERT_MARKS_FOR_WORKSPACE_POSTGRES, &[&workspace, &own, &cause_lsn])
        }
    }
}

const INSERT_MARKS_FOR_WORKSPACE_POSTGRES: &str = "
    insert into scrubs (key_table, workspace_id, lsn)
    select distinct c.relname::text, cast($2 as uuid), cast($3 as bigint)
    from shelves s join pg_class c on c.oid = s.tableoid where s.workspace_id = $1
    on conflict (key_table, workspace_id, lsn) do nothing";

/// Marks every table that stores keys on this engine for cleaning. `cause_lsn` is the position in the marks.
pub(super) fn request_all_scrubs(cx: &mut Write<'_>, cause_lsn: i64) -> Result<()> {
    // Postgres stores the key segments in partitions, SQLite in one table.
    let has = |table: &str| (table == "shelves") == (cx.engine() == Engine::Sqlite);
    let tables: Vec<&'static str> = KEY_TABLES.iter().copied().filter(|table| has(table)).collect();
    tables.into_iter().try_for_each(|table| request_table_scrub(cx, table, cause_lsn))
}

/// Marks every table with unencrypted texts of members for cleaning. `cause_lsn` is the position of the event
/// in the caller's workspace that requires it.
pub(crate) fn request_plaintext_scrub(cx: &mut Write<'_>, cause_lsn: i64) -> Result<()> {
    plaintext_tables(cx).try_for_each(|table| request_table_scrub(cx, table, cause_lsn))
}

fn plaintext_tables<'a>(cx: &Read<'a>) -> impl Iterator<Item = &'static str> + use<'a> {
    cx.records().iter().filter(|records| records.purges().is_some()).map(Records::name)
}

/// Marks one table for cleaning. `cause_lsn` is the position of the event in the caller's workspace that
/// requires it.
///
/// Each new reason for cleaning must use a position that no earlier mark uses. Otherwise a table that is
/// marked again during its cleaning would have no new mark.
pub(super) fn request_table_scrub(cx: &mut Write<'_>, key_table: &'static str, cause_lsn: i64) -> Result<()> {
    let workspace = cx.caller().workspace_id;
    cx.execute_any(INSERT_MARK, &[&key_table, &workspace, &cause_lsn])
}

const INSERT_MARK: &str = "
    insert into scrubs (key_table, workspace_id, lsn) values ($1, $2, $3)
    on conflict (key_table, workspace_id, lsn) do nothing";

/// A mark: the request to clean a table, because of an event in a workspace.
#[derive(Clone, Debug)]
pub(crate) struct ScrubMark {
    pub key_table: &'static str,
    workspace: WorkspaceId,
    lsn: i64,
}

/// Returns the current marks, up to [`MARKS_MAX`] for each table.
///
/// When this function finds a mark, the destroyed keys have already been removed from their rows.
pub(crate) fn pending(cx: &Read<'_>) -> Result<Vec<ScrubMark>> {
    if cx.query::<(String,)>(FIND_MARK, &[])?.is_empty() {
        return Ok(Vec::new());
    }
    let mut pending = Vec::new();
    for key_table in KEY_TABLES.iter().copied().chain(plaintext_tables(cx)) {
        let marks: Vec<(WorkspaceId, i64)> = cx.query(LIST_MARKS, &[&key_table, &MARKS_MAX])?;
        pending.extend(marks.into_iter().map(|(workspace, lsn)| ScrubMark { key_table, workspace, lsn }));
    }
    Ok(pending)
}

const FIND_MARK: &str = "select key_table from scrubs limit 1";

/// Maximum marks per table that one run of the scrub reads.
const MARKS_MAX: i64 = 1000;

const LIST_MARKS: &str =
    "select workspace_id, lsn from scrubs where key_table = $1 order by workspace_id, lsn limit $2";

/// Deletes exactly the given marks, after their tables were cleaned.
pub(crate) fn delete_marks(cx: &mut Write<'_>, marks: &[ScrubMark]) -> Result<()> {
    marks
        .iter()
        .try_for_each(|mark| cx.execute_any(DELETE_MARK, &[&mark.key_table, &mark.workspace, &mark.lsn]))
}

const DELETE_MARK: &str = "delete from scrubs where key_table = $1 and workspace_id = $2 and lsn = $3";

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
        let ask = |lsn: i64| conn.execute(INSERT_MARK, &[&"shelves", &workspace, &lsn]).map(drop).unwrap();
        let marks = || -> Vec<i64> {
            let mut rows = conn.query(LIST_MARKS, &[&"shelves", &MARKS_MAX]).unwrap();
            rows.iter_mut().map(|row| <(WorkspaceId, i64)>::from_row(row).unwrap().1).collect()
        };
        ask(500);
        let seen = marks();
        // This mark is inserted during the cleaning, for an event before the event of the earlier mark.
        ask(7);
        for lsn in seen {
            conn.execute(DELETE_MARK, &[&"shelves", &workspace, &lsn]).unwrap();
        }
        assert_eq!(marks(), [7]);
    }
}
