//! Files that were exported by the last build with schema 71 on each engine, before the schema was restarted.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::database::engines;
use svc_tests::state::assert_state;
use svc_tests::{World, text};

use crate::portability::origin::{elsewhere, export, verify};

/// Each file, and the content hash of its head.
const FILES: [(&str, &str); 2] = [
    (
        include_str!("../../exports/schema_71_sqlite.json"),
        "sha256:4a3431879294c90f6fb7dcfcb8fd92c2e3cd2a288e15fe36849b0e66a1f93b61",
    ),
    (
        include_str!("../../exports/schema_71_postgres.json"),
        "sha256:6154d0b07257b7c32f80dbdc1e7e2402ff8ccf89b207fe7f05f502defc124990",
    ),
];

/// A span after which the clock of a world is later than all times of the files.
const TO_THE_FILES: Duration = Duration::from_secs(30 * 86_400);

/// Imports the file into another instance, and returns the outcome.
fn imported(file: &str, mode: &str, admin: Option<&str>, engine: Engine) -> (World, Value) {
    let world = elsewhere(engine);
    world.pass(TO_THE_FILES);
    let file: Value = serde_json::from_str(file).unwrap();
    let input = json!({"mode": mode, "envelope": file, "admin_handle": admin});
    let outcome = world.admin("import_workspace", input);
    (world, outcome)
}

#[test]
fn a_file_from_before_the_baseline_is_restored_with_its_head_hash() {
    for (engine, (file, head)) in engines().into_iter().flat_map(|engine| FILES.map(|file| (engine, file))) {
        let (world, restored) = imported(file, "restore", None, engine);
        let file: Value = serde_json::from_str(file).unwrap();
        assert_eq!((&file["header"]["schema"], &restored["head_hash"]), (&json!(71), &json!(head)));
        verify(&world);
        let again = export(&world, text(&restored["workspace_id"]).parse().unwrap());
        assert_eq!(again["records"], file["records"], "{engine:?}");
        assert_eq!(again["header"]["head"], file["header"]["head"]);
        // A file of that schema lacks no column, so the restored rows are proven by the log.
        assert_state(&world.database.address());
    }
}

#[test]
fn what_a_file_from_before_the_baseline_says_can_be_read() {
    for (engine, (file, _)) in engines().into_iter().flat_map(|engine| FILES.map(|file| (engine, file))) {
        for mode in ["restore", "new"] {
            let (world, made) = imported(file, mode, Some("admin"), engine);
            let secret = text(&made["admin_token"]["secret"]);
            let read = |operation: &str, input: Value| world.call(&secret, operation, input).output();
            let workspace = &made["workspace_id"];
            let threads = read("list_workspace_threads", json!({"workspace_id": workspace, "limit": 100}));
            let thread = threads["items"].as_array().unwrap().iter().find(|row| row["title"] == "a task");
            let thread = &thread.unwrap_or_else(|| panic!("{threads}"))["id"];
            let messages = read("list_messages", json!({"thread_id": thread, "limit": 100}));
            let messages = messages["items"].as_array().unwrap();
            let said = |body: &str| messages.iter().filter(|message| message["body"] == body).count();
            assert_eq!((said("then, @admin"), said("words that stay")), (1, 1), "{messages:?}");
            assert!(messages.iter().all(|message| message["unreadable"] == false), "{messages:?}");
            let withdrawn: Vec<&Value> = messages.iter().filter(|row| row["withdrawn"] == true).collect();
            assert!(!withdrawn.is_empty() && withdrawn.iter().all(|row| row["body"] == ""), "{withdrawn:?}");
            let result = read("get_thread_result", json!({"thread_id": thread}));
            assert!(result.to_string().contains("\"notes\":\"done\""), "{result}");
            let blocks = read("list_thread_memory_blocks", json!({"thread_id": thread}));
            assert!(blocks.to_string().contains("what was learned since"), "{blocks}");
            let votes = read("list_votes", json!({"thread_id": thread}));
            let tally = &votes["items"][0]["options"];
            assert_eq!((&tally[0]["votes"], &tally[1]["votes"]), (&json!(0), &json!(2)), "{votes}");
            read("verify_event_chain", json!({"workspace_id": workspace}));
        }
    }
}
