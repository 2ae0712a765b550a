//! The setting of an attack: servers, the attacking workspace, and the victim, which must not notice.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use svc_core::Service;
use svc_core::api::ExportWorkspace;
use svc_core::id::WorkspaceId;

use crate::in_parallel;
use crate::site::done;
use crate::world::text;

/// The amount of data that an attacker prepares.
#[derive(Clone, Copy, Debug)]
pub struct AttackSize {
    /// Open threads with a footprint.
    pub threads: usize,
    /// Claimed threads among them.
    pub claimed: usize,
    /// Messages in one thread.
    pub messages: usize,
    /// Messages of 360 KB in another thread.
    pub large: usize,
    /// Claimable threads of the victim.
    pub tasks: usize,
}

impl AttackSize {
    /// For benchmarks.
    pub const FULL: Self = Self { threads: 2000, claimed: 40, messages: 20_000, large: 50, tasks: 1500 };
    /// For tests.
    pub const SMALL: Self = Self { threads: 150, claimed: 10, messages: 50, large: 3, tasks: 40 };
}

/// A workspace, and its members by their tokens.
#[derive(Clone, Debug)]
pub struct AttackTeam {
    pub workspace_id: String,
    pub channel_id: String,
    pub thread_id: String,
    /// The token of its administrator.
    pub admin: String,
    /// The tokens of its workers.
    pub agents: Vec<String>,
}

impl AttackTeam {
    /// Creates a workspace with this many agents.
    pub fn found(service: &Service, operator: &str, name: &str, agents: usize) -> Self {
        let made = done(service, operator, "create_workspace", json!({"name": name, "admin_handle": "boss"}));
        let workspace_id = text(&made["workspace"]["id"]);
        let admin = text(&made["token"]["secret"]);
        let admin_does = |operation: &str, input: Value| done(service, &admin, operation, input);
        let channel = admin_does("create_channel", json!({"workspace_id": workspace_id, "name": "work"}));
        let thread = admin_does("create_thread", json!({"channel_id": channel["id"], "title": "talk"}));
        let agents = in_parallel(agents, |number| {
            let handle = format!("agent-{number}");
            let wanted = json!({"workspace_id": workspace_id, "handle": handle, "display_name": handle});
            text(&admin_does("create_agent", wanted)["token"]["secret"])
        });
        let channel_id = text(&channel["id"]);
        let thread_id = text(&thread["id"]);
        Self { workspace_id, channel_id, thread_id, admin, agents }
    }

    /// Creates claimable threads.
    pub fn add_tasks(&self, service: &Service, count: usize) {
        spread(count, |number| {
            // A page of them is larger than a response that needs no quota.
            let title = format!("task {number}: {}", "carry the water up the hill; ".repeat(5));
            self.does(service, "create_thread", json!({"channel_id": self.channel_id, "title": title}));
        });
    }

    /// Creates the threads that make reads expensive, in a separate channel, and claims some of them.
    pub fn add_footprints(&self, service: &Service, size: AttackSize) {
        let channel = json!({"workspace_id": self.workspace_id, "name": "footprints"});
        let channel = &self.does(service, "create_channel", channel)["id"];
        spread(size.threads, |number| {
            let path = |item: usize| json!({"kind": "path", "value": format!("src/t{number}/f{item}.rs")});
            let items: Vec<Value> = (0..60 + number % 40).map(path).collect();
            let footprint = json!({"repo": "acme/app", "items": items});
            let thread =
                json!({"channel_id": channel, "title": format!("t{number}"), "footprint": footprint});
            self.does(service, "create_thread", thread);
        });
        for _ in 0..size.claimed {
            done(service, &self.agents[0], "claim_next_thread", json!({"channel_id": channel}));
        }
    }

    /// Posts many messages to the team's thread.
    pub fn add_messages(&self, service: &Service, count: usize) {
        spread(count, |number| {
            let message = json!({"thread_id": self.thread_id, "body": format!("message {number}")});
            self.does(service, "post_message", message);
        });
    }

    /// Posts messages of 360 KB to a new thread, and returns the thread.
    pub fn add_large(&self, service: &Service, count: usize) -> String {
        let thread = json!({"channel_id": self.channel_id, "title": "large"});
        let thread = text(&self.does(service, "create_thread", thread)["id"]);
        let body = large_body();
        for _ in 0..count {
            self.does(service, "post_message", json!({"thread_id": thread, "body": body}));
        }
        thread
    }

    /// Mints administrators' tokens, each for a separate agent.
    pub fn administrators(&self, service: &Service) -> Vec<String> {
        let mint = |agent: &String| {
            let member = done(service, agent, "whoami", json!({}))["member_id"].clone();
            let capabilities = ["workspace:read", "token:admin"];
            let wanted = json!({"workspace_id": self.workspace_id, "member_id": member, "label": "admin",
                                "capabilities": capabilities});
            text(&self.does(service, "mint_token", wanted)["secret"])
        };
        self.agents.iter().take(4).map(mint).collect()
    }

    /// Exports the workspace. The service must have a key to sign with.
    pub fn export(&self, service: &Service) -> Bytes {
        let workspace: WorkspaceId = self.workspace_id.parse().expect("an id");
        let input = ExportWorkspace::new().workspace_id(workspace);
        let content = service.call_as_instance(workspace, &input).expect("an export");
        let mut file = Vec::new();
        content.spooled.reader(0).read_to_end(&mut file).expect("a file");
        file.into()
    }

    /// Calls an operation as the administrator. The call must succeed.
    pub fn does(&self, service: &Service, operation: &str, input: Value) -> Value {
        done(service, &self.admin, operation, input)
    }

    /// Returns the requests that show whether its members are served, each with its sender.
    pub fn requests(&self) -> [WantedRequest; 4] {
        let by = |number: usize| self.agents[number % self.agents.len()].clone();
        let message = json!({"body": "is anybody there?"});
        [
            WantedRequest::new("me", by(0), Method::GET, "/me".to_owned(), None),
            WantedRequest::new("list_threads", by(1), Method::GET, self.threads(), None),
            WantedRequest::new(
                "post_message",
                by(2),
                Method::POST,
                format!("/threads/{}/messages", self.thread_id),
                Some(message),
            ),
            WantedRequest::new(
                "claim_next",
                by(3),
                Method::POST,
                format!("/workspaces/{}/claim-next", self.workspace_id),
                Some(json!({})),
            ),
        ]
    }

    /// Returns the target that lists the threads of its channel.
    pub fn threads(&self) -> String {
        format!("/channels/{}/threads", self.channel_id)
    }
}

/// A request of a member.
#[derive(Clone, Debug)]
pub struct WantedRequest {
    pub name: &'static str,
    pub token: String,
    pub method: Method,
    pub target: String,
    pub body: Option<Value>,
}

impl WantedRequest {
    fn new(name: &'static str, token: String, method: Method, target: String, body: Option<Value>) -> Self {
        Self { name, token, method, target, body }
    }
}

/// Returns the body of a message of nearly the maximum size: 360 KB.
pub fn large_body() -> String {
    "\u{1f600}".repeat(90_000)
}

/// Does `work` for each number, on several threads so that changes share commits.
fn spread(count: usize, work: impl Fn(usize) + Sync) {
    const CALLERS: usize = 32;
    in_parallel(CALLERS, |caller| (caller..count).step_by(CALLERS).for_each(&work));
}

/// The setting of an attack.
#[derive(Clone, Debug)]
pub struct AttackGround {
    /// The addresses of the servers, all on one database.
    pub addresses: Vec<SocketAddr>,
    pub attacker: AttackTeam,
    pub victim: AttackTeam,
    /// The preparations of the attacker.
    pub arms: AttackSetup,
}

/// The preparations of an attacker.
#[derive(Clone, Debug, Default)]
pub struct AttackSetup {
    /// Tokens with `token:admin`.
    pub admins: Vec<String>,
    /// A thread whose pages are large.
    pub large_thread: String,
    /// An export of the attacker's workspace.
    pub export: Bytes,
    /// An export of the victim's workspace.
    pub victims_export: Bytes,
}

impl AttackGround {
    /// Returns the address of the server that the n-th connection goes to.
    pub fn address(&self, number: usize) -> SocketAddr {
        self.addresses[number % self.addresses.len()]
    }
}

/// The results of an attacker, by outcome.
#[derive(Debug, Default)]
pub struct OutcomeTally(Mutex<BTreeMap<String, usize>>);

impl OutcomeTally {
    /// Counts an outcome, such as a status.
    pub fn add(&self, outcome: impl ToString) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(outcome.to_string()).or_default() += 1;
    }

    /// Returns the count of this outcome.
    pub fn count(&self, outcome: impl ToString) -> usize {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&outcome.to_string()).copied().unwrap_or_default()
    }

    /// Returns the count of all outcomes.
    pub fn all(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }

    /// Returns the outcomes in the form of a report.
    pub fn report(&self) -> Value {
        json!(*self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
