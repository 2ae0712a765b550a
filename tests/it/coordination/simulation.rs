//! The claim engine against a model, over many seeds.
//!
//! `SVC_TEST_SIM_STEPS` is the number of steps on SQLite, `SVC_TEST_SIM_SEED` the first seed.

use svc_core::Engine;
use svc_tests::database::engines;
use svc_tests::in_parallel;
use svc_tests::simulation::{SimulationRun, courses};
use svc_tests::witness::{ClockHistory, assert_kept};

const STEPS: &str = "SVC_TEST_SIM_STEPS";
const SEED: &str = "SVC_TEST_SIM_SEED";

fn number<T: std::str::FromStr>(name: &str, default: T) -> T {
    let read = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number"));
    std::env::var(name).map_or(default, read)
}

/// Runs the courses, two at the same time.
fn simulate(courses: &[SimulationRun]) {
    in_parallel(2, |part| {
        for course in courses.iter().skip(part).step_by(2) {
            let events = course.run().unwrap_or_else(|found| panic!("{course:?}, {found}"));
            assert_kept(&format!("{course:?}"), &events, ClockHistory::SetBack, 1);
        }
    });
}

#[test]
fn claims_are_those_of_the_model_on_sqlite() {
    simulate(&courses(Engine::Sqlite, number(SEED, 11), number(STEPS, 10_000), &[1, 1, 1, 2]));
}

#[test]
fn claims_are_those_of_the_model_for_two_services_on_postgres() {
    if engines().contains(&Engine::Postgres) {
        simulate(&courses(Engine::Postgres, number(SEED, 11), 2000, &[2]));
    }
}
