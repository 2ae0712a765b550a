//! Checks whether the callers of waits may still wait.
//!
//! Every few seconds, one statement reads the epochs of the workspaces that have waits. A caller is looked up
//! again if it was last looked up in another epoch, or if its credential has expired since. So a wait whose
//! credential has ended is rejected even if no awaited event arrives.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::ParkedWait;
use crate::error::Result;
use crate::id::WorkspaceId;
use crate::log::bus::{LogEnd, heads};
use crate::log::cache::{Epochs, ReaderCache};
use crate::op::run::Dispatch;
use crate::store::executor::{ReadTask, Reader, Task, TaskSource};
use crate::sync::lock;

/// Interval at which the epochs are read.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The parked waits whose callers are checked, by the workspaces of the callers.
#[derive(Default)]
pub(super) struct WaitCallers {
    parked: HashMap<WorkspaceId, HashMap<u64, Weak<ParkedWait>>>,
    /// Whether the next check is scheduled.
    is_check_scheduled: bool,
}

/// Adds a parked wait, so that its caller is checked.
pub(super) fn add(dispatch: &Arc<Dispatch>, workspace: WorkspaceId, number: u64, parked: Weak<ParkedWait>) {
    let mut callers = lock(dispatch.rounds.callers());
    callers.parked.entry(workspace).or_default().insert(number, parked);
    let is_scheduled = std::mem::replace(&mut callers.is_check_scheduled, true);
    drop(callers);
    if !is_scheduled {
        schedule_check(dispatch);
    }
}

/// Removes a wait that has ended, so that its caller is no longer checked.
pub(super) fn remove(dispatch: &Arc<Dispatch>, workspace: WorkspaceId, number: u64) {
    let mut callers = lock(dispatch.rounds.callers());
    let Some(here) = callers.parked.get_mut(&workspace) else { return };
    here.remove(&number);
    if here.is_empty() {
        callers.parked.remove(&workspace);
    }
}

fn schedule_check(dispatch: &Arc<Dispatch>) {
    let weak = Arc::downgrade(dispatch);
    dispatch.timers.after(CHECK_INTERVAL, move || {
        let Some(dispatch) = weak.upgrade() else { return };
        let mut callers = lock(dispatch.rounds.callers());
        let workspaces: Vec<WorkspaceId> = callers.parked.keys().copied().collect();
        callers.is_check_scheduled = !workspaces.is_empty();
        drop(callers);
        if !workspaces.is_empty() {
            let look = EpochRead { dispatch: Arc::clone(&dispatch), workspaces, heads: Vec::new() };
            dispatch.executor.read(Box::new(look), false);
        }
    });
}

/// A task that reads the current epochs of the workspaces with parked waits.
struct EpochRead {
    dispatch: Arc<Dispatch>,
    workspaces: Vec<WorkspaceId>,
    heads: Vec<LogEnd>,
}

impl EpochRead {
    /// Polls each wait whose caller was last looked up in another epoch or has expired, so that the caller is
    /// looked up again.
    fn recheck_callers(&self) {
        for workspace in &self.workspaces {
            let here = lock(self.dispatch.rounds.callers()).parked.get(workspace).cloned();
            let head = self.heads.iter().find(|head| head.workspace == *workspace);
            let epoch = head.map_or(Epochs::WITHOUT_LOG.access, |head| head.epoch);
            let now = self.dispatch.clock.now();
            let parked = here.into_iter().flat_map(HashMap::into_values);
            parked.filter_map(|parked| parked.upgrade()).for_each(|parked| parked.recheck_caller(epoch, now));
        }
    }
}

impl Task for EpochRead {
    fn source(&self) -> TaskSource {
        TaskSource::SERVICE
    }

    fn bytes(&self) -> usize {
        self.workspaces.len().saturating_mul(size_of::<LogEnd>())
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        // Epochs that could not be read are read at the next check.
        if outcome.is_ok() {
            self.recheck_callers();
        }
        schedule_check(&self.dispatch);
    }
}

impl ReadTask<ReaderCache> for EpochRead {
    fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        self.heads = heads(&reader.conn, &self.dispatch.clock, &self.workspaces)?;
        Ok(())
    }
}
