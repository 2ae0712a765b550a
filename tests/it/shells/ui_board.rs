//! The board in Chromium, on the real server: runs the tests in tests/ui/board.
//!
//! Each test here runs a few files there, each in a separate world, so that no test takes long. Long runs
//! repeat some of them: in the dark theme, in other languages, and on Postgres with browsers and agents at
//! two servers.

use std::process::Command;

use secrecy::ExposeSecret;
use svc_core::{Database, Engine};
use svc_tests::browser::{CHROMIUM, script};
use svc_tests::database::{POSTGRES, TestDatabase, engines, is_long, skipped};
use svc_tests::process::run;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ui/board");
/// The variables with the proxies that are put in front of the service.
const PROXIES: [&str; 3] = ["SVC_TEST_NGINX", "SVC_TEST_CADDY", "SVC_TEST_HAPROXY"];

/// Returns the command that runs files of tests, if this run has their requirements.
fn runner(files: &[&str]) -> Option<Command> {
    let node = script("board", &[&["runner.js"], files].concat());
    if node.is_none() {
        skipped("the board in a browser", CHROMIUM);
    }
    node
}

#[track_caller]
fn pass(node: &mut Command) {
    let outcome = run(node);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.out, outcome.err);
}

/// Runs files of tests, which must pass.
#[track_caller]
fn on_sqlite(files: &[&str]) {
    if let Some(mut node) = runner(files) {
        pass(&mut node);
    }
}

/// Runs files of tests that repeat others under other conditions, in long runs.
#[track_caller]
fn on_sqlite_if_long(files: &[&str]) {
    if is_long("the board under other circumstances") {
        on_sqlite(files);
    }
}

/// Runs files of tests on Postgres in long runs, each with two servers on a separate database.
#[track_caller]
fn on_postgres_if_long(files: &[&str]) {
    if !is_long("the board on two servers") {
        return;
    }
    if !engines().contains(&Engine::Postgres) {
        return skipped("the board on two servers", POSTGRES);
    }
    for file in files {
        let Some(mut node) = runner(&[file]) else { return };
        let database = TestDatabase::on(Engine::Postgres);
        let Database::Postgres(address) = database.address() else { unreachable!("asked for Postgres") };
        pass(node.env("SVC_TEST_DATABASE", address.expose_secret()).env("SVC_TEST_SERVERS", "2"));
    }
}

#[test]
fn one_signs_in_and_begins() {
    on_sqlite(&["signing-in", "first-run", "prefix", "sent"]);
}

#[test]
fn behind_real_proxies_everything_is_the_same() {
    if let Some(missing) = PROXIES.iter().find(|variable| std::env::var_os(variable).is_none()) {
        return skipped("the service behind proxies", missing);
    }
    on_sqlite(&["proxies", "forged", "nginx", "nginx-unset"]);
}

#[test]
fn people_come_from_a_provider_and_in_several_tabs() {
    on_sqlite(&["oidc", "tabs"]);
}

#[test]
fn an_older_copy_is_told_and_what_tests_rely_on_can_fail() {
    on_sqlite(&["restored", "controls"]);
}

#[test]
fn the_board_is_live_and_still() {
    on_sqlite(&["board"]);
}

#[test]
fn a_task_is_worked_on_and_judged() {
    on_sqlite(&["task"]);
}

#[test]
fn what_is_refused_stands_beside_the_thing() {
    on_sqlite(&["refusals"]);
}

#[test]
fn what_is_shown_is_what_is_known() {
    on_sqlite(&["live"]);
}

#[test]
fn people_and_an_agent_are_at_it_together() {
    on_sqlite(&["together", "keyboard"]);
}

#[test]
fn what_needs_one_and_what_happened_is_told() {
    on_sqlite(&["now", "log"]);
}

#[test]
fn people_talk_hold_and_administer() {
    on_sqlite(&["talk", "people", "administration"]);
}

#[test]
fn everything_can_be_done_by_the_palette() {
    on_sqlite(&["palette"]);
}

#[test]
fn a_hostile_workspace_is_text() {
    on_sqlite(&["hostile"]);
}

#[test]
fn what_was_written_looks_as_it_was_meant() {
    on_sqlite(&["markdown"]);
}

#[test]
fn it_is_for_everyone_in_the_light() {
    on_sqlite(&["looks-light"]);
}

#[test]
fn it_is_for_everyone_in_the_dark() {
    on_sqlite_if_long(&["looks-dark"]);
}

#[test]
fn it_fits_a_phone() {
    on_sqlite(&["phone"]);
}

#[test]
fn it_looks_as_in_the_pictures() {
    on_sqlite(&["pictures"]);
}

#[test]
fn it_speaks_other_languages() {
    on_sqlite_if_long(&["languages"]);
}

#[test]
fn at_two_servers_on_postgres_it_is_the_same() {
    on_postgres_if_long(&["board", "together"]);
}

#[test]
fn at_two_servers_on_postgres_a_task_is_the_same() {
    on_postgres_if_long(&["task"]);
}

#[test]
fn no_file_of_tests_is_forgotten() {
    let source = include_str!("ui_board.rs");
    let names =
        std::fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(".spec.js")?.to_owned())).collect();
    let forgotten: Vec<&String> =
        files.iter().filter(|name| !source.contains(&format!("\"{name}\""))).collect();
    assert!(files.len() >= 20 && forgotten.is_empty(), "{forgotten:?}");
}
