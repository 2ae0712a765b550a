//! Subscriptions in process: their events, their times, their receivers, and their end.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::api::WaitForEvent;
use svc_core::op::{RequestHead, Surface};
use svc_core::ops::{
    BatchBounds, BegunSubscription, EventBatch, FeedState, FrameForm, StartPosition, Subscriber,
    Subscription, WantedEvents,
};
use svc_core::{Code, Error, Result, Service};
use svc_tests::database::engines;

use svc_tests::{Setup, World, on_both_engines, runtime, text};

pub const ALL: BatchBounds = BatchBounds { events: 1000, bytes: 1 << 20 };
/// Longer than any test waits; only an event ends a wait.
pub const LONG: Duration = Duration::from_secs(3600);

fn head(token: &str) -> RequestHead {
    RequestHead {
        credential: Some(token.to_owned().into()).into(),
        surface: Surface::Rest,
        ..Default::default()
    }
}

fn wanted(world: &World, more: &Value) -> WantedEvents {
    let mut wanted = json!({"workspace_id": world.id("workspace")});
    wanted.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(wanted).unwrap()
}

pub fn from(world: &World, begin: StartPosition) -> Subscription {
    Subscription { wanted: Some(wanted(world, &json!({}))), begin, form: FrameForm::Full, consumer: None }
}

pub fn begin(service: &Service, token: &str, subscription: Subscription) -> Result<BegunSubscription> {
    runtime().block_on(async {
        let head = RequestHead { peer: Some([127, 0, 0, 1].into()), ..head(token) };
        let admission = service.admit_for::<WaitForEvent>(head).await?;
        service.subscribe(admission, subscription).await
    })
}

pub fn next(subscriber: &mut Subscriber) -> Result<EventBatch> {
    runtime().block_on(subscriber.next(ALL, LONG))
}

fn frames(batch: &EventBatch) -> Vec<Value> {
    batch.frames.iter().map(|(_, frame)| serde_json::from_slice(frame).unwrap()).collect()
}

pub fn lsns(batch: &EventBatch) -> Vec<i64> {
    frames(batch).iter().map(|frame| frame["lsn"].as_i64().unwrap()).collect()
}

pub fn code(outcome: Result<EventBatch>) -> Code {
    outcome.map(|batch| lsns(&batch)).unwrap_err().code()
}

pub fn refused(outcome: Result<BegunSubscription>) -> Error {
    outcome.map(|begun| begun.after_id).unwrap_err()
}

pub fn post(world: &World, body: &str) -> Value {
    world.admin("post_message", json!({"thread_id": world.id("thread"), "body": body}))
}

pub fn now(subscriber: &mut Subscriber) -> Result<EventBatch> {
    runtime().block_on(subscriber.next(ALL, Duration::ZERO))
}

/// Takes all events up to the end of the log.
fn all_of(subscriber: &mut Subscriber) -> Vec<Value> {
    let mut taken = Vec::new();
    loop {
        let batch = next(subscriber).unwrap();
        taken.extend(frames(&batch));
        if batch.state == FeedState::Live {
            return taken;
        }
    }
}

#[test]
fn a_subscriber_gets_what_the_log_lists() {
    on_both_engines(|world| {
        for (token, _who) in [(&world.people.admin, "admin"), (&world.people.bystander, "bystander")] {
            let listed = |cursor: Value| {
                let input = json!({"workspace_id": world.id("workspace"), "cursor": cursor, "limit": 500});
                world.call(token, "list_events", input).output()
            };
            let mut stored = Vec::new();
            let mut page = listed(Value::Null);
            loop {
                stored.extend(page["items"].as_array().unwrap().clone());
                match &page["next_cursor"] {
                    Value::Null => break,
                    cursor => page = listed(cursor.clone()),
                }
            }
            let begun = begin(&world.service, token, from(world, StartPosition::After(0))).unwrap();
            let mut taken = all_of(&mut { begun.subscriber });
            for frame in &mut taken {
                let attribution = frame.as_object_mut().unwrap().remove("attribution").unwrap();
                assert_eq!(attribution, frame["payload"]["attribution"]);
            }
            assert_eq!(taken, stored);
            assert!(taken.iter().any(|frame| frame["message"]["body"].is_string()));
        }
    });
}

#[test]
fn the_same_filter_selects_past_and_live_events() {
    on_both_engines(|world| {
        let mut selected = Vec::new();
        for live in [false, true] {
            let filter = wanted(world, &json!({"kind": "MessagePosted", "channel": world.id("channel")}));
            let from = if live { StartPosition::Default } else { StartPosition::After(world.lsn()) };
            let subscription = Subscription { wanted: Some(filter), ..self::from(world, from) };
            let early =
                live.then(|| begin(&world.service, &world.people.agent, subscription.clone()).unwrap());
            post(world, "one");
            world.admin(
                "create_channel",
                json!({"workspace_id": world.id("workspace"), "name": format!("c{live}")}),
            );
            post(world, "two");
            let begun =
                early.unwrap_or_else(|| begin(&world.service, &world.people.agent, subscription).unwrap());
            let mut subscriber = begun.subscriber;
            let mut bodies = Vec::new();
            while bodies.len() < 2 {
                let batch = next(&mut subscriber).unwrap();
                bodies.extend(frames(&batch).iter().map(|frame| text(&frame["message"]["body"])));
            }
            selected.push(bodies);
        }
        assert_eq!(selected, [["one", "two"], ["one", "two"]]);
    });
}

#[test]
fn words_are_opened_when_they_are_delivered() {
    on_both_engines(|world| {
        let mut live = begin(&world.service, &world.people.agent, from(world, StartPosition::Default))
            .unwrap()
            .subscriber;
        let posted = post(world, "a word");
        // The feed has it before it is withdrawn; the subscriber takes it afterwards.
        let mut other = begin(&world.service, &world.people.agent, from(world, StartPosition::Default))
            .unwrap()
            .subscriber;
        post(world, "another");
        assert_eq!(frames(&next(&mut other).unwrap())[0]["message"]["body"], "another");
        world.admin("delete_message", json!({"message_id": posted["id"]}));
        let frame = &frames(&next(&mut live).unwrap())[0];
        assert_eq!(
            frame["message"],
            json!({"withdrawn": true, "unreadable": false, "body": "", "metadata": {},
                   "content": []})
        );
    });
}

#[test]
fn lean_frames_have_no_payload_and_no_words() {
    on_both_engines(|world| {
        let lean = Subscription { form: FrameForm::Lean, ..from(world, StartPosition::Default) };
        for mut subscriber in
            [begin(&world.service, &world.people.agent, lean.clone()).unwrap().subscriber, {
                let before = world.lsn();
                post(world, "first");
                let past = Subscription { begin: StartPosition::After(before), ..lean };
                begin(&world.service, &world.people.agent, past).unwrap().subscriber
            }]
        {
            let frame = frames(&next(&mut subscriber).unwrap()).remove(0);
            assert_eq!((frame.get("payload"), frame.get("message")), (None, None), "{frame:#}");
            assert_eq!((&frame["kind"], frame["attribution"].is_object()), (&json!("MessagePosted"), true));
            assert_eq!(frame["thread_id"], json!(world.id("thread")), "it says where it happened");
        }
    });
}

#[test]
fn who_leaves_a_channel_gets_nothing_of_it_any_more() {
    on_both_engines(|world| {
        let channel = world.new_private_channel("secrets");
        let thread = world.new_thread(&channel, "between us");
        let member = json!({"channel_id": channel, "member_id": world.id("agent")});
        let mut subscriber = begin(&world.service, &world.people.agent, from(world, StartPosition::Default))
            .unwrap()
            .subscriber;
        let say = |body: &str| world.admin("post_message", json!({"thread_id": thread, "body": body}));
        say("before");
        world.admin("add_channel_member", member.clone());
        say("while");
        world.admin("remove_channel_member", member);
        say("after");
        post(world, "to all");
        let mut bodies = Vec::new();
        while bodies.last().is_none_or(|body| body != "to all") {
            for frame in frames(&next(&mut subscriber).unwrap()) {
                bodies.extend(frame["message"]["body"].as_str().map(str::to_owned));
            }
        }
        // Taken after it left, so it gets not even the messages from its time as a member.
        assert_eq!(bodies, ["to all"]);
    });
}

#[test]
fn a_position_that_the_log_does_not_have_must_be_fetched_again() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let beyond = world.lsn() + 1;
        let error =
            refused(begin(&world.service, &world.people.agent, from(world, StartPosition::After(beyond))));
        let problem = serde_json::to_value(error.problem()).unwrap();
        assert_eq!(error.code(), Code::MustRefetch);
        assert_eq!(
            (&problem["code"], &problem["floor"], &problem["room_lsn"], text(&problem["snapshot"])),
            (
                &json!("CursorTooOld"),
                &json!(1),
                &json!(world.lsn()),
                format!("/workspaces/{workspace}/snapshot")
            )
        );
        let input = json!({"workspace_id": workspace, "after_id": beyond});
        for operation in ["list_events", "wait_for_event"] {
            let refused =
                world.call(&world.people.agent, operation, input.clone()).refused(409, "must_refetch");
            assert_eq!(
                (&refused["code"], &refused["floor"]),
                (&json!("CursorTooOld"), &json!(1)),
                "{operation}"
            );
        }
    });
}

#[test]
fn a_broken_log_ends_subscriptions() {
    on_both_engines(|world| {
        let workspace = world.database.id(world.id("workspace"));
        let mut live = begin(&world.service, &world.people.agent, from(world, StartPosition::Default))
            .unwrap()
            .subscriber;
        let begins = world.lsn();
        post(world, "intact");
        assert_eq!(lsns(&next(&mut live).unwrap()), [begins + 1]);
        let break_at = |lsn: i64| {
            world.database.execute(&format!(
                "update events set kind = 'Other' where workspace_id = {workspace} and lsn = {lsn}"
            ));
        };
        break_at(begins - 1);
        let mut past =
            begin(&world.service, &world.people.agent, from(world, StartPosition::After(begins - 2)))
                .unwrap()
                .subscriber;
        assert_eq!(code(next(&mut past)), Code::EventLogBroken);
        assert_eq!(
            runtime().block_on(live.next(ALL, Duration::ZERO)).unwrap().frames.len(),
            0,
            "it is past that"
        );
    });
}

#[test]
fn as_much_is_sent_ahead_as_there_may_be() {
    for engine in engines() {
        let world = World::with(engine, Setup { replay_max: Some(5), ..Setup::default() });
        let begun =
            begin(&world.service, &world.people.admin, from(&world, StartPosition::After(0))).unwrap();
        let mut subscriber = begun.subscriber;
        let batch = next(&mut subscriber).unwrap();
        assert_eq!((lsns(&batch), batch.state), (vec![1, 2, 3, 4, 5], FeedState::Truncated));
        let batch = runtime().block_on(subscriber.next(ALL, Duration::ZERO)).unwrap();
        assert_eq!((lsns(&batch), batch.state), (vec![], FeedState::Truncated));
        subscriber.continue_from(5).unwrap();
        assert_eq!(lsns(&next(&mut subscriber).unwrap()), [6, 7, 8, 9, 10]);
        assert_eq!(subscriber.continue_from(world.lsn() + 1).unwrap_err().code(), Code::Malformed);
        subscriber.continue_from(world.lsn() - 1).unwrap();
        let batch = next(&mut subscriber).unwrap();
        assert_eq!((lsns(&batch), batch.state), (vec![world.lsn()], FeedState::Live));
        // A subscriber that has everything may be sent the same amount again, though more exists when it
        // asks: the tail has the event once another subscriber got it.
        let here = from(&world, StartPosition::After(world.lsn()));
        let mut other = begin(&world.service, &world.people.admin, here).unwrap().subscriber;
        for _ in 0..7 {
            post(&world, "more");
            for subscriber in [&mut other, &mut subscriber] {
                assert_eq!(next(subscriber).unwrap().state, FeedState::Live);
            }
        }
    }
}

#[test]
fn a_batch_that_is_put_back_is_returned_again() {
    on_both_engines(|world| {
        let mut subscriber = begin(&world.service, &world.people.admin, from(world, StartPosition::After(0)))
            .unwrap()
            .subscriber;
        let two = |subscriber: &mut Subscriber| {
            lsns(&runtime().block_on(subscriber.next(BatchBounds { events: 2, ..ALL }, LONG)).unwrap())
        };
        assert_eq!(two(&mut subscriber), [1, 2]);
        subscriber.put_back_batch();
        assert_eq!(two(&mut subscriber), [1, 2]);
        assert_eq!(two(&mut subscriber), [3, 4]);
    });
}

#[test]
fn an_ended_credential_ends_a_silent_subscription() {
    on_both_engines(|world| {
        let own = json!({"capabilities": ["event:subscribe", "workspace:read"]});
        let token = world.call(&world.people.agent, "attenuate_token", own).output();
        let mut subscriber =
            begin(&world.service, &text(&token["secret"]), from(world, StartPosition::Default))
                .unwrap()
                .subscriber;
        world.admin("revoke_token", json!({"token_id": token["id"]}));
        world.pass(Duration::from_secs(11));
        assert_eq!(code(next(&mut subscriber)), Code::Unauthenticated);
    });
}

#[test]
fn a_resume_token_goes_on_for_the_same_member_on_any_server() {
    on_both_engines(|world| {
        let filter = wanted(world, &json!({"kind": "MessagePosted"}));
        let subscription = Subscription { wanted: Some(filter), ..from(world, StartPosition::Default) };
        let subscriber = begin(&world.service, &world.people.agent, subscription.clone()).unwrap().subscriber;
        let token = subscriber.resume_token(subscriber.position()).unwrap();
        drop(subscriber);
        let posted = post(world, "missed");
        let resume =
            Subscription { wanted: None, begin: StartPosition::Token(token), ..subscription.clone() };
        let other = world.another_service(9);
        let mut again = begin(&other, &world.people.agent, resume.clone()).unwrap().subscriber;
        let frame = frames(&next(&mut again).unwrap()).remove(0);
        assert_eq!(frame["payload"]["message_id"], posted["id"]);
        let another = Subscription { wanted: Some(wanted(world, &json!({}))), ..resume.clone() };
        for (token, subscription) in [(&world.people.admin, &resume), (&world.people.agent, &another)] {
            assert_eq!(refused(begin(&other, token, subscription.clone())).code(), Code::Malformed);
        }
        world.pass(Duration::from_secs(3601));
        assert_eq!(refused(begin(&other, &world.people.agent, resume)).code(), Code::Malformed);
    });
}

#[test]
fn what_the_tail_has_is_delivered_without_asking_the_database() {
    on_both_engines(|world| {
        let begun =
            || begin(&world.service, &world.people.agent, from(world, StartPosition::Default)).unwrap();
        let mut subscribers: Vec<Subscriber> = (0..8).map(|_| begun().subscriber).collect();
        let create = |title: &str| world.new_thread(&world.id("channel").to_string(), title);
        create("who sees the channel is known after this");
        for subscriber in &mut subscribers {
            assert_eq!(next(subscriber).unwrap().frames.len(), 1);
        }
        create("the tail has this");
        assert_eq!(next(&mut subscribers[0]).unwrap().frames.len(), 1);
        let hide = |from: &str, to: &str| {
            for table in ["tokens", "channels", "members"] {
                world.database.execute(&format!("alter table {from}{table} rename to {to}{table}"));
            }
        };
        hide("", "hidden_");
        let delivered: Vec<_> = subscribers[1..].iter_mut().map(next).collect();
        // Once it has to check again, it finds nothing.
        world.database.execute("update heads set epoch = epoch + 1");
        world.clock.advance(Duration::from_secs(11));
        let looked = now(&mut subscribers[0]);
        hide("hidden_", "");
        assert!(delivered.iter().all(|batch| batch.as_ref().is_ok_and(|batch| batch.frames.len() == 1)));
        assert_eq!(code(looked), Code::Internal);
    });
}
