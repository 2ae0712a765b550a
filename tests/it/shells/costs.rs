//! The cost of the texts for a model, in tokens of o200k.

use serde_json::{Value, json};
use svc_core::capability::Capabilities;
use svc_core::op::mcp;
use svc_core::{Engine, operation_table};
use svc_tests::World;

use super::texts::instructions;

/// Maximum tokens of a tool, on average over all of them.
const AVERAGE_MAX: usize = 170;
/// Maximum tokens of a single tool.
const TOOL_MAX: usize = 400;
/// Maximum tokens of a profile: its tools and its instructions.
const PROFILE_MAX: usize = 4_500;

/// Returns the number of tokens of a text.
pub fn tokens(text: &str) -> usize {
    tiktoken_rs::o200k_base_singleton().count_ordinary(text)
}

/// Returns the number of tokens of each of these tools, the most expensive first.
///
/// A model gets its name, its description and the schema of its input.
fn costs<'a>(tools: impl IntoIterator<Item = &'a Value>) -> Vec<(usize, &'a str)> {
    let cost = |tool: &'a Value| {
        let shown = json!({
            "name": tool["name"], "description": tool["description"], "inputSchema": tool["inputSchema"],
        });
        (tokens(&shown.to_string()), tool["name"].as_str().unwrap())
    };
    let mut costs: Vec<_> = tools.into_iter().map(cost).collect();
    costs.sort_unstable_by(|a, b| b.cmp(a));
    costs
}

fn sum(costs: &[(usize, &str)]) -> usize {
    costs.iter().map(|(cost, _)| cost).sum()
}

/// A model pays for each tool that it is offered, with every request.
#[test]
fn tools_cost_a_model_little() {
    let table = operation_table().unwrap();
    let tools: Vec<Value> = mcp::tools(&table, Capabilities::all()).map(|row| mcp::tool(row)).collect();
    let costs = costs(&tools);
    let average = sum(&costs) / costs.len();
    println!("{} tools of {average} tokens on average: {costs:?}", costs.len());
    assert!(average <= AVERAGE_MAX, "{average} tokens on average: {costs:?}");
    assert!(costs[0].0 <= TOOL_MAX, "{costs:?}");
}

#[test]
fn a_profile_costs_a_model_little() {
    let world = World::open(Engine::Sqlite);
    for path in ["/mcp/worker", "/mcp/reviewer"] {
        let listed = world.mcp().request_at(path, Some(&world.people.agent), &[], "tools/list", json!({}));
        let costs = costs(listed.body["result"]["tools"].as_array().unwrap());
        let told = tokens(&instructions(&world, path));
        let whole = sum(&costs) + told;
        println!("{path}: {whole} tokens, {told} of them instructions: {costs:?}");
        assert!(whole <= PROFILE_MAX, "{path}: {whole} tokens, {told} of them instructions: {costs:?}");
    }
}
