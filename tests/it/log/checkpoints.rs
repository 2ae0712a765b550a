//! Checkpoints: a signed state of a log can be proven later, pruned or not, and be read by other programs.

use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use signed_note::{Note, StandardVerifier, VerifierList};
use svc_core::signed_note::{NoteSigner, PublicKey, verifier_key};
use svc_core::verify::{
    ChainReport, Defect, ExpectedFound, SignedCheckpoint, sign_checkpoint, verify_checkpoint,
};
use svc_core::{Code, Database, Engine};
use svc_tests::{Setup, World, on_both_engines, text};
use tlog_tiles::Checkpoint;

const DAY: Duration = Duration::from_secs(86_400);

fn signer() -> NoteSigner {
    NoteSigner::new(&[5; 32])
}

fn keys() -> [PublicKey; 1] {
    [signer().public()]
}

fn sign(world: &World) -> SignedCheckpoint {
    sign_checkpoint(&world.database.address(), Some(world.id("workspace").into()), &signer()).unwrap()
}

fn verify(world: &World, checkpoint: &SignedCheckpoint) -> ChainReport {
    verify_checkpoint(&world.database.address(), &checkpoint.note, &keys()).unwrap()
}

fn post(world: &World, count: usize) {
    for _ in 0..count {
        world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "a word"}));
    }
}

#[test]
fn a_log_holds_what_was_signed_of_it_pruned_or_not() {
    on_both_engines(|world| {
        let keep = json!({"workspace_id": world.id("workspace"), "events_days": 10});
        world.admin("set_retention_policy", keep);
        let old = sign(world);
        assert_eq!(i64::try_from(old.checkpoint.size).unwrap(), world.lsn());
        post(world, 9);
        let newest_that_goes = sign(world);
        world.clock.advance(6 * DAY);
        post(world, 5);
        let kept = sign(world);
        post(world, 2);
        for checkpoint in [&old, &newest_that_goes, &kept] {
            assert_eq!(verify(world, checkpoint).expected, Some(ExpectedFound::Contained));
        }
        world.pass(5 * DAY);
        assert_eq!(verify(world, &old).expected, Some(ExpectedFound::BelowFloor));
        let report = verify(world, &kept);
        assert_eq!((report.valid, report.expected), (true, Some(ExpectedFound::Contained)), "{report:?}");
        assert!(report.floor > i64::try_from(old.checkpoint.size).unwrap());
        post(world, 3);
        let after = sign(world);
        world.pass(7 * DAY);
        assert_eq!(verify(world, &after).expected, Some(ExpectedFound::Contained));
        assert_eq!(verify(world, &kept).expected, Some(ExpectedFound::BelowFloor));
    });
}

/// Returns the content hashes of the events after a position.
fn hashes_after(world: &World, lsn: i64) -> Vec<[u8; 32]> {
    let (mut hashes, mut after): (Vec<[u8; 32]>, i64) = (Vec::new(), lsn);
    loop {
        let input = json!({"workspace_id": world.id("workspace"), "after_lsn": after, "limit": 200});
        let page = world.admin("catch_up_events", input);
        let hash = |event: &Value| -> [u8; 32] {
            let digits = text(&event["content_hash"]).replace("sha256:", "");
            hex::decode(digits).unwrap().try_into().unwrap()
        };
        hashes.extend(page["items"].as_array().unwrap().iter().map(hash));
        after = page["after_lsn"].as_i64().unwrap();
        if page["after_lsn"] == page["room_lsn"] {
            return hashes;
        }
    }
}

/// Returns the root of RFC 6962, section 2.1, by its definition.
fn root(hashes: &[[u8; 32]]) -> [u8; 32] {
    let hash = |parts: &[&[u8]]| Sha256::digest(parts.concat()).into();
    match hashes {
        [] => hash(&[]),
        [leaf] => hash(&[&[0], leaf]),
        _ => {
            let (left, right) = hashes.split_at(hashes.len().next_power_of_two() / 2);
            hash(&[&[1], &root(left), &root(right)])
        }
    }
}

#[test]
fn the_root_is_that_of_all_events_also_of_those_that_are_gone() {
    on_both_engines(|world| {
        let keep = json!({"workspace_id": world.id("workspace"), "events_days": 1});
        world.admin("set_retention_policy", keep);
        let mut hashes = hashes_after(world, 0);
        for round in 0..4 {
            assert_eq!(sign(world).checkpoint.root, root(&hashes), "round {round}");
            post(world, 7 + round);
            hashes.extend(hashes_after(world, i64::try_from(hashes.len()).unwrap()));
            let before = world.lsn();
            world.pass(2 * DAY);
            assert!(world.lsn() > before, "pruned in round {round}");
            hashes.extend(hashes_after(world, before));
        }
        assert_eq!(hashes.len(), usize::try_from(world.lsn()).unwrap());
    });
}

#[test]
fn a_log_that_was_rewritten_does_not_hold_what_was_signed() {
    let world = World::open(Engine::Sqlite);
    post(&world, 3);
    let copy = Database::Sqlite(world.database.copy_file("copy.db"));
    // Two histories with the same beginning.
    post(&world, 2);
    let checkpoint = sign(&world);
    let report = verify_checkpoint(&copy, &checkpoint.note, &keys()).unwrap();
    let found = report.broken.map(|broken| (broken.lsn, broken.defect));
    assert_eq!(found, Some((report.head.lsn + 1, Defect::Expected)), "the end was cut off");
    let changed =
        rusqlite::Connection::open(world.database.file().unwrap().with_file_name("copy.db")).unwrap();
    changed.execute("update events set at = at + 1 where lsn = 9", []).unwrap();
    let report = verify_checkpoint(&copy, &checkpoint.note, &keys()).unwrap();
    assert_eq!(report.broken.unwrap().defect, Defect::Columns);
    let error = sign_checkpoint(&copy, Some(world.id("workspace").into()), &signer()).unwrap_err();
    assert_eq!(error.code(), Code::EventLogBroken, "what is broken is not signed");

    let forged = svc_core::signed_note::Checkpoint { root: [3; 32], ..checkpoint.checkpoint.clone() };
    let report = verify_checkpoint(&world.database.address(), &forged.sign(&signer()), &keys()).unwrap();
    let lsn = i64::try_from(forged.size).unwrap();
    let found = report.broken.map(|broken| (broken.lsn, broken.defect));
    assert_eq!(found, Some((lsn, Defect::Expected)), "another history was signed");
    for (note, keys) in [
        (checkpoint.note.clone(), vec![]),
        (checkpoint.note.clone(), vec![NoteSigner::new(&[6; 32]).public()]),
        (forged.sign(&NoteSigner::new(&[6; 32])), keys().to_vec()),
        (checkpoint.note.replace("svc/", "abc/"), keys().to_vec()),
        (String::new(), keys().to_vec()),
    ] {
        let refused = verify_checkpoint(&world.database.address(), &note, &keys).unwrap_err();
        assert_eq!(refused.code(), Code::Malformed, "{note}");
    }
    let elsewhere =
        svc_core::signed_note::Checkpoint { origin: "elsewhere".to_owned(), ..checkpoint.checkpoint };
    let refused = verify_checkpoint(&world.database.address(), &elsewhere.sign(&signer()), &keys());
    assert_eq!(refused.unwrap_err().code(), Code::Malformed);
}

#[test]
fn others_read_a_checkpoint_by_the_published_formats() {
    let world = World::with(Engine::Sqlite, Setup { in_memory: true, ..Setup::default() });
    let signed = sign(&world);
    let origin = &signed.checkpoint.origin;
    assert_eq!(*origin, format!("svc/{}", world.id("workspace")));
    let note = Note::from_bytes(signed.note.as_bytes()).unwrap();
    let known = |key: &PublicKey| {
        let verifier = StandardVerifier::new(&verifier_key(origin, key)).unwrap();
        VerifierList::new(vec![Box::new(verifier)])
    };
    let (verified, unknown) = note.verify(&known(&signer().public())).unwrap();
    assert_eq!((verified.len(), unknown.len()), (1, 0));
    let other = NoteSigner::new(&[6; 32]).public();
    assert!(note.verify(&known(&other)).is_err(), "a control: another key has not signed it");
    let read = Checkpoint::from_bytes(note.text()).unwrap();
    let checkpoint = &signed.checkpoint;
    assert_eq!((read.origin(), read.size(), read.hash().0), (&**origin, checkpoint.size, checkpoint.root));
    assert_eq!(read.extension(), "");
}
