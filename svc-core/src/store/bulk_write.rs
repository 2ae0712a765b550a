//! Statements that write many rows, with a separate text for each engine.

/// A statement that writes many rows: one row per execution on SQLite, all rows as array parameters on
/// Postgres.
pub(crate) struct BulkWrite {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

/// Changes to `N` tables that are made together.
///
/// On Postgres this is one statement. The row count that it reports is the number of changed rows in the last
/// table.
pub(crate) struct JointWrite<const N: usize> {
    /// For each table, the statement that writes one row, with the number of parameters of the statement.
    pub sqlite: [(&'static str, usize); N],
    /// The statement for all rows of all tables. Its parameters are one array per column, table by table.
    pub postgres: &'static str,
}
