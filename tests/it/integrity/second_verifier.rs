//! A second verifier, written from the manual in another language, agrees with ours on good and broken logs.

use std::io::Write as _;
use std::process::Command;

use serde_json::{Value, json};
use svc_core::Database;
use svc_core::note::NoteSigner;
use svc_core::verify::sign_checkpoint;
use svc_tests::database::skipped;
use svc_tests::ordeal::rounds;
use svc_tests::process::run;
use svc_tests::simulation::Random;
use svc_tests::{World, on_both_engines};
use tempfile::NamedTempFile;

use super::retention::{random_history, report_of, tampers, verified};

/// The variable with the Python that has what the tests need.
const PYTHON: &str = "SVC_TEST_PYTHON";

/// What the second verifier says of each file; none if this run has no Python.
fn said(arguments: &[String]) -> Option<Vec<Value>> {
    let Some(python) = std::env::var_os(PYTHON) else {
        skipped("the second verifier", PYTHON);
        return None;
    };
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/py/verifier.py")).args(arguments);
    let outcome = run(&mut command);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    Some(outcome.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// What our verifier says, in the words of the other.
fn ours(world: &World, database: &Database) -> Value {
    let report = report_of(world, database);
    if let Some(broken) = report.broken {
        return json!({"valid": false, "broken": broken.lsn});
    }
    let workspace = Some(world.id("workspace").into());
    let signed = sign_checkpoint(database, workspace, &NoteSigner::new(&[5; 32])).unwrap();
    json!({"valid": true, "floor": report.floor, "events": report.events, "lsn": report.head.lsn,
        "hash": report.head.hash, "root": hex::encode(signed.checkpoint.root)})
}

#[test]
fn two_verifiers_agree_on_good_and_broken_logs() {
    let (mut compared, mut good) = (0, 0);
    for seed in 0..6 * u64::try_from(rounds()).unwrap() {
        let (world, mut random) = random_history(100 + seed);
        let report = verified(&world);
        let mut wanted = Vec::new();
        let mut arguments = vec!["database".to_owned(), world.id("workspace").to_string()];
        let some = |random: &mut Random| {
            report.floor + i64::try_from(random.below(usize::try_from(report.events).unwrap())).unwrap()
        };
        let places = [report.floor, report.head.lsn, some(&mut random)];
        let tampers = places.iter().flat_map(|lsn| tampers(&world, *lsn));
        for (number, tamper) in ["select 1".to_owned()].into_iter().chain(tampers).enumerate() {
            let copy = world.database.copy_file(&format!("copy{number}.db"));
            rusqlite::Connection::open(&copy).unwrap().execute_batch(&tamper).unwrap();
            arguments.push(copy.to_str().unwrap().to_owned());
            wanted.push((tamper, ours(&world, &Database::Sqlite(copy))));
        }
        let Some(said) = said(&arguments) else { return };
        assert_eq!(said.len(), wanted.len());
        for (said, (tamper, wanted)) in said.iter().zip(&wanted) {
            assert_eq!(said, wanted, "seed {seed}: {tamper}");
            good += usize::from(wanted["valid"] == true);
        }
        compared += wanted.len();
    }
    assert!(compared >= 200 && good >= 6 && good < compared / 2, "{good} of {compared} are good");
}

/// The pages of the whole log, one on a line.
fn pages(world: &World) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    let mut input = json!({"workspace_id": world.id("workspace")});
    loop {
        let page = world.admin("catch_up_events", input.clone());
        writeln!(file, "{page}").unwrap();
        if page["after_lsn"] == page["room_lsn"] {
            return file;
        }
        input["after_lsn"] = page["after_lsn"].clone();
    }
}

#[test]
fn what_catching_up_returns_is_verified_by_itself() {
    on_both_engines(|world| {
        let input = json!({"workspace_id": world.id("workspace"), "events_days": 2});
        world.admin("set_retention_policy", input);
        for _ in 0..3 {
            let thread = json!({"channel_id": world.id("channel"), "title": "Grüße \"an\" alle \\o/"});
            world.agent("create_thread", thread);
            let file = pages(world);
            let arguments = ["catch-up".to_owned(), file.path().to_str().unwrap().to_owned()];
            let Some(found) = said(&arguments) else { return };
            assert_eq!(found, [ours(world, &world.database.address())]);
            let whole = std::fs::read_to_string(file.path()).unwrap();
            let changed = whole.replace("Grüße", "Gruesse");
            assert_ne!(changed, whole);
            std::fs::write(file.path(), changed).unwrap();
            assert_eq!(said(&arguments).unwrap()[0]["valid"], false, "a control");
            world.pass(std::time::Duration::from_secs(86_400));
        }
        assert!(verified(world).floor > 1);
    });
}
