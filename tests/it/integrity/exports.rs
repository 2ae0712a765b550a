//! Exports: what is in them, and that nobody changes a byte of one unnoticed.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use svc_core::note::{NoteSigner, PublicKey};
use svc_core::ops::{EXPORT_WORKSPACE, ExportWorkspace, Words};
use svc_core::{Code, Error, verify_export};
use svc_tests::{SIGNS, Setup, World, in_parallel, on_both_engines, text};

const DAY: Duration = Duration::from_secs(86_400);

fn keys() -> [PublicKey; 1] {
    [NoteSigner::new(&SIGNS).public()]
}

/// The file of the world's workspace, as text.
fn export(world: &World, words: &str) -> String {
    let path = format!("/workspaces/{}/export?words={words}", world.id("workspace"));
    let rest = world.rest();
    let (head, body) = svc_tests::runtime().block_on(async {
        let answer = rest.raw(Some(&world.people.admin), "GET", &path, &[], None).await;
        let (head, body) = answer.into_parts();
        (head, body.collect().await.unwrap().to_bytes())
    });
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert_eq!(head.status, 200, "{text}");
    let name = format!("workspace-{}-{}.json", world.id("workspace"), world.lsn());
    assert_eq!(head.headers["content-disposition"], format!("attachment; filename=\"{name}\""));
    assert_eq!(head.headers["content-type"], "application/json");
    text
}

fn records(file: &str, kind: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(file).unwrap();
    let records = file["records"].as_array().unwrap().iter();
    records.filter(|record| record["record"] == kind).cloned().collect()
}

/// Why a file is refused.
fn refused(file: &str) -> (Code, String) {
    let error: Error = verify_export(file.as_bytes(), &keys()).expect_err("it is refused");
    let problem = serde_json::to_value(error.problem()).unwrap();
    (error.code(), text(&problem["reason"]))
}

/// A workspace with something of everything, some of which is gone.
fn lived_in(world: &World) {
    let thread = world.id("thread");
    let posted = world.agent("post_message", json!({"thread_id": thread, "body": "as it was \u{1F980}"}));
    world.agent("edit_message", json!({"message_id": posted["id"], "body": "as it became"}));
    let gone = world.agent("post_message", json!({"thread_id": thread, "body": "withdrawn words"}));
    world.admin("delete_message", json!({"message_id": gone["id"]}));
    let private = world.new_private_channel("hidden");
    let hidden = world.new_thread(&private, "in private");
    world.admin("post_message", json!({"thread_id": hidden, "body": "private words"}));
}

#[test]
fn an_export_has_every_row_and_event_and_no_credential() {
    on_both_engines(|world| {
        lived_in(world);
        let file = export(world, "all");
        let report = verify_export(file.as_bytes(), &keys()).unwrap();
        let stored = |table: &str| {
            let workspace = world.database.id(world.id("workspace"));
            world.database.number(&format!("select count(*) from {table} where workspace_id = {workspace}"))
        };
        for table in ["events", "members", "channels", "threads", "messages", "audit"] {
            let found = i64::try_from(records(&file, table).len()).unwrap();
            // The audit row of the export itself came after it.
            assert_eq!(found + i64::from(table == "audit"), stored(table), "{table}");
        }
        assert_eq!(i64::try_from(report.events).unwrap(), world.lsn());
        // As it is read by somebody with the key.
        let messages = records(&file, "messages");
        let live = |row: &&Value| row["withdrawn_at"].is_null();
        assert!(messages.iter().filter(live).all(|row| row["content_key"].is_string()));
        assert!(messages.iter().any(|row| !row["withdrawn_at"].is_null() && row["content_key"].is_null()));
        assert!(!file.contains("private words") && !file.contains("as it became"), "words are sealed");
        for secret in [&world.people.admin, &world.people.agent] {
            assert!(!file.contains(secret.as_str()));
            let hash = hex::encode(svc_core::hash::sha256(secret.as_bytes()));
            assert!(!file.contains(&hash));
        }
        let parsed: Value = serde_json::from_str(&file).unwrap();
        let omitted: BTreeSet<&str> = parsed["manifest"]["omitted"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap())
            .collect();
        assert!(["tokens", "sessions", "shelves", "share_tickets"].iter().all(|name| omitted.contains(name)));
        let audited = world.admin("list_audit", json!({"workspace_id": world.id("workspace"), "limit": 200}));
        assert!(audited.to_string().contains("\"workspace.export\""));
    });
}

#[test]
fn evidence_without_words_has_the_whole_log_and_no_key() {
    on_both_engines(|world| {
        lived_in(world);
        let thread = world.id("thread");
        let claim = world.agent("claim_thread", json!({"thread_id": thread}));
        let lease = &claim["claim_lease_id"];
        let result = json!({"notes": "the result in words"});
        world.agent(
            "set_thread_result",
            json!({"thread_id": thread, "claim_lease_id": lease, "result": result}),
        );
        assert!(export(world, "all").contains("the result in words"));
        let file = export(world, "none");
        verify_export(file.as_bytes(), &keys()).unwrap();
        assert!(!file.contains("the result in words") && !file.contains("content_key"));
        assert_eq!(i64::try_from(records(&file, "events").len()).unwrap(), world.lsn());
    });
}

#[test]
fn a_pruned_log_is_exported_from_its_floor_on() {
    on_both_engines(|world| {
        let keep = json!({"workspace_id": world.id("workspace"), "events_days": 2, "messages_days": 2});
        world.admin("set_retention_policy", keep);
        lived_in(world);
        world.pass(3 * DAY);
        lived_in_again(world);
        let file = export(world, "all");
        let report = verify_export(file.as_bytes(), &keys()).unwrap();
        let header = &serde_json::to_value(&report).unwrap()["header"];
        assert!(header["floor"].as_i64().unwrap() > 1, "{header}");
        assert!(header["words_floor"].as_i64().unwrap() > 1, "{header}");
    });
}

fn lived_in_again(world: &World) {
    let channel = world.new_channel("after");
    let thread = world.new_thread(&channel, "after the pruning");
    world.admin("post_message", json!({"thread_id": thread, "body": "new words"}));
}

#[test]
fn a_file_that_is_formatted_anew_still_verifies() {
    let world = World::open(svc_core::Engine::Sqlite);
    lived_in(&world);
    let file: Value = serde_json::from_str(&export(&world, "all")).unwrap();
    for text in [file.to_string(), serde_json::to_string_pretty(&file).unwrap()] {
        verify_export(text.as_bytes(), &keys()).unwrap();
    }
}

#[test]
fn a_changed_file_is_refused_with_the_reason() {
    let world = World::open(svc_core::Engine::Sqlite);
    lived_in(&world);
    let file = export(&world, "all");
    verify_export(file.as_bytes(), &keys()).unwrap();
    let lines: Vec<&str> = file.lines().collect();
    // Cut at each line.
    for count in 0..lines.len() {
        let cut = lines[..count].join("\n");
        assert_eq!(refused(&cut), (Code::ExportInvalid, "truncated".to_owned()), "cut to {count} lines");
    }
    let is_record = |line: &str| line.starts_with('{') && line.contains("\"record\":");
    let numbers: Vec<usize> = (0..lines.len()).filter(|number| is_record(lines[*number])).collect();
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut changed: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        change(&mut changed);
        changed.join("\n")
    };
    // A record left out, and two swapped.
    for number in numbers.iter().skip(1).step_by(7) {
        let without = with(&|lines| drop(lines.remove(*number)));
        let reason = refused(&without).1;
        assert!(["hash", "order", "chain"].contains(&reason.as_str()), "{number}: {reason}");
        if number + 1 < *numbers.last().unwrap() {
            let swapped = with(&|lines| lines.swap(*number, number + 1));
            let reason = refused(&swapped).1;
            assert!(["order", "chain"].contains(&reason.as_str()), "{number}: {reason}");
        }
    }
    let replaced = |from: &str, to: &str| {
        assert!(file.contains(from), "{from}");
        refused(&file.replacen(from, to, 1)).1
    };
    assert_eq!(replaced("svc.workspace.export/1", "svc.workspace.export/2"), "not-an-export");
    assert_eq!(replaced("\"record\":\"workspaces\"", "\"record\":\"workspace\""), "unknown-field");
    assert_eq!(replaced("\"record\":\"members\"", "\"record\":\"members\",\"age\":7"), "unknown-field");
    assert_eq!(
        replaced("\"record\":\"members\"", "\"record\":\"members\",\"api_key\":\"x\""),
        "credential-field"
    );
    assert_eq!(replaced("\"record\":\"members\"", "\"record\":\"tokens\""), "credential-field");
    assert_eq!(replaced("\"header\":{", "\"header\":{\"secret\":1,"), "unknown-field");
    assert_eq!(replaced("\"private\":false", "\"private\":true"), "hash");
    assert_eq!(replaced("\"private\":false", "\"private\":0"), "unknown-field");
    assert_eq!(replaced("\\\"$chain\\\":{\\\"at\\\":1", "\\\"$chain\\\":{\\\"at\\\":2"), "chain");
    assert_eq!(replaced("\"words\":\"all\"", "\"words\":\"none\""), "hash");
    assert_eq!(replaced("\\n\\n\u{2014} svc/", "\\n\\n- svc/"), "signature");
    assert_eq!(refused("{}").1, "not-an-export");
    assert_eq!(refused("[]").1, "not-an-export");
    assert_eq!(refused(&format!("{file} more")).1, "not-an-export");
    let other = [NoteSigner::new(&[1; 32]).public()];
    let error = verify_export(file.as_bytes(), &other).unwrap_err();
    assert_eq!(serde_json::to_value(error.problem()).unwrap()["reason"], "unknown-key");
    // One bit of each part of the file.
    for place in (0..file.len()).step_by(file.len() / 200) {
        let mut bytes = file.clone().into_bytes();
        bytes[place] ^= 1;
        if bytes[place].is_ascii_whitespace() || file.as_bytes()[place].is_ascii_whitespace() {
            continue;
        }
        verify_export(bytes.as_slice(), &keys()).expect_err(&format!("the bit at {place}"));
    }
}

#[test]
fn without_a_key_nothing_is_exported() {
    let world = World::with(svc_core::Engine::Sqlite, Setup { signs: false, ..Setup::default() });
    let input = json!({"workspace_id": world.id("workspace")});
    let refused = world.call(&world.people.admin, "export_workspace", input);
    assert_eq!((refused.status, refused.code()), (409, "not-enabled"));
}

/// The export that the documentation shows, which every world believes.
///
/// With `UPDATE_GOLDEN` it is made again, of a workspace that has just been created.
#[test]
fn the_documented_export_verifies() {
    let world = World::open(svc_core::Engine::Sqlite);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../svc-core/src/integrity/portability/example.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let made = world.admin("create_workspace", json!({"name": "Small", "admin_handle": "ada"}));
        let workspace = text(&made["workspace"]["id"]).parse().unwrap();
        let input = ExportWorkspace { workspace_id: workspace, words: Words::All };
        let content = EXPORT_WORKSPACE.call_as_instance(&world.service, workspace, input).unwrap();
        std::fs::write(path, content.read().unwrap()).unwrap();
    }
    let file = std::fs::read(path).unwrap();
    let report = verify_export(file.as_slice(), &keys()).unwrap();
    let mut envelope: Value = serde_json::from_slice(&file).unwrap();
    let answer = world.admin("verify_workspace_export", json!({"envelope": envelope}));
    assert_eq!(answer, serde_json::to_value(&report).unwrap());
    envelope["header"]["head"]["lsn"] = json!(report.events + 1);
    let refused = world.call(&world.people.admin, "verify_workspace_export", json!({"envelope": envelope}));
    assert_eq!(refused.refused(400, "export-invalid")["reason"], "hash");
}

#[test]
fn a_broken_log_is_not_exported() {
    on_both_engines(|world| {
        lived_in(world);
        let workspace = world.database.id(world.id("workspace"));
        world.database.execute(&format!(
            "update events set payload = replace(payload, 'attribution', 'attributiom')
             where workspace_id = {workspace} and lsn = 7"
        ));
        let input = json!({"workspace_id": world.id("workspace")});
        let refused =
            world.call(&world.people.admin, "export_workspace", input).refused(409, "event-log-broken");
        assert_eq!(refused["lsn"], 7);
    });
}

/// Somebody who sends a file slowly delays others, and no more.
#[test]
fn files_are_received_one_after_another() {
    let world = World::open(svc_core::Engine::Sqlite);
    lived_in(&world);
    let (file, rest) = (export(&world, "all"), world.rest());
    let (first, second) = file.split_at(file.len() / 2);
    let mut slow = TcpStream::connect(world.address()).unwrap();
    let head = format!(
        "POST /workspaces/export/verify HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{first}",
        world.address(),
        world.people.admin,
        file.len()
    );
    slow.write_all(head.as_bytes()).unwrap();
    let body: Value = serde_json::from_str(&file).unwrap();
    let path = "/workspaces/export/verify";
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| rest.send(Some(&world.people.admin), "POST", path, &[], Some(&body)));
        slow.write_all(second.as_bytes()).unwrap();
        let mut answer = String::new();
        slow.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert_eq!(waits.join().unwrap().status, 200);
    });
    // Who is not allowed sends nothing that is kept.
    let refused = rest.send(Some(&world.people.agent), "POST", path, &[], Some(&body));
    refused.refused(403, "missing-capability");
    let empty = rest.send(Some(&world.people.admin), "POST", path, &[], None);
    empty.refused(400, "malformed-request");
    assert_eq!(rest.send(Some(&world.people.admin), "POST", path, &[], Some(&body)).status, 200);
}

/// Whoever asks for an export while another one is made gets it after that.
#[test]
fn exports_are_made_one_after_another() {
    on_both_engines(|world| {
        lived_in(world);
        let lens = in_parallel(6, |_| {
            let input = json!({"workspace_id": world.id("workspace"), "words": "none"});
            world.call(&world.people.admin, "export_workspace", input).output().to_string().len()
        });
        assert!(lens.iter().all(|len| *len > 1000), "{lens:?}");
    });
}
