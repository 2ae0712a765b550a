//! Time limits of reads on Postgres, and their interruption.
//!
//! In a read transaction, the server ends each statement after the time limit of a read. If less than half of
//! that time remains for the current read, the server ends the statement after the remaining time.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;

use super::PgConn;
use super::errors::{PgFailure, PgResult};
use crate::error::{Code, Error, Result};
use crate::store::budget::{ReadBudget, ReadInterrupt, interrupted_error, too_expensive_error};
use crate::store::engine::TransactionFailure;

/// The limits for the reads of a connection.
pub(super) struct ReadLimits {
    interrupt: ReadInterrupt,
    /// Maximum duration of a read.
    limit: Option<Duration>,
    /// Whether the statements of the transaction are limited to the remaining time of a read.
    is_shortened: Cell<bool>,
}

impl PgConn {
    /// Configures the connection for reads: `interrupt` ends them, and `limit` is the time limit of each
    /// read.
    pub(crate) fn for_reads(mut self, interrupt: &ReadInterrupt, limit: Option<Duration>) -> Self {
        self.reads = Some(ReadLimits { interrupt: interrupt.clone(), limit, is_shortened: Cell::new(false) });
        self
    }

    /// Returns the first statement of a transaction.
    ///
    /// With a time limit for reads, the statement sets that limit. Otherwise it sets the transaction name
    /// that the commit returns.
    pub(super) fn transaction_setup_statement(&self, name: &str) -> String {
        match &self.reads {
            Some(ReadLimits { limit: Some(limit), is_shortened, .. }) => {
                is_shortened.set(false);
                set_timeout_sql(*limit)
            }
            _ => format!("set local svc.transaction = '{name}'"),
        }
    }

    /// Returns the budget of the read in progress.
    pub(crate) fn budget(&self) -> &ReadBudget {
        &self.budget
    }

    /// Begins the time budget of a new read, with the full limit.
    pub(crate) fn begin_budget(&self) {
        let Some(ReadLimits { limit, is_shortened, .. }) = &self.reads else { return };
        self.budget.begin(*limit);
        if let (Some(limit), true, Some(client)) = (limit, is_shortened.take(), self.live_client()) {
            self.limit_statements(client, *limit);
        }
    }

    /// Fails if the time of the read is used up. Otherwise limits the next statement to the remaining time.
    ///
    /// A transaction begins with the full limit, which is shortened once less than half of it remains.
    pub(super) fn limit_next_statement(&self, client: &Arc<ClientWrapper>) -> Result<()> {
        let (Some(ReadLimits { limit: Some(limit), is_shortened, .. }), Some(left)) =
            (&self.reads, self.budget.remaining())
        else {
            return Ok(());
        };
        if left.is_zero() {
            return Err(too_expensive_error("the time limit was reached before a statement"));
        }
        if left < *limit / 2 {
            is_shortened.set(true);
            self.limit_statements(Arc::clone(client), left);
        }
        Ok(())
    }

    /// Limits the later statements of the transaction. The limit is sent together with the next statement.
    fn limit_statements(&self, client: Arc<ClientWrapper>, limit: Duration) {
        let sql = set_timeout_sql(limit);
        self.deferred.borrow_mut().push(Box::pin(async move {
            client
                .batch_execute(&sql)
                .await
                .map_err(|error| PgFailure::from_driver(error, "set local statement_timeout"))
        }));
    }

    /// Waits for the server, unless reads are interrupted first.
    pub(super) async fn run_unless_interrupted<T>(
        &self,
        work: impl Future<Output = PgResult<T>>,
    ) -> PgResult<T> {
        let Some(reads) = &self.reads else { return work.await };
        tokio::select! {
            outcome = work => outcome,
            // The outcome of the statement is not known, so the session is closed.
            () = reads.interrupt.wait_until_interrupted() => {
                Err(PgFailure { failure: TransactionFailure::Timeout, error: interrupted_error() })
            }
        }
    }

    /// Returns the error for a failed read: the error of the time budget, if the read has used it up.
    pub(super) fn error_for_caller(&self, failed: PgFailure) -> Error {
        match failed.error.code() {
            Code::Unavailable
                if failed.failure == TransactionFailure::Statement && self.budget.is_used_up() =>
            {
                too_expensive_error(failed.error)
            }
            _ => failed.error,
        }
    }
}

/// Returns the statement that limits later statements of the transaction to `limit`, rounded up to
/// milliseconds.
fn set_timeout_sql(limit: Duration) -> String {
    format!("set local statement_timeout = {}", limit.as_millis().saturating_add(1))
}
