//! Imports: what comes out of a file is what went into it, on either engine, or nothing.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::id::WorkspaceId;
use svc_core::ops::{EXPORT_WORKSPACE, ExportWorkspace, Words};
use svc_core::verify::verify_database;
use svc_tests::database::engines;
use svc_tests::{Setup, World, text};

/// A workspace beside the world's own, with something of everything.
struct Origin {
    world: World,
    workspace: WorkspaceId,
    token: String,
}

impl Origin {
    fn new(engine: Engine, seed: u64) -> Self {
        let world = World::with(engine, Setup { seed, ..Setup::default() });
        let made = world.admin("create_workspace", json!({"name": "Moving", "admin_handle": "ada"}));
        let workspace: WorkspaceId = text(&made["workspace"]["id"]).parse().unwrap();
        let token = text(&made["token"]["secret"]);
        let origin = Self { world, workspace, token };
        origin.fill();
        origin
    }

    fn call(&self, operation: &str, input: Value) -> Value {
        self.world.call(&self.token, operation, input).output()
    }

    fn fill(&self) {
        let workspace = self.workspace;
        self.call("set_workspace_handle", json!({"workspace_id": workspace, "handle": "moving"}));
        let agent = self.call("create_agent", json!({"workspace_id": workspace, "handle": "builder"}));
        let (agent_id, agent_token) = (&agent["member"]["id"], text(&agent["token"]["secret"]));
        let channel = self.call("create_channel", json!({"workspace_id": workspace, "name": "general"}));
        let private = json!({"workspace_id": workspace, "name": "hidden", "private": true});
        let private = self.call("create_channel", private);
        for number in 0..3 {
            let title = format!("task {number}");
            self.call("create_thread", json!({"channel_id": channel["id"], "title": title}));
        }
        let footprint = json!({"repo": "https://host.example/a/b.git", "mode": "exclusive",
            "items": [{"kind": "path", "value": "src"}]});
        let thread = json!({"channel_id": channel["id"], "title": "held", "footprint": footprint});
        let thread = self.call("create_thread", thread);
        let hidden = self.call("create_thread", json!({"channel_id": private["id"], "title": "unseen"}));
        self.call("post_message", json!({"thread_id": hidden["id"], "body": "in private"}));
        let agent = |operation: &str, input: Value| self.world.call(&agent_token, operation, input).output();
        let claim = agent("claim_thread", json!({"thread_id": thread["id"]}));
        let posted = agent("post_message", json!({"thread_id": thread["id"], "body": "at first"}));
        agent("edit_message", json!({"message_id": posted["id"], "body": "then"}));
        let gone = agent("post_message", json!({"thread_id": thread["id"], "body": "gone"}));
        agent("delete_message", json!({"message_id": gone["id"]}));
        let done = json!({"thread_id": thread["id"], "claim_lease_id": claim["claim_lease_id"],
            "result": {"cites": posted["id"]}});
        agent("set_thread_result", done);
        self.call(
            "freeze_member",
            json!({"member_id": agent_id, "workspace_id": workspace, "reason": "over"}),
        );
    }

    fn export(&self) -> Value {
        export(&self.world, self.workspace)
    }
}

fn export(world: &World, workspace: WorkspaceId) -> Value {
    let input = ExportWorkspace { workspace_id: workspace, words: Words::All };
    let content = EXPORT_WORKSPACE.call_as_instance(&world.service, workspace, input).unwrap();
    serde_json::from_slice(&content.read().unwrap()).unwrap()
}

/// Another instance, which has none of the ids.
fn elsewhere(engine: Engine) -> World {
    World::with(engine, Setup { seed: 77, ..Setup::default() })
}

fn verify(world: &World) {
    let reports = verify_database(&world.database.address(), None, None).unwrap();
    assert!(reports.iter().all(|report| report.valid), "{reports:?}");
}

/// The engines from which and to which something moves.
fn ways() -> Vec<(Engine, Engine)> {
    let engines = engines();
    engines.iter().flat_map(|from| engines.iter().map(move |to| (*from, *to))).collect()
}

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

/// Statements that let showing a workspace fail, and let it go again.
fn failing(engine: Engine, workspace: &str) -> [String; 2] {
    let fail = match engine {
        Engine::Sqlite => format!(
            "create trigger unshown before update of state on workspaces when new.id = {workspace}
             begin select raise(abort, 'not now'); end"
        ),
        Engine::Postgres => format!(
            "alter table workspaces add constraint unshown check (state <> 'live' or id <> {workspace})"
        ),
    };
    let let_go = match engine {
        Engine::Sqlite => "drop trigger unshown",
        Engine::Postgres => "alter table workspaces drop constraint unshown",
    };
    [fail, let_go.to_owned()]
}

#[test]
fn what_an_import_has_left_that_ended_early_is_removed_and_was_never_seen() {
    for engine in engines() {
        let origin = Origin::new(engine, 9);
        let file = origin.export();
        let world = elsewhere(engine);
        let before = world.database.dump();
        let workspace = world.database.id(origin.workspace);
        let [fail, let_go] = failing(engine, &workspace);
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
