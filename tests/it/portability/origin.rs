//! A workspace with one of everything, which moves to other instances.

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::api::{ExportTexts, ExportWorkspace};
use svc_core::id::WorkspaceId;
use svc_core::verify::verify_database;
use svc_tests::database::engines;
use svc_tests::{Setup, World, text};

/// A workspace beside the world's own, with one of everything.
pub struct Origin {
    pub world: World,
    pub workspace: WorkspaceId,
    pub token: String,
}

impl Origin {
    pub fn new(engine: Engine, seed: u64) -> Self {
        let world = World::with(engine, Setup { seed, ..Setup::default() });
        let made = world.admin("create_workspace", json!({"name": "Moving", "admin_handle": "ada"}));
        let workspace: WorkspaceId = text(&made["workspace"]["id"]).parse().unwrap();
        let token = text(&made["token"]["secret"]);
        let origin = Self { world, workspace, token };
        origin.fill();
        origin
    }

    pub fn call(&self, operation: &str, input: Value) -> Value {
        self.world.call(&self.token, operation, input).output()
    }

    fn fill(&self) {
        let workspace = self.workspace;
        self.call("set_workspace_handle", json!({"workspace_id": workspace, "handle": "moving"}));
        let agent = self.call("create_agent", json!({"workspace_id": workspace, "handle": "builder"}));
        let agent_id = &agent["member"]["id"];
        let agent_token = text(&agent["token"]["secret"]);
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
        let boot = json!({"channel_id": private["id"], "text": "what to know inside"});
        self.call("set_channel_boot", boot);
        let term = json!({"workspace_id": workspace, "term": "Task", "definition": "what is to be done"});
        self.call("set_glossary_term", term);
        let block = json!({"workspace_id": workspace, "label": "notes", "description": "what to keep",
            "value": "what was learned"});
        let block = self.call("create_memory_block", block);
        self.call("attach_memory_block", json!({"thread_id": thread["id"], "block_id": block["id"]}));
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

    pub fn export(&self) -> Value {
        export(&self.world, self.workspace)
    }

    /// Returns the same export without content.
    pub fn evidence(&self) -> Value {
        export_with(&self.world, self.workspace, ExportTexts::None)
    }
}

pub fn export(world: &World, workspace: WorkspaceId) -> Value {
    export_with(world, workspace, ExportTexts::All)
}

fn export_with(world: &World, workspace: WorkspaceId, words: ExportTexts) -> Value {
    let input = ExportWorkspace::new().workspace_id(workspace).words(words);
    let content = world.service.call_as_instance(workspace, &input).unwrap();
    serde_json::from_slice(&content.read().unwrap()).unwrap()
}

/// Returns another instance, which has none of the ids.
pub fn elsewhere(engine: Engine) -> World {
    World::with(engine, Setup { seed: 77, ..Setup::default() })
}

pub fn verify(world: &World) {
    let reports = verify_database(&world.database.address(), None, None).unwrap();
    assert!(reports.iter().all(|report| report.valid), "{reports:?}");
}

/// Returns the pairs of engines between which a workspace moves.
pub fn ways() -> Vec<(Engine, Engine)> {
    let engines = engines();
    engines.iter().flat_map(|from| engines.iter().map(move |to| (*from, *to))).collect()
}

/// Returns statements that make showing any workspace fail, and then succeed again.
pub fn failing_to_show(engine: Engine) -> [String; 2] {
    let [fail, let_go] = match engine {
        Engine::Sqlite => [
            "create trigger unshown before update of state on workspaces
             begin select raise(abort, 'not now'); end",
            "drop trigger unshown",
        ],
        Engine::Postgres => [
            "create function unshown() returns trigger language plpgsql as
             $$ begin raise exception 'not now'; end $$;
             create trigger unshown before update of state on workspaces
             for each row execute function unshown()",
            "drop trigger unshown on workspaces; drop function unshown",
        ],
    };
    [fail.to_owned(), let_go.to_owned()]
}
