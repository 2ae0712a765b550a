//! Threads: the moves between states, cancelling, and the context of a thread.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

const ACTIONS: [&str; 5] = ["start_review", "return_to_open", "close", "reopen", "archive"];

/// The state that each action leads to from each state; a dash is a refusal.
const MOVES: [(&str, [&str; 5]); 4] = [
    ("open", ["in_review", "-", "closed", "-", "-"]),
    ("in_review", ["-", "open", "closed", "-", "-"]),
    ("closed", ["-", "-", "-", "open", "archived"]),
    ("archived", ["-", "-", "-", "-", "-"]),
];

/// Returns a new thread in `state`.
fn thread_in(world: &World, state: &str) -> String {
    let thread = world.new_thread(&world.id("channel").to_string(), state);
    let way: &[&str] = match state {
        "open" => &[],
        "in_review" => &["start_review"],
        "closed" => &["close"],
        "archived" => &["close", "archive"],
        other => panic!("{other}"),
    };
    for action in way {
        world.admin("transition_thread", json!({"thread_id": thread, "action": action}));
    }
    thread
}

#[test]
fn every_action_in_every_state_moves_as_specified() {
    on_both_engines(|world| {
        for (state, row) in MOVES {
            for (action, wanted) in ACTIONS.into_iter().zip(row) {
                let thread = thread_in(world, state);
                let lsn = world.lsn();
                let moved = world.call(
                    &world.people.admin,
                    "transition_thread",
                    json!({"thread_id": thread, "action": action}),
                );
                if wanted == "-" {
                    moved.refused(409, "wrong-state");
                    assert_eq!(world.lsn(), lsn, "{action} from {state}");
                } else {
                    assert_eq!(
                        moved.output(),
                        json!({"state": wanted, "assignee_id": null}),
                        "{action} from {state}"
                    );
                    assert_eq!(world.kinds_after(lsn)[0], "ThreadStateChanged");
                    assert_eq!(world.admin("get_thread", json!({"thread_id": thread}))["state"], wanted);
                }
            }
        }
    });
}

#[test]
fn a_cancel_bypasses_every_condition_and_is_idempotent() {
    on_both_engines(|world| {
        for (state, allowed) in [("open", true), ("in_review", true), ("closed", false), ("archived", false)]
        {
            let thread = thread_in(world, state);
            let cancel = || {
                let input = json!({"thread_id": thread, "reason": "the plan has changed"});
                world.call(&world.people.admin, "cancel_thread", input)
            };
            if !allowed {
                cancel().refused(409, "wrong-state");
                continue;
            }
            world.admin("create_child_thread", json!({"thread_id": thread, "title": "a child"}));
            let claimed = state == "open";
            if claimed {
                world.agent("claim_thread", json!({"thread_id": thread}));
            }
            let lsn = world.lsn();
            let first = cancel().output();
            assert_eq!((&first["state"], &first["cancelled"]), (&json!("closed"), &json!(true)));
            assert_eq!((&first["assignee_id"], &first["claim_lease_id"]), (&Value::Null, &Value::Null));
            let kinds = world.kinds_after(lsn);
            let claim = if claimed { vec!["ThreadAssignmentChanged"] } else { vec![] };
            let wanted =
                [vec!["ThreadStateChanged", "ThreadCancelled"], claim, vec!["MessagePosted"]].concat();
            assert_eq!(kinds, wanted);
            assert_eq!(cancel().output(), first);
            assert_eq!(world.kinds_after(lsn).len(), wanted.len(), "a second cancel changes nothing");

            let messages = world.admin("list_messages", json!({"thread_id": thread}));
            assert_eq!(messages["items"][0]["metadata"]["notice"], "cancelled");
            assert_eq!(messages["items"][0]["body"], "the plan has changed");
            let read = world.admin("get_thread", json!({"thread_id": thread}));
            assert_eq!(read["notices"][0]["kind"], "cancelled", "{read:#}");
            if claimed {
                let renewal = world.call(&world.people.agent, "renew_claim", json!({"thread_id": thread}));
                renewal.refused(404, "not-found");
            }
        }
    });
}

#[test]
fn the_creator_or_a_member_who_may_transition_cancels() {
    on_both_engines(|world| {
        let writer = world.call(
            &world.people.bystander,
            "attenuate_token",
            json!({"capabilities": ["workspace:write"]}),
        );
        let writer = text(&writer.output()["secret"]);
        let reason = |thread: &Value| json!({"thread_id": thread, "reason": "not needed"});
        let channel = world.id("channel");
        let own =
            world.call(&writer, "create_thread", json!({"channel_id": channel, "title": "my own"})).output();
        assert_eq!(own["created_by"], world.people.bystander_id);
        world.call(&writer, "cancel_thread", reason(&json!(world.id("thread")))).refused(403, "forbidden");
        world.call(&writer, "cancel_thread", reason(&own["id"])).output();
        let long = json!({"thread_id": world.id("thread"), "reason": "x".repeat(501)});
        world.call(&world.people.agent, "cancel_thread", long).refused(400, "malformed-request");
        world.agent("cancel_thread", reason(&json!(world.id("thread"))));
    });
}

#[test]
fn a_parent_with_an_open_child_does_not_close() {
    on_both_engines(|world| {
        let parent = thread_in(world, "open");
        let child =
            world.admin("create_child_thread", json!({"thread_id": parent, "title": "a child"}))["id"]
                .clone();
        let go = |thread: &Value, action: &str| {
            world.call(
                &world.people.admin,
                "transition_thread",
                json!({"thread_id": thread, "action": action}),
            )
        };
        let parent = json!(parent);
        let refused = go(&parent, "close").refused(409, "close-refused");
        assert_eq!(refused["reasons"][0]["condition"], "children");
        go(&child, "start_review").output();
        go(&parent, "close").refused(409, "close-refused");
        go(&child, "close").output();
        go(&parent, "close").output();
        go(&child, "reopen").refused(409, "wrong-state");
        let late = json!({"thread_id": parent, "title": "too late"});
        world.call(&world.people.admin, "create_child_thread", late).refused(409, "wrong-state");
    });
}

#[test]
fn the_context_has_the_next_actions_and_no_withdrawn_message() {
    on_both_engines(|world| {
        let context = world.agent("get_thread_context", json!({"thread_id": world.id("thread")}));
        assert_eq!(context["fsm"], json!({"state": "open", "transitions": ["start_review", "close"]}));
        let bodies: Vec<&Value> =
            context["messages"].as_array().unwrap().iter().map(|m| &m["body"]).collect();
        assert!(bodies.contains(&&json!("the lexer has four states")), "{context:#}");
        assert!(!context.to_string().contains("said too soon"));
    });
}

#[test]
fn list_child_threads_has_the_direct_children_in_every_state_and_order_of_creation() {
    on_both_engines(|world| {
        let parent = thread_in(world, "open");
        let new_child = |thread: &str, title: &str| {
            text(&world.admin("create_child_thread", json!({"thread_id": thread, "title": title}))["id"])
        };
        let list = |thread: &str, more: Value| {
            let mut input = json!({"thread_id": thread});
            input.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            world.agent("list_child_threads", input)
        };
        assert_eq!(list(&parent, json!({}))["items"], json!([]));
        let children = [new_child(&parent, "first"), new_child(&parent, "second")];
        let grandchild = new_child(&children[0], "of the first");
        world.admin("transition_thread", json!({"thread_id": children[1], "action": "close"}));

        let page = list(&parent, json!({}));
        let shown: Vec<Value> = page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|child| json!([child["id"], child["parent_id"], child["state"]]))
            .collect();
        assert_eq!(shown, [json!([children[0], parent, "open"]), json!([children[1], parent, "closed"])]);
        assert_eq!(list(&children[0], json!({}))["items"][0]["id"], json!(grandchild));
        let first = list(&parent, json!({"limit": 1}));
        let rest = list(&parent, json!({"limit": 1, "cursor": first["next_cursor"]}));
        assert_eq!(
            (&first["items"][0]["id"], &rest["items"][0]["id"]),
            (&json!(children[0]), &json!(children[1]))
        );
        let hidden = json!({"thread_id": world.people.private_thread_id});
        world.call(&world.people.bystander, "list_child_threads", hidden).refused(404, "not-found");
    });
}

#[test]
fn a_thread_is_owned_by_an_active_member_who_sees_it_or_by_nobody() {
    on_both_engines(|world| {
        let agent = world.id("agent").to_string();
        let admin = world.id("admin").to_string();
        let thread = world.new_thread(&world.new_channel("owned"), "a task");
        let hidden = world.new_thread(&world.new_private_channel("hidden"), "a secret");
        let set = |thread: &str, owner: Value| {
            let input = json!({"thread_id": thread, "owner_id": owner});
            world.call(&world.people.admin, "set_thread_owner", input)
        };
        for (owner, from) in [(json!(agent), json!(admin)), (Value::Null, json!(agent))] {
            let lsn = world.lsn();
            assert_eq!(set(&thread, owner.clone()).output()["owner_id"], owner);
            assert_eq!(world.kinds_after(lsn), ["ThreadOwnerChanged"]);
            let events = world.admin("list_thread_events", json!({"thread_id": thread}));
            let event = events["items"].as_array().unwrap().last().unwrap();
            let moved = [&event["payload"]["from"], &event["payload"]["to"]];
            assert_eq!(moved, [&from, &owner]);
            set(&thread, owner).output();
            assert_eq!(world.lsn(), lsn + 1, "it is the owner already");
        }
        let (gone, _) = world.new_agent("gone");
        let row = world.database.id(gone.parse::<uuid::Uuid>().unwrap());
        world.database.execute(&format!("update members set deactivated_at = 1 where id = {row}"));
        let before = world.database.dump();
        set(&thread, json!(gone)).refused(409, "wrong-state");
        set(&hidden, json!(agent)).refused(409, "wrong-state");
        set(&thread, json!(thread)).refused(404, "not-found");
        assert_eq!(world.database.dump(), before);
        world.admin("transition_thread", json!({"thread_id": thread, "action": "close"}));
        world.admin("transition_thread", json!({"thread_id": thread, "action": "archive"}));
        set(&thread, json!(agent)).refused(409, "wrong-state");
    });
}

#[test]
fn the_context_says_what_keeps_the_caller_from_claiming_and_anybody_from_closing() {
    on_both_engines(|world| {
        let channel = world.new_channel("contexts");
        let footprint = json!({"repo": "acme/app", "items": [{"kind": "path", "value": "src"}]});
        let new = |title: &str, more: Value| {
            let mut input = json!({"channel_id": channel, "title": title, "footprint": footprint});
            input.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            text(&world.admin("create_thread", input)["id"])
        };
        let held = new("held", json!({}));
        world.agent("claim_thread", json!({"thread_id": held}));
        let thread = new("waiting", json!({"required_skills": ["cobol"], "depends_on": [held]}));
        let child = world.admin("create_child_thread", json!({"thread_id": thread, "title": "part"}));
        let context = |token: &str, thread: &str| {
            world.call(token, "get_thread_context", json!({"thread_id": thread})).output()
        };
        let kinds = |context: &Value| -> Vec<String> {
            let refusals = context["claim_refusals"].as_array().unwrap().iter();
            refusals.map(|refusal| text(refusal.get("reason").unwrap_or(&refusal["type"]))).collect()
        };
        let found = context(&world.people.admin, &thread);
        let conflict = "/problems/footprint-conflict".to_owned();
        assert_eq!(kinds(&found), ["blocked".to_owned(), "missing-skills".to_owned(), conflict]);
        assert_eq!(found["claim_refusals"][2]["conflicts"][0]["thread_id"], json!(held));
        let open = json!([{"condition": "children", "detail": "a child thread is not closed",
                           "ids": [child["id"]]}]);
        assert_eq!(found["close_refusals"], open);
        assert_eq!(found["fsm"]["transitions"], json!(["start_review"]));
        let own = context(&world.people.agent, &held);
        assert_eq!((kinds(&own), &own["close_refusals"]), (vec!["claimed".to_owned()], &json!([])));
        let reader = world.new_token(vec!["workspace:read"]);
        let reads = context(&reader, &held);
        assert_eq!(
            (kinds(&reads), &reads["fsm"]["transitions"]),
            (vec!["/problems/forbidden".to_owned()], &json!([]))
        );
        let free = text(&child["id"]);
        assert_eq!(kinds(&context(&world.people.admin, &free)), [""; 0]);
        world.admin("claim_thread", json!({"thread_id": free}));
    });
}
