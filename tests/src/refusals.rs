//! Refusals as clients see them: each must be one that its operation declares.
//!
//! If `SVC_TEST_REFUSALS` names a file, observed refusals are appended to it, for all processes of a run, and
//! the program `refusals` lists the declared ones that were never observed.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;

use svc_core::Code;
use svc_core::op::{Frame, Operation, Table};

use crate::client::Answer;

/// The file of the run.
pub const FILE: &str = "SVC_TEST_REFUSALS";

/// Checks that an operation declares its refusal, and appends that to the file of the run.
#[track_caller]
pub fn check(operation: &Operation, answer: Answer) -> Answer {
    // A redirect is a success, too.
    if answer.is_success() || answer.status == operation.http().success.status() {
        return answer;
    }
    if operation.http().frame == Some(Frame::Scim) && answer.body.get("schemas").is_some() {
        // An error of RFC 7644 has a status but no code.
        let is_declared = operation.refusals().any(|declared| declared.status() == answer.status);
        assert!(is_declared, "{operation:?} does not declare {}: {:#}", answer.status, answer.body);
        return answer;
    }
    let code = Code::ALL.iter().copied().find(|code| code.name() == answer.code());
    let is_declared = code.is_some_and(|code| operation.refusals().any(|declared| declared == code));
    assert!(is_declared, "{operation:?} does not declare {}: {:#}", answer.code(), answer.body);
    if let Some(path) = std::env::var_os(FILE) {
        // One write of a short line is atomic, even while others append.
        let line = format!("{} {}\n", operation.name(), answer.code());
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
    answer
}

/// Returns the refusals that operations declare as their own and that are not in `seen`, the file of a run.
pub fn never_seen(table: &Table, seen: &str) -> Vec<String> {
    let seen: BTreeSet<&str> = seen.lines().collect();
    let declared = table.rows().flat_map(|operation| {
        operation.docs().refuses.iter().map(move |code| format!("{} {}", operation.name(), code.name()))
    });
    declared.filter(|refusal| !seen.contains(refusal.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_that_was_not_seen_is_reported() {
        let table = svc_core::operation_table().unwrap();
        let all = never_seen(&table, "");
        assert!(all.contains(&"claim_thread not-claimable".to_owned()), "{all:?}");
        assert_eq!(never_seen(&table, &all.join("\n")), Vec::<String>::new());
    }
}
