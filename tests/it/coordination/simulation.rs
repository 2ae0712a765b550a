//! The claim engine against a model, over many seeds.
//!
//! `SVC_TEST_SIM_STEPS` is the number of steps on SQLite, `SVC_TEST_SIM_SEED` the first seed.

use svc_core::{Engine, claim_engine_parts};
use svc_tests::database::engines;
use svc_tests::in_parallel;
use svc_tests::simulation::{Course, courses};
use svc_tests::witness::{Clocks, assert_kept};

const STEPS: &str = "SVC_TEST_SIM_STEPS";
const SEED: &str = "SVC_TEST_SIM_SEED";

fn number<T: std::str::FromStr>(name: &str, default: T) -> T {
    let read = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number"));
    std::env::var(name).map_or(default, read)
}

/// Runs the courses, two at the same time.
fn simulate(courses: &[Course]) {
    in_parallel(2, |part| {
        for course in courses.iter().skip(part).step_by(2) {
            let events = course.run().unwrap_or_else(|found| panic!("{course:?}, {found}"));
            assert_kept(&format!("{course:?}"), &events, Clocks::SetBack, 1);
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

/// A model that agrees with an engine from which a part is missing proves nothing about that part.
#[test]
fn whatever_part_of_the_engine_is_left_out_is_missed() {
    let parts = claim_engine_parts();
    let found: Vec<Vec<String>> = in_parallel(2, |half| {
        let parts = parts.iter().skip(half).step_by(2);
        parts.filter(|part| !is_missed(part)).map(|part| (*part).to_owned()).collect()
    });
    assert_eq!(found.concat(), Vec::<String>::new(), "left out and not missed");
}

/// Steps within which a missing part must be detected: those of a run outside of CI.
const MISSED_WITHIN: usize = 10_000;

fn is_missed(part: &'static str) -> bool {
    let mut taken = 0;
    for course in courses(Engine::Sqlite, number(SEED, 11), MISSED_WITHIN, &[1]) {
        match (Course { left_out: Some(part), ..course }).run() {
            Ok(_) => taken += course.steps,
            Err(found) => {
                println!("without {part:?}, after {} steps: {}", taken + found.step, first_line(&found.what));
                return true;
            }
        }
    }
    false
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
