//! The link in a mail that turns mail off: its users, its effect, and its contents.

use serde_json::{Value, json};
use svc_core::RateSettings;
use svc_tests::client::Answer;
use svc_tests::state::assert_state;
use svc_tests::{MAIL_DELAY, ORIGIN, Setup, World, on_both_engines, text};

use super::mail::{bob, confirm, deliver, delivery, post, set};

/// The body that mail providers send (RFC 8058).
const ONE_CLICK: &str = "List-Unsubscribe=One-Click";
const BROWSER: (&str, &str) = ("accept", "text/html,application/xhtml+xml,*/*;q=0.8");

/// Sends Bob a mail, and returns the path of the link in it.
fn link(world: &World) -> String {
    let thread = world.new_thread(&world.new_channel(&format!("at {}", world.lsn())), "Mailed");
    post(world, &thread, "@bob, look");
    world.clock.advance(MAIL_DELAY);
    let sent = deliver(world);
    sent[0].unsubscribe.as_ref().unwrap().strip_prefix(ORIGIN).unwrap().to_owned()
}

fn open(world: &World, method: &str, link: &str, headers: &[(&str, &str)]) -> Answer {
    world.rest().send(None, method, link, headers, None)
}

fn one_click(world: &World, link: &str) -> Answer {
    world.rest().send_form(link, &[], ONE_CLICK)
}

fn mode(world: &World, token: &str) -> Value {
    delivery(world, token)["mode"].clone()
}

fn audited(world: &World) -> i64 {
    world.database.number("select count(*) from audit")
}

#[test]
fn a_post_to_the_link_turns_mail_off_and_changes_nothing_else() {
    on_both_engines(|world| {
        let (bob_id, token) = bob(world, "immediate");
        let link = link(world);
        let preferences = || world.call(&token, "get_notification_preferences", json!({})).output();
        let mut before = preferences();
        let rows = audited(world);
        let lsn = world.lsn();
        let answer = one_click(world, &link);
        assert!(answer.headers.get("svc-room-lsn").is_none() && answer.headers.get("set-cookie").is_none());
        assert_eq!(answer.headers["cache-control"], "no-store");
        assert_eq!(answer.output(), json!({"mode": "off"}));
        before["delivery"]["mode"] = json!("off");
        assert_eq!((preferences(), world.lsn()), (before.clone(), lsn));
        let input = json!({"workspace_id": world.id("workspace"), "limit": 1});
        let row = world.admin("list_audit", input)["items"][0].clone();
        assert_eq!((&row["action"], &row["actor_id"]), (&json!("mutation"), &json!(bob_id)));
        let metadata = json!({"surface": "rest", "operation": "unsubscribe_from_mail",
                              "path": "/ui/unsubscribe/{link}", "status": 200});
        assert_eq!((&row["metadata"], audited(world)), (&metadata, rows + 1));
        one_click(world, &link).output();
        assert_eq!((preferences(), audited(world)), (before, rows + 1), "once more");
        let thread = world.new_thread(&world.new_channel("quiet"), "Quiet");
        post(world, &thread, "@bob, are you there?");
        world.clock.advance(MAIL_DELAY);
        assert!(deliver(world).is_empty());
        set(world, &token, "bob@example.com", "digest");
        one_click(world, &link).output();
        assert_eq!(mode(world, &token), "off", "the link of an old mail works as long as the address does");
        assert_state(&world.database.address());
    });
}

/// Programs that scan mail open its links.
#[test]
fn looking_at_the_link_changes_nothing() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "immediate");
        let link = link(world);
        let rows = audited(world);
        for method in ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH"] {
            for headers in [&[][..], &[BROWSER], &[("accept", "application/json")], &[("accept", "*/*")]] {
                let wanted = match method {
                    "GET" | "HEAD" => 200,
                    "OPTIONS" => 204,
                    _ => 405,
                };
                assert_eq!(open(world, method, &link, headers).status, wanted, "{method} {headers:?}");
            }
        }
        assert_eq!(open(world, "GET", &link, &[]).output(), json!({}));
        assert_eq!((mode(world, &token), audited(world)), (json!("immediate"), rows));
        let page = open(world, "GET", &link, &[BROWSER]);
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(page.headers["vary"], "accept");
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.contains("form-action 'self'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        let page = text(&page.body);
        assert!(page.contains("<form method=\"post\">") && page.contains("<button>"), "{page}");
        assert!(page.contains("name=\"List-Unsubscribe\" value=\"One-Click\""), "{page}");
        for secret in ["bob", "Night shift", "example.com"] {
            assert!(!page.contains(secret), "{page}");
        }
        let own = format!("http://{}", world.address());
        let done = world.rest().send_form(&link, &[BROWSER, ("origin", &own)], ONE_CLICK);
        assert_eq!(
            (done.status, &done.headers["content-type"]),
            (200, &"text/html; charset=utf-8".parse().unwrap())
        );
        let done = text(&done.body);
        assert!(done.contains("<h1>You are unsubscribed</h1>") && done.contains("/ui/"), "{done}");
        assert_eq!(mode(world, &token), "off");
    });
}

/// Mail providers send no cookie; the rest of their request varies.
#[test]
fn a_post_counts_whoever_sends_it_and_whatever_its_body_is() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "immediate");
        let link = link(world);
        let multipart =
            "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--b--\r\n";
        let long = "x".repeat(100_000);
        let form = ("content-type", "application/x-www-form-urlencoded");
        let table: &[(&[(&str, &str)], &str)] = &[
            (&[form], ONE_CLICK),
            (&[form], "list-unsubscribe=one-click&utm_source=mail"),
            (&[form], ""),
            (&[form], "%"),
            (&[form], &long),
            (&[("content-type", "application/x-www-form-urlencoded; charset=UTF-8")], ONE_CLICK),
            (&[("content-type", "multipart/form-data; boundary=b")], multipart),
            (&[("content-type", "text/plain")], ONE_CLICK),
            (&[("content-type", "application/json")], "{\"List-Unsubscribe\": [1, {}]}"),
            (&[("content-type", "application/json")], "not JSON"),
            (&[("content-type", "nonsense")], "\u{0}"),
            (&[form, ("origin", "null")], ONE_CLICK),
            (&[form, ("origin", "https://mail.example")], ONE_CLICK),
            (&[form, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], ONE_CLICK),
            (&[form, ("host", "svc.example.com")], ONE_CLICK),
            (&[form, ("cookie", "svc_session=x; other=y")], ONE_CLICK),
            (&[form, ("authorization", "Bearer svc_unknown")], ONE_CLICK),
            (&[form, ("idempotency-key", "k")], ONE_CLICK),
            (&[form, ("accept", "nonsense")], ONE_CLICK),
            (&[form, ("user-agent", "")], ONE_CLICK),
        ];
        for (headers, body) in table {
            set(world, &token, "bob@example.com", "immediate");
            let answer = world.rest().post_bytes(&link, headers, body);
            assert_eq!(answer.status, 200, "{headers:?} {:.80}: {:#}", body, answer.body);
            assert_eq!(mode(world, &token), "off", "{headers:?} {body:.80}");
        }
        set(world, &token, "bob@example.com", "immediate");
        let tracked = format!("{link}?utm_source=mail&link=other");
        one_click(world, &tracked).output();
        assert_eq!(mode(world, &token), "off");
    });
}

#[test]
fn a_wrong_link_and_one_to_an_address_that_was_replaced_are_the_same() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "immediate");
        let (_, carol) = world.new_agent("carol");
        confirm(world, &carol, "carol@example.com", "immediate");
        let old = link(world);
        confirm(world, &token, "robert@example.com", "immediate");
        let new = link(world);
        assert_ne!(old, new);
        let rows = audited(world);
        let refused = |link: &str| {
            let problem = one_click(world, link).refused(404, "not-found");
            open(world, "GET", link, &[]).refused(404, "not-found");
            let page = open(world, "GET", link, &[BROWSER]);
            assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
            let said = world.rest().send_form(link, &[BROWSER], ONE_CLICK);
            assert_eq!((page.status, said.status, &page.body), (404, 404, &said.body));
            (problem, text(&page.body))
        };
        let first = refused(&old);
        assert!(first.1.contains("notification preferences") && !first.1.contains("<form"), "{}", first.1);
        let folder = "/ui/unsubscribe/";
        let last = new.strip_prefix(folder).unwrap();
        let unknown = format!("{}{}", "A".repeat(22), &last[22..]);
        for wrong in
            ["x", "-", "%25", "a.b", &unknown, &last[1..], &last[..last.len() - 1], &format!("{last}A")]
        {
            assert_eq!(refused(&format!("{folder}{wrong}")), first, "{wrong}");
        }
        assert_eq!((mode(world, &token), mode(world, &carol)), (json!("immediate"), json!("immediate")));
        assert_eq!(audited(world), rows);
        confirm(world, &token, "bob@example.com", "immediate");
        one_click(world, &old).output();
        assert_eq!(mode(world, &token), "off", "the address is the member's again");
    });
}

#[test]
fn the_link_works_for_a_member_that_is_frozen_and_on_every_server() {
    on_both_engines(|world| {
        let (bob_id, token) = bob(world, "immediate");
        let link = link(world);
        world.admin("freeze_member", json!({"member_id": bob_id}));
        let again = json!({"address": "bob@example.com", "mode": "off"});
        world.call(&token, "set_delivery_address", again).refused(403, "member-frozen");
        open(world, "GET", &link, &[]).output();
        one_click(world, &link).output();
        assert_eq!(mode(world, &token), "off");
        assert_state(&world.database.address());
    });
}

#[test]
fn requests_with_a_link_are_limited_as_those_of_other_strangers_are() {
    for engine in svc_tests::database::engines() {
        let rates = RateSettings { per_client: 3, ..RateSettings::default() };
        let world = World::with(engine, Setup { rates, ..Setup::default() });
        let found = [0; 5].map(|_| one_click(&world, "/ui/unsubscribe/x").status);
        assert_eq!(found, [404, 404, 404, 429, 429]);
        let page = open(&world, "GET", "/ui/unsubscribe/x", &[BROWSER]);
        assert_eq!(
            (page.status, &page.headers["content-type"]),
            (429, &"text/html; charset=utf-8".parse().unwrap())
        );
    }
}
