//! Web push: the notifications of browsers, their times, and retries.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::op::{DeliveryBatch, DeliveryResult};
use svc_core::ops::{PushNotification, WEB_PUSH};
use svc_tests::push_service::subscription;
use svc_tests::{World, on_both_engines, runtime, text};

use super::web_push::shown;

pub const MINUTE: Duration = Duration::from_secs(60);

/// Bob, who wants content in notifications, and a thread that notifies him.
pub struct PushWorld<'w> {
    pub world: &'w World,
    pub bob_id: String,
    pub bob: String,
    pub channel: String,
    pub thread: String,
}

impl<'w> PushWorld<'w> {
    pub fn new(world: &'w World) -> Self {
        let (bob_id, bob) = world.new_agent("bob");
        let channel = world.new_channel("talk");
        let thread = world.new_thread(&channel, "The lexer");
        let told = Self { world, bob_id, bob, channel, thread };
        told.prefers(json!({}));
        told
    }

    /// Registers a browser of his.
    pub fn browser(&self, endpoint: &str) -> Value {
        self.world.call(&self.bob, "register_web_push", subscription(endpoint)).output()
    }

    /// Posts a message of the agent.
    pub fn say(&self, body: &str) -> Value {
        self.say_in(&self.thread, body)
    }

    fn say_in(&self, thread: &str, body: &str) -> Value {
        self.world.agent("post_message", json!({"thread_id": thread, "body": body}))
    }

    /// Sets his preferences, which include content unless they say otherwise.
    fn prefers(&self, mut preferences: Value) {
        preferences.as_object_mut().unwrap().entry("show_words").or_insert(json!(true));
        self.world.call(&self.bob, "set_notification_preferences", preferences).output();
    }

    /// Takes everything that is due now, as a shell does.
    fn take(&self) -> Vec<DeliveryBatch<PushNotification>> {
        let taken = runtime().block_on(self.world.service.take_batches(&WEB_PUSH)).unwrap();
        taken.into_iter().map(|(batch, _)| batch).collect()
    }

    /// Settles a batch with the result of each piece.
    fn settle(
        &self,
        batch: DeliveryBatch<PushNotification>,
        of: impl Fn(&PushNotification) -> DeliveryResult,
    ) {
        let results = batch.notifications().iter().map(of).collect();
        runtime().block_on(self.world.service.settle(batch, results)).unwrap();
    }

    /// Takes the due notifications, which must be one batch, settles it, and returns those of each browser.
    #[track_caller]
    fn deliver(&self, of: impl Fn(&PushNotification) -> DeliveryResult) -> BTreeMap<String, Vec<Value>> {
        let mut batches = self.take();
        assert_eq!(batches.len(), 1);
        let batch = batches.remove(0);
        let mut sent = BTreeMap::<String, Vec<Value>>::new();
        for piece in batch.notifications() {
            let browser = piece.browser.endpoint.rsplit('/').next().unwrap().to_owned();
            sent.entry(browser).or_default().push(serde_json::from_slice(&piece.payload).unwrap());
        }
        self.settle(batch, of);
        sent
    }
}

fn accepted(_: &PushNotification) -> DeliveryResult {
    DeliveryResult::Accepted
}

fn later(secs: Option<u64>) -> DeliveryResult {
    DeliveryResult::Later {
        detail: "the push service answered 503".to_owned(),
        after: secs.map(Duration::from_secs),
    }
}

fn gone() -> DeliveryResult {
    DeliveryResult::Refused { detail: "the push service answered 410".to_owned() }
}

/// Fails for the browsers whose endpoint has this suffix.
fn but(
    end: &'static str,
    result: impl Fn() -> DeliveryResult,
) -> impl Fn(&PushNotification) -> DeliveryResult {
    move |piece| if piece.browser.endpoint.ends_with(end) { result() } else { DeliveryResult::Accepted }
}

#[test]
fn what_is_new_in_a_thread_is_one_notification_for_each_browser() {
    on_both_engines(|world| {
        let told = PushWorld::new(world);
        assert!(told.take().is_empty(), "nothing yet");
        told.say("@bob, before he had a browser");
        told.browser("https://push.example/desk");
        told.browser("https://push.example/phone");
        assert!(told.take().is_empty(), "nothing of before");
        told.say("@bob, one");
        let last = told.say("@bob, two");
        let sent = told.deliver(accepted);
        assert_eq!(sent.keys().collect::<Vec<_>>(), ["desk", "phone"]);
        let notification = &sent["desk"][0];
        assert_eq!(
            *notification,
            json!({
                "workspace_id": world.id("workspace"), "channel_id": told.channel, "channel": "talk",
                "thread_id": told.thread, "thread": "The lexer", "message_id": last["id"],
                "lsn": last["lsn"], "at": last["posted_at"], "reason": "mention",
                "actor": "worker", "preview": "@bob, two", "count": 2,
            })
        );
        assert_eq!(sent["phone"], sent["desk"]);
        assert_eq!(sent["desk"].len(), 1);
        assert!(told.take().is_empty(), "once");
        let subscriptions = shown(world, &told.bob)["subscriptions"].clone();
        assert!(subscriptions.as_array().unwrap().iter().all(|of| of["last_ok_at"].is_string()));
    });
}

#[test]
fn nothing_is_pushed_of_what_was_read_or_withdrawn_or_is_not_seen_any_more() {
    on_both_engines(|world| {
        let told = PushWorld::new(world);
        told.browser("https://push.example/desk");
        let read = told.say("@bob, read at once");
        world.call(&told.bob, "mark_inbox_read", json!({"lsns": [read["lsn"]]})).output();
        assert!(told.take().is_empty(), "read");
        let withdrawn = told.say("@bob, withdrawn at once");
        world.agent("delete_message", json!({"message_id": withdrawn["id"]}));
        assert!(told.take().is_empty(), "withdrawn");
        let edited = told.say("@bob, a slip");
        world.agent("edit_message", json!({"message_id": edited["id"], "body": "nobody"}));
        assert!(told.take().is_empty(), "not spoken to any more");
        let edited = told.say("@bob, with a tpyo");
        world.agent("edit_message", json!({"message_id": edited["id"], "body": "@bob, without"}));
        assert_eq!(told.deliver(accepted)["desk"][0]["preview"], "@bob, without", "as it reads now");
        told.say("@bob, of yours");
        let closed = world.new_private_channel("closed");
        let member = json!({"channel_id": closed, "member_id": told.bob_id});
        world.admin("add_channel_member", member.clone());
        world.admin("add_channel_member", json!({"channel_id": closed, "member_id": world.id("agent")}));
        let thread = world.new_thread(&closed, "Closed");
        told.say_in(&thread, "@bob, look");
        world.admin("remove_channel_member", member);
        let sent = told.deliver(accepted);
        assert_eq!((sent["desk"].len(), &sent["desk"][0]["preview"]), (1, &json!("@bob, of yours")));
    });
}

#[test]
fn a_member_is_pushed_what_it_wants_when_it_wants() {
    on_both_engines(|world| {
        let told = PushWorld::new(world);
        told.browser("https://push.example/desk");
        told.prefers(json!({"rules": [{"reason": "mention", "mail": true, "push": false}]}));
        told.say("@bob, not by push");
        assert!(told.take().is_empty(), "a rule");
        told.prefers(json!({"muted": [told.thread]}));
        told.say("@bob, muted");
        assert!(told.take().is_empty(), "muted: in the inbox only");
        told.prefers(json!({"show_words": false}));
        told.say("@bob, a secret");
        let sent = told.deliver(accepted);
        assert_eq!((&sent["desk"][0]["preview"], &sent["desk"][0]["thread"]), (&Value::Null, &Value::Null));
        // Worlds begin on a Wednesday at 11:06:40 UTC.
        let quiet = json!({"start": "11:00", "end": "13:00", "time_zone": "UTC"});
        told.prefers(json!({"quiet_hours": quiet}));
        told.say("@bob, later");
        assert!(told.take().is_empty(), "quiet");
        let now = world.clock.now().to_string();
        assert_eq!(&now[11..16], "11:06", "{now}");
        world.clock.advance(113 * MINUTE);
        assert!(told.take().is_empty(), "still quiet");
        world.clock.advance(MINUTE);
        assert_eq!(told.deliver(accepted)["desk"][0]["preview"], "@bob, later");
        told.say("@bob, the day after");
        world.clock.advance(MINUTE);
        assert_eq!(told.deliver(accepted)["desk"][0]["preview"], "@bob, the day after");
    });
}

#[test]
fn a_direct_message_and_a_mention_are_urgent() {
    on_both_engines(|world| {
        let told = PushWorld::new(world);
        told.browser("https://push.example/desk");
        let dm = world
            .agent("open_dm", json!({"workspace_id": world.id("workspace"), "member_ids": [told.bob_id]}));
        let sent = |told: &PushWorld<'_>| {
            let mut batches = told.take();
            let batch = batches.remove(0);
            let piece = &batch.notifications()[0];
            let sent = (
                serde_json::from_slice::<Value>(&piece.payload).unwrap(),
                piece.is_urgent,
                piece.topic.clone(),
            );
            told.settle(batch, accepted);
            sent
        };
        told.say_in(&text(&dm["thread_id"]), "between us");
        let (notification, is_urgent, of_dm) = sent(&told);
        assert_eq!((&notification["reason"], &notification["channel"]), (&json!("dm"), &Value::Null));
        assert!(is_urgent);
        told.say("@bob, you");
        let (_, is_urgent, topic) = sent(&told);
        assert!(is_urgent && topic != of_dm);
        assert_eq!(topic.len(), 22);
        let own =
            world.call(&told.bob, "post_message", json!({"thread_id": told.thread, "body": "well"})).output();
        let reply = told.say("yes");
        let relation =
            json!({"message_id": reply["id"], "target_message_id": own["id"], "kind": "replies_to"});
        world.agent("relate_message", relation);
        let (notification, is_urgent, again) = sent(&told);
        assert_eq!(notification["reason"], "reply");
        assert!(!is_urgent);
        assert_eq!(again, topic, "the same thread");
    });
}

/// The default notification says who did something and where, and has the ids for its link.
#[test]
fn a_notification_has_no_title_and_no_words_unless_its_member_wants_them() {
    on_both_engines(|world| {
        let told = PushWorld::new(world);
        let (_, carol) = world.new_agent("carol");
        world.call(&carol, "register_web_push", subscription("https://push.example/carol")).output();
        told.say("@carol, some words");
        let sent = told.deliver(accepted)["carol"][0].clone();
        assert_eq!((&sent["preview"], &sent["thread"]), (&Value::Null, &Value::Null));
        assert_eq!((&sent["actor"], &sent["channel"]), (&json!("worker"), &json!("talk")));
        assert_eq!(sent["thread_id"], json!(told.thread));
        assert!(!sent.to_string().contains("words") && !sent.to_string().contains("lexer"), "{sent}");
    });
}

/// A push service that rejects a notification because of its contents would reject it later, too.
#[test]
fn a_notification_that_is_refused_for_what_it_is_is_dropped_for_that_browser() {
    on_both_engines(|world| {
        let told = PushWorld::new(world);
        told.browser("https://push.example/desk");
        told.browser("https://push.example/phone");
        let dropped = || DeliveryResult::Dropped { detail: "the push service answered 413".to_owned() };
        told.say("@bob, one");
        assert_eq!(told.deliver(but("phone", dropped)).len(), 2);
        assert!(told.take().is_empty(), "it is offered to nobody again");
        let of =
            |column: &str| world.database.number(&format!("select coalesce(max({column}), 0) from web_push"));
        assert_eq!((of("failures"), of("retry_at")), (0, 0), "and keeps nothing back");
        told.say("@bob, two");
        let sent = told.deliver(accepted);
        assert_eq!(
            (&sent["phone"][0]["count"], &sent["phone"][0]["preview"]),
            (&json!(1), &json!("@bob, two"))
        );
        told.say("@bob, three");
        // One waits for its push service; the other will never get it.
        let both = |piece: &PushNotification| {
            if piece.browser.endpoint.ends_with("desk") { later(None) } else { dropped() }
        };
        told.deliver(both);
        world.clock.advance(MINUTE);
        let sent = told.deliver(accepted);
        assert_eq!(sent.keys().collect::<Vec<_>>(), ["desk"]);
        assert_eq!(world.database.number("select count(*) from inbox where push_due is not null"), 0);
    });
}

#[test]
fn a_browser_that_is_gone_is_removed() {
    on_both_engines(|world| {
        let told = PushWorld::new(world);
        let desk = told.browser("https://push.example/desk");
        told.browser("https://push.example/old");
        told.say("@bob, one");
        assert_eq!(told.deliver(but("old", gone)).len(), 2);
        let left = shown(world, &told.bob)["subscriptions"].clone();
        assert_eq!((left.as_array().unwrap().len(), &left[0]["id"]), (1, &desk["id"]));
        assert!(told.take().is_empty(), "the other has it");
        told.say("@bob, two");
        told.deliver(|_| gone());
        assert_eq!(shown(world, &told.bob)["subscriptions"], json!([]));
        told.say("@bob, three");
        world.clock.advance(60 * MINUTE);
        assert!(told.take().is_empty());
    });
}

#[test]
fn what_a_push_service_does_not_take_is_offered_again_and_no_other_browser_hears_it_twice() {
    on_both_engines(|world| {
        let told = PushWorld::new(world);
        told.browser("https://push.example/desk");
        told.browser("https://push.example/phone");
        let previews = |sent: &BTreeMap<String, Vec<Value>>, browser: &str| -> Vec<String> {
            sent.get(browser).into_iter().flatten().map(|sent| text(&sent["preview"])).collect()
        };
        told.say("@bob, one");
        let sent = told.deliver(but("phone", || later(None)));
        assert_eq!((previews(&sent, "desk"), previews(&sent, "phone")).0, ["@bob, one"]);
        assert!(told.take().is_empty());
        // A new notification goes to the other browser at once.
        world.clock.advance(MINUTE / 2);
        told.say("@bob, two");
        let sent = told.deliver(accepted);
        assert_eq!((previews(&sent, "desk").len(), sent.contains_key("phone")), (1, false));
        assert_eq!(sent["desk"][0]["count"], 1);
        world.clock.advance(MINUTE / 2);
        let sent = told.deliver(but("phone", || later(None)));
        assert_eq!((sent.contains_key("desk"), sent["phone"][0]["count"].clone()), (false, json!(2)));
        // Twice as long after the second failure.
        world.clock.advance(MINUTE);
        assert!(told.take().is_empty());
        world.clock.advance(MINUTE);
        let sent = told.deliver(but("phone", || later(Some(600))));
        assert_eq!(sent.keys().collect::<Vec<_>>(), ["phone"]);
        // As long as the push service requests, if that is longer.
        world.clock.advance(9 * MINUTE);
        assert!(told.take().is_empty());
        let read = world.call(&told.bob, "list_inbox", json!({})).output()["items"][0]["lsn"].clone();
        world.call(&told.bob, "mark_inbox_read", json!({"lsns": [read]})).output();
        world.clock.advance(MINUTE);
        let sent = told.deliver(accepted);
        assert_eq!(
            (sent.contains_key("desk"), sent["phone"][0]["count"].clone()),
            (false, json!(1)),
            "the unread one"
        );
        world.clock.advance(60 * MINUTE);
        assert!(told.take().is_empty());
        assert_eq!(world.database.number("select count(*) from web_push where has is not null"), 0);
    });
}

#[test]
fn what_no_push_service_takes_for_a_day_is_given_up() {
    on_both_engines(|world| {
        let told = PushWorld::new(world);
        told.browser("https://push.example/desk");
        told.say("@bob, one");
        let mut tries = 0;
        for _ in 0..48 {
            for batch in told.take() {
                tries += 1;
                told.settle(batch, |_| later(None));
            }
            world.clock.advance(30 * MINUTE);
        }
        assert!((20..48).contains(&tries), "{tries}");
        world.clock.advance(60 * MINUTE);
        assert!(told.take().is_empty());
        told.say("@bob, two");
        world.clock.advance(60 * MINUTE);
        assert_eq!(told.deliver(accepted)["desk"][0]["preview"], "@bob, two");
        told.say("@bob, three");
        assert_eq!(told.deliver(accepted)["desk"][0]["preview"], "@bob, three", "all is well again");
    });
}

/// A process that dies cannot report what it has sent, so the next one may send it again, but nothing is
/// lost.
#[test]
fn what_nobody_settles_is_taken_again() {
    on_both_engines(|world| {
        let told = PushWorld::new(world);
        told.browser("https://push.example/desk");
        told.say("@bob, one");
        assert_eq!(told.take().len(), 1);
        assert!(told.take().is_empty(), "it is with somebody");
        world.clock.advance(MINUTE);
        let late = told.take().remove(0);
        let browser = shown(world, &told.bob)["subscriptions"][0]["id"].clone();
        world.call(&told.bob, "remove_web_push", json!({"subscription_id": browser})).output();
        told.settle(late, accepted);
        assert_eq!(shown(world, &told.bob)["subscriptions"], json!([]), "it stays removed");
    });
}

/// One batch has a maximum number of threads, and the next batch has the others.
#[test]
fn what_is_too_much_for_one_batch_comes_in_the_next() {
    on_both_engines(|world| {
        let told = PushWorld::new(world);
        told.browser("https://push.example/desk");
        let channel = world.new_channel("many");
        for number in 0..15 {
            told.say_in(&world.new_thread(&channel, &format!("Thread {number}")), "@bob");
        }
        assert_eq!(told.deliver(accepted)["desk"].len(), 10);
        world.clock.advance(MINUTE);
        assert_eq!(told.deliver(accepted)["desk"].len(), 5);
        world.clock.advance(MINUTE);
        assert!(told.take().is_empty());
    });
}
