//! Pushing over the network: the requests to a push service, and the effects of its responses.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use svc_core::egress::Egress;
use svc_tests::database::{engines, skipped};
use svc_tests::process::until;
use svc_tests::push_service::{PushAnswer, PushService, PushedNotification, public_key};
use svc_tests::{Setup, World, text};

use super::push::{MINUTE, PushWorld};
use super::web_push::shown;

/// The variable with the Python that has the outside clients.
const PYTHON: &str = "SVC_TEST_PYTHON";

/// Runs `test` with a world whose server pushes, and a push service.
fn with_server(test: impl Fn(&PushWorld<'_>, &PushService)) {
    for engine in engines() {
        let world = World::with(engine, Setup::pushing());
        let service = PushService::start();
        let told = PushWorld::new(&world);
        world.address();
        test(&told, &service);
    }
}

/// Returns how often in a row the push service of a browser has failed.
fn failures(told: &PushWorld<'_>, browser: &str) -> i64 {
    let sql = format!("select coalesce(max(failures), -1) from web_push where endpoint like '%/{browser}'");
    told.world.database.number(&sql)
}

#[test]
fn a_browser_gets_what_its_member_is_told() {
    with_server(|told, service| {
        told.browser(&service.endpoint("desk"));
        told.say("@bob, is the lexer ready?");
        let pushed = service.wait("desk", 1);
        let notification = pushed.opened();
        assert_eq!(notification["preview"], "@bob, is the lexer ready?");
        assert_eq!(notification["thread_id"], json!(told.thread));
        for (name, value) in [
            ("ttl", "86400"),
            ("urgency", "high"),
            ("content-encoding", "aes128gcm"),
            ("content-type", "application/octet-stream"),
        ] {
            assert_eq!(pushed.header(name), value);
        }
        assert_eq!(pushed.header("topic").len(), 22);
        assert!(pushed.body.len() < 4096);
        until("it is settled", || shown(told.world, &told.bob)["subscriptions"][0]["last_ok_at"].is_string());
        told.say("@bob, and now?");
        let again = service.wait("desk", 2);
        assert_eq!(again.header("topic"), pushed.header("topic"));
        assert_eq!(again.header("authorization"), pushed.header("authorization"), "one token for the hour");
        told.world.clock.advance(60 * MINUTE);
        told.say("@bob, an hour later");
        let later = service.wait("desk", 3);
        assert_ne!(later.header("authorization"), pushed.header("authorization"));
        assert_ne!(later.body, again.body);
    });
}

/// Returns the contents of notifications as other programs read them.
fn read_outside(python: &OsStr, pushed: &[PushedNotification]) -> Vec<Value> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/py/read_push.py");
    let mut command = Command::new(python);
    let mut child = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines: String = pushed.iter().map(|pushed| format!("{}\n", pushed.for_outside())).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_notification_is_read_and_its_sender_known_by_programs_that_are_not_ours() {
    let Some(python) = std::env::var_os(PYTHON) else {
        skipped("outside clients", PYTHON);
        return;
    };
    with_server(|told, service| {
        let hours = told.world.clock.now().micros() / 3_600_000_000;
        told.browser(&service.endpoint("desk"));
        told.browser(&service.endpoint("phone"));
        told.say(&format!("@bob {}", "\u{1f600}".repeat(300)));
        let pushed = [service.wait("desk", 1), service.wait("phone", 1)];
        let read = read_outside(&python, &pushed);
        assert_eq!(read.len(), 2);
        for (read, pushed) in read.iter().zip(&pushed) {
            assert_eq!(read["payload"], pushed.opened());
            assert_eq!(text(&read["payload"]["preview"]).chars().count(), 200);
            assert_eq!((&read["verified"], &read["key"]), (&json!(true), &json!(public_key())));
            assert_eq!(read["header"], json!({"typ": "JWT", "alg": "ES256"}));
            let claims = json!({
                "aud": service.origin(), "exp": (hours + 12) * 3600, "sub": "mailto:ops@svc.example",
            });
            assert_eq!(read["claims"], claims, "the port is part of the audience");
        }
        let mut forged = pushed[0].clone();
        let authorization = pushed[0].header("authorization").to_owned();
        let (token, rest) = authorization.split_once('.').unwrap();
        // `{"aud` in base64 becomes `{"Aud`, so the signature does not match.
        let changed = format!("{token}.{}", rest.replacen("eyJhdW", "eyJBdW", 1));
        forged.headers.insert("authorization", changed.parse().unwrap());
        assert_eq!(read_outside(&python, &[forged])[0]["verified"], json!(false), "a control");
    });
}

#[test]
fn what_a_push_service_answers_decides_what_becomes_of_a_browser() {
    with_server(|told, service| {
        for (browser, status, header) in [
            ("missing", 404, None),
            ("gone", 410, None),
            ("busy", 429, Some(("retry-after", "300".to_owned()))),
            ("broken", 500, None),
            ("away", 503, Some(("retry-after", "soon".to_owned()))),
            ("strict", 403, None),
            ("large", 413, None),
            ("wrong", 400, None),
        ] {
            told.browser(&service.endpoint(browser));
            service.answers(browser, PushAnswer::Status(status, header));
        }
        told.browser(&service.endpoint("desk"));
        told.say("@bob, look");
        service.wait("desk", 1);
        until("all is settled", || failures(told, "strict") == 1);
        let left = shown(told.world, &told.bob)["subscriptions"].clone();
        let left: Vec<&str> =
            left.as_array().unwrap().iter().map(|of| of["endpoint"].as_str().unwrap()).collect();
        let left: BTreeSet<&str> = left.iter().map(|endpoint| endpoint.rsplit('/').next().unwrap()).collect();
        assert_eq!(left, BTreeSet::from(["away", "broken", "busy", "desk", "large", "strict", "wrong"]));
        assert_eq!(["desk", "large", "wrong"].map(|browser| failures(told, browser)), [0, 0, 0]);
        for browser in ["broken", "away", "strict"] {
            service.answers(browser, None);
        }
        told.world.clock.advance(MINUTE);
        for browser in ["broken", "away", "strict"] {
            assert_eq!(service.wait(browser, 2).opened()["preview"], "@bob, look", "{browser}");
        }
        until("they are well again", || failures(told, "broken") == 0);
        assert_eq!(service.got("busy").len(), 1, "it has asked for five minutes");
        service.answers("busy", None);
        told.world.clock.advance(4 * MINUTE);
        service.wait("busy", 2);
        until("it has it", || failures(told, "busy") == 0);
        let times = |browser: &str| service.got(browser).len();
        let of = ["desk", "broken", "busy", "gone", "missing", "large", "wrong"];
        assert_eq!(of.map(times), [1, 2, 2, 1, 1, 1, 1]);
    });
}

#[test]
fn a_push_service_that_hangs_redirects_or_never_ends_is_no_harm_to_others() {
    with_server(|told, service| {
        for (browser, answers) in
            [("hangs", PushAnswer::Never), ("moves", PushAnswer::Redirect), ("talks", PushAnswer::Huge)]
        {
            told.browser(&service.endpoint(browser));
            service.answers(browser, answers);
        }
        // No server listens there.
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        told.browser(&format!("http://{nobody}/nobody"));
        told.browser(&service.endpoint("desk"));
        told.say("@bob, look");
        service.wait("desk", 1);
        let (_, carol) = told.world.new_agent("carol");
        told.world.call(&carol, "register_web_push", service.subscription("carol")).output();
        told.say("@carol, look");
        service.wait("carol", 1);
        until("all is settled", || failures(told, "hangs") == 1);
        assert_eq!(["moves", "nobody", "talks", "desk"].map(|browser| failures(told, browser)), [1, 1, 0, 0]);
        assert!(service.got("moved").is_empty(), "no redirect is followed");
    });
}

/// An address may have been registered before the service was restricted to public addresses.
#[test]
fn nothing_is_sent_to_a_private_address() {
    for engine in engines() {
        let mut setup = Setup::pushing();
        setup.http.egress = Egress::default();
        let world = World::with(engine, setup);
        let service = PushService::start();
        let told = PushWorld::new(&world);
        told.browser(&service.endpoint("desk"));
        let port = service.origin().rsplit(':').next().unwrap().to_owned();
        told.browser(&format!("https://localhost:{port}/named"));
        world.address();
        told.say("@bob, look");
        until("it was tried", || failures(&told, "desk") == 1 && failures(&told, "named") == 1);
        assert!(service.got("desk").is_empty() && service.got("named").is_empty());
    }
}
