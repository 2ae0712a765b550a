//! The cost of operations that read, and of the other methods of MCP.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::ExecutedStatement;
use svc_core::limits::FOOTPRINT_ITEMS_MAX;
use svc_core::op::{Effect, Operation};
use svc_tests::World;
use svc_tests::client::Answer;

use super::limits::EXCEPTIONS;
use super::measure::{SeenStatements, asked, items, too_much};

/// Returns the inputs that an operation is called with: its largest example, and one with each value of each
/// optional field that is a choice or the id of a sample.
pub fn inputs(world: &World, operation: &Operation) -> Vec<Value> {
    let Some(mut example) = operation.docs().example(&world.fixture) else { return Vec::new() };
    let schema = operation.input_schema();
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    if let Some(limit) = fields.get("limit").and_then(|field| field["maximum"].as_i64()) {
        example["limit"] = json!(limit);
    }
    if operation.effect() == Effect::Wait {
        example["timeout_secs"] = json!(1);
    }
    let mut inputs = vec![example.clone()];
    for (name, field) in &fields {
        let mut values: Vec<Value> = match name.as_str() {
            "channel_id" => vec![json!(world.id("channel"))],
            "thread_id" => vec![json!(world.id("thread"))],
            "member_id" | "assignee_id" | "author_id" | "holder" => vec![json!(world.id("agent"))],
            "kind" if field["enum"].is_null() => vec![json!("MessagePosted")],
            "skill" => vec![json!("rust")],
            "repo" => vec![json!("acme/app")],
            "filter" => filters(world),
            "footprint" => footprints(),
            _ => Vec::new(),
        };
        let options = [&field["enum"], &field["anyOf"][0]["enum"]];
        values.extend(options.into_iter().filter_map(Value::as_array).flatten().cloned());
        if field["type"] == "boolean" || field["type"] == json!(["boolean", "null"]) {
            values.extend([json!(true), json!(false)]);
        }
        for value in values.into_iter().filter(|value| !value.is_null()) {
            let mut input = example.clone();
            input[name] = value;
            inputs.push(input);
        }
        if name == "filter" {
            inputs.extend(without(&example, name));
        }
    }
    inputs
}

fn without(input: &Value, field: &str) -> Option<Value> {
    let mut input = input.clone();
    input.as_object_mut()?.remove(field)?;
    Some(input)
}

/// Returns footprints with the maximum number of items: of slots, and of paths that claims touch.
fn footprints() -> Vec<Value> {
    let of = |kind: &str, name: fn(usize) -> String| {
        let items = (1..=FOOTPRINT_ITEMS_MAX).map(|number| json!({"kind": kind, "value": name(number)}));
        json!({"repo": "acme/app", "mode": "exclusive", "items": items.collect::<Vec<_>>()})
    };
    let slot = |number: usize| if number == 1 { "browser".to_owned() } else { format!("browser-{number}") };
    vec![of("slot", slot), of("path", |number| format!("d{}/f{number}", number % 7))]
}

/// Returns filters of SCIM: by an index, by a selection in the database, and by comparison.
fn filters(world: &World) -> Vec<Value> {
    let of_member = format!("members eq \"{}\"", world.id("person"));
    let by_all = ["userName eq \"nobody\"", "active eq true", "displayName co \"zzz\"", &of_member];
    by_all.into_iter().map(|filter| json!(filter)).collect()
}

/// Returns the answer of a wait, and the statements that it runs before it waits.
///
/// Periodic work that is due as time passes runs beside the next call, hence the cheapest of a few.
fn waited(
    world: &World,
    seen: &SeenStatements,
    operation: &Operation,
    input: &Value,
) -> (Answer, Vec<ExecutedStatement>) {
    let once = |_| {
        std::thread::scope(|scope| {
            seen.take();
            let ask = || world.call(&world.people.admin, operation.name(), input.clone());
            let asking = scope.spawn(ask);
            let mut ran = None;
            while !asking.is_finished() {
                if ran.is_none() && world.service.parked_waits() > 0 {
                    ran = Some(seen.take());
                    world.clock.advance(Duration::from_secs(2));
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
            (asking.join().unwrap(), ran.unwrap_or_else(|| seen.take()))
        })
    };
    (0..4).map(once).min_by_key(|(_, ran)| ran.len()).unwrap()
}

/// Returns a report for every call that costs too much, except for the listed exceptions.
pub fn expensive(world: &World, seen: &SeenStatements) -> Vec<String> {
    let mut found = Vec::new();
    let reads = world.service.table().operations().filter(|operation| operation.effect().is_read_only());
    for operation in reads {
        let is_excepted = EXCEPTIONS.iter().any(|(name, _)| *name == operation.name());
        if is_excepted {
            continue;
        }
        let mut of_operation = Vec::new();
        for (number, input) in inputs(world, operation).into_iter().enumerate() {
            let began = std::time::Instant::now();
            let name = operation.name();
            let (answer, cost) = match operation.effect() {
                Effect::Wait => {
                    let (answer, ran) = waited(world, seen, operation, &input);
                    let cost = too_much(world.engine(), name, &ran, items(&answer.body));
                    (answer, cost)
                }
                _ => asked(world, seen, name, || world.call(&world.people.admin, name, input.clone())),
            };
            let took = began.elapsed();
            if number == 0 && !answer.is_success() {
                found.push(format!("{}: {:#}", operation.name(), answer.body));
            }
            of_operation.extend(cost.map(|cost| format!("{name} {input} took {took:?}: {cost}")));
        }
        // One report is enough for faults that they have in common.
        found.extend(of_operation.into_iter().take(2));
    }
    found
}

/// Checks that counts which end at a limit say so, and no others.
pub fn check_cut_counts(world: &World) {
    for (operation, most) in [("list_slots", 1000), ("list_reactions", 4000)] {
        let input = world.operation(operation).docs().example(&world.fixture).unwrap();
        let listed = world.admin(operation, input)["items"].take();
        let listed = listed.as_array().unwrap();
        let cut: Vec<&Value> = listed.iter().filter(|item| item["at_least"] == true).collect();
        assert!(!cut.is_empty(), "{operation} counts all");
        let counts = cut.iter().map(|item| item["used"].as_i64().or(item["count"].as_i64()).unwrap());
        assert!(
            counts.clone().all(|count| count > 0) && counts.sum::<i64>() <= 2 * most,
            "{operation}: {cut:?}"
        );
    }
    let reactions = world
        .admin("list_reactions", world.operation("list_reactions").docs().example(&world.fixture).unwrap());
    let lone = |item: &&Value| item["count"] == 1 && item.get("at_least").is_none();
    assert!(reactions["items"].as_array().unwrap().iter().any(|item| lone(&item)), "{reactions:#}");
}

/// Returns a report for every method of MCP beside the operations that costs too much.
pub fn expensive_methods(world: &World, seen: &SeenStatements) -> Vec<String> {
    let complete = |uri: &str, name: &str| {
        let reference = json!({"type": "ref/resource", "uri": uri});
        json!({"ref": reference, "argument": {"name": name, "value": ""}})
    };
    let methods = [
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": format!("svc://workspaces/{}", world.id("workspace"))})),
        ("resources/read", json!({"uri": format!("svc://channels/{}", world.id("channel"))})),
        ("resources/read", json!({"uri": format!("svc://threads/{}", world.id("thread"))})),
        ("completion/complete", complete("svc://channels/{id}", "id")),
        ("completion/complete", complete("svc://threads/{id}", "id")),
        ("completion/complete", complete("svc://boots/{channel_id}", "channel_id")),
    ];
    let mut found = Vec::new();
    let methods =
        methods.into_iter().filter(|(method, _)| !EXCEPTIONS.iter().any(|(name, _)| name == method));
    for (method, params) in methods {
        let what = format!("{method} {params}");
        let ask = || world.mcp().request(Some(&world.people.admin), method, params.clone());
        let (answer, cost) = asked(world, seen, &what, ask);
        if !answer.is_success() || answer.body.get("error").is_some() {
            found.push(format!("{what}: {:#}", answer.body));
        }
        found.extend(cost.map(|cost| format!("{what}: {cost}")));
    }
    found
}
