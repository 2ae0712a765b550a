//! Compares exporting a workspace with reading the same rows and computing their SHA-256.

use std::time::{Duration, Instant};

use serde_json::json;
use svc_core::Engine;
use tokio::runtime::Runtime;

use super::posts::{callers, poster};
use super::restore::export;
use super::stage::Stage;
use super::{Finding, Sample, alternate};
use crate::database::TestDatabase;

const FILL: Duration = Duration::from_secs(12);

/// The rows that the floor reads, in the order of an export.
const READ: [&str; 3] = [
    "select * from events order by workspace_id, lsn",
    "select * from messages order by id",
    "select * from audit order by workspace_id, seq",
];

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    callers(runtime, 64, FILL, poster(&stage));
    // An export has few rows of other tables. Each export adds an audit row.
    let rows = READ.iter().map(|sql| count(&database, sql)).sum();
    let mut bytes = 0;
    let measured = alternate(
        pairs,
        || {
            let begun = Instant::now();
            bytes = export(&stage).len();
            rate(rows, begun)
        },
        || {
            let begun = Instant::now();
            rate(READ.iter().map(|sql| database.hash_rows(sql, runtime)).sum(), begun)
        },
    );
    Finding {
        name: "export",
        engine,
        pairs: measured,
        floor_is: "reading the same rows and taking their SHA-256",
        extra: json!({"rows": rows, "bytes": bytes}),
    }
}

/// Returns how many rows a statement selects.
fn count(database: &TestDatabase, sql: &str) -> i64 {
    database.number(&format!("select count(*) from ({sql}) rows"))
}

fn rate(rows: i64, begun: Instant) -> Sample {
    let elapsed = begun.elapsed();
    Sample { per_second: rows as f64 / elapsed.as_secs_f64(), latencies: vec![elapsed], cpu_us: None }
}
