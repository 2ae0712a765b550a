//! Removes the bytes of destroyed keys from a Postgres server's tables of keys, beside everybody who uses them. A table
//! that is rewritten keeps what an older transaction may still see, so each mark waits for those that were under way
//! when it was first seen; nobody waits for the scrubber meanwhile, and it never waits itself: what is not possible now
//! is tried again. SQLite's file needs none of this (see [`Conn::cut_log`]).

use std::collections::BTreeMap;
use std::time::Duration;

use super::conn::Conn;
use super::postgres::PgConn;
use crate::error::Result;
use crate::time::Monotonic;

/// Time between checkpoints that the scrubber asks for, at the least: each makes the next changes costly.
const CHECKPOINTS: Duration = Duration::from_secs(60);

/// The state of one process's scrubbing. `M` is a mark of a table.
pub(crate) struct Scrubber<M> {
    waiting: BTreeMap<&'static str, Waiting<M>>,
    /// Rewritten tables whose old bytes are still in the server's log.
    owes_checkpoint: bool,
    checkpoint_after: Option<Monotonic>,
}

struct Waiting<M> {
    marks: Vec<M>,
    /// How often its rewrite has failed. A table that keeps failing comes after the others.
    failures: u32,
    /// Transactions from before this moment may still see what the marks speak of.
    horizon: String,
}

impl<M> Default for Scrubber<M> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), owes_checkpoint: false, checkpoint_after: None }
    }
}

impl<M> Scrubber<M> {
    /// Scrubs the tables whose marks are `pending`, as far as that is possible at once, and answers the marks that
    /// are done with. A table that cannot be rewritten keeps no other from it.
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
                self.waiting.insert(table, Waiting { marks, failures: 0, horizon: conn.horizon()? });
            }
        }
        let mut tables: Vec<(u32, &'static str)> =
            self.waiting.iter().map(|(table, waiting)| (waiting.failures, *table)).collect();
        tables.sort_unstable();
        let mut done = Vec::new();
        for (_, table) in tables {
            let Some(waiting) = self.waiting.get_mut(table) else { continue };
            match conn.outlasted(&waiting.horizon).and_then(|outlasted| Ok(outlasted && conn.rewrite(table)?))
            {
                Ok(true) => {
                    done.extend(self.waiting.remove(table).into_iter().flat_map(|waiting| waiting.marks));
                    self.owes_checkpoint = true;
                }
                Ok(false) => {}
                Err(error) => {
                    waiting.failures = waiting.failures.saturating_add(1);
                    tracing::warn!(table, %error, cause = ?error.cause(), "a table of keys was not rewritten");
                    // Without its session it would wait for another for each table.
                    if !conn.stands() {
                        break;
                    }
                }
            }
        }
        self.checkpoint(conn, now);
        Ok(done)
    }

    /// Whether there is something to do without a pending mark.
    pub fn owes_checkpoint(&self) -> bool {
        self.owes_checkpoint
    }

    fn checkpoint(&mut self, conn: &PgConn, now: Monotonic) {
        if !self.owes_checkpoint || self.checkpoint_after.is_some_and(|after| now < after) {
            return;
        }
        self.owes_checkpoint = false;
        self.checkpoint_after = Some(now.plus(CHECKPOINTS));
        // Only some roles may; without it the server's own checkpoints retire the log.
        if let Err(error) = conn.batch("checkpoint") {
            tracing::debug!(cause = ?error.cause(), "the role may not checkpoint");
        }
    }
}
