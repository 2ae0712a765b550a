//! SCIM in process: users, groups, filters, and the end of a person's access.

mod documents;
mod ends;
mod groups;
mod lists;
mod users;

use serde_json::{Value, json};
use svc_tests::World;
use svc_tests::client::Answer;

/// Creates a user as the admin, and returns it.
fn new_user(world: &World, name: &str) -> Value {
    world.admin("create_scim_user", json!({"userName": name}))
}

/// Changes a user by one operation of a PATCH.
fn patch(world: &World, user: &Value, op: &str, path: &str, value: Value) -> Answer {
    let operations = json!([{"op": op, "path": path, "value": value}]);
    let input = json!({"id": user["id"], "Operations": operations});
    world.call(&world.people.admin, "patch_scim_user", input)
}

/// Returns the kinds of the workspace's events from a position on, except those of chores for claims.
fn kinds_after(world: &World, after: i64) -> Vec<String> {
    let input = json!({"workspace_id": world.id("workspace"), "after_id": after, "limit": 100});
    let events = world.admin("list_events", input);
    let kinds = events["items"].as_array().unwrap().iter();
    kinds.map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
}
