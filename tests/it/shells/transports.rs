//! One operation, three transports: every example succeeds over REST, MCP on HTTP and MCP on pipes.
//!
//! Its output and its effects are the same. Three worlds begin alike, and each gets every request over its
//! own transport. They continue together for as long as examples succeed; an example whose object is used up
//! is retried in fresh worlds.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use svc_core::Engine;
use svc_core::op::{Feature, Operation, mcp};
use svc_tests::client::Answer;
use svc_tests::client::rest::address;
use svc_tests::client::stdio::Stdio;
use svc_tests::{Setup, World};

use crate::house::areas::{OperationFilter, by_area};
use crate::house::schema::violations;
use crate::op::asking::{in_full, with_detail};

/// Three worlds with the same history.
struct Worlds {
    client: Stdio,
    pipe: World,
    rest: World,
    mcp: World,
}

/// The response to one example in each world.
struct Answers {
    rest: Answer,
    mcp: Answer,
    pipe: Answer,
}

impl Worlds {
    fn open(engine: Engine, features: fn() -> Vec<Feature>) -> Self {
        let open = || World::with(engine, Setup { features, ..Setup::default() });
        let pipe = open();
        Self { client: pipe.stdio(&pipe.people.admin), pipe, rest: open(), mcp: open() }
    }

    fn call(&self, name: &str, path: &str) -> Answers {
        let rest = &self.rest;
        let mcp = &self.mcp;
        let operation = rest.operation(name);
        let input = in_full(operation, &operation.docs().example(&rest.fixture).unwrap());
        Answers {
            rest: rest.rest().call_at(Some(&rest.people.admin), rest.operation(name), path, &input),
            mcp: mcp.mcp().call(Some(&mcp.people.admin), mcp.operation(name), &input),
            pipe: self.client.call(self.pipe.operation(name), &input),
        }
    }

    /// Compares everything that the worlds have recorded, and the recorded origin of the last change.
    fn compare(&self, name: &str, path: &str, answers: Answers) {
        let rest = &self.rest;
        let mcp = &self.mcp;
        let operation = rest.operation(name);
        let lsn_by_rest = answers.rest.lsn();
        let lsn_by_mcp = answers.mcp.lsn();
        assert_eq!(answers.rest.status, operation.http().success.status(), "{operation:?}");
        let violations = violations(&operation.output_schema(), &answers.rest.body);
        assert!(
            violations.is_empty(),
            "{operation:?} returns what its schema does not allow: {violations:#?}"
        );
        let output = answers.rest.output();
        assert_eq!(output, answers.mcp.output(), "{operation:?} returns something else over MCP");
        assert_eq!(output, answers.pipe.output(), "{operation:?} returns something else on pipes");
        assert_eq!(lsn_by_rest, Some(rest.lsn()), "{operation:?}: Svc-Room-LSN over REST");
        assert_eq!(lsn_by_mcp, Some(mcp.lsn()), "{operation:?}: Svc-Room-LSN over MCP");
        assert_eq!(events(rest), events(mcp), "{operation:?} leaves other events over MCP");
        let plain = |world| audit(world).into_iter().map(plain).collect::<Vec<_>>();
        assert_eq!(plain(rest), plain(mcp), "{operation:?} leaves other audit rows over MCP");
        assert_eq!(events(rest), events(&self.pipe), "{operation:?} leaves other events on pipes");
        assert_eq!(audit(mcp), audit(&self.pipe), "{operation:?} leaves other audit rows on pipes");
        if operation.is_detailed() && operation.effect().is_read_only() {
            self.compare_lean(operation, path);
        }
        if !operation.effect().is_read_only() {
            let input = operation.docs().example(&rest.fixture).unwrap();
            let (target, _) = address(operation, path, &input);
            let path = target.split('?').next().unwrap();
            let (path, ids) = if is_discreet(operation) {
                (operation.http().path, Value::Null)
            } else {
                (path, ids(&input))
            };
            check_origin(
                rest,
                operation,
                &json!({
                    "surface": "rest", "operation": name, "path": path,
                    "status": operation.http().success.status(),
                }),
            );
            check_origin(
                mcp,
                operation,
                &json!({
                    "surface": "mcp", "operation": format!("tools/call:{name}"), "ids": ids,
                }),
            );
        }
    }

    /// Compares the lean answers of both, which are the default over MCP.
    fn compare_lean(&self, operation: &Operation, path: &str) {
        let rest = &self.rest;
        let mcp = &self.mcp;
        let example = operation.docs().example(&rest.fixture).unwrap();
        let lean = with_detail(operation, &example, "lean", 20);
        let by_rest = rest.rest().call_at(Some(&rest.people.admin), operation, path, &lean).output();
        let over_mcp = |input: &Value| {
            mcp.mcp().call(Some(&mcp.people.admin), mcp.operation(operation.name()), input).output()
        };
        assert_eq!(by_rest, over_mcp(&lean), "{operation:?} returns something else over MCP, lean");
        assert_eq!(by_rest, over_mcp(&example), "{operation:?} returns something else over MCP by default");
        let violations = violations(&mcp::tool(operation)["outputSchema"], &by_rest);
        assert!(violations.is_empty(), "{operation:?}, lean: {violations:#?}");
    }
}

/// Returns every event of every workspace, byte by byte.
fn events(world: &World) -> Vec<Vec<Value>> {
    world.database.rows(
        "select workspace_id, lsn, kind, at, channel_id, thread_id,
            member_id, prev_hash, content_hash, payload
         from events order by workspace_id, lsn",
    )
}

/// An audit row's columns, and its metadata.
type AuditRow = (Vec<Value>, Map<String, Value>);

/// Returns every audit row of every workspace.
fn audit(world: &World) -> Vec<AuditRow> {
    let rows = world.database.rows(
        "select workspace_id, seq, at, action, actor_id, subject_id, grant_id, metadata
         from audit order by workspace_id, seq",
    );
    let split = |mut row: Vec<Value>| {
        let metadata = serde_json::from_str(row.pop().unwrap().as_str().unwrap()).unwrap();
        (row, metadata)
    };
    rows.into_iter().map(split).collect()
}

/// Returns an audit row without the parts that depend on the transport; only the generic row has such parts.
fn plain((columns, mut metadata): AuditRow) -> AuditRow {
    if columns[3] == "mutation" {
        for key in ["surface", "operation", "path", "status", "ids"] {
            metadata.remove(key);
        }
    }
    (columns, metadata)
}

/// Checks that the newest row of the caller's workspace has the origin of the change.
///
/// A change with a separate audit row is exempt.
fn check_origin(world: &World, operation: &Operation, wanted: &Value) {
    let workspace = json!(world.id("workspace").simple().to_string());
    let rows: Vec<AuditRow> =
        audit(world).into_iter().filter(|(columns, _)| columns[0] == workspace).collect();
    let (columns, metadata) = rows.last().unwrap();
    if columns[3] != "mutation" {
        return;
    }
    for (key, value) in wanted.as_object().unwrap() {
        assert_eq!(metadata.get(key).unwrap_or(&Value::Null), value, "{operation:?}: the audit row's {key}");
    }
}

/// Returns whether the audit rows of an operation have no ids.
fn is_discreet(operation: &Operation) -> bool {
    operation.docs().area == "dms" || operation.access().personal
}

/// Returns the arguments that the generic row over MCP may have.
fn ids(input: &Value) -> Value {
    let ids =
        input.as_object().unwrap().iter().filter(|(name, value)| name.ends_with("_id") && value.is_string());
    Value::Object(ids.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Checks that every operation's example succeeds on every path and over MCP, with the same outcome.
///
/// `wanted` selects operations.
pub fn examples_succeed_alike(engine: Engine, features: fn() -> Vec<Feature>, wanted: OperationFilter<'_>) {
    let mut worlds = Worlds::open(engine, features);
    let names: Vec<&'static str> = worlds
        .rest
        .service
        .table()
        .operations()
        .filter(|operation| wanted(operation))
        .map(Operation::name)
        .collect();
    assert!(!names.is_empty());
    let mut without = BTreeSet::new();
    for name in names {
        if worlds.rest.operation(name).docs().example(&worlds.rest.fixture).is_none() {
            without.insert(name);
            continue;
        }
        for path in worlds.rest.operation(name).http().paths().collect::<Vec<_>>() {
            if worlds.rest.operation(name).http().rest_only {
                succeeds_over_rest(&mut worlds, engine, features, name, path);
                continue;
            }
            let mut answers = worlds.call(name, path);
            if !answers.rest.is_success() {
                let refusals = [&answers.rest, &answers.mcp, &answers.pipe].map(|answer| &answer.body);
                assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{name}: {refusals:#?}");
                assert_eq!(answers.rest.lsn(), answers.mcp.lsn(), "{name}: Svc-Room-LSN of a refusal");
                worlds = Worlds::open(engine, features);
                answers = worlds.call(name, path);
            }
            worlds.compare(name, path, answers);
        }
    }
    assert!(without.is_empty(), "operations without an example: {without:?}");
}

/// Checks that the example of an operation without a tool succeeds over REST.
///
/// There is no other transport to compare it with. But a broken example would remain in the OpenAPI document,
/// where authors of clients copy it.
fn succeeds_over_rest(
    worlds: &mut Worlds,
    engine: Engine,
    features: fn() -> Vec<Feature>,
    name: &str,
    path: &str,
) {
    let call = |world: &World| {
        let input = world.operation(name).docs().example(&world.fixture).unwrap();
        world.rest().call_at(Some(&world.people.admin), world.operation(name), path, &input)
    };
    let mut answer = call(&worlds.rest);
    // Now the worlds have different histories.
    *worlds = Worlds::open(engine, features);
    if !answer.is_success() {
        answer = call(&worlds.rest);
        *worlds = Worlds::open(engine, features);
    }
    assert_eq!(
        answer.status,
        worlds.rest.operation(name).http().success.status(),
        "{name}: {:#}",
        answer.body
    );
}

/// Checks that the examples of the built-in operations have one outcome over all transports.
///
/// A field that only one shell reads, or a change that only one records, would give the same call two
/// meanings.
fn built_in_examples_succeed_alike(engine: Engine, wanted: OperationFilter<'_>) {
    examples_succeed_alike(engine, Vec::new, wanted);
}

by_area!(every_example_succeeds_over_rest_and_mcp_with_the_same_outcome, built_in_examples_succeed_alike);
