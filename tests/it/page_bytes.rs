//! Pages end by bytes: however long what a list lists, a page has one MiB of it and one item at the most, and all pages
//! together have each item once.

use serde_json::{Value, json};
use svc_core::limits::{JSON_MAX_BYTES, MESSAGE_MAX, PAGE_BYTES};
use svc_tests::{World, on_both_engines, text};

/// So many of these come to a page of messages.
const LONG: usize = 3;
/// Much shorter ones after them; then one more that is long.
const SHORT: usize = 3;

/// About 360 kB.
fn long_message(thread: &str) -> Value {
    let body = "x".repeat(MESSAGE_MAX);
    let metadata = json!({"long": "x".repeat(JSON_MAX_BYTES - 11)});
    json!({"thread_id": thread, "body": body, "metadata": metadata})
}

fn bytes(value: &Value) -> usize {
    value.to_string().len()
}

/// Reads a list to its end, going on as `next` says. No page is longer than it may be, and a page without an item is
/// the last.
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
        assert!(!items.is_empty() || !more, "{operation}: a page without an item is no end");
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

/// Checks that it took pages to list what was wanted, each item once and in order.
fn check_whole(name: &str, pages: &[Vec<Value>], wanted: &[i64]) {
    assert_eq!(lsns(pages), wanted, "{name}: every item once, in order");
    assert!(pages.len() > 1, "{name} came as one page");
}

#[test]
fn a_page_ends_by_bytes_and_nothing_is_left_out() {
    on_both_engines(|world| {
        let workspace = world.fixture.workspace_id;
        let thread = world.new_thread(&world.fixture.channel_id.to_string(), "long");
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
        assert_eq!(events[0].len(), LONG - 1, "an event has its words twice, sealed and open");
        let wait = world.admin("wait_for_event", log);
        assert_eq!((&wait["items"], &wait["after_id"]), (&json!(events[0]), &events[0][LONG - 2]["lsn"]));
        let of_thread = world.admin("list_thread_events", list);
        // The thread's creation comes first.
        assert_eq!(of_thread["items"].as_array().unwrap()[1..], events[0]);

        let context = world.admin("get_thread_context", json!({"thread_id": thread}));
        let last: Vec<String> =
            context["messages"].as_array().unwrap().iter().map(|message| text(&message["id"])).collect();
        let ids: Vec<String> = posted.iter().map(|post| text(&post["id"])).collect();
        assert_eq!(last, ids[1..], "a context pack has the last that fit");
    });
}

#[test]
fn results_end_a_page_by_bytes_too() {
    on_both_engines(|world| {
        let workspace = world.fixture.workspace_id;
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
