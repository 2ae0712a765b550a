//! Chores: periodic work without a request, in every process that can write.
//!
//! A chore works in short steps, so that other work can run in between. If only one process at a time should
//! do the work, that process takes a lease: a database row per chore, which expires after a few seconds. The
//! process renews the lease while there is work, and releases it at the end. If the process dies, the lease
//! expires. The scheduler decides when chores run.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use uuid::Uuid;

use crate::Result;
use crate::error::{Code, Error};
use crate::id::WorkspaceId;
use crate::op::call::caller::Surface;
use crate::op::run::Dispatch;
use crate::op::run::context::{Read, Write};
use crate::op::run::settings::Settings;
use crate::sync::lock;
use crate::time::{Clock, Monotonic, Time};

/// Maximum duration of a chore's lease. If the process with the lease dies, the chore pauses for at most this
/// duration.
pub(in crate::op) const LEASE_MAX: Duration = Duration::from_secs(15);

/// Tolerated difference between the clocks of two processes.
///
/// A lease that ends later than its full duration plus this difference from now is ignored. Otherwise, a
/// process whose clock was days ahead could stop the chore.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// The processes that run a chore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoreProcesses {
    /// Every process runs the chore, independently of other processes.
    EveryProcess,
    /// One process at a time runs the chore: the holder of the chore's lease.
    OneLeader,
}

/// The outcome of one step of a chore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The chore has no more work until its next round.
    Done,
    /// The chore has more work, and another step should run soon.
    More,
}

/// A function that runs one step of a chore.
pub type ChoreFn = Box<dyn Fn(&ChoreRound<'_>) -> Result<StepOutcome> + Send + Sync>;

/// A chore: work that the service does periodically.
pub struct Chore {
    /// Name of the chore, and of its lease.
    pub name: &'static str,
    /// Returns the interval between rounds, or `None` if the operator has disabled the chore.
    pub every: fn(&Settings) -> Option<Duration>,
    /// Duration of the chore's lease without renewal, at most 15 s.
    pub lease: Duration,
    /// The processes that run the chore.
    pub who: ChoreProcesses,
    /// Runs one step, which must take no more than one second.
    pub run: ChoreFn,
}

/// The leases that this process holds, by the name of the chore, each with its expiry time.
pub(crate) struct HeldLeases {
    holder: Uuid,
    expiry_by_chore: Mutex<BTreeMap<&'static str, Monotonic>>,
}

impl HeldLeases {
    pub fn new(holder: Uuid) -> Self {
        Self { holder, expiry_by_chore: Mutex::default() }
    }

    /// Releases all leases of this process, so that another process can continue the chores immediately.
    pub fn release(&self, dispatch: &Arc<Dispatch>) -> Result<()> {
        let now = dispatch.clock.monotonic();
        let held = std::mem::take(&mut *lock(&self.expiry_by_chore));
        if held.into_values().all(|until| until <= now) {
            return Ok(());
        }
        let holder = self.holder;
        dispatch.change_as_instance(WorkspaceId::INSTANCE, Surface::System, move |cx| {
            cx.execute_any(RELEASE_LEASES, &[&holder])
        })
    }
}

/// The context of a chore during one round of steps.
pub struct ChoreRound<'a> {
    dispatch: &'a Arc<Dispatch>,
    chore: &'a Chore,
    leases: &'a HeldLeases,
    /// Remaining time of another process's lease, or `None` if this round has not found such a lease.
    busy: Cell<Option<Duration>>,
}

/// The outcome of an attempt to acquire the lease of a chore.
enum LeaseAttempt {
    Acquired,
    /// Another process holds the lease, which ends after at most this duration.
    Busy(Duration),
}

impl<'a> ChoreRound<'a> {
    pub(crate) fn new(dispatch: &'a Arc<Dispatch>, chore: &'a Chore, leases: &'a HeldLeases) -> Self {
        Self { dispatch, chore, leases, busy: Cell::new(None) }
    }

    /// Runs one step of the chore.
    pub(crate) fn step(&self) -> Result<StepOutcome> {
        (self.chore.run)(self)
    }

    /// Returns the remaining time of another process's lease, if this round has found one.
    pub(crate) fn busy(&self) -> Option<Duration> {
        self.busy.get()
    }

    /// Returns the service's clock.
    pub fn clock(&self) -> &Clock {
        &self.dispatch.clock
    }

    pub(crate) fn dispatch(&self) -> &Dispatch {
        self.dispatch
    }

    /// Runs a read as the service itself, to check whether the chore has work.
    pub fn read<T: Send + 'static>(
        &self,
        run: impl FnMut(&Read<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.dispatch.read_as_instance(run)
    }

    /// Acquires the lease of the chore, or returns `None` if another process holds that lease.
    ///
    /// Call this only after a read has found work, so that idle processes write nothing.
    pub fn lead(&self) -> Result<Option<ChoreLease<'_, 'a>>> {
        if self.chore.who == ChoreProcesses::OneLeader
            && let LeaseAttempt::Busy(span) = self.take_lease()?
        {
            self.busy.set(Some(span));
            return Ok(None);
        }
        Ok(Some(ChoreLease { round: self }))
    }

    /// Acquires or extends the lease of this chore for this process.
    fn take_lease(&self) -> Result<LeaseAttempt> {
        let name = self.chore.name;
        let lease = self.chore.lease;
        let holder = self.leases.holder;
        let began = self.clock().monotonic();
        let run = move |cx: &mut Write<'_>| take_lease_of(cx, name, lease, holder);
        let taken = self.dispatch.change_as_instance(WorkspaceId::INSTANCE, Surface::System, run)?;
        match taken {
            LeaseAttempt::Acquired => {
                lock(&self.leases.expiry_by_chore).insert(name, began.plus(lease));
            }
            LeaseAttempt::Busy(_) => {
                lock(&self.leases.expiry_by_chore).remove(name);
            }
        }
        Ok(taken)
    }
}

/// The right of this process to run a chore now.
pub struct ChoreLease<'r, 'a> {
    round: &'r ChoreRound<'a>,
}

impl ChoreLease<'_, '_> {
    /// Runs a change in `workspace` as the service itself.
    ///
    /// Renews the lease first if at most two thirds of its duration remain, and fails with 503 `unavailable`
    /// if another process has acquired the lease. Fails with 404 `not-found` if the workspace is no longer
    /// live: it may have been erased since the work was found, and no event may follow the end of its log.
    pub fn write<T: Send + 'static>(
        &self,
        workspace: WorkspaceId,
        mut run: impl FnMut(&mut Write<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.renew()?;
        self.round.dispatch.change_as_instance(workspace, Surface::System, move |cx| {
            check_workspace_live(cx, workspace)?;
            run(cx)
        })
    }

    /// Renews the lease if at most two thirds of its duration remain.
    fn renew(&self) -> Result<()> {
        let round = self.round;
        let chore = self.round.chore;
        if chore.who == ChoreProcesses::EveryProcess {
            return Ok(());
        }
        let until = lock(&round.leases.expiry_by_chore).get(chore.name).copied().unwrap_or_default();
        if round.clock().remaining(until) > chore.lease / 3 * 2 {
            return Ok(());
        }
        match round.take_lease()? {
            LeaseAttempt::Acquired => Ok(()),
            LeaseAttempt::Busy(span) => {
                round.busy.set(Some(span));
                Err(Error::new(Code::Unavailable, "another process runs this chore now"))
            }
        }
    }
}

/// Acquires the lease of the chore `name` for the process `holder`, or extends the lease that the process
/// holds.
fn take_lease_of(
    cx: &mut Write<'_>,
    name: &'static str,
    lease: Duration,
    holder: Uuid,
) -> Result<LeaseAttempt> {
    let now = cx.now();
    let too_late = now.plus(lease).plus(CLOCK_TOLERANCE);
    if cx.change(TAKE_LEASE, &[&name, &holder, &now.plus(lease), &now, &too_late])? == 1 {
        return Ok(LeaseAttempt::Acquired);
    }
    let until: Option<(Time,)> = cx.one(LEASE_END, &[&name])?;
    Ok(LeaseAttempt::Busy(until.map_or(Duration::ZERO, |(until,)| until.since(now))))
}

/// Fails with 404 `not-found` if a workspace is not live. The instance is always live.
fn check_workspace_live(cx: &Read<'_>, workspace: WorkspaceId) -> Result<()> {
    if workspace == WorkspaceId::INSTANCE
        || cx.one::<(WorkspaceId,)>(LIVE_WORKSPACE, &[&workspace])?.is_some()
    {
        return Ok(());
    }
    Err(Error::not_found("workspace"))
}

const LIVE_WORKSPACE: &str = "select id from workspaces where id = $1 and state = 'live'";

const TAKE_LEASE: &str = "
    insert into leases (name, holder, until) values ($1, $2, $3)
    on conflict (name) do update set holder = excluded.holder, until = excluded.until
        where leases.holder = excluded.holder or leases.until <= $4 or leases.until > $5";

const LEASE_END: &str = "select until from leases where name = $1";

const RELEASE_LEASES: &str = "delete from leases where holder = $1";
