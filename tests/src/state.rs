//! The differences between the tables of a database and its logs.

use svc_core::{Database, Difference, StateReport, verify_state};

/// Compares all workspaces, and returns the differences and the reports.
pub fn differences(database: &Database) -> (Vec<Difference>, Vec<StateReport>) {
    let mut told = Vec::new();
    let reports = verify_state(database, None, &mut |difference| {
        told.push(difference);
        Ok(())
    });
    let reports = reports.unwrap_or_else(|error| panic!("{error}: {:?}", error.causes()));
    assert_eq!(reports.iter().all(|report| report.valid), told.is_empty());
    (told, reports)
}

/// Asserts that the tables agree with the logs.
pub fn assert_state(database: &Database) {
    assert_eq!(differences(database).0, []);
}
