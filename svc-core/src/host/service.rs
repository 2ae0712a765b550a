//! The service: opens the database, starts the core threads, and accepts requests.
//!
//! This module is part of the composition root: it connects modules and contains no rules.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, ThreadId, available_parallelism};
use std::time::Duration;

use secrecy::ExposeSecret;
use zeroize::Zeroizing;

use tokio::time::timeout;

use crate::config::Config;
use crate::data_dir;
use crate::entropy::Entropy;
use crate::error::{Code, Error, Result};
use crate::host::calls::Calls;
use crate::host::core_health::ProcessState;
use crate::host::features;
use crate::host::housekeeping::Maintenance;
use crate::host::keeper::ClaimKeeper;
use crate::host::scheduler::Scheduler;
use crate::host::shared_limits;
use crate::host::start_checks;
use crate::host::task_yield::yield_to_ready_tasks;
use crate::limits::FILES_READ_WAIT;
use crate::log::batch::Batch;
use crate::log::bus::Bus;
use crate::log::seal::Sealer;
use crate::log::signed_note::{NoteSigner, PublicKey, known_keys};
use crate::op::{
    Admission, AdmissionFailure, Dispatch, Feature, Gauges, HealthResult, Input, MailSettings, Operation,
    Reply, Request, RequestHandle, RequestHead, RunOn, SessionKey, Settings, SharedState, Table, WaitCounts,
};
use crate::rate::{RateLimits, RateSettings};
use crate::share::Ceiling;
use crate::spool::SpoolFolder;
use crate::store::budget::interrupted_error;
use crate::store::executor::Executor;
use crate::store::refusal::refusal;
use crate::store::{Database, OpenMode, Opener, StatementCounts, Watcher};
use crate::stream::resource_subscriptions::ResourceSubscriptions;
use crate::stream::subscriptions::{BegunSubscription, Subscription, Subscriptions};
use crate::sync::{join, lock};
use crate::time::{Clock, Monotonic, Time};

/// The options for opening a service.
pub struct ServiceOptions {
    /// The location of the database.
    pub database: Database,
    /// Whether opening may create the database.
    pub mode: OpenMode,
    /// The current key-encryption key, with which new keys are wrapped.
    pub kek: [u8; 32],
    /// Retired key-encryption keys, which can still unwrap keys.
    pub retired_keks: Vec<[u8; 32]>,
    /// The settings that functions read.
    pub settings: Settings,
    /// Rate limits per client and per workspace.
    pub rates: RateSettings,
    /// Time limit of a read. `None` means no limit. Long reads have a separate limit.
    pub read_budget: Option<Duration>,
    /// Interval between rounds of the claim reaper. If `None`, the reaper runs only in
    /// [`Service::housekeep`].
    pub reap_tick: Option<Duration>,
    /// Interval between two polls of the logs on Postgres, for events whose notification was lost.
    pub delivery_reconcile: Duration,
    /// The source of time.
    pub clock: Clock,
    /// The source of ids and secrets.
    pub entropy: Entropy,
    /// The key that signs session cookies. Without it, no browser can sign in.
    pub session_key: Option<SessionKey>,
    /// Whether this process runs chores, such as ending lapsed claims.
    pub chores: bool,
    /// Additional features beyond the built-in ones.
    pub features: Vec<Feature>,
    /// Folder to remove when the service is closed.
    pub folder: Option<tempfile::TempDir>,
    /// Function that is called with every statement of an operation, for tests of statement costs.
    pub watcher: Option<Watcher>,
}

impl ServiceOptions {
    /// Returns the default options for an existing database and a key-encryption key.
    pub fn new(database: Database, kek: [u8; 32]) -> Self {
        Self {
            database,
            mode: OpenMode::Existing,
            kek,
            retired_keks: Vec::new(),
            settings: Settings::default(),
            rates: RateSettings::default(),
            read_budget: Some(Duration::from_millis(crate::limits::READ_BUDGET_MS.unsigned_abs())),
            reap_tick: Some(Duration::from_secs(crate::limits::REAP_TICK_SECS.unsigned_abs())),
            delivery_reconcile: Duration::from_millis(crate::limits::DELIVERY_RECONCILE_MS.unsigned_abs()),
            clock: Clock::system(),
            entropy: Entropy::System,
            session_key: None,
            chores: true,
            features: Vec::new(),
            folder: None,
            watcher: None,
        }
    }

    /// Returns the options from a configuration. Fails if it contains no key-encryption key.
    pub fn from_config(config: &Config) -> Result<Self> {
        let keys = config.content_keys()?;
        let count = |limit: Option<NonZeroU32>| limit.map_or(0, |limit| i64::from(limit.get()));
        Ok(Self {
            retired_keks: keys.previous.iter().map(|key| *key.expose_secret()).collect(),
            settings: Settings {
                lease_default: config.lease_default,
                ack_timeout: config.ack_timeout,
                vapid_public_key: config.push.as_ref().map(|push| push.key.public().to_owned()),
                egress: config.egress,
                delivery_stability: config.delivery_stability,
                import_max_bytes: config.import_max_bytes,
                import_workspaces: config.import_workspaces,
                signer: NoteSigner::configured(&config.export_keys),
                known_keys: known_keys(&config.export_keys),
                spools: SpoolFolder::new(data_dir::spool_folder(&config.data_dir), config.spool_limits),
                kept: config.kept,
                retention_tick: config.retention_tick,
                land_advice: config.land_advice,
                session_ttl: config.session_ttl,
                first_admin: config.first_admin,
                oidc_link_email: config.oidc_link_email,
                oidc_auto_provision: config.oidc_auto_provision,
                public_url: config.public_url.as_ref().map(ToString::to_string),
                mail: MailSettings::configured(config),
                ..Settings::default()
            },
            rates: RateSettings {
                per_client: count(config.rate_limit),
                per_workspace: count(config.workspace_rate_limit),
                window: config.rate_limit_window,
            },
            read_budget: config.read_budget,
            reap_tick: config.reap_tick,
            delivery_reconcile: config.delivery_reconcile,
            session_key: config.session_secret.as_ref().map(SessionKey::new).transpose()?,
            ..Self::new(configured_database(config)?, *keys.current.expose_secret())
        })
    }
}

/// Returns the configured database.
///
/// In production, the URL of a database on another machine must specify whether connections use TLS.
fn configured_database(config: &Config) -> Result<Database> {
    if config.production && config.needs_tls_settings() {
        return Err(Error::configuration(
            "DATABASE_URL names another machine and has no sslmode: in production it needs one, best \
             verify-full with sslrootcert",
        ));
    }
    Ok(Database::at(config.database_url.clone(), &config.data_dir))
}

/// A running service. Clones share the service; dropping the last clone closes it.
#[derive(Clone)]
pub struct Service {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Service")
    }
}

/// The last health results from the database, and the time of the check.
pub(super) type LastHealth = tokio::sync::Mutex<Option<(Monotonic, Vec<HealthResult>)>>;

struct Inner {
    dispatch: Arc<Dispatch>,
    subscriptions: Subscriptions,
    scheduler: Arc<Scheduler>,
    process: Arc<ProcessState>,
    health: LastHealth,
    /// The calls of the program in whose process the service runs.
    calls: Calls,
    /// The claims that the program holds.
    keeper: ClaimKeeper,
    /// The folder of a service in memory, until the service is closed.
    folder: Mutex<Option<tempfile::TempDir>>,
}

impl Service {
    /// Opens the database, migrates its schema to this version and starts the core threads.
    ///
    /// Before it writes anything, rejects a database that was not set up, or that was used with keys which
    /// are not configured.
    pub fn with_options(options: ServiceOptions) -> Result<Self> {
        let database = options.database.clone();
        Self::start(options).map_err(|error| refusal(error, &database))
    }

    fn start(options: ServiceOptions) -> Result<Self> {
        let mut features = features::features();
        features.extend(options.features);
        let opener = Opener::new(&options.database)?.with_clock(options.clock.clone());
        let sealer = Sealer::new(options.kek, &options.retired_keks, options.entropy.clone())
            .with_clock(options.clock.clone());
        start_checks::prepare_database(&opener, options.mode, &sealer, options.clock.now())?;
        start_checks::check_clock(&opener, &options.clock)?;
        features.push(Maintenance::feature(opener.clone(), &options.clock)?);
        let process = Arc::new(ProcessState::default());
        features.push(process.health_checks());
        let bus = Arc::new(Bus::new(&options.clock, options.delivery_reconcile));
        let (lanes, readers) = {
            let cores = available_parallelism().map_or(1, NonZeroUsize::get);
            start_checks::connection_counts(&opener, cores, options.read_budget)
        };
        let states = (0..lanes).map(|_| Batch::new(options.clock.clone(), Arc::clone(&bus))).collect();
        let executor = Executor::start(
            states,
            readers,
            &options.clock,
            &opener.connection_openers(options.watcher.as_ref()),
        )?;
        let shared = SharedState {
            entropy: options.entropy,
            sealer,
            session_key: options.session_key,
            settings: Settings { reap_tick: options.reap_tick, ..options.settings },
            table: Arc::new(Table::build(features)?),
            gauges: Gauges::default(),
        };
        let limits = RateLimits::new(options.rates, &options.clock, !opener.is_sqlite());
        let dispatch = Arc::new(Dispatch::new(shared, limits, options.clock, executor, bus));
        process.connect_health_checks(&dispatch);
        let scheduler = Scheduler::new(Arc::clone(&dispatch))?;
        let mut threads = vec![start_bus_thread(&dispatch, &opener)?, start_timers_thread(&dispatch)?];
        threads.extend(opener.listen(Arc::clone(&dispatch.bus))?);
        threads.extend(shared_limits::start_sharing_thread(&dispatch, &opener)?);
        if options.chores {
            *lock(&process.threads.scheduler) = Some(Scheduler::start(&scheduler)?);
        }
        *lock(&process.threads.other_threads) = threads;
        let subscriptions = Subscriptions::default();
        let health = LastHealth::default();
        let calls = Calls::default();
        let keeper = ClaimKeeper::new(&dispatch.clock);
        let folder = Mutex::new(options.folder);
        Ok(Self {
            inner: Arc::new(Inner {
                dispatch,
                subscriptions,
                scheduler,
                process,
                health,
                calls,
                keeper,
                folder,
            }),
        })
    }

    /// Returns the last health results from the database.
    pub(super) fn last_health(&self) -> &LastHealth {
        &self.inner.health
    }

    /// Returns the state of the process that health checks read, with the slots of its limited resources.
    pub(super) fn process(&self) -> &ProcessState {
        &self.inner.process
    }

    /// Returns the operation table.
    pub fn table(&self) -> &Table {
        &self.inner.dispatch.table
    }

    /// Returns the public key for checkpoint signatures, if checkpoints are signed.
    pub fn export_key(&self) -> Option<PublicKey> {
        self.inner.dispatch.shared.settings.signer.as_ref().map(NoteSigner::public)
    }

    /// Returns the key that signs session cookies, if browsers can sign in.
    pub fn session_key(&self) -> Option<&SessionKey> {
        self.inner.dispatch.shared.session_key.as_ref()
    }

    /// Returns the keys for `label`, with which a shell seals data that clients send back.
    ///
    /// The first key seals; every key unseals.
    pub fn derive_keys(&self, label: &'static str) -> Result<Vec<Zeroizing<[u8; 32]>>> {
        self.inner.dispatch.shared.sealer.derived(label)
    }

    /// Returns the current time of the service's clock.
    pub fn now(&self) -> Time {
        self.inner.dispatch.clock.now()
    }

    /// Returns the operation named `name`. Fails with 404 if it does not exist.
    pub fn operation(&self, name: &str) -> Result<&Arc<Operation>> {
        self.table().operation(name).ok_or_else(|| Error::not_found("operation"))
    }

    /// Admits a request by its head alone, before its body is read.
    ///
    /// The request is counted. Fails if the credential is missing, has ended, or lacks the rights that
    /// `operation` needs. Without an operation, any live credential is enough.
    pub async fn admit(
        &self,
        operation: Option<&Operation>,
        head: RequestHead,
    ) -> std::result::Result<Admission, AdmissionFailure> {
        let admit = |done: Box<dyn FnOnce(Result<_>) + Send>| {
            let done = Box::new(move |outcome| done(Ok(outcome)));
            self.dispatch().admit(operation, head, RunOn::Batched, done)
        };
        await_reply(admit).await?
    }

    /// Runs an operation for an admitted request. Dropping the future abandons a wait.
    pub async fn run(
        &self,
        operation: &Arc<Operation>,
        admission: Admission,
        input: &Input,
    ) -> Result<Reply> {
        let process = self.process();
        if operation.http().takes_file {
            return self.run_on_blocking_thread(&process.read_slots, operation, admission, input).await;
        }
        if operation.run.slow_to_prepare {
            return self.run_on_blocking_thread(&process.prepare_slots, operation, admission, input).await;
        }
        await_reply(|done| self.dispatch().start(operation, admission, input, RunOn::Batched, done)).await
    }

    /// Runs an operation on a thread that may block, because it reads a file or prepares a long call.
    ///
    /// The work needs no database. Workspaces take turns, regardless of the transport, and each has a share
    /// of these slots.
    async fn run_on_blocking_thread(
        &self,
        slots: &Ceiling,
        operation: &Arc<Operation>,
        admission: Admission,
        input: &Input,
    ) -> Result<Reply> {
        let _slot = match admission.holder() {
            None => None,
            Some(holder) => match timeout(FILES_READ_WAIT, slots.wait(holder, 1)).await {
                Ok(slot) => Some(slot?),
                Err(_) => return Err(slots.exhausted(holder, 1)),
            },
        };
        let service = self.clone();
        let operation = Arc::clone(operation);
        let input = input.clone();
        let running = tokio::task::spawn_blocking(move || {
            block_on_reply(|done| service.dispatch().start(&operation, admission, &input, RunOn::Pool, done))
        });
        running.await.map_err(Error::internal)?
    }

    /// Calls an operation from asynchronous code. Dropping the future abandons a wait.
    pub async fn ask(&self, operation: &Arc<Operation>, request: Request) -> Result<Reply> {
        let admission = self.admit(Some(operation), request.head).await?;
        self.run(operation, admission, &request.input).await
    }

    /// Calls an operation and blocks until it is done. Runs on this thread if the core is idle.
    pub fn call(&self, operation: &Arc<Operation>, request: Request) -> Result<Reply> {
        let admission = self.admit_blocking(operation, request.head)?;
        block_on_reply(|done| {
            self.dispatch().start(operation, admission, &request.input, RunOn::Caller, done)
        })
    }

    /// Submits a request. The core calls `done` once with the reply, on this thread or on a core thread.
    ///
    /// `done` is never called if the handle of a wait is dropped first. It must only pass the reply on.
    /// Blocks on the database if the credential is not cached.
    pub fn submit(
        &self,
        operation: &Arc<Operation>,
        request: Request,
        done: impl FnOnce(Result<Reply>) + Send + 'static,
    ) -> RequestHandle {
        let done = Box::new(done);
        match self.admit_blocking(operation, request.head) {
            Ok(admission) => self.dispatch().start(operation, admission, &request.input, RunOn::Pool, done),
            Err(error) => {
                done(Err(error));
                RequestHandle::default()
            }
        }
    }

    /// Admits a request as [`Service::admit`] does, and blocks until that is decided.
    pub(super) fn admit_blocking(&self, operation: &Operation, head: RequestHead) -> Result<Admission> {
        block_on_reply(|done| {
            let done = Box::new(move |outcome: std::result::Result<_, AdmissionFailure>| {
                done(outcome.map_err(Error::from));
            });
            self.dispatch().admit(Some(operation), head, RunOn::Caller, done)
        })
    }

    /// Counts a request for something other than an operation, such as a document, against the rate limits.
    ///
    /// The request counts against the bearer of a live token, otherwise against the peer address.
    pub async fn count(&self, head: RequestHead) -> Result<()> {
        match self.admit(None, head).await {
            // Public resources need no credential.
            Err(error) if error.code() == Code::Unauthenticated => Ok(()),
            admitted => Ok(admitted.map(drop)?),
        }
    }

    /// Begins a subscription for an admitted caller. The caller needs the rights for `wait_for_event`.
    ///
    /// Fails with 409 `must_refetch` if the log lacks the events after the position.
    pub async fn subscribe(
        &self,
        admission: Admission,
        subscription: Subscription,
    ) -> Result<BegunSubscription> {
        self.inner.subscriptions.begin(self.dispatch(), admission, subscription).await
    }

    /// Returns the resource subscriptions of tokens, which outlive a request.
    pub fn resource_subscriptions(&self) -> ResourceSubscriptions<'_> {
        ResourceSubscriptions(self.dispatch())
    }

    /// Returns the gauges of the service. Each shell that serves the service adds the depths of its bounded
    /// resources.
    pub fn gauges(&self) -> &Gauges {
        &self.inner.dispatch.shared.gauges
    }

    /// Runs every periodic chore immediately.
    ///
    /// Chores end lapsed claims and remove destroyed keys, for example. A chore that another process leads is
    /// left to that process. If a chore fails, the error is returned after all other chores have had their
    /// turn.
    pub fn housekeep(&self) -> Result<()> {
        self.inner.scheduler.run_all_chores()
    }

    /// Returns the number of parked waits.
    ///
    /// Parked waits have no result yet, and hold no thread and no connection.
    pub fn parked_waits(&self) -> usize {
        self.wait_counts().parked
    }

    /// Returns the numbers of waits and of their polls.
    pub fn wait_counts(&self) -> WaitCounts {
        self.inner.dispatch.rounds.counts()
    }

    /// Returns how often SQLite had to compile statements.
    pub fn statement_counts(&self) -> StatementCounts {
        self.inner.dispatch.executor.statement_counts()
    }

    /// Returns the settings that determine the durability of commits, one text per writer connection.
    pub fn durability(&self) -> Result<Vec<String>> {
        self.inner.dispatch.executor.durability()
    }

    pub(crate) fn dispatch(&self) -> &Arc<Dispatch> {
        &self.inner.dispatch
    }

    /// Returns the calls of the program in whose process the service runs.
    pub(crate) fn calls(&self) -> &Calls {
        &self.inner.calls
    }

    /// Returns the claims that the program holds.
    pub(crate) fn keeper(&self) -> &ClaimKeeper {
        &self.inner.keeper
    }

    /// Stops the threads of the service, after which every request fails.
    ///
    /// `caller` is the thread that waits for this. Fails if a claim was not released, or a thread has
    /// panicked.
    pub(crate) fn shut_down(&self, caller: ThreadId) -> Result<()> {
        self.inner.shut_down(caller)
    }
}

/// Awaits the outcome of a request that `start` submits to the core.
pub(super) async fn await_reply<T: Send + 'static>(
    start: impl FnOnce(Box<dyn FnOnce(Result<T>) + Send>) -> RequestHandle,
) -> Result<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let mut handle = start(Box::new(move |outcome| {
        // If the caller has stopped waiting, the outcome has no receiver.
        let _ = sender.send(outcome);
    }));
    if handle.flushes_after_others() {
        yield_to_ready_tasks().await;
    }
    handle.flush();
    // The core drops a request without a reply only if the service shuts down.
    receiver.await.unwrap_or_else(|_| Err(interrupted_error()))
}

/// Blocks until a request that `start` submits to the core is done, and returns its outcome.
pub(super) fn block_on_reply<T: Send + 'static>(
    start: impl FnOnce(Box<dyn FnOnce(Result<T>) + Send>) -> RequestHandle,
) -> Result<T> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let handle = start(Box::new(move |outcome| {
        // The caller waits below, so the receiver still exists.
        let _ = sender.send(outcome);
    }));
    // The core drops a request without a reply only if the service shuts down.
    let outcome = receiver.recv().unwrap_or_else(|_| Err(interrupted_error()));
    drop(handle);
    outcome
}

/// Starts the background thread of the bus, with a separate connection.
fn start_bus_thread(dispatch: &Arc<Dispatch>, opener: &Opener) -> Result<JoinHandle<()>> {
    let bus = Arc::clone(&dispatch.bus);
    let conn = opener.reader()?;
    let body = move || bus.serve(&conn);
    std::thread::Builder::new().name("svc-bus".to_owned()).spawn(body).map_err(Error::internal)
}

/// Starts the background thread for the timers, which never waits for the database.
fn start_timers_thread(dispatch: &Arc<Dispatch>) -> Result<JoinHandle<()>> {
    let timers = dispatch.timers.clone();
    let body = move || timers.serve();
    std::thread::Builder::new().name("svc-timers".to_owned()).spawn(body).map_err(Error::internal)
}

impl Inner {
    /// Releases the claims of the program and stops the threads. Further calls have no effect.
    ///
    /// `caller` is the thread that waits for this. Fails if a claim was not released, or a thread has
    /// panicked.
    fn shut_down(&self, caller: ThreadId) -> Result<()> {
        let released = self.keeper.close(&self.dispatch, caller);
        // Done before the rest, so that nothing below waits for a read.
        self.dispatch.executor.interrupt_reads();
        self.dispatch.bus.close();
        self.dispatch.limits.close();
        self.dispatch.timers.close();
        self.scheduler.close();
        let mut stopped = true;
        let chores = lock(&self.process.threads.scheduler).take();
        if let Some(thread) = chores {
            stopped &= join(thread, caller);
        }
        stopped &= self.dispatch.executor.close(caller);
        self.dispatch.rounds.close();
        let others: Vec<JoinHandle<()>> = lock(&self.process.threads.other_threads).drain(..).collect();
        for thread in others {
            stopped &= join(thread, caller);
        }
        if let Some(folder) = lock(&self.folder).take() {
            folder.close().map_err(Error::internal)?;
        }
        let stopped =
            if stopped { Ok(()) } else { Err(Error::internal("a thread of the service has panicked")) };
        released.and(stopped)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down(std::thread::current().id()) {
            tracing::error!(%error, cause = ?error.cause(), "the service was not shut down cleanly");
        }
    }
}
