//! Claim cycles (`claim_next_thread`, then `set_thread_result`) in process from 64 callers.
//!
//! Compares 1,000,000 open threads with 1,000. The caller cannot claim the older 90 %: a quarter of these
//! needs skills that it lacks, one waits for a thread, one is in a paused repository, and one needs a slot
//! that is closed. Half of the others have one of 10,000 footprints of two items, some with a slot that has
//! room. The queue is filled through the service, and refilled between rounds outside of the measured time;
//! the first pair, which does not count, parks the threads that cannot be claimed.

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
const FOOTPRINTS: usize = 10_000;
const DEPENDENTS: usize = svc_core::limits::DEPENDENTS_MAX as usize;
/// Cycles of one measured round, and rounds of one sample.
const CYCLES: usize = 100;
const ROUNDS: usize = 40;

/// A filled workspace and the agent that claims in it.
pub(super) struct ClaimBench {
    pub stage: Stage,
    pub agent_token: String,
    pub database: TestDatabase,
}

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let many = ClaimBench::fill(engine, runtime, MANY);
    let few = ClaimBench::fill(engine, runtime, FEW);
    let before = many.stage.service.statement_counts();
    let sample = |field: &ClaimBench| field.sample(runtime, |number, _| claimable(number));
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

impl ClaimBench {
    /// Returns an empty workspace.
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
        let workspace = &stage.workspace_id;
        stage.call("pause_repo", json!({"workspace_id": workspace, "repo": "acme/paused"}));
        for (slot, capacity) in [("closed", 0), ("gpu", 10_000)] {
            let slot = json!({"workspace_id": workspace, "slot": slot, "capacity": capacity});
            stage.call("set_slot_capacity", slot);
        }
        // Each of them has the maximum number of dependents.
        let never: Vec<uuid::Uuid> = (0..=foreign / 4 / DEPENDENTS)
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
        create(runtime, stage, foreign, move |number| match number % 4 {
            0 => json!({"required_skills": [format!("foreign-{}", (number / 4) % SKILL_SETS)]}),
            1 => json!({"depends_on": [never[number / 4 / DEPENDENTS]]}),
            2 => footprint("acme/paused", number, json!({"kind": "crate", "value": "core"})),
            _ => footprint("acme/app", number, json!({"kind": "slot", "value": "closed"})),
        });
        create(runtime, stage, open - foreign, claimable);
        eprintln!("{open} open threads after {:.0} s", begun.elapsed().as_secs_f64());
        field
    }

    /// Runs rounds of claim cycles. Between them each claimed thread is replaced by one with the fields that
    /// `more` returns for its number and its footprint.
    pub fn sample(&self, runtime: &Runtime, more: fn(usize, &Value) -> Value) -> Sample {
        let mut spent = Duration::ZERO;
        let mut latencies = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            let (took, claimed): (Vec<Duration>, Vec<Value>) = self.cycles(runtime).into_iter().unzip();
            spent += begun.elapsed();
            latencies.extend(took);
            create(runtime, &self.stage, claimed.len(), move |number| more(number, &claimed[number]));
        }
        Sample { per_second: latencies.len() as f64 / spent.as_secs_f64(), latencies, cpu_us: None }
    }

    /// Runs the cycles of one round. Returns the time of each, and the footprint of the claimed thread.
    fn cycles(&self, runtime: &Runtime) -> Vec<(Duration, Value)> {
        let left = Arc::new(AtomicUsize::new(CYCLES));
        runtime.block_on(async {
            let mut tasks = Vec::new();
            for _ in 0..CALLERS {
                let stage = self.stage.clone();
                let token = self.agent_token.clone();
                let left = Arc::clone(&left);
                tasks.push(tokio::spawn(async move {
                    let mut done = Vec::new();
                    while left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
                    {
                        let begun = Instant::now();
                        let footprint = cycle(&stage, &token).await;
                        done.push((begun.elapsed(), footprint));
                    }
                    done
                }));
            }
            let mut done = Vec::new();
            for task in tasks {
                done.extend(task.await.expect("a caller's task"));
            }
            done
        })
    }
}

/// Claims the next thread and sets its result. Returns its footprint.
pub(super) async fn cycle(stage: &Stage, token: &str) -> Value {
    let claimed = stage.ask(token, "claim_next_thread", json!({"channel_id": stage.channel_id})).await;
    let thread = claimed.get("id").and_then(Value::as_str).expect("something to claim");
    let lease = claimed["claim_lease_id"].clone();
    let input = json!({"thread_id": thread, "result": {"ok": true}, "claim_lease_id": lease});
    stage.ask(token, "set_thread_result", input).await;
    claimed["footprint"].clone()
}

fn claimable(number: usize) -> Value {
    match number % 8 {
        0 => json!({"required_skills": ["own-0"]}),
        1 => json!({"required_skills": ["own-0", "own-1"]}),
        2 => footprint("acme/app", number, json!({"kind": "slot", "value": "gpu"})),
        3..6 => {
            let branch = format!("work/{}", number % FOOTPRINTS);
            footprint("acme/app", number, json!({"kind": "branch", "value": branch}))
        }
        _ => json!({}),
    }
}

/// Returns one of the footprints: a file that no other footprint has, and another item.
fn footprint(repo: &str, number: usize, other: Value) -> Value {
    let file = format!("crates/c{}/src/f{}.rs", number % 97, number % FOOTPRINTS);
    json!({"footprint": {"repo": repo, "items": [{"kind": "path", "value": file}, other]}})
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
            let stage = stage.clone();
            let fields = fields.clone();
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
