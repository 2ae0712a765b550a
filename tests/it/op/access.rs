//! Authorisation: every operation against every kind of caller that must be rejected.
//!
//! It is called on every path and over MCP, and must fail with the status that the contract states. No
//! refusal leaves anything behind.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::capability::{Capability, Needs};
use svc_core::op::{Effect, Feature, Operation};
use svc_tests::client::Answer;
use svc_tests::{Setup, World};

use crate::house::areas::{Wanted, by_area};
use crate::op::ended::{self, Refused};

/// Operations that name nothing which another workspace could hide.
///
/// All others return 404 to its admin.
const NAMES_NOTHING: &[(&str, &str)] = &[];

/// Operations whose channel, thread or message only filters or prefers, so that a private one is no error.
const ONLY_FILTERS: &[(&str, &str)] = &[
    ("list_events", "filters: what the caller may not see is left out of a page"),
    ("wait_for_event", "filters: what the caller may not see does not wake it"),
];

/// A way to call an operation.
#[derive(Clone, Copy, Debug)]
enum Way {
    Rest(&'static str),
    Mcp,
}

impl Way {
    fn call(self, world: &World, token: Option<&str>, operation: &Operation, input: &Value) -> Answer {
        match self {
            Self::Rest(path) => world.rest().call_at(token, operation, path, input),
            Self::Mcp => world.mcp().call(token, operation, input),
        }
    }

    fn of(operation: &Operation) -> Vec<Way> {
        let mcp = (!operation.http().rest_only).then_some(Way::Mcp);
        operation.http().paths().map(Way::Rest).chain(mcp).collect()
    }
}

/// A world with the tokens that the matrix needs.
struct Matrix {
    world: World,
    /// Tokens by the capability that they lack; they have all others.
    lacking: BTreeMap<String, String>,
    /// A delegate of the admin, with every capability.
    delegate: String,
    /// Delegated tokens of which one member is frozen.
    frozen: Vec<Refused>,
    /// Tokens that have ended.
    ended: Vec<Refused>,
}

impl Matrix {
    fn open(engine: Engine, features: fn() -> Vec<Feature>, wanted: Wanted<'_>) -> Self {
        let world = World::with(engine, Setup { features, ..Setup::default() });
        let mut lacking = BTreeMap::new();
        for operation in world.service.table().operations().filter(|operation| wanted(operation)) {
            if let Needs::OneOf(any) = operation.access().needs {
                lacking.entry(operation.access().needs.expression()).or_insert_with(|| {
                    let others = Capability::ALL.iter().filter(|capability| !any.has((**capability).into()));
                    world.new_token(others.map(|capability| capability.name()).collect())
                });
            }
        }
        let every: Vec<&str> = Capability::ALL.iter().map(|capability| capability.name()).collect();
        let [admin, agent] = ["admin", "agent"].map(|sample| world.id(sample).to_string());
        let delegate = world.delegated_beyond_grants(&admin, &agent, &every);
        let (frozen, ended) = (ended::delegated_of_frozen(&world), ended::tokens(&world));
        Self { world, lacking, delegate, frozen, ended }
    }

    /// The number of all events and all audit rows.
    fn recorded(&self) -> (i64, i64) {
        let count = |table: &str| self.world.database.number(&format!("select count(*) from {table}"));
        (count("events"), count("audit"))
    }

    /// Checks one operation against every caller.
    fn check(&self, operation: &Operation) {
        let input = operation.docs().example(&self.world.fixture).unwrap();
        self.check_delegate(operation, &input);
        self.check_delegate_of_frozen(operation, &input);
        let (events, audit) = self.recorded();
        let delegated = self.ended.iter().filter(|ended| ended.is_delegated).count();
        let mut decisions = 0;
        for way in Way::of(operation) {
            decisions += if operation.access().needs == Needs::Nothing { 0 } else { delegated };
            // A frozen member may read, and some reads leave a row.
            decisions += usize::from(operation.access().audited.is_some());
            self.check_credentials(operation, way, &input);
            self.check_outsider(operation, way, &input);
            self.check_bystander(operation, way, &input);
            self.check_frozen(operation, way, &input);
        }
        let wanted = (events, audit + i64::try_from(decisions).unwrap());
        assert_eq!(self.recorded(), wanted, "{operation:?}: a rejection or a read left something behind");
    }

    fn expect(&self, who: &str, operation: &Operation, way: Way, answer: &Answer, wanted: (u16, &str)) {
        let found = (answer.status, answer.code());
        assert_eq!(found, wanted, "{who} calls {operation:?} by {way:?}: {:#}", answer.body);
        let turned_away = matches!(answer.status, 401 | 403);
        assert_eq!(answer.lsn().is_none(), turned_away, "{who} calls {operation:?} by {way:?}: Svc-Room-LSN");
    }

    /// Refuses whoever has no live token, or one that lacks what the operation needs.
    ///
    /// An operation that was copied with the capability of its neighbour works in every test of its author,
    /// who calls it as an administrator. An agent that was given reading alone would change others' work with
    /// it, and so would whoever has found a revoked token.
    fn check_credentials(&self, operation: &Operation, way: Way, input: &Value) {
        if operation.access().needs == Needs::Nothing {
            return;
        }
        let people = &self.world.people;
        let refused = (401, "unauthenticated");
        let strangers = [
            ("nobody", None),
            ("an unknown token", Some("svc_unknown")),
            ("a revoked token", Some(&*people.revoked)),
        ];
        for (who, token) in strangers {
            self.expect(who, operation, way, &way.call(&self.world, token, operation, input), refused);
        }
        for Refused { who, token, .. } in &self.ended {
            self.expect(who, operation, way, &way.call(&self.world, Some(token), operation, input), refused);
        }
        if let Some(token) = self.lacking.get(&operation.access().needs.expression()) {
            let answer = way.call(&self.world, Some(token), operation, input);
            self.expect(
                "a token without the capability",
                operation,
                way,
                &answer,
                (403, "missing-capability"),
            );
        }
    }

    /// Refuses the administrator of another workspace, who may do everything there.
    ///
    /// A function that selects a row by its id alone, past the loaders, returns it to whoever knows the id.
    /// Teams that share a server would read and close each other's threads.
    fn check_outsider(&self, operation: &Operation, way: Way, input: &Value) {
        let names_an_object = input.as_object().unwrap().keys().any(|name| name.ends_with("_id"));
        if !names_an_object || NAMES_NOTHING.iter().any(|(name, _)| *name == operation.name()) {
            return;
        }
        let answer = way.call(&self.world, Some(&self.world.people.outsider), operation, input);
        self.expect("another workspace's admin", operation, way, &answer, (404, "not-found"));
    }

    /// Refuses a member of the workspace who is not in the private channel.
    ///
    /// A loader that compares only the workspace is right for everything but private channels. Whoever was
    /// left out of one on purpose would read its messages and post among them.
    fn check_bystander(&self, operation: &Operation, way: Way, input: &Value) {
        let people = &self.world.people;
        let private = [
            ("channel_id", self.world.id("private_channel").to_string()),
            ("thread_id", people.private_thread_id.clone()),
            ("message_id", people.private_message_id.clone()),
        ];
        let mut input = input.clone();
        let mut hidden = false;
        for (name, id) in private {
            if let Some(value) = input.get_mut(name) {
                *value = id.into();
                hidden = true;
            }
        }
        if !hidden || ONLY_FILTERS.iter().any(|(name, _)| *name == operation.name()) {
            return;
        }
        let answer = way.call(&self.world, Some(&people.bystander), operation, &input);
        self.expect("a member outside of the private channel", operation, way, &answer, (404, "not-found"));
    }

    /// Refuses a delegate what is the member's own affair, whatever it sends, and leaves its decisions alone.
    ///
    /// Who is lent a member's rights for a task would otherwise change what the member is, and read what only
    /// the member itself should.
    fn check_delegate(&self, operation: &Operation, input: &Value) {
        if !operation.access().personal {
            return;
        }
        let (events, audit) = self.recorded();
        let mut asked = 0;
        for way in Way::of(operation) {
            for input in [input, &json!({"unknown": true})] {
                let answer = way.call(&self.world, Some(&self.delegate), operation, input);
                self.expect("a delegate", operation, way, &answer, (403, "forbidden"));
                asked += 1;
            }
        }
        assert_eq!(self.recorded(), (events, audit + asked), "{operation:?}: one decision each");
    }

    /// Refuses the changes of a delegate if the member that it acts for is frozen, or the delegate itself.
    ///
    /// A freeze that only stopped a member's own tokens would let others go on doing its damage for it.
    fn check_delegate_of_frozen(&self, operation: &Operation, input: &Value) {
        let access = operation.access();
        let is_open = access.needs == Needs::Nothing || access.open_to_frozen;
        if operation.effect().changes_nothing() || is_open || access.personal {
            return;
        }
        for way in Way::of(operation) {
            for Refused { who, token, .. } in &self.frozen {
                let answer = way.call(&self.world, Some(token), operation, input);
                self.expect(who, operation, way, &answer, (403, "member-frozen"));
            }
        }
    }

    /// Refuses the changes of a frozen member and lets it read.
    ///
    /// The pipeline asks nothing about freezing where it takes a job for a read. A kind of job that is taken
    /// for one and changes something lets an agent go on that an administrator has just stopped, because it
    /// does damage. One that only reads and was added with `write` takes from a frozen member what it may
    /// still see.
    fn check_frozen(&self, operation: &Operation, way: Way, input: &Value) {
        if operation.access().needs == Needs::Nothing {
            return;
        }
        let ask = || way.call(&self.world, Some(&self.world.people.frozen), operation, input);
        let answer = match (operation.effect(), input["timeout_secs"].as_u64()) {
            (Effect::Wait, Some(secs)) => self.world.once_time_is_over(Duration::from_secs(secs), ask),
            _ => ask(),
        };
        if operation.effect().changes_nothing() {
            assert!(answer.is_success(), "a frozen member reads {operation:?} by {way:?}: {:#}", answer.body);
        } else {
            self.expect("a frozen member", operation, way, &answer, (403, "member-frozen"));
        }
    }
}

/// Checks the operations of a table that `wanted` chooses.
pub fn unauthorized_callers_are_rejected(engine: Engine, features: fn() -> Vec<Feature>, wanted: Wanted<'_>) {
    let matrix = Matrix::open(engine, features, wanted);
    let mut operations =
        matrix.world.service.table().operations().filter(|operation| wanted(operation)).peekable();
    assert!(operations.peek().is_some());
    operations.for_each(|operation| matrix.check(operation));
}

/// Callers without the right to an operation are rejected.
///
/// An operation that forgets to check a capability, or whose object it is, works for its author, who may do
/// everything.
fn strangers_are_rejected(engine: Engine, wanted: Wanted<'_>) {
    unauthorized_callers_are_rejected(engine, Vec::new, wanted);
}

by_area!(every_operation_rejects_unauthorized_callers, strangers_are_rejected);

/// An exception for an operation that was removed would hold for the next of that name.
#[test]
fn exceptions_name_operations_that_exist() {
    let table = svc_core::operation_table().unwrap();
    for (name, reason) in NAMES_NOTHING.iter().chain(ONLY_FILTERS) {
        assert!(table.operation(name).is_some() && reason.len() > 10, "{name}");
    }
}
