//! Lists: a cursor passes over nothing, however many write at the same time.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use svc_tests::{World, in_parallel, on_both_engines, text};

const WRITERS: usize = 8;
const EACH: usize = 40;

/// The whole list, page by page.
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
fn a_list_read_while_others_write_is_a_beginning_of_the_whole() {
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
                assert_eq!(traversal[..], whole[..traversal.len()], "{operation} passed over something");
            }
        }
    });
}

#[test]
fn the_log_read_while_others_write_has_no_gap() {
    on_both_engines(|world| {
        let workspace = world.fixture.workspace_id;
        let from = world.lsn();
        let last = from + i64::try_from(WRITERS * EACH).unwrap();
        let seen = in_parallel(WRITERS + 1, |number| {
            let mut seen = Vec::new();
            if number < WRITERS {
                for n in 0..EACH {
                    let body = format!("{number} says {n}");
                    world.agent("post_message", json!({"thread_id": world.fixture.thread_id, "body": body}));
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
fn a_cursor_of_nobodys_making_is_refused() {
    on_both_engines(|world| {
        for (input, status) in
            [(json!({"cursor": "x"}), 400), (json!({"limit": 0}), 400), (json!({"limit": 501}), 400)]
        {
            let answer = world.call(&world.people.admin, "list_workspaces", input);
            assert_eq!(answer.status, status, "{:#}", answer.body);
        }
    });
}
