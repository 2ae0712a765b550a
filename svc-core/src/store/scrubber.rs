//! Removes the bytes of destroyed keys from a Postgres server's tables of keys, while they are in use.
//!
//! A table that is rewritten keeps what an older transaction may still see, so each mark waits for those that
//! were in progress when it was first seen. Nothing waits for the scrubber, and it never blocks: it retries
//! later what is not possible now. SQLite's file needs none of this (see [`Conn::truncate_wal`]).

use std::collections::BTreeMap;
use std::time::Duration;

use super::conn::Conn;
use super::postgres::PgConn;
use crate::error::Result;
use crate::time::Monotonic;

/// Shortest time between two checkpoints that the scrubber requests: each makes the next changes costly.
const CHECKPOINTS: Duration = Duration::from_secs(60);

/// The state of one process's scrubbing. `M` is a mark of a table.
pub(crate) struct Scrubber<M> {
    waiting: BTreeMap<&'static str, PendingMarks<M>>,
    /// The write-ahead log may still hold old bytes of rewritten tables.
    owes_checkpoint: bool,
    checkpoint_after: Option<Monotonic>,
}

struct PendingMarks<M> {
    marks: Vec<M>,
    /// How often its rewrite has failed. A table that keeps failing comes after the others.
    failures: u32,
    /// Older transactions may still see what the marks refer to.
    horizon: String,
}

impl<M> Default for Scrubber<M> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), owes_checkpoint: false, checkpoint_after: None }
    }
}

impl<M> Scrubber<M> {
    /// Scrubs the tables whose marks are `pending`, and returns the finished marks.
    ///
    /// It does as much as possible without waiting. A table that cannot be rewritten does not hold up the
    /// others.
    pub fn scrub(
        &mut self,
        conn: &Conn,
        pending: BTreeMap<&'static str, Vec<M>>,
        now: Monotonic,
    ) -> Result<Vec<M>> {
        let Conn::Postgres(conn) = conn else { return Ok(pending.into_values().flatten().collect()) };
        self.waiting.retain(|table, _| pending.contains_key(table));
        for (table, marks) in pending {
            if !self.waiting.contains_key(table) {
                self.waiting.insert(table, PendingMarks { marks, failures: 0, horizon: conn.horizon()? });
            }
        }
        let mut tables: Vec<(u32, &'static str)> =
            self.waiting.iter().map(|(table, waiting)| (waiting.failures, *table)).collect();
        tables.sort_unstable();
        let mut done = Vec::new();
        for (_, table) in tables {
            let Some(waiting) = self.waiting.get_mut(table) else { continue };
            match conn
                .has_passed(&waiting.horizon)
                .and_then(|has_passed| Ok(has_passed && conn.rewrite(table)?))
            {
                Ok(true) => {
                    done.extend(self.waiting.remove(table).into_iter().flat_map(|waiting| waiting.marks));
                    self.owes_checkpoint = true;
                }
                Ok(false) => {}
                Err(error) => {
                    waiting.failures = waiting.failures.saturating_add(1);
                    let cause = error.cause();
                    tracing::warn!(table, %error, ?cause, "a table of keys was not rewritten");
                    // Without its session each further table would have to wait for a new one.
                    if !conn.is_connected() {
                        break;
                    }
                }
            }
        }
        self.checkpoint(conn, now);
        conn.release();
        Ok(done)
    }

    /// Returns whether there is something to do without a pending mark.
    pub fn owes_checkpoint(&self) -> bool {
        self.owes_checkpoint
    }

    fn checkpoint(&mut self, conn: &PgConn, now: Monotonic) {
        if !self.owes_checkpoint || self.checkpoint_after.is_some_and(|after| now < after) {
            return;
        }
        self.owes_checkpoint = false;
        self.checkpoint_after = Some(now.plus(CHECKPOINTS));
        // Only some roles may; otherwise the server's own checkpoints retire the log.
        if let Err(error) = conn.batch("checkpoint") {
            tracing::debug!(cause = ?error.cause(), "the role may not checkpoint");
        }
    }
}
