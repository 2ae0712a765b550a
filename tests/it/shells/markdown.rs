//! The trees of texts for the board: accepted inputs, refusals and answers.

use http::header::{COOKIE, SET_COOKIE};
use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, text};

const MARKDOWN: &str = "/ui/api/markdown";
/// A page of this service.
const OWN: (&str, &str) = ("sec-fetch-site", "same-origin");

/// Signs a browser in with a token, and returns its cookie.
fn sign_in(world: &World, token: &str) -> String {
    let body = json!({"token": token});
    let answer = world.rest().send(None, "POST", "/auth/session/from-token", &[], Some(&body));
    let cookie = answer.headers[SET_COOKIE].to_str().unwrap();
    cookie.split(';').next().unwrap().to_owned()
}

fn post(world: &World, cookie: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let cookie = [(COOKIE.as_str(), cookie)];
    world.rest().send(None, "POST", MARKDOWN, &[&cookie, headers].concat(), Some(body))
}

/// Returns the tree that a page of this service gets for one text.
fn parsed(world: &World, cookie: &str, channel: Option<&str>, text: &str) -> Value {
    let mut body = json!({"texts": [text]});
    if let Some(channel) = channel {
        body["channel_id"] = channel.into();
    }
    let answer = post(world, cookie, &[OWN], &body);
    assert_eq!(answer.headers["cache-control"], "no-store");
    assert_eq!(answer.headers["x-content-type-options"], "nosniff");
    assert!(answer.headers.get("svc-room-lsn").is_none());
    let output = answer.output();
    assert_eq!(output["items"].as_array().unwrap().len(), 1);
    output["items"][0].clone()
}

/// Returns the members that nodes mention, and null for each group.
fn mentioned(nodes: &Value) -> Vec<Value> {
    let nodes = nodes.as_array().into_iter().flatten();
    nodes
        .flat_map(|node| match node["type"] == "mention" {
            true => vec![node["member"].clone()],
            false => mentioned(&node["children"]),
        })
        .collect()
}

fn paragraph(children: Value) -> Value {
    json!([{"type": "paragraph", "children": children}])
}

#[test]
fn texts_become_trees_in_their_order_and_nothing_is_recorded() {
    on_both_engines(|world| {
        let cookie = sign_in(world, &world.people.agent);
        let before = world.lsn();
        let audited = || {
            let input = json!({"workspace_id": world.id("workspace"), "limit": 500});
            world.admin("list_audit", input)["items"].as_array().unwrap().len()
        };
        let rows = audited();
        let texts = json!(["a **b**", "", "- [x] [c](https://x.example) [d](javascript:x) <b>"]);
        let output = post(world, &cookie, &[OWN], &json!({"texts": texts})).output();
        let wanted = [
            paragraph(json!([
                {"type": "text", "text": "a "},
                {"type": "strong", "children": [{"type": "text", "text": "b"}]},
            ])),
            json!([]),
            json!([{"type": "list", "children": [{"type": "item", "checked": true, "children": [
                {"type": "link", "href": "https://x.example/", "children": [{"type": "text", "text": "c"}]},
                {"type": "text", "text": " [d](javascript:x) <b>"},
            ]}]}]),
        ];
        let items: Vec<Value> =
            wanted.into_iter().map(|nodes| json!({"nodes": nodes, "not_reached": []})).collect();
        assert_eq!(output, json!({"items": items}));
        assert_eq!((world.lsn(), audited()), (before, rows));
    });
}

#[test]
fn a_tree_mentions_whom_a_post_of_its_text_would_reach() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let cookie = sign_in(world, agent);
        let (bob, _) = world.new_agent("bob");
        let (gone, _) = world.new_agent("gone");
        let channel = world.new_channel("open");
        let private = world.new_private_channel("closed");
        let me = world.id("agent").to_string();
        let admin = world.id("admin").to_string();
        world.admin("add_channel_member", json!({"channel_id": private, "member_id": me}));
        world.database.execute(&format!(
            "update members set deactivated_at = 1 where id = {}",
            world.database.id(gone.parse::<uuid::Uuid>().unwrap())
        ));
        let handle = text(&world.agent("whoami", json!({}))["handle"]);
        let words = format!("@Bob, **@ada** @{handle} @bob @gone @nobody @here `@ada`\n\n> @ada");

        let unknown = json!({"text": "@nobody", "why": "unknown"});
        let inactive = json!({"text": "@gone", "why": "inactive"});
        let open = parsed(world, &cookie, Some(&channel), &words);
        let reached = [json!(bob), json!(admin), json!(me), json!(bob), Value::Null];
        assert_eq!(mentioned(&open["nodes"]), reached);
        assert_eq!(open["not_reached"], json!([inactive, unknown]));
        let first = &open["nodes"][0]["children"][0];
        assert_eq!(first, &json!({"type": "mention", "text": "@Bob", "member": bob}));

        let closed = parsed(world, &cookie, Some(&private), &words);
        let hidden = json!({"text": "@Bob", "why": "cannot_see"});
        assert_eq!(mentioned(&closed["nodes"]), [json!(admin), json!(me), Value::Null]);
        assert_eq!(closed["not_reached"], json!([hidden, inactive, unknown]));

        for (place, tree) in [(&channel, &open), (&private, &closed)] {
            let thread = world.new_thread(place, "Talk");
            let post = world.call(agent, "post_message", json!({"thread_id": thread, "body": words}));
            let post = post.output();
            assert_eq!(post["not_reached"], tree["not_reached"]);
            let reached = mentioned(&tree["nodes"]);
            for member in post["mentioned"].as_array().unwrap() {
                assert!(reached.contains(&member["member_id"]), "{member}");
            }
        }

        // Outside of channels each active member is reached, and groups are not.
        let anywhere = parsed(world, &cookie, None, &words);
        assert_eq!(mentioned(&anywhere["nodes"]), [&bob, &admin, &me, &bob].map(|id| json!(id)));
        let no_group = json!({"text": "@here", "why": "unknown"});
        assert_eq!(anywhere["not_reached"], json!([inactive, unknown, no_group]));
    });
}

#[test]
fn only_a_session_and_a_page_of_this_service_get_trees() {
    on_both_engines(|world| {
        let cookie = sign_in(world, &world.people.agent);
        let body = json!({"texts": ["a"]});
        let refused = |cookie: &str, headers: &[(&str, &str)]| {
            let refusal = post(world, cookie, headers, &body).refused(401, "unauthenticated");
            assert!(refusal.get("sign_in").is_none(), "{refusal:#}");
        };
        let bearer = format!("Bearer {}", world.people.agent);
        refused("", &[]);
        refused("", &[("authorization", &bearer)]);
        refused("svc_session=v1.x", &[OWN]);
        for foreign in [
            ("origin", "http://localhost:1"),
            ("origin", "null"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "cross-site"),
        ] {
            refused(&cookie, &[foreign]);
        }
        refused(&cookie, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]);
        for headers in [&[][..], &[OWN], &[("origin", &format!("http://{}", world.address()))]] {
            assert!(post(world, &cookie, headers, &body).is_success(), "{headers:?}");
        }
        let worker = sign_in(world, &world.new_token(vec!["token:admin"]));
        post(world, &worker, &[OWN], &body).refused(403, "missing-capability");
        let get = world.rest().send(None, "GET", MARKDOWN, &[(COOKIE.as_str(), &cookie)], None);
        get.refused(405, "method-not-allowed");
    });
}

#[test]
fn what_is_no_list_of_texts_within_the_limits_is_refused() {
    on_both_engines(|world| {
        let cookie = sign_in(world, &world.people.agent);
        let secret = "never repeated";
        let malformed = |body: Value, wanted: &str| {
            let refusal = post(world, &cookie, &[OWN], &body).refused(400, "malformed-request");
            let detail = text(&refusal["detail"]);
            assert!(detail.contains(wanted) && !detail.contains(secret), "{detail}");
        };
        malformed(json!({"texts": vec!["a"; 101]}), "at most 100 items");
        malformed(json!({"texts": []}), "expected 1 to 100 items");
        malformed(json!({"texts": ["é".repeat(524_288), "a"]}), "at most 1048576 bytes together");
        malformed(json!({}), "texts");
        malformed(json!({"texts": secret}), "texts");
        malformed(json!({"texts": [secret, 1]}), "texts");
        malformed(json!({"texts": [null]}), "texts");
        malformed(json!({"texts": [secret], "channel_id": "x"}), "channel_id");
        malformed(json!({"texts": ["a"], "more": secret}), "more");
        let most = json!({"texts": vec!["x".repeat(10_485); 100]});
        assert_ne!(post(world, &cookie, &[OWN], &most).output()["items"], json!([]));
        let media = [(COOKIE.as_str(), &*cookie), ("content-type", "text/markdown"), OWN];
        world.rest().post_bytes(MARKDOWN, &media, "a").refused(415, "unsupported-media-type");

        let private = world.new_private_channel("closed");
        for channel in [private, world.id("thread").to_string()] {
            let body = json!({"channel_id": channel, "texts": ["@ada"]});
            post(world, &cookie, &[OWN], &body).refused(404, "not-found");
        }
    });
}

#[test]
fn an_answer_has_the_trees_of_the_first_texts_and_the_others_can_be_sent_again() {
    on_both_engines(|world| {
        let cookie = sign_in(world, &world.people.agent);
        let mut texts: Vec<String> =
            (0..100).map(|number| format!("{number}\n{}", "a\n".repeat(5_000))).collect();
        let all = texts.clone();
        let mut begins = Vec::new();
        let mut answers = 0;
        while !texts.is_empty() {
            let output = post(world, &cookie, &[OWN], &json!({"texts": texts})).output();
            let items = output["items"].as_array().unwrap();
            assert!((1..=texts.len()).contains(&items.len()), "{}", items.len());
            assert!(items.len() == 1 || output.to_string().len() < (2 << 20) + 100);
            begins.extend(items.iter().map(|item| text(&item["nodes"][0]["children"][0]["text"])));
            texts.drain(..items.len());
            answers += 1;
        }
        let wanted: Vec<&str> = all.iter().map(|text| text.lines().next().unwrap()).collect();
        assert_eq!(begins, wanted);
        assert!(answers > 1);
        // A single text is never omitted.
        let long = format!("{}\n\n{}", "**a** ".repeat(4_000), "\u{1}".repeat(330_000));
        let output = post(world, &cookie, &[OWN], &json!({"texts": [long, "a"]})).output();
        assert!(output.to_string().len() > 2 << 20);
        assert_eq!(output["items"].as_array().unwrap().len(), 1);
    });
}
