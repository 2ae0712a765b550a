//! Changes of one row each, which Postgres runs for all rows of a batch at once.
//!
//! On SQLite each runs when it is called. On Postgres the rows are kept, and written together before the
//! first statement that names their table, or before the commit; so whatever reads the table finds them. A
//! row is never written out of turn: once one has changed, an earlier kind of change of the same row makes
//! all that are kept be written first.

/// A statement that writes many rows: one row at a time on SQLite, all at once from arrays on Postgres.
pub(crate) struct BulkWrite {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

/// Changes of several tables that are made together: one statement on Postgres, which touches the rows of the
/// last.
pub(crate) struct JointWrite<const N: usize> {
    /// For each table the statement that changes one row, and the number of its parameters.
    pub sqlite: [(&'static str, usize); N],
    /// The statement for all rows, which takes the parameters of all tables in turn, as arrays.
    pub postgres: &'static str,
}

/// A statement that changes a row of a table.
pub struct RowWrite {
    /// The table that it changes.
    pub(crate) table: &'static str,
    pub(crate) statement: BulkWrite,
    pub(crate) kind: RowWriteKind,
}

/// What a statement does to its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowWriteKind {
    /// Adds it.
    Adds,
    /// Adds it unless it is there.
    AddsIfMissing,
    /// Does that if these other tables say so, which do not change before.
    AddsBy(&'static [&'static str]),
    /// Changes the one that is there. The first parameter is its key.
    Changes,
    /// Removes or adds it, as follows from other tables, which are written first. The first parameter is its
    /// key.
    Derives,
}

impl RowWriteKind {
    /// Returns how many rows `count` of them must touch; none if it may be any number.
    pub fn touched(self, count: u64) -> Option<u64> {
        match self {
            Self::Adds | Self::Changes => Some(count),
            Self::AddsIfMissing | Self::AddsBy(_) | Self::Derives => None,
        }
    }

    /// Returns the other tables that a change may not be written after a change of.
    pub fn reads(self) -> &'static [&'static str] {
        match self {
            Self::AddsBy(tables) => tables,
            Self::Adds | Self::AddsIfMissing | Self::Changes | Self::Derives => &[],
        }
    }

    /// Whether the order in which they are written matters for a row.
    pub fn is_keyed(self) -> bool {
        matches!(self, Self::Changes | Self::Derives)
    }
}

/// Returns whether a statement names one of `tables`.
pub(crate) fn names_any(sql: &str, tables: &[&str]) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    sql.split(|c| !is_part(c)).any(|word| tables.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_named_by_a_whole_word() {
        for (sql, wanted) in [
            ("select 1 from threads t", true),
            ("update threads\nset a = $1", true),
            ("(select id from threads)", true),
            ("select 1 from thread_workers", false),
            ("select threads_read from other", false),
            ("delete from ready where id = $1", true),
            ("", false),
        ] {
            assert_eq!(names_any(sql, &["threads", "ready"]), wanted, "{sql}");
        }
    }
}
