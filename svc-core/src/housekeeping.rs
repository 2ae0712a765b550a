//! What is done from time to time in every process that can write: SQLite's log is moved into the file, most of
//! it beside the writer, destroyed keys are scrubbed, lapsed claims are ended. What only one process should do is done
//! by whoever holds the lease row of that work.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use uuid::Uuid;

use crate::conversation::messages::keys;
use crate::conversation::scrub::{self, Asked};
use crate::coordination::reaper;
use crate::error::{Error, Result};
use crate::id::{MessageId, ThreadId, WorkspaceId};
use crate::limits::REAP_MAX;
use crate::op::{Dispatch, Surface, Write};
use crate::opening::Outdated;
use crate::store::scrubber::Scrubber;
use crate::store::{Conn, Opener};
use crate::sync::{Monitor, lock};
use crate::time::Monotonic;

/// How often the log's size and pending scrubs are looked at.
const PULSE: Duration = Duration::from_millis(500);
/// How often clients that have been quiet are dropped from the rate limits, and the schema and the keys in use are
/// read again.
const TIDY: Duration = Duration::from_secs(60);
/// A SQLite log larger than this is moved into the file, beside the writer.
const LOG_BYTES: u64 = 32 * 1024 * 1024;
/// A SQLite log larger than this is cut, for which the writer has to stand still.
const LOG_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How long SQLite's log is left alone after a reader held it back, because each try makes the writer wait.
const HELD_BACK: Duration = Duration::from_secs(5);
/// How long a pulse moves old keys, about: others have their turn in between.
const OLD_KEYS_SPAN: Duration = Duration::from_millis(250);
/// How long a lease on periodic work lasts; longer than any round.
const LEASE: Duration = Duration::from_secs(60);

/// The one who keeps house in this process.
pub(crate) struct Housekeeper {
    dispatch: Arc<Dispatch>,
    opener: Opener,
    conn: Mutex<Conn>,
    /// A log that somebody held back is left alone until then.
    cut_after: Mutex<Monotonic>,
    scrubber: Mutex<Scrubber<Asked>>,
    /// How far this process has moved old keys; none when there are no more.
    old_keys: Mutex<Option<Option<MessageId>>>,
    holder: Uuid,
    closing: Arc<Monitor<bool>>,
}

impl Housekeeper {
    pub fn new(dispatch: Arc<Dispatch>, opener: Opener) -> Result<Self> {
        let conn = Mutex::new(opener.writer()?);
        let holder = dispatch.ambient.entropy.id::<WorkspaceId>(dispatch.clock.now())?.uuid();
        let cut_after = Mutex::new(dispatch.clock.monotonic());
        let closing = Monitor::new(&dispatch.clock, false);
        Ok(Self {
            dispatch,
            opener,
            conn,
            cut_after,
            scrubber: Mutex::default(),
            old_keys: Mutex::new(Some(None)),
            holder,
            closing,
        })
    }

    /// Starts the thread. Without a `reap_tick` claims are left to other processes, or lapse unreaped.
    pub fn start(keeper: &Arc<Self>, reap_tick: Option<Duration>) -> Result<JoinHandle<()>> {
        let keeper = Arc::clone(keeper);
        let body = move || keeper.serve(reap_tick);
        std::thread::Builder::new().name("svc-housekeeper".to_owned()).spawn(body).map_err(Error::internal)
    }

    pub fn close(&self) {
        *self.closing.lock() = true;
        self.closing.notify();
    }

    fn serve(&self, reap_tick: Option<Duration>) {
        let clock = &self.dispatch.clock;
        let mut next_reap = clock.monotonic();
        let mut next_tidy = clock.deadline(TIDY);
        while !self.pause() {
            self.note("checkpoint", self.checkpoint());
            self.note("old keys", self.move_old_keys());
            self.note("scrub", self.scrub());
            if let Some(tick) = reap_tick
                && clock.monotonic() >= next_reap
            {
                self.note("reaper", self.reap());
                next_reap = clock.deadline(tick);
            }
            if clock.monotonic() >= next_tidy {
                self.dispatch.limits.tidy();
                self.note(
                    "schema",
                    self.dispatch.look_as_instance(Outdated::of).map(|outdated| outdated.warn()),
                );
                next_tidy = clock.deadline(TIDY);
            }
        }
    }

    /// Waits for the next pulse; true when closing.
    fn pause(&self) -> bool {
        let clock = self.closing.clock();
        let pulse = clock.deadline(PULSE);
        let mut closing = self.closing.lock();
        while !*closing && !clock.remaining(pulse).is_zero() {
            closing = self.closing.wait(closing, Some(pulse));
        }
        *closing
    }

    fn note(&self, work: &'static str, outcome: Result<()>) {
        if let Err(error) = outcome {
            tracing::warn!(work, %error, cause = ?error.cause(), "housekeeping failed and will be repeated");
        }
    }

    /// Everything that is due, at once.
    pub fn round(&self) -> Result<()> {
        self.checkpoint()?;
        self.move_old_keys()?;
        self.scrub()?;
        self.reap()
    }

    fn checkpoint(&self) -> Result<()> {
        let bytes = self.opener.log_bytes();
        if bytes <= LOG_BYTES {
            return Ok(());
        }
        lock(&self.conn).checkpoint()?;
        let mut cut_after = lock(&self.cut_after);
        if bytes <= LOG_BYTES_MAX || self.dispatch.clock.monotonic() < *cut_after {
            return Ok(());
        }
        // Under steady writing there is always a rest that was written meanwhile, with which the log would grow for
        // ever. The writer stands still for that rest alone.
        self.opener.sync_file()?;
        lock(&self.conn).checkpoint()?;
        if !self.dispatch.executor.cut_log()? {
            *cut_after = self.dispatch.clock.deadline(HELD_BACK);
        }
        Ok(())
    }

    /// Finishes withdrawals: removes the bytes of destroyed keys from the files. Somebody who looks at an earlier moment
    /// only delays it to a later pulse.
    fn scrub(&self) -> Result<()> {
        self.dispatch.ambient.sealer.trees().evict();
        let pending = self.dispatch.look_as_instance(scrub::pending)?;
        if pending.is_empty() && !lock(&self.scrubber).owes_checkpoint() {
            return Ok(());
        }
        if !self.lead("scrub")? {
            return Ok(());
        }
        let done = if self.opener.is_sqlite() {
            if self.dispatch.executor.cut_log()? { pending } else { Vec::new() }
        } else {
            let now = self.dispatch.clock.monotonic();
            lock(&self.scrubber).scrub(&lock(&self.conn), by_table(pending), now)?
        };
        if done.is_empty() {
            return Ok(());
        }
        self.system(WorkspaceId::INSTANCE, move |cx| scrub::finished(cx, &done))?;
        // On SQLite that note went through the log too; it holds no key, but an empty log is what was promised.
        self.dispatch.executor.cut_log().map(drop)
    }

    /// Moves keys that were wrapped before there were shelves.
    fn move_old_keys(&self) -> Result<()> {
        let Some(mut after) = *lock(&self.old_keys) else { return Ok(()) };
        let clock = &self.dispatch.clock;
        let deadline = clock.deadline(OLD_KEYS_SPAN);
        loop {
            let Some(range) = self.dispatch.look_as_instance(move |cx| keys::next_range(cx, after))? else {
                *lock(&self.old_keys) = None;
                return Ok(());
            };
            if !self.lead("old-keys")? {
                return Ok(());
            }
            let range = Arc::new(range);
            for workspace in range.workspaces.clone() {
                let range = Arc::clone(&range);
                // What cannot be moved stays readable where it is, and holds up nobody else's.
                self.note("old keys", self.system(workspace, move |cx| keys::move_range(cx, &range)));
            }
            after = Some(range.last);
            *lock(&self.old_keys) = Some(after);
            if clock.remaining(deadline).is_zero() {
                return Ok(());
            }
        }
    }

    /// Ends lapsed claims, if this process is the one to do so.
    fn reap(&self) -> Result<()> {
        let due = self.dispatch.look_as_instance(|cx| reaper::due(cx, REAP_MAX))?;
        if due.is_empty() || !self.lead("reaper")? {
            return Ok(());
        }
        for part in due.chunk_by(|(a, _), (b, _)| a == b) {
            let Some((workspace, _)) = part.first().copied() else { continue };
            let threads: Vec<ThreadId> = part.iter().map(|(_, thread)| *thread).collect();
            self.system(workspace, move |cx| reaper::reap(cx, &threads))?;
        }
        Ok(())
    }

    fn system<T: Send + 'static>(
        &self,
        workspace: WorkspaceId,
        run: impl FnMut(&mut Write<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.dispatch.as_instance(workspace, Surface::System, run)
    }

    /// Takes or keeps the lease row `name`.
    fn lead(&self, name: &'static str) -> Result<bool> {
        let holder = self.holder;
        self.dispatch
            .as_instance(WorkspaceId::INSTANCE, Surface::System, move |cx| take_lease(cx, name, holder))
    }
}

fn by_table(marks: Vec<Asked>) -> BTreeMap<&'static str, Vec<Asked>> {
    let mut tables: BTreeMap<_, Vec<Asked>> = BTreeMap::new();
    marks.into_iter().for_each(|mark| tables.entry(mark.key_table).or_default().push(mark));
    tables
}

fn take_lease(cx: &mut Write<'_>, name: &'static str, holder: Uuid) -> Result<bool> {
    let (now, until) = (cx.now(), cx.now().plus(LEASE));
    let taken = cx.change(
        "insert into leases (name, holder, until) values ($1, $2, $3)
         on conflict (name) do update set holder = excluded.holder, until = excluded.until
             where leases.holder = excluded.holder or leases.until <= $4",
        &[&name, &holder, &until, &now],
    )?;
    Ok(taken == 1)
}
