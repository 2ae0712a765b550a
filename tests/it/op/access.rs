//! Authorisation: every row of the table, operations and framed ones, against every kind of caller.
//!
//! Each row is called on every path and over MCP. The expected outcome follows from the declaration of the
//! row, and a refusal leaves nothing behind but the decision about a delegate.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::capability::{Capability, Needs};
use svc_core::op::{Effect, Feature, Frame, Operation};
use svc_tests::client::Answer;
use svc_tests::{Setup, World, on_both_engines, session_key};

use crate::house::areas::{OperationFilter, by_area};
use crate::op::callers::{self, CallPath, Kind, Outcome};

/// Operations that do not name an object which another workspace could hide.
///
/// All others return 404 to its admin.
const NAMES_NOTHING: &[(&str, &str)] = &[];

/// Operations with a channel, thread or message that only filters or prefers, so a private one is not an
/// error.
const ONLY_FILTERS: &[(&str, &str)] = &[
    ("list_events", "filters: what the caller may not see is left out of a page"),
    ("wait_for_event", "filters: what the caller may not see does not wake it"),
];

/// A world with the tokens that the matrix needs.
struct Matrix {
    world: World,
    /// Tokens by the capability that they lack; they have all others.
    lacking: BTreeMap<String, String>,
    /// A caller of each kind.
    kinds: Vec<Kind>,
}

impl Matrix {
    fn open(engine: Engine, features: fn() -> Vec<Feature>, wanted: OperationFilter<'_>) -> Self {
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
        let kinds = callers::all(&world);
        Self { world, lacking, kinds }
    }

    /// Returns the number of all events and all audit rows.
    fn recorded(&self) -> (i64, i64) {
        let count = |table: &str| self.world.database.number(&format!("select count(*) from {table}"));
        (count("events"), count("audit"))
    }

    /// Checks one row against every caller.
    fn check(&self, row: &Operation) {
        let input = row.docs().example(&self.world.fixture).unwrap();
        let (events, audit) = self.recorded();
        let mut decisions = 0;
        for way in CallPath::of(row) {
            for kind in &self.kinds {
                decisions += self.check_kind(row, way, &input, kind);
            }
            if row.http().frame.is_none() {
                // A frozen member may read, and some reads leave a row.
                decisions += i64::from(row.access().audited.is_some());
                self.check_lacking(row, way, &input);
                self.check_outsider(row, way, &input);
                self.check_bystander(row, way, &input);
                self.check_frozen(row, way, &input);
            }
        }
        let wanted = (events, audit + decisions);
        assert_eq!(self.recorded(), wanted, "{row:?}: a rejection or a read left something behind");
    }

    /// Checks that the outcome of a request follows from the declaration; returns its decisions.
    ///
    /// A caller that must be rejected sends an input that would succeed. Any other sends an invalid input,
    /// which must be rejected as such.
    fn check_kind(&self, row: &Operation, way: CallPath, input: &Value, kind: &Kind) -> i64 {
        let Kind { who, .. } = kind;
        let broken = json!({"unknown": true});
        match kind.outcome(row, way) {
            Outcome::Refused(status, code) => {
                let answer = kind.call(&self.world, way, row, input);
                self.expect(who, row, way, &answer, (status, code));
                if row.access().personal && kind.decisions() > 0 {
                    let answer = kind.call(&self.world, way, row, &broken);
                    self.expect(who, row, way, &answer, (status, code));
                    return 2;
                }
            }
            Outcome::Admitted => {
                let answer = kind.call(&self.world, way, row, &broken);
                let found = (answer.status, answer.code());
                let is_admitted = !matches!(answer.status, 401 | 403 | 429 | 500..);
                assert!(is_admitted, "{who} calls {row:?} by {way:?}: {:#}", answer.body);
                // The row defines the contents of a file or a body of another protocol.
                let is_other = row.http().frame.is_some() || row.http().takes_file;
                let is_told = is_other || found == (400, "malformed-request");
                assert!(is_told, "{who} calls {row:?} by {way:?}: {:#}", answer.body);
            }
            Outcome::Unasked => {
                let ask = [Kind::call, Kind::call_without];
                let [found, wanted] = ask.map(|call| call(kind, &self.world, way, row, &broken));
                let said = |answer: &Answer| (answer.status, answer.code().to_owned());
                assert_eq!(said(&found), said(&wanted), "{who} calls {row:?} by {way:?}: {:#}", found.body);
                return 0;
            }
        }
        kind.decisions()
    }

    fn expect(&self, who: &str, operation: &Operation, way: CallPath, answer: &Answer, wanted: (u16, &str)) {
        // The errors of SCIM have no code.
        let has_code = operation.http().frame != Some(Frame::Scim);
        let found = (answer.status, if has_code { answer.code() } else { wanted.1 });
        assert_eq!(found, wanted, "{who} calls {operation:?} by {way:?}: {:#}", answer.body);
        let turned_away = matches!(answer.status, 401 | 403);
        assert_eq!(answer.lsn().is_none(), turned_away, "{who} calls {operation:?} by {way:?}: Svc-Room-LSN");
    }

    /// Refuses a token that has every capability but those that the operation needs.
    ///
    /// An operation that was copied with the capability of its neighbour works in every test of its author,
    /// who calls it as an administrator. An agent that was only allowed to read would change others' work.
    fn check_lacking(&self, operation: &Operation, way: CallPath, input: &Value) {
        if let Some(token) = self.lacking.get(&operation.access().needs.expression()) {
            let answer = way.call(&self.world, Some(token), operation, input);
            let wanted = (403, "missing-capability");
            self.expect("a token without the capability", operation, way, &answer, wanted);
        }
    }

    /// Refuses the administrator of another workspace, who may do everything there.
    ///
    /// A function that selects a row by its id alone, without the loaders, returns it to every caller that
    /// knows the id. Teams that share a server would read and close each other's threads.
    fn check_outsider(&self, operation: &Operation, way: CallPath, input: &Value) {
        let names_an_object = input.as_object().unwrap().keys().any(|name| name.ends_with("_id"));
        if !names_an_object || NAMES_NOTHING.iter().any(|(name, _)| *name == operation.name()) {
            return;
        }
        let answer = way.call(&self.world, Some(&self.world.people.outsider), operation, input);
        self.expect("another workspace's admin", operation, way, &answer, (404, "not-found"));
    }

    /// Refuses a member of the workspace who is not in the private channel.
    ///
    /// A loader that compares only the workspace is right for everything but private channels. A member who
    /// was excluded on purpose would read its messages and post among them.
    fn check_bystander(&self, operation: &Operation, way: CallPath, input: &Value) {
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

    /// Lets a frozen member read.
    ///
    /// A read that was added with `write` hides data that a frozen member may still see.
    fn check_frozen(&self, operation: &Operation, way: CallPath, input: &Value) {
        if operation.access().needs == Needs::Nothing || !operation.effect().is_read_only() {
            return;
        }
        let ask = || way.call(&self.world, Some(&self.world.people.frozen), operation, input);
        let answer = match (operation.effect(), input["timeout_secs"].as_u64()) {
            (Effect::Wait, Some(secs)) => self.world.once_time_is_over(Duration::from_secs(secs), ask),
            _ => ask(),
        };
        assert!(answer.is_success(), "a frozen member reads {operation:?} by {way:?}: {:#}", answer.body);
    }
}

/// Checks the operations of a table that `wanted` selects.
pub fn unauthorized_callers_are_rejected(
    engine: Engine,
    features: fn() -> Vec<Feature>,
    wanted: OperationFilter<'_>,
) {
    let matrix = Matrix::open(engine, features, wanted);
    let mut operations =
        matrix.world.service.table().operations().filter(|operation| wanted(operation)).peekable();
    assert!(operations.peek().is_some());
    operations.for_each(|operation| matrix.check(operation));
}

/// Callers without the right to an operation are rejected.
///
/// An operation that forgets to check a capability, or the owner of its object, works for its author, who may
/// do everything.
fn strangers_are_rejected(engine: Engine, wanted: OperationFilter<'_>) {
    unauthorized_callers_are_rejected(engine, Vec::new, wanted);
}

by_area!(every_operation_rejects_unauthorized_callers, strangers_are_rejected);

/// The same for the rows that are not operations.
#[test]
fn every_framed_row_rejects_unauthorized_callers() {
    on_both_engines(|world| {
        let matrix = Matrix::open(world.engine(), Vec::new, &|_| false);
        let rows = matrix.world.service.table().rows().filter(|row| row.http().frame.is_some());
        let rows: Vec<&Operation> = rows.collect();
        assert!(rows.len() > 20);
        rows.iter().for_each(|row| matrix.check(row));
        let row = matrix.world.service.table().rows().find(|row| row.http().frame == Some(Frame::SignIn));
        let way = CallPath::of(row.unwrap())[0];
        for (kind, token) in matrix.kinds.iter().filter_map(|kind| Some((kind, kind.token()?))) {
            let answer = way.call(&matrix.world, None, row.unwrap(), &json!({"token": token}));
            assert_eq!(answer.status, kind.signs_in(), "{} signs in: {:#}", kind.who, answer.body);
        }
    });
}

/// A control: with its signature and from its own page the cookie is a credential, and the token beside it,
/// too.
#[test]
fn a_cookie_that_counts_is_a_credential() {
    on_both_engines(|world| {
        let good = session_key().cookie(world.sign_in(&world.people.bystander));
        let good = format!("svc_session={good}");
        let own = format!("http://{}", world.address());
        for headers in [vec![], vec![("origin", &*own)], vec![("sec-fetch-site", "same-origin")]] {
            let headers: Vec<_> = [("cookie", &*good)].into_iter().chain(headers).collect();
            let whoami = world.operation("whoami");
            let ask = |token| world.rest().call_by(token, &headers, whoami, "/me", &json!({})).output();
            assert_eq!(ask(None)["token_id"], json!(null));
            assert!(ask(Some(&world.people.bystander))["token_id"].is_string());
        }
    });
}

/// An exception for a removed operation would apply to the next one with that name.
#[test]
fn exceptions_name_operations_that_exist() {
    let table = svc_core::operation_table().unwrap();
    for (name, reason) in NAMES_NOTHING.iter().chain(ONLY_FILTERS) {
        assert!(table.operation(name).is_some() && reason.len() > 10, "{name}");
    }
}
