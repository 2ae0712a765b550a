//! Presence: who is online, by heartbeats and by waits, and the rows that this leaves.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::client::ws::{Ws, first_frame};
use svc_tests::process::until;
use svc_tests::{World, on_both_engines};

use crate::op::waits::wait_while;

const BEAT: Duration = Duration::from_secs(10);
const TTL: Duration = Duration::from_secs(30);

/// Returns the members that the bearer of `token` sees online.
fn online(world: &World, token: &str) -> Vec<Value> {
    let input = json!({"workspace_id": world.id("workspace"), "limit": 1});
    let mut found = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let mut input = input.clone();
        input["cursor"] = cursor;
        let page = world.call(token, "list_presence", input).output();
        found.extend(page["items"].as_array().unwrap().iter().cloned());
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return found;
        }
    }
}

fn who(world: &World) -> Vec<Value> {
    online(world, &world.people.admin).iter().map(|member| member["member_id"].clone()).collect()
}

fn beat(world: &World, token: &str, input: Value) -> Value {
    world.call(token, "send_heartbeat", input).output()
}

fn seen_at(world: &World, member: &str) -> i64 {
    let id = world.database.id(member.parse::<uuid::Uuid>().unwrap());
    world.database.number(&format!("select coalesce(max(seen_at), 0) from presence where member_id = {id}"))
}

fn audited(world: &World) -> i64 {
    world.database.number("select count(*) from audit where action = 'mutation'")
}

#[test]
fn a_member_is_online_for_30_seconds_after_a_heartbeat_and_only_a_change_is_audited() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let before = (world.lsn(), audited(world));
        let said = json!({"status": "busy", "note": "running the tests", "thread_id": world.id("thread")});
        assert_eq!(beat(world, agent, said.clone()), json!({"heartbeat_secs": 10, "ttl_secs": 30}));
        beat(world, &world.people.admin, json!({"status": "away"}));
        let found = online(world, agent);
        assert_eq!(found.len(), 2, "{found:?}");
        let [admin_says, agent_says] = &found[..] else { unreachable!() };
        assert_eq!(admin_says["member_id"], json!(world.id("admin")), "who joined first stands first");
        assert_eq!((&admin_says["status"], &admin_says["note"]), (&json!("away"), &Value::Null));
        for (field, value) in said.as_object().unwrap() {
            assert_eq!(agent_says[field], *value, "{field}");
        }
        assert_eq!(audited(world), before.1 + 2);

        world.clock.advance(Duration::from_secs(29));
        beat(world, agent, said.clone());
        assert_eq!((world.lsn(), audited(world)), (before.0, before.1 + 2), "it only prolongs");
        world.clock.advance(Duration::from_secs(2));
        assert_eq!(who(world), [json!(world.id("agent"))]);
        beat(world, agent, json!({"status": "active"}));
        let [now] = &online(world, agent)[..] else { panic!("one is online") };
        assert_eq!((&now["note"], &now["thread_id"]), (&Value::Null, &Value::Null), "it is replaced");
        world.clock.advance(TTL);
        assert_eq!(who(world), [Value::Null; 0]);
        beat(world, agent, json!({"status": "active"}));
        assert_eq!((world.lsn(), audited(world)), (before.0, before.1 + 4), "coming back is a change");
        world.call(agent, "send_heartbeat", json!({"status": "asleep"})).refused(400, "malformed-request");
    });
}

#[test]
fn a_thread_is_shown_to_whoever_may_see_it() {
    on_both_engines(|world| {
        let hidden = world.new_private_channel("closed doors");
        let thread = world.new_thread(&hidden, "hidden");
        let of_thread = json!({"status": "busy", "thread_id": thread});
        world.call(&world.people.agent, "send_heartbeat", of_thread.clone()).refused(404, "not-found");
        beat(world, &world.people.admin, of_thread);
        let shown = |token: &str| online(world, token)[0]["thread_id"].clone();
        assert_eq!(shown(&world.people.admin), json!(thread));
        assert_eq!(shown(&world.people.agent), Value::Null);
    });
}

#[test]
fn a_parked_wait_and_an_open_websocket_keep_their_members_online() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let workspace = world.id("workspace");
        let [waits, follows] = [world.id("agent").to_string(), world.people.bystander_id.clone()];
        let seen = || [&waits, &follows].map(|member| seen_at(world, member));
        let thread = json!({"thread_id": world.id("thread"), "timeout_secs": 300});
        beat(world, agent, json!({"status": "busy", "note": "waiting for a review"}));
        let audited_before = audited(world);
        let mut connected = None;
        wait_while(world, agent, "wait_for_result", thread, || {
            let first = first_frame(&world.people.bystander, workspace, None);
            connected = Some(Ws::subscribe(world.address(), &first));
            until("the first beats", || seen()[1] > 0);
            for _ in 0..5 {
                let before = seen();
                world.clock.advance(BEAT);
                until("a beat", || seen()[0] > before[0]);
                let [one, other] = seen();
                assert_eq!(one, other, "one statement for both");
            }
            let found = online(world, &world.people.admin);
            assert_eq!(found.len(), 2, "{found:?}");
            let says = |id: &str| found.iter().find(|one| one["member_id"] == id).unwrap();
            assert_eq!(says(&waits)["note"], "waiting for a review", "it goes on saying what it has said");
            assert_eq!(says(&follows)["status"], "active");
            world.clock.advance(Duration::from_secs(300));
        });
        drop(connected.take());
        assert_eq!(audited(world), audited_before);
        until("the end of both", || {
            world.clock.advance(TTL);
            who(world).is_empty()
        });
    });
}
