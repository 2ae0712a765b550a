//! Retention: retention times, pruning, and the proof of a pruned log.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::verify::{ChainReport, verify_database};
use svc_tests::client::Answer;
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::search::Needle;
use svc_tests::{Setup, World, in_parallel, on_both_engines, text};

use crate::conversation::sealed::{KEK_ID_BYTES, shelf};
use crate::conversation::withdraw::{found, is_scrubbed};

const DAY: Duration = Duration::from_secs(86_400);

fn keep(world: &World, kept: Value) -> Answer {
    let mut input = json!({"workspace_id": world.id("workspace")});
    input.as_object_mut().unwrap().extend(kept.as_object().unwrap().clone());
    world.call(&world.people.admin, "set_retention_policy", input)
}

fn policy(world: &World) -> Value {
    world.admin("get_retention_policy", json!({"workspace_id": world.id("workspace")}))
}

fn post(world: &World, body: &str) -> Value {
    world.agent("post_message", json!({"thread_id": world.id("thread"), "body": body}))
}

/// Returns the report of `svc verify` on the workspace's log.
pub fn verified(world: &World) -> ChainReport {
    verify_database(&world.database.address(), Some(world.id("workspace").into()), None).unwrap().remove(0)
}

fn stored_events(world: &World) -> i64 {
    world.database.number(&format!(
        "select count(*) from events where workspace_id = {}",
        world.database.id(world.id("workspace"))
    ))
}

#[test]
fn a_workspace_keeps_things_for_no_longer_than_the_instance() {
    on_both_engines(|world| {
        let unset = json!({"messages_days": null, "events_days": null, "deliveries_days": null,
            "media_days": null, "media_quota_bytes": null});
        let instance = json!({"messages_days": null, "events_days": null, "deliveries_days": null,
            "media_days": 30, "media_quota_bytes": 21_474_836_480_i64});
        let found = policy(world);
        assert_eq!((&found["workspace"], &found["instance"]), (&unset, &instance));
        assert_eq!(
            (&found["effective"], &found["pending"]),
            (&instance, &json!({"events": 0, "messages": 0}))
        );
        let before = world.lsn();
        let set = keep(world, json!({"messages_days": 90, "media_days": 7})).output();
        assert_eq!(
            (&set["effective"]["messages_days"], &set["effective"]["media_days"]),
            (&json!(90), &json!(7))
        );
        assert_eq!(set["effective"]["media_quota_bytes"], instance["media_quota_bytes"]);
        assert_eq!(policy(world), set);
        keep(world, json!({"messages_days": 90, "media_days": 7, "events_days": null})).output();
        assert_eq!(world.kinds_after(before), ["RetentionPolicySet"], "the same again changes nothing");
        let audit = world.admin("list_audit", json!({"workspace_id": world.id("workspace"), "limit": 200}));
        let rows = audit["items"].as_array().unwrap();
        let row = rows.iter().find(|row| row["action"] == "retention_policy.set").unwrap();
        assert_eq!(row["metadata"]["messages_days"], 90);
        for (refused, why) in [
            (json!({"media_days": 31}), "longer than the instance keeps them"),
            (json!({"media_quota_bytes": 21_474_836_481_i64}), "more than the instance keeps"),
            (json!({"events_days": 0}), "below a day"),
            (json!({"events_days": 3651}), "above ten years"),
            (json!({"messages_days": "90"}), "no number"),
            (json!({"minutes": 5}), "unknown"),
        ] {
            assert_eq!(keep(world, refused).status, 400, "{why}");
        }
        assert_eq!(policy(world), set, "what is refused changes nothing");
        assert_eq!(keep(world, json!({})).output()["workspace"], unset);
    });
}

#[test]
fn events_go_by_their_days_and_the_log_is_verified_from_its_floor() {
    on_both_engines(|world| {
        keep(world, json!({"events_days": 10})).output();
        let kept = post(world, "stays readable");
        let old = world.lsn();
        let head_then = verified(world).head;
        post(world, "goes too");
        world.pass(11 * DAY);
        // The round has declared the floor, and has already removed the events below it.
        let floor = policy_of_log(world);
        assert!(floor > old, "{floor}");
        let report = verified(world);
        assert!(report.valid, "{report:?}");
        assert_eq!((report.floor, report.events), (floor, world.lsn() - floor + 1));
        assert_eq!(stored_events(world), report.events);
        assert_eq!(policy(world)["pending"]["events"], 0);

        let workspace = world.id("workspace");
        let at = |after: i64| json!({"workspace_id": workspace, "after_id": after});
        let page = world.admin("list_events", json!({"workspace_id": workspace}));
        assert_eq!(page["items"][0]["lsn"], floor, "without a position a page begins at the floor");
        let admin = &world.people.admin;
        for (operation, input) in [
            ("list_events", at(0)),
            ("list_events", at(floor - 2)),
            ("wait_for_event", at(0)),
            ("catch_up_events", json!({"workspace_id": workspace, "after_lsn": floor - 2})),
        ] {
            let refused = world.call(admin, operation, input).refused(409, "must_refetch");
            assert_eq!((&refused["floor"], &refused["code"]), (&json!(floor), &json!("CursorTooOld")));
        }
        world.admin("list_events", at(floor - 1));
        let of_thread = world.admin("list_thread_events", json!({"thread_id": world.id("thread")}));
        assert_eq!(of_thread["items"], json!([]), "what is below the floor is not there");
        let tombstones =
            world.admin("list_tombstones", json!({"workspace_id": workspace, "include_purged": true}));
        assert_eq!(tombstones["items"], json!([]));
        assert_eq!(world.admin("get_message", json!({"message_id": kept["id"]}))["body"], "stays readable");

        let head =
            |lsn: i64, hash: &str| json!({"workspace_id": workspace, "expect_head": format!("{lsn}:{hash}")});
        let below = world.admin("verify_event_chain", head(head_then.lsn, &head_then.hash));
        assert_eq!((&below["valid"], &below["expected"]), (&json!(true), &json!("below-floor")));
        let now = verified(world).head;
        let contained = world.admin("verify_event_chain", head(now.lsn, &now.hash));
        assert_eq!(contained["expected"], "contained");

        // The log comes to rest: the declarations of earlier rounds cause no further ones.
        let lsn = world.lsn();
        world.pass(11 * DAY);
        let after = world.lsn();
        assert_eq!(world.kinds_after(lsn), vec!["EventsPruned"; usize::try_from(after - lsn).unwrap()]);
        world.pass(11 * DAY);
        world.pass(11 * DAY);
        assert_eq!(world.lsn(), after);
        post(world, "and goes on");
        assert!(verified(world).valid);
    });
}

/// Returns the floor of the workspace's log.
fn policy_of_log(world: &World) -> i64 {
    world.admin("get_room", json!({"workspace_id": world.id("workspace")}))["floor"].as_i64().unwrap()
}

#[test]
fn messages_go_by_their_days_with_all_that_hangs_on_them() {
    on_both_engines(|world| {
        let thread = json!(world.id("thread"));
        let old = post(world, "goes");
        world.agent("edit_message", json!({"message_id": old["id"], "body": "goes, edited"}));
        keep(world, json!({"messages_days": 10})).output();
        world.clock.advance(11 * DAY);
        let new = post(world, "stays");
        let pending = policy(world)["pending"]["messages"].as_i64().unwrap();
        assert!(pending >= 2, "{pending}");
        let before = world.lsn();
        world.pass(Duration::ZERO);
        let pruned: Vec<Value> = world.admin(
            "list_events",
            json!({"workspace_id": world.id("workspace"), "after_id": before, "kind": "MessagesPruned"}),
        )["items"]
            .as_array()
            .unwrap()
            .clone();
        assert_eq!(pruned.len(), 1, "one event tells of all");
        let payload = &pruned[0]["payload"];
        assert_eq!((&payload["messages"], &payload["reason"]), (&json!(pending), &json!("retention")));
        for operation in ["get_message", "list_message_edits", "delete_message", "purge_message"] {
            let input = json!({"message_id": old["id"]});
            world.call(&world.people.admin, operation, input).refused(404, "not-found");
        }
        let input = json!({"message_id": old["id"], "body": "again"});
        world.call(&world.people.agent, "edit_message", input).refused(404, "not-found");
        let listed = world.admin("list_messages", json!({"thread_id": thread}));
        let ids: Vec<&Value> =
            listed["items"].as_array().unwrap().iter().map(|message| &message["id"]).collect();
        assert_eq!(ids, [&new["id"]]);
        assert_eq!(world.admin("get_message", json!({"message_id": new["id"]}))["body"], "stays");
        let words = |event: &Value| event["message"]["body"].clone();
        let events = world.admin("list_thread_events", json!({"thread_id": thread, "limit": 200}));
        let said: Vec<Value> = events["items"].as_array().unwrap().iter().map(words).collect();
        assert!(said.contains(&json!("stays")) && said.contains(&json!("")), "{said:?}");
        assert!(!events.to_string().contains("goes"), "the events stay, and say nothing");
        for table in ["messages", "message_edits"] {
            let left = world.database.number(&format!("select count(*) from {table}"));
            assert_eq!(left, i64::from(table == "messages"), "{table}");
        }
        assert!(verified(world).valid);
        let report = policy(world);
        assert_eq!(report["pending"], json!({"events": 0, "messages": 0}));
        let lsn = world.lsn();
        world.pass(Duration::ZERO);
        assert_eq!(world.lsn(), lsn, "nothing is left to do");
    });
}

#[test]
fn nothing_is_pruned_under_a_hold() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        keep(world, json!({"messages_days": 1, "events_days": 1})).output();
        let old = post(world, "evidence");
        let hold = world.admin("place_legal_hold", json!({"workspace_id": workspace, "reason": "a dispute"}));
        world.pass(Duration::from_secs(1));
        world.pass(5 * DAY);
        let before = (world.lsn(), stored_events(world));
        world.pass(5 * DAY);
        assert_eq!((world.lsn(), stored_events(world)), before);
        assert!(policy(world)["pending"]["events"].as_i64().unwrap() > 0, "what would go without the hold");
        assert_eq!(world.admin("get_message", json!({"message_id": old["id"]}))["body"], "evidence");
        world.admin("release_legal_hold", json!({"workspace_id": workspace, "hold_id": hold["id"]}));
        world.pass(Duration::ZERO);
        world
            .call(&world.people.admin, "get_message", json!({"message_id": old["id"]}))
            .refused(404, "not-found");
        assert!(stored_events(world) < before.1);
        assert!(verified(world).valid);
    });
}

#[test]
fn a_log_that_is_broken_is_not_pruned() {
    on_both_engines(|world| {
        keep(world, json!({"events_days": 1})).output();
        post(world, "a word");
        let workspace = world.database.id(world.id("workspace"));
        world.database.execute(&format!(
            "update events set payload = replace(payload, 'attribution', 'attributiom')
             where workspace_id = {workspace} and lsn = 5"
        ));
        world.clock.advance(3 * DAY);
        world.service.housekeep().expect_err("it is reported");
        world.service.housekeep().expect_err("in each round");
        assert_eq!(stored_events(world), world.lsn(), "the evidence of it stays");
        assert_eq!(policy_of_log(world), 1);
    });
}

/// Waits until the scrub that the database has marked is done.
fn scrubbed(world: &World) {
    until("the scrub", || {
        world.service.housekeep().unwrap();
        is_scrubbed(&world.database)
    });
}

#[test]
fn a_long_log_is_pruned_in_steps_and_its_keys_are_in_no_file() {
    for engine in engines() {
        // With a different seed: worlds with the same seed draw the same keys, and share a Postgres server.
        let world = World::with(engine, Setup { seed: 35, ..Setup::default() });
        let shelves = || world.database.number("select count(*) from shelves");
        let first = post(&world, "the first of many");
        // Its key segment is that of a template, until it is sealed again.
        world.admin("delete_message", json!({"message_id": first["id"]}));
        let keys = Needle::pieces(
            "the sealed nodes",
            &shelf(&world.database, &text(&first["id"])).sealed[KEK_ID_BYTES..],
        );
        // More than a key segment holds, and than a step removes.
        in_parallel(8, |_| (0..530).for_each(|_| drop(post(&world, "one of many"))));
        keep(&world, json!({"messages_days": 1, "events_days": 1})).output();
        let last = post(&world, "the last of many");
        let last_keys = Needle::pieces(
            "the sealed nodes",
            &shelf(&world.database, &text(&last["id"])).sealed[KEK_ID_BYTES..],
        );
        for needles in [&keys, &last_keys] {
            assert!(!found(&world.database, needles).is_empty(), "the search finds the nodes that are there");
        }
        assert_eq!(shelves(), 2);
        world.clock.advance(2 * DAY);
        let new = post(&world, "a new one");
        world.pass(Duration::ZERO);
        scrubbed(&world);
        let messages = world.database.number("select count(*) from messages");
        assert_eq!((messages, shelves()), (1, 1));
        assert_eq!(world.admin("get_message", json!({"message_id": new["id"]}))["body"], "a new one");
        for needles in [&keys, &last_keys] {
            assert_eq!(found(&world.database, needles), []);
        }
        let report = verified(&world);
        assert!(report.valid && report.floor > 4240 && report.events < 10, "{report:?}");
    }
}

/// Returns statements that make removing rows of a table fail, and then succeed again.
fn failing_to_remove(engine: Engine, table: &str) -> [String; 2] {
    match engine {
        Engine::Sqlite => [
            format!(
                "create trigger unremoved before delete on {table} begin select raise(abort, 'not now'); end"
            ),
            "drop trigger unremoved".to_owned(),
        ],
        Engine::Postgres => [
            format!(
                "create function unremoved() returns trigger language plpgsql as
                 $$ begin raise exception 'not now'; end $$;
                 create trigger unremoved before delete on {table} for each row execute function unremoved()"
            ),
            format!("drop trigger unremoved on {table}; drop function unremoved"),
        ],
    }
}

#[test]
fn a_hold_stops_pruning_between_two_steps() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let id = world.database.id(workspace);
        for (kept, table) in [("messages_days", "messages"), ("events_days", "events")] {
            let stored =
                || world.database.number(&format!("select count(*) from {table} where workspace_id = {id}"));
            let old = post(world, "goes");
            let [fail, let_go] = failing_to_remove(world.engine(), table);
            world.database.execute(&fail);
            keep(world, json!({kept: 1})).output();
            world.clock.advance(2 * DAY);
            world.service.housekeep().expect_err("what was declared cannot be removed, and that is reported");
            let placed = json!({"workspace_id": workspace, "reason": "a dispute"});
            let hold = world.admin("place_legal_hold", placed)["id"].clone();
            world.database.execute(&let_go);
            let left = stored();
            world.pass(DAY);
            assert_eq!(stored(), left, "{table}");
            assert!(verified(world).valid, "{table}");
            // The declared events are removed nevertheless.
            let missed = match table {
                "messages" => {
                    world.call(&world.people.admin, "get_message", json!({"message_id": old["id"]}))
                }
                _ => world.call(
                    &world.people.admin,
                    "list_events",
                    json!({"workspace_id": workspace, "after_id": 0}),
                ),
            };
            assert!([404, 409].contains(&missed.status), "{table}: {}", missed.body);
            world.admin("release_legal_hold", json!({"workspace_id": workspace, "hold_id": hold}));
            world.pass(Duration::ZERO);
            assert!(stored() < left, "{table}");
            assert!(verified(world).valid, "{table}");
            keep(world, json!({})).output();
        }
    });
}
