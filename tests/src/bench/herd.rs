//! Claim cycles in process from 64 callers, beside many threads that wait for the same few resources.
//!
//! A third of 100,000 threads waits for one slot, a third for one crate and a third for a paused repository,
//! each of these with a different footprint; the floor is the same with 1,000. A cycle claims the next thread
//! for the slot or the crate, or a thread without a footprint; one of the same kind replaces it, so that as
//! many keep waiting. The first pair, which does not count, parks the others.

use serde_json::{Value, json};
use svc_core::Engine;
use tokio::runtime::Runtime;

use super::claims::{ClaimBench, create};
use super::{Finding, alternate};

const MANY: usize = 100_000;
const FEW: usize = 1_000;

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let many = fill(engine, runtime, MANY);
    let few = fill(engine, runtime, FEW);
    let sample = |field: &ClaimBench| {
        field.sample(runtime, |_, footprint| match footprint {
            Value::Null => json!({}),
            footprint => json!({"footprint": footprint}),
        })
    };
    Finding {
        name: "herd",
        engine,
        pairs: alternate(pairs, || sample(&many), || sample(&few)),
        floor_is: "the same with 1,000 waiting threads",
        extra: json!({"waiting_threads": MANY}),
    }
}

fn fill(engine: Engine, runtime: &Runtime, waiting: usize) -> ClaimBench {
    let field = ClaimBench::new(engine, runtime);
    let workspace = &field.stage.workspace_id;
    let slot = json!({"workspace_id": workspace, "slot": "gpu", "capacity": 1});
    field.stage.call("set_slot_capacity", slot);
    field.stage.call("pause_repo", json!({"workspace_id": workspace, "repo": "acme/paused"}));
    create(runtime, &field.stage, waiting, herd);
    create(runtime, &field.stage, 400, |_| json!({}));
    field
}

/// Returns the fields of the n-th waiting thread.
fn herd(number: usize) -> Value {
    let footprint = |repo: &str, kind: &str, value: &str| {
        let item = json!({"kind": kind, "value": value});
        json!({"footprint": {"repo": repo, "items": [item]}})
    };
    match number % 3 {
        0 => footprint("acme/app", "slot", "gpu"),
        1 => footprint("acme/app", "crate", "core"),
        _ => footprint("acme/paused", "path", &format!("src/{number}")),
    }
}
