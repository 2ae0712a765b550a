//! Statements that write many rows, which the two engines take in different forms.

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
