//! What every world begins with, made through the service's own operations: the people by role, and the
//! things that examples speak of, in the states that they need.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_core::Service;
use svc_core::capability::{Capabilities, Capability};
use svc_core::id::{ChannelId, LeaseId, MemberId, MessageId, ThreadId, TokenId, WorkspaceId};
use svc_core::op::Fixture;
use svc_core::setup::WantedToken;

use crate::database::TestDatabase;
use crate::world::{Setup, answer_of, call, open_service, text};

/// The secrets of people's tokens, and what is there beside the fixture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct People {
    /// The fixture's admin, with every capability.
    pub admin: String,
    /// The fixture's agent, with a worker's capabilities.
    pub agent: String,
    /// Reads, and nothing else.
    pub reader: String,
    /// Has every capability and is not in the private channel.
    pub bystander: String,
    /// That member.
    pub bystander_id: String,
    /// The admin of another workspace, with every capability.
    pub outsider: String,
    /// Has every capability, is in the private channel, and is frozen.
    pub frozen: String,
    /// A token of the admin that was revoked.
    pub revoked: String,
    /// A thread in the private channel.
    pub private_thread_id: String,
    /// A message of the admin in that thread.
    pub private_message_id: String,
}

/// What there is in a prepared database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fixtures {
    #[serde(with = "Ids")]
    pub fixture: Fixture,
    pub people: People,
}

/// The fields of [`Fixture`], to write and read it.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Fixture")]
struct Ids {
    workspace_id: WorkspaceId,
    admin_id: MemberId,
    agent_id: MemberId,
    agent_token_id: TokenId,
    channel_id: ChannelId,
    private_channel_id: ChannelId,
    archived_channel_id: ChannelId,
    thread_id: ThreadId,
    blocked_thread_id: ThreadId,
    claimed_thread_id: ThreadId,
    lease_id: LeaseId,
    done_thread_id: ThreadId,
    message_id: MessageId,
    withdrawn_message_id: MessageId,
}

/// Prepares an empty database. It comes out the same each time.
pub(crate) fn seed(database: &TestDatabase) -> Fixtures {
    let service = open_service(database, Setup { seed: 0, ..Setup::default() });
    let (fixture, people) = arrange(&service, database);
    Fixtures { fixture, people }
}

/// Someone who calls operations that succeed.
struct Operator<'a> {
    service: &'a Service,
    token: String,
}

impl Operator<'_> {
    fn call(&self, operation: &str, input: Value) -> Value {
        let answer = answer_of(call(self.service, Some(&self.token), operation, &input));
        assert!(answer.is_success(), "preparing the world, {operation} with {input}: {:#}", answer.body);
        answer.body
    }

    fn new_id<T: FromStr>(&self, operation: &str, input: Value) -> T {
        id(&self.call(operation, input)["id"])
    }
}

fn id<T: FromStr>(value: &Value) -> T {
    text(value).parse().unwrap_or_else(|_| panic!("expected an id, found {value}"))
}

fn every_capability() -> Vec<&'static str> {
    Capability::ALL.iter().map(|capability| capability.name()).collect()
}

fn arrange(service: &Service, database: &TestDatabase) -> (Fixture, People) {
    let founded = service.establish("Night shift", "ada").unwrap();
    let admin = Operator { service, token: founded.token.secret.clone() };
    let mut w = Fixture {
        workspace_id: founded.workspace.id,
        admin_id: founded.admin.id,
        agent_id: founded.agent.id,
        agent_token_id: founded.agent_token.id,
        ..Fixture::sample()
    };

    let members = Members { admin: &admin, workspace: json!(w.workspace_id) };
    let reader_id = members.agent("reader");
    let reader = members.token(&reader_id, vec![Capability::WorkspaceRead.name()]);
    let bystander_id = members.agent("bystander");
    let bystander = members.token(&bystander_id, every_capability());
    let frozen_id = members.agent("frozen");
    let frozen = members.token(&frozen_id, every_capability());
    let revoked = admin.call("mint_token", members.mint(&w.admin_id.to_string(), every_capability()));
    admin.call("revoke_token", json!({"token_id": revoked["id"]}));
    let other = admin.call("create_workspace", json!({"name": "Day shift", "admin_handle": "eve"}));
    let wanted = WantedToken {
        workspace_id: Some(id(&other["workspace"]["id"])),
        member: "eve".to_owned(),
        capabilities: Some(Capabilities::all()),
        ..WantedToken::default()
    };
    let outsider = service.mint_as_instance(&wanted).unwrap().secret;

    let agent_id = w.agent_id.to_string();
    fill_channels(&admin, &mut w, &[&agent_id, &frozen_id]);
    let private_thread_id: String = admin
        .new_id("create_thread", json!({"channel_id": w.private_channel_id, "title": "Behind closed doors"}));
    let private_message_id: String =
        admin.new_id("post_message", json!({"thread_id": private_thread_id, "body": "between us"}));

    freeze(database, &frozen_id, &w);
    let people = People {
        admin: admin.token.clone(),
        agent: founded.agent_token.secret,
        reader,
        bystander,
        bystander_id,
        outsider,
        frozen,
        revoked: text(&revoked["secret"]),
        private_thread_id,
        private_message_id,
    };
    (w, people)
}

/// Makes members and tokens.
struct Members<'a> {
    admin: &'a Operator<'a>,
    workspace: Value,
}

impl Members<'_> {
    /// The id of a new agent.
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

    /// The secret of a new token.
    fn token(&self, member: &str, capabilities: Vec<&str>) -> String {
        text(&self.admin.call("mint_token", self.mint(member, capabilities))["secret"])
    }
}

/// Makes the channels, threads and messages of the fixture.
fn fill_channels(admin: &Operator<'_>, w: &mut Fixture, insiders: &[&str]) {
    let channel = |name: &str, private: bool| {
        let input = json!({"workspace_id": w.workspace_id, "name": name, "private": private});
        admin.new_id("create_channel", input)
    };
    w.channel_id = channel("general", false);
    w.private_channel_id = channel("closed", true);
    w.archived_channel_id = channel("attic", false);
    for member in insiders {
        let input = json!({"channel_id": w.private_channel_id, "member_id": member});
        admin.call("add_channel_member", input);
    }
    admin.call("archive_channel", json!({"channel_id": w.archived_channel_id}));

    let channel_id = w.channel_id;
    let thread = |title: &str, more: Value| {
        let mut input = json!({"channel_id": channel_id, "title": title});
        input.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        admin.new_id("create_thread", input)
    };
    w.thread_id = thread("Port the lexer", json!({}));
    w.blocked_thread_id = thread("Port the parser", json!({"depends_on": [w.thread_id]}));
    w.claimed_thread_id = thread("Write the manual", json!({}));
    let claimed = admin.call("claim_thread", json!({"thread_id": w.claimed_thread_id, "lease_secs": 3600}));
    w.lease_id = id(&claimed["claim_lease_id"]);
    w.done_thread_id = thread("Choose a name", json!({}));
    admin.call("claim_thread", json!({"thread_id": w.done_thread_id}));
    admin.call("set_thread_result", json!({"thread_id": w.done_thread_id, "result": {"name": "svc"}}));

    let message = |body: &str| admin.new_id("post_message", json!({"thread_id": w.thread_id, "body": body}));
    w.message_id = message("the lexer has three states");
    w.withdrawn_message_id = message("said too soon");
    admin.call("edit_message", json!({"message_id": w.message_id, "body": "the lexer has four states"}));
    admin.call("delete_message", json!({"message_id": w.withdrawn_message_id}));
}

/// Freezes a member.
fn freeze(database: &TestDatabase, member: &str, w: &Fixture) {
    let member = database.id(member.parse::<uuid::Uuid>().unwrap());
    let workspace = database.id(w.workspace_id);
    database.execute(&format!(
        "update members set frozen_at = created_at where id = {member};
         update heads set epoch = epoch + 1 where workspace_id = {workspace}"
    ));
}
