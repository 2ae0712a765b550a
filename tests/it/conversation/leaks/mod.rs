//! Leaks: personal data of a member stays hidden from all others, whatever their rights, and the contents of
//! a direct message from all who are not in it.
//!
//! Both tests are derived from the operation table: they call every personal operation and every read, as
//! other members and as one who administers the workspace. The answers must not depend on the hidden data.
//! Each search has a control that finds existing data.

mod dms;
mod personal;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use svc_core::op::{Effect, Operation};
use svc_tests::{World, text};

use crate::op::asking::{CallPath, all_pages, fewest_filters};

/// Runs a test on each engine at the same time.
macro_rules! on_each_engine {
    ($name:ident, $check:ident) => {
        mod $name {
            use svc_core::Engine;
            use svc_tests::database::engines;

            #[test]
            fn on_sqlite() {
                super::$check(Engine::Sqlite);
            }

            #[test]
            fn on_postgres() {
                if engines().contains(&Engine::Postgres) {
                    super::$check(Engine::Postgres);
                }
            }
        }
    };
}
use on_each_engine;

/// Returns the callers who must find nothing, and their tokens.
fn viewers(world: &World) -> Vec<(&'static str, String)> {
    vec![
        ("who administers everything", world.people.bystander.clone()),
        ("a worker", world.new_agent("passer-by").1),
        ("who only reads", world.people.reader.clone()),
    ]
}

/// The source of an answer: an operation, the transport, and the caller.
type AnswerSource = (&'static str, CallPath, &'static str);

/// Returns the inputs with which a reading operation is called: its example, as few filters as possible, and
/// everything that can be requested.
fn inputs(operation: &Operation, example: &Value) -> [(CallPath, Value); 3] {
    let few = fewest_filters(operation, example.clone());
    let mut all = few.clone();
    let schema = operation.input_schema();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let kind = field["type"].to_string();
        if kind.contains("boolean") {
            all[name] = json!(true);
        }
    }
    let last = if operation.http().rest_only { CallPath::Rest } else { CallPath::Mcp };
    let example = if operation.effect() == Effect::Wait { few.clone() } else { example.clone() };
    [(CallPath::Core, example), (CallPath::Rest, few), (last, all)]
}

/// A function that adapts the examples of operations.
type ExampleAdapter<'a> = &'a dyn Fn(&Operation) -> Value;

/// Calls the reading operations that `wanted` selects, as the viewers.
fn read_all(
    world: &World,
    viewers: &[(&'static str, String)],
    example: ExampleAdapter<'_>,
    wanted: impl Fn(&Operation) -> bool,
) -> BTreeMap<AnswerSource, Vec<Value>> {
    let mut answers: BTreeMap<AnswerSource, Vec<Value>> = BTreeMap::new();
    for operation in world.service.table().operations().filter(|operation| wanted(operation)) {
        for (way, input) in inputs(operation, &example(operation)) {
            for (who, token) in viewers {
                let said = all_pages(world, way, token, operation, input.clone());
                let said = said.into_iter().map(|answer| answer.body);
                answers.entry((operation.name(), way, who)).or_default().extend(said);
            }
        }
    }
    answers
}

/// Returns the last position of the workspace's trail.
fn trail_end(world: &World) -> i64 {
    let workspace = world.database.id(world.id("workspace"));
    world.database.number(&format!("select audit_seq from heads where workspace_id = {workspace}"))
}

/// Returns the new rows of the trail: their actions, metadata and channels.
fn trail_after(world: &World, seq: i64) -> Vec<(String, Value, Value)> {
    let workspace = world.database.id(world.id("workspace"));
    let rows = world.database.rows(&format!(
        "select action, metadata, channel_id from audit where workspace_id = {workspace} and seq > {seq}
         order by seq"
    ));
    rows.iter()
        .map(|row| (text(&row[0]), serde_json::from_str(&text(&row[1])).unwrap(), row[2].clone()))
        .collect()
}

/// Returns whether a row of the trail shows only that the operation was called.
fn is_discreet(operation: &Operation, (action, metadata, channel): &(String, Value, Value)) -> bool {
    let names: BTreeSet<&str> = metadata.as_object().unwrap().keys().map(String::as_str).collect();
    let path = metadata["path"].as_str().unwrap_or_default();
    let is_plain = names == BTreeSet::from(["operation", "path", "status", "surface"])
        && (path == operation.http().path || path == "/mcp" || path.is_empty());
    action == "mutation" && is_plain && channel.is_null()
}

#[track_caller]
fn check_discreet(world: &World, operation: &Operation, before: i64) {
    for row in trail_after(world, before) {
        assert!(is_discreet(operation, &row), "{operation:?} leaves {row:?}");
    }
}

/// Returns whether an operation is about personal data: it takes the id of the member, and refuses all
/// others.
fn is_personal(operation: &Operation) -> bool {
    operation.access().personal && operation.input_schema()["properties"].get("member_id").is_some()
}
