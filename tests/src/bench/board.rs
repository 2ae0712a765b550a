//! The cost of the board in a browser, compared with minimal pages.
//!
//! `tests/ui/bench/board.js` measures it, in Chromium and with the programs beside this one. It describes the
//! floors.

use serde_json::{Value, json};

use crate::browser::{CHROMIUM, PACKAGES, script};
use crate::process::run as run_to_its_end;

/// Measures this many pairs. Returns a sentence as the error if a requirement is missing.
pub fn run(pairs: usize) -> Result<Value, String> {
    let Some(mut node) = script("bench", &["board.js", "--pairs", &pairs.to_string()]) else {
        return Err(format!("bench board needs {PACKAGES} and {CHROMIUM}, as tests/run sets them"));
    };
    let outcome = run_to_its_end(&mut node);
    let Some(line) = outcome.out.lines().last().filter(|_| outcome.code == Some(0)) else {
        return Err(format!("bench board failed:\n{}{}", outcome.out, outcome.err));
    };
    let measured: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
    let mut report = json!({"name": "board"});
    if let (Some(report), Some(measured)) = (report.as_object_mut(), measured.as_object()) {
        report.extend(measured.clone());
    }
    Ok(report)
}
