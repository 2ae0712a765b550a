//! Workspaces that are being imported or erased: periodic work skips them, whatever is due in them.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::id::WorkspaceId;
use svc_tests::database::engines;
use svc_tests::{Setup, World, text};

use crate::portability::origin::{elsewhere, export, failing_to_show, verify};

const DAY: Duration = Duration::from_secs(86_400);

/// Creates a workspace beside the world's own, with a claim that lapses, a gate that expires, and messages
/// and events that are kept for a day.
fn becoming_due(world: &World) -> (WorkspaceId, String) {
    let made = world.admin("create_workspace", json!({"name": "Moving", "admin_handle": "ada"}));
    let workspace: WorkspaceId = text(&made["workspace"]["id"]).parse().unwrap();
    let token = text(&made["token"]["secret"]);
    let call = |operation: &str, input: Value| world.call(&token, operation, input).output();
    let channel = call("create_channel", json!({"workspace_id": workspace, "name": "general"}));
    let thread = |title: &str| call("create_thread", json!({"channel_id": channel["id"], "title": title}));
    let held = thread("held");
    let gated = thread("gated");
    call("claim_thread", json!({"thread_id": held["id"], "lease_secs": 60}));
    let gate = json!({"thread_id": gated["id"], "question": "May it go?", "expires_in_secs": 3600});
    call("request_approval", gate);
    call("post_message", json!({"thread_id": gated["id"], "body": "a word"}));
    let keep = json!({"workspace_id": workspace, "messages_days": 1, "events_days": 1});
    call("set_retention_policy", keep);
    (workspace, token)
}

/// Returns the rows of a workspace that periodic work changes.
fn rows(world: &World, workspace: WorkspaceId) -> Vec<Vec<Vec<Value>>> {
    let id = world.database.id(workspace);
    let of = |what: &str| format!("select {what} where workspace_id = {id} order by 1");
    [
        "lsn, kind from events",
        "id, assignee_id, assignment_expires_at from threads",
        "id, state from approval_gates",
        "id, sealed from messages",
        "lsn, floor, words_floor from heads",
        "lsn from census_at",
        "up_to_lsn, progress from purges",
    ]
    .map(|what| world.database.rows(&of(what)))
    .into()
}

/// Returns the kinds of a workspace's events, without those of its members.
fn done_by_itself(world: &World, workspace: WorkspaceId) -> Vec<String> {
    let id = world.database.id(workspace);
    let sql = format!(
        "select distinct kind from events where workspace_id = {id} and kind in
             ('ClaimExpired', 'ApprovalDecided', 'MessagesPruned', 'EventsPruned') order by kind"
    );
    world.database.rows(&sql).iter().map(|row| text(&row[0])).collect()
}

#[test]
fn what_is_due_in_an_import_is_done_once_it_is_shown() {
    for engine in engines() {
        let origin = World::with(engine, Setup { seed: 51, ..Setup::default() });
        let (workspace, _) = becoming_due(&origin);
        let file = export(&origin, workspace);
        let world = elsewhere(engine);
        world.pass(3 * DAY);
        let [fail, let_go] = failing_to_show(engine);
        world.database.execute(&fail);
        let import = json!({"mode": "restore", "envelope": file, "import_id": "the move"});
        assert_eq!(world.call(&world.people.admin, "import_workspace", import.clone()).status, 500);
        world.database.execute(&let_go);
        let staged = rows(&world, workspace);
        assert!(staged[..4].iter().all(|rows| !rows.is_empty()), "{staged:?}");
        world.service.housekeep().unwrap();
        assert_eq!(rows(&world, workspace), staged);
        // Another call takes it over once the lease of this one has ended.
        world.clock.advance(Duration::from_secs(11));
        world.admin("import_workspace", import);
        world.service.housekeep().unwrap();
        let kinds = ["ApprovalDecided", "ClaimExpired", "EventsPruned", "MessagesPruned"];
        assert_eq!(done_by_itself(&world, workspace), kinds);
        verify(&world);
    }
}

/// Returns statements that make each step of erasing fail, and then succeed again.
fn failing_to_end(engine: Engine) -> [&'static str; 2] {
    match engine {
        Engine::Sqlite => [
            "create trigger unended before update on erased begin select raise(abort, 'not now'); end",
            "drop trigger unended",
        ],
        Engine::Postgres => [
            "create function unended() returns trigger language plpgsql as
             $$ begin raise exception 'not now'; end $$;
             create trigger unended before update on erased for each row execute function unended()",
            "drop trigger unended on erased; drop function unended",
        ],
    }
}

#[test]
fn nothing_is_added_to_the_log_of_a_workspace_that_is_being_erased() {
    for engine in engines() {
        let world = World::with(engine, Setup { seed: 52, ..Setup::default() });
        let (workspace, token) = becoming_due(&world);
        world.clock.advance(3 * DAY);
        let id = world.database.id(workspace);
        // An unfinished purge.
        world.database.execute(&format!(
            "insert into purges (workspace_id, up_to_lsn, until, progress)
             values ({id}, 5, 0, '{{\"removed\":{{}},\"done\":[],\"reached\":0}}')"
        ));
        let [fail, let_go] = failing_to_end(engine);
        world.database.execute(fail);
        let confirm = json!({"workspace_id": workspace, "confirm": "Moving"});
        let erased = world.call(&token, "erase_workspace", confirm).output();
        let left = rows(&world, workspace);
        assert!(left.iter().enumerate().all(|(place, rows)| place == 5 || !rows.is_empty()), "{left:?}");
        world.service.housekeep().expect_err("its rows cannot be removed, and that is reported");
        assert_eq!(rows(&world, workspace), left);
        assert_eq!(left[4][0][0], erased["lsn"], "where it ended");
        world.database.execute(let_go);
        world.pass(Duration::from_secs(10));
        assert!(rows(&world, workspace).iter().all(Vec::is_empty));
        verify(&world);
    }
}
