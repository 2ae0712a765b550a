//! Web push by the real programs: a set-up of `svc init` pushes, and its log does not mention browsers.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::push_service::{PushAnswer, PushService};
use svc_tests::site::Site;
use svc_tests::text;

/// The test reads the most detailed log of a program, and of the libraries that it uses.
#[test]
fn a_browser_is_told_by_the_programs_as_set_up_and_is_in_no_log() {
    for engine in engines() {
        let site = Site::found(engine);
        let service = PushService::start();
        let open = ("SVC_ALLOW_PRIVATE_EGRESS", "1");
        let server =
            site.serve(&[open, ("SVC_LOG", "trace"), ("SVC_VAPID_SUBJECT", "mailto:ops@svc.example")]);
        let admin = server.caller(&site.founders.admin);
        let agent = server.caller(&site.founders.agent);
        let shown = || agent.get("/me/notification-preferences")["web_push"].clone();
        let public_key = text(&shown()["public_key"]);
        let point = URL_SAFE_NO_PAD.decode(&public_key).unwrap();
        assert_eq!((point.len(), point[0]), (65, 4));
        let browser = service.subscription("a-secret-browser");
        agent.post("/me/web-push", browser.clone());
        agent.post("/me/web-push", service.subscription("another-browser"));
        service.answers("another-browser", PushAnswer::Status(500, None));
        let workspace = &site.founders.workspace_id;
        let me = agent.get("/me");
        let handle = text(&me["handle"]);
        let channel = admin.post(&format!("/workspaces/{workspace}/channels"), json!({"name": "talk"}));
        let channel = text(&channel["id"]);
        let thread = admin.post(&format!("/channels/{channel}/threads"), json!({"title": "The lexer"}));
        let thread = text(&thread["id"]);
        agent.put("/me/notification-preferences", json!({"show_words": true}));
        let body = format!("@{handle}, is it ready?");
        admin.post(&format!("/threads/{thread}/messages"), json!({"body": body}));
        let pushed = service.wait("a-secret-browser", 1);
        service.wait("another-browser", 1);
        assert_eq!(pushed.opened()["preview"], json!(body));
        assert!(pushed.header("authorization").ends_with(&format!(",k={public_key}")));
        let subscriptions = || shown()["subscriptions"].as_array().unwrap().clone();
        until("it is settled", || subscriptions().iter().any(|of| of["last_ok_at"].is_string()));
        server.running.signal("TERM");
        let log = server.running.ended().err;
        assert!(log.matches(" TRACE ").count() > 10, "a control: everything is logged");
        let token = pushed.header("authorization").split_once(' ').unwrap().1.to_owned();
        let secrets = ["/endpoint", "/keys/p256dh", "/keys/auth"]
            .map(|secret| browser.pointer(secret).and_then(Value::as_str).unwrap());
        for secret in secrets.into_iter().chain(["a-secret-browser", "another-browser", &token, &body]) {
            assert!(!log.contains(secret), "{engine:?}: the log has {secret}");
        }
    }
}

/// Production is restricted to public addresses.
#[test]
fn production_does_not_push_to_private_addresses() {
    let site = Site::found(svc_core::Engine::Sqlite);
    let mut command = site.command("svc-http", &["--listen", "127.0.0.1:0"]);
    let outcome =
        svc_tests::process::run(command.envs([("SVC_ENV", "production"), ("SVC_ALLOW_PRIVATE_EGRESS", "1")]));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.err.contains("SVC_ALLOW_PRIVATE_EGRESS is not allowed while"), "{outcome:?}");
}
