//! Compares verifying a chain with reading the stored payloads and computing their SHA-256, and comparing the
//! tables with the log with only verifying the chain.

use std::time::{Duration, Instant};

use serde_json::json;
use svc_core::Engine;
use svc_core::verify::ChainReport;
use tokio::runtime::Runtime;

use super::memory::growth;
use super::posts::{callers, poster};
use super::stage::Stage;
use super::{Finding, Sample, alternate};
use crate::database::TestDatabase;
use crate::state::assert_state;

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
            events = events_of(&reports);
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

/// Replays the log and compares the tables; `growth_kib` is the maximum growth of memory during that.
pub fn state(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    callers(runtime, 64, FILL, poster(&stage));
    let address = database.address();
    drop(stage);
    let mut most = 0;
    let chain = || svc_core::verify::verify_database(&address, None, None).expect("the log verifies");
    let events = events_of(&chain());
    let measured = alternate(
        pairs,
        || {
            let begun = Instant::now();
            let ((), kib) = growth(|| assert_state(&address));
            most = kib.max(most);
            rate(events, begun)
        },
        || {
            let begun = Instant::now();
            chain();
            rate(events, begun)
        },
    );
    Finding {
        name: "verify-state",
        engine,
        pairs: measured,
        floor_is: "verifying the chain alone",
        extra: json!({"events": events, "growth_kib": most}),
    }
}

fn events_of(reports: &[ChainReport]) -> i64 {
    reports.iter().map(|report| report.events).sum()
}

fn rate(events: i64, begun: Instant) -> Sample {
    let elapsed = begun.elapsed();
    Sample { per_second: events as f64 / elapsed.as_secs_f64(), latencies: vec![elapsed], cpu_us: None }
}
