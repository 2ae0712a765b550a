//! The programs under a library that changes the time or counts memory, like faketime, heaptrack and
//! profilers: such a library must control the C library's `malloc` and the clock.

use std::path::PathBuf;
use std::process::Command;

use serde_json::json;
use svc_tests::database::{engines, skipped};
use svc_tests::process::{program, run};
use svc_tests::site::Site;

/// The variable with the path of the library that is preloaded.
const LIBRARY: &str = "SVC_TEST_PRELOAD";
/// The variable with the path of the program that such a library crashes.
const CONTROL: &str = "SVC_TEST_PRELOAD_CONTROL";

fn path(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os(name).map(PathBuf::from);
    if found.is_none() {
        skipped("preloaded libraries", name);
    }
    found
}

#[test]
fn programs_start_under_a_library_that_replaces_the_clock_and_malloc() {
    let Some((library, control)) = path(LIBRARY).zip(path(CONTROL)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let counts = folder.path().join("counts");
    for name in ["svc-http", "svc"] {
        let mut command = Command::new(program(name));
        command.arg("--help").env("LD_PRELOAD", &library).env("PRELOAD_COUNTS", &counts);
        let ended = run(&mut command);
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        assert!(ended.out.contains("Usage"), "{name}: {ended:?}");
        assert!(mallocs(&counts) > 0, "{name} was not run under the library");
    }
    // An allocator that replaces the C library's reads the clock, which is not ready yet.
    assert_eq!(run(&mut Command::new(&control)).code, Some(0), "the control works alone");
    let crashed = run(Command::new(&control).env("LD_PRELOAD", &library));
    assert_eq!(crashed.code, None, "the library crashes no program: {crashed:?}");
}

#[test]
fn a_server_serves_under_such_a_library_and_its_database_allocates_there() {
    let Some(library) = path(LIBRARY) else { return };
    let folder = tempfile::tempdir().unwrap();
    for engine in engines() {
        let counts = folder.path().join(format!("counts-{engine:?}"));
        let site = Site::found(engine);
        let variables =
            [("LD_PRELOAD", library.to_str().unwrap()), ("PRELOAD_COUNTS", counts.to_str().unwrap())];
        let mut server = site.serve(&variables);
        let me = server.caller(&site.founders.admin).get("/me");
        let channels = format!("/workspaces/{}/channels", me["workspace_id"].as_str().unwrap());
        server.caller(&site.founders.admin).post(&channels, json!({"name": "under-a-library"}));
        server.running.end();
        // SQLite allocates for each statement.
        let fewest = if engine == svc_core::Engine::Sqlite { 5_000 } else { 0 };
        assert!(mallocs(&counts) > fewest, "on {engine:?} memory is not the C library's");
    }
}

/// Returns how often memory was allocated through the library.
fn mallocs(counts: &std::path::Path) -> u64 {
    let text = std::fs::read_to_string(counts).unwrap();
    text.split_whitespace().nth(1).unwrap().parse().unwrap()
}
