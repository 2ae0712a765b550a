//! Checks of a footprint of 20 items, with 10,000 live claims in the same repository.
//!
//! Half of the items are files in a folder of which each claim touches a glob. The floor is the same with 100
//! live claims. Nothing overlaps.

use std::time::Instant;

use serde_json::{Value, json};
use svc_core::Engine;
use tokio::runtime::Runtime;

use super::claims::{Field, create};
use super::{Finding, Sample, alternate};

const MANY: usize = 10_000;
const FEW: usize = 100;
const ITEMS: usize = 20;
const CHECKS: usize = 2_000;

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let (many, few) = (fill(engine, runtime, MANY), fill(engine, runtime, FEW));
    Finding {
        name: "footprints",
        engine,
        pairs: alternate(pairs, || sample(&many, runtime), || sample(&few, runtime)),
        floor_is: "the same with 100 live claims",
        extra: json!({"live_claims": MANY, "items": ITEMS}),
    }
}

fn fill(engine: Engine, runtime: &Runtime, live: usize) -> Field {
    let field = Field::new(engine, runtime);
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

fn sample(field: &Field, runtime: &Runtime) -> Sample {
    let items: Vec<Value> = (0..ITEMS)
        .map(|number| match number % 2 {
            0 => format!("crates/c{number}/src/new/deep/file.rs"),
            _ => format!("notes/new{number}.md"),
        })
        .map(|path| json!({"kind": "path", "value": path}))
        .collect();
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
