//! Dependencies between threads: blocking, cycles, and limits.
//!
//! The limits are on the threads that a close changes, and on the graph that a dependency is checked against.
//! A dependency that exceeds a limit is rejected before it exists.

use serde_json::{Value, json};
use svc_core::limits::{DEPENDENCY_WALK_MAX, DEPENDENTS_MAX};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, text};

use crate::coordination::budgets::with;

fn id(world: &World, text: &str) -> String {
    world.database.id(text.parse::<uuid::Uuid>().unwrap())
}

fn new_thread(world: &World) -> String {
    world.new_thread(&world.id("channel").to_string(), "one of many")
}

fn wait_for(world: &World, thread: &str, depends_on: &str) -> Answer {
    let input = json!({"thread_id": thread, "depends_on_id": depends_on});
    world.call(&world.people.admin, "add_thread_dependency", input)
}

#[test]
fn a_close_unblocks_a_bounded_number_of_threads() {
    on_both_engines(|world| {
        let awaited = new_thread(world);
        let another = new_thread(world);
        let rows = format!("select {}, {}, 1 from n", world.database.any_id(), id(world, &awaited));
        let insert = format!("insert into thread_dependencies (thread_id, depends_on_id, lsn) {rows}");
        world.database.insert_many(DEPENDENTS_MAX - 1, &insert);
        wait_for(world, &another, &awaited).output();
        let late = new_thread(world);
        let refusal = wait_for(world, &late, &awaited).refused(409, "wrong-state");
        assert!(text(&refusal["detail"]).contains("1000 threads wait"), "{refusal}");
        let input = json!({"channel_id": world.id("channel"), "title": "late", "depends_on": [awaited]});
        world.call(&world.people.admin, "create_thread", input).refused(409, "wrong-state");
        wait_for(world, &another, &awaited).output();
        let close = json!({"thread_id": awaited, "action": "close"});
        let lsn = world.lsn();
        world.admin("transition_thread", close);
        assert_eq!(world.kinds_after(lsn), ["ThreadStateChanged", "ThreadReady"]);
    });
}

#[test]
fn the_search_for_a_cycle_visits_a_bounded_number_of_threads() {
    on_both_engines(|world| {
        let first = new_thread(world);
        let second = new_thread(world);
        let third = new_thread(world);
        let many = |count: i64, from: &str, to: &str| {
            let insert = "insert into thread_dependencies (thread_id, depends_on_id, lsn) select";
            world.database.insert_many(count, &format!("{insert} {from}, {to}, 1 from n"));
        };
        // Many threads wait for the first, through one. The search from the other end meets few threads,
        // which is enough.
        let through = id(world, &uuid::Uuid::from_u128(0x11).to_string());
        many(1, &through, &id(world, &first));
        many(DEPENDENCY_WALK_MAX, world.database.any_id(), &through);
        wait_for(world, &first, &second).output();
        wait_for(world, &second, &first).refused(409, "dependency-cycle");
        wait_for(world, &first, &third).output();
        // The search from the other end meets as many threads.
        let fourth = new_thread(world);
        let beyond = id(world, &uuid::Uuid::from_u128(0x22).to_string());
        many(1, &id(world, &fourth), &beyond);
        many(DEPENDENCY_WALK_MAX, &beyond, world.database.any_id());
        let refusal = wait_for(world, &first, &fourth).refused(409, "wrong-state");
        assert!(text(&refusal["detail"]).contains("5000 or more threads"), "{refusal}");
        wait_for(world, &new_thread(world), &fourth).output();
    });
}

#[test]
fn dependencies_block_unblock_and_never_form_a_cycle() {
    on_both_engines(|world| {
        let [a, b, c] =
            ["a", "b", "c"].map(|title| world.new_thread(&world.id("channel").to_string(), title));
        let add = |thread: &str, on: &str| {
            let input = json!({"thread_id": thread, "depends_on_id": on});
            world.call(&world.people.admin, "add_thread_dependency", input)
        };
        let blocked =
            |thread: &str| world.admin("get_thread", json!({"thread_id": thread}))["blocked"].clone();
        add(&b, &a).output();
        add(&c, &b).output();
        let lsn = world.lsn();
        add(&c, &b).output();
        assert_eq!(world.lsn(), lsn, "a repeated call changes nothing");
        for (thread, on) in [(&a, &c), (&a, &a), (&b, &c)] {
            add(thread, on).refused(409, "dependency-cycle");
        }
        assert_eq!((blocked(&b), blocked(&c)), (json!(1), json!(1)));

        let close = |thread: &str, action: &str| {
            world.admin("transition_thread", json!({"thread_id": thread, "action": action}))
        };
        let lsn = world.lsn();
        close(&a, "close");
        assert_eq!(world.kinds_after(lsn), ["ThreadStateChanged", "ThreadReady"]);
        assert_eq!(blocked(&b), json!(0));
        close(&a, "reopen");
        assert_eq!(blocked(&b), json!(1), "a dependency was reopened");
        let lsn = world.lsn();
        world.admin("cancel_thread", json!({"thread_id": a, "reason": "not needed"}));
        assert!(
            !world.kinds_after(lsn).contains(&"ThreadReady".to_owned()),
            "a cancel does not announce dependents"
        );
        assert_eq!(blocked(&b), json!(0));
        let remove = json!({"thread_id": c, "depends_on_id": b});
        assert_eq!(world.admin("remove_thread_dependency", remove.clone())["blocked"], 0);
        world.call(&world.people.admin, "remove_thread_dependency", remove).refused(404, "not-found");
    });
}

#[test]
fn a_thread_that_cannot_be_claimed_is_not_announced_as_ready() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let cases: [(&str, fn(&World, &str), bool); 5] = [
            ("nothing else", |_, _| (), true),
            ("exhausted", |world, thread| drop(limited(world, thread, json!({"max_turns": 0}))), false),
            (
                "dead",
                |world, thread| {
                    limited(world, thread, json!({"max_attempts": 1}));
                    let claim = world.agent("claim_thread", json!({"thread_id": thread}));
                    let lease = json!({"thread_id": thread, "claim_lease_id": claim["claim_lease_id"]});
                    assert_eq!(world.agent("release_claim", lease)["dead"], json!(true));
                    limited(world, thread, json!({}));
                },
                false,
            ),
            (
                "claimed",
                |world, thread| drop(world.agent("claim_thread", json!({"thread_id": thread}))),
                false,
            ),
            (
                "in review",
                |world, thread| {
                    let input = json!({"thread_id": thread, "action": "start_review"});
                    world.admin("transition_thread", input);
                },
                false,
            ),
        ];
        for (name, happens, is_announced) in cases {
            for is_removed in [false, true] {
                let awaited = world.new_thread(&channel, "first");
                let waiting = world.new_thread(&channel, name);
                happens(world, &waiting);
                wait_for(world, &waiting, &awaited).output();
                let lsn = world.lsn();
                if is_removed {
                    let input = json!({"thread_id": waiting, "depends_on_id": awaited});
                    world.admin("remove_thread_dependency", input);
                } else {
                    world.admin("transition_thread", json!({"thread_id": awaited, "action": "close"}));
                }
                let found = world.kinds_after(lsn).contains(&"ThreadReady".to_owned());
                assert_eq!(found, is_announced, "{name}, removed: {is_removed}");
            }
        }
    });
}

fn limited(world: &World, thread: &str, limits: Value) -> Value {
    world.admin("set_thread_budget", with(thread, limits))
}
