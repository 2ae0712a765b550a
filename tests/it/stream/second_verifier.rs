//! A second verifier, written from the manual in another language, agrees with ours on good and broken logs.

use std::io::Write as _;
use std::process::Command;

use serde_json::{Value, json};
use svc_core::api::{ExportTexts, ExportWorkspace};
use svc_core::id::WorkspaceId;
use svc_core::signed_note::{NoteSigner, PublicKey};
use svc_core::verify::sign_checkpoint;
use svc_core::{Database, Engine, verify_export};
use svc_tests::database::{engines, skipped};
use svc_tests::ordeal::rounds;
use svc_tests::process::{program, run};
use svc_tests::simulation::Random;
use svc_tests::site::command;
use svc_tests::{SIGNS, World, on_both_engines};
use tempfile::NamedTempFile;

use crate::audit::histories::History;
use crate::portability::origin::export;
use crate::retention::policy::verified;

/// The variable with the path of the Python that has the packages of the tests.
const PYTHON: &str = "SVC_TEST_PYTHON";

/// Returns the second verifier's report on each file, or `None` if this run has no Python.
fn said(arguments: &[String]) -> Option<Vec<Value>> {
    said_by("verifier.py", arguments)
}

fn said_by(script: &str, arguments: &[String]) -> Option<Vec<Value>> {
    let Some(python) = std::env::var_os(PYTHON) else {
        skipped("the second verifier", PYTHON);
        return None;
    };
    let mut command = Command::new(python);
    command.arg(format!("{}/py/{script}", env!("CARGO_MANIFEST_DIR"))).args(arguments);
    let outcome = run(&mut command);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    Some(outcome.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Returns our verifier's report, in the terms of the other.
fn ours(database: &Database, workspace: WorkspaceId, report: &Value) -> Value {
    if let Some(broken) = report.get("broken") {
        return json!({"valid": false, "broken": broken["lsn"]});
    }
    let signed = sign_checkpoint(database, Some(workspace), &NoteSigner::new(&[5; 32])).unwrap();
    json!({"valid": true, "floor": report["floor"], "events": report["events"],
        "lsn": report["head"]["lsn"], "hash": report["head"]["hash"],
        "root": hex::encode(signed.checkpoint.root)})
}

/// Returns the program's report on the log of a history.
fn by_program(history: &History) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let workspace = history.workspace.to_string();
    let data = match history.world.database.file() {
        Some(file) => file.parent().unwrap().to_owned(),
        None => folder.path().to_owned(),
    };
    let arguments = ["verify", "--json", "--workspace", &workspace, "--data", data.to_str().unwrap()];
    let outcome = run(&mut command(program("svc"), &arguments, &history.world.database));
    let said: Value =
        serde_json::from_str(&outcome.out).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    assert_eq!(outcome.code == Some(0), said["valid"] == true, "{outcome:?}");
    said["logs"][0].clone()
}

/// Copies the log of a history to a file of SQLite, from any engine, with the columns in the manual.
fn copied(history: &History) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let database = &history.world.database;
    let copy = rusqlite::Connection::open(file.path()).unwrap();
    let bytes = ["workspace_id", "hash", "channel_id", "thread_id", "member_id", "prev_hash", "content_hash"];
    for (table, columns) in [
        ("heads", "workspace_id, lsn, hash, floor, pruned_at, words_floor, at"),
        (
            "events",
            "workspace_id, lsn, kind, at, channel_id, thread_id, member_id, prev_hash, content_hash, payload",
        ),
    ] {
        let names: Vec<&str> = columns.split(", ").collect();
        copy.execute_batch(&format!("create table {table} ({columns}); begin")).unwrap();
        let places = vec!["?"; names.len()].join(", ");
        let mut insert = copy.prepare(&format!("insert into {table} values ({places})")).unwrap();
        let own = database.id(history.workspace);
        for row in database.rows(&format!("select {columns} from {table} where workspace_id = {own}")) {
            let values = row.iter().zip(&names).map(|(value, name)| match value {
                Value::Number(number) => rusqlite::types::Value::Integer(number.as_i64().unwrap()),
                Value::String(digits) if bytes.contains(name) => {
                    rusqlite::types::Value::Blob(hex::decode(digits).unwrap())
                }
                Value::String(text) => rusqlite::types::Value::Text(text.clone()),
                _ => rusqlite::types::Value::Null,
            });
            insert.execute(rusqlite::params_from_iter(values)).unwrap();
        }
        copy.execute_batch("commit").unwrap();
    }
    file
}

#[test]
fn two_verifiers_agree_on_good_and_broken_logs() {
    let mut compared = 0;
    let mut good = 0;
    for seed in 0..2 * u64::try_from(rounds()).unwrap() {
        for engine in engines() {
            let mut history = History::new((engine, engine), 100 + seed);
            let report = history.report();
            let places = [report.floor, report.head.lsn, history.some(&report)];
            let tampers: Vec<String> = places.iter().flat_map(|lsn| history.tampers(*lsn)).collect();
            let mut files = Vec::new();
            let mut wanted = Vec::new();
            for tamper in ["select 1".to_owned()].into_iter().chain(tampers) {
                history.tampered(&tamper, || {
                    let said = serde_json::to_value(history.report()).unwrap();
                    // For some logs the program itself runs: it differs only in how it reads and prints.
                    if wanted.len() % 4 == 0 {
                        assert_eq!(by_program(&history), said, "{tamper}");
                    }
                    wanted.push((tamper.clone(), ours(&history.database(), history.workspace, &said)));
                    files.push(copied(&history));
                });
            }
            let mut arguments = vec!["database".to_owned(), history.workspace.to_string()];
            arguments.extend(files.iter().map(|file| file.path().to_str().unwrap().to_owned()));
            let Some(said) = said(&arguments) else { return };
            assert_eq!(said.len(), wanted.len());
            for (said, (tamper, wanted)) in said.iter().zip(&wanted) {
                assert_eq!(said, wanted, "seed {seed} on {engine:?}: {tamper}");
                good += usize::from(wanted["valid"] == true);
            }
            compared += wanted.len();
        }
    }
    assert!(compared >= 100 * engines().len() && good > 0 && good < compared / 2, "{good} of {compared}");
}

/// Returns the pages of the whole log, one per line.
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
            let report = serde_json::to_value(verified(world)).unwrap();
            assert_eq!(found, [ours(&world.database.address(), world.id("workspace").into(), &report)]);
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

/// Returns a file with one of its lines, bits or members changed.
fn changed(whole: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = whole.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    // One of the lines of records, which are neither the first nor the last ones.
    let at = 3 + random.below(lines.len() - 6);
    match random.below(6) {
        0 => drop(lines.remove(at)),
        1 => lines.swap(at, at + 1),
        2 => lines.insert(at, lines[at].clone()),
        3 => lines.truncate(at),
        4 => {
            let text = String::from_utf8(lines[at].clone()).unwrap();
            lines[at] = text.replacen("{\"", "{\"a_member\":1,\"", 1).into_bytes();
        }
        _ => {
            let mut bytes = whole.to_vec();
            let place = random.below(bytes.len() - 1);
            bytes[place] ^= 1 << random.below(7);
            return bytes;
        }
    }
    lines.concat()
}

#[test]
fn two_verifiers_agree_on_good_and_changed_exports() {
    let mut files = Vec::new();
    let mut wanted = Vec::new();
    let key: PublicKey = NoteSigner::new(&SIGNS).public();
    for seed in 0..2 * u64::try_from(rounds()).unwrap() {
        let mut history = History::new((Engine::Sqlite, Engine::Sqlite), 300 + seed);
        let world = &history.world;
        let workspace_id = history.workspace;
        let formatted = serde_json::to_vec_pretty(&export(world, workspace_id)).unwrap();
        let evidence = ExportWorkspace::new().workspace_id(workspace_id).words(ExportTexts::None);
        let whole = world.service.call_as_instance(workspace_id, &evidence).unwrap();
        let whole = whole.read().unwrap();
        let tampered: Vec<Vec<u8>> = (0..40).map(|_| changed(&whole, &mut history.random)).collect();
        for bytes in [formatted, whole].into_iter().chain(tampered) {
            wanted.push(verify_export(bytes.as_slice(), &[key]).map(|report| report.head()).ok());
            let mut file = NamedTempFile::new().unwrap();
            file.write_all(&bytes).unwrap();
            files.push(file);
        }
    }
    let paths = files.iter().map(|file| file.path().to_str().unwrap().to_owned());
    let arguments: Vec<String> = [hex::encode(key)].into_iter().chain(paths).collect();
    for (file, wanted) in arguments[1..].iter().zip(&wanted).step_by(4) {
        let nowhere = tempfile::tempdir().unwrap();
        let mut svc = std::process::Command::new(program("svc"));
        svc.args(["verify", "--key", &arguments[0], file, "--data"]).arg(nowhere.path());
        assert_eq!(run(&mut svc).code == Some(0), wanted.is_some(), "{file}");
    }
    let Some(said) = said_by("export_verifier.py", &arguments) else { return };
    assert_eq!(said.len(), wanted.len());
    for (number, (said, wanted)) in said.iter().zip(&wanted).enumerate() {
        let head = said["valid"]
            .as_bool()
            .unwrap()
            .then(|| format!("{}:{}", said["lsn"], said["hash"].as_str().unwrap()));
        assert_eq!(&head, wanted, "file {number}: {said}");
    }
    let good = wanted.iter().flatten().count();
    assert!(good >= 4 && good < wanted.len() / 4, "{good} of {} are good", wanted.len());
}
