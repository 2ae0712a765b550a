//! A member of a world, who calls with its own token.

use serde_json::json;
use uuid::Uuid;

use crate::World;

/// A member and the secret of its token.
#[derive(Clone)]
pub struct Person {
    pub id: String,
    pub token: String,
}

impl Person {
    /// Returns a new agent.
    pub fn new(world: &World, handle: &str) -> Self {
        let (id, token) = world.new_agent(handle);
        Self { id, token }
    }

    /// Returns a new agent with a skill, which the admin grants if it is one of governance.
    pub fn with_skill(world: &World, handle: &str, skill: &str) -> Self {
        let person = Self::new(world, handle);
        if ["review", "land_gate"].contains(&skill) {
            world.admin("confer_skill", json!({"member_id": person.id, "skill": skill}));
        } else {
            world.call(&person.token, "set_skills", json!({"skills": [skill]})).output();
        }
        person
    }

    /// Returns a token by which this member acts for another.
    pub fn acting_for(&self, world: &World, subject: &str) -> String {
        let work = ["workspace:read", "workspace:write", "message:post", "thread:transition"];
        world.exchange(&self.token, &world.new_grant(subject, &self.id, &work))
    }

    /// Sets a time of the member directly in the database, such as that of its deactivation, or clears it.
    pub fn set_time(&self, world: &World, column: &str, is_set: bool) {
        let id = world.database.id(self.id.parse::<Uuid>().unwrap());
        let time = if is_set { "created_at" } else { "null" };
        world.database.execute(&format!(
            "update members set {column} = {time} where id = {id}; update heads set epoch = epoch + 1"
        ));
    }
}
