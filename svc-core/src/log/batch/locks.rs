//! Locking the heads of a batch, on Postgres, where several servers write.
//!
//! Whoever holds the row of a head gives out the positions of its log. Heads that others hold are left for a
//! later batch while any is free, so that one busy workspace does not delay the others.
//!
//! Where only this server has written for a while, a batch does not wait for its locks: it assumes the heads
//! to be as it left them. Its first statement locks them if they are, and all that follows is lost if not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Batch, Head};
use crate::Result;
use crate::id::WorkspaceId;
use crate::limits::HELD_WAIT;
use crate::store::executor::Held;
use crate::store::{Conn, Param, Row};

macro_rules! lock_heads {
    ($wait:literal) => {
        concat!(
            "select workspace_id, lsn, hash, at, audit_seq, epoch, rules_epoch,
                    cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)
             from heads where workspace_id = any($1) order by workspace_id for update",
            $wait
        )
    };
}

const LOCK_FREE_HEADS: &str = lock_heads!(" skip locked");

const LOCK_HEADS: &str = lock_heads!("");

/// Locks heads that are as they are given. If any is not, or another holds it, it divides by zero: what has
/// been sent after it then fails too, instead of waiting for who holds it.
pub(super) const LOCK_ASSUMED_HEADS: &str = "
    with locked as (
        select 1 from heads h
        join unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bigint[], $5::bigint[], $6::bigint[])
            as n (workspace_id, lsn, hash, audit_seq, epoch, rules_epoch)
            on h.workspace_id = n.workspace_id and h.lsn = n.lsn and h.hash = n.hash
            and h.audit_seq = n.audit_seq and h.epoch = n.epoch and h.rules_epoch = n.rules_epoch
        order by h.workspace_id for update of h skip locked)
    select 1 / cast(count(*) = cardinality($1) as integer) from locked";

/// In how many batches in a row a head must have been found as it was left, to be assumed so.
///
/// A batch that was wrong is run again, so where others write now and then it must not be tried often.
pub(super) const ASSUMED_AFTER: u32 = 8;

/// For how long the time of the database is not asked for.
const ASSUMED_FOR: Duration = Duration::from_secs(1);

const EXISTING_HEADS: &str = "select workspace_id from heads where workspace_id = any($1)";

const LIMIT_LOCKS: &str = "select set_config('lock_timeout', $1, true)";

const UNLIMIT_LOCKS: &str = "set local lock_timeout to default";

/// Locks the heads of the batch, in the order of ids so that servers cannot deadlock.
impl Batch {
    /// Locks those of `wanted` that are free, or waits for all of them if none is.
    ///
    /// Returns those that others have locked.
    pub(super) fn lock_heads(
        &mut self,
        conn: &Conn,
        wanted: &BTreeSet<WorkspaceId>,
        held: Held,
    ) -> Result<BTreeSet<WorkspaceId>> {
        self.take_heads(conn, LOCK_FREE_HEADS, wanted)?;
        let mut missing = self.without_head(wanted);
        if missing.len() == wanted.len() && !missing.is_empty() && held == Held::Wait {
            conn.query(LIMIT_LOCKS, &[&format!("{}ms", HELD_WAIT.as_millis())])?;
            self.take_heads(conn, LOCK_HEADS, wanted)?;
            conn.defer(None, UNLIMIT_LOCKS, &[])?;
            missing = self.without_head(wanted);
        }
        if missing.is_empty() {
            return Ok(missing);
        }
        let ids: Vec<uuid::Uuid> = missing.iter().map(|id| id.uuid()).collect();
        conn.query(EXISTING_HEADS, &[&ids])?.iter_mut().map(Row::take).collect()
    }

    /// Has those of `wanted` locked by the first statement that is sent, if they can be assumed to be as they
    /// were left. Returns false if they cannot.
    pub(super) fn assume_heads(&mut self, conn: &Conn, wanted: &BTreeSet<WorkspaceId>) -> Result<bool> {
        if wanted.is_empty() || !self.knows_time() {
            return Ok(false);
        }
        let left = |id: &WorkspaceId| Some((*id, *self.committed.get(id)?));
        let unmoved = wanted.iter().filter_map(left).filter(|(_, head)| head.unmoved >= ASSUMED_AFTER);
        let assumed: BTreeMap<WorkspaceId, Head> = unmoved.collect();
        if assumed.len() != wanted.len() {
            return Ok(false);
        }
        let rows: Vec<Vec<Param<'_>>> = assumed.iter().map(assumed_columns).collect();
        conn.lock_many(LOCK_ASSUMED_HEADS, &rows)?;
        self.heads.extend(assumed);
        Ok(true)
    }

    /// Returns whether the time of the database was read lately.
    fn knows_time(&self) -> bool {
        self.time_read_at.is_some_and(|read_at| self.clock.monotonic().since(read_at) < ASSUMED_FOR)
    }

    fn without_head(&self, wanted: &BTreeSet<WorkspaceId>) -> BTreeSet<WorkspaceId> {
        wanted.iter().filter(|id| !self.heads.contains_key(id)).copied().collect()
    }

    fn take_heads(&mut self, conn: &Conn, sql: &'static str, wanted: &BTreeSet<WorkspaceId>) -> Result<()> {
        let ids: Vec<uuid::Uuid> = wanted.iter().map(|id| id.uuid()).collect();
        let asked = self.clock.monotonic();
        for row in &mut conn.query(sql, &[&ids])? {
            let workspace: WorkspaceId = row.take()?;
            let mut head = Head::take(row)?;
            self.clock.hear(row.take()?, asked);
            self.time_read_at = Some(asked);
            self.cache.check(workspace, head.epochs);
            match self.committed.remove(&workspace).filter(|committed| committed.is_same(&head)) {
                Some(committed) => head.unmoved = committed.unmoved.saturating_add(1),
                None => self.memos.forget(workspace),
            }
            self.heads.insert(workspace, head);
        }
        Ok(())
    }
}

fn assumed_columns<'a>((workspace, head): (&WorkspaceId, &'a Head)) -> Vec<Param<'a>> {
    vec![
        Param::Uuid(workspace.uuid()),
        Param::Int(head.lsn),
        Param::Bytes(&head.hash),
        Param::Int(head.audit_seq),
        Param::Int(head.epochs.access),
        Param::Int(head.epochs.rules),
    ]
}
