//! Changes during delivery: reading and withdrawing, further reasons, and new preferences.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use svc_core::op::DeliveryBatch;
use svc_tests::{MAIL_DELAY, World, on_both_engines, runtime};

use super::mail::{bob, deliver, post, prefer, take};

fn thread(world: &World, title: &str) -> String {
    let channel = world.new_channel(&format!("channel of {title}"));
    world.new_thread(&channel, title)
}

fn reply(world: &World, message: &serde_json::Value, target: &serde_json::Value) {
    let relation =
        json!({"message_id": message["id"], "target_message_id": target["id"], "kind": "replies_to"});
    world.admin("relate_message", relation);
}

#[test]
fn a_letter_is_current_until_what_it_tells_of_is_read_or_withdrawn() {
    on_both_engines(|world| {
        let (_, bob) = bob(world, "immediate");
        let threads = ["first", "second", "third"].map(|title| thread(world, title));
        let posted = threads.each_ref().map(|thread| post(world, thread, "@bob, look"));
        world.clock.advance(MAIL_DELAY);
        let batch = Arc::new(take(world).pop().unwrap());
        assert_eq!(batch.count(), 3);
        let current =
            || [0, 1, 2, 3].map(|place| runtime().block_on(world.service.is_current(&batch, place)).unwrap());
        assert_eq!(current(), [true, true, true, false]);
        world.admin("delete_message", json!({"message_id": posted[1]["id"]}));
        assert_eq!(current(), [true, false, true, false]);
        let read = json!({"lsns": [posted[0]["lsn"]]});
        world.call(&bob, "mark_inbox_read", read).output();
        assert_eq!(current(), [false, false, true, false]);
    });
}

#[test]
fn one_reason_that_is_wanted_is_enough_and_is_told_once() {
    on_both_engines(|world| {
        let (_, bob) = bob(world, "immediate");
        let thread = thread(world, "reasons");
        let own = json!({"thread_id": thread, "body": "what is it?"});
        let target = world.call(&bob, "post_message", own).output();
        let wishes = json!({"rules": [{"reason": "mention", "mail": false, "push": false}]});
        prefer(world, &bob, wishes);
        let letters = |world: &World| {
            world.clock.advance(MAIL_DELAY);
            deliver(world).len()
        };
        // A weaker reason after one that is turned off.
        let mentioning = post(world, &thread, "@bob, this");
        assert_eq!(letters(world), 0, "a control: mentions are not wanted");
        reply(world, &mentioning, &target);
        assert_eq!(letters(world), 1);
        // A stronger reason that is turned off, before the other is sent.
        let replying = post(world, &thread, "that");
        reply(world, &replying, &target);
        world.admin("edit_message", json!({"message_id": replying["id"], "body": "that, @bob"}));
        assert_eq!(letters(world), 1);
        // An item that was sent is not sent again for a weaker reason.
        prefer(world, &bob, json!({}));
        let mentioning = post(world, &thread, "@bob, and this");
        assert_eq!(letters(world), 1);
        reply(world, &mentioning, &target);
        assert_eq!(letters(world), 0);
    });
}

#[test]
fn what_was_put_off_follows_what_is_wanted_now() {
    on_both_engines(|world| {
        let (_, bob) = bob(world, "immediate");
        let thread = thread(world, "quiet");
        let quiet = json!({"quiet_hours": {"start": "00:00", "end": "23:59", "time_zone": "UTC"}});
        prefer(world, &bob, quiet);
        post(world, &thread, "@bob, at night");
        world.clock.advance(MAIL_DELAY);
        assert!(deliver(world).is_empty());
        prefer(world, &bob, json!({}));
        assert_eq!(deliver(world).len(), 1);
    });
}

#[test]
fn batches_that_overlap_keep_to_the_mails_of_an_hour() {
    on_both_engines(|world| {
        bob(world, "immediate");
        let channel = world.new_channel("busy");
        let apart = Duration::from_secs(10);
        for round in 0..3 {
            for number in 0..10 {
                post(world, &world.new_thread(&channel, &format!("{round} {number}")), "@bob, look");
            }
            world.clock.advance(apart);
        }
        world.clock.advance(MAIL_DELAY - 3 * apart);
        // They are taken one after another before any of them is settled.
        let taken = [0, 1, 2].map(|_| {
            let letters = take(world).iter().map(DeliveryBatch::count).sum::<usize>();
            world.clock.advance(apart);
            letters
        });
        assert_eq!(taken, [10, 10, 0]);
    });
}
