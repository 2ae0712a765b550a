//! Pages: a cursor skips nothing, however many callers write at the same time.
//!
//! However long the objects of a list are, a page has up to one MiB of them and one more, and all pages
//! together have each object once.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use svc_core::limits::{JSON_MAX_BYTES, MESSAGE_MAX, PAGE_BYTES, PAGE_SCAN_MAX};
use svc_core::op::{Effect, Operation};
use svc_tests::client::ws::{Ws, first_frame};
use svc_tests::{World, in_parallel, on_both_engines, text};

use crate::op::chores::copy_claim;
use crate::shells::costs::tokens;

const WRITERS: usize = 8;
const EACH: usize = 40;

/// Number of long messages that fill a page.
const LONG: usize = 3;
/// Number of short messages after them, followed by one more long message.
const SHORT: usize = 3;

/// Returns the whole list, page by page.
fn traverse(world: &World, operation: &str, input: &Value) -> Vec<Value> {
    let mut items = Vec::new();
    let mut input = input.clone();
    loop {
        let page = world.admin(operation, input.clone());
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        if page["next_cursor"].is_null() {
            return items;
        }
        input["cursor"] = page["next_cursor"].clone();
    }
}

fn ids(items: &[Value]) -> Vec<String> {
    items.iter().map(|item| text(&item["id"])).collect()
}

#[test]
fn a_list_read_while_others_write_is_a_prefix_of_the_whole() {
    on_both_engines(|world| {
        let channel = world.new_channel("busy");
        let thread = world.new_thread(&channel, "busy");
        let lists = [
            ("list_messages", json!({"thread_id": thread, "limit": 7})),
            ("list_threads", json!({"channel_id": channel, "limit": 7})),
        ];
        let writing = AtomicUsize::new(WRITERS);
        let seen = in_parallel(WRITERS + lists.len(), |number| {
            let mut traversals = Vec::new();
            if number < WRITERS {
                for n in 0..EACH {
                    let body = format!("{number} says {n}");
                    world.agent("post_message", json!({"thread_id": thread, "body": body}));
                    world.new_thread(&channel, &body);
                }
                writing.fetch_sub(1, Ordering::SeqCst);
                return traversals;
            }
            let (operation, input) = &lists[number - WRITERS];
            while writing.load(Ordering::SeqCst) > 0 {
                traversals.push(ids(&traverse(world, operation, input)));
            }
            traversals
        });
        for ((operation, input), traversals) in lists.iter().zip(&seen[WRITERS..]) {
            let whole = ids(&traverse(world, operation, input));
            assert!(whole.len() >= WRITERS * EACH, "{operation}");
            for traversal in traversals {
                assert_eq!(traversal[..], whole[..traversal.len()], "{operation} skipped something");
            }
        }
    });
}

#[test]
fn the_log_read_while_others_write_has_no_gap() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let from = world.lsn();
        let last = from + i64::try_from(WRITERS * EACH).unwrap();
        let seen = in_parallel(WRITERS + 1, |number| {
            let mut seen = Vec::new();
            if number < WRITERS {
                for n in 0..EACH {
                    let body = format!("{number} says {n}");
                    world.agent("post_message", json!({"thread_id": world.id("thread"), "body": body}));
                }
                return seen;
            }
            let mut after = from;
            while after < last {
                let input = json!({"workspace_id": workspace, "after_id": after, "limit": 9});
                let page = world.admin("wait_for_event", input);
                seen.extend(
                    page["items"].as_array().unwrap().iter().map(|event| event["lsn"].as_i64().unwrap()),
                );
                after = page["after_id"].as_i64().unwrap();
            }
            seen
        });
        assert_eq!(seen[WRITERS], (from + 1..=last).collect::<Vec<_>>());
    });
}

#[test]
fn a_page_reads_a_bounded_part_and_returns_its_cursor() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let den = json!({"workspace_id": workspace, "name": "den", "private": true});
        let den = text(&world.admin("create_channel", den)["id"]);
        let from = world.lsn();
        let scan = usize::try_from(PAGE_SCAN_MAX).unwrap();
        in_parallel(WRITERS, |_| (0..=scan / WRITERS).for_each(|_| drop(world.new_thread(&den, "hidden"))));
        let last = world.new_thread(&den, "the last");
        world.admin("transition_thread", json!({"thread_id": last, "action": "close"}));
        let open = world.new_thread(&world.id("channel").to_string(), "for all to see");

        let after =
            |after: i64| json!({"workspace_id": workspace, "after_id": after, "kind": "ThreadCreated"});
        let page = world.agent("list_events", after(from));
        assert_eq!((&page["items"], &page["after_id"]), (&json!([]), &json!(from + PAGE_SCAN_MAX)));
        assert!(!page["next_cursor"].is_null(), "a page without visible items is not the end");
        let found = world.agent("wait_for_event", after(from));
        assert_eq!(found["items"].as_array().unwrap().len(), 1, "a wait goes on by itself");
        // A wait without time returns the last position read, and skips nothing.
        let mut hasty = after(from);
        hasty["timeout_secs"] = json!(0);
        let first = loop {
            let page = world.agent("wait_for_event", hasty.clone());
            if let Some(event) = page["items"].as_array().unwrap().first() {
                break event.clone();
            }
            assert!(page["after_id"].as_i64() > hasty["after_id"].as_i64(), "{page:#}");
            hasty["after_id"] = page["after_id"].clone();
        };
        assert_eq!(first["lsn"], found["items"][0]["lsn"]);
        let mut hello = first_frame(&world.people.agent, workspace, Some(from));
        hello["filter"]["kind"] = json!("ThreadCreated");
        let mut socket = Ws::subscribe(world.address(), &hello);
        assert_eq!(socket.frame()["type"], json!("subscribe_ack"));
        assert_eq!(socket.frame()["lsn"], found["items"][0]["lsn"], "a socket skips nothing");

        let empty_then = |caller: &str, operation: &str, input: Value| {
            let page = world.call(caller, operation, input.clone()).output();
            assert_eq!(page["items"], json!([]), "{operation}");
            assert!(!page["next_cursor"].is_null(), "{operation}");
            let mut input = input;
            input["cursor"] = page["next_cursor"].clone();
            world.call(caller, operation, input).output()["items"].as_array().unwrap().clone()
        };
        let admin = world.people.admin.as_str();
        let closed =
            empty_then(admin, "list_threads", json!({"channel_id": den, "state": "closed", "limit": 500}));
        assert_eq!(ids(&closed), [last.as_str()]);
        let minted = json!({"workspace_id": workspace, "action": "workspace.create", "limit": 500});
        let page = world.admin("list_audit", minted);
        assert!(page["items"].as_array().unwrap().is_empty() && !page["next_cursor"].is_null());
        let found =
            empty_then(admin, "list_operator_audit", json!({"action": "workspace.create", "limit": 500}));
        assert_eq!(found.len(), 2, "{found:#?}");
        let mut all = json!({"workspace_id": workspace, "limit": 500, "state": "open"});
        let mut seen = Vec::new();
        loop {
            let page = world.agent("list_workspace_threads", all.clone());
            seen.extend(ids(page["items"].as_array().unwrap()));
            if page["next_cursor"].is_null() {
                break;
            }
            all["cursor"] = page["next_cursor"].clone();
        }
        assert!(seen.contains(&open) && !seen.contains(&last));
    });
}

#[test]
fn a_made_up_cursor_is_rejected() {
    on_both_engines(|world| {
        for (input, status) in
            [(json!({"cursor": "x"}), 400), (json!({"limit": 0}), 400), (json!({"limit": 501}), 400)]
        {
            let answer = world.call(&world.people.admin, "list_workspaces", input);
            assert_eq!(answer.status, status, "{:#}", answer.body);
        }
    });
}

#[test]
fn a_list_of_claims_reads_a_bounded_part_and_returns_its_cursor() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let den = json!({"workspace_id": workspace, "name": "den", "private": true});
        let den = text(&world.admin("create_channel", den)["id"]);
        let hidden = world.new_thread(&den, "hidden");
        world.admin("claim_thread", json!({"thread_id": hidden}));
        let far = world.clock.now().plus(std::time::Duration::from_secs(3600));
        copy_claim(world, &hidden, PAGE_SCAN_MAX + 1, far.micros());
        // Later positions come after those of the copies.
        let behind = format!(
            "update heads set lsn = lsn + 10000 where workspace_id = {}",
            world.database.id(workspace)
        );
        world.database.execute(&behind);
        let seen = world.new_thread(&world.id("channel").to_string(), "for all to see");
        world.admin("claim_thread", json!({"thread_id": seen}));
        let lists = [
            ("list_active_claims", "thread_id", json!({"workspace_id": workspace, "limit": 5})),
            (
                "list_workspace_threads",
                "id",
                json!({"workspace_id": workspace, "assignee_id": world.id("admin"), "limit": 5}),
            ),
        ];
        for (operation, id, mut input) in lists {
            let mut found = Vec::new();
            for page in 0.. {
                let answer = world.agent(operation, input.clone());
                let items = answer["items"].as_array().unwrap();
                assert!(
                    page > 0 || items.iter().all(|item| item[id] != json!(seen)),
                    "{operation}: more than the bounded part"
                );
                found.extend(items.iter().map(|item| text(&item[id])));
                if answer["next_cursor"].is_null() {
                    break;
                }
                input["cursor"] = answer["next_cursor"].clone();
            }
            assert!(found.contains(&seen) && !found.contains(&hidden), "{operation}: {found:?}");
        }
    });
}

/// Returns an input of about 360 kB.
fn long_message(thread: &str) -> Value {
    let body = "x".repeat(MESSAGE_MAX);
    let metadata = json!({"long": "x".repeat(JSON_MAX_BYTES - 11)});
    json!({"thread_id": thread, "body": body, "metadata": metadata})
}

fn bytes(value: &Value) -> usize {
    value.to_string().len()
}

/// Reads a list to its end; `next` prepares the input of the next page.
///
/// No page exceeds its limit, and a page without an item is the last.
fn read(
    world: &World,
    operation: &str,
    mut input: Value,
    next: impl Fn(&Value, &mut Value) -> bool,
) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    loop {
        let page = world.admin(operation, input.clone());
        let items = page["items"].as_array().unwrap().clone();
        let but_the_last: usize = items.iter().rev().skip(1).map(bytes).sum();
        assert!(but_the_last < PAGE_BYTES, "{operation}: {but_the_last} bytes and one item");
        let more = next(&page, &mut input);
        assert!(!items.is_empty() || !more, "{operation}: a page without an item is not the last");
        pages.push(items);
        if !more {
            return pages;
        }
    }
}

fn by_cursor(page: &Value, input: &mut Value) -> bool {
    input["cursor"] = page["next_cursor"].clone();
    !input["cursor"].is_null()
}

fn lsns(pages: &[Vec<Value>]) -> Vec<i64> {
    pages.iter().flatten().map(|item| item["lsn"].as_i64().unwrap()).collect()
}

/// Checks that the list took more than one page, with each wanted item once and in order.
fn check_whole(name: &str, pages: &[Vec<Value>], wanted: &[i64]) {
    assert_eq!(lsns(pages), wanted, "{name}: every item once, in order");
    assert!(pages.len() > 1, "{name} came as one page");
}

#[test]
fn a_page_ends_by_bytes_and_nothing_is_left_out() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let thread = world.new_thread(&world.id("channel").to_string(), "long");
        let from = world.lsn();
        let mut posted = Vec::new();
        for number in 0..LONG + SHORT + 1 {
            let short = (LONG..LONG + SHORT).contains(&number);
            let brief = json!({"thread_id": thread, "body": number.to_string()});
            posted.push(world.agent("post_message", if short { brief } else { long_message(&thread) }));
        }
        let wanted: Vec<i64> = posted.iter().map(|post| post["lsn"].as_i64().unwrap()).collect();

        let list = json!({"thread_id": thread, "limit": 500});
        let messages = read(world, "list_messages", list.clone(), by_cursor);
        check_whole("list_messages", &messages, &wanted);
        assert_eq!(messages[0].len(), LONG, "the last of them fills the page");
        assert!(messages.iter().flatten().all(|message| message["unreadable"] == json!(false)));

        let log = json!({"workspace_id": workspace, "after_id": from, "limit": 500});
        let by_position = |page: &Value, input: &mut Value| {
            input["after_id"] = page["after_id"].clone();
            !page["next_cursor"].is_null()
        };
        let events = read(world, "list_events", log.clone(), by_position);
        check_whole("list_events", &events, &wanted);
        assert_eq!(events[0].len(), LONG - 1, "an event has its plaintext twice, sealed and open");
        let wait = world.admin("wait_for_event", log);
        assert_eq!((&wait["items"], &wait["after_id"]), (&json!(events[0]), &events[0][LONG - 2]["lsn"]));
        let of_thread = world.admin("list_thread_events", list);
        // The thread's creation comes first.
        assert_eq!(of_thread["items"].as_array().unwrap()[1..], events[0]);

        let context = world.admin("get_thread_context", json!({"thread_id": thread}));
        let last: Vec<String> =
            context["messages"].as_array().unwrap().iter().map(|message| text(&message["id"])).collect();
        let ids: Vec<String> = posted.iter().map(|post| text(&post["id"])).collect();
        assert_eq!((&*last, &context["messages_omitted"]), (&ids[1..], &json!(1)), "the latest that fit");
    });
}

#[test]
fn results_end_a_page_by_bytes_too() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let channel = world.new_channel("results");
        let mut wanted = Vec::new();
        for number in 0..6 {
            let thread = world.new_thread(&channel, "work");
            let claim = world.agent("claim_thread", json!({"thread_id": thread}));
            let result = json!({"long": "x".repeat(JSON_MAX_BYTES - 40), "number": number});
            let set = json!({"thread_id": thread, "claim_lease_id": claim["claim_lease_id"],
                             "result_kind": "test.long/1", "result": result});
            wanted.push(world.agent("set_thread_result", set)["lsn"].as_i64().unwrap());
        }
        let list = json!({"workspace_id": workspace, "result_kind": "test.long/1", "limit": 500});
        let pages = read(world, "list_thread_results", list, by_cursor);
        check_whole("list_thread_results", &pages, &wanted);
    });
}

#[test]
fn threads_are_listed_from_either_end() {
    on_both_engines(|world| {
        let channel = world.new_channel("long");
        let threads: Vec<String> = (0..9).map(|n| world.new_thread(&channel, &format!("{n}"))).collect();
        world.admin("cancel_thread", json!({"thread_id": threads[4], "reason": "not needed"}));
        for state in [None, Some("open")] {
            let listed = |newest_first: bool| {
                let input = json!({
                    "channel_id": channel, "state": state, "newest_first": newest_first, "limit": 2,
                });
                ids(&traverse(world, "list_threads", &input))
            };
            let oldest_first = listed(false);
            let mut newest_first = listed(true);
            newest_first.reverse();
            assert_eq!(oldest_first, newest_first);
            assert_eq!(oldest_first.len(), if state.is_some() { 8 } else { 9 });
        }
        let title = "claimed by a member";
        let claimed: Vec<String> = (0..3).map(|_| world.new_thread(&channel, title)).collect();
        claimed.iter().for_each(|thread| drop(world.admin("claim_thread", json!({"thread_id": thread}))));
        for thread in &threads[..3] {
            world.admin("transition_thread", json!({"thread_id": thread, "action": "close"}));
        }
        for filter in [
            json!({}),
            json!({"state": "closed"}),
            json!({"claimed": true}),
            json!({"claimable": true}),
            json!({"claimable": false}),
            json!({"assignee_id": world.id("admin")}),
        ] {
            let listed = |newest_first: bool, limit: usize| {
                let mut input = filter.clone();
                input["newest_first"] = json!(newest_first);
                input["limit"] = json!(limit);
                ids(&traverse(world, "list_workspace_threads", &input))
            };
            let oldest_first = listed(false, 500);
            let mut newest_first = listed(true, 500);
            assert_eq!(newest_first, listed(true, 1), "{filter}");
            newest_first.reverse();
            assert_eq!(newest_first, oldest_first, "{filter}");
            assert_eq!(oldest_first, listed(false, 2), "{filter}");
            assert!(oldest_first.len() >= 3, "{filter}");
        }
    });
}

#[test]
fn what_was_said_and_done_in_a_thread_is_listed_from_either_end() {
    on_both_engines(|world| {
        let thread = world.id("thread");
        let said = json!({"thread_id": thread, "body": "of seven"});
        (0..7).for_each(|_| drop(world.admin("post_message", said.clone())));
        for operation in ["list_messages", "list_thread_events"] {
            let listed = |newest_first: bool| {
                let input = json!({"thread_id": thread, "newest_first": newest_first, "limit": 3});
                traverse(world, operation, &input).iter().map(|row| row["lsn"].as_i64()).collect::<Vec<_>>()
            };
            let oldest_first = listed(false);
            assert!(oldest_first.iter().eq(listed(true).iter().rev()), "{operation}");
            assert!(oldest_first.len() >= 7 && oldest_first.is_sorted(), "{operation}");
        }
    });
}

/// From the end of a page, the pages before and after it are the rest of the list.
#[test]
fn a_cursor_serves_a_list_in_either_direction() {
    on_both_engines(|world| {
        let channel = world.new_channel("long");
        (0..5).for_each(|n| drop(world.new_thread(&channel, &format!("{n}"))));
        let read = |more: Value| {
            let mut input = json!({"limit": 500});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            world.admin("list_workspace_threads", input)
        };
        let all = ids(read(json!({}))["items"].as_array().unwrap());
        let first = read(json!({"newest_first": true, "limit": 3}));
        let cursor = first["next_cursor"].clone();
        let back = ids(read(json!({"cursor": cursor}))["items"].as_array().unwrap());
        assert_eq!(back, all[all.len() - 2..], "what was before it");
        let on = read(json!({"newest_first": true, "cursor": cursor}));
        assert_eq!(ids(on["items"].as_array().unwrap()).len(), all.len() - 3, "what comes after it");
    });
}

#[test]
fn the_newest_threads_of_a_workspace_are_found_behind_many_others() {
    on_both_engines(|world| {
        let closed = world.new_thread(&world.id("channel").to_string(), "done");
        world.admin("transition_thread", json!({"thread_id": closed, "action": "close"}));
        let den = world.new_private_channel("den");
        let scan = usize::try_from(PAGE_SCAN_MAX).unwrap();
        in_parallel(WRITERS, |_| (0..=scan / WRITERS).for_each(|_| drop(world.new_thread(&den, "hidden"))));
        for filter in [json!({"state": "closed"}), json!({"claimable": false, "state": "closed"})] {
            let mut input = filter;
            input["newest_first"] = json!(true);
            let page = world.agent("list_workspace_threads", input.clone());
            assert_eq!(page["items"], json!([]), "a page reads a bounded part");
            assert!(!page["next_cursor"].is_null());
            assert_eq!(ids(&traverse(world, "list_workspace_threads", &input))[0], closed);
        }
    });
}

/// Maximum tokens of a page for a model with default parameters.
const PAGE_TOKENS: usize = 3_000;
/// Maximum tokens of the context of a thread, which has its last messages.
const PACK_TOKENS: usize = 4_000;

#[test]
fn a_page_over_mcp_costs_a_model_little_unless_it_asks_for_more() {
    let world = World::open(svc_core::Engine::Sqlite);
    let channel = world.new_channel("long");
    let mcp = world.mcp();
    let thread = world.new_thread(&channel, "Sweep the hall");
    for number in 0..60 {
        world.new_thread(&channel, &format!("Sweep room {number} before the others come"));
        let body = "I looked at the hall again: one window of it does not close, so I stay and mend it today \
                    before it rains.";
        world.agent("post_message", json!({"thread_id": thread, "body": body}));
    }
    let about = json!({"workspace_id": world.id("workspace"), "channel_id": channel, "thread_id": thread});
    let is_read = |row: &Operation| row.is_detailed() && row.effect().is_read_only();
    let mut dear = Vec::new();
    let tools = world.service.table().shared_operations().filter(|row| is_read(row) && !row.http().rest_only);
    for operation in tools {
        let schema = operation.input_schema();
        let fields = schema["properties"].as_object().unwrap();
        let mut input = operation.docs().example(&world.fixture).unwrap();
        for (name, id) in about.as_object().unwrap() {
            if input.get(name).is_some() && operation.effect() == Effect::Read {
                input[name] = id.clone();
            }
        }
        for name in ["limit", "cursor"] {
            input.as_object_mut().unwrap().remove(name);
        }
        if fields.contains_key("after_id") {
            input["after_id"] = json!(0);
        }
        let answer = mcp.call(Some(&world.people.admin), operation, &input).output();
        let cost = tokens(&answer.to_string());
        let most = if fields.contains_key("limit") { PAGE_TOKENS } else { PACK_TOKENS };
        if cost > most {
            dear.push(format!("{operation:?}: {cost} tokens, {answer}"));
        }
    }
    assert!(dear.is_empty(), "{dear:#?}");
}
