//! The conditions that must be met before a thread closes.

mod approvals;
mod backlinks;
mod by_a_person;
mod context;
mod counting;
mod delegates;
mod land_gate;
mod relations;
mod reviews;
mod story;

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::{World, text};

/// Returns an id as SQL.
fn row_id(world: &World, id: &str) -> String {
    world.database.id(id.parse::<uuid::Uuid>().unwrap())
}

fn take_skill(world: &World, member: &str, skill: &str) {
    world.admin("revoke_skill", json!({"member_id": member, "skill": skill}));
}

fn set_owner(world: &World, thread: &str, owner: &str) {
    world.admin("set_thread_owner", json!({"thread_id": thread, "owner_id": owner}));
}

/// Returns a new thread of the admin, in a public channel.
fn new_thread(world: &World) -> String {
    world.new_thread(&world.id("channel").to_string(), "under review")
}

/// Makes a transition as the admin.
fn go(world: &World, thread: &str, action: &str) -> Answer {
    world.call(&world.people.admin, "transition_thread", json!({"thread_id": thread, "action": action}))
}

/// Claims a thread and sets its result.
fn work(world: &World, token: &str, thread: &str) {
    world.call(token, "claim_thread", json!({"thread_id": thread})).output();
    world.call(token, "set_thread_result", json!({"thread_id": thread, "result": {}})).output();
}

/// Returns the conditions that prevent a close, each with its ids.
fn unmet(world: &World, thread: &str) -> Vec<(String, Value)> {
    let refused = go(world, thread, "close").refused(409, "close-refused");
    let reasons = refused["reasons"].as_array().unwrap().iter();
    reasons.map(|reason| (text(&reason["condition"]), reason["ids"].clone())).collect()
}
