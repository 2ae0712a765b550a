//! WebSocket subscriptions: the log as it grows, without gap or repetition, filtered by visibility.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Service;
use svc_core::id::SessionId;
use svc_core::op::{Credential, Request, SESSION_COOKIE, Surface};
use svc_tests::client::ws::{Received, Ws, first_frame};
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::{Person, Setup, World, answer_of, call, in_parallel, on_both_engines, session_key, text};

#[test]
fn live_events_follow_past_ones_without_a_gap() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let writers = 8;
        let each = 25;
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
        let resume = json!({"token": world.people.bystander, "resume_token": ack["resume_token"]});
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
            json!({"token": world.people.agent}),
            json!({"token": world.people.agent, "filter": {"workspace_id": workspace, "colour": "red"}}),
            Value::Null,
        ];
        for first in firsts {
            assert_eq!(Ws::subscribe(world.address(), &first).receive(), Received::Closed(1008), "{first}");
        }
    });
}

#[test]
fn a_handshake_with_a_credential_is_told_how_far_the_log_goes() {
    on_both_engines(|world| {
        let first = first_frame(&world.people.agent, world.id("workspace"), None);
        let bearer = format!("Bearer {}", world.people.agent);
        let with_bearer = [("authorization", &*bearer)];
        for (headers, known) in [(&with_bearer[..], true), (&[], false)] {
            let (_, answered) = Ws::shake_hands(world.address(), headers, &first);
            let lsn = answered.get("svc-room-lsn").map(|lsn| lsn.to_str().unwrap().to_owned());
            assert_eq!(lsn, known.then(|| world.lsn().to_string()));
        }
    });
}

#[test]
fn a_subscription_without_a_workspace_is_told_what_it_does_not_get() {
    on_both_engines(|world| {
        let first = json!({"token": world.people.agent, "filter": {"kind": "MessagePosted"}, "after_id": 3});
        let mut ws = Ws::subscribe(world.address(), &first);
        assert_eq!(ws.frame()["after_id"], world.lsn());
        let hint = json!({
            "type": "replay_hint", "workspace_id": world.id("workspace"), "room_lsn": world.lsn(),
            "events": world.lsn() - 3,
        });
        assert_eq!(ws.frame(), hint);
        world.admin("post_message", json!({"thread_id": world.id("thread"), "body": "live"}));
        assert_eq!(ws.frame()["message"]["body"], "live");
        let beyond = json!({"token": world.people.agent, "filter": {}, "after_id": 1_000_000});
        let mut ws = Ws::subscribe(world.address(), &beyond);
        assert_eq!(
            (ws.frame()["after_id"].clone(), ws.frame()["events"].clone()),
            (json!(world.lsn()), json!(0))
        );
    });
}

#[test]
fn a_position_that_the_log_does_not_have_is_told_and_ends_the_connection() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let beyond = first_frame(&world.people.agent, workspace, Some(world.lsn() + 1));
        let mut ws = Ws::subscribe(world.address(), &beyond);
        let told = json!({
            "type": "must_refetch", "code": "CursorTooOld", "floor": 1, "room_lsn": world.lsn(),
            "snapshot": format!("/workspaces/{workspace}/snapshot"),
        });
        assert_eq!((ws.frame(), ws.receive()), (told.clone(), Received::Closed(1008)));
        let path = text(&told["snapshot"]);
        let snapshot = world.rest().send(Some(&world.people.agent), "GET", &path, &[], None).output();
        assert_eq!(snapshot["head"]["lsn"], told["room_lsn"]);
    });
}

#[test]
fn a_position_below_the_floor_is_told_and_ends_the_connection() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        world.admin("set_retention_policy", json!({"workspace_id": workspace, "events_days": 1}));
        world.pass(Duration::from_secs(3 * 86_400));
        let room = world.admin("get_room", json!({"workspace_id": workspace}));
        let floor = room["floor"].as_i64().unwrap();
        let told = json!({
            "type": "must_refetch", "code": "CursorTooOld", "floor": floor, "room_lsn": world.lsn(),
            "snapshot": format!("/workspaces/{workspace}/snapshot"),
        });
        for below in [0, floor - 2] {
            let first = first_frame(&world.people.agent, workspace, Some(below));
            let mut ws = Ws::subscribe(world.address(), &first);
            assert_eq!((ws.frame(), ws.receive()), (told.clone(), Received::Closed(1008)), "{below}");
        }
        let first = first_frame(&world.people.agent, workspace, Some(floor - 1));
        let mut ws = Ws::subscribe(world.address(), &first);
        assert_eq!(
            (ws.frame()["after_id"].clone(), ws.frame()["lsn"].clone()),
            (json!(floor - 1), json!(floor))
        );
    });
}

#[test]
fn a_resume_token_that_is_not_good_ends_the_connection() {
    on_both_engines(|world| {
        let subscribe = |first: &Value| Ws::subscribe(world.address(), first);
        let ack = subscribe(&first_frame(&world.people.agent, world.id("workspace"), None)).frame();
        let good = text(&ack["resume_token"]);
        let resume =
            |who: &str, token: &str| subscribe(&json!({"token": who, "resume_token": token})).receive();
        assert!(matches!(resume(&world.people.agent, &good), Received::Frame(_)));
        let (body, tag) = good.split_once('.').unwrap();
        for forged in
            [body.to_owned(), format!("{body}."), format!("{body}.{}", tag.to_lowercase()), String::new()]
        {
            assert_eq!(resume(&world.people.agent, &forged), Received::Closed(1008), "{forged}");
        }
        assert_eq!(resume(&world.people.admin, &good), Received::Closed(1008), "another's");
        world.clock.advance(Duration::from_secs(3601));
        assert_eq!(resume(&world.people.agent, &good), Received::Closed(1008), "expired");
    });
}

#[test]
fn a_client_for_whom_nothing_matches_is_told_the_position() {
    on_both_engines(|world| {
        let filter = json!({"workspace_id": world.id("workspace"), "kind": "ThreadCreated"});
        let first = json!({"token": world.people.agent, "filter": filter, "positions": true});
        let mut ws = Ws::subscribe(world.address(), &first);
        assert_eq!(ws.frame()["type"], "subscribe_ack");
        let position = ws.frame();
        let begins = world.lsn();
        assert_eq!(
            (&position["type"], &position["after_id"]),
            (&json!("position"), &json!(begins)),
            "caught up"
        );
        let mut other =
            Ws::subscribe(world.address(), &first_frame(&world.people.agent, world.id("workspace"), None));
        other.frame();
        world.admin("post_message", json!({"thread_id": world.id("thread"), "body": "does not match"}));
        assert_eq!(other.frame()["lsn"], begins + 1, "the server has read it");
        world.clock.advance(Duration::from_secs(61));
        let position = ws.frame();
        assert_eq!((&position["type"], &position["after_id"]), (&json!("position"), &json!(begins + 1)));
        let resume = json!({"token": world.people.agent, "resume_token": position["resume_token"]});
        assert_eq!(Ws::subscribe(world.address(), &resume).frame()["after_id"], begins + 1);
    });
}

#[test]
fn a_silent_connection_is_closed_once_its_credential_has_ended() {
    on_both_engines(|world| {
        let token = own(world);
        let first = first_frame(&text(&token["secret"]), world.id("workspace"), None);
        let mut ws = Ws::subscribe(world.address(), &first);
        ws.frame();
        world.admin("revoke_token", json!({"token_id": token["id"]}));
        world.clock.advance(Duration::from_secs(10));
        assert_eq!(ws.receive(), Received::Closed(1008));
    });
}

#[test]
fn a_client_that_was_sent_enough_says_where_to_go_on() {
    for engine in engines() {
        let world = World::with(engine, Setup { replay_max: Some(4), ..Setup::default() });
        let mut first = first_frame(&world.people.admin, world.id("workspace"), Some(0));
        first["positions"] = json!(true);
        let mut ws = Ws::subscribe(world.address(), &first);
        ws.frame();
        let lsns = |ws: &mut Ws, count: usize| -> Vec<Value> {
            (0..count).map(|_| ws.frame()["lsn"].clone()).collect()
        };
        assert_eq!(lsns(&mut ws, 4), [1, 2, 3, 4]);
        let truncated = ws.frame();
        assert_eq!(truncated["type"], "replay_truncated");
        assert_eq!((&truncated["after_id"], &truncated["room_lsn"]), (&json!(4), &json!(world.lsn())));
        ws.say(&json!({"after_id": 4}));
        assert_eq!(lsns(&mut ws, 4), [5, 6, 7, 8]);
        assert_eq!(ws.frame()["type"], "replay_truncated");
        // It sends nothing else, however long it is silent.
        (0..3).for_each(|_| world.clock.advance(Duration::from_secs(61)));
        ws.say(&json!({"after_id": world.lsn() - 2}));
        assert_eq!(lsns(&mut ws, 2), [world.lsn() - 1, world.lsn()]);
        let position = ws.frame();
        assert_eq!((&position["type"], &position["after_id"]), (&json!("position"), &json!(world.lsn())));
        let resume = json!({"token": world.people.admin, "resume_token": truncated["resume_token"]});
        let mut again = Ws::subscribe(world.address(), &resume);
        again.frame();
        assert_eq!(lsns(&mut again, 4), [5, 6, 7, 8]);
    }
}

#[test]
fn a_durable_subscription_goes_on_where_it_was_acknowledged() {
    on_both_engines(|world| {
        let mut first = first_frame(&world.people.agent, world.id("workspace"), Some(0));
        let begins = world.lsn();
        first["after_id"] = json!(begins);
        (first["at_least_once"], first["consumer_id"]) = (json!(true), json!("indexer"));
        let mut ws = Ws::subscribe(world.address(), &first);
        assert_eq!(ws.frame()["after_id"], begins);
        let live = first_frame(&world.people.agent, world.id("workspace"), Some(begins));
        let mut live = Ws::subscribe(world.address(), &live);
        live.frame();
        for body in ["one", "two"] {
            world.agent("post_message", json!({"thread_id": world.id("thread"), "body": body}));
            // Its age counts from the time when the log was read, which must not be while the clock is moved.
            live.frame();
        }
        world.pass(Duration::from_secs(3));
        assert_eq!([ws.frame()["lsn"].clone(), ws.frame()["lsn"].clone()], [begins + 1, begins + 2]);
        ws.say(&json!({"ack": begins + 1}));
        until("the position is written", || {
            world.database.number("select after_id from consumers") == begins + 1
        });
        ws.say(&json!({"after_id": begins}));
        assert_eq!(
            [ws.frame()["lsn"].clone(), ws.frame()["lsn"].clone()],
            [begins + 1, begins + 2],
            "moved back"
        );
        assert_eq!(world.database.number("select after_id from consumers"), begins);
        ws.say(&json!({"ack": begins + 1}));
        world.pass(Duration::from_secs(2));
        until("the position is written again", || {
            world.database.number("select after_id from consumers") == begins + 1
        });
        ws.say(&json!({"ack": begins + 3}));
        assert_eq!(ws.receive(), Received::Closed(1008), "it was not sent that");
        first["after_id"] = Value::Null;
        let mut again = Ws::subscribe(world.address(), &first);
        assert_eq!(again.frame()["after_id"], begins + 1);
        assert_eq!(again.frame()["lsn"], begins + 2);
    });
}

#[test]
fn a_client_that_says_anything_else_is_disconnected() {
    on_both_engines(|world| {
        for said in
            [json!({}), json!([]), json!({"ack": 1}), json!({"after_id": "1"}), json!({"after_id": -1})]
        {
            let first = first_frame(&world.people.agent, world.id("workspace"), None);
            let mut ws = Ws::subscribe(world.address(), &first);
            ws.frame();
            ws.say(&said);
            assert_eq!(ws.receive(), Received::Closed(1008), "{said}");
        }
    });
}

/// A subscription's credential, and the call that ends it on another server.
struct EndingCall {
    headers: Vec<(&'static str, String)>,
    token: Option<String>,
    end: Box<dyn Fn(&Service)>,
}

impl EndingCall {
    /// Returns a token that the admin ends by an operation.
    fn by_admin(world: &World, token: String, operation: &'static str, input: Value) -> Self {
        let admin = world.people.admin.clone();
        let end =
            move |other: &Service| drop(answer_of(call(other, Some(&admin), operation, &input)).output());
        Self { headers: Vec::new(), token: Some(token), end: Box::new(end) }
    }

    /// Returns the same ending for the cookie of a session.
    fn of_session(self, world: &World, session: SessionId) -> Self {
        let cookie = format!("{SESSION_COOKIE}={}", session_key().cookie(session));
        let headers = vec![("cookie", cookie), ("origin", format!("http://{}", world.address()))];
        Self { headers, token: None, ..self }
    }
}

/// Returns the session of a browser, which ends by a request of that session or another one.
fn signed_out(world: &World, session: SessionId, by: SessionId, input: Value) -> EndingCall {
    let end = move |other: &Service| {
        let request = Request::json(Surface::Session, Credential::Session(by), input.to_string());
        answer_of(other.call(other.operation("end_session").unwrap(), request)).output();
    };
    EndingCall { headers: Vec::new(), token: None, end: Box::new(end) }.of_session(world, session)
}

/// Returns a new token of the agent.
fn own(world: &World) -> Value {
    let capabilities = json!({"capabilities": ["event:subscribe", "workspace:read"]});
    world.call(&world.people.agent, "attenuate_token", capabilities).output()
}

fn of_workspace(world: &World, more: Value) -> Value {
    let mut input = json!({"workspace_id": world.id("workspace")});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    input
}

/// Returns a new person that an identity provider manages, and its token.
fn person(world: &World, name: &str) -> (String, String) {
    let user = json!({"userName": name});
    let made =
        world.rest().send(Some(&world.people.admin), "POST", "/scim/v2/Users", &[], Some(&user)).output();
    let id = text(&made["id"]);
    let mint = of_workspace(world, json!({"member_id": id, "capabilities": ["event:subscribe"]}));
    (id, text(&world.admin("mint_token", mint)["secret"]))
}

/// Returns a new app's installation, and its token.
fn app(world: &World) -> (Value, String) {
    let app = world.admin("create_app", of_workspace(world, json!({"slug": "leaving", "name": "An app"})));
    let install = json!({"app_id": app["id"], "granted_capabilities": ["event:subscribe"]});
    let installation = world.admin("install_app", of_workspace(world, install))["id"].clone();
    let mint = json!({"installation_id": installation, "label": "x", "capabilities": ["event:subscribe"]});
    (installation, text(&world.admin("mint_app_token", of_workspace(world, mint))["secret"]))
}

const ENDS: [(&str, fn(&World) -> EndingCall); 12] = [
    ("a token is revoked", |world| {
        let token = own(world);
        EndingCall::by_admin(world, text(&token["secret"]), "revoke_token", json!({"token_id": token["id"]}))
    }),
    ("a token is rotated", |world| {
        let token = own(world);
        EndingCall::by_admin(world, text(&token["secret"]), "rotate_token", json!({"token_id": token["id"]}))
    }),
    ("a grant is revoked", |world| {
        let agent = world.id("agent").to_string();
        let grant = world.new_grant(&agent, &world.id("admin").to_string(), &["event:subscribe"]);
        let token = world.exchange(&world.people.admin, &grant);
        let revoked = of_workspace(world, json!({"grant_id": grant}));
        EndingCall::by_admin(world, token, "revoke_delegation_grant", revoked)
    }),
    ("the token that a grant was exchanged with is revoked", |world| {
        let delegate = Person::new(world, "delegate");
        let token = world.call(&delegate.token, "whoami", json!({})).output()["token_id"].clone();
        let grant = world.new_grant(&world.id("agent").to_string(), &delegate.id, &["event:subscribe"]);
        let exchanged = world.exchange(&delegate.token, &grant);
        EndingCall::by_admin(world, exchanged, "revoke_token", json!({"token_id": token}))
    }),
    ("an identity provider deactivates the person", |world| {
        let (id, token) = person(world, "leaver@corp.example");
        let leave = json!({"id": id, "Operations": [{"op": "replace", "path": "active", "value": false}]});
        EndingCall::by_admin(world, token, "patch_scim_user", leave)
    }),
    ("an app is uninstalled", |world| {
        let (installation, token) = app(world);
        let uninstall = of_workspace(world, json!({"installation_id": installation}));
        EndingCall::by_admin(world, token, "revoke_app_installation", uninstall)
    }),
    ("the browser signs out", |world| {
        let session = world.sign_in(&world.people.agent);
        signed_out(world, session, session, json!({}))
    }),
    ("another browser of the member signs out everywhere", |world| {
        let [session, by] = [0; 2].map(|_| world.sign_in(&world.people.agent));
        signed_out(world, session, by, json!({"everywhere": true}))
    }),
    ("the token that a browser was signed in with is revoked", |world| {
        let token = own(world);
        let session = world.sign_in(&text(&token["secret"]));
        EndingCall::by_admin(world, String::new(), "revoke_token", json!({"token_id": token["id"]}))
            .of_session(world, session)
    }),
    ("the token that a browser was signed in with is rotated", |world| {
        let token = own(world);
        let session = world.sign_in(&text(&token["secret"]));
        EndingCall::by_admin(world, String::new(), "rotate_token", json!({"token_id": token["id"]}))
            .of_session(world, session)
    }),
    ("an identity provider deactivates the person who has signed in there", |world| {
        let (id, token) = person(world, "second@corp.example");
        let session = world.new_own_session(&id);
        let leave = json!({"id": id, "Operations": [{"op": "replace", "path": "active", "value": false}]});
        EndingCall::by_admin(world, token, "patch_scim_user", leave).of_session(world, session)
    }),
    ("an identity provider removes the person who has signed in there", |world| {
        let (id, token) = person(world, "third@corp.example");
        let session = world.new_own_session(&id);
        EndingCall::by_admin(world, token, "delete_scim_user", json!({"id": id})).of_session(world, session)
    }),
];

#[test]
fn a_socket_receives_nothing_once_another_server_has_ended_its_credential() {
    on_both_engines(|world| {
        let other = world.another_service(7);
        for (how, ending) in ENDS {
            let EndingCall { headers, token, end } = ending(world);
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
            let first = json!({"token": token, "filter": {"workspace_id": world.id("workspace")}});
            let mut ws = Ws::subscribe_with(world.address(), &headers, &first);
            assert_eq!(ws.frame()["type"], "subscribe_ack", "{how}");
            end(&other);
            world.admin("post_message", json!({"thread_id": world.id("thread"), "body": "not for you"}));
            assert_eq!(ws.receive(), Received::Closed(1008), "{how}");
        }
    });
}
