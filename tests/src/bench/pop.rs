//! Compares claim cycles (`claim_next_thread`, then `set_thread_result`) on Postgres with a bare queue.
//!
//! Both run in process from the same number of callers. Each caller of the floor has its own connection and
//! commits two prepared statements a cycle: a pop with `for update skip locked`, and the completion of the
//! popped row, fenced by its lease. It keeps no log, no audit and no chain. It also reports the speed of the
//! first cycles after 100,000 creations, before any statistics exist, and of the last of 20,000 cycles while
//! another transaction keeps its snapshot, each as a fraction of the usual speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use svc_core::Engine;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;
use uuid::Uuid;

use super::claims::{ClaimBench, create, cycle};
use super::{Finding, Sample, alternate, processor_time};

/// Threads that are created first.
const CREATED: usize = 100_000;
/// Cycles of one sample.
const CYCLES: usize = 5_000;
/// Cycles while another transaction keeps its snapshot.
const UNDER_SNAPSHOT: usize = 20_000;

pub fn run(callers: usize, pairs: usize, runtime: &Runtime) -> Finding {
    let field = ClaimBench::new(Engine::Postgres, runtime);
    create(runtime, &field.stage, CREATED, |_| json!({}));
    let fresh = cycles(&field, runtime, callers, CYCLES);
    field.database.execute("analyze");
    let floor = BareQueue::fill(&field, runtime, callers);
    let usual = |field: &ClaimBench| {
        create(runtime, &field.stage, CYCLES, |_| json!({}));
        cycles(field, runtime, callers, CYCLES)
    };
    let pairs = alternate(pairs, || usual(&field), || floor.cycles(runtime));
    let under_snapshot = {
        let _snapshot = runtime.block_on(Snapshot::open(&field.database.url()));
        cycles(&field, runtime, callers, UNDER_SNAPSHOT - CYCLES);
        cycles(&field, runtime, callers, CYCLES)
    };
    let ours = super::median(pairs.iter().map(|(ours, _)| ours.per_second));
    Finding {
        name: "pop",
        engine: Engine::Postgres,
        pairs,
        floor_is: "as many connections that pop with skip locked and complete, each in autocommit",
        extra: json!({
            "callers": callers,
            "first_cycles_to_usual": super::round(fresh.per_second / ours),
            "under_snapshot_to_usual": super::round(under_snapshot.per_second / ours),
        }),
    }
}

/// Runs `count` cycles from `callers` callers.
fn cycles(field: &ClaimBench, runtime: &Runtime, callers: usize, count: usize) -> Sample {
    let stage = field.stage.clone();
    let token = field.agent_token.clone();
    measured(runtime, callers, count, move |_| {
        let stage = stage.clone();
        let token = token.clone();
        async move {
            cycle(&stage, &token).await;
        }
    })
}

/// Measures `count` runs of `once` from `callers` callers; `once` gets the number of the caller.
fn measured<F: Future<Output = ()> + Send>(
    runtime: &Runtime,
    callers: usize,
    count: usize,
    once: impl Fn(usize) -> F + Clone + Send + 'static,
) -> Sample {
    let left = Arc::new(AtomicUsize::new(count));
    runtime.block_on(async {
        let begun = Instant::now();
        let before = processor_time();
        let tasks: Vec<_> = (0..callers)
            .map(|caller| {
                let once = once.clone();
                let left = Arc::clone(&left);
                tokio::spawn(async move {
                    let mut latencies = Vec::new();
                    let take = |n: usize| n.checked_sub(1);
                    while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                        let begun = Instant::now();
                        once(caller).await;
                        latencies.push(begun.elapsed());
                    }
                    latencies
                })
            })
            .collect();
        let mut latencies: Vec<Duration> = Vec::new();
        for task in tasks {
            latencies.extend(task.await.expect("a caller's task"));
        }
        let cpu = processor_time().zip(before).map(|(after, before)| after.saturating_sub(before));
        Sample {
            per_second: count as f64 / begun.elapsed().as_secs_f64(),
            latencies,
            cpu_us: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / count as f64),
        }
    })
}

/// A bare queue in the same database, and the connections of its callers.
struct BareQueue(Arc<Vec<QueueConnection>>);

/// One connection with its prepared statements.
struct QueueConnection {
    channel_id: Uuid,
    client: tokio_postgres::Client,
    pop: tokio_postgres::Statement,
    complete: tokio_postgres::Statement,
}

const TABLE: &str = "
    create table bare_queue (
        id uuid primary key, channel_id uuid not null, urgency bigint not null, lsn bigint not null,
        assignee_id uuid, lease_id uuid, expires_at bigint, result text);
    create index bare_queue_open on bare_queue (channel_id, urgency, lsn)
        where assignee_id is null and result is null";

const FILL: &str = "
    insert into bare_queue (id, channel_id, urgency, lsn)
    select gen_random_uuid(), $1, 0, number from generate_series(1, cast($2 as bigint)) number";

const POP: &str = "
    update bare_queue set assignee_id = $2, lease_id = $3, expires_at = $4
    where id = (
        select id from bare_queue where channel_id = $1 and assignee_id is null and result is null
        order by urgency, lsn limit 1 for update skip locked)
    returning id";

const COMPLETE: &str = "
    update bare_queue set result = $3, assignee_id = null, lease_id = null, expires_at = null
    where id = $1 and lease_id = $2";

impl BareQueue {
    fn fill(field: &ClaimBench, runtime: &Runtime, callers: usize) -> Self {
        let url = field.database.url();
        runtime.block_on(async {
            let client = connect(&url).await;
            client.batch_execute(TABLE).await.expect("a table");
            let channel_id = field.stage.channel_id.uuid();
            // Enough for every sample: the queue is not refilled.
            let count = i64::try_from(2 * CREATED).expect("a bigint");
            client.execute(FILL, &[&channel_id, &count]).await.expect("rows");
            client.batch_execute("analyze bare_queue").await.expect("statistics");
            let mut poppers = Vec::new();
            for _ in 0..callers {
                let client = connect(&url).await;
                let pop = client.prepare(POP).await.expect("a statement");
                let complete = client.prepare(COMPLETE).await.expect("a statement");
                poppers.push(QueueConnection { channel_id, client, pop, complete });
            }
            Self(Arc::new(poppers))
        })
    }

    fn cycles(&self, runtime: &Runtime) -> Sample {
        let poppers = Arc::clone(&self.0);
        measured(runtime, poppers.len(), CYCLES, move |caller| {
            let poppers = Arc::clone(&poppers);
            async move { poppers[caller].cycle().await }
        })
    }
}

impl QueueConnection {
    async fn cycle(&self) {
        let member = Uuid::now_v7();
        let lease = Uuid::now_v7();
        let popped = self.client.query_one(&self.pop, &[&self.channel_id, &member, &lease, &0_i64]).await;
        let id: Uuid = popped.expect("something to pop").get(0);
        let completed = self.client.execute(&self.complete, &[&id, &lease, &"{\"ok\":true}"]).await;
        assert_eq!(completed.expect("a completion"), 1, "the lease is its own");
    }
}

async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// A transaction that keeps its first snapshot.
struct Snapshot {
    _client: tokio_postgres::Client,
}

impl Snapshot {
    async fn open(url: &str) -> Self {
        let client = connect(url).await;
        let begin = "begin isolation level repeatable read; select count(*) from heads";
        client.batch_execute(begin).await.expect("a snapshot");
        Self { _client: client }
    }
}
