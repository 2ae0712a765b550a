//! Approvals that need a person: the receiver of a link, its page, and the wait of an MCP client for it.

use std::time::Duration;

use http::header::{CONTENT_TYPE, SET_COOKIE};
use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::client::mcp::message;
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::{Person, Setup, World, on_both_engines, text};

use super::new_thread;

fn request(world: &World, token: &str, more: Value) -> Value {
    let mut input = json!({"thread_id": new_thread(world), "question": "May it go?"});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.call(token, "request_approval", input).output()
}

fn accept(gate: &Value) -> Value {
    json!({"gate_id": gate["id"], "decision": "accept"})
}

/// Returns a token of a member that may accept.
fn granting(world: &World, person: &Person) -> String {
    let input = json!({"workspace_id": world.id("workspace"), "member_id": person.id, "label": "x",
                       "capabilities": ["workspace:read", "thread:transition", "approval:grant"]});
    text(&world.admin("mint_token", input)["secret"])
}

/// Returns the path of the page of a link.
fn path_of(problem: &Value) -> String {
    let url = text(&problem["link"]["url"]);
    let at = url.find("/ui/approvals/").unwrap_or_else(|| panic!("{url}"));
    url[at..].to_owned()
}

/// Returns the cookie of a browser that has signed in with a token.
fn cookie(world: &World, token: &str) -> String {
    let body = json!({"token": token});
    let answer = world.rest().send(None, "POST", "/auth/session/from-token", &[], Some(&body));
    answer.headers[SET_COOKIE].to_str().unwrap().split(';').next().unwrap().to_owned()
}

/// Opens a page as a browser with this cookie that accepts JSON.
fn open(world: &World, cookie: &str, path: &str) -> Answer {
    world.rest().send(None, "GET", path, &[("cookie", cookie)], None)
}

#[test]
fn an_agent_accepts_nothing_that_needs_a_person() {
    on_both_engines(|world| {
        let [asker, agent] = ["asking", "granting"].map(|name| Person::new(world, name));
        let token = granting(world, &agent);
        let gate = request(world, &asker.token, json!({"needs_person": true}));
        assert_eq!(gate["needs_person"], json!(true));
        let events = world.admin("list_events", json!({"workspace_id": world.id("workspace"), "limit": 500}));
        let events = events["items"].as_array().unwrap();
        let asked = events.iter().rev().find(|event| event["kind"] == json!("ApprovalRequested")).unwrap();
        assert_eq!(asked["payload"]["needs_person"], json!(true), "{asked:#}");
        let lsn = world.lsn();
        for by in [&token, &asker.token, &agent.token] {
            let refused = world.call(by, "approval_decide", accept(&gate)).refused(403, "needs-person");
            assert!(text(&refused["link"]["url"]).starts_with("/ui/approvals/"), "{refused:#}");
            assert!(refused["link"]["expires_at"].is_string());
        }
        assert_eq!(world.lsn(), lsn, "a link is no change");
        let awaited = |token: &str| {
            let input = json!({"workspace_id": world.id("workspace")});
            let context = world.call(token, "get_workspace_context", input).output();
            context["approvals"].as_array().unwrap().iter().any(|found| found["id"] == gate["id"])
        };
        assert_eq!([awaited(&token), awaited(&world.people.admin)], [false, true]);
        let other = request(world, &asker.token, json!({}));
        assert_eq!(other["needs_person"], json!(false));
        world.call(&token, "approval_decide", accept(&other)).output();
        let accepted = world.admin("approval_decide", accept(&gate));
        assert_eq!(accepted["state"], json!("accepted"));
        let again = world.call(&asker.token, "approval_decide", accept(&gate)).output();
        assert_eq!(again, accepted, "what is decided needs nobody");
    });
}

#[test]
fn a_link_gives_no_right_and_ends_with_the_decision_or_after_an_hour() {
    on_both_engines(|world| {
        let asker = Person::new(world, "asking");
        let gate = request(world, &asker.token, json!({}));
        let path = format!("/approval-gates/{}/decision", text(&gate["id"]));
        let decision = json!({"decision": "accept"});
        let refused = world.rest().send(Some(&asker.token), "POST", &path, &[], Some(&decision));
        let problem = refused.refused(403, "needs-person");
        let own = format!("http://{}/ui/approvals/", world.address());
        assert!(text(&problem["link"]["url"]).starts_with(&own), "{problem:#}");

        let link = path_of(&problem);
        let person = cookie(world, &world.people.admin);
        let opened = open(world, &person, &link);
        assert!(opened.headers.get("svc-room-lsn").is_none(), "it is of no position in a log");
        let shown = opened.output();
        assert_eq!(shown["gate"], gate);
        let thread = world.admin("get_thread", json!({"thread_id": gate["thread_id"]}));
        assert_eq!(
            json!([shown["thread"]["id"], shown["thread"]["title"], shown["asked_by"]]),
            json!([thread["id"], thread["title"], "asking"])
        );
        assert_eq!(shown["expires_at"], problem["link"]["expires_at"]);
        open(world, &cookie(world, &asker.token), &link).output();
        world.rest().send(None, "GET", &link, &[], None).refused(401, "unauthenticated");
        world.rest().send(Some(&world.people.admin), "GET", &link, &[], None).refused(401, "unauthenticated");
        for wrong in ["/ui/approvals/x".to_owned(), format!("{link}A"), link[..link.len() - 1].to_owned()] {
            open(world, &person, &wrong).refused(404, "not-found");
        }
        let thread = world.new_thread(&world.new_private_channel("hidden"), "secret");
        let asked = json!({"thread_id": thread, "question": "May it go?"});
        let secret = world.admin("request_approval", asked);
        let limited = world.new_token(vec!["workspace:read", "thread:transition"]);
        let hidden = world.call(&limited, "approval_decide", accept(&secret)).refused(403, "needs-person");
        open(world, &person, &path_of(&hidden)).output();
        open(world, &cookie(world, &asker.token), &path_of(&hidden)).refused(404, "not-found");

        world.clock.advance(Duration::from_secs(3600));
        open(world, &person, &link).refused(404, "not-found");
        let again = world.call(&asker.token, "approval_decide", accept(&gate)).refused(403, "needs-person");
        let link = path_of(&again);
        open(world, &person, &link).output();
        world.admin("approval_decide", accept(&gate));
        open(world, &person, &link).refused(404, "not-found");
    });
}

/// The page fetches its own content, so it is the same for all; the status is that of its content.
#[test]
fn a_browser_that_opens_a_link_gets_the_board_whoever_it_is() {
    on_both_engines(|world| {
        let asker = Person::new(world, "asking");
        let gate = request(world, &asker.token, json!({}));
        let problem = world.call(&asker.token, "approval_decide", accept(&gate)).refused(403, "needs-person");
        let link = path_of(&problem);
        let person = cookie(world, &world.people.admin);
        let board = world.rest().send(None, "GET", "/ui/t/x", &[], None);
        let opened = |cookie: Option<&str>, path: &str| {
            let cookie = cookie.map(|cookie| ("cookie", cookie));
            let headers: Vec<_> = cookie.into_iter().chain([("accept", "text/html,*/*;q=0.8")]).collect();
            let opened = world.rest().send(None, "GET", path, &headers, None);
            assert_eq!(opened.body, board.body);
            assert_eq!(opened.headers[CONTENT_TYPE], "text/html; charset=utf-8");
            for header in ["content-security-policy", "referrer-policy", "x-content-type-options"] {
                assert_eq!(opened.headers[header], board.headers[header]);
            }
            assert_eq!(
                (&opened.headers["cache-control"], &opened.headers["vary"]),
                (&"no-store".parse().unwrap(), &"accept".parse().unwrap())
            );
            opened.status
        };
        assert_eq!(opened(Some(&person), &link), 200);
        assert_eq!(opened(None, &link), 401);
        assert_eq!(opened(Some(&person), "/ui/approvals/x"), 404);
        world.admin("approval_decide", accept(&gate));
        assert_eq!(opened(Some(&person), &link), 404);
        let odd = |headers: &[(&str, &str)]| {
            let answer = world.rest().send(None, "GET", "/ui/approvals/a.b", headers, None);
            for header in ["content-security-policy", "referrer-policy", "x-content-type-options"] {
                assert_eq!(answer.headers[header], board.headers[header]);
            }
            answer
        };
        odd(&[]).refused(401, "unauthenticated");
        for cookie in [None, Some(("cookie", person.as_str()))] {
            let headers: Vec<_> = cookie.into_iter().chain([("accept", "text/html")]).collect();
            let answer = odd(&headers);
            assert_eq!(answer.status, 404, "no link has such a name");
            assert_eq!(answer.headers[CONTENT_TYPE], "text/html; charset=utf-8");
            assert!(text(&answer.body).contains("<h1>"), "{}", answer.body);
        }
    });
}

/// Calls the tool over HTTP as a client that opens links, or as one that does not.
fn call(world: &World, token: &str, arguments: &Value, opens_links: bool, more: Value) -> Value {
    let capabilities =
        if opens_links { json!({"elicitation": {"url": {}}}) } else { json!({"elicitation": {}}) };
    let mut params = json!({"name": "approval_decide", "arguments": arguments,
                            "_meta": {"io.modelcontextprotocol/clientCapabilities": capabilities}});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let headers = [
        ("accept", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "approval_decide"),
    ];
    world.rest().send(Some(token), "POST", "/mcp", &headers, Some(&message("tools/call", params))).body
}

fn retry(asked: &Value, action: &str) -> Value {
    let responses = json!({"decision": {"action": action}});
    json!({"requestState": asked["result"]["requestState"], "inputResponses": responses})
}

#[test]
fn a_client_that_opens_links_waits_for_the_decision_by_asking_again() {
    on_both_engines(|world| {
        let [asker, other] = ["asking", "other"].map(|name| Person::new(world, name));
        let gate = request(world, &asker.token, json!({}));
        let arguments = accept(&gate);
        let ask = |more: Value| call(world, &asker.token, &arguments, true, more);
        let asked = ask(json!({}));
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked:#}");
        let question = &asked["result"]["inputRequests"]["decision"];
        assert_eq!(
            json!([question["method"], question["params"]["mode"]]),
            json!(["elicitation/create", "url"])
        );
        assert!(question["params"].get("elicitationId").is_none());
        let own = format!("http://{}/ui/approvals/", world.address());
        assert!(text(&question["params"]["url"]).starts_with(&own), "{asked:#}");

        let missing = ask(json!({"requestState": asked["result"]["requestState"]}));
        assert_eq!(missing["result"]["resultType"], "input_required", "it is asked again");
        let refused = ask(retry(&asked, "decline"));
        assert_eq!(refused["result"]["structuredContent"]["state"], "pending", "{refused:#}");
        let waited = world.once_time_is_over(Duration::from_secs(46), || ask(retry(&asked, "accept")));
        assert_eq!(waited["result"]["resultType"], "input_required", "{waited:#}");
        let decided = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| ask(retry(&waited, "accept")));
            until("it waits", || world.service.parked_waits() == 1);
            world.admin("approval_decide", arguments.clone());
            waiting.join().unwrap()
        });
        let result = &decided["result"];
        assert_eq!(
            json!([result["resultType"], result["isError"], result["structuredContent"]["state"]]),
            json!(["complete", false, "accepted"])
        );

        let foreign = request(world, &asker.token, json!({}));
        let invalid = |token: &str, arguments: &Value, more: Value| {
            let answer = call(world, token, arguments, true, more);
            assert_eq!(answer["error"]["code"], -32602, "{answer:#}");
        };
        let asked = call(world, &asker.token, &accept(&foreign), true, json!({}));
        let good = retry(&asked, "accept");
        let mut tampered = good.clone();
        tampered["requestState"] = json!(format!("{}A", text(&good["requestState"])));
        invalid(&asker.token, &accept(&foreign), tampered);
        invalid(&asker.token, &accept(&foreign), json!({"requestState": 7}));
        invalid(&asker.token, &accept(&gate), good.clone());
        invalid(&other.token, &accept(&foreign), good.clone());
        world.clock.advance(Duration::from_secs(601));
        invalid(&asker.token, &accept(&foreign), good);
    });
}

#[test]
fn other_clients_get_the_gate_with_the_link() {
    on_both_engines(|world| {
        let asker = Person::new(world, "asking");
        let gate = request(world, &asker.token, json!({}));
        let told = |answer: &Value| {
            let result = &answer["result"];
            assert_eq!(result["isError"], json!(false), "{answer:#}");
            let link = result["structuredContent"]["link"].clone();
            assert_eq!(result["structuredContent"]["state"], "pending");
            let hint = text(&result["content"][1]["text"]);
            assert!(hint.contains(link["url"].as_str().unwrap()), "{hint}");
            (text(&link["url"]), hint)
        };
        let (url, hint) = told(&call(world, &asker.token, &accept(&gate), false, json!({})));
        assert!(url.starts_with("http://") && !hint.contains("SVC_PUBLIC_URL"), "{hint}");
        let params = json!({"name": "approval_decide", "arguments": accept(&gate)});
        let legacy = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let headers = [("accept", "application/json"), ("mcp-protocol-version", "2025-11-25")];
        told(&world.rest().send(Some(&asker.token), "POST", "/mcp", &headers, Some(&legacy)).body);
        // A pipe has no address, so the client has nothing to open.
        let opens = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"url": {}}}});
        let mut params = params;
        params["_meta"] = opens;
        let pipe = world.stdio(&asker.token);
        let (url, hint) = told(&pipe.request("tools/call", params));
        assert!(url.starts_with("/ui/approvals/") && hint.contains("SVC_PUBLIC_URL"), "{hint}");
    });
}

#[test]
fn a_pipe_names_the_address_that_the_operator_has_set() {
    for engine in engines() {
        let url = Some("https://svc.example.com".to_owned());
        let world = World::with(engine, Setup { public_url: url, ..Setup::default() });
        let asker = Person::new(&world, "asking");
        let gate = request(&world, &asker.token, json!({}));
        let pipe = world.stdio(&asker.token);
        let ask = |more: Value| {
            let capabilities = json!({"elicitation": {"url": {}}});
            let mut params = json!({"name": "approval_decide", "arguments": accept(&gate),
                                    "_meta": {"io.modelcontextprotocol/clientCapabilities": capabilities}});
            params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            pipe.request("tools/call", params)
        };
        let asked = ask(json!({}));
        let url = text(&asked["result"]["inputRequests"]["decision"]["params"]["url"]);
        assert!(url.starts_with("https://svc.example.com/ui/approvals/"), "{url}");
        let decided = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| ask(retry(&asked, "accept")));
            until("it waits", || world.service.parked_waits() == 1);
            let decline = json!({"gate_id": gate["id"], "decision": "decline"});
            world.admin("approval_decide", decline);
            waiting.join().unwrap()
        });
        assert_eq!(decided["result"]["structuredContent"]["state"], "declined", "{decided:#}");
    }
}
