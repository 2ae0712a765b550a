//! `refusals FILE`: lists the declared refusals that no test of a whole run has produced.
//!
//! `tests/run` calls it; FILE is that of `SVC_TEST_REFUSALS`. Exits with 1 if there are any.

use std::process::ExitCode;

use svc_tests::refusals::never_seen;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: refusals FILE");
        return ExitCode::from(2);
    };
    let seen = match std::fs::read_to_string(&path) {
        Ok(seen) => seen,
        Err(error) => {
            eprintln!("{}: {error}", path.display());
            return ExitCode::from(2);
        }
    };
    let table = svc_core::operation_table().expect("the table");
    let missing = never_seen(&table, &seen);
    for refusal in &missing {
        eprintln!("declared and never seen: {refusal}");
    }
    ExitCode::from(u8::from(!missing.is_empty()))
}
