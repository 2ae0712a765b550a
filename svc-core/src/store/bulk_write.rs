//! Statements that write many rows, in the different forms that the two engines need.

/// A statement that writes many rows: one row at a time on SQLite, all rows at once from arrays on Postgres.
pub(crate) struct BulkWrite {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

/// Changes to several tables that are made together.
///
/// On Postgres this is one statement, whose row count is that of the last table.
pub(crate) struct JointWrite<const N: usize> {
    /// For each table, the statement that changes one row and its number of parameters.
    pub sqlite: [(&'static str, usize); N],
    /// The statement for all rows. Its parameters are those of all tables in turn, as arrays.
    pub postgres: &'static str,
}
