//! The witness: `py/witness.py`, which proves from a workspace's events alone that its claims followed the
//! rules.

use std::io::Write as _;
use std::process::Command;

use serde_json::{Value, json};
use svc_core::Service;
use tempfile::NamedTempFile;

use crate::database::skipped;
use crate::process::run;
use crate::site::done;

/// The variable with the Python interpreter for the witness.
const PYTHON: &str = "SVC_TEST_PYTHON";

/// Whether a clock was set back while the events happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockHistory {
    /// No clock was set back: then no holder acts after the end of a lease.
    Steady,
    /// A clock may have been set back.
    SetBack,
}

/// Returns the events of a workspace after a position, as a member sees them.
pub fn events(service: &Service, token: &str, workspace_id: &str, after: i64) -> Vec<Value> {
    let mut events = Vec::new();
    let mut after = after;
    loop {
        let input = json!({"workspace_id": workspace_id, "after_id": after, "limit": 500});
        let page = done(service, token, "list_events", input);
        events.extend(page["items"].as_array().unwrap().iter().cloned());
        after = page["after_id"].as_i64().unwrap();
        if page["next_cursor"].is_null() {
            return events;
        }
    }
}

/// Returns the witness's report on events, or `None` if this run has no Python.
pub fn testimony(events: &[Value], clocks: ClockHistory) -> Option<Value> {
    let Some(python) = std::env::var_os(PYTHON) else {
        skipped("the witness of claims", PYTHON);
        return None;
    };
    let mut file = NamedTempFile::new().unwrap();
    events.iter().for_each(|event| writeln!(file, "{event}").unwrap());
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/py/witness.py"));
    command.args((clocks == ClockHistory::Steady).then_some("--steady")).arg(file.path());
    let outcome = run(&mut command);
    assert_eq!(outcome.code, Some(0), "the witness: {outcome:?}");
    Some(serde_json::from_str(&outcome.out).unwrap())
}

/// Checks that the witness finds at least `claims` claims and no fault.
#[track_caller]
pub fn assert_kept(what: &str, events: &[Value], clocks: ClockHistory, claims: u64) {
    let Some(said) = testimony(events, clocks) else { return };
    assert_eq!(said["faults"], json!([]), "{what}: {said:#}");
    assert!(said["claims"].as_u64() >= Some(claims), "{what}: only {} claims", said["claims"]);
}
