//! The context of a thread since it was last read.

use serde_json::{Value, json};
use svc_tests::{Person, World, on_both_engines};

fn read(world: &World, thread: &str, since: Option<&Value>) -> Value {
    let mut input = json!({"thread_id": thread});
    if let Some(since) = since {
        input["since"] = since.clone();
    }
    world.agent("get_thread_context", input)
}

fn bodies(context: &Value) -> Vec<&Value> {
    context["messages"].as_array().unwrap().iter().map(|message| &message["body"]).collect()
}

#[test]
fn what_is_new_is_returned_and_the_state_always() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.new_channel("tasks"), "a task");
        let say = |body: &str| world.admin("post_message", json!({"thread_id": thread, "body": body}));
        say("first");
        let whole = read(world, &thread, None);
        assert_eq!((bodies(&whole), &whole["lsn"]), (vec![&json!("first")], &json!(world.lsn())));
        let since = &whole["lsn"];
        // Nothing is new: everything but the messages is unchanged.
        let mut same = read(world, &thread, Some(since));
        assert_eq!(same["messages"], json!([]));
        same["messages"] = whole["messages"].clone();
        assert_eq!(same, whole);

        let reviewer = Person::with_skill(world, "critic", "review");
        say("second");
        let review = json!({"thread_id": thread, "verdict": "comment", "body": "the name is wrong"});
        world.call(&reviewer.token, "submit_review", review).output();
        let cancelled = json!({"thread_id": thread, "reason": "the plan has changed"});
        world.admin("cancel_thread", cancelled);
        let new = read(world, &thread, Some(since));
        let said = bodies(&new);
        assert_eq!((said[0], said.len()), (&json!("second"), 3), "{new:#}");
        assert!(said[1].as_str().unwrap().contains("the name is wrong"), "a review is a message");
        assert_eq!(
            (&new["notices"][0]["kind"], &new["fsm"]["state"]),
            (&json!("cancelled"), &json!("closed"))
        );
        let again = read(world, &thread, Some(&new["lsn"]));
        assert_eq!((&again["messages"], &again["notices"]), (&json!([]), &json!([])));
        assert_eq!(again["thread"], new["thread"]);
        assert_eq!(read(world, &thread, Some(&json!(0))), read(world, &thread, None));
    });
}

#[test]
fn a_position_that_the_log_no_longer_follows_is_refused() {
    on_both_engines(|world| {
        let thread = world.id("thread").to_string();
        let refused = |since: i64| {
            let input = json!({"thread_id": thread, "since": since});
            world.call(&world.people.agent, "get_thread_context", input).refused(409, "must_refetch")
        };
        let head = world.lsn();
        let beyond = refused(head + 1);
        assert_eq!((&beyond["code"], &beyond["room_lsn"]), (&json!("CursorTooOld"), &json!(head)));
        world.database.execute("update heads set floor = floor + 4");
        assert_eq!(refused(3)["floor"], 5);
        read(world, &thread, Some(&json!(4)));
        read(world, &thread, None);
        world.database.execute("update heads set floor = floor - 4");
        let negative = json!({"thread_id": thread, "since": -1});
        world.call(&world.people.agent, "get_thread_context", negative).refused(400, "malformed-request");
    });
}
