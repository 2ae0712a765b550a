//! Statements whose reply nobody waits for: they are sent together with the next one that is waited for.

use tokio_postgres::types::ToSql;

use super::super::engine::check_rows;
use super::super::value::Param;
use super::PgConn;
use super::errors::{Failed, PgResult};
use super::values::Owned;
use crate::Result;

/// What the server says of a statement: how many rows it has.
type Answer = std::result::Result<u64, tokio_postgres::Error>;

impl PgConn {
    pub fn defer(&self, rows: Option<u64>, sql: &'static str, params: &[Param<'_>]) -> Result<()> {
        self.wrote.set(true);
        self.write_pending_of(sql)?;
        let owned: Vec<Owned> = params.iter().map(Owned::of).collect();
        self.push_change(rows, sql, owned)
    }

    /// Changes rows that are given as lists of columns: those of each part, with the number of its columns.
    /// The statement must touch those of the last one.
    pub fn write_many(&self, sql: &'static str, parts: &[(&[Vec<Param<'_>>], usize)]) -> Result<()> {
        if parts.iter().all(|(rows, _)| rows.is_empty()) {
            return Ok(());
        }
        self.wrote.set(true);
        let columns = parts.iter().flat_map(|(rows, width)| (0..*width).map(|place| column(rows, place)));
        let touched = parts.last().map_or(0, |(rows, _)| rows.len() as u64);
        self.push_change(Some(touched), sql, columns.collect())
    }

    /// Locks rows that are given as lists of columns, before the next statement.
    ///
    /// The statement must fail if any is not there, or another has it locked: the transaction is lost then.
    pub fn lock_many(&self, sql: &'static str, rows: &[Vec<Param<'_>>]) -> Result<()> {
        let width = rows.first().map_or(0, Vec::len);
        let columns = (0..width).map(|place| column(rows, place)).collect();
        self.push(sql, columns, move |locked| {
            locked.map(drop).map_err(|error| Failed::of_assumption(error, sql))
        })
    }

    /// Defers a change; it must touch as many rows, if that is known.
    pub(super) fn push_change(&self, rows: Option<u64>, sql: &'static str, params: Vec<Owned>) -> Result<()> {
        self.push(sql, params, move |touched| {
            let touched = touched.map_err(|error| Failed::of(error, sql))?;
            check_rows(rows, touched, sql).map_err(Failed::defect)
        })
    }

    /// Defers a statement, whose outcome follows from the server's answer.
    fn push(
        &self,
        sql: &'static str,
        params: Vec<Owned>,
        outcome: impl FnOnce(Answer) -> PgResult<()> + Send + 'static,
    ) -> Result<()> {
        self.watch_statement(sql, &params)?;
        let (client, statement) = self.prepared(sql)?;
        self.deferred.borrow_mut().push(Box::pin(async move {
            let bound = params.iter().map(|param| param as &(dyn ToSql + Sync));
            let bound: Vec<&(dyn ToSql + Sync)> = bound.collect();
            outcome(client.execute(&statement, &bound).await)
        }));
        Ok(())
    }
}

/// Returns the values of a column.
fn column(rows: &[Vec<Param<'_>>], place: usize) -> Owned {
    Owned::List(rows.iter().filter_map(|row| row.get(place)).map(Owned::of).collect())
}
