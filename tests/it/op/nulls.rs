//! Null in an input: it omits a field, in every operation; the schema defines the fields that null clears.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};
use svc_core::Engine;
use svc_core::op::Effect;
use svc_tests::client::Answer;
use svc_tests::client::rest::address;
use svc_tests::{World, on_both_engines, runtime, text};

use crate::op::asking::with_short_timeout;
use crate::op::faults::required;

/// Returns whether null is a value of a field.
fn takes_null(field: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null";
    let forms = field["anyOf"].as_array().into_iter().flatten();
    let has_type = ["type", "anyOf", "oneOf", "enum", "const"].iter().any(|name| field.get(name).is_some());
    !has_type
        || field["type"].as_array().is_some_and(|kinds| kinds.iter().any(is_null))
        || forms.into_iter().any(|form| is_null(&form["type"]))
}

/// Returns a value with null in every optional field that it lacks, at any depth, and counts them.
fn with_nulls(schema: &Value, value: &Value, count: &mut usize) -> Value {
    let form = |value: &Value| {
        let forms = ["anyOf", "oneOf"].into_iter().filter_map(|name| schema[name].as_array()).flatten();
        let has_all = |form: &&Value| {
            let names = value.as_object().into_iter().flat_map(Map::keys);
            names.into_iter().all(|name| form["properties"].get(name).is_some())
        };
        forms.into_iter().find(has_all).unwrap_or(schema).clone()
    };
    match value {
        Value::Object(members) => {
            let schema = form(value);
            let mut filled = Map::new();
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                let given = members.get(name).map(|member| with_nulls(field, member, count));
                let is_optional = !required(&schema).any(|required| required == name) && !takes_null(field);
                match given {
                    Some(member) => drop(filled.insert(name.clone(), member)),
                    None if is_optional => {
                        *count += 1;
                        filled.insert(name.clone(), Value::Null);
                    }
                    None => {}
                }
            }
            let more = members.iter().filter(|(name, _)| schema["properties"].get(name).is_none());
            filled.extend(more.map(|(name, member)| (name.clone(), member.clone())));
            filled.into()
        }
        Value::Array(items) => items.iter().map(|item| with_nulls(&schema["items"], item, count)).collect(),
        other => other.clone(),
    }
}

/// Returns the output of a read, or the code of its refusal; of a change only the code.
fn outcome(world: &World, name: &str, input: &Value) -> Value {
    let operation = world.operation(name);
    let answer = world.call(&world.people.admin, name, with_short_timeout(operation, input.clone()));
    match answer.is_success() && operation.effect().is_read_only() {
        // Requests leave rows in the trails that these operations read, and exports have them.
        true if !name.contains("audit") && !name.contains("export") => answer.body,
        true => Value::Null,
        false => answer.code().into(),
    }
}

/// A frozen member calls the changes: the input is decoded, and then the change is refused.
#[test]
fn null_leaves_out_every_optional_field_of_every_operation() {
    let world = World::open(Engine::Sqlite);
    let admin = world.database.id(world.id("admin"));
    world.database.execute(&format!("update members set frozen_at = {} where id = {admin}", 1));
    let mut count = 0;
    let mut changed = 0;
    for operation in world.service.table().operations() {
        if operation.http().takes_file || operation.effect() == Effect::Wait {
            continue;
        }
        let schema = operation.input_schema();
        let example = operation.docs().example(&world.fixture).unwrap();
        let filled = with_nulls(&schema, &example, &mut count);
        let plain = outcome(&world, operation.name(), &example);
        let with_null = outcome(&world, operation.name(), &filled);
        assert_ne!(with_null, "malformed-request", "{operation:?} {filled}");
        assert_eq!(plain, with_null, "{operation:?} {filled}");
        changed += usize::from(plain == "member-frozen");
    }
    assert!(count > 300 && changed > 60, "{count} fields, {changed} changes");
}

/// This includes optional fields in objects that no example has.
#[test]
fn null_leaves_out_optional_fields_within_fields() {
    let world = World::open(Engine::Sqlite);
    let footprint = |more: Value| {
        let mut footprint = json!({"items": [{"kind": "slot", "value": "gpu"}]});
        footprint.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let channel = world.id("channel");
        json!({"channel_id": channel, "title": "x", "footprint": footprint})
    };
    let wrong = world.call(&world.people.admin, "create_thread", footprint(json!({"mode": 7})));
    assert_eq!(wrong.refused(400, "malformed-request")["errors"][0]["field"], "footprint.mode");
    world.admin("create_thread", footprint(json!({"mode": null, "repo": null})));
    let refused = world.call(&world.people.admin, "create_thread", footprint(json!({"items": null})));
    assert_eq!(refused.refused(400, "malformed-request")["errors"][0]["field"], "footprint.items");
    let message = json!({"thread_id": world.id("thread"), "body": "x",
        "metadata": {"artifacts": null, "citations": null, "own": {"mode": null}}});
    let posted = world.admin("post_message", message);
    let read = world.admin("get_message", json!({"message_id": posted["id"]}));
    assert_eq!(read["metadata"], json!({"own": {"mode": null}}), "what is the caller's stays");
}

#[test]
fn null_is_absent_over_rest_and_mcp_and_clears_where_the_schema_says_so() {
    on_both_engines(|world| {
        let channel = world.new_channel("nulls");
        world.admin("update_channel", json!({"channel_id": channel, "topic": "about"}));
        let keep = json!({"channel_id": channel, "name": null, "private": null});
        let clear = json!({"channel_id": channel, "topic": null});
        let update = world.operation("update_channel");
        assert!(takes_null(&update.input_schema()["properties"]["topic"]));
        assert!(!takes_null(&update.input_schema()["properties"]["name"]));
        let admin = Some(world.people.admin.as_str());
        let rest = world.rest();
        let mcp = world.mcp();
        let calls: [&dyn Fn(&Value) -> Answer; 2] =
            [&|input| rest.call(admin, update, input), &|input| mcp.call(admin, update, input)];
        for call in calls {
            let kept = call(&keep).output();
            assert_eq!((&kept["name"], &kept["topic"]), (&json!("nulls"), &json!("about")));
            assert_eq!(call(&clear).output().get("topic").cloned().unwrap_or_default(), json!(null));
            world.admin("update_channel", json!({"channel_id": channel, "topic": "about"}));
        }
        let create = world.operation("create_thread");
        let nulls = json!({"channel_id": channel, "title": "x", "tools": null, "required_skills": null,
            "depends_on": null, "body": null, "footprint": null, "priority": null});
        for created in [rest.call(admin, create, &nulls), mcp.call(admin, create, &nulls)] {
            assert_eq!(created.output()["title"], "x");
        }
    });
}

/// Sends the text of a body, and returns the status and the response.
fn send(world: &World, target: &str, body: &str) -> (u16, Value) {
    let rest = world.rest();
    let body = Bytes::copy_from_slice(body.as_bytes());
    runtime().block_on(async {
        let response = rest.raw(Some(&world.people.admin), "POST", target, &[], Some(body)).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    })
}

#[test]
fn a_character_that_nothing_keeps_is_named_with_its_field() {
    on_both_engines(|world| {
        let thread = world.id("thread");
        let (target, _) = address(
            world.operation("post_message"),
            world.operation("post_message").http().path,
            &json!({"thread_id": thread}),
        );
        let lsn = world.lsn();
        for (rest, field, character) in [
            (r#""body":"a\ud800b""#, "body", "half of a surrogate pair"),
            (r#""body":"a\u0000b""#, "body", "NUL"),
            (
                r#""body":"x","metadata":{"a":[{"b":"\udfff"}]}"#,
                "metadata.a[0].b",
                "half of a surrogate pair",
            ),
            (r#""body":"x","metadata":{"a":{"b\u0000":1}}"#, "metadata.a", "NUL"),
            (
                r#""body":"x","content":[{"type":"data","data":{"k":"\ud83d"}}]"#,
                "content[0].data.k",
                "half of a surrogate pair",
            ),
        ] {
            let (status, problem) = send(world, &target, &format!("{{{rest}}}"));
            let fault = &problem["errors"][0];
            assert_eq!(
                (status, problem["type"].as_str()),
                (400, Some("/problems/malformed-request")),
                "{rest}"
            );
            assert!(text(&fault["field"]).starts_with(field), "{rest}: {problem}");
            assert!(text(&fault["detail"]).contains(character), "{rest}: {problem}");
            let call = format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"post_message",
                "arguments":{{"thread_id":"{thread}",{rest}}}}}}}"#
            );
            let (status, answer) = send(world, "/mcp", &call);
            let told = &answer["result"]["_meta"]["svc/problem"];
            assert_eq!((status, &told["errors"]), (200, &problem["errors"]), "{answer}");
        }
        assert_eq!(world.lsn(), lsn);
        for (rest, wanted) in [
            (
                r#""id":1,"method":"tools/call","params":{"name":"who\ud800"}"#,
                "the name of the tool: an escape",
            ),
            (r#""id":"a\udc00","method":"ping""#, "the id: an escape"),
        ] {
            let (_, answer) = send(world, "/mcp", &format!(r#"{{"jsonrpc":"2.0",{rest}}}"#));
            let message = text(&answer["error"]["message"]);
            assert!(message.starts_with(wanted) && message.contains("half of a surrogate pair"), "{answer}");
        }
        let (status, posted) = send(world, &target, "\u{feff}{\"body\":\"\\ud83d\\ude00\"}");
        assert_eq!(status, 201, "{posted}");
        let read = world.admin("get_message", json!({"message_id": posted["id"]}));
        assert_eq!(read["body"], "\u{1f600}");
        let (status, problem) = send(world, &target, "\u{feff}\u{feff}{\"body\":\"x\"}");
        assert_eq!(status, 400, "one mark is skipped: {problem}");
    });
}
