//! Exports: their contents, and that every change of a byte is detected.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use svc_core::api::ExportWorkspace;
use svc_core::signed_note::{NoteSigner, PublicKey};
use svc_core::verify_export;
use svc_tests::database::engines;
use svc_tests::{SIGNS, Setup, World, in_parallel, on_both_engines, text};

const DAY: Duration = Duration::from_secs(86_400);

/// Returns the key that signs in every world.
pub fn keys() -> [PublicKey; 1] {
    [NoteSigner::new(&SIGNS).public()]
}

/// Returns the file of the world's workspace, as text.
pub fn export(world: &World, words: &str) -> String {
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

/// Creates a workspace with one of everything, some of which is removed again.
pub fn lived_in(world: &World) {
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
        // Read as a holder of the key does.
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

/// Over MCP a file is an object, limited by the sizes of a reply and a request.
#[test]
fn what_is_too_large_for_mcp_goes_over_http() {
    let world = World::open(svc_core::Engine::Sqlite);
    lived_in(&world);
    let admin = Some(world.people.admin.as_str());
    let mcp = world.mcp();
    let export_row = world.operation("export_workspace");
    let input = json!({"workspace_id": world.id("workspace")});
    let file = mcp.call(admin, export_row, &input).output();
    let verify_row = world.operation("verify_workspace_export");
    let verified = mcp.call(admin, verify_row, &json!({"envelope": file})).output();
    assert_eq!(verified["valid"], json!(true));
    let thread = world.id("thread");
    for _ in 0..20 {
        let body = "many words ".repeat(9000);
        world.agent("post_message", json!({"thread_id": thread, "body": body}));
    }
    mcp.call(admin, export_row, &input).refused(413, "body-too-large");
    let file = export(&world, "all");
    assert!(file.len() > 4 << 20, "{}", file.len());
    let body: Value = serde_json::from_str(&file).unwrap();
    let path = "/workspaces/export/verify";
    assert_eq!(world.rest().send(admin, "POST", path, &[], Some(&body)).status, 200);
    let over_mcp = mcp.call(admin, verify_row, &json!({"envelope": body}));
    over_mcp.refused(413, "body-too-large");
}

#[test]
fn without_a_key_nothing_is_exported() {
    let world = World::with(svc_core::Engine::Sqlite, Setup { signs: false, ..Setup::default() });
    let input = json!({"workspace_id": world.id("workspace")});
    let refused = world.call(&world.people.admin, "export_workspace", input);
    assert_eq!((refused.status, refused.code()), (409, "not-enabled"));
}

/// The export in the documentation, which every world accepts.
///
/// `UPDATE_GOLDEN` creates it again, from a new workspace.
#[test]
fn the_documented_export_verifies() {
    let world = World::open(svc_core::Engine::Sqlite);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../svc-core/src/portability/example.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let made = world.admin("create_workspace", json!({"name": "Small", "admin_handle": "ada"}));
        let workspace: svc_core::id::WorkspaceId = text(&made["workspace"]["id"]).parse().unwrap();
        let input = ExportWorkspace::new().workspace_id(workspace);
        let content = world.service.call_as_instance(workspace, &input).unwrap();
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

/// A slow upload delays no other request.
#[test]
fn a_file_that_comes_slowly_is_in_nobodys_way() {
    let world = World::open(svc_core::Engine::Sqlite);
    lived_in(&world);
    let file = export(&world, "all");
    let rest = world.rest();
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
    let (body, path): (Value, &str) = (serde_json::from_str(&file).unwrap(), "/workspaces/export/verify");
    for _ in 0..3 {
        assert_eq!(rest.send(Some(&world.people.admin), "POST", path, &[], Some(&body)).status, 200);
    }
    slow.write_all(second.as_bytes()).unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // A caller without the right cannot make the server store anything.
    let refused = rest.send(Some(&world.people.agent), "POST", path, &[], Some(&body));
    refused.refused(403, "missing-capability");
    let empty = rest.send(Some(&world.people.admin), "POST", path, &[], None);
    empty.refused(400, "malformed-request");
    assert_eq!(rest.send(Some(&world.people.admin), "POST", path, &[], Some(&body)).status, 200);
}

/// If an export is requested while another one runs, it starts after that.
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

/// A page that was interrupted by a lost connection is read again.
///
/// One connection breaks in an export: two that break one after another are too many.
#[test]
fn an_export_goes_on_after_its_connection_has_broken() {
    if !engines().contains(&svc_core::Engine::Postgres) {
        return;
    }
    let world = World::open(svc_core::Engine::Postgres);
    lived_in(&world);
    let one_of_others = "select count(pg_terminate_backend(pid)) from (
                           select pid from pg_stat_activity
                           where datname = current_database() and application_name = 'svc'
                           and state <> 'idle' and query like '%payload%' limit 1) as reading";
    let export = || {
        let input = json!({"workspace_id": world.id("workspace")});
        world.call(&world.people.admin, "export_workspace", input).status
    };
    let broken_export = || {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let breaking = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if world.database.number(one_of_others) > 0 {
                        return true;
                    }
                }
                false
            });
            let status = export();
            is_over.store(true, Ordering::Relaxed);
            (status, breaking.join().unwrap())
        })
    };
    // A read survives one broken connection. The connection may also break just after an export, and would be
    // the first of two in the next one.
    let pair = || [(export(), false), broken_export()];
    let exports: Vec<(u16, bool)> = (0..20).flat_map(|_| pair()).collect();
    assert!(exports.iter().all(|(status, _)| *status == 200), "{exports:?}");
    assert!(exports.iter().any(|(_, is_broken)| *is_broken), "{exports:?}");
}
