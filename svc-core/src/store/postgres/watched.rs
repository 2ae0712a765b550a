//! Reporting what statements cost, to a watcher of tests.

use tokio_postgres::types::ToSql;

use super::super::value::Param;
use super::super::watch::{Ran, Watcher, rows_examined};
use super::PgConn;
use super::errors::Failed;
use super::session::Form;
use crate::Result;

impl PgConn {
    /// Reports every statement from now on.
    pub(crate) fn watch(&mut self, watcher: Watcher) {
        self.watcher = Some(watcher);
    }

    /// Reports a statement that returns rows, and what it costs if it only reads.
    ///
    /// It is run once more for that.
    pub(super) fn watch_read(&self, form: Form, sql: &'static str, params: &[Param<'_>]) -> Result<()> {
        let Some(watcher) = &self.watcher else { return Ok(()) };
        let begins = |word| sql.trim_start().get(..6).is_some_and(|start| start.starts_with(word));
        let changes = ["insert into", "update ", "delete from", " for update", "pg_notify"];
        if !(begins("select") || begins("with ")) || changes.iter().any(|word| sql.contains(word)) {
            watcher(&Ran { sql, cost: 0 });
            return Ok(());
        }
        // A bound of bytes is an additional parameter.
        let own = if form == Form::Bounded { params.len().saturating_sub(1) } else { params.len() };
        let bound: Vec<&(dyn ToSql + Sync)> =
            params.iter().take(own).map(|param| param as &(dyn ToSql + Sync)).collect();
        let client = self.client()?;
        let explain = format!("explain (analyze, timing off) {sql}");
        let plan = self.after_deferred(async {
            client.query(&explain, &bound).await.map_err(|error| Failed::of(error, sql))
        })?;
        let lines: Vec<&str> = plan.iter().filter_map(|row| row.try_get(0).ok()).collect();
        watcher(&Ran { sql, cost: rows_examined(lines) });
        Ok(())
    }

    pub(super) fn watch_change(&self, sql: &'static str) {
        if let Some(watcher) = &self.watcher {
            watcher(&Ran { sql, cost: 0 });
        }
    }
}
