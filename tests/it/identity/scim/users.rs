//! Users: creation, search, changes and removal.

use serde_json::{Value, json};
use svc_tests::{Setup, World, database::engines, on_both_engines, text};

use super::{kinds_after, new_user, patch};

#[test]
fn a_user_is_a_person_whose_handle_is_its_user_name() {
    on_both_engines(|world| {
        let before = world.lsn();
        let made = world.admin(
            "create_scim_user",
            json!({"userName": "Grace@Corp.Example", "externalId": "00u1", "displayName": "Grace",
                   "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"]}),
        );
        assert_eq!(made["userName"], "grace@corp.example");
        assert_eq!((&made["externalId"], &made["active"]), (&json!("00u1"), &json!(true)));
        assert_eq!(made["meta"]["location"], json!(format!("/scim/v2/Users/{}", text(&made["id"]))));
        assert_eq!(kinds_after(world, before), ["MemberCreated"]);
        let member = world.admin("get_member", json!({"member_id": made["id"]}));
        assert_eq!((&member["kind"], &member["handle"]), (&json!("human"), &made["userName"]));
        assert_eq!(world.admin("get_scim_user", json!({"id": made["id"]})), made);
        for taken in ["grace@corp.example", "GRACE@corp.example", "ada"] {
            let answer = world.call(&world.people.admin, "create_scim_user", json!({"userName": taken}));
            assert_eq!(answer.refused(409, "handle-taken")["scimType"], "uniqueness", "{taken}");
        }
        for (id, what) in [("agent", "an agent"), ("channel", "no member")] {
            let answer = world.call(&world.people.admin, "get_scim_user", json!({"id": world.id(id)}));
            assert_eq!(answer.status, 404, "{what}");
        }
        let inactive = world.admin("create_scim_user", json!({"userName": "late", "active": "False"}));
        assert_eq!(inactive["active"], false);
    });
}

#[test]
fn what_a_directory_may_not_call_a_person_is_refused() {
    on_both_engines(|world| {
        for name in ["", "two words", "app:x", "deleted:x", "peer:x", "ada@peer", "a\u{0}"] {
            let answer = world.call(&world.people.admin, "create_scim_user", json!({"userName": name}));
            answer.refused(400, "malformed-request");
        }
        let user = new_user(world, "eva");
        for (path, value) in [
            ("userName", json!("app:x")),
            ("userName", json!(7)),
            ("active", json!("maybe")),
            ("externalId", json!("x".repeat(1001))),
        ] {
            let refused = patch(world, &user, "replace", path, value).refused(400, "malformed-request");
            assert_eq!(refused["scimType"], "invalidValue", "{path}");
        }
        for path in ["userName", "active"] {
            let refused = patch(world, &user, "remove", path, json!(null)).refused(400, "malformed-request");
            assert_eq!(refused["scimType"], "mutability", "{path}");
        }
        assert_eq!(world.admin("get_scim_user", json!({"id": user["id"]})), user);
    });
}

#[test]
fn a_patch_is_done_whole_or_not_at_all() {
    on_both_engines(|world| {
        let user = new_user(world, "eva");
        let id = &user["id"];
        let before = world.lsn();
        let operations = json!([
            {"op": "replace", "path": "userName", "value": "ada2"},
            {"op": "replace", "path": "active", "value": true},
            {"op": "replace", "path": "externalId", "value": "two\nlines"},
        ]);
        let input = json!({"id": id, "Operations": operations});
        world.call(&world.people.admin, "patch_scim_user", input).refused(400, "malformed-request");
        let taken = json!({"id": id, "Operations": [
            {"op": "replace", "path": "externalId", "value": "e"},
            {"op": "replace", "path": "userName", "value": "ADA"}]});
        world.call(&world.people.admin, "patch_scim_user", taken).refused(409, "handle-taken");
        let taken = json!({"id": id, "userName": "ada"});
        world.call(&world.people.admin, "replace_scim_user", taken).refused(409, "handle-taken");
        assert_eq!(world.admin("get_scim_user", json!({"id": id})), user);
        assert_eq!(world.lsn(), before);
    });
}

#[test]
fn a_display_name_is_set_once() {
    on_both_engines(|world| {
        for operation in ["patch_scim_user", "replace_scim_user"] {
            let user = new_user(world, operation);
            let named = |name: &str| {
                let patch = [json!({"op": "add", "path": "displayName", "value": name})];
                let input = match operation {
                    "patch_scim_user" => json!({"id": user["id"], "Operations": patch}),
                    _ => json!({"id": user["id"], "userName": user["userName"], "displayName": name}),
                };
                world.call(&world.people.admin, operation, input)
            };
            assert_eq!(named("").output().get("displayName"), None);
            for name in ["Eva", "Other", "", &"x".repeat(101)] {
                assert_eq!(named(name).output()["displayName"], "Eva", "{operation} {name}");
            }
            patch(world, &user, "remove", "displayName", json!(null)).output();
            let member = world.admin("get_member", json!({"member_id": user["id"]}));
            assert_eq!(member["display_name"], "Eva");
        }
    });
}

#[test]
fn a_user_is_renamed_and_keeps_its_display_name() {
    on_both_engines(|world| {
        let named = json!({"userName": "eva", "displayName": "Ada", "externalId": "1"});
        let user = world.admin("create_scim_user", named);
        let before = world.lsn();
        let operations = json!([{"op": "Replace", "value": {
            "userName": "Ada.L", "displayName": "Other", "name.givenName": "A", "emails": []}}]);
        let patched =
            world.admin("patch_scim_user", json!({"id": user["id"], "Operations": operations.clone()}));
        assert_eq!((&patched["userName"], &patched["displayName"]), (&json!("ada.l"), &json!("Ada")));
        assert_eq!(kinds_after(world, before), ["MemberUpdated"]);
        let again = world.admin("patch_scim_user", json!({"id": user["id"], "Operations": operations}));
        assert_eq!(again, patched, "nothing is left to change");
        let replaced = world.admin("replace_scim_user", json!({"id": user["id"], "userName": "ada.l"}));
        assert!(replaced.get("externalId").is_none() && replaced["active"] == true);
        assert_eq!(kinds_after(world, before), ["MemberUpdated", "MemberUpdated"]);
    });
}

/// The requests of Entra and Okta, and their outcomes.
#[test]
fn identity_providers_are_understood() {
    let dialogues: [(&str, Value, &str, Value); 7] = [
        (
            "Entra disables",
            json!([{"op": "Replace", "path": "active", "value": "False"}]),
            "active",
            json!(false),
        ),
        ("Entra enables", json!([{"op": "Add", "path": "active", "value": "True"}]), "active", json!(true)),
        (
            "Entra updates",
            json!([
                {"op": "Replace", "path": "emails[type eq \"work\"].value", "value": "a@corp.example"},
                {"op": "Add", "path": "name.familyName", "value": "L"},
                {"op": "Replace", "value": {"displayName": "x", "name.givenName": "A", "externalId": "e1",
                    "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department": "R"}},
                {"op": "Add", "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager",
                 "value": "m"},
            ]),
            "externalId",
            json!("e1"),
        ),
        (
            "Entra renames",
            json!([{"op": "Replace", "path": "userName", "value": "Ada.L@corp.example"}]),
            "userName",
            json!("ada.l@corp.example"),
        ),
        ("Okta disables", json!([{"op": "replace", "value": {"active": false}}]), "active", json!(false)),
        ("Okta enables", json!([{"op": "replace", "value": {"active": true}}]), "active", json!(true)),
        (
            "Okta renames",
            json!([{"op": "replace", "value": {"id": "x", "userName": "eva2@corp.example"}}]),
            "userName",
            json!("eva2@corp.example"),
        ),
    ];
    on_both_engines(|world| {
        let user = new_user(world, "ada.x@corp.example");
        for (who, operations, attribute, wanted) in &dialogues {
            let input = json!({"id": user["id"], "Operations": operations,
                               "schemas": ["urn:ietf:params:scim:api:messages:2.0:PatchOp"]});
            assert_eq!(world.admin("patch_scim_user", input)[attribute], *wanted, "{who}");
        }
    });
}

#[test]
fn a_removed_person_is_gone_and_its_handle_is_free() {
    on_both_engines(|world| {
        let user = world.admin(
            "create_scim_user",
            json!({"userName": "gone@corp.example", "externalId": "9", "displayName": "Gone"}),
        );
        let group =
            world.admin("create_scim_group", json!({"displayName": "g", "members": [{"value": user["id"]}]}));
        let row = world.database.id(text(&user["id"]).parse::<uuid::Uuid>().unwrap());
        let workspace = world.database.id(world.id("workspace"));
        world.database.execute(&format!(
            "insert into oidc_identities (workspace_id, issuer, subject, member_id, linked_at)
             values ({workspace}, 'https://idp.example', 's', {row}, 1)"
        ));
        let before = world.lsn();
        world.admin("delete_scim_user", json!({"id": user["id"]}));
        assert_eq!(kinds_after(world, before), ["MemberDeactivated", "MemberRemoved"]);
        for operation in ["get_scim_user", "delete_scim_user"] {
            world.call(&world.people.admin, operation, json!({"id": user["id"]})).refused(404, "not-found");
        }
        let member = world.admin("get_member", json!({"member_id": user["id"]}));
        assert_eq!(member["handle"], json!(format!("deleted:{}", text(&user["id"]))));
        assert_eq!((&member["display_name"], &member["active"]), (&json!(null), &json!(false)));
        assert_eq!(world.database.number("select count(*) from oidc_identities"), 0);
        assert!(world.admin("get_scim_group", json!({"id": group["id"]})).get("members").is_none());
        let again = new_user(world, "gone@corp.example");
        assert_ne!(again["id"], user["id"]);
    });
}

#[test]
fn another_workspace_has_its_own_users() {
    on_both_engines(|world| {
        let user = new_user(world, "eva");
        for operation in ["get_scim_user", "delete_scim_user"] {
            let answer = world.call(&world.people.outsider, operation, json!({"id": user["id"]}));
            answer.refused(404, "not-found");
        }
        let theirs = json!({"displayName": "g", "members": [{"value": user["id"]}]});
        let refused = world.call(&world.people.outsider, "create_scim_group", theirs);
        assert_eq!(refused.refused(400, "malformed-request")["scimType"], "invalidValue");
        let listed = world.call(&world.people.outsider, "list_scim_users", json!({"filter": "id pr"}));
        assert!(!listed.output()["Resources"].to_string().contains(&text(&user["id"])));
    });
}

/// A random walk beside a model: users are as the last successful request left them.
#[test]
fn users_are_as_a_model_of_them_says() {
    use std::collections::BTreeMap;
    for engine in engines() {
        let world = World::with(engine, Setup::default());
        let mut model: BTreeMap<String, (String, bool)> = BTreeMap::new();
        let mut seed: u64 = 42;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for step in 0..300 {
            let name = format!("Name{}", draw(8));
            let lower = name.to_lowercase();
            let taken = |id: &str, model: &BTreeMap<String, (String, bool)>| {
                model.iter().any(|(other, (name, _))| other != id && *name == lower)
            };
            let ids: Vec<String> = model.keys().cloned().collect();
            let picked = ids.get(usize::try_from(draw(6)).unwrap()).cloned();
            let act = |operation: &str, input: Value| world.call(&world.people.admin, operation, input);
            let (answer, wanted) = match (draw(4), picked) {
                (0, _) | (_, None) => {
                    let answer = act("create_scim_user", json!({"userName": name}));
                    let wanted = if taken("", &model) { 409 } else { 201 };
                    if wanted == 201 {
                        model.insert(text(&answer.body["id"]), (lower, true));
                    }
                    (answer, wanted)
                }
                (1, Some(id)) => {
                    let active = draw(2) == 1;
                    let input = json!({"id": id, "userName": name, "active": active});
                    let (before, was_active) = model[&id].clone();
                    // If access ends or comes back, a name that is taken is ignored.
                    let is_taken = taken(&id, &model);
                    let is_kept = active && was_active;
                    let wanted = if is_taken && is_kept { 409 } else { 200 };
                    if wanted == 200 {
                        model.insert(id, (if is_taken { before } else { lower }, active));
                    }
                    (act("replace_scim_user", input), wanted)
                }
                (2, Some(id)) => {
                    let active = draw(2) == 1;
                    let operations = json!([{"op": "replace", "value": {"active": active}}]);
                    model.entry(id.clone()).and_modify(|(_, known)| *known = active);
                    (act("patch_scim_user", json!({"id": id, "Operations": operations})), 200)
                }
                (_, Some(id)) => {
                    model.remove(&id);
                    (act("delete_scim_user", json!({"id": id})), 204)
                }
            };
            assert_eq!(answer.status, wanted, "step {step}: {:#}", answer.body);
            let listed = world.admin("list_scim_users", json!({"filter": "userName sw \"name\""}));
            let found: BTreeMap<String, (String, bool)> = listed["Resources"]
                .as_array()
                .unwrap()
                .iter()
                .map(|user| (text(&user["id"]), (text(&user["userName"]), user["active"] == true)))
                .collect();
            assert_eq!(found, model, "step {step}");
        }
    }
}
