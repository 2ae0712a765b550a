//! Changes of one row each, which Postgres runs for all rows of a batch at once.
//!
//! On SQLite each runs when it is called. On Postgres the rows are kept, and written together before the next
//! other statement, or before the commit. A row is never written out of turn: once one has changed, an earlier
//! kind of change of the same row makes all that are kept be written first.

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
            Self::AddsIfMissing | Self::Derives => None,
        }
    }

    /// Whether the order in which they are written matters for a row.
    pub fn is_keyed(self) -> bool {
        matches!(self, Self::Changes | Self::Derives)
    }
}
