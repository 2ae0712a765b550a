//! Crashes: a server that is killed under load, repeatedly on the same database.
//!
//! It must keep every write that it acknowledged, the log must be intact, and claims must follow their rules.
//! A kill cannot show that a write has reached the disk, so the settings that guarantee it are asserted as
//! well.

use std::time::Duration;

use svc_core::Engine;
use svc_tests::World;
use svc_tests::database::engines;
use svc_tests::ordeal::callers::{Workload, write_during};
use svc_tests::ordeal::checker::{assert_sound, check};
use svc_tests::ordeal::record::{Record, Verdict};
use svc_tests::site::{Server, Site};

const ROUNDS: usize = 20;
/// Rounds after which everything is checked.
const CHECK_EVERY: usize = 10;
/// More than the 32 that must be in flight, because some callers are always between two requests.
const CALLERS: usize = 48;
/// Acknowledged writes after which a round's server is killed.
///
/// Their number changes from round to round, so that the kill does not always come at the same point.
const WRITES: [usize; 4] = [60, 97, 134, 171];
/// A round that takes longer than this has stalled.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Lets callers write until `wanted` writes are acknowledged, then kills the server.
fn crash(server: &mut Server, workload: &Workload, wanted: usize) -> Vec<Record> {
    let callers = (0..CALLERS).map(|number| workload.caller(number, server.address())).collect();
    let (records, in_flight) = write_during(callers, |progress| {
        assert!(progress.wait_for(wanted, TIMEOUT), "{} of {wanted} writes", progress.acknowledged());
        let in_flight = progress.in_flight();
        server.running.kill();
        in_flight
    });
    assert!(in_flight >= 32, "only {in_flight} callers were in flight");
    assert!(records.iter().any(|record| record.verdict == Verdict::Unknown), "no request was cut off");
    let refused = records.iter().find(|record| matches!(record.verdict, Verdict::Refused(500.., _)));
    assert!(refused.is_none(), "refused without a reason: {refused:?}");
    records
}

fn every_acknowledged_write_survives(engine: Engine) {
    let site = Site::found(engine);
    let workload = Workload::prepare(&site, CALLERS);
    let mut records = Vec::new();
    for round in 1..=ROUNDS {
        records.extend(crash(&mut site.serve(&[]), &workload, WRITES[round % WRITES.len()]));
        if round % CHECK_EVERY == 0 {
            let what = format!("round {round} on {}", engine.name());
            assert_sound(&what, &check(&site, &records));
            workload.assert_claims_kept(&what, &site);
        }
    }
}

#[test]
fn every_acknowledged_write_survives_a_kill() {
    for engine in engines() {
        every_acknowledged_write_survives(engine);
    }
}

#[test]
fn writers_have_durable_settings() {
    for engine in engines() {
        let settings = World::open(engine).service.durability().unwrap();
        let wanted = match engine {
            Engine::Sqlite => "synchronous=2",
            Engine::Postgres => "synchronous_commit=on fsync=on",
        };
        assert!(!settings.is_empty(), "{}", engine.name());
        assert!(settings.iter().all(|setting| setting == wanted), "{settings:?}");
    }
}
