//! Documents in the forms of identity providers, written from their documentation, and their outcomes.
//!
//! The tables are in `documents/*.json`.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, runtime, text};

const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
const ENTERPRISE: &str = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";
const PATCH: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";

/// A document of `documents/*.json`, and its outcome.
#[derive(Deserialize)]
struct DocumentForm {
    who: String,
    sent: Value,
    /// The attributes of the answer, null if absent; or the members of a group.
    wanted: Option<Value>,
    /// The status and the type of a failure.
    refused: Option<(u16, String)>,
}

/// Parses a table of documents. `{long:5}` stands for five letters.
fn forms(table: &str) -> Vec<DocumentForm> {
    let mut table = table.to_owned();
    while let Some((before, rest)) = table.split_once("{long:") {
        let (length, behind) = rest.split_once('}').unwrap();
        table = format!("{before}{}{behind}", long(length.parse().unwrap()));
    }
    let forms: Vec<DocumentForm> = serde_json::from_str(&table).unwrap();
    assert!(forms.len() >= 20);
    forms
}

/// Checks an answer, which has these attributes if it is a success.
#[track_caller]
fn check(form: &DocumentForm, answer: &Answer, wanted: &Value) {
    let who = &form.who;
    let Some((status, kind)) = &form.refused else {
        assert!(matches!(answer.status, 200 | 201), "{who}: {} {:#}", answer.status, answer.body);
        for (name, value) in wanted.as_object().unwrap() {
            assert_eq!(answer.body.get(name).unwrap_or(&Value::Null), value, "{who}: {name}");
        }
        return;
    };
    let found = (answer.status, answer.body["scimType"].as_str());
    assert_eq!(found, (*status, Some(&**kind)), "{who}: {:#}", answer.body);
    assert!(answer.body["detail"].is_string(), "{who}");
}

fn send(world: &World, method: &str, path: &str, sent: &Value) -> Answer {
    let admin = Some(&*world.people.admin);
    world.rest().send(admin, method, &format!("/scim/v2{path}"), &[], Some(sent))
}

fn long(length: usize) -> String {
    "é".repeat(length)
}

/// Returns a document with these placeholders filled.
fn filled(document: &Value, places: &[(&str, &str)]) -> Value {
    let mut text = document.to_string();
    for (place, id) in places {
        text = text.replace(place, id);
    }
    serde_json::from_str(&text).unwrap()
}

#[test]
fn users_are_created_and_replaced_as_providers_send_them() {
    let forms = forms(include_str!("documents/users.json"));
    on_both_engines(|world| {
        for (number, form) in forms.iter().enumerate() {
            let of = |document: &Value, n: &str| filled(document, &[("{n}", n)]);
            let wanted = form.wanted.clone().unwrap_or_default();
            let n = number.to_string();
            check(form, &send(world, "POST", "/Users", &of(&form.sent, &n)), &of(&wanted, &n));
            // A replaced user has the same attributes as a new one.
            let other = json!({"userName": format!("before{number}"), "externalId": "before"});
            let other = send(world, "POST", "/Users", &other).body;
            let n = format!("{number}r");
            let path = format!("/Users/{}", text(&other["id"]));
            check(form, &send(world, "PUT", &path, &of(&form.sent, &n)), &of(&wanted, &n));
            if form.refused.is_some() {
                let found = send(world, "GET", &path, &json!({})).body;
                assert_eq!(found, other, "{}: nothing was changed", form.who);
            }
        }
    });
}

/// The operations belong to a PATCH of `p{n}@corp.example`, who is active and has the external id `e`.
#[test]
fn users_are_changed_as_providers_send_it() {
    let forms = forms(include_str!("documents/user_patches.json"));
    on_both_engines(|world| {
        for (number, form) in forms.iter().enumerate() {
            let n = number.to_string();
            let user = json!({"userName": format!("p{n}@corp.example"), "externalId": "e"});
            let user = send(world, "POST", "/Users", &user).body;
            let path = format!("/Users/{}", text(&user["id"]));
            let operations = filled(&form.sent, &[("{n}", &n)]);
            let sent = match number % 3 {
                0 => json!({"schemas": [PATCH], "Operations": operations}),
                1 => json!({"schemas": "none", "operations": operations, "more": {"a": [1]}}),
                _ => json!({"Operations": operations}),
            };
            let wanted = filled(&form.wanted.clone().unwrap_or_default(), &[("{n}", &n)]);
            check(form, &send(world, "PATCH", &path, &sent), &wanted);
            if form.refused.is_some() {
                let found = send(world, "GET", &path, &json!({})).body;
                assert_eq!(found, user, "{}: nothing was changed", form.who);
            }
        }
    });
}

/// A wrong document does not change a user who is and stays active; but access ends and comes back by it.
#[test]
fn nothing_keeps_a_replaced_user_from_becoming_inactive_or_active() {
    on_both_engines(|world| {
        let user = json!({"userName": "wrong@corp.example", "externalId": "e", "active": true});
        let user = send(world, "POST", "/Users", &user).body;
        let path = format!("/Users/{}", text(&user["id"]));
        for (wrong, external_id, refused) in [
            (json!({"userName": "two words"}), None, (400, "invalidValue")),
            (json!({"userName": 7, "externalId": "f"}), Some("f"), (400, "invalidValue")),
            (json!({"externalId": "e"}), Some("e"), (400, "invalidValue")),
            (json!({"userName": "channel", "externalId": "e"}), Some("e"), (409, "uniqueness")),
            (json!({"userName": "ADA", "externalId": "e"}), Some("e"), (409, "uniqueness")),
            (json!({"userName": user["userName"], "externalId": 7}), Some("e"), (400, "invalidValue")),
            (
                json!({"userName": user["userName"], "externalId": long(1001)}),
                Some("e"),
                (400, "invalidValue"),
            ),
        ] {
            let put = |active: Value| {
                let mut sent = wrong.clone();
                sent["active"] = active;
                send(world, "PUT", &path, &sent)
            };
            for active in [json!("False"), json!(false), json!([true])] {
                let answer = put(active.clone());
                assert_eq!(answer.status, 200, "{wrong}, {active}: {:#}", answer.body);
                let is_active = active == json!([true]);
                let wanted = json!([is_active, user["userName"], external_id]);
                let found =
                    json!([answer.body["active"], answer.body["userName"], answer.body["externalId"]]);
                assert_eq!(found, wanted, "{wrong}, {active}");
            }
            for active in [json!(true), json!(null)] {
                let answer = put(active.clone());
                let found = (answer.status, answer.body["scimType"].as_str().unwrap_or_default());
                assert_eq!(found, refused, "{wrong}, {active}: {:#}", answer.body);
            }
            let whole = json!({"userName": user["userName"], "externalId": "e"});
            assert_eq!(send(world, "PUT", &path, &whole).status, 200);
        }
    });
}

/// Unused attributes are not parsed: they may be any JSON, in any encoding.
#[test]
fn nothing_that_is_not_used_keeps_a_user_active() {
    let deep = [&b"[".repeat(5000)[..], &b"]".repeat(5000)].concat();
    let odd: [&[u8]; 6] = [
        b"1e999",
        &deep,
        b"{\"a\":1,\"a\":2}",
        br#""\ud800\u0000""#,
        b"\"Andr\xe9\"",
        b"[{\"\xff\":-1e999}]",
    ];
    let documents = [
        ("PATCH", r#"{"Operations":[{"op":"replace","path":"active","value":false}],"x":ODD,"x":ODD}"#),
        (
            "PATCH",
            r#"{"schemas":ODD,"Operations":[{"op":"replace","path":"title","value":ODD,"x":ODD},
                {"op":"replace","path":"active","value":false}]}"#,
        ),
        ("PATCH", r#"{"Operations":[{"op":"replace","value":{"name":ODD,"active":false,"name":ODD}}]}"#),
        (
            "PATCH",
            r#"{"Operations":{"value":{"userName":ODD,"active":"false"},"op":"replace","op":"replace"}}"#,
        ),
        ("PUT", r#"{"userName":"odd@corp.example","active":false,"emails":ODD,"displayName":ODD}"#),
        ("PUT", r#"{"userName":ODD,"externalId":ODD,"active":false,"userName":"odd@corp.example"}"#),
    ];
    on_both_engines(|world| {
        let user = send(world, "POST", "/Users", &json!({"userName": "odd@corp.example"})).body;
        let path = format!("/Users/{}", text(&user["id"]));
        let active = json!({"Operations": [{"op": "replace", "path": "active", "value": true}]});
        let sent = |method: &str, body: Vec<u8>| {
            let rest = world.rest();
            let target = format!("/scim/v2{path}");
            runtime().block_on(async {
                let headers = [("content-type", "application/scim+json")];
                let admin = Some(&*world.people.admin);
                rest.raw(admin, method, &target, &headers, Some(body.into())).await.status().as_u16()
            })
        };
        for (method, document) in documents {
            for odd in odd {
                assert_eq!(send(world, "PATCH", &path, &active).body["active"], true);
                let parts: Vec<&[u8]> = document.split("ODD").map(str::as_bytes).collect();
                let status = sent(method, parts.join(odd));
                let shown = String::from_utf8_lossy(odd.get(..20).unwrap_or(odd));
                assert_eq!(status, 200, "{document} with {shown}");
                let found = send(world, "GET", &path, &json!({})).body;
                assert_eq!(found["active"], false, "{document} with {shown}");
                assert_eq!(found["userName"], "odd@corp.example", "{document} with {shown}");
            }
        }
        let broken = r#"{"Operations":[{"op":"replace","path":"active","value":false}],"x":tru}"#;
        for broken in ["", "{", broken] {
            assert_eq!(sent("PATCH", broken.into()), 400, "{broken}");
        }
        let operations = vec![json!({"op": "replace", "path": "title", "value": 1}); 1001];
        assert_eq!(send(world, "PATCH", &path, &json!({"Operations": operations})).status, 400);
        let most = &operations[1..];
        assert_eq!(send(world, "PATCH", &path, &json!({"Operations": most})).status, 200, "a control");
    });
}

/// Two people, and the placeholder of each in the forms.
struct TwoPeople(String, String, String);

impl TwoPeople {
    fn make(world: &World) -> Self {
        let [a, b] = ["a@corp.example", "b@corp.example"]
            .map(|name| text(&send(world, "POST", "/Users", &json!({"userName": name})).body["id"]));
        Self(a, b, world.id("agent").to_string())
    }

    fn fill(&self, document: &Value) -> Value {
        filled(document, &[("{a}", &self.0), ("{b}", &self.1), ("{agent}", &self.2)])
    }

    /// Returns the members of a group, by the letters of the forms.
    fn within(&self, group: &Value) -> String {
        let members = group["members"].as_array().cloned().unwrap_or_default();
        let is_in = |id: &str| members.iter().any(|member| member["value"] == id);
        [("a", &self.0), ("b", &self.1)]
            .iter()
            .filter(|(_, id)| is_in(id))
            .map(|(letter, _)| *letter)
            .collect()
    }
}

#[test]
fn groups_are_created_and_replaced_as_providers_send_them() {
    let forms = forms(include_str!("documents/groups.json"));
    on_both_engines(|world| {
        let two = TwoPeople::make(world);
        for form in &forms {
            let sent = two.fill(&form.sent);
            let before = json!({"displayName": "Before", "externalId": "1", "members": [{"value": "{b}"}]});
            let before = send(world, "POST", "/Groups", &two.fill(&before)).body;
            let path = format!("/Groups/{}", text(&before["id"]));
            for answer in [send(world, "POST", "/Groups", &sent), send(world, "PUT", &path, &sent)] {
                let name = sent.get("displayName").or(sent.get("DISPLAYNAME")).cloned();
                let external = sent.get("externalId").filter(|id| *id != "").cloned();
                check(form, &answer, &json!({"displayName": name, "externalId": external}));
                if let Some(members) = &form.wanted {
                    assert_eq!(two.within(&answer.body), *members, "{}", form.who);
                }
            }
            if form.refused.is_some() {
                let found = send(world, "GET", &path, &json!({})).body;
                assert_eq!(found, before, "{}: nothing was changed", form.who);
            }
        }
    });
}

/// The operations belong to a PATCH of a group with the member a.
#[test]
fn groups_are_changed_as_providers_send_it() {
    let forms = forms(include_str!("documents/group_patches.json"));
    on_both_engines(|world| {
        let two = TwoPeople::make(world);
        for form in &forms {
            let group = two.fill(&json!({"displayName": "G", "members": [{"value": "{a}"}]}));
            let group = send(world, "POST", "/Groups", &group).body;
            let path = format!("/Groups/{}", text(&group["id"]));
            let sent = json!({"schemas": [PATCH], "Operations": two.fill(&form.sent)});
            check(form, &send(world, "PATCH", &path, &sent), &json!({}));
            let found = send(world, "GET", &path, &json!({})).body;
            match &form.wanted {
                Some(members) => assert_eq!(two.within(&found), *members, "{}", form.who),
                None => assert_eq!(found, group, "{}: nothing was changed", form.who),
            }
        }
    });
}

/// Unknown members that providers may add in the future change nothing.
#[test]
fn members_that_nobody_knows_change_nothing() {
    fn any(draw: &mut impl FnMut(u64) -> u64, depth: u64) -> Value {
        match draw(if depth == 0 { 6 } else { 8 }) {
            0 => json!(null),
            1 => json!(draw(2) == 1),
            2 => json!(draw(1 << 31)),
            3 => json!(-0.5),
            4 => json!(
                ["", "false", "\u{0}\u{202e}", "[{", "{\"active\":false}"][usize::try_from(draw(5)).unwrap()]
            ),
            5 => json!("x".repeat(usize::try_from(draw(3000)).unwrap())),
            6 => (0..draw(4)).map(|_| any(draw, depth - 1)).collect(),
            _ => (0..draw(4))
                .map(|n| (format!("value{n}"), any(draw, depth - 1)))
                .collect::<Map<_, _>>()
                .into(),
        }
    }
    /// Adds members to each object of a document.
    fn strewn(value: &Value, draw: &mut impl FnMut(u64) -> u64) -> Value {
        const NAMES: [&str; 10] = [
            "",
            "$ref",
            "x",
            "active2",
            "__proto__",
            "urn:x:1.0:User",
            "a.b[c]",
            "日本",
            "attributes",
            "ExcludedAttributes",
        ];
        match value {
            Value::Array(items) => items.iter().map(|item| strewn(item, draw)).collect(),
            Value::Object(members) => {
                let mut strewn_members: Map<String, Value> =
                    members.iter().map(|(name, value)| (name.clone(), strewn(value, draw))).collect();
                for _ in 0..draw(3) {
                    let name = NAMES[usize::try_from(draw(10)).unwrap()];
                    let name = if draw(2) == 0 { name.to_owned() } else { format!("{name}{}", draw(99)) };
                    strewn_members.entry(name).or_insert(any(draw, 3));
                }
                strewn_members.into()
            }
            other => other.clone(),
        }
    }
    let user = json!({"schemas": [USER], "userName": "any@corp.example", "externalId": "e", "active": false,
                      "displayName": "Any", "name": {"givenName": "A"}, "meta": {"resourceType": "User"},
                      "emails": [{"value": "a", "type": "work"}], ENTERPRISE: {"manager": {"value": "m"}}});
    let patch = json!({"schemas": [PATCH], "Operations": [
        {"op": "replace", "path": "active", "value": true},
        {"op": "add",
         "value": {"externalId": "f", "name": {"givenName": "B"}, "emails": [{"value": "b"}]}}]});
    let group = json!({"displayName": "G", "externalId": "g", "meta": {},
                       "members": [{"value": "{a}", "display": "a"}]});
    let group_patch = json!({"Operations": [{"op": "add", "path": "members", "value": [{"value": "{b}"}]},
                                            {"op": "replace", "value": {"displayName": "H"}}]});
    on_both_engines(|world| {
        let two = TwoPeople::make(world);
        let mut seed: u64 = 7;
        let mut draw = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let run = |how: &mut dyn FnMut(&Value) -> Value| {
            let made = send(world, "POST", "/Users", &how(&user));
            assert_eq!(made.status, 201, "{:#}", made.body);
            let path = format!("/Users/{}", text(&made.body["id"]));
            let put = send(world, "PUT", &path, &how(&user));
            let patched = send(world, "PATCH", &path, &how(&patch));
            let grouped = send(world, "POST", "/Groups", &how(&two.fill(&group)));
            assert_eq!(grouped.status, 201, "{:#}", grouped.body);
            let group_path = format!("/Groups/{}", text(&grouped.body["id"]));
            let regrouped = send(world, "PATCH", &group_path, &how(&two.fill(&group_patch)));
            let outcome: Vec<Value> = [made, put, patched, grouped, regrouped]
                .into_iter()
                .map(|mut answer| {
                    let members = answer.body.as_object_mut().unwrap();
                    members.retain(|name, _| !matches!(&**name, "id" | "meta"));
                    json!([answer.status, answer.body])
                })
                .collect();
            send(world, "DELETE", &path, &json!({}));
            send(world, "DELETE", &group_path, &json!({}));
            outcome
        };
        let wanted = run(&mut Value::clone);
        assert_eq!(wanted[2][1]["externalId"], "f");
        for round in 0..20 {
            let mut sent = Vec::new();
            let found = run(&mut |document| {
                sent.push(strewn(document, &mut draw));
                sent.last().unwrap().clone()
            });
            assert_eq!(found, wanted, "round {round}: {sent:#?}");
        }
    });
}

/// A filter, and the names that it finds among two people and two groups; or the type of a failure.
#[derive(Deserialize)]
struct Search {
    filter: String,
    found: Option<String>,
    refused: Option<String>,
}

#[test]
fn filters_name_every_core_attribute() {
    let tables = [
        ("list_scim_users", include_str!("documents/user_filters.json")),
        ("list_scim_groups", include_str!("documents/group_filters.json")),
    ];
    let tables = tables.map(|(operation, table)| {
        let table: Vec<Search> = serde_json::from_str(table).unwrap();
        assert!(table.len() >= 20);
        (operation, table)
    });
    on_both_engines(|world| {
        let made = |path: &str, sent: Value| text(&send(world, "POST", path, &sent).body["id"]);
        let ada = json!({"userName": "ada@f.example", "externalId": "fA", "displayName": "Ada L"});
        let ada = made("/Users", ada);
        let long = "x".repeat(900);
        made("/Users", json!({"userName": "bob@f.example"}));
        let one = json!({"displayName": "F one", "externalId": "G1", "members": [{"value": ada}]});
        let one = made("/Groups", one);
        made("/Groups", json!({"displayName": "F two", "externalId": long}));
        let name = |one: &Value| {
            let name = one["userName"].as_str().or(one["displayName"].as_str()).unwrap();
            name.trim_end_matches("@f.example").to_owned()
        };
        for (operation, table) in &tables {
            for Search { filter, found, refused } in table {
                let filter = filter.replace("{ada}", &ada).replace("{one}", &one).replace("{long}", &long);
                let answer = world.call(&world.people.admin, operation, json!({"filter": filter}));
                if let Some(kind) = refused {
                    let refused = answer.refused(400, "malformed-request");
                    assert_eq!(refused["scimType"], **kind, "{operation} {filter}");
                    continue;
                }
                let answer = answer.output();
                let names: Vec<String> = answer["Resources"].as_array().unwrap().iter().map(name).collect();
                assert_eq!(Some(names.join(" ")), *found, "{operation} {filter}");
            }
        }
    });
}
