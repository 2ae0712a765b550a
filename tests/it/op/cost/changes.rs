//! The cost of operations and framed rows that change something, counted for each transaction.

use serde_json::{Value, json};
use svc_core::op::{Effect, Fixture, Operation, SampleCaller};
use svc_tests::World;
use svc_tests::client::Answer;

use super::framed::Credentials;
use super::limits::{EXCEPTIONS, FIRST, LAST};
use super::measure::{SeenStatements, items, too_much};

/// Returns a report for every change that costs too much.
///
/// Each is called once, in one workspace. Changes that remove objects which others need come last; a change
/// whose sample is used up is called with a new one.
pub fn expensive(world: &World, seen: &SeenStatements) -> Vec<String> {
    let mut found = Vec::new();
    let credentials = Credentials::new(world);
    let mut fixture = world.fixture.clone();
    for row in in_order(world) {
        if EXCEPTIONS.iter().any(|(name, _)| *name == row.name()) {
            continue;
        }
        let is_framed = row.http().frame.is_some();
        let (mut answer, mut cost) = call(world, seen, &credentials, row, &fixture);
        if !answer.is_success() && !is_framed {
            fixture = renewed(world, &fixture);
            (answer, cost) = call(world, seen, &credentials, row, &fixture);
        }
        // The person's steps at a provider are not part of the world.
        if !(answer.is_success() || is_framed && answer.status < 500) {
            found.push(format!("{}: {} {:#}", row.name(), answer.status, answer.body));
        }
        found.extend(cost.map(|cost| format!("{}: {cost}", row.name())));
    }
    found
}

/// Calls a row, and returns the answer and a report of one of its transactions if that has cost too much.
fn call(
    world: &World,
    seen: &SeenStatements,
    credentials: &Credentials,
    row: &Operation,
    fixture: &Fixture,
) -> (Answer, Option<String>) {
    let input = row.docs().example(fixture).unwrap_or_else(|| json!({}));
    seen.take();
    let answer = credentials.call(world, row, &input);
    let transactions = seen.take_transactions();
    if row.name() == "place_legal_hold" && answer.is_success() {
        let hold = json!({"workspace_id": world.id("workspace"), "hold_id": answer.body["id"]});
        world.admin("release_legal_hold", hold);
    }
    let items = items(&input) + items(&answer.body);
    let mut costs = transactions.iter().filter_map(|ran| too_much(world.engine(), row.name(), ran, items));
    let cost = costs.next();
    (answer, cost)
}

/// Returns the rows that change something; those that remove objects which others need come last.
pub fn in_order(world: &World) -> Vec<&Operation> {
    let rows = world.service.table().rows().filter(|row| !row.effect().is_read_only());
    let mut rows: Vec<&Operation> = rows.collect();
    let place = |row: &Operation, of: &[&str]| of.iter().position(|name| *name == row.name());
    rows.sort_by_key(|row| {
        let first = place(row, FIRST).unwrap_or(FIRST.len());
        let last = place(row, LAST).map_or(0, |place| place + 1);
        (first, last, row.effect() == Effect::Destructive)
    });
    rows
}

/// Returns a fixture whose samples are new where they can be made again.
pub fn renewed(world: &World, fixture: &Fixture) -> Fixture {
    let mut fixture = fixture.clone();
    for sample in world.service.table().samples() {
        for (number, call) in sample.calls().iter().enumerate() {
            let token = match call.by {
                SampleCaller::Admin => &world.people.admin,
                SampleCaller::Agent => &world.people.agent,
            };
            let input: Value = (call.input)(&fixture);
            let answer = world.call(token, call.operation, input);
            if number == 0
                && let Some(id) = sample.id_in(&answer.body)
            {
                fixture.insert(sample.name(), id);
            }
        }
    }
    fixture
}
