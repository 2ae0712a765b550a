//! The browser's part of a sign-in: its cookies, the returned state, and its redirects.

use std::time::Duration;

use http::header::SET_COOKIE;
use serde_json::json;
use svc_core::limits::OIDC_LOGINS_MAX;
use svc_http::HttpSettings;
use svc_tests::provider::pairs;
use svc_tests::{Setup, in_parallel, on_both_engines};

use super::{
    BACK, BegunSignIn, LOGIN, ask, begin, come, cookie_of, count, get, left, location, mock, on_both,
    open_to_all, session,
};

/// Returns a world with the mock, where no new member is created.
fn mock_for_members() -> Setup {
    Setup { http: mock(), ..Setup::default() }
}

#[test]
fn the_cookies_are_as_a_browser_needs_them() {
    for secure in [false, true] {
        let http = HttpSettings { cookie_secure: secure, ..mock() };
        on_both(
            || Setup { http: http.clone(), ..open_to_all() },
            |world| {
                let answer =
                    get(world, &format!("{LOGIN}?workspace_id={}&sub=1", world.id("workspace")), None);
                let cookie = answer.headers[SET_COOKIE].to_str().unwrap();
                for part in ["; HttpOnly", "; SameSite=Lax", "; Max-Age=600;"] {
                    assert!(cookie.contains(part), "{part}: {cookie}");
                }
                assert!(!cookie.contains("Path="), "it is of the folder, as the browser sees that");
                assert_eq!(cookie.contains("; Secure"), secure);
                assert_eq!(
                    (&answer.headers["cache-control"], &answer.headers["referrer-policy"]),
                    (&"no-store".parse().unwrap(), &"no-referrer".parse().unwrap(),)
                );
                let begun = BegunSignIn {
                    sent_to: location(&answer),
                    cookie: cookie_of(&answer, "svc_oidc").unwrap(),
                };
                let back = get(world, &begun.sent_to, Some(&begun.cookie));
                assert_eq!(cookie_of(&back, "svc_oidc").as_deref(), Some("svc_oidc="), "it ends");
                assert!(cookie_of(&back, "svc_session").is_some());
            },
        );
    }
}

#[test]
fn a_state_counts_once_in_its_own_browser_and_for_ten_minutes() {
    on_both(open_to_all, |world| {
        let before = left(world);
        let one = begin(world, "&sub=1");
        let two = begin(world, "&sub=2");
        let state = pairs(one.sent_to.split_once('?').unwrap().1)["state"].clone();
        let unknown = one.sent_to.replace(&state, &"0".repeat(state.len()));
        let both = format!("{}; {}", one.cookie, two.cookie);
        for (how, target, cookie) in [
            ("without the cookie", &one.sent_to, None),
            ("with that of another sign-in", &one.sent_to, Some(&two.cookie)),
            ("with two", &one.sent_to, Some(&both)),
            ("with a state of nobody", &unknown, Some(&one.cookie)),
            ("with the browser's secret in the query", &format!("{}&browser=x", one.sent_to), None),
        ] {
            let refusal = get(world, target, cookie.map(String::as_str));
            assert_eq!((refusal.status, refusal.code()), (401, "unauthenticated"), "{how}");
        }
        let query = one.cookie.replace("svc_oidc=", "&browser=");
        get(world, &format!("{}{query}", one.sent_to), None).refused(401, "unauthenticated");
        assert_eq!(left(world), before);
        assert!(get(world, &one.sent_to, Some(&one.cookie)).status == 303, "a control: nothing was used up");
        get(world, &one.sent_to, Some(&one.cookie)).refused(401, "unauthenticated");

        let [late, in_time] = [begin(world, "&sub=3"), begin(world, "&sub=4")];
        world.clock.advance(Duration::from_secs(599));
        assert_eq!(get(world, &in_time.sent_to, Some(&in_time.cookie)).status, 303);
        world.clock.advance(Duration::from_secs(1));
        get(world, &late.sent_to, Some(&late.cookie)).refused(401, "unauthenticated");
    });
}

#[test]
fn only_get_begins_or_ends_a_sign_in() {
    on_both(open_to_all, |world| {
        let head = |target: &str, cookie: &str| {
            let answer = world.rest().send(None, "HEAD", target, &[("cookie", cookie)], None);
            assert_eq!((answer.status, &answer.headers["allow"]), (405, &"GET, OPTIONS".parse().unwrap()));
        };
        head(&format!("{LOGIN}?workspace_id={}&sub=1", world.id("workspace")), "x=y");
        assert_eq!(count(world, "oidc_logins"), 0);
        let begun = begin(world, "&sub=1");
        head(&begun.sent_to, &begun.cookie);
        assert_eq!((count(world, "oidc_logins"), count(world, "sessions")), (1, 0));
        assert_eq!(get(world, &begun.sent_to, Some(&begun.cookie)).status, 303, "a control");
    });
}

/// Anyone can begin one, as often as the rate limit permits.
#[test]
fn a_sign_in_that_begins_leaves_no_audit_row_and_makes_room_for_itself() {
    on_both(open_to_all, |world| {
        let rows = || count(world, "audit");
        let before = rows();
        let first = begin(world, "&sub=1");
        assert_eq!((rows(), count(world, "oidc_logins")), (before, 1));
        let workspace = world.database.id(world.id("workspace"));
        let hash = world.database.any_bytes();
        let end = world.clock.now().plus(Duration::from_secs(300)).micros();
        world.database.insert_many(
            OIDC_LOGINS_MAX + 5,
            &format!(
                "insert into oidc_logins (state_hash, workspace_id, browser_hash, return_to, expires_at)
                 select {hash}, {workspace}, {hash}, '/ui/', {end} + i from n"
            ),
        );
        let last = begin(world, "&sub=2");
        assert_eq!(count(world, "oidc_logins"), OIDC_LOGINS_MAX);
        for begun in [first, last] {
            assert_eq!(get(world, &begun.sent_to, Some(&begun.cookie)).status, 303, "the oldest went");
        }
        assert!(rows() > before, "a control: a sign-in that was finished is recorded");
    });
}

#[test]
fn of_two_that_bring_the_same_state_at_once_one_wins() {
    on_both(open_to_all, |world| {
        let begun = begin(world, "&sub=1");
        let outcomes = in_parallel(4, |_| get(world, &begun.sent_to, Some(&begun.cookie)).status);
        let won = outcomes.iter().filter(|status| **status == 303).count();
        assert!(won == 1 && outcomes.iter().all(|status| [303, 401].contains(status)), "{outcomes:?}");
        assert_eq!((count(world, "sessions"), count(world, "oidc_identities")), (1, 1));
    });
}

#[test]
fn whatever_the_provider_says_the_state_is_used_up() {
    on_both(open_to_all, |world| {
        for more in ["&error=access_denied", "&code=junk"] {
            let begun = begin(world, "&sub=1");
            let state = pairs(begun.sent_to.split_once('?').unwrap().1)["state"].clone();
            let answer =
                get(world, &format!("{BACK}?state={state}{more}&session_state=x"), Some(&begun.cookie));
            answer.refused(401, "unauthenticated");
            get(world, &begun.sent_to, Some(&begun.cookie)).refused(401, "unauthenticated");
        }
        for query in ["", "?code=1", "?state=", "?state=a&state=b"] {
            get(world, &format!("{BACK}{query}"), Some("svc_oidc=x")).refused(400, "malformed-request");
        }
    });
}

#[test]
fn a_browser_is_sent_nowhere_but_to_the_board() {
    on_both(open_to_all, |world| {
        let login = |return_to: &str| {
            let workspace = world.id("workspace");
            get(world, &format!("{LOGIN}?workspace_id={workspace}&sub=1&return_to={return_to}"), None)
        };
        for bad in
            ["https://evil.example/ui/", "//evil.example", "/%5Cevil.example", "/ui/%2e%2e/me", "/me", ""]
        {
            login(bad).refused(400, "malformed-request");
        }
        assert_eq!(count(world, "oidc_logins"), 0);
        assert_eq!(location(&come(world, "&sub=1")), "/ui/");
        get(world, &format!("{LOGIN}?workspace_id={}&sub=1", world.id("agent")), None)
            .refused(404, "not-found");
        get(world, &format!("{LOGIN}?workspace_id={}", world.id("workspace")), None)
            .refused(400, "malformed-request");
    });
}

#[test]
fn a_person_reads_what_is_refused_on_a_page_that_leads_to_the_board() {
    on_both(mock_for_members, |world| {
        let page = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
        let open = |target: &str, cookie: Option<&str>| {
            let cookie = cookie.map(|cookie| ("cookie", cookie));
            let headers: Vec<_> = page.into_iter().chain(cookie).collect();
            world.rest().send(None, "GET", target, &headers, None)
        };
        let begun = begin(world, "&sub=1");
        for (target, cookie, status, says) in [
            (&*begun.sent_to, Some(&*begun.cookie), 403, "you are no member of the workspace"),
            (&*begun.sent_to, Some(&*begun.cookie), 401, "begin again"),
            (LOGIN, None, 400, "`sub`"),
        ] {
            let answer = open(target, cookie);
            let body = answer.body.as_str().unwrap_or_default();
            assert_eq!(answer.status, status, "{body}");
            assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/html"), "{body}");
            assert!(body.contains(says) && body.contains("href=\"../../ui/\""), "{body}");
            assert!(
                answer.headers["content-security-policy"].to_str().unwrap().contains("default-src 'none'")
            );
        }
    });
}

#[test]
fn a_browser_that_names_no_workspace_signs_in_to_the_only_one() {
    on_both(open_to_all, |world| {
        let login = || get(world, &format!("{LOGIN}?sub=1"), None);
        login().refused(400, "malformed-request");
        assert_eq!(count(world, "oidc_logins"), 0);
        let first = world.database.id(world.id("workspace"));
        world.database.execute(&format!("update workspaces set state = 'hidden' where id <> {first}"));
        let begun = login();
        let cookie = cookie_of(&begun, "svc_oidc").unwrap();
        let back = get(world, &location(&begun), Some(&cookie));
        assert_eq!(session(world, &back)["workspace_id"], json!(world.id("workspace")));
        let ways = get(world, "/auth/session", None).refused(401, "unauthenticated");
        assert_eq!(ways["sign_in"], json!({"token": true, "oidc": true}));
    });
}

#[test]
fn without_a_provider_the_routes_do_not_exist() {
    on_both_engines(|world| {
        let login = json!({"workspace_id": world.id("workspace")});
        ask(world, "begin_oidc_login", &login, "").refused(404, "unknown-route");
        ask(world, "finish_oidc_login", &json!({"state": "1"}), "").refused(404, "unknown-route");
    });
}

#[test]
fn no_secret_of_a_login_is_stored_or_recorded() {
    on_both(open_to_all, |world| {
        let begun = begin(world, "&sub=1");
        let query = pairs(begun.sent_to.split_once('?').unwrap().1);
        let browser = begun.cookie.strip_prefix("svc_oidc=").unwrap();
        let rows = |table: &str| format!("{:?}", world.database.rows(&format!("select * from {table}")));
        assert_eq!(count(world, "oidc_logins"), 1);
        let stored = rows("oidc_logins");
        assert_eq!(get(world, &begun.sent_to, Some(&begun.cookie)).status, 303);
        assert_eq!(count(world, "oidc_logins"), 0);
        let recorded = ["audit", "events", "sessions", "oidc_identities"].map(rows).concat();
        for (name, secret) in [("state", &*query["state"]), ("browser", browser), ("code", &*query["code"])] {
            assert!(!stored.contains(secret) && !recorded.contains(secret), "{name}");
        }
    });
}

#[test]
fn a_login_is_removed_a_day_after_its_end() {
    on_both(open_to_all, |world| {
        begin(world, "&sub=1");
        world.pass(Duration::from_secs(600 + 86_400 - 1));
        assert_eq!(count(world, "oidc_logins"), 1);
        world.pass(Duration::from_secs(1));
        assert_eq!(count(world, "oidc_logins"), 0);
    });
}
