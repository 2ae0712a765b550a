//! Verifying the event log through its operation.
//!
//! A broken log is a conflict that names the position, and the log is checked against a head that the caller
//! kept.

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, text};

fn verify(world: &World, more: Value) -> Answer {
    let mut input = json!({"workspace_id": world.id("workspace")});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.call(&world.people.admin, "verify_event_chain", input)
}

#[test]
fn a_broken_log_is_reported_with_its_first_broken_event() {
    on_both_engines(|world| {
        let workspace = world.database.id(world.id("workspace"));
        let report = verify(world, json!({})).output();
        assert_eq!((&report["valid"], &report["events"]), (&json!(true), &json!(world.lsn())));
        let of = |lsn: i64| format!("workspace_id = {workspace} and lsn = {lsn}");
        let last = world.lsn();
        let in_a_channel = world.database.number(&format!(
            "select max(lsn) from events where workspace_id = {workspace} and channel_id is not null"
        ));
        let newest = format!("workspace_id = {workspace} and lsn > {}", last - 2);
        let tampering = [
            (
                "a channel",
                format!("update events set channel_id = null where {}", of(in_a_channel)),
                in_a_channel,
            ),
            ("a removed event", format!("delete from events where {}", of(11)), 11),
            ("removed newest events", format!("delete from events where {newest}"), last - 1),
        ];
        let put_back = "delete from events; insert into events select * from saved; drop table saved";
        for (what, sql, lsn) in tampering {
            world.database.execute("create table saved as select * from events");
            world.database.execute(&sql);
            let problem = verify(world, json!({})).refused(409, "event-log-broken");
            assert_eq!(problem["lsn"], lsn, "{what}: {problem:#}");
            world.database.execute(put_back);
        }
        verify(world, json!({})).output();
    });
}

#[test]
fn a_kept_head_pins_the_history() {
    on_both_engines(|world| {
        let head = verify(world, json!({})).output()["head"].clone();
        world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "more"}));
        let text = format!("{}:{}", head["lsn"], text(&head["hash"]));
        verify(world, json!({"expect_head": text})).output();
        let other = format!("{}:sha256:{}", world.lsn(), "0".repeat(64));
        verify(world, json!({"expect_head": other})).refused(409, "event-log-broken");
    });
}

#[test]
fn a_position_is_a_number_and_nothing_else_that_other_services_call_one() {
    on_both_engines(|world| {
        let rest = world.rest();
        let admin = Some(world.people.admin.as_str());
        let events = format!("/workspaces/{}/events?after_id=", world.id("workspace"));
        assert_eq!(rest.send(admin, "GET", &format!("{events}0"), &[], None).status, 200);
        for other in ["0/16B3748", "0%2F16B3748", "-1", "0x10", "1.5", "+1", "", "latest"] {
            let refused = rest.send(admin, "GET", &format!("{events}{other}"), &[], None);
            assert_eq!(refused.refused(400, "malformed-request")["status"], 400, "{other}");
        }
    });
}

#[test]
fn only_who_is_known_is_told_how_far_the_log_goes() {
    on_both_engines(|world| {
        let rest = world.rest();
        let people = &world.people;
        let own = format!("/workspaces/{}", world.id("workspace"));
        let missing = format!("/messages/{}", world.id("workspace"));
        for (path, token, status, is_told) in [
            (&*own, Some(&people.agent), 200, true),
            (&missing, Some(&people.agent), 404, true),
            (&own, None, 401, false),
            (&own, Some(&people.revoked), 401, false),
            ("/operator/status", Some(&people.agent), 403, false),
            ("/health", Some(&people.agent), 200, false),
            ("/health/ready", Some(&people.agent), 200, false),
            ("/openapi.json", Some(&people.agent), 200, false),
            ("/.well-known/svc-room", Some(&people.agent), 200, false),
        ] {
            let answer = rest.send(token.map(String::as_str), "GET", path, &[], None);
            let lsn = answer.headers.contains_key("svc-room-lsn").then(|| answer.lsn().unwrap());
            assert_eq!((answer.status, lsn), (status, is_told.then(|| world.lsn())), "{path} by {token:?}");
        }
    });
}
