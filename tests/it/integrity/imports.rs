//! Imports: what comes out of a file is what went into it, on either engine, or nothing.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::database::engines;
use svc_tests::{World, text};

use crate::integrity::origin::{Origin, elsewhere, export, failing_to_show, verify, ways};

#[test]
fn a_restored_workspace_is_what_was_exported_on_every_engine() {
    for (from, to) in ways() {
        let origin = Origin::new(from, 5);
        let file = origin.export();
        let world = elsewhere(to);
        let restored = world.admin("import_workspace", json!({"mode": "restore", "envelope": file}));
        assert_eq!(restored["workspace_id"], json!(origin.workspace));
        assert_eq!((&restored["created"], &restored["admin_token"]), (&json!(true), &json!(null)));
        assert_eq!(restored["head_hash"], file["header"]["head"]["content_hash"]);
        verify(&world);
        let again = export(&world, origin.workspace);
        for member in ["records", "manifest"] {
            assert_eq!(again[member], file[member], "{member} from {from:?} to {to:?}");
        }
    }
}

#[test]
fn its_administrator_goes_on_where_the_others_left_off() {
    for (from, to) in ways() {
        let origin = Origin::new(from, 6);
        let file = origin.export();
        let world = elsewhere(to);
        let input = json!({"mode": "restore", "envelope": file, "admin_handle": "ada"});
        let restored = world.admin("import_workspace", input);
        let secret = text(&restored["admin_token"]["secret"]);
        let call = |operation: &str, input: Value| world.call(&secret, operation, input).output();
        let workspace = origin.workspace;
        let records = file["records"].as_array().unwrap();
        let channel = &records.iter().find(|row| row["name"] == "general").unwrap()["id"];
        let listed = |world: &World, token: &str| {
            world.call(token, "list_threads", json!({"channel_id": channel, "limit": 100})).output()
        };
        assert_eq!(listed(&world, &secret), listed(&origin.world, &origin.token));
        let thread =
            &file["records"].as_array().unwrap().iter().find(|row| row["title"] == "held").unwrap()["id"];
        let messages = call("list_messages", json!({"thread_id": thread}));
        let before = origin.call("list_messages", json!({"thread_id": thread}));
        assert_eq!(messages, before);
        call("post_message", json!({"thread_id": thread, "body": "from here on"}));
        let claimed = call("claim_next_workspace_thread", json!({"workspace_id": workspace}));
        assert_eq!(claimed["title"], "task 0");
        call("verify_event_chain", json!({"workspace_id": workspace}));
        verify(&world);
        // The token of before leads nowhere.
        let refused = world.call(&origin.token, "whoami", json!({}));
        assert_eq!(refused.status, 401);
    }
}

#[test]
fn an_import_is_repeated_by_its_id_and_nothing_is_restored_twice() {
    for engine in engines() {
        let origin = Origin::new(engine, 7);
        let file = origin.export();
        let world = elsewhere(engine);
        let id = "the move of ada";
        let input = json!({"mode": "restore", "envelope": file, "import_id": id, "admin_handle": "ada"});
        let first = world.admin("import_workspace", input.clone());
        let second = world.admin("import_workspace", input);
        assert_eq!((&second["created"], &second["admin_token"]), (&json!(false), &json!(null)));
        assert_eq!(first["head_hash"], second["head_hash"]);
        let again = json!({"mode": "restore", "envelope": file});
        world.call(&world.people.admin, "import_workspace", again).refused(409, "workspace-exists");
        let other = Origin::new(engine, 8).export();
        let taken = json!({"mode": "restore", "envelope": other, "import_id": id});
        world.call(&world.people.admin, "import_workspace", taken).refused(409, "wrong-state");
        let unknown = json!({"mode": "restore", "envelope": other, "admin_handle": "nobody"});
        world.call(&world.people.admin, "import_workspace", unknown).refused(404, "not-found");
        let mut evidence = origin.export();
        evidence["header"]["words"] = json!("none");
        let refused = json!({"mode": "restore", "envelope": evidence});
        let problem =
            world.call(&world.people.admin, "import_workspace", refused).refused(400, "export-invalid");
        assert_eq!(problem["reason"], "hash");
    }
}

#[test]
fn what_an_import_has_left_that_ended_early_is_removed_and_was_never_seen() {
    for engine in engines() {
        let origin = Origin::new(engine, 9);
        let file = origin.export();
        let world = elsewhere(engine);
        let before = world.database.dump();
        let workspace = world.database.id(origin.workspace);
        let [fail, let_go] = failing_to_show(engine);
        world.database.execute(&fail);
        let input = json!({"mode": "restore", "envelope": file});
        assert_eq!(world.call(&world.people.admin, "import_workspace", input.clone()).status, 500);
        world.database.execute(&let_go);
        let staged = format!("select count(*) from messages where workspace_id = {workspace}");
        assert!(world.database.number(&staged) > 0, "its rows were written");
        world.call(&world.people.admin, "import_workspace", input).refused(409, "workspace-exists");
        let token = world.new_token(vec!["workspace:read", "operator:global"]);
        let listed = world.call(&token, "list_workspaces", json!({"limit": 100})).output();
        assert!(!listed.to_string().contains(&origin.workspace.to_string()));
        verify(&world);
        world.pass(Duration::from_secs(60));
        let left = world.database.dump();
        for (table, rows) in before {
            if ["events", "audit", "heads", "tokens", "leases", "imports"].contains(&table.as_str()) {
                continue;
            }
            assert_eq!(left[&table], rows, "{table}");
        }
        let events = format!("select count(*) from events where workspace_id = {workspace}");
        assert_eq!(world.database.number(&events), 0);
        assert_eq!(world.database.number("select count(*) from imports"), 0);
        world.admin("import_workspace", json!({"mode": "restore", "envelope": file}));
        verify(&world);
    }
}
