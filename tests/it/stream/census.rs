//! The census: it returns the counts that its reader could have computed, however long the log is.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::{World, in_parallel, on_both_engines, text};

type Counts = BTreeMap<String, i64>;

fn with(world: &World, more: &Value) -> Value {
    let mut input = json!({"workspace_id": world.id("workspace")});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    input
}

/// Returns the counts of the census, whose sum must be its total.
fn census(world: &World, token: &str, of: &Value) -> Counts {
    let found = world.call(token, "get_kind_census", with(world, of)).output();
    let counts: Counts = found["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (text(&item["kind"]), item["count"].as_i64().unwrap()))
        .collect();
    assert_eq!(counts.values().sum::<i64>(), found["total"].as_i64().unwrap());
    assert_eq!(found["head_lsn"], world.lsn());
    counts
}

/// Returns the counts that a reader of the log computes.
fn counted(world: &World, token: &str, of: &Value) -> Counts {
    let mut counts = Counts::new();
    let mut input = with(world, of);
    input["limit"] = json!(200);
    loop {
        let page = world.call(token, "list_events", input.clone()).output();
        for event in page["items"].as_array().unwrap() {
            *counts.entry(text(&event["kind"])).or_default() += 1;
        }
        if page["next_cursor"].is_null() {
            return counts;
        }
        input["cursor"] = page["next_cursor"].clone();
    }
}

/// Compares both for all readers, and for each part of the log that can be requested.
fn agrees(world: &World, other: &str, what: &str) {
    let thread = json!(world.id("thread"));
    let private = &world.people.private_thread_id;
    let parts = [
        json!({}),
        json!({"channel_id": world.id("channel")}),
        json!({"thread_id": thread}),
        json!({"thread_id": private}),
    ];
    for (who, token) in [("admin", &*world.people.admin), ("agent", &world.people.agent), ("other", other)] {
        for part in &parts {
            assert_eq!(census(world, token, part), counted(world, token, part), "{what}: {who}, {part}");
        }
    }
}

fn post_many(world: &World, count: usize) {
    let thread = json!(world.id("thread"));
    in_parallel(8, |_| {
        for _ in 0..count / 8 {
            world.agent("post_message", json!({"thread_id": thread, "body": "a word"}));
        }
    });
}

#[test]
fn a_census_counts_what_its_reader_could_have_counted() {
    on_both_engines(|world| {
        let (_, other) = world.new_agent("elsewhere");
        let agrees = |world: &World, what: &str| agrees(world, &other, what);
        let day = Duration::from_secs(86_400);
        agrees(world, "before anything is counted ahead");
        let input = json!({"workspace_id": world.id("workspace"), "events_days": 10});
        world.admin("set_retention_policy", input);
        post_many(world, 1000);
        world.pass(Duration::ZERO);
        let ahead = || world.database.number("select coalesce(max(lsn), 0) from census_at");
        let first = ahead();
        assert!(first > 1000, "{first}");
        agrees(world, "once the most are counted ahead");
        world.pass(6 * day);
        post_many(world, 1000);
        let private = json!({"thread_id": world.people.private_thread_id, "body": "in private"});
        world.admin("post_message", private);
        world.pass(Duration::ZERO);
        assert!(ahead() > first);
        world.pass(5 * day);
        agrees(world, "once a part of what was counted is pruned");
        let input = json!({"workspace_id": world.id("workspace")});
        assert!(world.admin("get_room", input)["floor"].as_i64().unwrap() > 1000);
        post_many(world, 80);
        world.pass(20 * day);
        agrees(world, "once all that was counted is pruned");
    });
}

#[test]
fn a_census_of_another_workspace_is_not_found() {
    on_both_engines(|world| {
        let input = json!({"workspace_id": world.id("workspace")});
        world.call(&world.people.outsider, "get_kind_census", input).refused(404, "not-found");
    });
}

#[test]
fn a_pruning_is_declared_in_parts_that_change_so_many_counts_each() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        // A different event in each channel.
        in_parallel(4, |number| (0..135).for_each(|n| drop(world.new_channel(&format!("c{number}-{n}")))));
        world.pass(Duration::ZERO);
        let created = world.lsn();
        world.admin("set_retention_policy", json!({"workspace_id": workspace, "events_days": 1}));
        world.pass(Duration::from_secs(3 * 86_400));
        let declared = world.admin("list_events", json!({"workspace_id": workspace, "kind": "EventsPruned"}));
        let declared = declared["items"].as_array().unwrap();
        let floors: Vec<i64> =
            declared.iter().map(|event| event["payload"]["floor"].as_i64().unwrap()).collect();
        assert!(floors.len() == 2 && floors[0] < floors[1] && floors[1] > created, "{floors:?}");
        assert!(declared[0]["payload"]["before"].as_str() < declared[1]["payload"]["before"].as_str());
        let verified = world.admin("verify_event_chain", json!({"workspace_id": workspace}));
        assert_eq!((&verified["valid"], &verified["floor"]), (&json!(true), &json!(floors[1])));
        agrees(world, &world.people.agent, "after both");
    });
}
