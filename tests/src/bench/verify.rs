//! Verifying a chain, beside reading the stored payloads and taking their SHA-256.

use std::time::{Duration, Instant};

use serde_json::json;
use svc_core::Engine;
use tokio::runtime::Runtime;

use super::posts::{callers, poster};
use super::stage::Stage;
use super::{Finding, Sample, alternate};
use crate::database::TestDatabase;

const FILL: Duration = Duration::from_secs(12);

const PAYLOADS: &str = "select payload from events order by workspace_id, lsn";

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    callers(runtime, 64, FILL, poster(&stage));
    let address = database.address();
    drop(stage);
    let mut events = 0;
    let measured = alternate(
        pairs,
        || {
            let begun = Instant::now();
            let reports = svc_core::verify::verify_database(&address, None, None).expect("the log verifies");
            events = reports.iter().map(|report| report.events).sum::<i64>();
            rate(events, begun)
        },
        || {
            let begun = Instant::now();
            let hashed = database.hash_rows(PAYLOADS, runtime);
            rate(hashed, begun)
        },
    );
    Finding {
        name: "verify",
        engine,
        pairs: measured,
        floor_is: "reading the stored payloads and their SHA-256",
        extra: json!({"events": events}),
    }
}

fn rate(events: i64, begun: Instant) -> Sample {
    let elapsed = begun.elapsed();
    Sample { per_second: events as f64 / elapsed.as_secs_f64(), latencies: vec![elapsed], cpu_us: None }
}
