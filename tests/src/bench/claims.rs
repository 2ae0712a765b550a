//! Claim cycles (`claim_next_thread`, then `set_thread_result`) in process from 64 callers.
//!
//! With 1,000,000 open threads of which the older 90 % are not claimable for the caller, beside the same with
//! 1,000. The queue is filled through the service, and topped up between rounds outside of the measured time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use svc_core::Engine;
use tokio::runtime::Runtime;

use super::stage::{Stage, id};
use super::{Finding, Sample, alternate};
use crate::database::TestDatabase;

const CALLERS: usize = 64;
const MANY: usize = 1_000_000;
const FEW: usize = 1_000;
const SKILL_SETS: usize = 64;
const DEPENDENTS: usize = svc_core::limits::DEPENDENTS_MAX as usize;
/// Cycles of one measured round, and rounds of one sample.
const CYCLES: usize = 100;
const ROUNDS: usize = 40;

/// A filled workspace and the agent that claims in it.
pub(super) struct Field {
    pub stage: Stage,
    pub agent_token: String,
    pub database: TestDatabase,
}

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let many = Field::fill(engine, runtime, MANY);
    let few = Field::fill(engine, runtime, FEW);
    let before = many.stage.service.statement_counts();
    let sample = |field: &Field| field.sample(runtime, claimable);
    let measured = alternate(pairs, || sample(&many), || sample(&few));
    let re_prepared = many.stage.service.statement_counts().re_prepared - before.re_prepared;
    Finding {
        name: "claims",
        engine,
        pairs: measured,
        floor_is: "the same with 1,000 open threads",
        extra: json!({"open_threads": MANY, "statements_re_prepared": re_prepared}),
    }
}

impl Field {
    /// An empty workspace.
    pub fn new(engine: Engine, runtime: &Runtime) -> Self {
        let database = TestDatabase::on(engine);
        let stage = Stage::build(&database);
        let agent =
            stage.call("create_agent", json!({"workspace_id": stage.workspace_id, "handle": "claimer"}));
        let agent_token = agent["token"]["secret"].as_str().expect("a secret").to_owned();
        runtime.block_on(stage.ask(&agent_token, "set_skills", json!({"skills": ["own-0", "own-1"]})));
        Self { stage, agent_token, database }
    }

    fn fill(engine: Engine, runtime: &Runtime, open: usize) -> Self {
        let field = Self::new(engine, runtime);
        let stage = &field.stage;
        let foreign = open * 9 / 10;
        // Each of them has as many dependents as a thread may have.
        let never: Vec<uuid::Uuid> = (0..=foreign / 2 / DEPENDENTS)
            .map(|_| {
                id(&stage.call(
                    "create_thread",
                    json!({
                        "channel_id": stage.channel_id, "title": "never done", "required_skills": ["nobody"],
                    }),
                ))
            })
            .collect();
        let begun = Instant::now();
        create(runtime, stage, foreign, move |number| match number % 2 {
            0 => json!({"required_skills": [format!("foreign-{}", (number / 2) % SKILL_SETS)]}),
            _ => json!({"depends_on": [never[number / 2 / DEPENDENTS]]}),
        });
        create(runtime, stage, open - foreign, claimable);
        eprintln!("{open} open threads after {:.0} s", begun.elapsed().as_secs_f64());
        field
    }

    /// Rounds of claim cycles; what was claimed is replaced between them by threads with the fields `more`.
    pub fn sample(&self, runtime: &Runtime, more: fn(usize) -> Value) -> Sample {
        let (mut spent, mut latencies) = (Duration::ZERO, Vec::new());
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            latencies.extend(self.cycles(runtime));
            spent += begun.elapsed();
            create(runtime, &self.stage, CYCLES, more);
        }
        Sample { per_second: latencies.len() as f64 / spent.as_secs_f64(), latencies, cpu_us: None }
    }

    fn cycles(&self, runtime: &Runtime) -> Vec<Duration> {
        let left = Arc::new(AtomicUsize::new(CYCLES));
        runtime.block_on(async {
            let mut tasks = Vec::new();
            for _ in 0..CALLERS {
                let (stage, token, left) = (self.stage.clone(), self.agent_token.clone(), Arc::clone(&left));
                tasks.push(tokio::spawn(async move {
                    let mut latencies = Vec::new();
                    while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
                    {
                        let begun = Instant::now();
                        cycle(&stage, &token).await;
                        latencies.push(begun.elapsed());
                    }
                    latencies
                }));
            }
            let mut latencies = Vec::new();
            for task in tasks {
                latencies.extend(task.await.expect("a caller's task"));
            }
            latencies
        })
    }
}

pub(super) async fn cycle(stage: &Stage, token: &str) {
    let claimed = stage.ask(token, "claim_next_thread", json!({"channel_id": stage.channel_id})).await;
    let thread = claimed.get("id").and_then(Value::as_str).expect("something to claim");
    let lease = claimed["claim_lease_id"].clone();
    let input = json!({"thread_id": thread, "result": {"ok": true}, "claim_lease_id": lease});
    stage.ask(token, "set_thread_result", input).await;
}

fn claimable(number: usize) -> Value {
    match number % 4 {
        0 => json!({"required_skills": ["own-0"]}),
        1 => json!({"required_skills": ["own-0", "own-1"]}),
        _ => json!({}),
    }
}

/// Creates threads from 64 callers; `fields` returns the fields of the n-th.
pub(super) fn create(
    runtime: &Runtime,
    stage: &Stage,
    count: usize,
    fields: impl Fn(usize) -> Value + Clone + Send + 'static,
) {
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for writer in 0..CALLERS {
            let (stage, fields) = (stage.clone(), fields.clone());
            tasks.push(tokio::spawn(async move {
                for number in (writer..count).step_by(CALLERS) {
                    let mut input = fields(number);
                    input["channel_id"] = json!(stage.channel_id);
                    input["title"] = json!(format!("task {number}"));
                    stage.ask(&stage.token, "create_thread", input).await;
                }
            }));
        }
        for task in tasks {
            task.await.expect("a writer's task");
        }
    });
}
