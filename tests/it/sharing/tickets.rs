//! Share tickets: their contents, their issuers, and their end.

use std::collections::BTreeSet;
use std::time::Duration;

use http::HeaderMap;
use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::op::{Credential, Request, Surface};
use svc_core::{RateSettings, Service};
use svc_tests::client::Answer;
use svc_tests::client::ws::{Received, Ws, first_frame};
use svc_tests::database::engines;
use svc_tests::{Setup, World, on_both_engines, session_key, text};

/// Returns the routes that a ticket opens, for a thread.
fn routes(thread: &str) -> [String; 4] {
    [
        "/share/manifest".to_owned(),
        "/share/threads".to_owned(),
        format!("/share/threads/{thread}/messages"),
        format!("/share/artifacts/{}", "0".repeat(64)),
    ]
}

fn input(world: &World, channel: &str) -> Value {
    json!({"workspace_id": world.id("workspace"), "channel_id": channel, "expires_in_secs": 3600})
}

/// Issues a ticket for a channel as the bearer of `token`.
fn issued(world: &World, token: &str, channel: &str) -> Value {
    world.call(token, "create_share_ticket", input(world, channel)).output()
}

/// Issues a ticket for a channel as the admin, and returns its secret.
fn secret(world: &World, channel: &str) -> String {
    text(&issued(world, &world.people.admin, channel)["secret"])
}

fn get(world: &World, secret: &str, route: &str) -> Answer {
    let authorization = format!("ShareTicket {secret}");
    world.rest().send(None, "GET", route, &[("authorization", &authorization)], None)
}

/// Returns everything that a route shows, page by page.
fn all(world: &World, secret: &str, route: &str, limit: usize) -> Vec<Value> {
    let mut found = Vec::new();
    let mut query = format!("?limit={limit}");
    loop {
        let page = get(world, secret, &format!("{route}{query}")).output();
        let items = page["items"].as_array().unwrap();
        assert!(items.len() <= limit);
        found.extend(items.iter().cloned());
        match page["next_cursor"].as_str() {
            Some(cursor) => query = format!("?limit={limit}&cursor={cursor}"),
            None => return found,
        }
    }
}

fn fields(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn titles(threads: &[Value]) -> Vec<String> {
    threads.iter().map(|thread| text(&thread["title"])).collect()
}

fn post(world: &World, thread: &str, body: &str, metadata: Value) -> String {
    let message = json!({"thread_id": thread, "body": body, "metadata": metadata});
    text(&world.agent("post_message", message)["id"])
}

/// The shown fields are a separate list: a field that is added to threads or messages is not shown.
///
/// A ticket leaves the team. Its readers must not see who works on a thread, until when and how the work is
/// steered, nor other channels.
#[test]
fn a_ticket_shows_the_live_part_of_one_channel_and_no_other_field() {
    on_both_engines(|world| {
        let channel = world.new_private_channel("release");
        let agent = world.id("agent").to_string();
        world.admin("add_channel_member", json!({"channel_id": channel, "member_id": agent}));
        let thread = world.new_thread(&channel, "Cut the release");
        let sha = "ab".repeat(32);
        let kept = post(world, &thread, "It is cut.", json!({"artifacts": [sha], "secret": "not for you"}));
        let withdrawn = post(world, &thread, "said too soon", json!({}));
        world.agent("delete_message", json!({"message_id": withdrawn}));
        let claim = world.agent("claim_thread", json!({"thread_id": thread}));
        let done = world.new_thread(&channel, "Tag it");
        world.agent("claim_thread", json!({"thread_id": done}));
        let result = json!({"thread_id": done, "result": {"tag": "v1"}});
        world.agent("set_thread_result", result);
        let cancelled = world.new_thread(&channel, "Announce it");
        world.admin("cancel_thread", json!({"thread_id": cancelled, "reason": "nobody would read it"}));
        let archived = world.new_thread(&channel, "Old");
        world.admin("cancel_thread", json!({"thread_id": archived, "reason": "done"}));
        world.admin("transition_thread", json!({"thread_id": archived, "action": "archive"}));

        let ticket = issued(world, &world.people.admin, &channel);
        let secret = text(&ticket["secret"]);
        let manifest = get(world, &secret, "/share/manifest").output();
        assert_eq!(fields(&manifest), ["artifacts", "channel", "expires_at", "id", "owner"].into());
        assert_eq!((&manifest["id"], &manifest["expires_at"]), (&ticket["id"], &ticket["expires_at"]));
        assert_eq!(manifest["channel"], json!({"id": channel, "name": "release", "topic": null}));
        assert_eq!(fields(&manifest["owner"]), ["id", "kind", "name"].into());
        assert_eq!((&manifest["owner"]["id"], &manifest["artifacts"]), (&ticket["owner_id"], &json!([])));

        for limit in [1, 2, 100] {
            let threads = all(world, &secret, "/share/threads", limit);
            assert_eq!(titles(&threads), ["Cut the release", "Tag it", "Announce it"], "{limit}");
            let wanted = ["created_at", "created_by", "id", "result", "state", "title"].into();
            threads.iter().for_each(|thread| assert_eq!(fields(thread), wanted));
            assert_eq!((&threads[0]["result"], &threads[1]["result"]), (&json!(null), &json!({"tag": "v1"})));
            let words = json!(threads).to_string();
            assert!(!words.contains(&agent) && !words.contains(&text(&claim["claim_lease_id"])));
        }

        let of = |thread: &str| format!("/share/threads/{thread}/messages");
        for limit in [1, 100] {
            let messages = all(world, &secret, &of(&thread), limit);
            assert_eq!(messages.len(), 1, "{messages:#?}");
            let wanted = ["artifacts", "author", "body", "edited_at", "id", "posted_at", "unreadable"].into();
            assert_eq!(fields(&messages[0]), wanted);
            assert_eq!((&messages[0]["id"], &messages[0]["body"]), (&json!(kept), &json!("It is cut.")));
            assert_eq!(
                (&messages[0]["author"]["id"], &messages[0]["artifacts"]),
                (&json!(agent), &json!([]))
            );
        }
        let said = world.admin("list_messages", json!({"thread_id": cancelled}));
        assert_eq!(said["items"][0]["metadata"]["notice"], "cancelled", "members read the notice");
        let shown = all(world, &secret, &of(&cancelled), 50);
        assert!(shown.is_empty(), "{shown:#?}");

        get(world, &secret, &of(&archived)).refused(404, "not-found");
        let elsewhere = world.id("thread").to_string();
        get(world, &secret, &of(&elsewhere)).refused(404, "not-found");
        get(world, &secret, &of(&world.people.private_thread_id)).refused(404, "not-found");
        get(world, &secret, &format!("/share/artifacts/{sha}")).refused(404, "not-found");
        for (route, query) in
            [("/share/threads", "limit=101"), ("/share/threads", "limit=0"), ("/share/manifest", "x=1")]
        {
            get(world, &secret, &format!("{route}?{query}")).refused(400, "malformed-request");
        }
        get(world, &secret, "/share/artifacts/short").refused(400, "malformed-request");
        assert_eq!(get(world, &secret, "/share/threads/x/messages").status, 400);
    });
}

/// Returns the headers of a response that do not change with the time.
fn lasting(answer: &Answer) -> HeaderMap {
    let mut headers = answer.headers.clone();
    headers.remove("date");
    headers
}

/// Every response is private to its reader, and reveals nothing of the workspace's traffic.
///
/// A cache on the way would serve the channel to the next reader, and the position of the log, or the
/// remaining requests of a limit, would show an outsider when the team works.
#[test]
fn every_response_is_private_and_tells_nothing_of_the_traffic() {
    let rates = RateSettings { per_client: 50, per_workspace: 100, window: Duration::from_secs(60) };
    for engine in engines() {
        let world = World::with(engine, Setup { rates, ..Setup::default() });
        let channel = world.id("channel").to_string();
        let live = secret(&world, &channel);
        for secret in [&*live, "svc_share_unknown"] {
            for route in routes(&world.id("thread").to_string()) {
                for route in [route.clone(), format!("{route}?limit=0")] {
                    let answer = get(&world, secret, &route);
                    let header = |name| answer.headers.get(name).map(|value| value.to_str().unwrap());
                    assert_eq!(header("cache-control"), Some("no-store"), "{route}");
                    assert_eq!(header("referrer-policy"), Some("no-referrer"), "{route}");
                    assert_eq!(header("vary"), Some("Authorization"), "{route}");
                    for absent in ["svc-room-lsn", "ratelimit", "ratelimit-policy"] {
                        assert_eq!(header(absent), None, "{route}");
                    }
                }
            }
        }
        let control = world.rest().send(Some(&world.people.admin), "GET", "/me", &[], None);
        assert!(control.lsn().is_some() && control.headers.contains_key("ratelimit"));
    }
}

/// A caller without a live ticket gets the same bytes at every route.
///
/// A caller that can distinguish a revoked secret from an unknown one learns that a ticket existed, and a
/// bearer would learn the position of the workspace's log.
#[test]
fn whoever_has_no_live_ticket_is_refused_by_the_same_bytes() {
    on_both_engines(|world| {
        let channel = world.id("channel").to_string();
        let private = world.new_private_channel("for a while");
        let revoked = issued(world, &world.people.admin, &channel);
        let expired = secret(world, &channel);
        let mine = secret(world, &channel);
        let used = secret(world, &channel);
        assert!(get(world, &text(&revoked["secret"]), "/share/manifest").is_success());
        let end = json!({"workspace_id": world.id("workspace"), "ticket_id": revoked["id"]});
        world.admin("revoke_share_ticket", end);
        assert!(get(world, &expired, "/share/manifest").is_success());
        world.pass(Duration::from_secs(3600));
        let unseen = secret(world, &private);
        assert!(get(world, &unseen, "/share/manifest").is_success());
        let admin = world.id("admin");
        world.admin("remove_channel_member", json!({"channel_id": private, "member_id": admin}));
        let deactivated = text(&issued(world, &world.people.bystander, &channel)["secret"]);
        let bystander = world.database.id(world.people.bystander_id.parse::<uuid::Uuid>().unwrap());
        world.database.execute(&format!("update members set deactivated_at = 1 where id = {bystander}"));

        let cookie = format!("svc_session={}", session_key().cookie(world.new_session(None)));
        let live = secret(world, &channel);
        let lower = format!("Bearer {live}");
        let admin = format!("Bearer {}", world.people.admin);
        let ticket = |secret: &str| format!("ShareTicket {secret}");
        let twice = || ("authorization", ticket(&live));
        let sent: [(&str, Vec<(&str, String)>); 16] = [
            ("nothing", vec![]),
            ("an unknown ticket", vec![("authorization", ticket("svc_share_unknown"))]),
            ("no secret", vec![("authorization", ticket(""))]),
            ("the scheme alone", vec![("authorization", "ShareTicket".to_owned())]),
            ("a token as a ticket", vec![("authorization", ticket(&world.people.admin))]),
            ("a revoked ticket", vec![("authorization", ticket(&text(&revoked["secret"])))]),
            ("an expired ticket", vec![("authorization", ticket(&expired))]),
            ("one that expired unused", vec![("authorization", ticket(&mine))]),
            ("another", vec![("authorization", ticket(&used))]),
            ("one whose owner sees the channel no more", vec![("authorization", ticket(&unseen))]),
            ("one whose owner is deactivated", vec![("authorization", ticket(&deactivated))]),
            ("a ticket as a bearer", vec![("authorization", lower)]),
            ("a live token", vec![("authorization", admin)]),
            ("a cookie", vec![("cookie", cookie)]),
            ("a live ticket twice", vec![twice(), twice()]),
            ("a live ticket beside a token", vec![twice(), ("authorization", "Bearer x".to_owned())]),
        ];
        let first = get(world, "svc_share_other", "/share/manifest");
        assert_eq!((first.status, first.code()), (401, "unauthenticated"));
        assert_eq!(first.headers["www-authenticate"], "ShareTicket");
        let recorded = world.lsn();
        for (who, headers) in &sent {
            let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
            for route in routes(&world.id("thread").to_string()) {
                let answer = world.rest().send(None, "GET", &route, &headers, None);
                assert_eq!((answer.status, &answer.body), (401, &first.body), "{who} at {route}");
                assert_eq!(lasting(&answer), lasting(&first), "{who} at {route}");
            }
        }
        assert_eq!(world.lsn(), recorded);
        assert!(get(world, &live, "/share/manifest").is_success(), "a control");
    });
}

#[test]
fn a_ticket_is_issued_for_what_the_issuer_sees_and_for_two_days_at_most() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let channel = world.id("channel").to_string();
        let now = world.clock.now();
        let latest = now.plus(Duration::from_secs(172_800));
        let later = now.plus(Duration::from_secs(172_801));
        let artifacts = |count: usize| -> Vec<String> { (0..count).map(|n| format!("{n:064x}")).collect() };
        let bystander = &*world.people.bystander;
        let admin = &*world.people.admin;
        let private = world.id("private_channel").to_string();
        for (who, fields, wanted) in [
            (admin, json!({"expires_at": latest}), (201, "")),
            (admin, json!({"expires_in_secs": 172_800, "artifact_shas": []}), (201, "")),
            (admin, json!({"expires_in_secs": 60, "channel_id": private}), (201, "")),
            (admin, json!({"expires_in_secs": 60, "channel_id": world.id("archived_channel")}), (201, "")),
            (admin, json!({"expires_at": later}), (400, "malformed-request")),
            (admin, json!({"expires_at": now}), (400, "malformed-request")),
            (admin, json!({"expires_in_secs": 172_801}), (400, "malformed-request")),
            (admin, json!({}), (400, "malformed-request")),
            (admin, json!({"expires_at": latest, "expires_in_secs": 60}), (400, "malformed-request")),
            (
                admin,
                json!({"expires_in_secs": 60, "artifact_shas": artifacts(101)}),
                (400, "malformed-request"),
            ),
            (admin, json!({"expires_in_secs": 60, "artifact_shas": ["AB"]}), (400, "malformed-request")),
            (admin, json!({"expires_in_secs": 60, "artifact_shas": artifacts(100)}), (404, "not-found")),
            (admin, json!({"expires_in_secs": 60, "artifact_shas": artifacts(1)}), (404, "not-found")),
            (admin, json!({"expires_in_secs": 60, "channel_id": world.id("thread")}), (404, "not-found")),
            (bystander, json!({"expires_in_secs": 60, "channel_id": private}), (404, "not-found")),
            (bystander, json!({"expires_in_secs": 60}), (201, "")),
        ] {
            let mut input = json!({"workspace_id": workspace, "channel_id": channel});
            input.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let before = world.lsn();
            let answer = world.call(who, "create_share_ticket", input);
            assert_eq!((answer.status, answer.code()), wanted, "{fields}: {:#}", answer.body);
            assert_eq!(world.lsn() - before, i64::from(wanted.0 == 201), "{fields}");
        }
    });
}

/// The secret is shown once and stored nowhere; a member who does not see the channel does not learn of the
/// ticket.
#[test]
fn a_ticket_is_listed_and_revoked_by_administrators_who_see_the_channel() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let private = world.id("private_channel").to_string();
        let ticket = issued(world, &world.people.admin, &private);
        let secret = text(&ticket["secret"]);
        assert!(secret.starts_with("svc_share_") && secret.len() == 53, "{secret}");
        assert_eq!(
            (&ticket["owner_id"], &ticket["creator"]),
            (&json!(world.id("admin")), &ticket["owner_id"])
        );
        let list = |token: &str| {
            let page = world.call(token, "list_share_tickets", json!({"workspace_id": workspace})).output();
            page["items"].as_array().unwrap().clone()
        };
        let find = |token: &str| list(token).into_iter().find(|listed| listed["id"] == ticket["id"]);
        let mut wanted = ticket.clone();
        wanted.as_object_mut().unwrap().remove("secret");
        assert_eq!(find(&world.people.admin), Some(wanted));
        assert_eq!(find(&world.people.bystander), None);
        assert!(list(&world.people.bystander).len() < list(&world.people.admin).len());

        let revoke = json!({"workspace_id": workspace, "ticket_id": ticket["id"]});
        let refused = world.call(&world.people.bystander, "revoke_share_ticket", revoke.clone());
        refused.refused(404, "not-found");
        let before = world.lsn();
        world.clock.advance(Duration::from_secs(5));
        let first = world.admin("revoke_share_ticket", revoke.clone());
        assert_eq!(world.kinds_after(before), ["ShareTicketRevoked"]);
        world.clock.advance(Duration::from_secs(5));
        assert_eq!(world.admin("revoke_share_ticket", revoke), first);
        assert_eq!(world.kinds_after(before).len(), 1, "nothing happens twice");
        assert_eq!(find(&world.people.admin).unwrap()["revoked_at"], first["revoked_at"]);

        let seen = |token: &str| {
            let events = json!({"workspace_id": workspace, "after_id": before - 1});
            let audit = json!({"workspace_id": workspace});
            let read = |operation, input| world.call(token, operation, input).output().to_string();
            read("list_events", events) + &read("list_audit", audit)
        };
        let by_admin = seen(&world.people.admin);
        let by_bystander = seen(&world.people.bystander);
        assert!(by_admin.contains("ShareTicketIssued") && !by_admin.contains(&secret));
        assert!(!by_bystander.contains("ShareTicketIssued") && !by_bystander.contains(&text(&ticket["id"])));
        let admin = json!({"workspace_id": workspace, "action": "mutation", "limit": 1});
        let row = world.admin("list_audit", admin)["items"][0].clone();
        assert_eq!(row["metadata"]["operation"], "revoke_share_ticket", "{row:#}");
    });
}

#[test]
fn a_revoked_ticket_stops_on_every_server_at_once() {
    on_both_engines(|world| {
        let other = world.another_service(7);
        let ticket = issued(world, &world.people.admin, &world.id("channel").to_string());
        let is_live = |service: &Service| {
            let secret = Credential::Ticket(SecretString::from(text(&ticket["secret"])));
            let request = Request::json(Surface::Share, secret, "{}");
            service.call(service.operation("get_share_manifest").unwrap(), request).is_ok()
        };
        assert!(is_live(&world.service) && is_live(&other));
        let end = json!({"workspace_id": world.id("workspace"), "ticket_id": ticket["id"]});
        world.admin("revoke_share_ticket", end);
        assert!(!is_live(&other) && !is_live(&world.service));
    });
}

/// The requests of a ticket's readers are counted separately from those of its issuer.
#[test]
fn a_ticket_is_a_client_of_its_own() {
    let rates = RateSettings { per_client: 3, per_workspace: 0, window: Duration::from_secs(60) };
    for engine in engines() {
        let world = World::with(engine, Setup { rates, ..Setup::default() });
        let channel = world.id("channel").to_string();
        let one = secret(&world, &channel);
        let other = secret(&world, &channel);
        for _ in 0..3 {
            assert!(get(&world, &one, "/share/manifest").is_success());
        }
        let limited = get(&world, &one, "/share/manifest");
        assert_eq!(limited.headers["referrer-policy"], "no-referrer");
        limited.refused(429, "rate-limited");
        assert!(get(&world, &other, "/share/manifest").is_success());
        assert!(world.call(&world.people.admin, "whoami", json!({})).is_success());
    }
}

/// An app is trusted as long as it is installed, not until its tickets expire.
#[test]
fn a_ticket_that_an_app_has_issued_ends_with_its_installation() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let app = json!({"workspace_id": workspace, "slug": "publisher", "name": "Publisher"});
        let app = world.admin("create_app", app);
        let granted = ["workspace:read", "token:admin"];
        let install =
            json!({"workspace_id": workspace, "app_id": app["id"], "granted_capabilities": granted});
        let installed = world.admin("install_app", install);
        let mint = json!({"workspace_id": workspace, "installation_id": installed["id"],
                          "label": "publishes", "capabilities": granted});
        let token = text(&world.admin("mint_app_token", mint)["secret"]);
        let secret = text(&issued(world, &token, &world.id("channel").to_string())["secret"]);
        assert!(get(world, &secret, "/share/manifest").is_success());
        let end = json!({"workspace_id": workspace, "installation_id": installed["id"]});
        world.admin("revoke_app_installation", end);
        get(world, &secret, "/share/manifest").refused(401, "unauthenticated");
    });
}

/// The routes of a ticket only read, and no other routes accept one.
///
/// If a WebSocket or MCP accepted a ticket as a credential, its bearer could follow events or act.
#[test]
fn a_ticket_opens_no_other_route() {
    on_both_engines(|world| {
        let secret = secret(world, &world.id("channel").to_string());
        let authorization = format!("ShareTicket {secret}");
        let headers = [
            ("authorization", &*authorization),
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
        ];
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
        for (method, target, body, wanted) in [
            ("GET", "/share/manifest", None, 200),
            ("GET", "/me", None, 401),
            ("GET", "/auth/session", None, 401),
            ("POST", "/mcp", Some(&list), 401),
            ("POST", "/share/threads", Some(&list), 405),
            ("DELETE", "/share/manifest", None, 405),
            ("GET", "/share", None, 404),
            ("GET", "/share/nothing", None, 404),
        ] {
            let answer = world.rest().send(None, method, target, &headers, body);
            assert_eq!(answer.status, wanted, "{method} {target}: {:#}", answer.body);
            if target.starts_with("/share") {
                assert_eq!(answer.headers["cache-control"], "no-store", "{method} {target}");
                assert_eq!(answer.headers["referrer-policy"], "no-referrer", "{method} {target}");
                assert_eq!(answer.headers["vary"], "Authorization", "{method} {target}");
            }
        }
        let first = first_frame(&secret, world.id("workspace"), None);
        assert_eq!(Ws::subscribe(world.address(), &first).receive(), Received::Closed(1008));
    });
}

/// A directory removes all access of a person who leaves, and restores nothing for one who returns.
#[test]
fn a_ticket_ends_with_its_owner_and_does_not_come_back() {
    on_both_engines(|world| {
        let channel = world.id("channel").to_string();
        let person = world.id("person");
        let workspace = world.id("workspace");
        let mint =
            json!({"workspace_id": workspace, "member_id": person, "capability_set": "svc.human.admin"});
        let token = text(&world.admin("mint_token", mint)["secret"]);
        let theirs = text(&issued(world, &token, &channel)["secret"]);
        let other = secret(world, &channel);
        assert!(get(world, &theirs, "/share/manifest").is_success());
        let lsn = world.lsn();
        let set = |active: bool| {
            let operation = json!({"op": "replace", "path": "active", "value": active});
            let patch = json!({"Operations": [operation]});
            let path = format!("/scim/v2/Users/{person}");
            let token = Some(&*world.people.admin);
            assert!(world.rest().send(token, "PATCH", &path, &[], Some(&patch)).is_success());
        };
        set(false);
        let kinds = world.kinds_after(lsn);
        assert!(kinds.contains(&"ShareTicketRevoked".to_owned()), "{kinds:?}");
        set(true);
        get(world, &theirs, "/share/manifest").refused(401, "unauthenticated");
        assert!(get(world, &other, "/share/manifest").is_success(), "another's stays");
    });
}
