//! The ways to call an operation, and to get everything that a read returns.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::limits::ANSWER_BYTES_MAX;
use svc_core::op::{Effect, Operation};
use svc_tests::World;
use svc_tests::client::Answer;

/// Returns the input with the shortest timeout that a wait can have.
pub fn with_short_timeout(operation: &Operation, mut input: Value) -> Value {
    if operation.effect() == Effect::Wait {
        let schema = operation.input_schema();
        input["timeout_secs"] = schema["properties"]["timeout_secs"]["minimum"].clone();
    }
    input
}

/// Returns the input of a call that returns the same over every transport: with all detail, as many items and
/// bytes.
pub fn in_full(operation: &Operation, input: &Value) -> Value {
    let mut input = with_detail(operation, input, "full", 50);
    if operation.input_schema()["properties"].get("max_bytes").is_some() {
        input["max_bytes"] = ANSWER_BYTES_MAX.into();
    }
    input
}

/// Returns the input with this detail and this limit, if the operation has these and they are not given.
pub fn with_detail(operation: &Operation, input: &Value, detail: &str, limit: i64) -> Value {
    let mut input = input.clone();
    let schema = operation.input_schema();
    for (name, value) in [("detail", json!(detail)), ("limit", json!(limit))] {
        if operation.is_detailed() && schema["properties"].get(name).is_some() && input.get(name).is_none() {
            input[name] = value;
        }
    }
    input
}

/// A way to call an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallPath {
    Core,
    Rest,
    Mcp,
}

impl CallPath {
    pub fn over_the_wire(operation: &Operation) -> impl Iterator<Item = CallPath> {
        [Self::Rest, Self::Mcp].into_iter().filter(|way| *way != Self::Mcp || !operation.http().rest_only)
    }

    /// Returns all ways; in process only where a request costs little.
    pub fn of(operation: &Operation, engine: Engine) -> impl Iterator<Item = CallPath> {
        let core = (engine == Engine::Sqlite).then_some(Self::Core);
        core.into_iter().chain(Self::over_the_wire(operation))
    }

    /// Calls it, and lets the timeout of a wait pass.
    pub fn ask(self, world: &World, token: &str, operation: &Operation, input: &Value) -> Answer {
        let ask = || match self {
            Self::Core => world.call(token, operation.name(), input.clone()),
            Self::Rest => world.rest().call(Some(token), operation, input),
            Self::Mcp => world.mcp().call(Some(token), operation, &in_full(operation, input)),
        };
        match (operation.effect(), input["timeout_secs"].as_u64()) {
            (Effect::Wait, Some(secs)) => world.once_time_is_over(Duration::from_secs(secs), ask),
            _ => loop {
                let answer = ask();
                // A workspace allows one verification at a time.
                if answer.code() != "rate-limited" {
                    return answer;
                }
                std::thread::yield_now();
            },
        }
    }
}

/// Returns an example of an operation that only reads, with as few filters as possible.
pub fn fewest_filters(operation: &Operation, mut example: Value) -> Value {
    let schema = operation.input_schema();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    example.as_object_mut().unwrap().retain(|name, _| required.contains(&name.as_str()));
    if let Some(after) = example.get_mut("after_id") {
        *after = json!(0);
    }
    if let Some(limit) = schema["properties"].get("limit") {
        example["limit"] = limit["maximum"].clone();
    }
    with_short_timeout(operation, example)
}

/// Returns all responses of an operation that only reads, on all its pages.
pub fn all_pages(
    world: &World,
    way: CallPath,
    token: &str,
    operation: &Operation,
    mut input: Value,
) -> Vec<Answer> {
    let mut all = Vec::new();
    loop {
        let answer = way.ask(world, token, operation, &input);
        let cursor = answer.body["next_cursor"].clone();
        all.push(answer);
        if !cursor.is_string() {
            return all;
        }
        input["cursor"] = cursor;
        input.as_object_mut().unwrap().remove("after_id");
    }
}
