//! What must be settled before a thread closes.

mod approvals;
mod context;
mod counting;
mod delegates;
mod land_gate;
mod reviews;
mod story;

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::{World, text};

/// A member and the secret of a token of its own.
#[derive(Clone)]
struct Person {
    id: String,
    token: String,
}

impl Person {
    fn new(world: &World, handle: &str) -> Self {
        let (id, token) = world.new_agent(handle);
        Self { id, token }
    }

    /// The same with a skill, which the admin confers if it is one of governance.
    fn with_skill(world: &World, handle: &str, skill: &str) -> Self {
        let person = Self::new(world, handle);
        if ["review", "land_gate"].contains(&skill) {
            world.admin("confer_skill", json!({"member_id": person.id, "skill": skill}));
        } else {
            world.call(&person.token, "set_skills", json!({"skills": [skill]})).output();
        }
        person
    }

    /// A token by which this member acts for another.
    fn acting_for(&self, world: &World, subject: &str) -> String {
        let work = ["workspace:read", "workspace:write", "message:post", "thread:transition"];
        world.exchange(&self.token, &world.new_grant(subject, &self.id, &work))
    }
}

/// An id as SQL.
fn row_id(world: &World, id: &str) -> String {
    world.database.id(id.parse::<uuid::Uuid>().unwrap())
}

fn take_skill(world: &World, member: &str, skill: &str) {
    world.admin("revoke_skill", json!({"member_id": member, "skill": skill}));
}

/// Sets a time of a member, such as when it was deactivated, which no operation does yet; null clears it.
fn set_time(world: &World, member: &str, column: &str, time: &str) {
    let member = row_id(world, member);
    world.database.execute(&format!(
        "update members set {column} = {time} where id = {member}; update heads set epoch = epoch + 1"
    ));
}

fn set_owner(world: &World, thread: &str, owner: &str) {
    world.admin("set_thread_owner", json!({"thread_id": thread, "owner_id": owner}));
}

/// A new thread of the admin, in a channel of all.
fn new_thread(world: &World) -> String {
    world.new_thread(&world.id("channel").to_string(), "under review")
}

/// Makes a move as the admin.
fn go(world: &World, thread: &str, action: &str) -> Answer {
    world.call(&world.people.admin, "transition_thread", json!({"thread_id": thread, "action": action}))
}

/// Claims a thread and sets its result.
fn work(world: &World, token: &str, thread: &str) {
    world.call(token, "claim_thread", json!({"thread_id": thread})).output();
    world.call(token, "set_thread_result", json!({"thread_id": thread, "result": {}})).output();
}

/// The conditions that prevent a close, each with its ids.
fn unmet(world: &World, thread: &str) -> Vec<(String, Value)> {
    let refused = go(world, thread, "close").refused(409, "close-refused");
    let reasons = refused["reasons"].as_array().unwrap().iter();
    reasons.map(|reason| (text(&reason["condition"]), reason["ids"].clone())).collect()
}
