//! The events of a change, in their order.

use serde_json::json;
use svc_tests::{World, on_both_engines};

/// Operations, each with the kinds of the first events of its example.
const LEFT: [(&str, &[&str]); 9] = [
    ("claim_thread", &["ThreadAssignmentChanged"]),
    ("cancel_thread", &["ThreadStateChanged", "ThreadCancelled"]),
    ("set_thread_result", &["ThreadResultSet"]),
    ("submit_review", &["ReviewSubmitted"]),
    ("freeze_member", &["MemberFrozen"]),
    ("unfreeze_member", &["MemberUnfrozen"]),
    ("report_usage", &["UsageReported"]),
    ("post_message", &["MessagePosted"]),
    ("delete_message", &["MessageTombstoned"]),
];

/// Returns the kinds of the events of an operation's example, called by the first of the world's people who
/// may.
fn left_by(world: &World, operation: &str) -> Vec<String> {
    let input = world.operation(operation).docs().example(&world.fixture).unwrap();
    let lsn = world.lsn();
    for token in [&world.people.agent, &world.people.admin] {
        let answer = world.call(token, operation, input.clone());
        if answer.is_success() {
            return world.kinds_after(lsn);
        }
        assert!([403, 409].contains(&answer.status), "{operation}: {:#}", answer.body);
    }
    panic!("nobody may call {operation}");
}

#[test]
fn each_change_leaves_its_events() {
    on_both_engines(|world| {
        let engine = world.engine();
        for (operation, wanted) in LEFT {
            let left = left_by(&World::open(engine), operation);
            let found: Vec<&str> =
                left.iter().map(String::as_str).filter(|kind| wanted.contains(kind)).collect();
            assert_eq!(found, wanted, "{operation}: {left:?}");
        }
    });
}

#[test]
fn who_waits_for_a_thread_is_told_that_it_ended_and_not_that_it_was_cancelled() {
    on_both_engines(|world| {
        for (operation, more, is_told) in [
            ("transition_thread", json!({"action": "close"}), true),
            ("cancel_thread", json!({"reason": "not needed"}), false),
        ] {
            let channel = world.new_channel(operation);
            let [first, then] = ["first", "then"].map(|title| world.new_thread(&channel, title));
            world.admin("add_thread_dependency", json!({"thread_id": then, "depends_on_id": first}));
            let mut input = json!({"thread_id": first});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let lsn = world.lsn();
            world.admin(operation, input);
            let left = world.kinds_after(lsn);
            assert_eq!(left.iter().any(|kind| kind == "ThreadReady"), is_told, "{operation}: {left:?}");
        }
    });
}
