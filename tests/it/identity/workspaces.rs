//! Workspaces: the name and handle of the caller's own, and no access to others.

use serde_json::json;
use svc_core::op::Effect;
use svc_tests::{World, answer_of, call, in_parallel, on_both_engines};

#[test]
fn get_workspace_returns_the_new_name_after_a_rename_to_its_own_members_only() {
    on_both_engines(|world| {
        let input = || json!({"workspace_id": world.id("workspace")});
        let before = world.agent("get_workspace", input());
        assert_eq!((&before["id"], &before["name"]), (&json!(world.id("workspace")), &json!("Night shift")));
        let rename = json!({"workspace_id": world.id("workspace"), "name": "Early shift"});
        let lsn = world.lsn();
        world.admin("update_workspace", rename.clone());
        world.admin("update_workspace", rename);
        assert_eq!(world.kinds_after(lsn), ["WorkspaceUpdated"], "a repeated rename changes nothing");
        let after = world.agent("get_workspace", input());
        assert_eq!(after["name"], "Early shift");
        assert_eq!(after["created_at"], before["created_at"]);
        world.call(&world.people.outsider, "get_workspace", input()).refused(404, "not-found");
    });
}

#[test]
fn who_has_one_workspace_need_not_name_it() {
    on_both_engines(|world| {
        let mut compared = 0;
        for operation in world.service.table().operations() {
            let named = operation.docs().example(&world.fixture).unwrap();
            let mut short = named.clone();
            // Once erased, a workspace no longer exists.
            if short.as_object_mut().unwrap().remove("workspace_id").is_none()
                || operation.effect() == Effect::Destructive
            {
                continue;
            }
            let left_out = world.call(&world.people.admin, operation.name(), short.clone());
            if operation.effect() == Effect::Read && operation.name() != "export_workspace" {
                let named = world.call(&world.people.admin, operation.name(), named);
                assert_eq!(left_out.body, named.body, "{operation:?}");
                compared += 1;
            }
            let is_known = !matches!(left_out.code(), "malformed-request" | "not-found");
            assert!(is_known, "{operation:?} {short}: {}", left_out.body);
        }
        assert!(compared > 30, "only {compared}");
    });
}

/// Returns the workspace of the bearer, with this handle.
fn with_handle(world: &World, token: &str, handle: &str) -> serde_json::Value {
    let workspace = world.call(token, "whoami", json!({})).output()["workspace_id"].clone();
    json!({"workspace_id": workspace, "handle": handle})
}

#[test]
fn a_handle_belongs_to_one_workspace_until_it_takes_another() {
    on_both_engines(|world| {
        let [ours, theirs] = [&world.people.admin, &world.people.outsider];
        let set = |token: &str, handle: &str| {
            world.call(token, "set_workspace_handle", with_handle(world, token, handle))
        };
        let lsn = world.lsn();
        for handle in ["night-shift", "Night-Shift"] {
            assert_eq!(set(ours, handle).output()["handle"], "night-shift");
        }
        assert_eq!(world.kinds_after(lsn), ["WorkspaceHandleChanged"]);
        let read = world.agent("get_workspace", json!({"workspace_id": world.id("workspace")}));
        assert_eq!(read["handle"], "night-shift");
        set(theirs, "night-shift").refused(409, "handle-taken");
        set(ours, "day/shift").refused(400, "malformed-request");
        set(ours, "late-shift").output();
        assert_eq!(set(theirs, "night-shift").output()["handle"], "night-shift", "it is free again");
        set(ours, "night-shift").refused(409, "handle-taken");
    });
}

#[test]
fn of_two_workspaces_that_take_a_handle_at_once_one_gets_it() {
    on_both_engines(|world| {
        let other = world.another_service(7);
        for round in 0..10 {
            let handle = format!("shift-{round}");
            let asks = [(&world.service, &world.people.admin), (&other, &world.people.outsider)];
            let asks = asks.map(|(service, token)| (service, token, with_handle(world, token, &handle)));
            let mut statuses = in_parallel(2, |number| {
                let (service, token, input) = &asks[number];
                answer_of(call(service, Some(token), "set_workspace_handle", input)).status
            });
            statuses.sort_unstable();
            assert_eq!(statuses, [200, 409], "round {round}");
        }
    });
}
