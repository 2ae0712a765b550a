//! Maintenance of the database's files and keys, in every process that can write.
//!
//! SQLite's write-ahead log is checkpointed, mostly while the writer continues, and the bytes of destroyed
//! keys are removed. Housekeeping also drops unused rate limits of this process, and notices when the process
//! should be replaced.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::conversation::scrub::{self, ScrubMark};
use crate::error::Result;
use crate::host::start_checks::ReplacementReasons;
use crate::id::WorkspaceId;
use crate::log::keys as check_values;
use crate::op::{Chore, ChoreFn, ChoreProcesses, ChoreRound, Feature, StepOutcome};
use crate::store::scrubber::Scrubber;
use crate::store::{Conn, Opener, WalTruncation};
use crate::sync::lock;
use crate::time::{Clock, Monotonic};

/// Interval at which pending scrubs and the check value of the sealing key are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which the size of SQLite's write-ahead log is checked.
const WAL_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which idle clients are dropped from the rate limits.
///
/// The schema version and the keys in use are also checked at this interval.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum size of SQLite's write-ahead log. A larger log is checkpointed and truncated.
///
/// Truncating stops the writer, and for longer the larger the log is: 100 ms for about 300 MB, 5 ms for about
/// 10 MB.
const WAL_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Time after a failed truncation in which the log is not truncated, because each attempt blocks the writer.
const TRUNCATION_PAUSE: Duration = Duration::from_secs(5);
/// Duration of the lease of a maintenance chore, unless the lease is renewed.
const CHORE_LEASE: Duration = Duration::from_secs(15);

/// The state of the chores that maintain the database's files and keys.
pub(crate) struct Maintenance {
    opener: Opener,
    /// The connection for checkpoints and for removing the bytes of destroyed keys.
    conn: Mutex<Conn>,
    /// The time until which the log is not truncated again after a failed attempt.
    truncate_after: Mutex<Monotonic>,
    scrubber: Mutex<Scrubber<ScrubMark>>,
}

impl Maintenance {
    /// Returns the maintenance chores of a process whose database is opened by `opener`.
    pub fn feature(opener: Opener, clock: &Clock) -> Result<Feature> {
        let maintenance = Arc::new(Self {
            conn: Mutex::new(opener.housekeeper()?),
            opener,
            truncate_after: Mutex::new(clock.monotonic()),
            scrubber: Mutex::default(),
        });
        let run = |work: fn(&Self, &ChoreRound<'_>) -> Result<()>| -> ChoreFn {
            let maintenance = Arc::clone(&maintenance);
            Box::new(move |round| work(&maintenance, round).map(|()| StepOutcome::Done))
        };
        let everywhere = |name, every, run| Chore {
            name,
            every,
            lease: CHORE_LEASE,
            who: ChoreProcesses::EveryProcess,
            run,
        };
        let tidy = |name, run| everywhere(name, |_| Some(TIDY_INTERVAL), run);
        Ok(Feature::new()
            .chore(everywhere("checkpoint", |_| Some(WAL_CHECK_INTERVAL), run(Self::checkpoint)))
            .chore(Chore {
                who: ChoreProcesses::OneLeader,
                ..everywhere("scrub", |_| Some(POLL_INTERVAL), run(Self::scrub))
            })
            .chore(tidy(
                "schema",
                run(|_, round| round.read(ReplacementReasons::find).map(|reasons| reasons.log_warnings())),
            ))
            .chore(everywhere("key-checks", |_| Some(POLL_INTERVAL), run(Self::restore_check_value)))
            .chore(tidy(
                "tidy",
                run(|_, round| {
                    round.dispatch().limits.drop_idle_buckets();
                    Ok(())
                }),
            )))
    }

    /// Adds the check value of this process's key again, if a rewrap has removed it because the key sealed
    /// nothing.
    fn restore_check_value(&self, round: &ChoreRound<'_>) -> Result<()> {
        if !round.read(ReplacementReasons::is_check_value_removed)? {
            return Ok(());
        }
        let Some(lead) = round.lead()? else { return Ok(()) };
        lead.write(WorkspaceId::INSTANCE, |cx| {
            let id = cx.sealer().current_id().to_vec();
            let check = cx.sealer().check_value(&id)?;
            let now = cx.now();
            cx.execute_any(check_values::ADD_CHECK_VALUE, &[&id, &check, &now])
        })
    }

    /// Checkpoints SQLite's write-ahead log if it is larger than [`WAL_BYTES_MAX`].
    fn checkpoint(&self, round: &ChoreRound<'_>) -> Result<()> {
        if self.opener.wal_bytes() <= WAL_BYTES_MAX {
            return Ok(());
        }
        let mut truncate_after = lock(&self.truncate_after);
        if round.clock().monotonic() < *truncate_after {
            return lock(&self.conn).checkpoint();
        }
        if self.truncate_wal(round)? == WalTruncation::BlockedByReader {
            *truncate_after = round.clock().deadline(TRUNCATION_PAUSE);
        }
        Ok(())
    }

    /// Checkpoints SQLite's entire write-ahead log and truncates it.
    ///
    /// Under steady writing, further frames are always written during the checkpoint, which would let the log
    /// grow forever. So the writer is stopped for these last frames only; the frames that were checkpointed
    /// before have already been synced.
    fn truncate_wal(&self, round: &ChoreRound<'_>) -> Result<WalTruncation> {
        let conn = lock(&self.conn);
        conn.checkpoint()?;
        self.opener.sync_file()?;
        conn.checkpoint()?;
        drop(conn);
        round.dispatch().executor.truncate_wal()
    }

    /// Completes withdrawals by removing the bytes of destroyed keys from the files.
    ///
    /// A reader of an earlier snapshot only delays this until a later poll.
    fn scrub(&self, round: &ChoreRound<'_>) -> Result<()> {
        round.dispatch().shared.sealer.trees().evict();
        let pending = round.read(scrub::pending)?;
        if pending.is_empty() && !lock(&self.scrubber).needs_checkpoint() {
            return Ok(());
        }
        let Some(lead) = round.lead()? else { return Ok(()) };
        let done = if self.opener.is_sqlite() {
            if self.truncate_wal(round)? == WalTruncation::Done { pending } else { Vec::new() }
        } else {
            let now = round.clock().monotonic();
            lock(&self.scrubber).scrub(&lock(&self.conn), group_by_table(pending), now)?
        };
        if done.is_empty() {
            return Ok(());
        }
        lead.write(WorkspaceId::INSTANCE, move |cx| scrub::delete_marks(cx, &done))?;
        // On SQLite that write also went through the log. It contains no key, but the log must end up empty.
        if self.opener.is_sqlite() { self.truncate_wal(round).map(drop) } else { Ok(()) }
    }
}

/// Groups marks by the table whose rows contained the destroyed keys.
fn group_by_table(marks: Vec<ScrubMark>) -> BTreeMap<&'static str, Vec<ScrubMark>> {
    let mut tables: BTreeMap<_, Vec<ScrubMark>> = BTreeMap::new();
    marks.into_iter().for_each(|mark| tables.entry(mark.key_table).or_default().push(mark));
    tables
}
