//! Compares posts while 1,000,000 events are pruned with the same posts in a workspace without pruning.

use std::time::{Duration, Instant};

use serde_json::json;
use svc_core::Engine;
use tokio::runtime::Runtime;

use super::old_events;
use super::posts::{callers, poster};
use super::stage::Stage;
use super::{Finding, Sample, alternate};
use crate::database::TestDatabase;

const EVENTS: i64 = 1_000_000;
const WRITERS: usize = 64;
const SPAN: Duration = Duration::from_millis(1500);

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let other = TestDatabase::on(engine);
    let alone = Stage::build(&other);
    let stage = old_events::stage(&database, EVENTS);
    let kept = json!({"workspace_id": stage.workspace_id, "events_days": 1});
    stage.call("set_retention_policy", kept);
    let workspace = database.id(stage.workspace_id);
    let left = || database.number(&format!("select min(lsn) from events where workspace_id = {workspace}"));
    let floor = || database.number(&format!("select floor from heads where workspace_id = {workspace}"));
    // Pruning is measured from the first event that it removes.
    while floor() == 1 {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let begun = Instant::now();
    let before = left();
    let measured = alternate(pairs, || posts(&stage, runtime), || posts(&alone, runtime));
    let removed = left() - before;
    let rate = f64::from(i32::try_from(removed).unwrap_or(i32::MAX)) / begun.elapsed().as_secs_f64();
    Finding {
        name: "prune",
        engine,
        pairs: measured,
        floor_is: "the same posts while nothing is pruned",
        extra: json!({"events": EVENTS, "removed_while_measured": removed, "removed_per_second": rate.round(),
            "was_pruning_to_the_end": left() < floor()}),
    }
}

fn posts(stage: &Stage, runtime: &Runtime) -> Sample {
    callers(runtime, WRITERS, SPAN, poster(stage))
}
