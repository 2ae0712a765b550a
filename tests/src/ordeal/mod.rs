//! Ordeals: real servers under load while something beneath them fails.
//!
//! Callers record the outcome of every write ([`callers`]), a fault breaks connections ([`proxy`]) or file
//! operations ([`faults`]), and a checker compares the records with rows, events and reads ([`checker`]). The
//! faults are always outside of the programs: none of them has a switch that injects a fault.

pub mod callers;
pub mod checker;
pub mod faults;
pub mod proxy;
pub mod record;
pub mod replay;
pub mod tls;
mod rows;

use std::time::{Duration, Instant};

/// Time in which a write must succeed after a fault, on a machine on which writes take no time.
pub const RECOVERY: Duration = Duration::from_secs(2);

/// Returns how often an ordeal runs: `SVC_TEST_ROUNDS`, or once.
pub fn rounds() -> usize {
    match std::env::var("SVC_TEST_ROUNDS") {
        Ok(rounds) => rounds.parse().unwrap_or_else(|error| panic!("SVC_TEST_ROUNDS={rounds}: {error}")),
        Err(_) => 1,
    }
}

/// Returns a random number below `most`.
pub fn any_below(most: u64) -> u64 {
    // The low bits of such an id are random.
    let (_, low) = uuid::Uuid::now_v7().as_u64_pair();
    (low & u64::from(u32::MAX)) % most
}

/// Waits for a random part of a span, at least a fifth.
pub fn any_moment_of(span: Duration) {
    let wait = span / 5 + span * u32::try_from(any_below(800)).unwrap() / 1000;
    for_a_while(wait, wait, || {});
}

/// Repeats `step`, with `pause` in between, until `span` is over.
pub fn for_a_while(span: Duration, pause: Duration, mut step: impl FnMut()) {
    let end = Instant::now() + span;
    while Instant::now() < end {
        step();
        let next = (Instant::now() + pause).min(end);
        while let Some(left) = next.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            std::thread::park_timeout(left);
        }
    }
}
