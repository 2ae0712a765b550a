//! The memory that exporting and restoring need with 100,000 events and with 1,000,000.
//!
//! Both work in pages, so the second must need only a little more than the first.

use serde_json::{Value, json};
use svc_core::Engine;

use super::old_events;
use super::restore::{export, restore};
use super::stage::Stage;
use crate::database::TestDatabase;

const EVENTS: [i64; 2] = [100_000, 1_000_000];

pub fn run(engine: Engine) -> Value {
    let [few, many] = EVENTS.map(|events| measure(engine, events));
    let side =
        |few: u64, many: u64| json!({"few_kib": few, "many_kib": many, "over_kib": many.saturating_sub(few)});
    json!({
        "name": "memory",
        "engine": engine.name(),
        "events": EVENTS,
        "export": side(few.0, many.0),
        "restore": side(few.1, many.1),
    })
}

/// Returns the maximum growth of this process in KiB during an export and during a restore of a log.
fn measure(engine: Engine, events: i64) -> (u64, u64) {
    let database = TestDatabase::on(engine);
    let other = TestDatabase::on(engine);
    let stage = old_events::stage(&database, events);
    let empty = Stage::build(&other);
    let (file, exported) = growth(|| export(&stage));
    let ((), restored) = growth(|| restore(&empty, &file));
    eprintln!("{events} events: the export grew by {exported} KiB, the restore by {restored} KiB");
    (exported, restored)
}

/// Returns the result of `work`, and the maximum growth of this process in KiB during it.
pub fn growth<T>(work: impl FnOnce() -> T) -> (T, u64) {
    // This resets the peak; see proc(5).
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux");
    let before = kib("/proc/self/status", "VmRSS:");
    let done = work();
    (done, kib("/proc/self/status", "VmHWM:").saturating_sub(before))
}

/// Returns a number of KiB in the status of a process.
pub fn kib(status: &str, name: &str) -> u64 {
    let status = std::fs::read_to_string(status).expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a number of KiB");
    line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
}
