//! Approval gates: deciders, effects of decisions, and blocked closes.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::limits::PAGE_BYTES;
use svc_tests::client::Answer;
use svc_tests::{Person, World, on_both_engines, text};

use super::{go, new_thread, row_id, unmet};

fn request(world: &World, token: &str, thread: &str, more: Value) -> Value {
    let mut input = json!({"thread_id": thread, "question": "May it go?"});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.call(token, "request_approval", input).output()
}

fn decide(world: &World, token: &str, gate: &Value, decision: &str) -> Answer {
    world.call(token, "approval_decide", json!({"gate_id": gate["id"], "decision": decision}))
}

fn read(world: &World, gate: &Value) -> Value {
    world.agent("get_approval_gate", json!({"gate_id": gate["id"]}))
}

#[test]
fn the_same_decision_again_is_none_and_another_one_is_refused() {
    on_both_engines(|world| {
        let thread = new_thread(world);
        // The last is accepted, so that those before no longer block the close.
        let decisions = [("decline", "declined"), ("cancel", "cancelled"), ("accept", "accepted")];
        for (decision, state) in decisions {
            let gate = request(world, &world.people.agent, &thread, json!({}));
            assert_eq!(json!([gate["state"], gate["blocks_close"]]), json!(["pending", true]));
            assert_eq!(read(world, &gate), gate);
            let lsn = world.lsn();
            let decided = decide(world, &world.people.admin, &gate, decision).output();
            assert_eq!(json!([decided["state"], decided["resolved_by"]]), json!([state, world.id("admin")]));
            assert_eq!(decide(world, &world.people.admin, &gate, decision).output(), decided);
            assert_eq!(world.kinds_after(lsn), ["ApprovalDecided"]);
            for (other, _) in decisions.into_iter().filter(|(other, _)| *other != decision) {
                let refused = decide(world, &world.people.admin, &gate, other).refused(409, "wrong-state");
                assert_eq!(refused["state"], json!(state));
            }
            assert_eq!(read(world, &gate), decided);
        }
        go(world, &thread, "close").output();
        let late = json!({"thread_id": thread, "question": "And now?"});
        world.call(&world.people.agent, "request_approval", late).refused(409, "wrong-state");
    });
}

#[test]
fn others_accept_with_the_right_to_and_the_asker_takes_back() {
    on_both_engines(|world| {
        let [asker, delegate, other] = ["asker", "delegate", "other"].map(|name| Person::new(world, name));
        let granted = |person: &Person| {
            let input = json!({"workspace_id": world.id("workspace"), "member_id": person.id, "label": "x",
                               "capabilities": ["thread:transition", "approval:grant"]});
            text(&world.admin("mint_token", input)["secret"])
        };
        let lent = delegate.acting_for(world, &asker.id);
        // No grant lends it: a delegate is refused even if its token has the capability.
        let lent_with_right = world.delegated_beyond_grants(
            &other.id,
            &delegate.id,
            &["workspace:read", "thread:transition", "approval:grant"],
        );
        let forbidden = (403, "forbidden");
        let needs = (403, "needs-person");
        let done = (200, "");
        // The requester, the decider, and the outcomes of accepting and of cancelling.
        let table: Vec<(&str, String, [(u16, &str); 2])> = vec![
            (&asker.token, world.people.admin.clone(), [done, done]),
            (&asker.token, granted(&other), [done, done]),
            (&asker.token, other.token.clone(), [needs, forbidden]),
            (&asker.token, asker.token.clone(), [needs, done]),
            (&asker.token, granted(&asker), [forbidden, done]),
            (&asker.token, lent.clone(), [forbidden, done]),
            (&asker.token, lent_with_right, [forbidden, done]),
            (&lent, granted(&asker), [forbidden, done]),
            (&lent, granted(&delegate), [forbidden, done]),
            (&lent, granted(&other), [done, done]),
        ];
        let thread = new_thread(world);
        for (number, (asked_by, decider, wanted)) in table.iter().enumerate() {
            for (decision, wanted) in ["accept", "cancel"].into_iter().zip(wanted) {
                let gate = request(world, asked_by, &thread, json!({}));
                let answer = decide(world, decider, &gate, decision);
                assert_eq!((answer.status, answer.code()), *wanted, "{number} {decision}: {:#}", answer.body);
            }
        }
    });
}

#[test]
fn a_gate_expires_at_once_and_the_event_follows() {
    on_both_engines(|world| {
        let thread = new_thread(world);
        for secs in [59, 2_592_001] {
            let input = json!({"thread_id": thread, "question": "When?", "expires_in_secs": secs});
            world.call(&world.people.agent, "request_approval", input).refused(400, "malformed-request");
        }
        let endless = request(world, &world.people.agent, &thread, json!({"blocks_close": false}));
        let gate = request(world, &world.people.agent, &thread, json!({"expires_in_secs": 60}));
        let states = |state: &str| {
            let input = json!({"workspace_id": world.id("workspace"), "thread_id": thread, "state": state});
            let page = world.agent("list_approval_gates", input);
            page["items"].as_array().unwrap().iter().map(|gate| text(&gate["id"])).collect::<Vec<_>>()
        };
        assert_eq!(states("pending"), [text(&endless["id"]), text(&gate["id"])]);
        let all = world.agent("list_approval_gates", json!({"workspace_id": world.id("workspace")}));
        let of_all: Vec<&Value> = all["items"].as_array().unwrap().iter().rev().take(2).collect();
        assert_eq!(of_all, [&gate, &endless]);
        let lsn = world.lsn();
        world.clock.advance(Duration::from_secs(60));
        let expired = read(world, &gate);
        assert_eq!(json!([expired["state"], expired["resolved_at"]]), json!(["expired", gate["expires_at"]]));
        assert_eq!(
            (states("pending"), states("expired")),
            (vec![text(&endless["id"])], vec![text(&gate["id"])])
        );
        let refuse = || {
            let refused = decide(world, &world.people.admin, &gate, "accept").refused(409, "wrong-state");
            assert_eq!(refused["state"], json!("expired"));
            assert_eq!(unmet(world, &thread), [("approval-gate".to_owned(), json!([gate["id"]]))]);
        };
        refuse();
        assert_eq!(world.lsn(), lsn, "all of that without an event");
        world.service.housekeep().unwrap();
        world.service.housekeep().unwrap();
        assert_eq!(world.kinds_after(lsn), ["ApprovalDecided"], "once");
        assert_eq!(read(world, &gate), expired, "the row says the same");
        refuse();
        world.pass(Duration::from_secs(30 * 86_400));
        assert_eq!(read(world, &endless)["state"], json!("pending"));
    });
}

/// The gates of a thread: whether each blocks, and its outcome; then the numbers of those that block.
type Case = (&'static [(bool, Option<&'static str>)], &'static [usize]);

const CASES: &[Case] = &[
    (&[(true, None)], &[0]),
    (&[(false, None)], &[]),
    (&[(true, Some("accept"))], &[]),
    (&[(true, Some("cancel"))], &[]),
    (&[(true, Some("decline"))], &[0]),
    (&[(false, Some("decline"))], &[]),
    (&[(true, Some("decline")), (true, Some("accept"))], &[]),
    (&[(true, None), (false, Some("accept"))], &[]),
    (&[(true, Some("accept")), (true, Some("decline"))], &[1]),
    (&[(true, Some("decline")), (true, Some("cancel"))], &[0]),
    (&[(true, Some("decline")), (true, None), (true, Some("cancel"))], &[0, 1]),
];

#[test]
fn a_gate_blocks_unless_it_or_a_later_one_was_accepted() {
    on_both_engines(|world| {
        for (gates, wanted) in CASES {
            let thread = new_thread(world);
            let ask =
                |blocks: bool| request(world, &world.people.agent, &thread, json!({"blocks_close": blocks}));
            let asked: Vec<Value> = gates.iter().map(|(blocks, _)| ask(*blocks)).collect();
            for (gate, (_, decision)) in asked.iter().zip(*gates) {
                if let Some(decision) = decision {
                    decide(world, &world.people.admin, gate, decision).output();
                }
            }
            if wanted.is_empty() {
                go(world, &thread, "close").output();
            } else {
                let ids: Vec<&Value> = wanted.iter().map(|number| &asked[*number]["id"]).collect();
                assert_eq!(unmet(world, &thread), [("approval-gate".to_owned(), json!(ids))], "{gates:?}");
            }
        }
    });
}

#[test]
fn the_question_is_a_sealed_message_that_is_not_edited() {
    on_both_engines(|world| {
        let thread = new_thread(world);
        let question = "xylophone-4731?";
        let lsn = world.lsn();
        let gate = request(world, &world.people.agent, &thread, json!({"question": question}));
        assert_eq!(world.kinds_after(lsn), ["ApprovalRequested", "MessagePosted"]);
        let message = world.agent("get_message", json!({"message_id": gate["message_id"]}));
        assert_eq!(
            json!([message["body"], message["author_id"], message["metadata"]["notice"]]),
            json!([question, world.id("agent"), "approval"])
        );
        assert!(!format!("{:?}", world.database.dump()).contains(question), "it is sealed");
        let edit = json!({"message_id": gate["message_id"], "body": "May I have tea?"});
        world.call(&world.people.agent, "edit_message", edit).refused(409, "wrong-state");
        world.agent("delete_message", json!({"message_id": gate["message_id"]}));
        world.admin("purge_message", json!({"message_id": gate["message_id"]}));
        assert_eq!(
            json!([read(world, &gate)["question"], read(world, &gate)["state"]]),
            json!(["", "pending"])
        );
        decide(world, &world.people.admin, &gate, "accept").output();
        let list = json!({"workspace_id": world.id("workspace"), "thread_id": thread, "limit": 1});
        assert_eq!(world.agent("list_approval_gates", list)["items"][0]["question"], json!(""));
    });
}

#[test]
fn a_gate_of_an_archived_thread_is_not_decided() {
    on_both_engines(|world| {
        let thread = new_thread(world);
        let gate = request(world, &world.people.agent, &thread, json!({"blocks_close": false}));
        go(world, &thread, "close").output();
        go(world, &thread, "archive").output();
        decide(world, &world.people.admin, &gate, "accept").refused(409, "wrong-state");
    });
}

#[test]
fn gates_of_archived_threads_wait_for_nobody() {
    on_both_engines(|world| {
        let awaited = || {
            let input = json!({"workspace_id": world.id("workspace")});
            world.admin("get_workspace_context", input)["approvals"]
                .as_array()
                .unwrap()
                .iter()
                .map(|gate| gate["question"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let asker = Person::new(world, "asker-of-old");
        let ask = |thread: &str, question: &str| {
            let input = json!({"thread_id": thread, "question": question, "blocks_close": false});
            world.call(&asker.token, "request_approval", input).output();
        };
        let old = new_thread(world);
        let live = new_thread(world);
        (0..20).for_each(|_| ask(&old, "old?"));
        ask(&live, "live?");
        assert!(!awaited().contains(&"live?".to_owned()), "there are 20 before it");
        for action in ["close", "archive"] {
            go(world, &old, action).output();
        }
        assert!(awaited().contains(&"live?".to_owned()), "{:?}", awaited());
        assert!(!awaited().contains(&"old?".to_owned()), "{:?}", awaited());
    });
}

#[test]
fn a_page_of_gates_ends_by_the_bytes_of_their_questions() {
    on_both_engines(|world| {
        let thread = new_thread(world);
        let asked = json!({"question": "\u{1f4dc}".repeat(4000), "blocks_close": false});
        let ids: Vec<Value> = (0..80)
            .map(|_| request(world, &world.people.agent, &thread, asked.clone())["id"].clone())
            .collect();
        for narrowed in [json!({}), json!({"thread_id": thread})] {
            let mut input = json!({"workspace_id": world.id("workspace"), "limit": 500});
            input.as_object_mut().unwrap().extend(narrowed.as_object().unwrap().clone());
            let mut found = Vec::new();
            let mut pages = 0;
            while pages == 0 || !input["cursor"].is_null() {
                let page = world.agent("list_approval_gates", input.clone());
                let items = page["items"].as_array().unwrap();
                let last = items.last().map_or(0, |gate| gate.to_string().len());
                assert!(page["items"].to_string().len() < PAGE_BYTES + last + items.len() + 2);
                found.extend(items.iter().map(|gate| gate["id"].clone()));
                input["cursor"] = page["next_cursor"].clone();
                pages += 1;
            }
            assert!(pages > 1 && found.ends_with(&ids), "{pages} pages");
        }
        let context = world.admin("get_workspace_context", json!({"workspace_id": world.id("workspace")}));
        let awaiting = context["approvals"].as_array().unwrap();
        assert!(!awaiting.is_empty() && awaiting.len() < 20, "{}", awaiting.len());
        assert!(context.to_string().len() < PAGE_BYTES);
    });
}

#[test]
fn every_gate_expires_in_one_round_whatever_fails_before_it() {
    on_both_engines(|world| {
        let thread = new_thread(world);
        let gate = request(world, &world.people.agent, &thread, json!({"expires_in_secs": 60}));
        let row = row_id(world, &text(&gate["id"]));
        let id = world.database.any_id();
        let columns = "channel_id, thread_id, state, blocks_close, requested_by, requested_actor_id,
            requested_at, message_id, lsn";
        // Gates of the workspace, and of as many others, which have no log: more than a step examines.
        for (workspace, end) in [("workspace_id", "2"), (id, "1")] {
            world.database.insert_many(
                450,
                &format!(
                    "insert into approval_gates (id, workspace_id, expires_at, {columns})
                     select {id}, {workspace}, {end}, {columns} from approval_gates cross join n
                     where id = {row}"
                ),
            );
        }
        world.database.execute(
            "insert into workspaces (id, name, created_at, lsn, state)
             select g.workspace_id, 'Broken', 1, 100000 + row_number() over (order by g.workspace_id), 'live'
             from approval_gates g where not exists (select 1 from workspaces w where w.id = g.workspace_id)",
        );
        let pending = |wanted: &str| {
            let sql = format!(
                "select count(*) from approval_gates where state = 'pending' and expires_at {wanted}"
            );
            world.database.number(&sql)
        };
        world.clock.advance(Duration::from_secs(60));
        let lsn = world.lsn();
        world.service.housekeep().expect_err("workspaces without a log fail, and that is reported");
        assert_eq!((pending("= 1"), pending("> 1")), (450, 0));
        assert_eq!(world.lsn(), lsn + 451);
        world.service.housekeep().expect_err("and again in the next round");
        assert_eq!(world.lsn(), lsn + 451);
    });
}
