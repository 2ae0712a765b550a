//! The times of mail: quiet hours, digests, limits, and retries.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::op::DeliveryResult;
use svc_tests::{MAIL_DELAY, on_both_engines};

use crate::outreach::mail::{
    DAY, HOUR, MINUTE, bob, deliver, delivery, post, prefer, set, settle, take, texts,
};

fn later() -> DeliveryResult {
    DeliveryResult::Later { detail: "451 try again".to_owned(), after: None }
}

#[test]
fn what_is_not_accepted_waits_longer_each_time() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "immediate");
        let thread = world.new_thread(&world.new_channel("slow"), "Slow");
        post(world, &thread, "@bob, slowly");
        world.clock.advance(MAIL_DELAY);
        let mut pause = MINUTE;
        for _ in 0..12 {
            let batch = take(world).pop().unwrap();
            settle(world, batch, &later());
            let shown = delivery(world, &token);
            assert_eq!(shown["last_error"], "451 try again");
            assert_ne!(shown["retry_at"], Value::Null);
            world.clock.advance(pause - Duration::from_secs(1));
            assert!(take(world).is_empty(), "{pause:?}");
            world.clock.advance(Duration::from_secs(1));
            pause = (pause * 2).min(6 * HOUR);
        }
        assert!(texts(&deliver(world)).contains("slowly"), "it is not lost");
        let shown = delivery(world, &token);
        assert_eq!((&shown["retry_at"], &shown["last_error"]), (&Value::Null, &Value::Null));
    });
}

#[test]
fn what_is_too_much_for_an_hour_is_sent_together() {
    on_both_engines(|world| {
        bob(world, "immediate");
        let channel = world.new_channel("busy");
        let threads: Vec<String> = (0..25).map(|n| world.new_thread(&channel, &format!("T{n:02}"))).collect();
        threads.iter().for_each(|thread| drop(post(world, thread, "@bob, look")));
        world.clock.advance(MAIL_DELAY);
        let sent = deliver(world);
        assert_eq!(sent.len(), 20);
        assert!(sent.iter().all(|letter| letter.references.is_some()));
        post(world, &threads[0], "@bob, one more");
        world.clock.advance(MAIL_DELAY);
        assert!(deliver(world).is_empty());
        world.clock.advance(HOUR);
        let digest = deliver(world);
        assert_eq!(digest.len(), 1, "{digest:?}");
        assert_eq!(digest[0].subject, "[Night shift] 6 unread notifications");
        for title in ["T00", "T20", "T24"] {
            assert!(digest[0].text.contains(title), "{digest:?}");
        }
        post(world, &threads[1], "@bob, alone again");
        world.clock.advance(MAIL_DELAY);
        assert!(deliver(world)[0].references.is_some());
    });
}

/// Quiet hours override a digest; items that they delay are sent once they are over.
#[test]
fn quiet_hours_that_last_all_day_keep_back_everything_until_they_end() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "immediate");
        let thread = world.new_thread(&world.new_channel("calm"), "Calm");
        // It is a Wednesday, 11:06.
        for (end, mode) in [("24:00", "immediate"), ("00:00", "digest")] {
            set(world, &token, "bob@example.com", mode);
            let quiet = |days: Value| {
                let hours = json!({"start": "00:00", "end": end, "time_zone": "UTC", "days": days});
                let digest = json!({"every": "day", "at": "08:00"});
                prefer(world, &token, json!({"quiet_hours": hours, "digest": digest}));
            };
            quiet(Value::Null);
            let kept = world.call(&token, "get_notification_preferences", json!({})).output();
            assert_eq!(kept["quiet_hours"]["end"], "00:00");
            post(world, &thread, "@bob, quietly");
            for _ in 0..3 {
                world.clock.advance(DAY);
                assert!(deliver(world).is_empty(), "{mode}");
            }
            prefer(world, &token, json!({}));
            world.clock.advance(HOUR);
            assert!(texts(&deliver(world)).contains("quietly"), "{mode}: it was kept");
        }
        set(world, &token, "bob@example.com", "immediate");
        let days = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
        let weekday = |time: svc_core::time::Time| time.micros().div_euclid(86_400_000_000) + 4;
        let today = days[usize::try_from(weekday(world.clock.now()).rem_euclid(7)).unwrap()];
        let hours = json!({"start": "00:00", "end": "24:00", "time_zone": "UTC", "days": [today]});
        prefer(world, &token, json!({"quiet_hours": hours}));
        post(world, &thread, "@bob, tomorrow");
        world.clock.advance(MAIL_DELAY);
        assert!(deliver(world).is_empty(), "all of {today} is quiet");
        let in_day = world.clock.now().micros().rem_euclid(86_400_000_000);
        let left = Duration::from_micros(u64::try_from(86_400_000_000 - in_day).unwrap());
        world.clock.advance(left - Duration::from_secs(1));
        assert!(deliver(world).is_empty(), "to its end");
        world.clock.advance(Duration::from_secs(1));
        assert!(texts(&deliver(world)).contains("tomorrow"));
    });
}

/// Every world begins at 2026-11-18T11:06:40Z, a Wednesday.
#[test]
fn quiet_hours_and_digests_move_what_is_due() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "immediate");
        let thread = world.new_thread(&world.new_channel("calm"), "Calm");
        let quiet = json!({"start": "10:00", "end": "12:30", "time_zone": "UTC"});
        prefer(world, &token, json!({"quiet_hours": quiet}));
        post(world, &thread, "@bob, quietly");
        world.clock.advance(MAIL_DELAY);
        assert!(deliver(world).is_empty());
        world.clock.advance(HOUR);
        assert!(deliver(world).is_empty(), "it is 12:08");
        world.clock.advance(MINUTE * 22);
        assert!(texts(&deliver(world)).contains("quietly"));
        set(world, &token, "bob@example.com", "digest");
        prefer(world, &token, json!({"digest": {"every": "day", "at": "14:00"}}));
        post(world, &thread, "@bob, together");
        let other = world.new_thread(&world.new_channel("other"), "Other");
        post(world, &other, "@bob, with this");
        world.clock.advance(HOUR);
        assert!(deliver(world).is_empty(), "it is 13:30");
        world.clock.advance(MINUTE * 30);
        let sent = deliver(world);
        assert_eq!(sent.len(), 1, "{sent:?}");
        assert!(sent[0].text.contains("together") && sent[0].text.contains("with this"), "{sent:?}");
        post(world, &thread, "@bob, tomorrow");
        world.clock.advance(HOUR);
        assert!(deliver(world).is_empty());
        world.clock.advance(DAY);
        assert!(texts(&deliver(world)).contains("tomorrow"));
    });
}
