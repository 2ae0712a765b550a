//! SCIM over HTTP: its media type, its errors at every path below its own, and the service's own addresses.

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, text};

const MEDIA: &str = "application/scim+json";

fn send(world: &World, method: &str, path: &str, body: Option<&Value>) -> Answer {
    world.rest().send(Some(&world.people.admin), method, &format!("/scim/v2{path}"), &[], body)
}

fn media(answer: &Answer) -> &str {
    answer.headers["content-type"].to_str().unwrap()
}

/// Reads a body as a client that follows the RFC does, whatever the media type.
fn body(answer: &Answer) -> Value {
    match &answer.body {
        Value::String(text) => serde_json::from_str(text).unwrap(),
        body => body.clone(),
    }
}

/// A client, or an attacker on the network, can put any name into a request.
#[test]
fn addresses_name_the_service_and_nobody_else() {
    on_both_engines(|world| {
        let location = |headers: &[(&str, &str)]| {
            let path = format!("/scim/v2/Users/{}", world.id("person"));
            let answer = world.rest().send(Some(&world.people.admin), "GET", &path, headers, None);
            text(&body(&answer)["meta"]["location"])
        };
        let path = format!("/scim/v2/Users/{}", world.id("person"));
        assert_eq!(location(&[("host", "evil.example")]), path);
        assert_eq!(location(&[("host", "localhost:1")]), format!("http://localhost:1{path}"));
        assert_eq!(location(&[]), format!("http://{}{path}", world.address()));
    });
}

#[test]
fn a_user_is_created_read_changed_and_removed_over_http() {
    on_both_engines(|world| {
        let sent = json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:User",
                        "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"],
            "USERNAME": "Eva@corp.example", "id": "x", "meta": {"resourceType": "User"},
            "name": {"givenName": "Eva"}, "emails": [{"value": "eva@corp.example", "primary": true}],
            "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"department": "R"},
            "active": true, "displayName": "Eva",
        });
        let made = send(world, "POST", "/Users?attributes=userName,meta", Some(&sent));
        assert_eq!((made.status, media(&made)), (201, MEDIA));
        let user = body(&made);
        assert_eq!((&user["userName"], user.get("active")), (&json!("eva@corp.example"), None));
        let own = format!("http://{}/scim/v2/Users/{}", world.address(), text(&user["id"]));
        assert_eq!(
            (made.headers["location"].to_str().unwrap(), &user["meta"]["location"]),
            (&*own, &json!(own))
        );
        let path = format!("/Users/{}", text(&user["id"]));
        let read = send(world, "GET", &format!("{path}?unknown=1"), None);
        assert_eq!((read.status, &body(&read)["active"]), (200, &json!(true)));
        assert!(read.lsn().is_some());
        let put = send(world, "PUT", &path, Some(&json!({"userName": "eva", "displayName": "ignored"})));
        assert_eq!((put.status, &body(&put)["displayName"]), (200, &json!("Eva")));
        let off = json!({"operations": [{"op": "Replace", "path": "active", "value": "False"}]});
        let patched = send(world, "PATCH", &path, Some(&off));
        assert_eq!((patched.status, &body(&patched)["active"]), (200, &json!(false)));
        let removed = send(world, "DELETE", &path, None);
        assert_eq!((removed.status, removed.headers.get("content-type")), (204, None));
        assert_eq!(send(world, "GET", &path, None).status, 404);
        let audit = json!({"workspace_id": world.id("workspace"), "limit": 4});
        for row in world.admin("list_audit", audit)["items"].as_array().unwrap() {
            assert_eq!(row["metadata"]["surface"], "scim", "{row:#}");
        }
    });
}

#[test]
fn every_failure_below_the_path_is_an_error_of_the_rfc() {
    on_both_engines(|world| {
        let patch = json!({"Operations": [{"op": "add", "path": "active.shoe", "value": 1}]});
        let person = format!("/Users/{}", world.id("person"));
        for (method, path, sent, status, kind) in [
            ("GET", "/Nothing", None, 404, None),
            ("GET", "/", None, 404, None),
            ("GET", "", None, 404, None),
            ("POST", "/Bulk", Some(json!({})), 404, None),
            ("DELETE", "/Users", None, 405, None),
            ("GET", "/Users/x", None, 404, None),
            ("GET", "/Users?filter=x", None, 400, Some("invalidFilter")),
            ("GET", "/Users?count=x", None, 400, Some("invalidValue")),
            ("GET", "/Users?filter=%ff", None, 400, Some("invalidValue")),
            ("POST", "/Users", Some(json!({"displayName": "x"})), 400, Some("invalidValue")),
            ("POST", "/Users", Some(json!([])), 400, Some("invalidSyntax")),
            ("POST", "/Users", Some(json!({"userName": "ADA"})), 409, Some("uniqueness")),
            ("POST", "/Users", Some(json!({"userName": "x", "username": "y"})), 400, Some("invalidValue")),
            ("PATCH", &person, Some(patch), 400, Some("invalidPath")),
        ] {
            let answer = send(world, method, path, sent.as_ref());
            let said = body(&answer);
            assert_eq!((answer.status, media(&answer)), (status, MEDIA), "{method} {path}: {said:#}");
            assert_eq!(said["schemas"], json!(["urn:ietf:params:scim:api:messages:2.0:Error"]));
            assert_eq!((&said["status"], said["scimType"].as_str()), (&json!(status.to_string()), kind));
            assert!(said["detail"].is_string() && said.get("type").is_none(), "{said:#}");
        }
        let allow = send(world, "DELETE", "/Users", None);
        assert!(allow.headers["allow"].to_str().unwrap().contains("POST"));
        let nobody = world.rest().send(None, "GET", "/scim/v2/Users", &[], None);
        assert_eq!((nobody.status, media(&nobody)), (401, MEDIA));
        assert_eq!(nobody.headers["www-authenticate"], "Bearer");
        let agent = world.rest().send(Some(&world.people.agent), "GET", "/scim/v2/Users", &[], None);
        assert_eq!((agent.status, media(&agent)), (403, MEDIA));
        let beside = world.rest().send(None, "GET", "/scim/v20", &[], None);
        assert_eq!(media(&beside), "application/problem+json", "a control");
    });
}

#[test]
fn both_media_types_are_read_and_no_other() {
    on_both_engines(|world| {
        let sent = |media: &str, name: &str| {
            let headers = [("content-type", media)];
            let user = json!({"userName": name});
            let admin = Some(&*world.people.admin);
            world.rest().send(admin, "POST", "/scim/v2/Users", &headers, Some(&user)).status
        };
        assert_eq!(sent("application/scim+json; charset=utf-8", "one"), 201);
        assert_eq!(sent("application/json", "two"), 201);
        assert_eq!(sent("text/plain", "three"), 415);
    });
}

#[test]
fn what_is_supported_is_announced() {
    on_both_engines(|world| {
        let config = body(&send(world, "GET", "/ServiceProviderConfig", None));
        assert_eq!(
            (&config["patch"]["supported"], &config["filter"]["maxResults"]),
            (&json!(true), &json!(200))
        );
        for (list, ids) in [
            ("/ResourceTypes", ["User", "Group"]),
            (
                "/Schemas",
                ["urn:ietf:params:scim:schemas:core:2.0:User", "urn:ietf:params:scim:schemas:core:2.0:Group"],
            ),
        ] {
            let all = body(&send(world, "GET", list, None));
            assert_eq!(all["totalResults"], 2);
            for (place, id) in ids.iter().enumerate() {
                let one = body(&send(world, "GET", &format!("{list}/{id}"), None));
                assert_eq!((&one["id"], &one), (&json!(id), &all["Resources"][place]));
            }
            assert_eq!(send(world, "GET", &format!("{list}/none"), None).status, 404);
        }
        let user = body(&send(world, "GET", "/Schemas/urn:ietf:params:scim:schemas:core:2.0:User", None));
        let required = user["attributes"].as_array().unwrap().iter().filter(|one| one["required"] == true);
        assert_eq!(
            required.map(|one| one["name"].as_str().unwrap()).collect::<Vec<_>>(),
            ["userName", "active"]
        );
    });
}
