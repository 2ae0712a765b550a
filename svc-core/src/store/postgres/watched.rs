//! Reports the costs of statements to a watcher in tests.
//!
//! For the report, each statement is run once more by `explain (analyze)`, with the session's plan for it.

use super::super::value::{Param, Value};
use super::super::watch::{ExecutedStatement, Watcher, count_examined_rows};
use super::PgConn;
use super::errors::{PgFailure, PgResult};
use super::session::ResultForm;
use super::values::OwnedParam;
use crate::Result;

/// Keywords of statements that change or lock rows.
const CHANGE_KEYWORDS: [&str; 5] = ["insert into", "update ", "delete from", "for update", "pg_notify"];

const SELECT_PREPARED_NAME: &str = "select name from pg_prepared_statements where statement = $1 limit 1";

const ROLL_BACK_TO_SAVEPOINT: &str = "rollback to savepoint watched; release savepoint watched";

impl PgConn {
    /// Makes the connection report every later statement to `watcher`.
    pub(crate) fn set_watcher(&mut self, watcher: Watcher) {
        self.watcher = Some(watcher);
    }

    /// Reports a statement that returns rows, with its cost.
    pub(super) fn watch_query(
        &self,
        form: ResultForm,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<()> {
        if self.watcher.is_none() {
            return Ok(());
        }
        // A limit in bytes is an additional parameter.
        let own = if form == ResultForm::Bounded { params.len().saturating_sub(1) } else { params.len() };
        let owned: Vec<OwnedParam> = params.iter().take(own).map(OwnedParam::from_param).collect();
        self.watch_statement(sql, &owned)
    }

    /// Reports a statement with its cost, which is measured in a separate run whose changes are rolled back.
    pub(super) fn watch_statement(&self, sql: &'static str, params: &[OwnedParam]) -> Result<()> {
        let Some(watcher) = &self.watcher else { return Ok(()) };
        let begins = |word: &&str| sql.trim_start().starts_with(*word);
        let changes = CHANGE_KEYWORDS.iter().any(|word| sql.contains(word));
        let is_explained = CHANGE_KEYWORDS.iter().chain(&["select", "with "]).any(begins);
        let cost = if is_explained && (self.transaction.is_in_progress() || !changes) {
            self.measure_cost(sql, params, changes)?
        } else {
            0
        };
        watcher(&ExecutedStatement { sql, cost });
        Ok(())
    }

    fn measure_cost(&self, sql: &'static str, params: &[OwnedParam], changes: bool) -> Result<u64> {
        let (client, _) = self.prepare(sql)?;
        let literals: Vec<String> = params.iter().map(sql_literal).collect();
        let plan = self.send_with_deferred(async {
            let failed = |error| PgFailure::from_driver(error, sql);
            let name: String = client.query_one(SELECT_PREPARED_NAME, &[&sql]).await.map_err(failed)?.get(0);
            let call = if params.is_empty() { name } else { format!("{name}({})", literals.join(", ")) };
            let explain = format!("explain (analyze, timing off) execute {call}");
            if !changes {
                return client.query(&explain, &[]).await.map_err(failed);
            }
            client.batch_execute("savepoint watched").await.map_err(failed)?;
            let plan = client.query(&explain, &[]).await;
            client.batch_execute(ROLL_BACK_TO_SAVEPOINT).await.map_err(failed)?;
            // An error here also occurs in the actual run.
            PgResult::Ok(plan.unwrap_or_default())
        })?;
        let lines: Vec<&str> = plan.iter().filter_map(|row| row.try_get(0).ok()).collect();
        Ok(count_examined_rows(lines))
    }

    /// Reports the commit of a transaction.
    pub(super) fn watch_commit(&self) {
        if let Some(watcher) = &self.watcher {
            watcher(&ExecutedStatement::COMMIT);
        }
    }
}

/// Formats a parameter as a quoted SQL literal, or as `null`.
fn sql_literal(param: &OwnedParam) -> String {
    sql_text(param).map_or_else(|| "null".to_owned(), |text| format!("'{}'", text.replace('\'', "''")))
}

/// Returns a value as text, or `None` for null.
fn sql_text(value: &OwnedParam) -> Option<String> {
    let list = |texts: Vec<String>| Some(format!("{{{}}}", texts.join(",")));
    match value {
        OwnedParam::Single(Value::Null) => None,
        OwnedParam::Single(Value::Int(number)) => Some(number.to_string()),
        OwnedParam::Single(Value::Bool(truth)) => Some(truth.to_string()),
        OwnedParam::Single(Value::Text(text)) => Some(text.clone()),
        OwnedParam::Single(Value::Bytes(bytes)) => Some(format!("\\x{}", hex::encode(bytes))),
        OwnedParam::Single(Value::Hash(hash)) => Some(format!("\\x{}", hex::encode(hash))),
        OwnedParam::Single(Value::Uuid(id)) => Some(id.to_string()),
        OwnedParam::Ints(numbers) => list(numbers.iter().map(ToString::to_string).collect()),
        OwnedParam::Uuids(ids) => list(ids.iter().map(ToString::to_string).collect()),
        OwnedParam::List(items) => list(items.iter().map(array_element).collect()),
    }
}

/// Formats a value as a quoted element of an array literal.
fn array_element(value: &OwnedParam) -> String {
    let quoted = |text: String| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    sql_text(value).map_or_else(|| "null".to_owned(), quoted)
}
