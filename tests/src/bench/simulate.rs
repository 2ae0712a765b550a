//! The steps per second of the simulation of the claim engine, and whether all agree with the model.

use std::time::Instant;

use serde_json::{Value, json};
use svc_core::Engine;

use super::round;
use crate::simulation::courses;

/// Takes `steps` from `seed` on; some of the courses have two services.
///
/// Panics at the first step whose outcome differs from the model.
pub fn run(engine: Engine, seed: u64, steps: usize) -> Value {
    let began = Instant::now();
    let mut taken = 0;
    let mut events = 0;
    for course in courses(engine, seed, steps, &[1, 1, 1, 2]) {
        match course.run() {
            Ok(log) => events += log.len(),
            Err(found) => panic!("{course:?}, {found}"),
        }
        taken += course.steps;
        eprintln!("{taken} steps, {:.0}/s", per_second(taken, began));
    }
    json!({
        "name": "simulate", "engine": engine.name(), "seed": seed, "steps": taken, "events": events,
        "per_second": round(per_second(taken, began)),
    })
}

fn per_second(count: usize, since: Instant) -> f64 {
    count as f64 / since.elapsed().as_secs_f64()
}
