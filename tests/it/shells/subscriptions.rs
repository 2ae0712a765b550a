//! WebSocket subscriptions: the log as it grows, without gap or repetition, filtered by visibility.

use serde_json::{Value, json};
use svc_tests::client::ws::{Received, Ws, first_frame};
use svc_tests::{Person, World, answer_of, call, in_parallel, on_both_engines, text};

#[test]
fn live_events_follow_past_ones_without_a_gap() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let (writers, each) = (8, 25);
        let last = world.lsn() + i64::try_from(writers * each).unwrap();
        let seen = in_parallel(writers + 4, |number| {
            if number < writers {
                for n in 0..each {
                    let body = format!("{number} says {n}");
                    world.agent("post_message", json!({"thread_id": world.id("thread"), "body": body}));
                }
                return Vec::new();
            }
            let mut ws =
                Ws::subscribe(world.address(), &first_frame(&world.people.admin, workspace, Some(0)));
            let ack = ws.frame();
            assert_eq!((&ack["type"], &ack["after_id"]), (&json!("subscribe_ack"), &json!(0)), "{ack:#}");
            let mut seen = Vec::new();
            while seen.last() != Some(&last) {
                let frame = ws.frame();
                assert_eq!(frame["$type"], format!("svc.event.{}/1", text(&frame["kind"])));
                assert_eq!(frame["id"], frame["lsn"]);
                assert_eq!(frame["attribution"], frame["payload"]["attribution"]);
                seen.push(frame["lsn"].as_i64().unwrap());
            }
            seen
        });
        for seen in &seen[writers..] {
            assert_eq!(*seen, (1..=last).collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_subscription_shows_what_its_bearer_may_see_and_resumes_where_it_stopped() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let private = json!({"thread_id": world.people.private_thread_id, "body": "between us"});
        let public = |body: &str| json!({"thread_id": world.id("thread"), "body": body});
        let mut ws = Ws::subscribe(world.address(), &first_frame(&world.people.bystander, workspace, None));
        let ack = ws.frame();
        assert_eq!(ack["after_id"], world.lsn(), "from now on");
        world.admin("post_message", private);
        world.admin("post_message", public("one"));
        let frame = ws.frame();
        assert_eq!(frame["lsn"], world.lsn(), "events of the private channel are skipped");
        drop(ws);

        world.admin("post_message", public("two"));
        let filter = json!({"workspace_id": workspace, "kind": "MessagePosted"});
        let resume =
            json!({"token": world.people.bystander, "filter": filter, "resume_token": ack["resume_token"]});
        let mut ws = Ws::subscribe(world.address(), &resume);
        ws.frame();
        let again = [ws.frame(), ws.frame()].map(|frame| frame["lsn"].clone());
        assert_eq!(again, [json!(world.lsn() - 1), json!(world.lsn())]);
    });
}

#[test]
fn a_member_without_the_capability_is_disconnected() {
    on_both_engines(|world| {
        let workspace = json!(world.id("workspace"));
        let firsts = [
            json!({"filter": {"workspace_id": workspace}}),
            json!({"token": "svc_unknown", "filter": {"workspace_id": workspace}}),
            json!({"token": world.people.revoked, "filter": {"workspace_id": workspace}}),
            json!({"token": world.people.reader, "filter": {"workspace_id": workspace}}),
            json!({"token": world.people.outsider, "filter": {"workspace_id": workspace}}),
            json!({"token": world.people.agent, "filter": {}}),
            json!({"token": world.people.agent, "filter": {"workspace_id": workspace, "colour": "red"}}),
            Value::Null,
        ];
        for first in firsts {
            assert_eq!(Ws::subscribe(world.address(), &first).receive(), Received::Closed(1008), "{first}");
        }
    });
}

/// Makes a credential, and returns its secret with the call that ends it.
type End = fn(&World) -> (String, &'static str, Value);

/// A new token of the agent.
fn own(world: &World) -> Value {
    let capabilities = json!({"capabilities": ["event:subscribe", "workspace:read"]});
    world.call(&world.people.agent, "attenuate_token", capabilities).output()
}

const ENDS: [(&str, End); 4] = [
    ("a token is revoked", |world| {
        let token = own(world);
        (text(&token["secret"]), "revoke_token", json!({"token_id": token["id"]}))
    }),
    ("a token is rotated", |world| {
        let token = own(world);
        (text(&token["secret"]), "rotate_token", json!({"token_id": token["id"]}))
    }),
    ("a grant is revoked", |world| {
        let agent = world.id("agent").to_string();
        let grant = world.new_grant(&agent, &world.id("admin").to_string(), &["event:subscribe"]);
        let revoked = json!({"workspace_id": world.id("workspace"), "grant_id": grant});
        (world.exchange(&world.people.admin, &grant), "revoke_delegation_grant", revoked)
    }),
    ("the token that a grant was exchanged with is revoked", |world| {
        let delegate = Person::new(world, "delegate");
        let token = world.call(&delegate.token, "whoami", json!({})).output()["token_id"].clone();
        let grant = world.new_grant(&world.id("agent").to_string(), &delegate.id, &["event:subscribe"]);
        (world.exchange(&delegate.token, &grant), "revoke_token", json!({"token_id": token}))
    }),
];

#[test]
fn a_socket_receives_nothing_once_another_server_has_ended_its_credential() {
    on_both_engines(|world| {
        let other = world.another_service(7);
        for (how, end) in ENDS {
            let (secret, operation, input) = end(world);
            let first = first_frame(&secret, world.id("workspace"), None);
            let mut ws = Ws::subscribe(world.address(), &first);
            ws.frame();
            answer_of(call(&other, Some(&world.people.admin), operation, &input)).output();
            world.admin("post_message", json!({"thread_id": world.id("thread"), "body": "not for you"}));
            assert_eq!(ws.receive(), Received::Closed(1008), "{how}");
        }
    });
}
