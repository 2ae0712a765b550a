//! The initial state of every world, created by the service's own operations.
//!
//! It has the people by role, and the samples that the features declare.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use svc_core::Service;
use svc_core::capability::{Capabilities, Capability};
use svc_core::op::{Fixture, SampleCaller};
use svc_core::setup::{Established, TokenRequest};

use crate::database::TestDatabase;
use crate::world::{START, Setup, answer_of, call, open_service, text};

/// The secrets of people's tokens, and other objects beside the fixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct People {
    /// The fixture's admin, with every capability.
    pub admin: String,
    /// The fixture's agent, with a worker's capabilities.
    pub agent: String,
    /// A member that can only read.
    pub reader: String,
    /// A member with every capability that is not in the private channel.
    pub bystander: String,
    /// The id of that member.
    pub bystander_id: String,
    /// The admin of another workspace, with every capability.
    pub outsider: String,
    /// A frozen member with every capability, in the private channel.
    pub frozen: String,
    /// A token of the admin that was revoked.
    pub revoked: String,
    /// A thread in the private channel.
    pub private_thread_id: String,
    /// A message of the admin in that thread.
    pub private_message_id: String,
}

/// The contents of a prepared database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fixtures {
    pub fixture: Fixture,
    pub people: People,
}

/// Prepares an empty database, with the same result each time.
pub(crate) fn seed(database: &TestDatabase) -> Fixtures {
    let service = open_service(database, Setup { seed: 0, ..Setup::default() });
    let (fixture, people) = arrange(&service);
    Operator { service: &service, token: &people.admin }
        .call("set_delivery_address", json!({"address": "ada@example.com", "mode": "immediate"}));
    send_code(database, &fixture);
    Fixtures { fixture, people }
}

/// The code that the examples contain, in place of the one that the admin was sent.
const CODE: &str = "12345678";

/// Acts as if the admin had been sent [`CODE`] for its address.
fn send_code(database: &TestDatabase, fixture: &Fixture) {
    let hash = Sha256::new_with_prefix("svc delivery code 1\0");
    let admin = fixture.get("admin").unwrap();
    let hash = hash.chain_update(admin.as_bytes()).chain_update(CODE).finalize();
    let hash = database.bytes(&hash);
    let until = START.plus(Duration::from_secs(86_400)).micros();
    database.execute(&format!(
        "update delivery_addresses set code_hash = {hash}, code_until = {until}, code_due = null;
         delete from delivery_codes"
    ));
}

/// A caller whose operations must succeed.
struct Operator<'a> {
    service: &'a Service,
    token: &'a str,
}

impl Operator<'_> {
    fn call(&self, operation: &str, input: Value) -> Value {
        let answer = answer_of(call(self.service, Some(self.token), operation, &input));
        assert!(answer.is_success(), "preparing the world, {operation} with {input}: {:#}", answer.body);
        answer.body
    }
}

/// Creates the samples of the service's table that are not in `fixture`, with the tokens of admin and agent.
pub(crate) fn make_samples(service: &Service, admin: &str, agent: &str, fixture: &mut Fixture) {
    for sample in service.table().samples() {
        if fixture.get(sample.name()).is_some() {
            continue;
        }
        for (number, call) in sample.calls().iter().enumerate() {
            let token = match call.by {
                SampleCaller::Admin => admin,
                SampleCaller::Agent => agent,
            };
            let output = Operator { service, token }.call(call.operation, (call.input)(fixture));
            if number == 0 {
                let id = sample.id_in(&output);
                let id = id.unwrap_or_else(|| panic!("{}: no id in {output:#}", sample.name()));
                fixture.insert(sample.name(), id);
            }
        }
    }
}

/// Returns the samples that a set-up creates.
fn founded_samples(founded: &Established) -> Fixture {
    let mut fixture = Fixture::default();
    fixture.insert("workspace", founded.workspace.id.uuid());
    fixture.insert("admin", founded.admin.id.uuid());
    fixture.insert("agent", founded.agent.id.uuid());
    fixture.insert("agent_token", founded.agent_token.id.uuid());
    fixture
}

fn every_capability() -> Vec<&'static str> {
    Capability::ALL.iter().map(|capability| capability.name()).collect()
}

fn arrange(service: &Service) -> (Fixture, People) {
    let founded = service.establish("Night shift", "ada").unwrap();
    let mut fixture = founded_samples(&founded);
    let admin = Operator { service, token: &founded.token.secret };

    let members = Members { admin: &admin, workspace: fixture.id("workspace") };
    let reader_id = members.agent("reader");
    let reader = members.token(&reader_id, vec![Capability::WorkspaceRead.name()]);
    let bystander_id = members.agent("bystander");
    let bystander = members.token(&bystander_id, every_capability());
    let frozen_id = members.agent("frozen");
    let frozen = members.token(&frozen_id, every_capability());
    let revoked = admin.call("mint_token", members.mint(&text(&fixture.id("admin")), every_capability()));
    admin.call("revoke_token", json!({"token_id": revoked["id"]}));
    let other = admin.call("create_workspace", json!({"name": "Day shift", "admin_handle": "eve"}));
    let wanted = TokenRequest {
        workspace_id: Some(text(&other["workspace"]["id"]).parse().unwrap()),
        member: "eve".to_owned(),
        capabilities: Some(Capabilities::all()),
        ..TokenRequest::default()
    };
    let outsider = service.mint_as_instance(&wanted).unwrap().secret;

    make_samples(service, admin.token, &founded.agent_token.secret, &mut fixture);
    let private = fixture.id("private_channel");
    admin.call("add_channel_member", json!({"channel_id": private, "member_id": frozen_id}));
    let thread = json!({"channel_id": private, "title": "Behind closed doors"});
    let private_thread_id = text(&admin.call("create_thread", thread)["id"]);
    let message = json!({"thread_id": private_thread_id, "body": "between us"});
    let private_message_id = text(&admin.call("post_message", message)["id"]);

    admin.call("freeze_member", json!({"member_id": frozen_id}));
    let people = People {
        admin: founded.token.secret.clone(),
        agent: founded.agent_token.secret.clone(),
        reader,
        bystander,
        bystander_id,
        outsider,
        frozen,
        revoked: text(&revoked["secret"]),
        private_thread_id,
        private_message_id,
    };
    (fixture, people)
}

/// Creates members and tokens.
struct Members<'a> {
    admin: &'a Operator<'a>,
    workspace: Value,
}

impl Members<'_> {
    /// Returns the id of a new agent.
    fn agent(&self, handle: &str) -> String {
        let made = self.admin.call(
            "create_agent",
            json!({"workspace_id": self.workspace, "handle": handle, "display_name": handle}),
        );
        text(&made["member"]["id"])
    }

    fn mint(&self, member: &str, capabilities: Vec<&str>) -> Value {
        json!({"workspace_id": self.workspace, "member_id": member, "label": "for tests",
               "capabilities": capabilities})
    }

    /// Returns the secret of a new token.
    fn token(&self, member: &str, capabilities: Vec<&str>) -> String {
        text(&self.admin.call("mint_token", self.mint(member, capabilities))["secret"])
    }
}
