//! The browsers of a member: registration, ownership, and secrecy.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use svc_tests::database::engines;
use svc_tests::push_service::{public_key, subscription};
use svc_tests::{Setup, World, on_both_engines, text};

fn register(world: &World, token: &str, endpoint: &str) -> Value {
    world.call(token, "register_web_push", subscription(endpoint)).output()
}

/// Returns the part about web push in a member's preferences.
pub fn shown(world: &World, token: &str) -> Value {
    world.call(token, "get_notification_preferences", json!({})).output()["web_push"].clone()
}

#[test]
fn what_a_browser_says_is_registered_shown_and_removed() {
    on_both_engines(|world| {
        let (_, bob) = world.new_agent("bob");
        assert_eq!(shown(world, &bob), json!({"public_key": public_key(), "subscriptions": []}));
        let made = register(world, &bob, "https://push.example:443/bob?a=b");
        assert_eq!(
            made,
            json!({"id": made["id"], "endpoint": "https://push.example/bob?a=b",
                   "created_at": world.clock.now(), "last_ok_at": null})
        );
        world.clock.advance(Duration::from_secs(60));
        let mut short = subscription("https://1.1.1.1/bob");
        short.as_object_mut().unwrap().remove("expirationTime");
        let other = world.call(&bob, "register_web_push", short).output();
        assert_eq!(shown(world, &bob)["subscriptions"], json!([made, other]));
        let removed = json!({"subscription_id": made["id"]});
        assert_eq!(world.call(&bob, "remove_web_push", removed.clone()).output(), made);
        assert_eq!(shown(world, &bob)["subscriptions"], json!([other]));
        world.call(&bob, "remove_web_push", removed).refused(404, "not-found");
        let of_another = json!({"subscription_id": other["id"]});
        world.call(&world.people.agent, "remove_web_push", of_another).refused(404, "not-found");
    });
}

/// Returns invalid subscriptions, and how they differ from a valid one.
fn wrong_subscriptions() -> Vec<(&'static str, Value)> {
    let right = subscription("https://push.example/bob");
    let with = |pointer: &str, value: Value| {
        let mut changed = right.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        changed
    };
    let point = URL_SAFE_NO_PAD.decode(text(&right["keys"]["p256dh"])).unwrap();
    let point_of = |bytes: &[u8]| with("/keys/p256dh", json!(URL_SAFE_NO_PAD.encode(bytes)));
    let mut off = point.clone();
    off[40] ^= 1;
    let mut unknown = right.clone();
    unknown["options"] = json!({});
    let mut without = right.clone();
    without["keys"].as_object_mut().unwrap().remove("auth");
    let long = format!("https://push.example/{}", "a".repeat(2000));
    let mut wrong = vec![
        ("off the curve", point_of(&off)),
        ("compressed", point_of(&[&[2 + (point[64] & 1)], &point[1..33]].concat())),
        ("too short a point", point_of(&point[..64])),
        ("nothing", point_of(&[])),
        ("another alphabet", with("/keys/p256dh", json!(STANDARD.encode([&point[..], &[255]].concat())))),
        ("15 bytes", with("/keys/auth", json!(URL_SAFE_NO_PAD.encode([1; 15])))),
        ("17 bytes", with("/keys/auth", json!(URL_SAFE_NO_PAD.encode([1; 17])))),
        ("no secret", without),
        ("an unknown field", unknown),
        ("a time that is none", with("/expirationTime", json!("tomorrow"))),
        ("too long", subscription(&long)),
    ];
    for endpoint in [
        "",
        "push.example/bob",
        "http://push.example/bob",
        "ftp://push.example/bob",
        "javascript:alert(1)",
        "https://",
        "https://localhost/bob",
        "https://127.0.0.1/bob",
        "https://2130706433/bob",
        "https://[::1]/bob",
        "https://[::ffff:192.168.0.1]/bob",
        "https://169.254.169.254/latest/meta-data",
        "https://10.1.2.3:8443/bob",
        "https://printer.local/bob",
        "https://push/bob",
        "https://user:secret@push.example/bob",
        "https://push.example/bob#part",
    ] {
        wrong.push(("the address", subscription(endpoint)));
    }
    wrong
}

#[test]
fn what_is_no_subscription_is_rejected_and_not_repeated() {
    on_both_engines(|world| {
        let (_, bob) = world.new_agent("bob");
        for (why, input) in wrong_subscriptions() {
            let problem = world.call(&bob, "register_web_push", input.clone());
            assert_eq!(problem.status, 400, "{why}: {input}");
            let problem = problem.body.to_string();
            for secret in ["/endpoint", "/keys/p256dh", "/keys/auth"] {
                let Some(secret) = input.pointer(secret).and_then(Value::as_str) else { continue };
                assert!(secret.len() < 8 || !problem.contains(secret), "{why}: {problem}");
            }
        }
        assert_eq!(shown(world, &bob)["subscriptions"], json!([]));
    });
}

#[test]
fn an_endpoint_is_of_the_member_who_registered_it_last() {
    on_both_engines(|world| {
        let (_, bob) = world.new_agent("bob");
        let (_, carol) = world.new_agent("carol");
        let endpoint = "https://push.example/shared";
        let first = register(world, &bob, endpoint);
        world.clock.advance(Duration::from_secs(60));
        let again = register(world, &bob, endpoint);
        assert_eq!((&again["id"], &again["created_at"]), (&first["id"], &json!(world.clock.now())));
        world.database.execute("update web_push set last_ok_at = 1, failures = 3, retry_at = 9");
        let moved = register(world, &carol, endpoint);
        assert_ne!(moved["id"], first["id"]);
        assert_eq!(moved["last_ok_at"], Value::Null, "nothing of another member");
        assert_eq!(shown(world, &bob)["subscriptions"], json!([]));
        assert_eq!(shown(world, &carol)["subscriptions"], json!([moved]));
        let tried = "select count(*) from web_push where endpoint like '%shared' and failures > 0";
        assert_eq!(world.database.number(tried), 0);
        world
            .call(&bob, "remove_web_push", json!({"subscription_id": first["id"]}))
            .refused(404, "not-found");
        world
            .call(&bob, "remove_web_push", json!({"subscription_id": moved["id"]}))
            .refused(404, "not-found");
    });
}

#[test]
fn a_member_has_ten_browsers() {
    on_both_engines(|world| {
        let (_, bob) = world.new_agent("bob");
        let (_, carol) = world.new_agent("carol");
        let endpoint = |number: i32| format!("https://push.example/bob/{number}");
        let made: Vec<Value> = (0..10).map(|number| register(world, &bob, &endpoint(number))).collect();
        let more =
            |token: &str, number| world.call(token, "register_web_push", subscription(&endpoint(number)));
        more(&bob, 10).refused(409, "wrong-state");
        assert_eq!(more(&bob, 9).output()["id"], made[9]["id"], "again");
        more(&carol, 10).output();
        more(&bob, 10).refused(409, "wrong-state");
        more(&carol, 9).output();
        more(&bob, 10).output();
    });
}

#[test]
fn without_a_key_nothing_is_registered() {
    for engine in engines() {
        let world = World::with(engine, Setup { web_push: false, ..Setup::default() });
        let agent = &world.people.agent;
        let refused = world.call(agent, "register_web_push", subscription("https://push.example/a"));
        refused.refused(409, "not-enabled");
        assert_eq!(shown(&world, agent), json!({"public_key": null, "subscriptions": []}));
    }
}

#[test]
fn browsers_are_their_members_own() {
    on_both_engines(|world| {
        let (bob_id, bob) = world.new_agent("bob");
        let made = register(world, &bob, "https://push.example/bob/a-secret-path");
        let trail = || {
            let input = json!({"workspace_id": world.id("workspace"), "limit": 1});
            world.admin("list_audit", input)["items"][0].clone()
        };
        let registered = trail();
        assert!(registered["path"] == "/me/web-push" || registered.to_string().contains("/me/web-push"));
        let delegated =
            world.delegated_beyond_grants(&bob_id, &world.id("agent").to_string(), &["workspace:read"]);
        let nobody = uuid::Uuid::from_u128(7).to_string();
        let browser = subscription("https://push.example/bob/other");
        for (operation, input) in
            [("register_web_push", browser), ("remove_web_push", json!({"subscription_id": made["id"]}))]
        {
            world.call(&delegated, operation, input.clone()).refused(403, "forbidden");
            let naming = |member: &str| {
                let mut input = input.clone();
                input["member_id"] = json!(member);
                world.call(&world.people.agent, operation, input)
            };
            let refusals = [bob_id.as_str(), nobody.as_str()].map(|member| naming(member).body);
            assert_eq!(refusals[0], refusals[1], "existing or not");
            naming(&bob_id).refused(403, "forbidden");
        }
        assert_eq!(shown(world, &bob)["subscriptions"], json!([made]));
        world.call(&bob, "remove_web_push", json!({"subscription_id": made["id"]})).output();
        let removed = trail().to_string();
        assert!(removed.contains("/me/web-push/{subscription_id}"), "{removed}");
        for row in [registered.to_string(), removed] {
            for told in [&text(&made["id"]), "a-secret-path", &*bob_id] {
                let is_actor = told == bob_id;
                assert!(is_actor || !row.contains(told), "{row} has {told}");
            }
        }
    });
}

/// With an endpoint others could send to a browser.
#[test]
fn what_a_browser_has_said_is_in_no_event_no_record_and_no_export() {
    on_both_engines(|world| {
        let (_, bob) = world.new_agent("bob");
        let input = subscription("https://push.example/bob/a-secret-path");
        world.call(&bob, "register_web_push", input.clone()).output();
        let exported = world.admin("export_workspace", json!({"workspace_id": world.id("workspace")}));
        let mut searched = world.database.dump();
        let rows = searched.remove("web_push").unwrap();
        assert!(rows.iter().any(|row| row.contains("a-secret-path")), "a control: it is in its table");
        searched.insert("the export".to_owned(), vec![exported.to_string()]);
        let secrets = ["p256dh", "auth"].map(|name| text(&input["keys"][name]));
        for (place, rows) in searched {
            let found = |secret: &str| {
                let bytes = URL_SAFE_NO_PAD.decode(secret).map(hex::encode).unwrap_or_default();
                rows.iter().any(|row| row.contains(secret) || (!bytes.is_empty() && row.contains(&bytes)))
            };
            assert!(!found("a-secret-path") && !secrets.iter().any(|secret| found(secret)), "{place}");
        }
    });
}
