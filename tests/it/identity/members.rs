//! Members: how they are listed and read.

use serde_json::{Value, json};
use svc_tests::on_both_engines;
use svc_tests::{World, text};

/// The handles that a list returns.
fn handles(world: &World, filter: &Value) -> Vec<String> {
    let mut input = json!({"workspace_id": world.id("workspace")});
    input.as_object_mut().unwrap().extend(filter.as_object().cloned().unwrap());
    let page = world.agent("list_members", input);
    page["items"].as_array().unwrap().iter().map(|member| text(&member["handle"])).collect()
}

#[test]
fn list_members_is_in_the_order_of_joining_and_filters_by_handle_and_kind() {
    on_both_engines(|world| {
        let before = handles(world, &json!({}));
        for handle in ["zoe", "abe"] {
            world.new_agent(handle);
        }
        let joined = |added: &[&str]| -> Vec<String> {
            before.iter().cloned().chain(added.iter().map(|&handle| handle.to_owned())).collect()
        };
        assert_eq!(handles(world, &json!({})), joined(&["zoe", "abe"]));
        assert_eq!(handles(world, &json!({"handle": "abe"})), ["abe"]);
        assert_eq!(handles(world, &json!({"handle": "eve"})), [""; 0], "she is in another workspace");
        let people = handles(world, &json!({"kind": "human"}));
        let agents = handles(world, &json!({"kind": "agent"}));
        assert_eq!(people, ["ada"]);
        assert_eq!(people.len() + agents.len(), before.len() + 2);
        assert_eq!(handles(world, &json!({"kind": "human", "handle": "abe"})), [""; 0]);
    });
}

#[test]
fn get_member_returns_the_current_skills_in_order_of_their_names() {
    on_both_engines(|world| {
        let (id, token) = world.new_agent("newcomer");
        let read = || world.agent("get_member", json!({"member_id": id}));
        let member = read();
        assert_eq!((&member["handle"], &member["kind"]), (&json!("newcomer"), &json!("agent")));
        assert_eq!((&member["frozen"], &member["active"]), (&json!(false), &json!(true)));
        assert_eq!(member["skills"], json!([]));
        for skills in [json!(["rust", "python"]), json!(["python", "ada"])] {
            world.call(&token, "set_skills", json!({"skills": skills})).output();
        }
        assert_eq!(read()["skills"], json!(["ada", "python"]));
        let elsewhere = world.call(&world.people.outsider, "get_member", json!({"member_id": id}));
        elsewhere.refused(404, "not-found");
    });
}
