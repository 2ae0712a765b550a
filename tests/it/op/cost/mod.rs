//! What an operation costs does not depend on how much there is: a generated test fills a workspace to its
//! limits, calls every operation that reads, and counts statements and what these examine.

mod fill;
mod limits;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::op::{Effect, Operation};
use svc_core::{Engine, Ran};
use svc_tests::client::Answer;
use svc_tests::database::engines;
use svc_tests::{Setup, World};

use limits::{EXCEPTIONS, FRAMED_ROWS, MORE_ROWS};

/// Statements of a call, beside one for each item that it returns.
const STATEMENTS_MAX: usize = 50;
/// Rows that the statements of a call examine, on Postgres, unless it is listed with more.
const ROWS_MAX: u64 = 10_000;
/// Steps of SQLite's virtual machine that those of a call take.
const STEPS_MAX: u64 = 500_000;

/// Characters of a statement in a report.
const SHOWN: usize = 1200;

/// The statements that the service has run.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Ran>>>);

impl Seen {
    fn take(&self) -> Vec<Ran> {
        let ran = std::mem::take(&mut *self.0.lock().unwrap());
        let ends = |ran: &Ran| ["begin", "commit", "rollback"].iter().any(|word| ran.sql.starts_with(word));
        ran.into_iter().filter(|ran| !ends(ran)).collect()
    }
}

fn filled(engine: Engine) -> (World, Seen) {
    let seen = Seen::default();
    let sink = seen.clone();
    let watcher = Arc::new(move |ran: &Ran| sink.0.lock().unwrap().push(ran.clone()));
    let world =
        World::with(engine, Setup { seed: 77, in_memory: true, watcher: Some(watcher), ..Setup::default() });
    fill::fill(&world);
    (world, seen)
}

/// What a call has cost, if that is too much.
fn too_much(engine: Engine, what: &str, ran: &[Ran], items: usize) -> Option<String> {
    let cost: u64 = ran.iter().map(|ran| ran.cost).sum();
    let listed = MORE_ROWS.iter().find(|(name, ..)| what.starts_with(name));
    let most = match engine {
        Engine::Sqlite => STEPS_MAX,
        Engine::Postgres => listed.map_or(ROWS_MAX, |(_, most, _)| *most),
    };
    if ran.len() <= STATEMENTS_MAX + items && cost <= most {
        return None;
    }
    let mut by_statement: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for ran in ran {
        let of = by_statement.entry(ran.sql).or_default();
        *of = (of.0 + 1, of.1 + ran.cost);
    }
    let most_of = |by: fn(&(usize, u64)) -> u64| {
        let (sql, (times, cost)) = by_statement.iter().max_by_key(|(_, found)| by(found)).unwrap();
        let sql: Vec<&str> = sql.split_whitespace().collect();
        let sql: String = sql.join(" ").chars().take(SHOWN).collect();
        format!("{cost} by {times} x {sql}")
    };
    let (most_often, most) = (most_of(|(times, _)| *times as u64), most_of(|(_, cost)| *cost));
    Some(format!("{} statements, {cost} examined, of which\n  {most_often}\n  {most}", ran.len()))
}

/// The items of an output, however it nests them.
fn items(output: &Value) -> usize {
    match output {
        Value::Array(values) => values.len() + values.iter().map(items).sum::<usize>(),
        Value::Object(fields) => fields.values().map(items).sum(),
        _ => 0,
    }
}

/// The inputs that an operation is called with: its example as large as it may be, and with each value of
/// each optional field that is a choice or the id of a sample.
fn inputs(world: &World, operation: &Operation) -> Vec<Value> {
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
    }
    inputs
}

/// What a wait returns, and what it runs before it waits.
///
/// Periodic work that is due as time passes runs beside the next call, hence the cheapest of a few.
fn waited(world: &World, seen: &Seen, operation: &Operation, input: &Value) -> (Answer, Vec<Ran>) {
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

/// Every call that costs too much, but for those that are excepted.
fn expensive_reads(world: &World, seen: &Seen) -> Vec<String> {
    let mut found = Vec::new();
    let reads = world.service.table().operations().filter(|operation| operation.effect().changes_nothing());
    for operation in reads {
        let is_excepted = EXCEPTIONS.iter().any(|(name, _)| *name == operation.name());
        if is_excepted {
            continue;
        }
        let mut of_operation = Vec::new();
        for (number, input) in inputs(world, operation).into_iter().enumerate() {
            seen.take();
            let began = std::time::Instant::now();
            let (answer, ran) = match operation.effect() {
                Effect::Wait => waited(world, seen, operation, &input),
                _ => (world.call(&world.people.admin, operation.name(), input.clone()), seen.take()),
            };
            let took = began.elapsed();
            if number == 0 && !answer.is_success() {
                found.push(format!("{}: {:#}", operation.name(), answer.body));
            }
            if let Some(cost) = too_much(world.engine(), operation.name(), &ran, items(&answer.body)) {
                of_operation.push(format!("{} {input} took {took:?}: {cost}", operation.name()));
            }
        }
        // One says enough of what they have in common.
        found.extend(of_operation.into_iter().take(2));
    }
    found
}

#[test]
fn no_read_costs_more_than_its_share_however_much_there_is() {
    let mut found = Vec::new();
    for engine in engines() {
        let began = std::time::Instant::now();
        let (world, seen) = filled(engine);
        eprintln!("{}: filled after {:?}", engine.name(), began.elapsed());
        let of_engine = [expensive_reads(&world, &seen), expensive_methods(&world, &seen)].concat();
        found.extend(of_engine.into_iter().map(|found| format!("{}: {found}", engine.name())));
        check_cut_counts(&world);
        eprintln!("{}: read after {:?}", engine.name(), began.elapsed());
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}

/// Counts that end at a bound say so, and no others.
fn check_cut_counts(world: &World) {
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

/// What is asked over MCP beside operations, and over the framed rows.
fn expensive_methods(world: &World, seen: &Seen) -> Vec<String> {
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
    let mut check = |what: String, answer: Answer| {
        // A filter that would be compared with more is refused.
        let is_refused = answer.body["scimType"] == "tooMany";
        if !(answer.is_success() || is_refused) || answer.body.get("error").is_some() {
            found.push(format!("{what}: {:#}", answer.body));
        }
        if let Some(cost) = too_much(world.engine(), &what, &seen.take(), items(&answer.body)) {
            found.push(format!("{what}: {cost}"));
        }
    };
    let methods =
        methods.into_iter().filter(|(method, _)| !EXCEPTIONS.iter().any(|(name, _)| name == method));
    for (method, params) in methods {
        seen.take();
        let answer = world.mcp().request(Some(&world.people.admin), method, params.clone());
        check(format!("{method} {params}"), answer);
    }
    for path in FRAMED_ROWS {
        seen.take();
        let answer = world.rest().send(Some(&world.people.admin), "GET", path, &[], None);
        check((*path).to_owned(), answer);
    }
    found
}

/// The control: what costs more than its share is found, by either count.
#[test]
fn what_costs_more_than_its_share_is_found() {
    let statements = |count: usize, cost: u64| vec![Ran { sql: "select 1", cost }; count];
    for (engine, most) in [(Engine::Sqlite, STEPS_MAX), (Engine::Postgres, ROWS_MAX)] {
        assert_eq!(too_much(engine, "x", &statements(STATEMENTS_MAX + 2, 0), 2), None);
        assert!(too_much(engine, "x", &statements(STATEMENTS_MAX + 3, 0), 2).is_some());
        assert_eq!(too_much(engine, "x", &statements(1, most), 0), None);
        assert!(too_much(engine, "x", &statements(1, most + 1), 0).is_some());
    }
}
