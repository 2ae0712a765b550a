//! Checks of a footprint of 20 items, with 10,000 live claims in the same repository.
//!
//! Half of the items are files in a folder of which each claim has a glob. The floor is the same with 100
//! live claims. Nothing overlaps. On SQLite it also reports how many times as long a scan takes that reads
//! the items of all live claims from the same file and compares all pairs.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use svc_core::Engine;
use tokio::runtime::Runtime;

use super::claims::{ClaimBench, create};
use super::{Finding, Sample, alternate};

const MANY: usize = 10_000;
const FEW: usize = 100;
const ITEMS: usize = 20;
const CHECKS: usize = 2_000;

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let many = fill(engine, runtime, MANY);
    let few = fill(engine, runtime, FEW);
    let pairs = alternate(pairs, || sample(&many, runtime), || sample(&few, runtime));
    let check = 1.0 / super::median(pairs.iter().map(|(ours, _)| ours.per_second));
    let naive = naive_scan(&many).map(|scan| super::round(scan.as_secs_f64() / check));
    Finding {
        name: "footprints",
        engine,
        pairs,
        floor_is: "the same with 100 live claims",
        extra: json!({"live_claims": MANY, "items": ITEMS, "naive_scan_to_check": naive}),
    }
}

fn fill(engine: Engine, runtime: &Runtime, live: usize) -> ClaimBench {
    let field = ClaimBench::new(engine, runtime);
    create(runtime, &field.stage, live, |number| {
        let path = format!("crates/c{}/src/f{number}.rs", number % 97);
        json!({"footprint": {"repo": "acme/app", "items": [
            {"kind": "path", "value": path}, {"kind": "branch", "value": format!("work/{number}")},
            {"kind": "glob", "value": format!("notes/{number:05}*")},
        ]}})
    });
    for _ in 0..live {
        let input = json!({"channel_id": field.stage.channel_id, "lease_secs": 604_800});
        let claimed = runtime.block_on(field.stage.ask(&field.agent_token, "claim_next_thread", input));
        assert!(claimed["id"].is_string(), "everything can be claimed");
    }
    field
}

/// Returns the paths of the checked footprint.
fn paths() -> impl Iterator<Item = String> {
    (0..ITEMS).map(|number| match number % 2 {
        0 => format!("crates/c{number}/src/new/deep/file.rs"),
        _ => format!("notes/new{number}.md"),
    })
}

/// Returns the time of one scan of all live claims, on SQLite: the median of a few.
fn naive_scan(field: &ClaimBench) -> Option<Duration> {
    let file = field.database.file()?;
    let conn = rusqlite::Connection::open(file).expect("the database");
    let mut live = conn
        .prepare(
            "select f.items from threads t join footprints f on f.workspace_id = t.workspace_id
                and f.id = t.footprint where t.assignee_id is not null",
        )
        .expect("a statement");
    let mut scans: Vec<Duration> = (0..9)
        .map(|_| {
            let begun = Instant::now();
            let mut rows = live.query([]).expect("rows");
            while let Some(row) = rows.next().expect("a row") {
                let items: String = row.get(0).expect("items");
                let items: Vec<Value> = serde_json::from_str(&items).expect("a list of items");
                assert!(paths().all(|path| items.iter().all(|item| !overlaps(item, &path))));
            }
            begun.elapsed()
        })
        .collect();
    scans.sort_unstable();
    scans.get(scans.len() / 2).copied()
}

/// Returns whether a path overlaps an item, by their definition.
fn overlaps(item: &Value, path: &str) -> bool {
    let value = item["value"].as_str().expect("a value");
    let prefix = match item["kind"].as_str().expect("a kind") {
        "path" => format!("{value}/"),
        "glob" => value.split(['*', '?', '[', '{']).next().unwrap_or_default().to_owned(),
        _ => return false,
    };
    let path = format!("{path}/");
    path.starts_with(&prefix) || prefix.starts_with(&path)
}

fn sample(field: &ClaimBench, runtime: &Runtime) -> Sample {
    let items: Vec<Value> = paths().map(|path| json!({"kind": "path", "value": path})).collect();
    let footprint = json!({"repo": "acme/app", "items": items});
    let input = json!({"workspace_id": field.stage.workspace_id, "footprint": footprint});
    let mut latencies = Vec::with_capacity(CHECKS);
    let begun = Instant::now();
    for _ in 0..CHECKS {
        let each = Instant::now();
        let found = runtime.block_on(field.stage.ask(&field.agent_token, "check_footprint", input.clone()));
        assert_eq!(found["conflicts"], json!([]));
        latencies.push(each.elapsed());
    }
    Sample { per_second: CHECKS as f64 / begun.elapsed().as_secs_f64(), latencies, cpu_us: None }
}
