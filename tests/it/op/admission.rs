//! Admission: the limit that a request counts against, and the decision that a delegated one leaves.

use std::net::IpAddr;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::op::{Input, Request, RequestHead, Surface};
use svc_core::{Code, Error, RateSettings};
use svc_http::HttpSettings;
use svc_tests::client::Answer;
use svc_tests::client::ws::{Ws, first_frame};
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::{Setup, World, answer_of, on_both_engines, runtime, text};

/// Requests of a client, and of a workspace, until time passes.
const PER_CLIENT: i64 = 6;
const PER_WORKSPACE: i64 = 20;

fn with_limits(test: impl Fn(&World)) {
    for engine in engines() {
        let rates = RateSettings {
            per_client: PER_CLIENT,
            per_workspace: PER_WORKSPACE,
            window: Duration::from_secs(60),
        };
        test(&World::with(engine, Setup { rates, ..Setup::default() }));
    }
}

fn ask_from(world: &World, peer: &str, token: Option<&str>, operation: &str, input: Value) -> Answer {
    let head = RequestHead {
        credential: token.map(SecretString::from).into(),
        surface: Surface::Rest,
        path: String::new(),
        peer: Some(peer.parse::<IpAddr>().unwrap().into()),
    };
    let input = Input::json(input.to_string());
    answer_of(world.service.call(world.service.operation(operation).unwrap(), Request { head, input }))
}

/// Returns the statuses of `count` requests for the same operation.
fn statuses(world: &World, count: i64, peer: &str, token: impl Fn(i64) -> Option<String>) -> Vec<u16> {
    let ask = |number| ask_from(world, peer, token(number).as_deref(), "whoami", json!({})).status;
    (0..count).map(ask).collect()
}

fn times(status: u16, count: i64) -> Vec<u16> {
    vec![status; usize::try_from(count).unwrap()]
}

#[test]
fn a_caller_without_a_live_token_is_limited_by_its_address() {
    with_limits(|world| {
        let dead = world.new_token(vec!["workspace:read"]);
        world.database.execute("update tokens set revoked_at = created_at where label = 'for a test'");
        let made_up = |number: i64| Some(format!("svc_{number}"));
        for (peer, token) in [
            ("192.0.2.1", &made_up as &dyn Fn(i64) -> Option<String>),
            ("192.0.2.2", &|_| None),
            ("192.0.2.3", &|_| Some(dead.clone())),
        ] {
            let seen = statuses(world, PER_CLIENT + 3, peer, token);
            assert_eq!(seen, [times(401, PER_CLIENT), times(429, 3)].concat(), "{peer}");
            // A token that was never used before is admitted although its address is not.
            assert_eq!(ask_from(world, peer, Some(&world.people.bystander), "whoami", json!({})).status, 200);
        }
        world.clock.advance(Duration::from_secs(60));
        assert_eq!(statuses(world, 1, "192.0.2.1", made_up), [401]);
    });
}

#[test]
fn a_caller_over_mcp_without_a_live_token_is_limited_by_its_address() {
    with_limits(|world| {
        let operation = world.operation("whoami");
        let seen = (0..PER_CLIENT + 2).map(|number| {
            world
                .mcp()
                .request(Some(&format!("svc_{number}")), "tools/call", json!({"name": operation.name()}))
                .status
        });
        assert_eq!(seen.collect::<Vec<_>>(), [times(401, PER_CLIENT), times(429, 2)].concat());
        assert_eq!(world.mcp().call(Some(&world.people.reader), operation, &json!({})).status, 200);
    });
}

#[test]
fn each_message_of_a_batch_counts_whatever_it_is() {
    with_limits(|world| {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": 1}});
        for message in [json!(1), ping, call] {
            let batch = json!(vec![message; 9]);
            let token = world.new_token(vec!["workspace:read"]);
            let answers = world.rest().send(Some(&token), "POST", "/mcp", &[], Some(&batch)).output();
            let answers = answers.as_array().unwrap();
            let refused = answers.iter().filter(|answer| answer["error"]["code"] == 429).count();
            assert_eq!((answers.len(), times(429, 3).len()), (9, refused), "{answers:?}");
            world.clock.advance(Duration::from_secs(60));
        }
    });
}

#[test]
fn a_request_for_no_operation_counts_against_its_live_token() {
    with_limits(|world| {
        let rest = world.rest();
        for number in 0..PER_CLIENT {
            rest.send(Some(&format!("svc_{number}")), "GET", "/me", &[], None)
                .refused(401, "unauthenticated");
        }
        for path in ["/nowhere", "/openapi.json", "/problems/not-found"] {
            // A token that is not cached yet.
            let token = world.new_token(vec!["workspace:read"]);
            let seen: Vec<u16> =
                (0..=PER_CLIENT).map(|_| rest.send(Some(&token), "GET", path, &[], None).status).collect();
            let answered = if path == "/nowhere" { 404 } else { 200 };
            assert_eq!(seen, [times(answered, PER_CLIENT), times(429, 1)].concat(), "{path}");
            world.clock.advance(Duration::from_secs(60));
        }
        let twice = [("authorization", "Bearer svc_1"), ("authorization", "Bearer svc_2")];
        let twice = |_| rest.send(None, "GET", "/me", &twice, None).status;
        let seen: Vec<u16> = (0..=PER_CLIENT).map(twice).collect();
        assert_eq!(seen, [times(400, PER_CLIENT), times(429, 1)].concat());
    });
}

#[test]
fn a_dead_token_uses_up_no_other_callers_limit() {
    with_limits(|world| {
        let dead = world.new_token(vec!["workspace:read"]);
        world.call(&dead, "whoami", json!({})).output();
        world.clock.advance(Duration::from_secs(60));
        let revoke = "update tokens set revoked_at = created_at where label = 'for a test'";
        world.database.execute(revoke);
        // The access epoch invalidates caches, as a revocation through the service does.
        world.database.execute("update heads set epoch = epoch + 1");
        for number in 0..PER_WORKSPACE + 5 {
            let peer = format!("192.0.2.{number}");
            assert_eq!(ask_from(world, &peer, Some(&dead), "whoami", json!({})).status, 401, "{number}");
        }
        world.admin("whoami", json!({}));
    });
}

#[test]
fn an_unreadable_request_is_rejected_for_its_dead_token_first() {
    on_both_engines(|world| {
        let token = world.new_token(vec!["workspace:read", "token:admin"]);
        let rest = world.rest();
        let unreadable = || {
            let query = rest.send(Some(&token), "GET", "/me?%", &[], None);
            let large = json!("a".repeat(3 << 20));
            let body = rest.send(Some(&token), "POST", "/tokens/attenuate", &[], Some(&large));
            [query, body].map(|answer| answer.status)
        };
        assert_eq!(unreadable(), [400, 413]);
        world.call(&token, "rotate_token", json!({})).output();
        assert_eq!(unreadable(), [401, 401]);
    });
}

#[test]
fn derived_tokens_share_one_limit() {
    with_limits(|world| {
        let root = world.new_token(vec!["workspace:read", "message:post"]);
        let child = |parent: &str| {
            let narrower = json!({"capabilities": ["workspace:read", "message:post"]});
            text(&world.call(parent, "attenuate_token", narrower).output()["secret"])
        };
        let first = child(&root);
        let second = child(&first);
        world.clock.advance(Duration::from_secs(60));
        let family = [root, first, second];
        let token = |number: i64| Some(family[usize::try_from(number).unwrap() % 3].clone());
        let seen = statuses(world, PER_CLIENT + 3, "192.0.2.1", token);
        assert_eq!(seen, [times(200, PER_CLIENT), times(429, 3)].concat());
    });
}

/// Returns the decisions in the audit trail, the latest first.
fn decisions(world: &World) -> Vec<(String, String, Value)> {
    let action = "authorization.decision";
    let input = json!({"workspace_id": world.id("workspace"), "action": action, "limit": 200});
    let rows = world.admin("list_audit", input);
    let decision = |row: &Value| {
        let metadata = &row["metadata"];
        (text(&metadata["operation"]), text(&metadata["decision"]), metadata["problem"].clone())
    };
    rows["items"].as_array().unwrap().iter().map(decision).collect()
}

/// Returns a token by which the admin acts for the agent, and its grant.
fn lent(world: &World, capabilities: &[&str]) -> (String, String) {
    let [subject, delegate] = ["agent", "admin"].map(|sample| world.id(sample).to_string());
    let grant = world.new_grant(&subject, &delegate, capabilities);
    (world.exchange(&world.people.admin, &grant), grant)
}

fn delegated(world: &World, capabilities: &[&str]) -> String {
    lent(world, capabilities).0
}

fn revoke(world: &World, grant: &str) {
    let input = json!({"workspace_id": world.id("workspace"), "grant_id": grant});
    world.admin("revoke_delegation_grant", input);
}

#[test]
fn each_delegated_request_leaves_one_decision() {
    on_both_engines(|world| {
        let thread = json!({"thread_id": world.id("thread")});
        let post = json!({"thread_id": world.id("thread"), "body": "a"});
        let wait = json!({"workspace_id": world.id("workspace"), "after_id": 0, "timeout_secs": 1});
        let wide: &[&str] = &["workspace:read", "message:post", "event:subscribe"];
        let narrow: &[&str] = &["search:query"];
        for (held, operation, input, refused) in [
            (narrow, "get_thread", thread.clone(), Some("missing-capability")),
            (narrow, "post_message", post.clone(), Some("missing-capability")),
            (narrow, "post_message", json!({"thread": 1}), Some("missing-capability")),
            (narrow, "wait_for_event", wait.clone(), Some("missing-capability")),
            (wide, "post_message", json!({"thread": 1}), Some("malformed-request")),
            (wide, "post_message", post, None),
            (wide, "get_thread", thread, None),
            (wide, "wait_for_event", wait, None),
        ] {
            // A token that is not cached yet, and the same once more.
            let token = delegated(world, held);
            for _ in 0..2 {
                let before = decisions(world).len();
                world.call(&token, operation, input.clone());
                let after = decisions(world);
                assert_eq!(after.len(), before + 1, "{operation} {input}");
                let decision = if refused.is_some() { "refused" } else { "allowed" };
                assert_eq!(after[0], (operation.to_owned(), decision.to_owned(), json!(refused)));
            }
        }
    });
}

/// Returns messages that call no operation, and the status that each returns to a live token.
fn messages_without_a_call() -> Vec<(Value, &'static [(&'static str, &'static str)], u16)> {
    let request =
        |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    vec![
        (request("tools/call", json!({"name": 1})), &[], 200),
        (request("tools/call", json!({"name": "whoami", "arguments": "x"})), &[], 200),
        (request("tools/call", json!({"name": "no_such_tool"})), &[], 200),
        (request("tools/call", json!({"name": "whoami"})), &[("mcp-protocol-version", "1999-01-01")], 400),
        (json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call"}), &[], 200),
        (json!({"jsonrpc": "2.0", "id": 1}), &[], 400),
        (json!([1]), &[], 200),
        (json!([1]), &[("mcp-protocol-version", "2025-06-18")], 400),
    ]
}

#[test]
fn a_message_without_a_call_leaves_a_decision_like_any_other() {
    on_both_engines(|world| {
        let rest = world.rest();
        for (message, headers, status) in messages_without_a_call() {
            let token = delegated(world, &["workspace:read"]);
            let send = || rest.send(Some(&token), "POST", "/mcp", headers, Some(&message));
            let before = decisions(world).len();
            let answer = send();
            assert_eq!(answer.status, status, "{message}: {}", answer.body);
            assert!(answer.lsn().is_some(), "{message}: {:?}", answer.headers);
            let after = decisions(world);
            assert_eq!(after.len(), before + 1, "{message}");
            assert_eq!((&*after[0].1, &after[0].2), ("refused", &json!("malformed-request")), "{message}");
            world.call(&token, "rotate_token", json!({})).refused(409, "wrong-state");
            let id = world.call(&token, "whoami", json!({})).output()["token_id"].clone();
            world.admin("revoke_token", json!({"token_id": id}));
            send().refused(401, "unauthenticated");
        }
    });
}

#[test]
fn a_dead_delegated_token_and_a_socket_leave_one_decision_each() {
    on_both_engines(|world| {
        let (token, grant) = lent(world, &["workspace:read", "event:subscribe"]);
        let first = first_frame(&token, world.id("workspace"), None);
        let mut ws = Ws::subscribe(world.address(), &first);
        ws.frame();
        for body in ["one", "two", "three"] {
            world.agent("post_message", json!({"thread_id": world.id("thread"), "body": body}));
            ws.frame();
        }
        drop(ws);
        assert_eq!(decisions(world), [("wait_for_event".into(), "allowed".into(), json!(null))]);
        revoke(world, &grant);
        world.call(&token, "whoami", json!({})).refused(401, "unauthenticated");
        assert_eq!(decisions(world)[0], ("whoami".into(), "refused".into(), json!("unauthenticated")));
    });
}

#[test]
fn a_delegated_token_ends_with_either_of_its_members() {
    on_both_engines(|world| {
        let post = json!({"thread_id": world.id("thread"), "body": "a"});
        for ending in ["subject", "delegate"] {
            let people =
                ["subject", "delegate"].map(|role| world.new_agent(&format!("{ending}-ends.{role}")));
            let [(subject, _), (delegate, own)] = &people;
            let token = world.exchange(own, &world.new_grant(subject, delegate, &["message:post"]));
            world.call(&token, "post_message", post.clone()).output();
            let id = if ending == "subject" { subject } else { delegate };
            let id = world.database.id(id.parse::<uuid::Uuid>().unwrap());
            let changed = |column: &str| {
                world.database.execute(&format!("update members set {column} = created_at where id = {id}"));
                world.database.execute("update heads set epoch = epoch + 1");
            };
            changed("frozen_at");
            world.call(&token, "post_message", post.clone()).refused(403, "member-frozen");
            world.call(&token, "whoami", json!({})).output();
            changed("deactivated_at");
            world.call(&token, "whoami", json!({})).refused(401, "unauthenticated");
        }
    });
}

#[test]
fn an_unreadable_delegated_subscription_leaves_one_decision() {
    on_both_engines(|world| {
        let token = delegated(world, &["workspace:read", "event:subscribe"]);
        let mut first = first_frame(&token, world.id("workspace"), None);
        first["filter"]["thread_id"] = json!("x");
        Ws::subscribe(world.address(), &first).receive();
        let refused = ("wait_for_event".into(), "refused".into(), json!("malformed-request"));
        assert_eq!(decisions(world), [refused]);
    });
}

/// The events that end a request before its operation runs, and the decisions that it leaves.
#[test]
fn a_delegated_request_that_ends_early_leaves_a_decision() {
    on_both_engines(|world| {
        let rest = world.rest();
        let held: &[&str] = &["workspace:read", "event:subscribe"];
        for (method, path, status, left) in [
            ("GET", "/no/such/route", 404, Some(("", "unknown-route"))),
            ("GET", "/share/nothing", 404, Some(("", "unknown-route"))),
            ("GET", "/scim/v2/Nothing", 404, Some(("", "unknown-route"))),
            ("DELETE", "/me", 405, Some(("", "method-not-allowed"))),
            ("GET", "/ws/subscribe", 400, Some(("wait_for_event", "malformed-request"))),
            // Routes that need no credential decide nothing by it.
            ("GET", "/openapi.json", 200, None),
            ("OPTIONS", "/me", 204, None),
        ] {
            // A token that is not cached yet, and the same once more.
            let token = delegated(world, held);
            for _ in 0..2 {
                let before = decisions(world).len();
                let answer = rest.send(Some(&token), method, path, &[], None);
                assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
                let after = decisions(world);
                assert_eq!(after.len(), before + usize::from(left.is_some()), "{method} {path}");
                if let Some((operation, problem)) = left {
                    assert_eq!(after[0], (operation.to_owned(), "refused".to_owned(), json!(problem)));
                }
            }
        }
    });
}

#[test]
fn a_delegated_socket_without_a_first_frame_leaves_a_decision() {
    on_both_engines(|world| {
        let token = delegated(world, &["workspace:read", "event:subscribe"]);
        let credential = format!("Bearer {token}");
        let headers = [("authorization", &*credential)];
        let refused = ("wait_for_event".to_owned(), "refused".to_owned(), json!("malformed-request"));
        Ws::subscribe_with(world.address(), &headers, &json!("no frame")).receive();
        assert_eq!(decisions(world), std::slice::from_ref(&refused));
        drop(Ws::connect(world.address(), &headers));
        until("the client's end is noticed", || decisions(world).len() == 2);
        assert_eq!(decisions(world)[0], refused);
    });
}

#[test]
fn a_delegated_socket_that_there_is_no_room_for_leaves_a_decision() {
    for engine in engines() {
        let http = HttpSettings { ws_connections: 0, ..HttpSettings::default() };
        let world = World::with(engine, Setup { http, ..Setup::default() });
        let token = delegated(&world, &["workspace:read", "event:subscribe"]);
        let handshake = [
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ];
        world.rest().send(Some(&token), "GET", "/ws/subscribe", &handshake, None).refused(503, "overloaded");
        assert_eq!(decisions(&world), [("wait_for_event".into(), "refused".into(), json!("overloaded"))]);
    }
}

#[test]
fn each_message_of_a_delegated_batch_leaves_a_decision() {
    on_both_engines(|world| {
        let token = delegated(world, &["workspace:read", "message:post", "thread:transition"]);
        let list = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": {}});
        let batch = Value::from((0..90).map(list).collect::<Vec<_>>());
        let answers = world.rest().send(Some(&token), "POST", "/mcp", &[], Some(&batch)).output();
        let full = answers.as_array().unwrap().iter().filter(|answer| answer.get("error").is_some()).count();
        assert!(full > 0, "the response of the batch was never full");
        let decisions = decisions(world);
        assert_eq!(decisions.len(), 90);
        let refused = ("mcp".to_owned(), "refused".to_owned(), json!("overloaded"));
        assert_eq!(decisions.iter().filter(|decision| **decision == refused).count(), full);
    });
}

#[test]
fn a_delegated_list_of_tools_leaves_a_decision() {
    on_both_engines(|world| {
        let (token, grant) = lent(world, &["workspace:read"]);
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
        let ask = || world.rest().send(Some(&token), "POST", "/mcp", &[], Some(&list));
        assert!(!ask().output()["result"]["tools"].as_array().unwrap().is_empty());
        assert_eq!(decisions(world), [("mcp".into(), "allowed".into(), Value::Null)]);
        revoke(world, &grant);
        ask().refused(401, "unauthenticated");
        let after = decisions(world);
        assert_eq!((after.len(), &*after[0].1, &after[0].2), (2, "refused", &json!("unauthenticated")));
    });
}

#[test]
fn a_delegated_request_whose_body_there_is_no_room_for_leaves_a_decision() {
    on_both_engines(|world| {
        let token = delegated(world, &["workspace:read"]);
        let operation = world.service.operation("whoami").unwrap();
        for by in [&token, &world.people.admin] {
            let credential = Some(SecretString::from(by.as_str())).into();
            let head = RequestHead { credential, ..RequestHead::default() };
            let refusal = Error::new(Code::Overloaded, "there is no room");
            let refused = runtime().block_on(async {
                let admission = world.service.admit(Some(operation), head).await.unwrap();
                world.service.refuse(Some(operation), admission, refusal).await
            });
            assert_eq!(refused.code(), Code::Overloaded);
            assert_eq!(decisions(world), [("whoami".into(), "refused".into(), json!("overloaded"))]);
        }
    });
}
