//! Subscriptions in process: what is delivered, when, to whom, and what ends them.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::op::{RequestHead, Surface};
use svc_core::ops::{
    BatchBounds, Begin, EventBatch, FeedState, FrameForm, Subscribed, Subscriber, Subscription,
    WAIT_FOR_EVENT, WantedEvents,
};
use svc_core::{Code, Error, Result, Service};
use svc_tests::database::engines;

use svc_tests::{Setup, World, in_parallel, on_both_engines, runtime, text};

const ALL: BatchBounds = BatchBounds { events: 1000, bytes: 1 << 20 };
/// Longer than any test waits: what ends a wait is an event.
const LONG: Duration = Duration::from_secs(3600);

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

fn from(world: &World, begin: Begin) -> Subscription {
    Subscription { wanted: Some(wanted(world, &json!({}))), begin, form: FrameForm::Full, consumer: None }
}

fn begin(service: &Service, token: &str, subscription: Subscription) -> Result<Subscribed> {
    runtime().block_on(async {
        let peer = std::net::IpAddr::from([127, 0, 0, 1]);
        let head = RequestHead { peer: Some(peer), ..head(token) };
        let admission = WAIT_FOR_EVENT.admit(service, head).await?;
        service.subscribe(admission, subscription).await
    })
}

fn durable(world: &World, name: &str, begin: Begin) -> Subscription {
    let consumer = Some(serde_json::from_value(json!(name)).unwrap());
    Subscription { consumer, ..from(world, begin) }
}

fn next(subscriber: &mut Subscriber) -> Result<EventBatch> {
    runtime().block_on(subscriber.next(ALL, LONG))
}

fn frames(batch: &EventBatch) -> Vec<Value> {
    batch.frames.iter().map(|frame| serde_json::from_slice(frame).unwrap()).collect()
}

fn lsns(batch: &EventBatch) -> Vec<i64> {
    frames(batch).iter().map(|frame| frame["lsn"].as_i64().unwrap()).collect()
}

fn code(outcome: Result<EventBatch>) -> Code {
    outcome.map(|batch| lsns(&batch)).unwrap_err().code()
}

fn refused(outcome: Result<Subscribed>) -> Error {
    outcome.map(|begun| begun.after_id).unwrap_err()
}

fn post(world: &World, body: &str) -> Value {
    world.admin("post_message", json!({"thread_id": world.id("thread"), "body": body}))
}

/// Takes everything up to the end of the log.
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
            let begun = begin(&world.service, token, from(world, Begin::After(0))).unwrap();
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
            let from = if live { Begin::Default } else { Begin::After(world.lsn()) };
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
        let mut live =
            begin(&world.service, &world.people.agent, from(world, Begin::Default)).unwrap().subscriber;
        let posted = post(world, "a word");
        // The room has it before it is withdrawn, and it is taken after that.
        let mut other =
            begin(&world.service, &world.people.agent, from(world, Begin::Default)).unwrap().subscriber;
        post(world, "another");
        assert_eq!(frames(&next(&mut other).unwrap())[0]["message"]["body"], "another");
        world.admin("delete_message", json!({"message_id": posted["id"]}));
        let frame = &frames(&next(&mut live).unwrap())[0];
        assert_eq!(
            frame["message"],
            json!({"withdrawn": true, "unreadable": false, "body": "", "metadata": {}})
        );
    });
}

#[test]
fn lean_frames_have_no_payload_and_no_words() {
    on_both_engines(|world| {
        let lean = Subscription { form: FrameForm::Lean, ..from(world, Begin::Default) };
        for mut subscriber in
            [begin(&world.service, &world.people.agent, lean.clone()).unwrap().subscriber, {
                let before = world.lsn();
                post(world, "first");
                let past = Subscription { begin: Begin::After(before), ..lean };
                begin(&world.service, &world.people.agent, past).unwrap().subscriber
            }]
        {
            let frame = frames(&next(&mut subscriber).unwrap()).remove(0);
            assert_eq!((frame.get("payload"), frame.get("message")), (None, None), "{frame:#}");
            assert_eq!((&frame["kind"], frame["attribution"].is_object()), (&json!("MessagePosted"), true));
        }
    });
}

#[test]
fn who_leaves_a_channel_gets_nothing_of_it_any_more() {
    on_both_engines(|world| {
        let channel = world.new_private_channel("secrets");
        let thread = world.new_thread(&channel, "between us");
        let member = json!({"channel_id": channel, "member_id": world.id("agent")});
        let mut subscriber =
            begin(&world.service, &world.people.agent, from(world, Begin::Default)).unwrap().subscriber;
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
        // Taken after it left, so not even what was said while it was there.
        assert_eq!(bodies, ["to all"]);
    });
}

#[test]
fn a_position_that_the_log_does_not_have_must_be_fetched_again() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let beyond = world.lsn() + 1;
        let error = refused(begin(&world.service, &world.people.agent, from(world, Begin::After(beyond))));
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
        let mut live =
            begin(&world.service, &world.people.agent, from(world, Begin::Default)).unwrap().subscriber;
        let begins = world.lsn();
        post(world, "intact");
        assert_eq!(lsns(&next(&mut live).unwrap()), [begins + 1]);
        let break_at = |lsn: i64| {
            world.database.execute(&format!(
                "update events set kind = 'Other' where workspace_id = {workspace} and lsn = {lsn}"
            ));
        };
        break_at(begins - 1);
        let mut past = begin(&world.service, &world.people.agent, from(world, Begin::After(begins - 2)))
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
        let begun = begin(&world.service, &world.people.admin, from(&world, Begin::After(0))).unwrap();
        let mut subscriber = begun.subscriber;
        let batch = next(&mut subscriber).unwrap();
        assert_eq!((lsns(&batch), batch.state), (vec![1, 2, 3, 4, 5], FeedState::Truncated));
        let batch = runtime().block_on(subscriber.next(ALL, Duration::ZERO)).unwrap();
        assert_eq!((lsns(&batch), batch.state), (vec![], FeedState::Truncated));
        subscriber.go_on(5).unwrap();
        assert_eq!(lsns(&next(&mut subscriber).unwrap()), [6, 7, 8, 9, 10]);
        assert_eq!(subscriber.go_on(world.lsn() + 1).unwrap_err().code(), Code::Malformed);
        subscriber.go_on(world.lsn() - 1).unwrap();
        let batch = next(&mut subscriber).unwrap();
        assert_eq!((lsns(&batch), batch.state), (vec![world.lsn()], FeedState::Live));
        // Who has all that there is may be sent as much again, though there is more when it asks: the tail
        // has the event once another subscriber was given it.
        let here = from(&world, Begin::After(world.lsn()));
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
        let mut subscriber =
            begin(&world.service, &world.people.admin, from(world, Begin::After(0))).unwrap().subscriber;
        let two = |subscriber: &mut Subscriber| {
            lsns(&runtime().block_on(subscriber.next(BatchBounds { events: 2, ..ALL }, LONG)).unwrap())
        };
        assert_eq!(two(&mut subscriber), [1, 2]);
        subscriber.put_back();
        assert_eq!(two(&mut subscriber), [1, 2]);
        assert_eq!(two(&mut subscriber), [3, 4]);
    });
}

#[test]
fn a_durable_subscription_delivers_until_it_is_acknowledged() {
    on_both_engines(|world| {
        let subscribe = |service: &Service, from: Begin| {
            begin(service, &world.people.agent, durable(world, "indexer", from)).unwrap().subscriber
        };
        let mut first = subscribe(&world.service, Begin::Default);
        let begins = world.lsn();
        post(world, "one");
        post(world, "two");
        // They are too young.
        assert_eq!(runtime().block_on(first.next(ALL, Duration::ZERO)).unwrap().frames.len(), 0);
        world.pass(Duration::from_secs(3));
        assert_eq!(lsns(&next(&mut first).unwrap()), [begins + 1, begins + 2]);
        assert_eq!(first.acknowledge(begins + 3).unwrap_err().code(), Code::Malformed);
        first.acknowledge(begins + 1).unwrap();
        // Written once a second, or when the connection ends.
        world.pass(Duration::from_secs(2));
        runtime().block_on(first.next(ALL, Duration::ZERO)).unwrap();
        let other = world.another_service(9);
        let mut second = subscribe(&other, Begin::Default);
        assert_eq!(lsns(&next(&mut second).unwrap()), [begins + 2]);
        // The older connection is told at its next look.
        world.pass(Duration::from_secs(11));
        assert_eq!(code(runtime().block_on(first.next(ALL, Duration::ZERO))), Code::WrongState);
        // And at once if it is of the same process.
        let mut third = subscribe(&other, Begin::After(begins));
        assert_eq!(code(next(&mut second)), Code::WrongState);
        assert_eq!(lsns(&next(&mut third).unwrap()), [begins + 1, begins + 2], "rewound");
    });
}

#[test]
fn an_ended_credential_ends_a_silent_subscription() {
    on_both_engines(|world| {
        let own = json!({"capabilities": ["event:subscribe", "workspace:read"]});
        let token = world.call(&world.people.agent, "attenuate_token", own).output();
        let mut subscriber =
            begin(&world.service, &text(&token["secret"]), from(world, Begin::Default)).unwrap().subscriber;
        world.admin("revoke_token", json!({"token_id": token["id"]}));
        world.pass(Duration::from_secs(11));
        assert_eq!(code(next(&mut subscriber)), Code::Unauthenticated);
    });
}

#[test]
fn a_resume_token_goes_on_for_the_same_member_on_any_server() {
    on_both_engines(|world| {
        let filter = wanted(world, &json!({"kind": "MessagePosted"}));
        let subscription = Subscription { wanted: Some(filter), ..from(world, Begin::Default) };
        let subscriber = begin(&world.service, &world.people.agent, subscription.clone()).unwrap().subscriber;
        let token = subscriber.resume_token(subscriber.position()).unwrap();
        drop(subscriber);
        let posted = post(world, "missed");
        let resume = Subscription { wanted: None, begin: Begin::Token(token), ..subscription.clone() };
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

/// Where a consumer stands in the database.
fn stands(world: &World, name: &str) -> i64 {
    world.database.number(&format!("select after_id from consumers where consumer_id = '{name}'"))
}

/// Prunes everything that the log has so far, and returns its floor.
fn prune_all(world: &World) -> i64 {
    world.admin("set_retention_policy", json!({"workspace_id": world.id("workspace"), "events_days": 1}));
    world.pass(Duration::from_secs(3 * 86_400));
    let floor = world.admin("get_room", json!({"workspace_id": world.id("workspace")}))["floor"].clone();
    floor.as_i64().unwrap()
}

fn now(subscriber: &mut Subscriber) -> Result<EventBatch> {
    runtime().block_on(subscriber.next(ALL, Duration::ZERO))
}

#[test]
fn a_consumer_is_not_taken_where_the_log_does_not_have_what_follows() {
    on_both_engines(|world| {
        let subscribe =
            |from: Begin| begin(&world.service, &world.people.agent, durable(world, "index", from));
        // It is the first subscriber of the workspace in this process.
        let error = refused(subscribe(Begin::After(1_000_000)));
        assert_eq!(error.code(), Code::MustRefetch);
        assert_eq!(world.database.number("select count(*) from consumers"), 0);
        let begun = begin(&world.service, &world.people.admin, from(world, Begin::Default)).unwrap();
        assert_eq!((begun.after_id, begun.room_lsn), (world.lsn(), world.lsn()));
        let mut other = begun.subscriber;
        let mut held = subscribe(Begin::Default).unwrap().subscriber;
        let begins = world.lsn();
        post(world, "one");
        let batch = next(&mut other).unwrap();
        assert_eq!(
            (lsns(&batch), batch.room_lsn, batch.state),
            (vec![begins + 1], begins + 1, FeedState::Live)
        );
        assert_eq!(refused(subscribe(Begin::After(1_000_000))).code(), Code::MustRefetch);
        world.pass(Duration::from_secs(3));
        assert_eq!(lsns(&next(&mut held).unwrap()), [begins + 1], "it holds the consumer still");

        let floor = prune_all(world);
        assert!(floor > begins + 1);
        for from in [Begin::Default, Begin::After(0), Begin::After(floor - 2)] {
            let error = refused(subscribe(from));
            let problem = serde_json::to_value(error.problem()).unwrap();
            assert_eq!((error.code(), &problem["floor"]), (Code::MustRefetch, &json!(floor)));
        }
        assert_eq!(stands(world, "index"), begins, "a refused connection moves nothing");
        let mut again = subscribe(Begin::After(floor - 1)).unwrap().subscriber;
        world.pass(Duration::from_secs(3));
        assert_eq!(lsns(&now(&mut again).unwrap()).first(), Some(&floor));
    });
}

#[test]
fn a_consumer_is_moved_where_its_client_says() {
    on_both_engines(|world| {
        let subscribe =
            || begin(&world.service, &world.people.agent, durable(world, "index", Begin::Default));
        let mut subscriber = subscribe().unwrap().subscriber;
        let begins = world.lsn();
        ["one", "two", "three"].iter().for_each(|body| drop(post(world, body)));
        world.pass(Duration::from_secs(3));
        assert_eq!(lsns(&next(&mut subscriber).unwrap()), [begins + 1, begins + 2, begins + 3]);
        subscriber.acknowledge(begins + 2).unwrap();
        subscriber.go_on(begins).unwrap();
        // What was sent before is acknowledged when it is sent again.
        assert_eq!(lsns(&next(&mut subscriber).unwrap()), [begins + 1, begins + 2, begins + 3]);
        subscriber.put_back();
        subscriber.acknowledge(begins + 3).unwrap();
        assert_eq!(stands(world, "index"), begins);
        assert_eq!(lsns(&next(&mut subscriber).unwrap()), [begins + 1, begins + 2, begins + 3]);
        assert_eq!(subscriber.acknowledge(begins + 4).unwrap_err().code(), Code::Malformed);
        subscriber.go_on(begins + 2).unwrap();
        assert_eq!(lsns(&next(&mut subscriber).unwrap()), [begins + 3]);
        assert_eq!(stands(world, "index"), begins + 2, "forth too");
        assert_eq!(subscriber.go_on(world.lsn() + 1).unwrap_err().code(), Code::Malformed);
        prune_all(world);
        subscriber.go_on(0).unwrap();
        assert_eq!(code(now(&mut subscriber)), Code::MustRefetch);
        drop(subscriber);
        assert_eq!(stands(world, "index"), begins + 2, "what is refused moves nothing");
    });
}

#[test]
fn of_those_who_take_a_consumer_at_once_the_last_holds_it() {
    on_both_engines(|world| {
        for _ in 0..10 {
            let mut taken = in_parallel(6, |_| {
                begin(&world.service, &world.people.agent, durable(world, "index", Begin::Default)).unwrap()
            });
            let outcomes =
                taken.iter_mut().map(|begun| now(&mut begun.subscriber).map_err(|error| error.code()));
            let (held, lost): (Vec<_>, Vec<_>) = outcomes.partition(std::result::Result::is_ok);
            assert_eq!(held.len(), 1);
            assert!(lost.iter().all(|outcome| matches!(outcome, Err(Code::WrongState))), "{lost:?}");
        }
    });
}

#[test]
fn a_consumer_that_is_busy_learns_that_another_server_has_taken_it() {
    on_both_engines(|world| {
        let begins = world.lsn();
        (0..12).for_each(|_| drop(post(world, "a word")));
        world.pass(Duration::from_secs(3));
        let from_there = durable(world, "index", Begin::After(begins));
        let mut busy = begin(&world.service, &world.people.agent, from_there).unwrap().subscriber;
        let other = world.another_service(9);
        let _newer = begin(&other, &world.people.agent, durable(world, "index", Begin::Default)).unwrap();
        // Each page finds out anew who it is.
        let mut pages = 0;
        let ended = loop {
            let one = BatchBounds { events: 1, ..ALL };
            match runtime().block_on(busy.next(one, Duration::ZERO)) {
                Ok(batch) => assert_eq!(batch.frames.len(), 1),
                Err(error) => break error,
            }
            pages += 1;
            world.clock.advance(Duration::from_secs(4));
        };
        assert_eq!((ended.code(), pages), (Code::WrongState, 3));
    });
}

#[test]
fn so_much_is_sent_without_being_acknowledged() {
    on_both_engines(|world| {
        let begins = world.lsn();
        in_parallel(4, |_| (0..260).for_each(|_| drop(post(world, "a word"))));
        world.pass(Duration::from_secs(3));
        let from_there = durable(world, "index", Begin::After(begins));
        let mut subscriber = begin(&world.service, &world.people.agent, from_there).unwrap().subscriber;
        let mut taken = Vec::new();
        loop {
            let batch = now(&mut subscriber).unwrap();
            if batch.frames.is_empty() {
                break;
            }
            taken.extend(lsns(&batch));
        }
        assert_eq!(taken, (begins + 1..=begins + 1000).collect::<Vec<i64>>());
        subscriber.acknowledge(begins + 7).unwrap();
        let more = lsns(&now(&mut subscriber).unwrap());
        assert_eq!(more, (begins + 1001..=begins + 1007).collect::<Vec<i64>>());
        assert_eq!(now(&mut subscriber).unwrap().frames.len(), 0);
    });
}

#[test]
fn a_member_has_so_many_consumers_and_those_that_nobody_uses_are_removed() {
    on_both_engines(|world| {
        let subscribe =
            |token: &str, name: &str| begin(&world.service, token, durable(world, name, Begin::Default));
        let count = || world.database.number("select count(*) from consumers");
        let mut held = subscribe(&world.people.agent, "held").unwrap().subscriber;
        (1..100).for_each(|number| drop(subscribe(&world.people.agent, &format!("c{number}")).unwrap()));
        let error = refused(subscribe(&world.people.agent, "one-more"));
        assert_eq!((error.code(), count()), (Code::WrongState, 100));
        assert!(subscribe(&world.people.agent, "c7").is_ok(), "it has that one");
        assert!(subscribe(&world.people.admin, "one-more").is_ok(), "another member");
        let day = Duration::from_secs(86_400);
        world.pass(2 * day);
        assert_eq!(now(&mut held).unwrap().frames.len(), 0);
        world.pass(28 * day + day / 2);
        assert_eq!(count(), 1, "only the one that somebody held meanwhile");
        assert!(subscribe(&world.people.agent, "one-more").is_ok());
    });
}

#[test]
fn what_the_tail_has_is_delivered_without_asking_the_database() {
    on_both_engines(|world| {
        let begun = || begin(&world.service, &world.people.agent, from(world, Begin::Default)).unwrap();
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
        let delivered: Vec<_> = subscribers[1..].iter_mut().map(|subscriber| next(subscriber)).collect();
        // Once it has to look again, it finds nothing.
        world.database.execute("update heads set epoch = epoch + 1");
        world.clock.advance(Duration::from_secs(11));
        let looked = now(&mut subscribers[0]);
        hide("hidden_", "");
        assert!(delivered.iter().all(|batch| batch.as_ref().is_ok_and(|batch| batch.frames.len() == 1)));
        assert_eq!(code(looked), Code::Internal);
    });
}
