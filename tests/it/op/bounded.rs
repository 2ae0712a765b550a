//! Answers with limited bytes: each fits into its caller's limit, and cursors and offsets lose nothing of it.

use serde_json::{Map, Value, json};
use svc_core::limits::{ANSWER_BYTES, ANSWER_MCP_BYTES, BOOT_MAX, DEFINITION_MAX, MESSAGE_MAX, REVIEW_MAX};
use svc_core::op::{Effect, Operation};
use svc_tests::{World, on_both_engines, text};

use crate::op::asking::{CallPath, all_pages, fewest_filters};

/// The bytes that callers request: the minimum, the default, and the maximum.
const SIZES: [usize; 3] = [4096, ANSWER_MCP_BYTES, 1_048_576];

/// Long messages of a thread: together they exceed the limit of a client.
const MESSAGES: usize = 6;

/// Returns a text of this many characters, some of which take several bytes or are escaped.
fn long(length: usize) -> String {
    "All \"lanes\" of the H\u{f6}he are \u{6f22}\u{5b57},\n\u{1f600} and \\free. "
        .chars()
        .cycle()
        .take(length)
        .collect()
}

/// Returns a line of this many characters.
fn line(length: usize) -> String {
    long(length).replace('\n', " ")
}

/// The long threads and other objects.
struct Long {
    channel: String,
    thread: String,
    messages: Vec<String>,
    block: String,
    /// Threads with the same long footprint.
    wide: Vec<String>,
    /// Their ids, by the names of the fields for them.
    ids: Map<String, Value>,
    /// The ids for operations with separate long objects.
    of: Vec<(&'static str, Value)>,
}

impl Long {
    fn make(world: &World) -> Self {
        let admin = |operation: &str, input: Value| world.admin(operation, input);
        let channel = world.new_channel("long");
        let boot = json!({"channel_id": channel, "text": long(BOOT_MAX)});
        admin("set_channel_boot", boot);
        let value = json!({"label": "long", "limit": 100_000, "value": long(100_000)});
        let block = text(&admin("create_memory_block", value)["id"]);
        for number in 0..5 {
            let term = json!({"term": format!("term {number}"), "definition": long(DEFINITION_MAX)});
            admin("set_glossary_term", term);
        }
        let awaited: Vec<String> = (0..9).map(|_| world.new_thread(&channel, &line(200))).collect();
        let tools: Vec<String> = (0..100).map(|number| format!("{number} {}", line(150))).collect();
        let task = json!({"channel_id": channel, "title": line(200), "tools": tools, "depends_on": awaited});
        let thread = text(&admin("create_thread", task)["id"]);
        awaited.iter().for_each(|id| drop(admin("cancel_thread", json!({"thread_id": id, "reason": "x"}))));
        admin("attach_memory_block", json!({"thread_id": thread, "block_id": block}));
        let post = |number: usize| {
            let content = [json!({"type": "text", "text": long(20_000)})];
            let metadata = json!({"long": line(50_000)});
            let post = json!({"thread_id": thread, "body": format!("{number} {}", long(MESSAGE_MAX - 2)),
                              "content": content, "metadata": metadata});
            text(&world.agent("post_message", post)["id"])
        };
        let messages: Vec<String> = (0..MESSAGES).map(post).collect();
        let message = messages[0].clone();
        for number in 0..2 {
            let edit = json!({"message_id": message, "body": format!("{} {number}", long(MESSAGE_MAX - 2))});
            world.agent("edit_message", edit);
        }
        for message in &messages[..3] {
            admin("pin_message", json!({"message_id": message}));
        }
        for emoji in ["a", "b", "c"] {
            admin("add_reaction", json!({"message_id": message, "emoji": emoji}));
        }
        let options: Vec<String> = (0..20).map(|number| format!("{number} {}", line(190))).collect();
        let vote = json!({"thread_id": thread, "question": long(4000), "options": options});
        let vote = admin("create_vote", vote)["id"].clone();
        let gate =
            admin("request_approval", json!({"thread_id": thread, "question": long(4000)}))["id"].clone();
        let reviewed = world.id("reviewed_thread");
        for _ in 0..2 {
            let findings = vec![json!({"severity": "minor", "body": long(1900)}); 20];
            let review = json!({"thread_id": reviewed, "verdict": "comment", "body": long(REVIEW_MAX),
                                "findings": findings});
            admin("submit_review", review);
        }
        let mut done = Vec::new();
        for _ in 0..2 {
            done.push(world.new_thread(&channel, "done"));
            let done = &done[done.len() - 1];
            let claim = world.agent("claim_thread", json!({"thread_id": done}));
            let result = json!({"thread_id": done, "claim_lease_id": claim["claim_lease_id"],
                                "result": {"long": line(100_000)}});
            world.agent("set_thread_result", result);
        }
        let items: Vec<Value> = (0..100)
            .map(|number| json!({"kind": "lane", "value": format!("{number}-{}", "x".repeat(450))}))
            .collect();
        let footprint = json!({"repo": "acme/app", "mode": "exclusive", "items": items});
        let wide = || {
            admin("create_thread", json!({"channel_id": channel, "title": "wide", "footprint": footprint}))
        };
        let wide: Vec<String> = (0..3).map(|_| text(&wide()["id"])).collect();
        let ids = json!({"channel_id": channel, "thread_id": thread, "message_id": message, "block_id": block,
                         "vote_id": vote, "gate_id": gate});
        let of = ["list_reviews", "get_review_status", "list_reviewers"]
            .map(|name| (name, json!({"thread_id": reviewed})));
        let ids = ids.as_object().unwrap().clone();
        let mut of = of.to_vec();
        of.push(("get_claim", json!({"thread_id": wide[0]})));
        of.push(("get_thread_result", json!({"thread_id": done[0]})));
        Self { channel, thread, messages, block, wide, ids, of }
    }

    /// Returns the input of an operation that only reads, about a long object.
    fn input(&self, world: &World, operation: &Operation) -> Value {
        let mut input = fewest_filters(operation, operation.docs().example(&world.fixture).unwrap());
        for (name, value) in input.as_object_mut().unwrap() {
            if let Some(id) = self.ids.get(name) {
                *value = id.clone();
            }
        }
        if let Some((_, own)) = self.of.iter().find(|(name, _)| *name == operation.name()) {
            input.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
        }
        if operation.is_detailed() {
            input["detail"] = json!("full");
        }
        if operation.http().path.contains("{workspace_id}") {
            input["workspace_id"] = json!(world.id("workspace"));
        }
        input
    }
}

fn has(operation: &Operation, field: &str) -> bool {
    operation.input_schema()["properties"].get(field).is_some()
}

/// Calls a tool whose answer has up to `size` bytes.
fn within(world: &World, size: usize, operation: &Operation, input: &Value) -> Value {
    let mut input = input.clone();
    let is_asked = has(operation, "max_bytes");
    if is_asked {
        input["max_bytes"] = json!(size);
    }
    let answer = world.mcp().call(Some(&world.people.admin), operation, &input).output();
    let bytes = answer.to_string().len();
    let most = if is_asked { size } else { ANSWER_MCP_BYTES };
    assert!(bytes <= most, "{operation:?}: {bytes} of {most} bytes");
    answer
}

/// Returns the parts that identify an item: all its short members.
fn known_by(item: &Value) -> Value {
    let is_short = |value: &Value| match value {
        Value::String(text) => text.len() < 200,
        value => value.is_number() || value.is_boolean(),
    };
    let said = ["truncated", "next_offset"];
    let members = item.as_object().unwrap().iter();
    let short = members.filter(|(name, value)| is_short(value) && !said.contains(&name.as_str()));
    let mut known: Map<String, Value> = short.map(|(name, value)| (name.clone(), value.clone())).collect();
    if let Some(message) = item.get("message").filter(|message| message["id"].is_string()) {
        known.insert("message".to_owned(), message["id"].clone());
    }
    known.into()
}

fn items(answer: &Value) -> &[Value] {
    answer["items"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the operations that read and are tools, apart from those whose answers are never cut.
fn reads(world: &World) -> Vec<&Operation> {
    let whole = ["export_workspace", "get_log_snapshot"];
    let rows = world.service.table().operations();
    rows.filter(|row| row.effect() == Effect::Read && !row.http().rest_only && !row.http().takes_file)
        .filter(|row| !whole.contains(&row.name()))
        .collect()
}

/// Reads a list page by page, and checks that it has each item once, however few bytes a page has.
fn check_list(world: &World, operation: &Operation, input: &Value) {
    let admin = &world.people.admin;
    let pages = all_pages(world, CallPath::Rest, admin, operation, input.clone());
    let all: Vec<Value> = pages.into_iter().flat_map(|page| items(&page.output()).to_vec()).collect();
    for size in SIZES {
        let mut found = Vec::new();
        let mut input = input.clone();
        loop {
            let page = within(world, size, operation, &input);
            found.extend(items(&page).to_vec());
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            assert!(!items(&page).is_empty(), "{operation:?}: a page has one item at least");
            input["cursor"] = json!(cursor);
            input.as_object_mut().unwrap().remove("after_id");
        }
        let known = |items: &[Value]| items.iter().map(known_by).collect::<Vec<_>>();
        assert_eq!(known(&found), known(&all), "{operation:?} in {size} bytes");
        for (found, whole) in found.iter().zip(&all) {
            let (found, whole) = match found["message"]["id"].is_string() {
                true => (&found["message"], &whole["message"]),
                false => (found, whole),
            };
            let Some(offset) = found["next_offset"].as_u64() else { continue };
            let cut = |name: &&str| found[*name] != whole[*name] && found[*name].is_string();
            let name = ["body", "value", "definition", "question"].into_iter().find(cut).unwrap();
            let part = found[name].as_str().unwrap();
            let text = whole[name].as_str().unwrap();
            assert!(text.starts_with(part) && found["truncated"] == true, "{operation:?}");
            assert_eq!(offset, part.chars().count() as u64, "{operation:?}");
        }
    }
}

/// Reads a text part by part.
fn check_text(world: &World, operation: &Operation, input: &Value, wanted: &str) {
    let name = operation.resumable_text().unwrap();
    let mut input = input.clone();
    let is_list = has(operation, "cursor");
    if is_list {
        input["limit"] = json!(1);
    }
    let mut read = String::new();
    let mut parts = 0;
    loop {
        let answer = within(world, SIZES[0], operation, &input);
        let object = if is_list { &answer["items"][0] } else { &answer };
        read.push_str(object[name].as_str().unwrap());
        parts += 1;
        let Some(offset) = object["next_offset"].as_u64() else { break };
        assert_eq!(offset, read.chars().count() as u64, "{operation:?}");
        input["offset"] = json!(offset);
    }
    assert!(read == wanted, "{operation:?}: {} of {} bytes in {parts} parts", read.len(), wanted.len());
    assert!(parts > 1, "{operation:?}");
}

/// Checks that a refusal because of a long footprint fits, too.
fn check_refusal(world: &World, of: &Long) {
    world.admin("claim_thread", json!({"thread_id": of.wide[0]}));
    let params = json!({"name": "claim_thread", "arguments": {"thread_id": of.wide[1]}});
    let refused = world.mcp().request(Some(&world.people.agent), "tools/call", params).body;
    assert_eq!(refused["error"]["code"], -32009, "{refused}");
    let problem = &refused["error"]["data"];
    assert!(problem.to_string().len() <= ANSWER_MCP_BYTES, "{} bytes", problem.to_string().len());
    let told = problem["conflicts"].as_array().unwrap().len();
    assert!(told > 9 && problem["omitted"]["conflicts"] == json!(100 - told), "{told} conflicts");
    let params =
        json!({"name": "claim_thread", "arguments": {"thread_id": of.wide[1], "max_bytes": SIZES[0]}});
    let refused = world.mcp().request(Some(&world.people.agent), "tools/call", params).body;
    let bytes = refused["error"].to_string().len();
    assert!(bytes <= SIZES[0] && refused["error"]["data"]["conflicts"].is_array(), "{bytes}: {refused}");
}

/// Checks that a claim and the newest messages stay.
fn check_claims(world: &World, of: &Long) {
    for size in SIZES {
        let pack =
            within(world, size, world.operation("get_thread_context"), &json!({"thread_id": of.thread}));
        let kept = pack["messages"].as_array().unwrap();
        let omitted = usize::try_from(pack["messages_omitted"].as_u64().unwrap_or(0)).unwrap();
        // The vote and the request for approval came last.
        assert_eq!(kept.len() + omitted, MESSAGES + 2, "{size}: {omitted} were left out");
        assert_eq!(pack["thread"]["id"], json!(of.thread));
        let ids: Vec<String> = kept.iter().map(|message| text(&message["id"])).collect();
        let all: Vec<&String> = of.messages.iter().filter(|id| ids.contains(id)).collect();
        assert!(all.iter().rev().zip(of.messages.iter().rev()).all(|(a, b)| *a == b), "the newest stay");
    }
    for size in SIZES {
        let input = json!({"thread_id": of.thread, "include_context": true});
        let claim = within(world, size, world.operation("claim_thread"), &input);
        assert_eq!((&claim["id"], &claim["title"]), (&json!(of.thread), &json!(line(200))));
        assert!(claim["claim_lease_id"].is_string() && claim["pin"]["content_hash"].is_string(), "{claim}");
        assert!(claim["assignment_expires_at"].is_string(), "{claim}");
        let release = json!({"thread_id": of.thread, "claim_lease_id": claim["claim_lease_id"]});
        within(world, size, world.operation("release_claim"), &release);
    }
    let kept = within(
        world,
        SIZES[0],
        world.operation("set_memory_block"),
        &json!({"block_id": of.block, "value": long(99_999)}),
    );
    assert_eq!((&kept["truncated"], &kept["version"]), (&json!(true), &json!(2)), "what changed is cut, too");
}

/// Checks that a wait returns the items that fit, and continues from there.
fn check_wait(world: &World, of: &Long, from: i64) {
    let wait = world.operation("wait_for_event");
    for size in SIZES {
        let mut after = from;
        let mut found = Vec::new();
        while after < world.lsn() {
            let input = json!({"workspace_id": world.id("workspace"), "after_id": after,
                               "thread_id": of.thread, "timeout_secs": 0, "limit": 500});
            let page = within(world, size, wait, &input);
            let Some(next) = page["after_id"].as_i64() else { break };
            found.extend(items(&page).iter().map(|event| event["lsn"].as_i64().unwrap()));
            after = next;
        }
        let all = json!({"thread_id": of.thread, "limit": 500});
        let all =
            all_pages(world, CallPath::Rest, &world.people.admin, world.operation("list_thread_events"), all);
        let all = all.into_iter().flat_map(|page| items(&page.output()).to_vec());
        let all: Vec<i64> = all.map(|event| event["lsn"].as_i64().unwrap()).collect();
        assert_eq!(found, all, "in {size} bytes");
    }
}

#[test]
fn every_answer_over_mcp_fits_and_nothing_is_lost() {
    on_both_engines(|world| {
        let from = world.lsn();
        let of = Long::make(world);
        check_refusal(world, &of);
        let mut lists = 0;
        for operation in reads(world) {
            let input = of.input(world, operation);
            if has(operation, "cursor") {
                lists += 1;
                check_list(world, operation, &input);
            } else {
                SIZES.iter().for_each(|size| drop(within(world, *size, operation, &input)));
            }
        }
        assert!(lists > 40, "{lists} lists");

        let boot = long(BOOT_MAX);
        let edited = format!("{} 1", long(MESSAGE_MAX - 2));
        let first = format!("0 {}", long(MESSAGE_MAX - 2));
        for (name, wanted) in [
            ("get_message", &*edited),
            ("list_message_edits", &first),
            ("get_memory_block", &long(100_000)),
            ("get_channel_boot", &boot),
            ("get_vote", &long(4000)),
            ("get_approval_gate", &long(4000)),
        ] {
            let operation = world.operation(name);
            check_text(world, operation, &of.input(world, operation), wanted);
        }
        for uri in [
            format!("svc://workspaces/{}", world.id("workspace")),
            format!("svc://channels/{}", of.channel),
            format!("svc://threads/{}", of.thread),
            format!("svc://boots/{}", of.channel),
        ] {
            let read =
                world.mcp().request(Some(&world.people.admin), "resources/read", json!({"uri": uri})).body;
            assert!(read["result"]["contents"][0]["text"].is_string(), "{read}");
            let bytes = read["result"].to_string().len();
            assert!(bytes <= ANSWER_MCP_BYTES, "{uri}: {bytes} bytes");
        }
        check_wait(world, &of, from);
        check_claims(world, &of);
    });
}

/// Text whose every character is escaped takes six times its bytes.
#[test]
fn no_answer_over_rest_is_longer_than_four_mebibytes() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.id("channel").to_string(), "escaped");
        let body = "\u{1}".repeat(MESSAGE_MAX);
        let posted = (0..10).map(|_| world.agent("post_message", json!({"thread_id": thread, "body": body})));
        let posted: Vec<String> = posted.map(|posted| text(&posted["id"])).collect();
        let input = json!({"thread_id": thread, "limit": 500});
        let pages =
            all_pages(world, CallPath::Rest, &world.people.admin, world.operation("list_messages"), input);
        let mut found = Vec::new();
        for page in pages {
            let page = page.output();
            let bytes = page.to_string().len();
            assert!(bytes <= ANSWER_BYTES, "{bytes} bytes");
            assert!(items(&page).iter().all(|message| message["body"] == body), "none is cut");
            found.extend(items(&page).iter().map(|message| text(&message["id"])));
        }
        assert_eq!(found, posted);
    });
}

#[test]
fn a_number_of_bytes_has_bounds_and_is_told() {
    on_both_engines(|world| {
        let call = |input: Value| {
            let input = json!({"thread_id": world.id("thread"), "max_bytes": input["max_bytes"]});
            world.mcp().call(Some(&world.people.admin), world.operation("list_messages"), &input)
        };
        for bad in [json!(4095), json!(1_048_577), json!("4096"), json!(1.5), json!([])] {
            let problem = call(json!({"max_bytes": bad})).refused(400, "malformed-request");
            assert!(problem.to_string().contains("max_bytes"), "{bad}: {problem}");
        }
        assert_eq!(call(json!({"max_bytes": null})).status, 200);
        let input = json!({"message_id": world.id("message"), "offset": 4});
        let whole = world.admin("get_message", json!({"message_id": world.id("message")}));
        let rest = world.admin("get_message", input);
        assert_eq!(rest["body"], whole["body"].as_str().unwrap().split_at(4).1);
        let beyond = json!({"message_id": world.id("message"), "offset": 99_999_999});
        assert_eq!(world.admin("get_message", beyond)["body"], "");
    });
}
