//! Directories that provision people: the whole dialogues of Microsoft Entra and of Okta, as tables.
//!
//! Each step is a request from the provider's documentation, in its order: the test of the connection, the
//! search without a result, the creation, the changes, the end. A step has the expected status, and the
//! required parts of the answer.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const GROUP: &str = "urn:ietf:params:scim:schemas:core:2.0:Group";
const ERROR: &str = "urn:ietf:params:scim:api:messages:2.0:Error";
const LIST: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// A request, and its expected answer.
struct Step {
    method: &'static str,
    /// The path below `/scim/v2`; names in braces stand for ids.
    path: String,
    sent: Option<Value>,
    status: u16,
    /// The required members of the body; null is a member that must be absent.
    has: Value,
    /// The name under which later steps use the id.
    saved: Option<&'static str>,
}

fn step(method: &'static str, path: &str, sent: Option<Value>, status: u16, has: Value) -> Step {
    Step { method, path: path.to_owned(), sent, status, has, saved: None }
}

fn get(path: &str, status: u16, has: Value) -> Step {
    step("GET", path, None, status, has)
}

fn saves(name: &'static str, step: Step) -> Step {
    Step { saved: Some(name), ..step }
}

fn patch(path: &str, operations: Value, has: Value) -> Step {
    let schemas = ["urn:ietf:params:scim:api:messages:2.0:PatchOp"];
    step("PATCH", path, Some(json!({"schemas": schemas, "Operations": operations})), 200, has)
}

fn found(total: usize, more: Value) -> Value {
    let mut has = json!({"schemas": [LIST], "totalResults": total});
    has.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    has
}

fn refused(status: &str, kind: Value) -> Value {
    json!({"schemas": [ERROR], "status": status, "scimType": kind})
}

/// Returns whether a body has the expected parts: of objects at least those, of lists exactly those.
fn has(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| has(found.get(name).unwrap_or(&Value::Null), wanted))
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| has(found, wanted))
        }
        (found, wanted) => found == wanted,
    }
}

/// Takes every step in a world, with a token of its administrator.
fn held(who: &str, world: &World, steps: Vec<Step>) {
    let mut ids: Vec<(&str, String)> = Vec::new();
    for Step { method, path, sent, status, has: wanted, saved } in steps {
        let named = |text: &str| {
            ids.iter().fold(text.to_owned(), |text, (name, id)| text.replace(&format!("{{{name}}}"), id))
        };
        let in_ids = |value: &Value| -> Value { serde_json::from_str(&named(&value.to_string())).unwrap() };
        let path = named(&path);
        let sent = sent.as_ref().map(in_ids);
        let wanted = in_ids(&wanted);
        let target = format!("/scim/v2{}", path.replace(' ', "%20").replace('"', "%22"));
        let headers = [("content-type", "application/scim+json; charset=utf-8")];
        let answer = world.rest().send(Some(&world.people.admin), method, &target, &headers, sent.as_ref());
        let what = format!("{who}: {method} {path}: {:#}", answer.body);
        assert_eq!(answer.status, status, "{what}");
        if status != 204 {
            assert_eq!(answer.headers["content-type"], "application/scim+json", "{what}");
        }
        assert!(status == 204 || has(&answer.body, &wanted), "{what}\nlacks {wanted:#}");
        if let Some(name) = saved {
            ids.push((name, text(&answer.body["id"])));
        }
    }
}

fn entra() -> Vec<Step> {
    let user = |name: &str| {
        json!({
            "schemas": [USER, ENTERPRISE], "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
            "userName": name, "active": true, "displayName": "Bibi B",
            "emails": [{"primary": true, "type": "work", "value": "bibi@corp.example"}],
            "meta": {"resourceType": "User"},
            "name": {"formatted": "Bibi B", "familyName": "B", "givenName": "Bibi"},
            "roles": [], ENTERPRISE: {"department": "Design", "manager": null},
        })
    };
    let group = json!({
        "schemas": [GROUP, "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],
        "externalId": "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159", "displayName": "Designers",
        "meta": {"resourceType": "Group"},
    });
    let member = |id: &str| json!([{"$ref": null, "value": id}]);
    let one = json!({"itemsPerPage": 1, "startIndex": 1, "Resources": [{"id": "{bibi}", "active": true}]});
    vec![
        // The test of the connection.
        get("/Users?filter=userName eq \"2aa3d2a1-4a2f-4b5e-9c1b-0b7b1e3f5a6d\"", 200, found(0, json!({}))),
        // A person is created.
        get("/Users?filter=userName eq \"bibi@corp.example\"", 200, found(0, json!({}))),
        saves("bibi", step("POST", "/Users", Some(user("bibi@corp.example")), 201, json!({"active": true}))),
        step("POST", "/Users", Some(user("BIBI@corp.example")), 409, refused("409", json!("uniqueness"))),
        get("/Users?filter=userName eq \"Bibi@Corp.example\"", 200, found(1, one.clone())),
        get(
            "/Users?filter=externalId eq \"0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef\"",
            200,
            found(1, json!({"Resources": [{"userName": "bibi@corp.example"}]})),
        ),
        get("/Users/{bibi}", 200, json!({"id": "{bibi}", "displayName": "Bibi B"})),
        get("/Users/5171a35d82074e068ce2", 404, refused("404", json!(null))),
        // A name with a NUL has no meaning, and does not fail.
        get("/Users/{bibi}?attributes=userName,%00", 200, json!({"id": "{bibi}", "displayName": null})),
        get("/Users/{bibi}%00", 404, refused("404", json!(null))),
        // She is changed.
        patch(
            "/Users/{bibi}",
            json!([
                {"op": "Replace", "path": "emails[type eq \"work\"].value", "value": "b@corp.example"},
                {"op": "Replace", "path": "name.familyName", "value": "Bell"},
                {"op": "Add", "path": format!("{ENTERPRISE}:manager"), "value": "{bibi}"},
                {"op": "Replace", "path": "displayName", "value": "Bibi Bell"},
            ]),
            json!({"displayName": "Bibi B", "active": true}),
        ),
        patch(
            "/Users/{bibi}",
            json!([{"op": "Replace", "path": "userName", "value": "bell@corp.example"}]),
            json!({"userName": "bell@corp.example"}),
        ),
        // A group is created, and she joins and leaves it.
        get(
            "/Groups?excludedAttributes=members&filter=displayName eq \"Designers\"",
            200,
            found(0, json!({})),
        ),
        saves("group", step("POST", "/Groups", Some(group), 201, json!({"displayName": "Designers"}))),
        get("/Groups/{group}?excludedAttributes=members", 200, json!({"id": "{group}", "members": null})),
        patch(
            "/Groups/{group}",
            json!([{"op": "Add", "path": "members", "value": member("{bibi}")}]),
            json!({"members": [{"value": "{bibi}"}]}),
        ),
        get(
            "/Groups?excludedAttributes=members&filter=displayName eq \"Designers\"",
            200,
            found(1, json!({"Resources": [{"id": "{group}", "members": null}]})),
        ),
        get(
            "/Groups?filter=id eq \"{group}\" and members eq \"{bibi}\"&attributes=id",
            200,
            found(1, json!({"Resources": [{"id": "{group}", "displayName": null}]})),
        ),
        patch(
            "/Groups/{group}",
            json!([{"op": "Replace", "path": "displayName", "value": "Design"}]),
            json!({"displayName": "Design", "members": [{"value": "{bibi}"}]}),
        ),
        patch(
            "/Groups/{group}",
            json!([{"op": "Remove", "path": "members", "value": member("{bibi}")}]),
            json!({"members": null}),
        ),
        // She is deactivated, reactivated and removed.
        patch(
            "/Users/{bibi}",
            json!([{"op": "Replace", "path": "active", "value": "False"}]),
            json!({"active": false, "userName": "bell@corp.example"}),
        ),
        get("/Users/{bibi}", 200, json!({"active": false})),
        patch(
            "/Users/{bibi}",
            json!([{"op": "Replace", "path": "active", "value": "True"}]),
            json!({"active": true}),
        ),
        step("DELETE", "/Users/{bibi}", None, 204, json!(null)),
        step("DELETE", "/Users/{bibi}", None, 404, refused("404", json!(null))),
        get("/Users?filter=userName eq \"bell@corp.example\"", 200, found(0, json!({}))),
        step("DELETE", "/Groups/{group}", None, 204, json!(null)),
        get("/Groups/{group}", 404, refused("404", json!(null))),
    ]
}

/// Returns the additional calls of Entra's validator of SCIM endpoints.
fn validator() -> Vec<Step> {
    let named = |name: &str| json!({"schemas": [USER], "userName": name, "externalId": name});
    vec![
        get("/Schemas", 200, found(2, json!({}))),
        get(
            "/ServiceProviderConfig",
            200,
            json!({"patch": {"supported": true}, "bulk": {"supported": false}}),
        ),
        saves(
            "one",
            step("POST", "/Users", Some(named("validated1")), 201, json!({"userName": "validated1"})),
        ),
        saves(
            "two",
            step("POST", "/Users", Some(named("validated2")), 201, json!({"userName": "validated2"})),
        ),
        get("/Users?startIndex=1&count=1", 200, json!({"itemsPerPage": 1, "startIndex": 1})),
        get("/Users?count=0", 200, json!({"Resources": []})),
        get(
            "/Users?filter=userName eq \"VALIDATED1\" and active eq true",
            200,
            found(1, json!({"Resources": [{"id": "{one}"}]})),
        ),
        get("/Users?filter=userNameeq \"x\"", 400, refused("400", json!("invalidFilter"))),
        step("POST", "/Users", Some(json!({"schemas": [USER]})), 400, refused("400", json!("invalidValue"))),
        patch(
            "/Users/{one}",
            json!([{"op": "replace", "value": {"userName": "validated3", "externalId": "3"}}]),
            json!({"userName": "validated3", "externalId": "3"}),
        ),
        Step {
            status: 409,
            ..patch(
                "/Users/{one}",
                json!([{"op": "Replace", "path": "userName", "value": "VALIDATED2"}]),
                refused("409", json!("uniqueness")),
            )
        },
        // An attribute that is not kept is ignored.
        patch(
            "/Users/{one}",
            json!([{"op": "Replace", "path": "nothing", "value": "x"}]),
            json!({"userName": "validated3"}),
        ),
        patch("/Users/{one}", json!([{"op": "Remove", "path": "externalId"}]), json!({"externalId": null})),
        saves(
            "group",
            step(
                "POST",
                "/Groups",
                Some(json!({"displayName": "V", "members": [{"value": "{one}"}, {"value": "{two}"}]})),
                201,
                json!({}),
            ),
        ),
        patch(
            "/Groups/{group}",
            json!([{"op": "Remove", "path": "members[value eq \"{one}\"]"}]),
            json!({"members": [{"value": "{two}"}]}),
        ),
        patch("/Groups/{group}", json!([{"op": "Remove", "path": "members"}]), json!({"members": null})),
        step("DELETE", "/Groups/{group}", None, 204, json!(null)),
        step("DELETE", "/Users/{two}", None, 204, json!(null)),
    ]
}

fn okta() -> Vec<Step> {
    let user = |active: bool| {
        json!({
            "schemas": [USER], "userName": "tess@corp.example", "active": active, "displayName": "Tess T",
            "name": {"givenName": "Tess", "familyName": "T"}, "locale": "en-US", "groups": [],
            "emails": [{"primary": true, "value": "tess@corp.example", "type": "work"}],
            "externalId": "00ujl29u0le5T6Aj10h7", "password": "1mz050nq",
        })
    };
    let mut known = user(false);
    known["id"] = json!("{tess}");
    let search = "/Users?filter=userName eq \"tess@corp.example\"&startIndex=1&count=100";
    vec![
        // The test of the connection, and the calls of its test suite.
        get("/Users?startIndex=1&count=2", 200, json!({"schemas": [LIST], "startIndex": 1})),
        get("/Users?filter=userName eq \"nobody@corp.example\"", 200, found(0, json!({}))),
        get("/Users/010101001010101011001010101011", 404, refused("404", json!(null))),
        get("/Groups?startIndex=1&count=100", 200, json!({"schemas": [LIST], "startIndex": 1})),
        // A person is created.
        get(search, 200, found(0, json!({}))),
        saves(
            "tess",
            step(
                "POST",
                "/Users",
                Some(user(true)),
                201,
                json!({"userName": "tess@corp.example", "active": true, "password": null}),
            ),
        ),
        step("POST", "/Users", Some(user(true)), 409, refused("409", json!("uniqueness"))),
        get("/Users/{tess}", 200, json!({"id": "{tess}", "displayName": "Tess T"})),
        get(search, 200, found(1, json!({"Resources": [{"id": "{tess}"}]}))),
        // Groups are pushed.
        saves(
            "group",
            step(
                "POST",
                "/Groups",
                Some(json!({"schemas": [GROUP], "displayName": "Test SCIMv2", "members": []})),
                201,
                json!({"displayName": "Test SCIMv2", "members": null}),
            ),
        ),
        patch(
            "/Groups/{group}",
            json!([{"op": "replace", "value": {"id": "{group}", "displayName": "Testers"}}]),
            json!({"displayName": "Testers"}),
        ),
        patch(
            "/Groups/{group}",
            json!([
                {"op": "remove", "path": "members[value eq \"{tess}\"]"},
                {"op": "add", "path": "members", "value": [{"value": "{tess}", "display": "tess"}]},
            ]),
            json!({"members": [{"value": "{tess}"}]}),
        ),
        patch(
            "/Groups/{group}",
            json!([{"op": "replace", "path": "members", "value": [{"value": "{tess}", "display": "tess"}]}]),
            json!({"members": [{"value": "{tess}"}]}),
        ),
        step(
            "PUT",
            "/Groups/{group}",
            Some(json!({"schemas": [GROUP], "id": "{group}", "displayName": "All", "members": []})),
            200,
            json!({"displayName": "All", "members": null}),
        ),
        // The person is deactivated in both ways, and reactivated.
        get("/Users/{tess}", 200, json!({"active": true})),
        step("PUT", "/Users/{tess}", Some(known), 200, json!({"id": "{tess}", "active": false})),
        patch(
            "/Users/{tess}",
            json!([{"op": "replace", "value": {"active": true}}]),
            json!({"active": true}),
        ),
        patch(
            "/Users/{tess}",
            json!([{"op": "replace", "value": {"active": false}}]),
            json!({"active": false}),
        ),
        get(search, 200, found(1, json!({"Resources": [{"id": "{tess}", "active": false}]}))),
        step("DELETE", "/Groups/{group}", None, 204, json!(null)),
    ]
}

#[test]
fn the_whole_dialogues_of_directories_are_understood() {
    on_both_engines(|world| {
        held("Entra", world, entra());
        held("Entra's validator", world, validator());
        held("Okta", world, okta());
    });
}

/// A control: a missing part of an answer is noticed.
#[test]
fn what_an_answer_lacks_is_found() {
    let body = json!({"id": "1", "members": [{"value": "2", "$ref": "x"}], "active": true});
    for wanted in [json!({"id": "1"}), json!({"members": [{"value": "2"}]}), json!({"more": null}), json!({})]
    {
        assert!(has(&body, &wanted), "{wanted}");
    }
    for wanted in [
        json!({"id": "2"}),
        json!({"id": null}),
        json!({"members": []}),
        json!({"members": [{"value": "3"}]}),
        json!({"more": 1}),
        json!({"active": "true"}),
    ] {
        assert!(!has(&body, &wanted), "{wanted}");
    }
}
