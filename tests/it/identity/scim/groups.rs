//! Groups and their members.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines};

use super::{kinds_after, new_user};

fn members(group: &Value) -> Vec<String> {
    let members = group["members"].as_array().cloned().unwrap_or_default();
    let mut ids: Vec<String> = members.iter().map(|one| one["value"].as_str().unwrap().to_owned()).collect();
    ids.sort();
    ids
}

fn patched(world: &World, group: &Value, operations: Value) -> Value {
    world.admin("patch_scim_group", json!({"id": group["id"], "Operations": operations}))
}

#[test]
fn people_come_into_a_group_and_leave_it() {
    on_both_engines(|world| {
        let ids: Vec<Value> = ["a1", "b1", "c1"].map(|name| new_user(world, name)["id"].clone()).to_vec();
        let [a, b, c] = [0, 1, 2].map(|place: usize| ids[place].as_str().unwrap());
        let sorted = |ids: &[&str]| {
            let mut ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            ids.sort();
            ids
        };
        let group = world.admin("create_scim_group", json!({"displayName": "G", "members": [{"value": a}]}));
        let before = world.lsn();
        for (who, operations, wanted) in [
            (
                "Entra adds",
                json!([{"op": "Add", "path": "members", "value": [{"value": b}, {"value": c}]}]),
                vec![a, b, c],
            ),
            ("again", json!([{"op": "add", "path": "members", "value": {"value": b}}]), vec![a, b, c]),
            (
                "Entra removes",
                json!([{"op": "Remove", "path": format!("members[value eq \"{a}\"]")}]),
                vec![b, c],
            ),
            ("by value", json!([{"op": "Remove", "path": "members", "value": [{"value": b}]}]), vec![c]),
            (
                "Okta replaces",
                json!([{"op": "replace",
                        "value": {"id": "x", "displayName": "H", "members": [{"value": a}]}}]),
                vec![a],
            ),
            ("all leave", json!([{"op": "remove", "path": "members"}]), vec![]),
        ] {
            assert_eq!(members(&patched(world, &group, operations)), sorted(&wanted), "{who}");
        }
        assert_eq!(kinds_after(world, before), ["GroupChanged"; 5], "what changes nothing leaves no event");
        let put = json!({"id": group["id"], "displayName": "I", "members": [{"value": b}, {"value": b}]});
        assert_eq!(members(&world.admin("replace_scim_group", put)), [b]);
        let found = world.admin("get_scim_group", json!({"id": group["id"]}));
        assert_eq!((&found["displayName"], members(&found)), (&json!("I"), vec![b.to_owned()]));
        for path in [format!("members[value eq \"{b}\"]"), format!("members[value eq \"{b}\" or value pr]")] {
            let none = patched(world, &group, json!([{"op": "remove", "path": path}]));
            assert!(none.get("members").is_none());
        }
        world.admin("delete_scim_group", json!({"id": group["id"]}));
        world
            .call(&world.people.admin, "get_scim_group", json!({"id": group["id"]}))
            .refused(404, "not-found");
    });
}

#[test]
fn who_is_no_user_is_in_no_group() {
    on_both_engines(|world| {
        let group = world.id("scim_group");
        let agent = world.id("agent");
        let add = |value: Value| json!([{"op": "add", "path": "members", "value": value}]);
        for (operations, wanted) in [
            (add(json!([{"value": agent}])), "invalidValue"),
            (add(json!([{"value": "x"}])), "invalidValue"),
            (add(json!([{"display": "x"}])), "invalidValue"),
            (add(json!("x")), "invalidValue"),
            (json!([{"op": "remove"}]), "noTarget"),
            (json!([{"op": "remove", "path": "displayName"}]), "mutability"),
            (json!([{"op": "add", "path": "members.value", "value": "x"}]), "invalidPath"),
            (json!([{"op": "add", "path": "members[value eq \"1\"]", "value": []}]), "invalidPath"),
            (json!([{"op": "remove", "path": "members[value eq 1]"}]), "invalidFilter"),
            (json!([{"op": "add", "path": "displayName", "value": ""}]), "invalidValue"),
        ] {
            let input = json!({"id": group, "Operations": operations});
            let answer = world.call(&world.people.admin, "patch_scim_group", input);
            assert_eq!(answer.refused(400, "malformed-request")["scimType"], wanted, "{operations}");
        }
    });
}
