//! Imports: the result of a file is complete, on either engine, or nothing.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::database::engines;
use svc_tests::{World, text};

use crate::portability::origin::{Origin, elsewhere, export, failing_to_show, verify, ways};

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
        // The former token is invalid.
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
        // Evidence has no content and cannot become a workspace.
        for mode in ["restore", "new"] {
            let refused = json!({"mode": mode, "envelope": origin.evidence()});
            let problem =
                world.call(&world.people.admin, "import_workspace", refused).refused(400, "export-invalid");
            assert_eq!(problem["reason"], "not-an-export");
        }
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
        let busy = world.call(&world.people.admin, "import_workspace", input).refused(503, "overloaded");
        assert_eq!(busy["retry_after_secs"], json!(10));
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

/// A repeated call completes it, once the interrupted one had the time to continue, without any other help.
#[test]
fn an_import_takes_over_what_another_one_has_left() {
    for engine in engines() {
        for (mode, id) in [("restore", None), ("restore", Some("mine")), ("new", Some("mine"))] {
            let origin = Origin::new(engine, 10);
            let world = elsewhere(engine);
            let [fail, let_go] = failing_to_show(engine);
            world.database.execute(&fail);
            let input = json!({"mode": mode, "envelope": origin.export(), "import_id": id});
            assert_eq!(world.call(&world.people.admin, "import_workspace", input.clone()).status, 500);
            world.database.execute(&let_go);
            world.call(&world.people.admin, "import_workspace", input.clone()).refused(503, "overloaded");
            world.clock.advance(Duration::from_secs(11));
            let imported = world.admin("import_workspace", input);
            assert_eq!(imported["created"], json!(true), "{mode} {id:?}");
            let left = |rows: &str| world.database.number(&format!("select count(*) from {rows}"));
            assert_eq!(left("workspaces where state <> 'live'"), 0);
            assert_eq!((left("imports where outcome is null"), left("imports")), (0, 1));
            assert_eq!(left("messages"), 3 + left_before(&world), "{mode} {id:?}");
            verify(&world);
        }
    }
}

/// Returns the messages that every world begins with.
fn left_before(world: &World) -> i64 {
    let own = world.database.id(world.id("workspace"));
    world.database.number(&format!("select count(*) from messages where workspace_id = {own}"))
}

/// A handle does not reveal a hidden workspace that is to have it.
#[test]
fn a_handle_is_free_until_the_workspace_that_has_it_is_shown() {
    for engine in engines() {
        for is_taken in [false, true] {
            let origin = Origin::new(engine, 11);
            let world = elsewhere(engine);
            let [fail, let_go] = failing_to_show(engine);
            world.database.execute(&fail);
            let input = json!({"mode": "restore", "envelope": origin.export()});
            assert_eq!(world.call(&world.people.admin, "import_workspace", input.clone()).status, 500);
            world.database.execute(&let_go);
            let take = |handle: &str| {
                let handle = json!({"workspace_id": world.id("workspace"), "handle": handle});
                world.admin("set_workspace_handle", handle);
            };
            take("moving");
            if !is_taken {
                take("another");
            }
            world.clock.advance(Duration::from_secs(11));
            let imported = world.admin("import_workspace", input);
            assert_eq!(imported["handle"], if is_taken { json!(null) } else { json!("moving") });
        }
    }
}

/// A file of which only a part was imported is refused like one that was imported completely.
#[test]
fn a_workspace_with_an_id_that_there_is_exists() {
    for engine in engines() {
        let origin = Origin::new(engine, 12);
        let file = origin.export();
        let world = elsewhere(engine);
        let records = file["records"].as_array().unwrap();
        let channel = records.iter().find(|row| row["record"] == "channels").unwrap();
        let id = |id: &str| world.database.id(id.parse::<uuid::Uuid>().unwrap());
        let own = id(&world.new_channel("other"));
        let its = id(channel["id"].as_str().unwrap());
        world.database.execute(&format!("update channels set id = {its} where id = {own}"));
        let input = json!({"mode": "restore", "envelope": file});
        world.call(&world.people.admin, "import_workspace", input).refused(409, "workspace-exists");
        world.pass(Duration::from_secs(60));
        assert_eq!(world.database.number("select count(*) from imports"), 0);
        // A copy has new ids.
        world.admin("import_workspace", json!({"mode": "new", "envelope": file}));
        verify(&world);
    }
}

/// A later version may add anything; only the version of the file counts.
#[test]
fn a_file_of_a_later_version_is_refused_with_both_versions() {
    for engine in engines() {
        let file = Origin::new(engine, 10).export();
        let world = elsewhere(engine);
        let own = file["header"]["schema"].to_string();
        let changed = |change: &dyn Fn(&mut Value)| {
            let mut file = file.clone();
            change(&mut file);
            let input = json!({"mode": "restore", "envelope": file});
            world.call(&world.people.admin, "import_workspace", input).refused(400, "export-invalid")
        };
        let later = |file: &mut Value| file["header"]["schema"] = json!(9999);
        for problem in [
            changed(&later),
            changed(&|file| {
                later(file);
                file["header"]["since_then"] = json!({"secret": 1});
            }),
        ] {
            let detail = text(&problem["detail"]);
            assert!(detail.contains("9999") && detail.contains(&own), "{detail}");
        }
        let problem = changed(&|file| file["type"] = json!("svc.workspace.export/2"));
        let detail = text(&problem["detail"]);
        assert!(
            detail.contains("svc.workspace.export/2") && detail.contains("svc.workspace.export/1"),
            "{detail}"
        );
        let problem = changed(&|file| file["header"]["since_then"] = json!(1));
        assert_eq!(problem["reason"], "unknown-field", "one of this version has no such field");
    }
}
