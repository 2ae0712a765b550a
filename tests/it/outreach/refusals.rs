//! Mails that a server refuses because of their contents: they are dropped, and several in a row suspend the
//! address.

use serde_json::{Value, json};
use svc_core::op::DeliveryResult;
use svc_core::{MAIL, Service};
use svc_tests::{MAIL_DELAY, World, on_both_engines, runtime};

use super::mail::{DAY, bob, confirm, deliver, delivery, post, prefer, set, settle, take, texts};

fn dropped() -> DeliveryResult {
    DeliveryResult::Dropped { detail: "554 5.7.1 spam".to_owned() }
}

fn later() -> DeliveryResult {
    DeliveryResult::Later { detail: "451 later".to_owned(), after: None }
}

/// Posts, and lets one server get this delivery result.
fn send(world: &World, service: &Service, thread: &str, result: &DeliveryResult) {
    post(world, thread, "@bob, look");
    world.clock.advance(DAY);
    let taken = runtime().block_on(service.take_batches(&MAIL)).unwrap();
    assert_eq!(taken.len(), 1, "something is due");
    for (batch, _) in taken {
        let results = vec![result.clone(); batch.count()];
        runtime().block_on(service.settle(batch, results)).unwrap();
    }
}

fn due(world: &World) -> i64 {
    world.database.number("select count(*) from inbox where mail_due is not null")
}

#[test]
fn a_refused_mail_is_dropped_and_the_third_in_a_row_suspends_on_any_server() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "immediate");
        let thread = world.new_thread(&world.new_channel("spam"), "Spam");
        // They share only the state in the database.
        let servers: Vec<Service> = (2..6).map(|seed| world.another_service(seed)).collect();
        let shown = || {
            let shown = delivery(world, &token);
            (shown["suspended"] == true, shown["last_error"].clone(), shown["retry_at"].clone())
        };
        let refused = (false, json!("554 5.7.1 spam"), Value::Null);
        send(world, &servers[0], &thread, &dropped());
        assert_eq!((shown(), due(world)), (refused.clone(), 0), "it is not sent again");
        send(world, &servers[1], &thread, &dropped());
        assert_eq!(shown(), refused);
        send(world, &servers[2], &thread, &DeliveryResult::Accepted);
        assert_eq!(shown(), (false, Value::Null, Value::Null), "it begins anew");
        send(world, &servers[0], &thread, &dropped());
        send(world, &servers[1], &thread, &dropped());
        send(world, &servers[2], &thread, &later());
        assert_eq!((shown().0, due(world)), (false, 1), "that says nothing of what the mail is");
        send(world, &servers[3], &thread, &dropped());
        assert_eq!((shown(), due(world)), ((true, json!("554 5.7.1 spam"), Value::Null), 0));
        post(world, &thread, "@bob, once more");
        world.clock.advance(DAY);
        assert!(deliver(world).is_empty() && due(world) == 0);

        confirm(world, &token, "bob@example.com", "immediate");
        send(world, &servers[0], &thread, &dropped());
        send(world, &servers[0], &thread, &dropped());
        assert_eq!(shown(), refused, "the code has begun anew");
        // Another address does the same.
        confirm(world, &token, "robert@example.com", "immediate");
        send(world, &servers[0], &thread, &dropped());
        send(world, &servers[0], &thread, &dropped());
        assert_eq!(shown(), refused);
        post(world, &thread, "@bob, the last one");
        world.clock.advance(DAY);
        assert!(texts(&deliver(world)).contains("the last one"));
        assert_eq!(world.database.number("select max(refusals) from delivery_addresses"), 0);
    });
}

#[test]
fn of_one_batch_only_the_refused_mails_are_dropped() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "immediate");
        let channel = world.new_channel("mixed");
        let post_in = |title: &str| drop(post(world, &world.new_thread(&channel, title), "@bob, look"));
        ["One", "Two", "Three", "Four"].into_iter().for_each(post_in);
        world.clock.advance(MAIL_DELAY);
        let settle = |results: Vec<DeliveryResult>| {
            let (batch, _) = runtime().block_on(world.service.take_batches(&MAIL)).unwrap().remove(0);
            runtime().block_on(world.service.settle(batch, results)).unwrap();
        };
        settle(vec![dropped(), DeliveryResult::Accepted, dropped(), DeliveryResult::NotTried]);
        assert_eq!((&delivery(world, &token)["suspended"], due(world)), (&json!(false), 1));
        assert!(texts(&deliver(world)).contains("Four"));
        ["Five", "Six", "Seven", "Eight"].into_iter().for_each(post_in);
        world.clock.advance(MAIL_DELAY);
        settle(vec![dropped(), dropped(), dropped(), DeliveryResult::NotTried]);
        assert_eq!((&delivery(world, &token)["suspended"], due(world)), (&json!(true), 0));
    });
}

/// A refusal for the former address does not count for the new one.
#[test]
fn a_refusal_of_an_address_that_was_replaced_counts_for_nothing() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "immediate");
        let thread = world.new_thread(&world.new_channel("moved"), "Moved");
        for refusal in [dropped(), DeliveryResult::Refused { detail: "550 5.1.1 unknown".to_owned() }] {
            post(world, &thread, "@bob, on its way");
            world.clock.advance(MAIL_DELAY);
            let (batch, _) = runtime().block_on(world.service.take_batches(&MAIL)).unwrap().remove(0);
            let old = delivery(world, &token)["address"] == "bob@example.com";
            let new = if old { "robert@example.com" } else { "bob@example.com" };
            confirm(world, &token, new, "immediate");
            runtime().block_on(world.service.settle(batch, vec![refusal])).unwrap();
            let shown = delivery(world, &token);
            assert_eq!((&shown["suspended"], &shown["last_error"]), (&json!(false), &Value::Null));
            let sent = deliver(world);
            assert_eq!((sent.len(), &*sent[0].to), (1, new), "it goes to the new address: {sent:?}");
        }
    });
}

/// The whole digest is dropped, and the next one is not delayed.
#[test]
fn a_refused_digest_is_followed_by_the_next_one() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "digest");
        prefer(world, &token, json!({"digest": {"every": "day", "at": "08:00"}}));
        let thread = world.new_thread(&world.new_channel("daily"), "Daily");
        send(world, &world.service, &thread, &dropped());
        assert_eq!(due(world), 0);
        post(world, &thread, "@bob, the next day");
        world.clock.advance(DAY);
        let sent = deliver(world);
        assert_eq!(sent.len(), 1);
        assert!(sent[0].text.contains("the next day") && !sent[0].text.contains("look"), "{sent:?}");
        set(world, &token, "bob@example.com", "off");
    });
}

#[test]
fn an_address_that_refuses_mail_is_suspended_until_it_is_confirmed_again() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "immediate");
        let thread = world.new_thread(&world.new_channel("gone"), "Gone");
        post(world, &thread, "@bob, one");
        world.clock.advance(MAIL_DELAY);
        let refused = DeliveryResult::Refused { detail: "550 no such user".to_owned() };
        settle(world, take(world).pop().unwrap(), &refused);
        let shown = delivery(world, &token);
        assert_eq!((&shown["suspended"], &shown["last_error"]), (&json!(true), &json!("550 no such user")));
        post(world, &thread, "@bob, two");
        world.clock.advance(DAY);
        assert!(take(world).is_empty());
        confirm(world, &token, "bob@example.com", "immediate");
        let shown = delivery(world, &token);
        assert_eq!((&shown["suspended"], &shown["last_error"]), (&json!(false), &Value::Null));
        post(world, &thread, "@bob, three");
        world.clock.advance(MAIL_DELAY);
        let sent = deliver(world);
        assert!(texts(&sent).contains("three") && !texts(&sent).contains("two"), "it looks ahead: {sent:?}");
    });
}

#[test]
fn the_third_refusal_in_a_row_suspends_whatever_was_on_its_way_with_it() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "immediate");
        let channel = world.new_channel("spam");
        // Each row is the results of the letters of one batch.
        for (results, suspended, error) in [
            (vec![dropped(), dropped(), DeliveryResult::Accepted], false, Value::Null),
            (vec![dropped()], false, json!("554 5.7.1 spam")),
            (vec![dropped()], false, json!("554 5.7.1 spam")),
            (
                vec![dropped(), DeliveryResult::Accepted, DeliveryResult::NotTried],
                true,
                json!("554 5.7.1 spam"),
            ),
        ] {
            for _ in &results {
                post(world, &world.new_thread(&channel, "Spam"), "@bob, buy");
            }
            world.clock.advance(MAIL_DELAY);
            let batch = take(world).pop().unwrap();
            runtime().block_on(world.service.settle(batch, results)).unwrap();
            let shown = delivery(world, &token);
            assert_eq!((&shown["suspended"], &shown["last_error"]), (&json!(suspended), &error));
        }
        world.clock.advance(DAY);
        assert!(take(world).is_empty());
    });
}
