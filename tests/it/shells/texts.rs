//! The texts for a model: they say when to use each tool, and name only existing items.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use svc_core::capability::{Capabilities, Capability};
use svc_core::op::{Table, mcp};
use svc_core::{Code, Engine, operation_table};
use svc_tests::{World, text};

/// Maximum bytes of the text that says when to use a tool.
const WHEN_BYTES_MAX: usize = 200;

/// Words with the form of a name that are not in a schema.
const OTHER_NAMES: &[&str] = &[
    // A notice, and a member of a problem.
    "budget_low",
    "retry_after_secs",
];

/// Returns the instructions of a server for a client at `path`.
pub fn instructions(world: &World, path: &str) -> String {
    let token = Some(world.people.agent.as_str());
    let told = world.mcp().request_at(path, token, &[], "server/discover", json!({}));
    text(&told.body["result"]["instructions"])
}

fn tools(table: &Table) -> Vec<Value> {
    mcp::tools(table, Capabilities::all()).map(|row| mcp::tool(row)).collect()
}

/// Collects all descriptions within a value.
fn descriptions<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| match member {
            Value::String(text) if name == "description" => found.push(text),
            member => descriptions(member, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| descriptions(item, found)),
        _ => {}
    }
}

/// Collects the names of all members and options of a schema.
fn names_of(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            for (keyword, rule) in members {
                match (keyword.as_str(), rule) {
                    ("properties", Value::Object(properties)) => names.extend(properties.keys().cloned()),
                    ("enum", Value::Array(options)) => {
                        names.extend(options.iter().filter_map(Value::as_str).map(str::to_owned));
                    }
                    ("const", Value::String(only)) => {
                        names.insert(only.clone());
                    }
                    _ => {}
                }
                names_of(rule, names);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| names_of(item, names)),
        _ => {}
    }
}

/// Returns the words of a text with the form of a name of more than one part, such as `claim_thread`.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let is_name = |word: &&str| {
        word.contains('_')
            && word.starts_with(|c: char| c.is_ascii_lowercase())
            && !word.contains(|c: char| c.is_ascii_uppercase())
    };
    words.filter(is_name).collect()
}

/// Returns the words that a text marks as names.
fn marked(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Everything that a text may name.
struct Names {
    tools: BTreeSet<String>,
    others: BTreeSet<String>,
}

impl Names {
    fn of(table: &Table) -> Self {
        let mut others: BTreeSet<String> = OTHER_NAMES.iter().map(|name| (*name).to_owned()).collect();
        for operation in table.operations() {
            names_of(&operation.input_schema(), &mut others);
            names_of(&operation.output_schema(), &mut others);
        }
        others.extend(Code::ALL.iter().map(|code| code.name().to_owned()));
        others.extend(Capability::ALL.iter().map(|capability| capability.name().to_owned()));
        Self { tools: tools(table).iter().map(|tool| text(&tool["name"])).collect(), others }
    }

    fn has(&self, name: &str) -> bool {
        self.tools.contains(name) || self.others.contains(name)
    }

    fn check(&self, of: &str, text: &str) {
        named(text).iter().for_each(|name| assert!(self.has(name), "{of} names {name}: {text}"));
    }

    /// Checks a text that marks nothing but names.
    fn check_marked(&self, of: &str, text: &str) {
        self.check(of, text);
        marked(text).iter().for_each(|name| assert!(self.has(name), "{of} names {name}: {text}"));
    }
}

/// A model chooses among many tools by the beginnings of their descriptions.
#[test]
fn each_tool_says_first_what_it_does() {
    let table = operation_table().unwrap();
    for operation in mcp::tools(&table, Capabilities::all()) {
        let tool = mcp::tool(operation);
        let when = operation.docs().when;
        let is_action = when.starts_with(|first: char| first.is_ascii_uppercase());
        assert!(is_action && !when.starts_with("Use ") && when.ends_with('.'), "{operation:?}: \"{when}\"");
        assert!(when.len() <= WHEN_BYTES_MAX, "{operation:?}: {} bytes", when.len());
        assert!(text(&tool["description"]).starts_with(when), "{operation:?}");
        assert!(!when.contains(&format!("`{}`", operation.name())), "{operation:?} names itself: {when}");
        let input = &tool["inputSchema"];
        for field in input["required"].as_array().into_iter().flatten() {
            let shown = &input["properties"][field.as_str().unwrap()];
            assert!(shown.is_object(), "{operation:?} does not show {field}");
        }
        let mut all = Vec::new();
        descriptions(&tool, &mut all);
        for text in all {
            assert!(!text.contains('\n') && !text.contains("  "), "{operation:?}: {text:?}");
            let statuses = ["400 ", "403 ", "404 ", "409 ", "503 "];
            assert!(!statuses.iter().any(|status| text.contains(&format!("{status}`"))), "{text}");
            assert!(!text.contains("Fails with"), "{operation:?}: {text}");
        }
    }
}

/// An agent that is referred to a missing tool is lost.
#[test]
fn texts_name_only_what_exists() {
    let table = operation_table().unwrap();
    let names = Names::of(&table);
    for tool in tools(&table) {
        let mut all = Vec::new();
        descriptions(&tool, &mut all);
        all.iter().for_each(|text| names.check(tool["name"].as_str().unwrap(), text));
    }
    Code::ALL.iter().for_each(|code| names.check(code.name(), code.next()));
    let world = World::open(Engine::Sqlite);
    let token = world.people.agent.as_str();
    let told =
        |method: &str, params: Value| world.mcp().request(Some(token), method, params).body["result"].clone();
    for prompt in told("prompts/list", json!({}))["prompts"].as_array().unwrap() {
        let arguments = json!({"thread_id": world.id("thread")});
        let shown = told("prompts/get", json!({"name": prompt["name"], "arguments": arguments}));
        names.check_marked(
            prompt["name"].as_str().unwrap(),
            shown["messages"][0]["content"]["text"].as_str().unwrap(),
        );
    }
    names.check_marked("/mcp", &instructions(&world, "/mcp"));
}

/// A tool outside of its profile does not exist for an agent.
#[test]
fn the_instructions_of_a_profile_name_its_tools_and_their_fields() {
    let world = World::open(Engine::Sqlite);
    let table = world.service.table();
    let all = Names::of(table);
    for path in ["/mcp/worker", "/mcp/reviewer"] {
        let listed = world.mcp().request_at(path, Some(&world.people.agent), &[], "tools/list", json!({}));
        let listed = listed.body["result"]["tools"].as_array().unwrap().clone();
        let mut fields = BTreeSet::new();
        listed.iter().for_each(|tool| names_of(tool, &mut fields));
        let tools: BTreeSet<&str> = listed.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        let told = instructions(&world, path);
        for name in named(&told).union(&marked(&told)).copied() {
            let exists = if all.tools.contains(name) { tools.contains(name) } else { fields.contains(name) };
            assert!(exists, "{path} has no {name}");
        }
    }
}
