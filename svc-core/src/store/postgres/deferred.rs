//! Deferred statements, which are sent together with the next statement that waits for its reply.

use tokio_postgres::types::ToSql;

use super::super::engine::check_row_count;
use super::super::value::Param;
use super::PgConn;
use super::errors::PgFailure;
use super::values::OwnedParam;
use crate::Result;

impl PgConn {
    pub fn defer(&self, expected_rows: Option<u64>, sql: &'static str, params: &[Param<'_>]) -> Result<()> {
        self.wrote.set(true);
        let owned: Vec<OwnedParam> = params.iter().map(OwnedParam::from_param).collect();
        self.defer_change(expected_rows, sql, owned)
    }

    /// Writes the rows of several tables with one statement, whose parameters are one array per column.
    ///
    /// Each part contains the rows of one table and the number of their columns. The statement must report as
    /// many changed rows as the last part contains.
    pub fn write_many(&self, sql: &'static str, parts: &[(&[Vec<Param<'_>>], usize)]) -> Result<()> {
        if parts.iter().all(|(rows, _)| rows.is_empty()) {
            return Ok(());
        }
        self.wrote.set(true);
        let columns =
            parts.iter().flat_map(|(rows, width)| (0..*width).map(|index| collect_column(rows, index)));
        let touched = parts.last().map_or(0, |(rows, _)| rows.len() as u64);
        self.defer_change(Some(touched), sql, columns.collect())
    }

    /// Defers a statement that changes rows. If `expected_rows` is set, the statement must change exactly
    /// that number of rows.
    pub(super) fn defer_change(
        &self,
        expected_rows: Option<u64>,
        sql: &'static str,
        params: Vec<OwnedParam>,
    ) -> Result<()> {
        self.watch_statement(sql, &params)?;
        let (client, statement) = self.prepare(sql)?;
        self.deferred.borrow_mut().push(Box::pin(async move {
            let bound = params.iter().map(|param| param as &(dyn ToSql + Sync));
            let bound: Vec<&(dyn ToSql + Sync)> = bound.collect();
            let touched = client
                .execute(&statement, &bound)
                .await
                .map_err(|error| PgFailure::from_driver(error, sql))?;
            check_row_count(expected_rows, touched, sql).map_err(PgFailure::from_defect)
        }));
        Ok(())
    }
}

/// Returns the values of one column in all rows.
fn collect_column(rows: &[Vec<Param<'_>>], index: usize) -> OwnedParam {
    OwnedParam::List(rows.iter().filter_map(|row| row.get(index)).map(OwnedParam::from_param).collect())
}
