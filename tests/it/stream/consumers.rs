//! Durable subscriptions in process: their positions, their holders, and the reasons to begin again.

use std::time::Duration;

use serde_json::json;
use svc_core::ops::{BatchBounds, FeedState, StartPosition, Subscription};
use svc_core::{Code, Service};
use svc_tests::{World, in_parallel, on_both_engines, runtime};

use super::subscriptions::{ALL, begin, code, from, lsns, next, now, post, refused};

fn durable(world: &World, name: &str, begin: StartPosition) -> Subscription {
    let consumer = Some(serde_json::from_value(json!(name)).unwrap());
    Subscription { consumer, ..from(world, begin) }
}

/// Returns the position of a consumer in the database.
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

#[test]
fn a_durable_subscription_delivers_until_it_is_acknowledged() {
    on_both_engines(|world| {
        let subscribe = |service: &Service, from: StartPosition| {
            begin(service, &world.people.agent, durable(world, "indexer", from)).unwrap().subscriber
        };
        let mut first = subscribe(&world.service, StartPosition::Default);
        let begins = world.lsn();
        post(world, "one");
        post(world, "two");
        // The events are too young.
        assert_eq!(runtime().block_on(first.next(ALL, Duration::ZERO)).unwrap().frames.len(), 0);
        world.pass(Duration::from_secs(3));
        assert_eq!(lsns(&next(&mut first).unwrap()), [begins + 1, begins + 2]);
        assert_eq!(first.acknowledge(begins + 3).unwrap_err().code(), Code::Malformed);
        first.acknowledge(begins + 1).unwrap();
        // Written once a second, or when the connection ends.
        world.pass(Duration::from_secs(2));
        runtime().block_on(first.next(ALL, Duration::ZERO)).unwrap();
        let other = world.another_service(9);
        let mut second = subscribe(&other, StartPosition::Default);
        assert_eq!(lsns(&next(&mut second).unwrap()), [begins + 2]);
        // The older connection is closed at its next check.
        world.pass(Duration::from_secs(11));
        assert_eq!(code(runtime().block_on(first.next(ALL, Duration::ZERO))), Code::WrongState);
        // In the same process it is closed at once.
        let mut third = subscribe(&other, StartPosition::After(begins));
        assert_eq!(code(next(&mut second)), Code::WrongState);
        assert_eq!(lsns(&next(&mut third).unwrap()), [begins + 1, begins + 2], "rewound");
    });
}

#[test]
fn a_consumer_is_not_taken_where_the_log_does_not_have_what_follows() {
    on_both_engines(|world| {
        let subscribe =
            |from: StartPosition| begin(&world.service, &world.people.agent, durable(world, "index", from));
        // It is the first subscriber of the workspace in this process.
        let error = refused(subscribe(StartPosition::After(1_000_000)));
        assert_eq!(error.code(), Code::MustRefetch);
        assert_eq!(world.database.number("select count(*) from consumers"), 0);
        let begun = begin(&world.service, &world.people.admin, from(world, StartPosition::Default)).unwrap();
        assert_eq!((begun.after_id, begun.room_lsn), (world.lsn(), world.lsn()));
        let mut other = begun.subscriber;
        let mut held = subscribe(StartPosition::Default).unwrap().subscriber;
        let begins = world.lsn();
        post(world, "one");
        let batch = next(&mut other).unwrap();
        assert_eq!(
            (lsns(&batch), batch.room_lsn, batch.state),
            (vec![begins + 1], begins + 1, FeedState::Live)
        );
        assert_eq!(refused(subscribe(StartPosition::After(1_000_000))).code(), Code::MustRefetch);
        world.pass(Duration::from_secs(3));
        assert_eq!(lsns(&next(&mut held).unwrap()), [begins + 1], "it holds the consumer still");

        let floor = prune_all(world);
        assert!(floor > begins + 1);
        for from in [StartPosition::Default, StartPosition::After(0), StartPosition::After(floor - 2)] {
            let error = refused(subscribe(from));
            let problem = serde_json::to_value(error.problem()).unwrap();
            assert_eq!((error.code(), &problem["floor"]), (Code::MustRefetch, &json!(floor)));
        }
        assert_eq!(stands(world, "index"), begins, "a refused connection moves nothing");
        let mut again = subscribe(StartPosition::After(floor - 1)).unwrap().subscriber;
        world.pass(Duration::from_secs(3));
        assert_eq!(lsns(&now(&mut again).unwrap()).first(), Some(&floor));
    });
}

#[test]
fn a_consumer_is_moved_where_its_client_says() {
    on_both_engines(|world| {
        let subscribe =
            || begin(&world.service, &world.people.agent, durable(world, "index", StartPosition::Default));
        let mut subscriber = subscribe().unwrap().subscriber;
        let begins = world.lsn();
        ["one", "two", "three"].iter().for_each(|body| drop(post(world, body)));
        world.pass(Duration::from_secs(3));
        assert_eq!(lsns(&next(&mut subscriber).unwrap()), [begins + 1, begins + 2, begins + 3]);
        subscriber.acknowledge(begins + 2).unwrap();
        subscriber.continue_from(begins).unwrap();
        // Events that were sent before can be acknowledged when they are sent again.
        assert_eq!(lsns(&next(&mut subscriber).unwrap()), [begins + 1, begins + 2, begins + 3]);
        subscriber.put_back_batch();
        subscriber.acknowledge(begins + 3).unwrap();
        assert_eq!(stands(world, "index"), begins);
        assert_eq!(lsns(&next(&mut subscriber).unwrap()), [begins + 1, begins + 2, begins + 3]);
        assert_eq!(subscriber.acknowledge(begins + 4).unwrap_err().code(), Code::Malformed);
        subscriber.continue_from(begins + 2).unwrap();
        assert_eq!(lsns(&next(&mut subscriber).unwrap()), [begins + 3]);
        assert_eq!(stands(world, "index"), begins + 2, "forth too");
        assert_eq!(subscriber.continue_from(world.lsn() + 1).unwrap_err().code(), Code::Malformed);
        prune_all(world);
        subscriber.continue_from(0).unwrap();
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
                begin(&world.service, &world.people.agent, durable(world, "index", StartPosition::Default))
                    .unwrap()
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
        let from_there = durable(world, "index", StartPosition::After(begins));
        let mut busy = begin(&world.service, &world.people.agent, from_there).unwrap().subscriber;
        let other = world.another_service(9);
        let _newer =
            begin(&other, &world.people.agent, durable(world, "index", StartPosition::Default)).unwrap();
        // Each page looks up its caller again.
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
        let from_there = durable(world, "index", StartPosition::After(begins));
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
        let subscribe = |token: &str, name: &str| {
            begin(&world.service, token, durable(world, name, StartPosition::Default))
        };
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
