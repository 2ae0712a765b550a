//! The health checks of the service's core.
//!
//! The checks of the process also work if the database does not respond.

use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::JoinHandle;

use tokio::sync::Semaphore;

use crate::host::delivery_slots::DeliverySlots;
use crate::host::start_checks::ReplacementReasons;
use crate::limits::{CALLS_PREPARED_MAX, FILES_READ_MAX, FILES_VERIFIED_MAX, WAITS_MAX};
use crate::op::{CheckMethod, DATABASE, Depth, Dispatch, Feature, HealthCheck, MeasureDepth};
use crate::share::{Ceiling, Quotas};
use crate::sync::lock;

/// Returns the health checks that query the database.
///
/// Such a query also shows whether the database responds.
pub(crate) fn database_checks() -> Feature {
    let part = |name, health| HealthCheck { name, health: CheckMethod::InDatabase(health), status: None };
    Feature::new()
        .part(part(DATABASE, |_| Ok(None)))
        .part(part("schema", ReplacementReasons::schema_reason))
        .part(part("keys", ReplacementReasons::key_reason))
}

/// The background threads of a service, in addition to those of its executor.
#[derive(Default)]
pub(crate) struct ServiceThreads {
    /// The thread of the scheduler, which ends before the executor.
    pub scheduler: Mutex<Option<JoinHandle<()>>>,
    /// The threads of the bus, of the timers, of notifications and of shared rate limits.
    pub other_threads: Mutex<Vec<JoinHandle<()>>>,
}

impl ServiceThreads {
    /// Returns whether any of the threads has ended. They run as long as the service.
    fn has_ended_thread(&self) -> bool {
        lock(&self.other_threads).iter().any(JoinHandle::is_finished)
            || lock(&self.scheduler).as_ref().is_some_and(JoinHandle::is_finished)
    }
}

/// The state of a service's process, which health checks can read once the service runs.
pub(crate) struct ProcessState {
    pub threads: ServiceThreads,
    dispatch: OnceLock<Weak<Dispatch>>,
    /// The slots for operations that read an uploaded file: one file at a time per workspace.
    pub read_slots: Ceiling,
    /// The slots for calls that are prepared on separate threads.
    pub prepare_slots: Ceiling,
    /// The slots for files that are checked while they are being received.
    pub check_slots: Semaphore,
    /// The slots for delivery batches, by delivery channel.
    pub delivery_slots: DeliverySlots,
}

impl Default for ProcessState {
    fn default() -> Self {
        let read_slots = Ceiling::new("files that are read", FILES_READ_MAX, Quotas::default());
        let prepare_slots = Ceiling::new("calls that are prepared", CALLS_PREPARED_MAX, Quotas::default());
        let check_slots = Semaphore::new(FILES_VERIFIED_MAX);
        let delivery_slots = DeliverySlots::default();
        let threads = ServiceThreads::default();
        let dispatch = OnceLock::new();
        Self { threads, dispatch, read_slots, prepare_slots, check_slots, delivery_slots }
    }
}

impl ProcessState {
    /// Connects the health checks to the state that requests use, once the service starts.
    pub fn connect_health_checks(&self, dispatch: &Arc<Dispatch>) {
        // This is called only once.
        let _ = self.dispatch.set(Arc::downgrade(dispatch));
    }

    /// Returns the health checks of this process, which need no database.
    pub fn health_checks(self: &Arc<Self>) -> Feature {
        let check = |check: fn(&ProcessState, &Dispatch) -> Option<String>| {
            let process = Arc::clone(self);
            CheckMethod::InProcess(Box::new(move || process.dispatch().and_then(|on| check(&process, &on))))
        };
        let depth = |depth: fn(&Dispatch) -> Depth| -> Option<MeasureDepth> {
            let process = Arc::clone(self);
            Some(Box::new(move || process.dispatch().map_or(Depth::new(0, Some(0)), |on| depth(&on))))
        };
        let process = Arc::clone(self);
        let clock =
            CheckMethod::RemarkOnly(Box::new(move || process.dispatch().and_then(|on| on.clock.warning())));
        let checked = |name, health| HealthCheck { name, health, status: None };
        let counted = |name, status| HealthCheck { name, health: CheckMethod::Unchecked, status };
        Feature::new()
            .part(checked(
                "disk",
                check(|_, on| Some(on.executor.check_writers().err()?.detail().to_owned())),
            ))
            .part(checked("bus", check(Self::thread_fault)))
            .part(checked("clock", clock))
            .part(counted("queued_writes", depth(|on| Depth::new(on.executor.queued_writes(), None))))
            .part(counted("queued_reads", depth(|on| Depth::new(on.executor.queued_reads(), None))))
            .part(counted("parked_waits", depth(|on| Depth::new(on.rounds.counts().parked, Some(WAITS_MAX)))))
    }

    fn dispatch(&self) -> Option<Arc<Dispatch>> {
        self.dispatch.get()?.upgrade()
    }

    /// Returns a description of the fault if a thread has ended or is stuck, or notifications are
    /// interrupted.
    fn thread_fault(&self, dispatch: &Dispatch) -> Option<String> {
        if self.threads.has_ended_thread() {
            return Some("a thread of the service has ended: restart the service".to_owned());
        }
        if dispatch.bus.is_stuck() {
            return Some("the thread that wakes waits is stuck: it is waiting for the database".to_owned());
        }
        dispatch
            .bus
            .has_interrupted_notifications()
            .then(|| "notifications of other servers are interrupted; polling continues".to_owned())
    }
}
