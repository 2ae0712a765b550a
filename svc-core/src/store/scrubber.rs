//! Removes the bytes of destroyed keys from the key tables of a Postgres database while the service runs.
//!
//! A mark requests that a table is rewritten. A rewritten table keeps rows that an older transaction may
//! still see, so each mark waits for the transactions that were in progress when the mark was first seen.
//! Nothing waits for the scrubber, and the scrubber never blocks: it retries later if something is not
//! possible now. SQLite's file needs none of this (see [`Conn::truncate_wal`]).

use std::collections::BTreeMap;
use std::time::Duration;

use super::conn::Conn;
use super::postgres::PgConn;
use crate::error::Result;
use crate::time::Monotonic;

/// Minimum time between two checkpoints that the scrubber requests, because each checkpoint makes the next
/// changes costly.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(60);

/// The scrubbing state of one process. `M` is the type of a mark, which requests that a table is scrubbed.
pub(crate) struct Scrubber<M> {
    pending_tables: BTreeMap<&'static str, PendingMarks<M>>,
    /// Whether the write-ahead log may still contain old bytes of rewritten tables.
    needs_checkpoint: bool,
    /// Earliest time of the next checkpoint that the scrubber requests.
    next_checkpoint_at: Option<Monotonic>,
}

struct PendingMarks<M> {
    marks: Vec<M>,
    /// Number of failed rewrites of the table. Tables that keep failing come last.
    failures: u32,
    /// The server's transaction id when the marks were first seen. Older transactions may still see destroyed
    /// rows.
    horizon: String,
}

impl<M> Default for Scrubber<M> {
    fn default() -> Self {
        Self { pending_tables: BTreeMap::new(), needs_checkpoint: false, next_checkpoint_at: None }
    }
}

impl<M> Scrubber<M> {
    /// Scrubs the tables whose marks are `pending`, and returns the finished marks.
    ///
    /// Does not wait: a later call retries tables that cannot be rewritten now. A table that cannot be
    /// rewritten does not delay the other tables.
    pub fn scrub(
        &mut self,
        conn: &Conn,
        pending: BTreeMap<&'static str, Vec<M>>,
        now: Monotonic,
    ) -> Result<Vec<M>> {
        let Conn::Postgres(conn) = conn else { return Ok(pending.into_values().flatten().collect()) };
        self.pending_tables.retain(|table, _| pending.contains_key(table));
        for (table, marks) in pending {
            if !self.pending_tables.contains_key(table) {
                self.pending_tables
                    .insert(table, PendingMarks { marks, failures: 0, horizon: conn.transaction_horizon()? });
            }
        }
        let mut tables: Vec<(u32, &'static str)> =
            self.pending_tables.iter().map(|(table, waiting)| (waiting.failures, *table)).collect();
        tables.sort_unstable();
        let mut done = Vec::new();
        for (_, table) in tables {
            let Some(waiting) = self.pending_tables.get_mut(table) else { continue };
            match conn
                .has_passed_horizon(&waiting.horizon)
                .and_then(|has_passed| Ok(has_passed && conn.rewrite_table(table)?))
            {
                Ok(true) => {
                    done.extend(
                        self.pending_tables.remove(table).into_iter().flat_map(|waiting| waiting.marks),
                    );
                    self.needs_checkpoint = true;
                }
                Ok(false) => {}
                Err(error) => {
                    waiting.failures = waiting.failures.saturating_add(1);
                    let cause = error.cause();
                    tracing::warn!(table, %error, ?cause, "a table of keys was not rewritten");
                    // If the session is lost, each further table would have to wait for a new session.
                    if !conn.is_connected() {
                        break;
                    }
                }
            }
        }
        self.request_checkpoint(conn, now);
        conn.release_session();
        Ok(done)
    }

    /// Returns whether the scrubber still has to request a checkpoint, even if no mark is pending.
    pub fn needs_checkpoint(&self) -> bool {
        self.needs_checkpoint
    }

    fn request_checkpoint(&mut self, conn: &PgConn, now: Monotonic) {
        if !self.needs_checkpoint || self.next_checkpoint_at.is_some_and(|after| now < after) {
            return;
        }
        self.needs_checkpoint = false;
        self.next_checkpoint_at = Some(now.plus(CHECKPOINT_INTERVAL));
        // Only some roles may request a checkpoint. Otherwise the server's own checkpoints retire the log.
        if let Err(error) = conn.batch("checkpoint") {
            tracing::debug!(cause = ?error.cause(), "the role may not checkpoint");
        }
    }
}
