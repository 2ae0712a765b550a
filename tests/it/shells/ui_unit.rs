//! The modules of the board, on the files that are served: their behaviour, the rules of their source, and
//! their types.

use std::path::{Path, PathBuf};

use svc_tests::browser::{self, PACKAGES};
use svc_tests::database::skipped;
use svc_tests::process::run;

/// Returns the folder of packages, if this run has it.
fn packages() -> Option<PathBuf> {
    let found = std::env::var_os(PACKAGES).map(PathBuf::from);
    if found.is_none() {
        skipped("the modules of the board", PACKAGES);
    }
    found
}

/// Runs Node.js in the folder of the board's tests, and returns its output.
fn node(packages: &Path, arguments: &[&str]) -> String {
    let outcome = run(browser::node(packages, "").args(arguments));
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.out, outcome.err);
    outcome.out
}

/// Runs files of tests, and returns how many tests have passed.
fn passed(packages: &Path, files: &str) -> usize {
    let out = node(packages, &["--import", "./packages.js", "--test", "--test-reporter=tap", files]);
    let count = out.lines().find_map(|line| line.strip_prefix("# pass "));
    count.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{out}"))
}

#[test]
fn each_module_does_what_it_says() {
    let Some(packages) = packages() else { return };
    assert!(passed(&packages, "unit/*.test.js") >= 90);
}

#[test]
fn the_source_keeps_to_its_rules() {
    let Some(packages) = packages() else { return };
    assert!(passed(&packages, "source.test.js") >= 10);
}

#[test]
fn the_types_hold() {
    let Some(packages) = packages() else { return };
    let compiler = packages.join("node_modules/typescript/bin/tsc");
    node(&packages, &[compiler.to_str().unwrap(), "--project", "tsconfig.json"]);
}
