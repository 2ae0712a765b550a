//! Erasing a workspace leaves nothing of it but the event that records it.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::api::ExportWorkspace;
use svc_core::id::WorkspaceId;
use svc_core::verify::verify_database;
use svc_tests::database::engines;
use svc_tests::{World, text};

const SECOND: Duration = Duration::from_secs(1);

/// Text that occurs nowhere else.
const WORD: &str = "quetzalcoatl-of-the-erased";

/// Creates a workspace beside the world's own, and returns its id and its administrator's token.
fn another(world: &World) -> (WorkspaceId, String) {
    let made = world.admin("create_workspace", json!({"name": "Gone soon", "admin_handle": "ada"}));
    let workspace: WorkspaceId = text(&made["workspace"]["id"]).parse().unwrap();
    let token = text(&made["token"]["secret"]);
    let call = |operation: &str, input: Value| world.call(&token, operation, input).output();
    let channel = call("create_channel", json!({"workspace_id": workspace, "name": "general"}));
    let thread = call("create_thread", json!({"channel_id": channel["id"], "title": "a task"}));
    call("post_message", json!({"thread_id": thread["id"], "body": WORD}));
    call("create_agent", json!({"workspace_id": workspace, "handle": "builder"}));
    (workspace, token)
}

fn verify(world: &World) {
    let reports = verify_database(&world.database.address(), None, None).unwrap();
    assert!(reports.iter().all(|report| report.valid), "{reports:?}");
}

fn export(world: &World, workspace: WorkspaceId) -> Value {
    let input = ExportWorkspace::new().workspace_id(workspace);
    let content = world.service.call_as_instance(workspace, &input).unwrap();
    serde_json::from_slice(&content.read().unwrap()).unwrap()
}

#[test]
fn nothing_of_an_erased_workspace_is_left() {
    for engine in engines() {
        let world = World::open(engine);
        let before = world.database.dump();
        let (workspace, token) = another(&world);
        let id = world.database.id(workspace);
        let events = world.database.number(&format!("select max(lsn) from events where workspace_id = {id}"));
        let erase = |confirm: &str| {
            world.call(&token, "erase_workspace", json!({"workspace_id": workspace, "confirm": confirm}))
        };
        erase("Gone").refused(400, "malformed-request");
        let erased = erase("Gone soon").output();
        assert_eq!(erased["lsn"], json!(events));
        // All access ends at once.
        assert_eq!(world.call(&token, "whoami", json!({})).status, 401);
        verify(&world);
        world.pass(10 * SECOND);
        let after = world.database.dump();
        for (table, rows) in &before {
            if !["events", "audit", "heads", "erased", "leases", "scrubs"].contains(&table.as_str()) {
                assert_eq!(&after[table], rows, "{table}");
            }
        }
        for table in ["events", "audit", "heads", "messages", "members", "shelves"] {
            let left = format!("select count(*) from {table} where workspace_id = {id}");
            assert_eq!(world.database.number(&left), 0, "{table}");
        }
        verify(&world);
    }
}

/// Rows that refer to others are removed before them, and a workspace that cannot be erased does not block
/// others.
#[test]
fn a_workspace_goes_with_its_consumers_and_without_the_one_that_cannot_go() {
    for engine in engines() {
        let world = World::open(engine);
        let made = [another(&world), another(&world)];
        let kept = another(&world);
        let mut erased: Vec<(WorkspaceId, String)> = made.into_iter().chain([kept]).collect();
        erased.sort_by_key(|(workspace, _)| workspace.to_string());
        for (workspace, token) in &erased {
            let id = world.database.id(*workspace);
            world.database.execute(&format!(
                "insert into consumers (workspace_id, member_id, consumer_id, after_id, holder, seen_at)
                 select workspace_id, id, 'sync', 0, id, 0 from members where workspace_id = {id} limit 1"
            ));
            let confirm = json!({"workspace_id": workspace, "confirm": "Gone soon"});
            world.call(token, "erase_workspace", confirm).output();
        }
        let first = world.database.id(erased[0].0);
        world.database.execute(&format!("update erased set place = 'none' where workspace_id = {first}"));
        world.clock.advance(10 * SECOND);
        world.service.housekeep().unwrap_err();
        let left = |table: &str| world.database.number(&format!("select count(*) from {table}"));
        let of_first = format!("where workspace_id = {first}");
        for (workspace, _) in &erased[1..] {
            let id = world.database.id(*workspace);
            for table in ["messages", "members", "consumers"] {
                assert_eq!(left(&format!("{table} where workspace_id = {id}")), 0, "{table}");
            }
        }
        assert!(left(&format!("members {of_first}")) > 0, "it cannot be told how far this one has come");
    }
}

#[test]
fn an_erased_workspace_comes_back_from_its_export_alone() {
    for engine in engines() {
        let world = World::open(engine);
        let (workspace, token) = another(&world);
        let file = export(&world, workspace);
        let confirm = json!({"workspace_id": workspace, "confirm": "Gone soon"});
        world.call(&token, "erase_workspace", confirm).output();
        world.pass(10 * SECOND);
        let restore = json!({"mode": "restore", "envelope": file, "admin_handle": "ada"});
        let other = world.new_token(vec!["token:admin"]);
        world.call(&other, "import_workspace", restore.clone()).refused(403, "forbidden");
        // This token has the same capabilities as the administrator's.
        let operator = world.new_token(vec!["workspace:read", "token:admin", "operator:global"]);
        world.call(&operator, "import_workspace", restore.clone()).refused(503, "overloaded");
        world.pass(30 * SECOND);
        let restored = world.call(&operator, "import_workspace", restore).output();
        let secret = text(&restored["admin_token"]["secret"]);
        let thread = file["records"].as_array().unwrap().iter().find(|row| row["title"] == "a task").unwrap();
        let messages = world.call(&secret, "list_messages", json!({"thread_id": thread["id"]})).output();
        assert_eq!(messages["items"][0]["body"], WORD);
        verify(&world);
    }
}

/// An import has one name and one outcome, until its workspace is erased.
#[test]
fn what_was_erased_is_imported_again_under_the_same_name() {
    for engine in engines() {
        let world = World::open(engine);
        let (workspace, mut token) = another(&world);
        let file = export(&world, workspace);
        let operator = world.new_token(vec!["token:admin", "operator:global"]);
        let import = json!({"mode": "restore", "envelope": file, "admin_handle": "ada", "import_id": "back"});
        for _ in 0..2 {
            let confirm = json!({"workspace_id": workspace, "confirm": "Gone soon"});
            world.call(&token, "erase_workspace", confirm).output();
            world.pass(10 * SECOND);
            world.pass(30 * SECOND);
            let restored = world.call(&operator, "import_workspace", import.clone()).output();
            assert_eq!(restored["created"], json!(true));
            token = text(&restored["admin_token"]["secret"]);
            let again = world.call(&operator, "import_workspace", import.clone()).output();
            assert_eq!(again["created"], json!(false));
            assert_eq!(world.call(&token, "whoami", json!({})).status, 200);
        }
        verify(&world);
    }
}

/// Every step continues after the previous one, including rows that do not name a workspace.
#[test]
fn a_large_workspace_is_erased_in_steps() {
    for engine in engines() {
        let world = World::open(engine);
        let (workspace, token) = another(&world);
        let id = world.database.id(workspace);
        let call = |operation: &str, input: Value| world.call(&token, operation, input).output();
        let channel = call("create_channel", json!({"workspace_id": workspace, "name": "large"}));
        let first = call("create_thread", json!({"channel_id": channel["id"], "title": "the first"}));
        for number in 0..700 {
            let title = format!("task {number}");
            let thread = json!({"channel_id": channel["id"], "title": title, "depends_on": [first["id"]]});
            call("create_thread", thread);
        }
        let before = world.database.number("select count(*) from thread_dependencies");
        call("erase_workspace", json!({"workspace_id": workspace, "confirm": "Gone soon"}));
        world.pass(10 * SECOND);
        let left = |table: &str| {
            world.database.number(&format!("select count(*) from {table} where workspace_id = {id}"))
        };
        assert_eq!(["threads", "events", "shelves", "heads"].map(left), [0; 4]);
        assert_eq!(world.database.number("select count(*) from thread_dependencies"), before - 700);
        verify(&world);
    }
}

#[test]
fn a_hold_and_being_the_last_one_keep_a_workspace() {
    for engine in engines() {
        let world = World::open(engine);
        let (workspace, token) = another(&world);
        let held =
            world.call(&token, "place_legal_hold", json!({"workspace_id": workspace, "reason": "a dispute"}));
        let hold = held.output()["id"].clone();
        let confirm = json!({"workspace_id": workspace, "confirm": "Gone soon"});
        world.call(&token, "erase_workspace", confirm.clone()).refused(409, "legal-hold");
        world
            .call(&token, "release_legal_hold", json!({"workspace_id": workspace, "hold_id": hold}))
            .output();
        world.call(&token, "erase_workspace", confirm).output();
        world.pass(10 * SECOND);
        let others = "select count(*) from workspaces where state = 'live'";
        let mut left = world.database.number(others);
        // The others, until one remains.
        let own = world.database.id(world.id("workspace"));
        world.database.execute(&format!("update workspaces set state = 'elsewhere' where id <> {own}"));
        left -= world.database.number(others);
        assert!(left >= 0 && world.database.number(others) == 1);
        let last = json!({"workspace_id": world.id("workspace"), "confirm": "Night shift"});
        world.call(&world.people.admin, "erase_workspace", last).refused(409, "wrong-state");
    }
}
