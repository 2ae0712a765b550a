//! Spawn budgets: the limits of child threads, and the rows of a denied child.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

fn set(world: &World, limits: Value) -> Value {
    let mut input = json!({"workspace_id": world.id("workspace")});
    input.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
    world.admin("set_spawn_budget", input)
}

fn child(parent: &str, tools: &[&str]) -> Value {
    json!({"thread_id": parent, "title": "a part", "tools": tools})
}

/// Returns the rows of the audit trail about creating children, the latest first.
fn audited(world: &World) -> Vec<Value> {
    let rows = world.admin("list_audit", json!({"workspace_id": world.id("workspace"), "limit": 500}));
    let rows = rows["items"].as_array().unwrap().iter();
    rows.filter(|row| row["metadata"]["operation"] == "create_child_thread").cloned().collect()
}

#[test]
fn a_denied_child_stands_in_the_log_and_nowhere_else() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let parent = world.new_thread(&channel, "a task");
        let create = |parent: &str, tools: &[&str]| {
            world.call(&world.people.agent, "create_child_thread", child(parent, tools))
        };
        let made = create(&parent, &["grep", "cargo"]).output();
        assert_eq!(made["tools"], json!(["grep", "cargo"]));
        assert_eq!(world.agent("get_thread", json!({"thread_id": made["id"]}))["tools"], made["tools"]);
        set(world, json!({"max_children": 2, "max_depth": 2, "max_tools": 1}));
        let denied = |parent: &str, tools: &[&str], limit: &str, allowed: i64| {
            let lsn = world.lsn();
            let rows = audited(world).len();
            let children = world.agent("list_child_threads", json!({"thread_id": parent}));
            let answer = create(parent, tools);
            let refused = answer.refused(409, "spawn-rejected");
            assert_eq!((&refused["limit"], &refused["allowed"]), (&json!(limit), &json!(allowed)));
            assert_eq!(world.kinds_after(lsn), ["ThreadSpawnDenied"]);
            let events = world.agent("list_thread_events", json!({"thread_id": parent, "limit": 500}));
            let event = events["items"].as_array().unwrap().last().unwrap()["payload"].clone();
            assert_eq!((&event["limit"], &event["allowed"]), (&json!(limit), &json!(allowed)));
            assert_eq!(event["parent_id"], json!(parent));
            assert_eq!(audited(world).len(), rows, "a refusal is no mutation");
            assert_eq!(world.agent("list_child_threads", json!({"thread_id": parent})), children);
        };
        denied(&parent, &["a", "b"], "max_tools", 1);
        let second = text(&create(&parent, &["a"]).output()["id"]);
        denied(&second, &[], "max_depth", 2);
        denied(&parent, &[], "max_children", 2);
        // Closed children count, because the limit is on all children ever.
        world.agent("transition_thread", json!({"thread_id": second, "action": "close"}));
        denied(&parent, &[], "max_children", 2);
        world.admin("verify_event_chain", json!({"workspace_id": world.id("workspace")}));

        set(world, json!({"max_tools": 1}));
        create(&parent, &["a"]).output();
        set(world, json!({}));
        create(&parent, &["a", "b", "c"]).output();
    });
}

#[test]
fn the_spawn_budget_of_a_workspace_is_set_and_read() {
    on_both_engines(|world| {
        let read = || world.agent("get_spawn_budget", json!({"workspace_id": world.id("workspace")}));
        let none = json!({"max_children": null, "max_depth": null, "max_tools": null});
        assert_eq!(read(), none);
        let some = json!({"max_children": 3, "max_depth": null, "max_tools": 0});
        let lsn = world.lsn();
        assert_eq!((set(world, some.clone()), read()), (some.clone(), some.clone()));
        set(world, some);
        assert_eq!(world.kinds_after(lsn), ["SpawnBudgetSet"], "the same again changes nothing");
        assert_eq!((set(world, json!({})), read()), (none.clone(), none));
        let mut bad = json!({"workspace_id": world.id("workspace"), "max_depth": 17});
        world.call(&world.people.admin, "set_spawn_budget", bad.clone()).refused(400, "malformed-request");
        for good in [16, 0] {
            bad["max_depth"] = json!(good);
            world.call(&world.people.admin, "set_spawn_budget", bad.clone()).output();
        }
        let parent = world.new_thread(&world.new_channel("flat"), "a task");
        world
            .call(&world.people.agent, "create_child_thread", child(&parent, &[]))
            .refused(409, "spawn-rejected");
    });
}

/// The decision is committed with the event, and only once.
#[test]
fn a_delegated_child_that_is_denied_leaves_one_decision() {
    on_both_engines(|world| {
        let parent = world.new_thread(&world.new_channel("queue"), "a task");
        set(world, json!({"max_children": 0}));
        let [subject, delegate] = ["agent", "admin"].map(|sample| world.id(sample).to_string());
        let grant = world.new_grant(&subject, &delegate, &["workspace:read", "workspace:write"]);
        let token = world.exchange(&world.people.admin, &grant);
        let decisions = || {
            let rows: Vec<Value> = audited(world);
            rows.iter().filter(|row| row["action"] == "authorization.decision").cloned().collect::<Vec<_>>()
        };
        for made in 1..=2 {
            world.call(&token, "create_child_thread", child(&parent, &[])).refused(409, "spawn-rejected");
            assert_eq!(decisions().len(), made);
            let metadata = &decisions()[0]["metadata"];
            assert_eq!(
                (&metadata["decision"], &metadata["problem"]),
                (&json!("refused"), &json!("spawn-rejected"))
            );
        }
        assert_eq!(audited(world).len(), 2, "and no mutation");
    });
}
