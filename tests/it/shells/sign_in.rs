//! Signing in and out over HTTP: the responses of the routes, and the requests that may use a cookie.

use http::header::{COOKIE, SET_COOKIE};
use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::client::ws::{Received, Ws, first_frame};
use svc_tests::{World, on_both_engines, text};

const FROM_TOKEN: &str = "/auth/session/from-token";

/// A browser of a world's server, with the headers of each request.
struct Browser<'w> {
    world: &'w World,
    cookie: String,
}

impl<'w> Browser<'w> {
    /// Signs in with a token.
    fn sign_in(world: &'w World, token: &str) -> Self {
        let answer = post(world, FROM_TOKEN, &[], &json!({"token": token}));
        assert_eq!(answer.status, 200, "{:#}", answer.body);
        let cookie = answer.headers[SET_COOKIE].to_str().unwrap();
        Self { world, cookie: cookie.split(';').next().unwrap().to_owned() }
    }

    fn get(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let cookie = [(COOKIE.as_str(), self.cookie.as_str())];
        self.world.rest().send(None, "GET", path, &[&cookie, headers].concat(), None)
    }

    fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let cookie = [(COOKIE.as_str(), self.cookie.as_str())];
        post(self.world, path, &[&cookie, headers].concat(), body)
    }
}

fn post(world: &World, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    world.rest().send(None, "POST", path, headers, Some(body))
}

#[test]
fn a_browser_signs_in_with_a_token_reads_its_session_and_signs_out() {
    on_both_engines(|world| {
        let answer = post(world, FROM_TOKEN, &[], &json!({"token": world.people.agent}));
        let cookie = answer.headers[SET_COOKIE].to_str().unwrap();
        for part in ["svc_session=v1.", "; Path=/", "; HttpOnly", "; SameSite=Lax", "; Max-Age=28800"] {
            assert!(cookie.contains(part), "{part}: {cookie}");
        }
        assert!(!cookie.contains("Secure") && !answer.body.to_string().contains(&world.people.agent));
        let browser = Browser::sign_in(world, &world.people.agent);
        let session = browser.get("/auth/session", &[]).output();
        assert_eq!(session["member_id"], json!(world.id("agent")));
        let me = browser.get("/me", &[]).output();
        assert_eq!((&me["member_id"], &me["token_id"]), (&session["member_id"], &json!(null)));
        let out = browser.post("/auth/logout", &[], &json!({}));
        assert!(out.headers[SET_COOKIE].to_str().unwrap().starts_with("svc_session=; Path=/; Max-Age=0"));
        assert_eq!(out.output()["session_ids"], json!([session["session_id"]]));
        for path in ["/auth/session", "/me"] {
            browser.get(path, &[]).refused(401, "unauthenticated");
        }
        let actions = |action: &str| {
            let input = json!({"workspace_id": world.id("workspace"), "action": action});
            world.admin("list_audit", input)["items"].as_array().unwrap().len()
        };
        assert_eq!((actions("session.create"), actions("session.delete")), (2, 1));
    });
}

#[test]
fn a_cookie_that_is_worth_nothing_any_more_is_removed_by_signing_out() {
    on_both_engines(|world| {
        let removes = |answer: &Answer| {
            let cookie = answer.headers.get(SET_COOKIE).map(|cookie| cookie.to_str().unwrap());
            cookie.is_some_and(|cookie| cookie.starts_with("svc_session=; Path=/; Max-Age=0"))
        };
        let ended = Browser::sign_in(world, &world.people.agent);
        ended.post("/auth/logout", &[], &json!({})).output();
        let again = ended.post("/auth/logout", &[], &json!({}));
        assert!(again.status == 401 && removes(&again), "{again:?}");
        let foreign = ended.post("/auth/logout", &[("sec-fetch-site", "cross-site")], &json!({}));
        assert!(foreign.status == 401 && !removes(&foreign), "another page removes nothing");
        assert!(!removes(&ended.get("/auth/session", &[])), "only signing out does");

        // The cookies of two sessions are ignored, and block no request that needs no credential.
        let [one, two] = [0; 2].map(|_| Browser::sign_in(world, &world.people.agent));
        let both = Browser { world, cookie: format!("{}; {}", one.cookie, two.cookie) };
        both.get("/me", &[]).refused(401, "unauthenticated");
        let bearer = format!("Bearer {}", world.people.admin);
        assert_eq!(both.get("/me", &[("authorization", &bearer)]).status, 200);
        assert_eq!(both.get("/openapi.json", &[]).status, 200);
        let out = both.post("/auth/logout", &[], &json!({}));
        assert!(out.status == 401 && removes(&out), "{out:?}");
        assert!(both.post(FROM_TOKEN, &[], &json!({"token": world.people.agent})).is_success());
        assert_eq!(two.get("/me", &[]).status, 200, "neither has ended");
    });
}

#[test]
fn signing_out_everywhere_ends_every_session_of_the_member_and_no_other() {
    on_both_engines(|world| {
        let [one, two] = [0; 2].map(|_| Browser::sign_in(world, &world.people.agent));
        let other = Browser::sign_in(world, &world.people.admin);
        let ended = one.post("/auth/logout", &[], &json!({"everywhere": true})).output();
        assert_eq!(ended["session_ids"].as_array().unwrap().len(), 2);
        one.get("/me", &[]).refused(401, "unauthenticated");
        two.get("/me", &[]).refused(401, "unauthenticated");
        assert!(other.get("/me", &[]).is_success());
    });
}

#[test]
fn only_a_live_token_signs_in_and_only_from_a_page_of_this_service() {
    on_both_engines(|world| {
        for token in ["", "svc_unknown", &world.people.revoked] {
            assert_eq!(post(world, FROM_TOKEN, &[], &json!({"token": token})).status, 401, "{token}");
        }
        let body = json!({"token": world.people.agent});
        for headers in [[("sec-fetch-site", "cross-site")], [("origin", "http://localhost:1")]] {
            post(world, FROM_TOKEN, &headers, &body).refused(403, "forbidden");
        }
        let browser = Browser::sign_in(world, &world.people.agent);
        assert!(browser.post(FROM_TOKEN, &[], &body).is_success(), "whatever cookie it has");
        browser
            .post(FROM_TOKEN, &[], &json!({"token": "svc_1", "more": 1}))
            .refused(400, "malformed-request");
    });
}

#[test]
fn a_cookie_counts_only_with_its_signature_and_from_the_same_origin() {
    on_both_engines(|world| {
        let browser = Browser::sign_in(world, &world.people.agent);
        let id = text(&browser.get("/auth/session", &[]).output()["session_id"]);
        let tampered = browser.cookie.replace(&id, &world.id("agent").to_string());
        for cookie in [format!("svc_session={id}"), tampered, "svc_session=".to_owned()] {
            let other = Browser { world, cookie: cookie.clone() };
            assert_eq!(other.get("/me", &[]).status, 401, "{cookie}");
        }
        let channel = json!({"name": "by-a-page"});
        let path = format!("/workspaces/{}/channels", world.id("workspace"));
        for foreign in [("origin", "http://localhost:3000"), ("sec-fetch-site", "same-site")] {
            browser.get("/me", &[foreign]).refused(401, "unauthenticated");
            browser.post(&path, &[foreign], &channel).refused(401, "unauthenticated");
        }
        assert!(browser.post(&path, &[("sec-fetch-site", "same-origin")], &channel).is_success());
    });
}

#[test]
fn a_bearer_token_is_no_session() {
    on_both_engines(|world| {
        let bearer = format!("Bearer {}", world.people.agent);
        let bearer = [("authorization", bearer.as_str())];
        let alone = world.rest().send(None, "GET", "/auth/session", &bearer, None);
        alone.refused(401, "unauthenticated");
        let browser = Browser::sign_in(world, &world.people.agent);
        browser.get("/auth/session", &bearer).refused(401, "unauthenticated");
        assert_eq!(browser.get("/me", &bearer).output()["token_id"], json!(world.id("agent_token")));
    });
}

#[test]
fn who_has_no_session_is_told_how_to_sign_in() {
    on_both_engines(|world| {
        let ask = |headers: &[(&str, &str)]| {
            let answer = world.rest().send(None, "GET", "/auth/session", headers, None);
            answer.refused(401, "unauthenticated")["sign_in"].clone()
        };
        for headers in [&[][..], &[("cookie", "svc_session=v1.x")], &[("sec-fetch-site", "cross-site")]] {
            assert_eq!(ask(headers), json!({"token": true, "oidc": false}), "{headers:?}");
        }
        let out = post(world, "/auth/logout", &[], &json!({})).refused(401, "unauthenticated");
        assert!(out.get("sign_in").is_none(), "{out:#}");
    });
}

#[test]
fn mcp_takes_no_cookie() {
    on_both_engines(|world| {
        let browser = Browser::sign_in(world, &world.people.agent);
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        assert_eq!(browser.post("/mcp", &[], &call).status, 401);
    });
}

#[test]
fn a_websocket_takes_the_cookie_of_its_own_origin_in_place_of_a_token() {
    on_both_engines(|world| {
        let browser = Browser::sign_in(world, &world.people.agent);
        let first = json!({"filter": {"workspace_id": world.id("workspace")}});
        let own = format!("http://{}", world.address());
        let open = |headers: &[(&str, &str)]| {
            let cookie = [(COOKIE.as_str(), browser.cookie.as_str())];
            Ws::subscribe_with(world.address(), &[&cookie, headers].concat(), &first)
        };
        for foreign in [
            ("origin", "http://localhost:1"),
            ("origin", "https://evil.example"),
            ("origin", "null"),
            ("sec-fetch-site", "same-site"),
        ] {
            assert_eq!(open(&[foreign]).receive(), Received::Closed(1008), "{foreign:?}");
        }
        let with_token = first_frame(&world.people.agent, world.id("workspace"), None);
        let evil = [(COOKIE.as_str(), browser.cookie.as_str()), ("origin", "https://evil.example")];
        let mut ws = Ws::subscribe_with(world.address(), &evil, &with_token);
        assert_eq!(ws.receive(), Received::Closed(1008), "a page of another site, with a token too");
        let beside = |token: &str| {
            let headers = [(COOKIE.as_str(), browser.cookie.as_str()), ("origin", &own)];
            let first = first_frame(token, world.id("workspace"), None);
            Ws::subscribe_with(world.address(), &headers, &first).receive()
        };
        assert_eq!(beside(&world.people.admin), Received::Closed(1008), "of another member");
        assert!(matches!(beside(&world.people.agent), Received::Frame(_)));
        let mut ws = open(&[("origin", &own)]);
        assert_eq!(ws.frame()["type"], "subscribe_ack");
        browser.post("/auth/logout", &[], &json!({})).output();
        world.admin("post_message", json!({"thread_id": world.id("thread"), "body": "not for you"}));
        assert_eq!(ws.receive(), Received::Closed(1008));
    });
}
