//! Rewrites a table without its dead rows.

use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::errors::PgFailure;
use super::{PgConn, first_value};
use crate::error::{Error, Result};
use crate::limits::POSTGRES_REPLY_GRACE;
use crate::store::engine::TransactionFailure;
use crate::store::value::Param;

impl PgConn {
    /// Rewrites a table without its dead rows. Returns `false` if the lock on the table is not granted in
    /// time.
    ///
    /// Other statements on the table wait while the rewrite waits for the lock and runs; the tables are
    /// small. If the role lacks the permission, the server only warns, so a table that is still in the same
    /// file is an error.
    pub fn rewrite_table(&self, table: &str) -> Result<bool> {
        let file = || first_value::<i64>(self.query(SELECT_TABLE_FILE, &[Param::Text(table)])?);
        let before = file()?;
        let rewritten = self.try_rewrite(table)?;
        if rewritten && file()? == before {
            return Err(Error::internal(format!("the role may not rewrite {table}: it must own it")));
        }
        Ok(rewritten)
    }

    fn try_rewrite(&self, table: &str) -> Result<bool> {
        let client = self.client()?;
        let lock_timeout = REWRITE_LOCK_TIMEOUT.as_millis();
        let limit = REWRITE_TIMEOUT.as_millis();
        let settings = format!("set lock_timeout = {lock_timeout}; set statement_timeout = {limit}");
        let back = "reset lock_timeout; reset statement_timeout";
        // A plain VACUUM leaves the bytes of dead rows in the free space of their page.
        let rewrite = format!("vacuum full {table}");
        self.wait_for_server_within(Some(REWRITE_TIMEOUT.saturating_add(POSTGRES_REPLY_GRACE)), async {
            client
                .batch_execute(&settings)
                .await
                .map_err(|error| PgFailure::from_driver(error, &settings))?;
            let rewritten = match client.batch_execute(&rewrite).await {
                Ok(()) => Ok(true),
                Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(false),
                Err(error) => Err(PgFailure::from_driver(error, &rewrite)),
            };
            // A session that keeps these settings must not return to the pool.
            let unusable = |error| PgFailure {
                failure: TransactionFailure::Broken,
                ..PgFailure::from_driver(error, back)
            };
            let reset = client.batch_execute(back).await.map_err(unusable);
            rewritten.and_then(|rewritten| reset.map(|()| rewritten))
        })
    }
}

/// Selects the file that contains a table's rows. A rewrite creates a new file.
const SELECT_TABLE_FILE: &str = "select cast(pg_relation_filenode(cast($1 as text)::regclass) as bigint)";

/// Maximum time that a rewrite waits for the lock on its table. Other statements on the table queue behind
/// it.
const REWRITE_LOCK_TIMEOUT: Duration = Duration::from_millis(20);

/// Maximum duration of a rewrite. Other statements on the table fail while it runs, and must be retried.
const REWRITE_TIMEOUT: Duration = Duration::from_secs(120);
