//! Mail: confirmed addresses, due items, and sent mail.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::op::{DeliveryBatch, DeliveryResult};
use svc_core::{Letter, MAIL, Service};
use svc_tests::{MAIL_DELAY, Setup, World, on_both_engines, runtime, text};

pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(86_400);

/// Takes everything that is due now.
fn take_from(service: &Service) -> Vec<DeliveryBatch<Letter>> {
    let taken = runtime().block_on(service.take_batches(&MAIL)).unwrap();
    taken.into_iter().map(|(batch, _)| batch).collect()
}

pub fn take(world: &World) -> Vec<DeliveryBatch<Letter>> {
    take_from(&world.service)
}

/// Settles each piece of a batch with this delivery result.
pub fn settle(world: &World, batch: DeliveryBatch<Letter>, result: &DeliveryResult) {
    let results = vec![result.clone(); batch.count()];
    runtime().block_on(world.service.settle(batch, results)).unwrap();
}

/// A letter in the form in which it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentLetter {
    pub to: String,
    pub subject: String,
    pub text: String,
    pub html: String,
    id: String,
    pub references: Option<String>,
    pub unsubscribe: Option<String>,
}

fn letters(batch: &DeliveryBatch<Letter>) -> Vec<SentLetter> {
    let sent = |letter: &Letter| SentLetter {
        to: letter.to().as_str().to_owned(),
        subject: letter.subject().to_owned(),
        text: letter.text().to_owned(),
        html: letter.html().to_owned(),
        id: letter.id().to_owned(),
        references: letter.references().map(str::to_owned),
        unsubscribe: letter.unsubscribe().map(str::to_owned),
    };
    batch.notifications().iter().map(sent).collect()
}

/// Takes and sends everything that is due, and returns it.
pub fn deliver(world: &World) -> Vec<SentLetter> {
    let mut sent = Vec::new();
    loop {
        let batches = take(world);
        if batches.is_empty() {
            return sent;
        }
        for batch in batches {
            sent.extend(letters(&batch));
            settle(world, batch, &DeliveryResult::Accepted);
        }
    }
}

/// Returns the code in a letter.
fn code_in(letter: &SentLetter) -> String {
    letter.text.chars().take(8).collect()
}

pub fn set(world: &World, token: &str, address: &str, mode: &str) -> Value {
    world.call(token, "set_delivery_address", json!({"address": address, "mode": mode})).output()
}

/// Sets and confirms an address.
#[track_caller]
pub fn confirm(world: &World, token: &str, address: &str, mode: &str) {
    set(world, token, address, mode);
    let sent = deliver(world);
    let code = code_in(sent.iter().find(|letter| letter.to == address).unwrap());
    let confirmed = world.call(token, "confirm_delivery_address", json!({"code": code})).output();
    assert_eq!((&confirmed["address"], &confirmed["confirmed"]), (&json!(address), &json!(true)));
}

pub fn delivery(world: &World, token: &str) -> Value {
    world.call(token, "get_notification_preferences", json!({})).output()["delivery"].clone()
}

/// Sets preferences, which include content in mail unless they say otherwise.
pub fn prefer(world: &World, token: &str, mut preferences: Value) {
    preferences.as_object_mut().unwrap().entry("show_words").or_insert(json!(true));
    world.call(token, "set_notification_preferences", preferences).output();
}

/// Creates a member with a confirmed address, who wants content in mail. Returns its id and its token.
pub fn bob(world: &World, mode: &str) -> (String, String) {
    let (id, token) = world.new_agent("bob");
    confirm(world, &token, "bob@example.com", mode);
    prefer(world, &token, json!({}));
    (id, token)
}

pub fn post(world: &World, thread: &str, body: &str) -> Value {
    world.admin("post_message", json!({"thread_id": thread, "body": body}))
}

pub fn texts(sent: &[SentLetter]) -> String {
    sent.iter().map(|letter| letter.text.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn an_address_counts_once_its_owner_has_confirmed_it() {
    on_both_engines(|world| {
        let (_, bob) = world.new_agent("bob");
        prefer(world, &bob, json!({}));
        let thread = world.new_thread(&world.new_channel("mailed"), "Mailed");
        let give = |code: &str| world.call(&bob, "confirm_delivery_address", json!({"code": code}));
        assert_eq!(delivery(world, &bob), Value::Null);
        give("12345678").refused(409, "wrong-state");
        let shown = set(world, &bob, "bob@example.com", "immediate");
        let pending = json!({
            "address": null, "confirmed": false, "pending": "bob@example.com", "mode": "immediate",
            "suspended": false, "retry_at": null, "last_error": null,
        });
        assert_eq!((&shown, &delivery(world, &bob)), (&pending, &pending));
        give("12345678").refused(409, "wrong-state");
        post(world, &thread, "@bob, before the code");
        world.clock.advance(MAIL_DELAY);
        let sent = deliver(world);
        assert_eq!(sent.len(), 1, "the code alone: {sent:?}");
        assert_eq!(sent[0].unsubscribe, None, "nothing more is sent without the code");
        let code = code_in(&sent[0]);
        assert!(code.bytes().all(|byte| byte.is_ascii_digit()) && !sent[0].text.contains("bob"), "{sent:?}");
        let kept = world.database.rows("select code_hash, address from delivery_addresses");
        assert!(!format!("{kept:?}").contains(&code), "{kept:?}");
        let wrong = if code == "00000000" { "00000001" } else { "00000000" };
        (0..4).for_each(|_| drop(give(wrong).refused(403, "forbidden")));
        let confirmed = give(&code).output();
        assert_eq!(confirmed["address"], "bob@example.com");
        assert_eq!(give(&code).output(), confirmed, "again");
        give(wrong).refused(409, "wrong-state");
        assert!(deliver(world).is_empty(), "nothing of what was before");
        post(world, &thread, "@bob, after the code");
        world.clock.advance(MAIL_DELAY);
        assert!(texts(&deliver(world)).contains("after the code"));
    });
}

#[test]
fn a_code_ends_by_time_by_tries_and_by_the_next_one() {
    on_both_engines(|world| {
        let (_, bob) = world.new_agent("bob");
        let give = |code: &str| world.call(&bob, "confirm_delivery_address", json!({"code": code}));
        let ask = || {
            set(world, &bob, "bob@example.com", "immediate");
            code_in(&deliver(world)[0])
        };
        let first = ask();
        let wrong = if first == "00000000" { "00000001" } else { "00000000" };
        (0..5).for_each(|_| drop(give(wrong).refused(403, "forbidden")));
        give(&first).refused(409, "wrong-state");
        let second = ask();
        let third = ask();
        if second != third {
            give(&second).refused(403, "forbidden");
        }
        world.clock.advance(DAY);
        give(&third).refused(409, "wrong-state");
        let fourth = ask();
        world.clock.advance(DAY - MINUTE);
        give(&fourth).output();
    });
}

#[test]
fn codes_are_few() {
    on_both_engines(|world| {
        let (_, bob) = world.new_agent("bob");
        let ask = |token: &str, address: &str| {
            world.call(token, "set_delivery_address", json!({"address": address, "mode": "digest"}))
        };
        for number in 0..3 {
            ask(&bob, &format!("bob{number}@example.com")).output();
        }
        ask(&bob, "bob3@example.com").refused(429, "rate-limited");
        // Not sent yet, so this causes no mail.
        ask(&bob, "bob2@example.com").output();
        for number in 0..6 {
            let (_, token) = world.new_agent(&format!("member{number}"));
            let asked = if number < 5 { 3 } else { 2 };
            (0..asked).for_each(|n| drop(ask(&token, &format!("m{n}@example.com")).output()));
        }
        let (_, last) = world.new_agent("last");
        ask(&last, "last@example.com").refused(429, "rate-limited");
        world.clock.advance(HOUR);
        ask(&last, "last@example.com").output();
        for malformed in ["bob", "bob@", "b\r\nob@example.com", "<bob@example.com>", "bob@example.com,x@y.z"]
        {
            ask(&bob, malformed).refused(400, "malformed-request");
        }
    });
}

#[test]
fn the_old_address_serves_until_the_new_one_is_confirmed_and_is_told() {
    on_both_engines(|world| {
        let (_, bob) = bob(world, "immediate");
        let thread = world.new_thread(&world.new_channel("moved"), "Moved");
        set(world, &bob, "robert@example.com", "immediate");
        let sent = deliver(world);
        let to: Vec<&str> = sent.iter().map(|letter| &*letter.to).collect();
        assert_eq!(to, ["robert@example.com", "bob@example.com"]);
        assert!(
            sent[1].text.contains("Another email address") && !sent[1].text.contains("robert"),
            "{sent:?}"
        );
        post(world, &thread, "@bob, where are you?");
        world.clock.advance(MAIL_DELAY);
        assert_eq!(deliver(world)[0].to, "bob@example.com");
        world.call(&bob, "confirm_delivery_address", json!({"code": code_in(&sent[0])})).output();
        post(world, &thread, "@bob, and now?");
        world.clock.advance(MAIL_DELAY);
        let sent = deliver(world);
        assert_eq!((sent.len(), &*sent[0].to), (1, "robert@example.com"));
        set(world, &bob, "bob@example.com", "immediate");
        let back = set(world, &bob, "robert@example.com", "off");
        assert_eq!((&back["pending"], &back["mode"]), (&Value::Null, &json!("off")), "that is confirmed");
        post(world, &thread, "@bob, are you off?");
        world.clock.advance(MAIL_DELAY);
        assert!(
            deliver(world)
                .iter()
                .all(|letter| letter.to == "robert@example.com"
                    && letter.text.contains("Another email address"))
        );
    });
}

#[test]
fn what_is_unread_is_mailed_after_a_while_with_one_letter_for_each_thread() {
    on_both_engines(|world| {
        let (_, _token) = bob(world, "immediate");
        let channel = world.new_channel("mailed");
        let one = world.new_thread(&channel, "One <b>");
        let two = world.new_thread(&channel, "Two");
        post(world, &one, "@bob, first & <script>");
        post(world, &one, "@bob, second");
        post(world, &two, "@bob, elsewhere");
        assert!(take(world).is_empty(), "not at once");
        world.clock.advance(MAIL_DELAY - Duration::from_secs(1));
        assert!(take(world).is_empty(), "not yet");
        world.clock.advance(Duration::from_secs(1));
        let mut batches = take(world);
        assert_eq!(batches.len(), 1);
        let batch = batches.pop().unwrap();
        let html = batch.notifications()[0].html().to_owned();
        assert!(html.contains("first &amp; &lt;script&gt;") && html.contains("One &lt;b&gt;"), "{html}");
        let sent = letters(&batch);
        assert_eq!(sent.len(), 2, "{sent:?}");
        assert_eq!(sent[0].subject, "[Night shift] One <b>");
        assert!(sent[0].text.contains("first") && sent[0].text.contains("second"), "{sent:?}");
        assert!(sent[0].text.contains("@ada has mentioned you"), "{sent:?}");
        assert!(sent[1].text.contains("elsewhere") && sent[1].references.is_some(), "{sent:?}");
        assert_ne!(sent[0].references, sent[1].references);
        assert!(take(world).is_empty(), "it is leased");
        settle(world, batch, &DeliveryResult::Accepted);
        world.clock.advance(HOUR);
        assert!(take(world).is_empty(), "it was sent");
        post(world, &one, "@bob, third");
        world.clock.advance(MAIL_DELAY);
        let next = deliver(world);
        assert_eq!(next[0].references, sent[0].references);
        assert!(next[0].id != sent[0].id && !next[0].text.contains("second"), "{next:?}");
    });
}

/// The items that must not be sent, and the reason why they are dropped before they are due.
#[test]
fn nothing_is_mailed_that_was_read_or_withdrawn_or_is_not_wanted_any_more() {
    on_both_engines(|world| {
        let (bob_id, token) = bob(world, "immediate");
        let channel = world.new_private_channel("secret");
        let member = json!({"channel_id": channel, "member_id": bob_id});
        world.admin("add_channel_member", member.clone());
        let thread = world.new_thread(&channel, "Gone");
        let call = |operation: &str, input: Value| drop(world.call(&token, operation, input).output());
        let undone: [(&str, &dyn Fn(&Value)); 8] = [
            ("read", &|message| call("mark_inbox_read", json!({"lsns": [message["lsn"]]}))),
            ("read in its thread", &|_| call("mark_mentions_read", json!({"target_id": thread}))),
            ("withdrawn", &|message| {
                drop(world.admin("delete_message", json!({"message_id": message["id"]})))
            }),
            ("edited", &|message| {
                world.admin("edit_message", json!({"message_id": message["id"], "body": "never mind"}));
            }),
            ("unwanted", &|_| {
                let rules = json!({"rules": [{"reason": "mention", "mail": false, "push": true}]});
                prefer(world, &token, rules);
            }),
            ("muted", &|_| prefer(world, &token, json!({"muted": [thread]}))),
            ("off", &|_| drop(set(world, &token, "bob@example.com", "off"))),
            ("hidden", &|_| drop(world.admin("remove_channel_member", member.clone()))),
        ];
        for (how, undo) in undone {
            prefer(world, &token, json!({}));
            set(world, &token, "bob@example.com", "immediate");
            let message = post(world, &thread, "@bob, between us");
            undo(&message);
            world.clock.advance(MAIL_DELAY);
            let sent = deliver(world);
            assert!(sent.is_empty(), "{how}: {sent:?}");
            let due = "select count(*) from inbox where mail_due is not null";
            assert_eq!(world.database.number(due), 0, "{how}");
        }
        world.admin("add_channel_member", member);
        post(world, &thread, "@bob, a control");
        world.clock.advance(MAIL_DELAY);
        assert!(texts(&deliver(world)).contains("a control"));
    });
}

#[test]
fn mail_says_what_a_message_says_now_and_nothing_if_it_may_not() {
    on_both_engines(|world| {
        let (_, token) = bob(world, "immediate");
        let channel = world.new_channel("words");
        let thread = world.new_thread(&channel, "A title");
        let message = post(world, &thread, "@bob, the first words");
        world.admin("edit_message", json!({"message_id": message["id"], "body": "@bob, the last words"}));
        world.clock.advance(MAIL_DELAY);
        let sent = deliver(world);
        assert!(sent[0].text.contains("the last words") && !sent[0].text.contains("first"), "{sent:?}");
        prefer(world, &token, json!({"show_words": false}));
        post(world, &thread, "@bob, hidden words");
        world.clock.advance(MAIL_DELAY);
        let sent = deliver(world);
        let all = format!("{sent:?}");
        assert!(all.contains("@ada has mentioned you") && all.contains("#words"), "{all}");
        assert!(!all.contains("hidden") && !all.contains("A title"), "{all}");
    });
}

/// The default mail says who did something and where, and links to it.
#[test]
fn mail_has_no_title_and_no_words_unless_its_member_wants_them() {
    on_both_engines(|world| {
        let (_, carol) = world.new_agent("carol");
        confirm(world, &carol, "carol@example.com", "immediate");
        let channel = world.new_channel("words");
        let thread = world.new_thread(&channel, "A title");
        let first = post(world, &thread, "@carol, some words");
        post(world, &thread, "@carol, more words");
        world.clock.advance(MAIL_DELAY);
        let sent = deliver(world).remove(0);
        assert_eq!(sent.subject, "[Night shift] 2 unread notifications in #words");
        let all = format!("{sent:?}");
        assert!(all.contains("@ada has mentioned you") && !all.contains("A title"), "{all}");
        assert!(!all.contains("some words") && !all.contains("more words"), "{all}");
        let place = format!("https://svc.example.com/ui/t/{thread}#m-{}", text(&first["id"]));
        assert!(sent.text.contains(&format!("\n{place}\n")), "{sent:?}");
        assert!(sent.html.contains(&format!("<a href=\"{place}\">#words</a>")), "{sent:?}");
        let unsubscribe = sent.unsubscribe.unwrap();
        assert!(sent.text.contains(&unsubscribe) && sent.html.contains(&unsubscribe), "{all}");
        for wish in [json!({"quiet_hours": null}), json!({"muted": []}), json!({"show_words": null})] {
            world.call(&carol, "set_notification_preferences", wish).output();
            post(world, &thread, "@carol, again");
            world.clock.advance(MAIL_DELAY);
            let sent = deliver(world).remove(0);
            assert!(!format!("{sent:?}").contains("again"), "as if it had never been set: {sent:?}");
        }
        prefer(world, &carol, json!({"show_words": true}));
        post(world, &thread, "@carol, of my own will");
        world.clock.advance(MAIL_DELAY);
        let sent = deliver(world).remove(0);
        assert_eq!(sent.subject, "[Night shift] A title");
        assert!(
            sent.text.contains("of my own will") && sent.html.contains(">#words: A title</a>"),
            "{sent:?}"
        );
        // A digest links to each of its places.
        set(world, &carol, "carol@example.com", "digest");
        let other = world.new_thread(&channel, "Other");
        let posted = [&thread, &other].map(|thread| post(world, thread, "@carol, later"));
        world.clock.advance(HOUR);
        let sent = deliver(world).remove(0);
        for (thread, message) in [&thread, &other].into_iter().zip(&posted) {
            assert!(sent.text.contains(&format!("/ui/t/{thread}#m-{}", text(&message["id"]))), "{sent:?}");
        }
        assert_eq!(sent.unsubscribe.as_ref(), Some(&unsubscribe), "every mail has the same link");
    });
}

#[test]
fn a_batch_is_with_one_server_at_a_time_and_taken_again_if_that_dies() {
    on_both_engines(|world| {
        bob(world, "immediate");
        let thread = world.new_thread(&world.new_channel("twice"), "Twice");
        post(world, &thread, "@bob, once");
        world.clock.advance(MAIL_DELAY);
        let other = world.another_service(7);
        let first = take(world);
        assert_eq!((first.len(), take_from(&other).len()), (1, 0));
        world.clock.advance(MINUTE);
        let second = take_from(&other);
        assert_eq!(letters(&first[0]), letters(&second[0]), "the same letter");
        assert!(take(world).is_empty());
        runtime()
            .block_on(other.settle(second.into_iter().next().unwrap(), vec![DeliveryResult::Accepted]))
            .unwrap();
        world.clock.advance(HOUR);
        assert!(take(world).is_empty() && take_from(&other).is_empty());
    });
}

#[test]
fn many_servers_share_what_is_due() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.new_channel("crowd"), "Crowd");
        let names: Vec<String> = (0..6).map(|n| format!("member{n}")).collect();
        for name in &names {
            let (_, token) = world.new_agent(name);
            confirm(world, &token, &format!("{name}@example.com"), "immediate");
        }
        let all: Vec<String> = names.iter().map(|name| format!("@{name}")).collect();
        post(world, &thread, &all.join(" "));
        world.clock.advance(MAIL_DELAY);
        let others: Vec<Service> = (2..5).map(|seed| world.another_service(seed)).collect();
        let taken = svc_tests::in_parallel(3, |n| {
            take_from(&others[n]).iter().flat_map(letters).map(|letter| letter.to).collect()
        });
        let mut taken: Vec<String> = taken.into_iter().flat_map(|to: Vec<String>| to).collect();
        taken.sort_unstable();
        let wanted: Vec<String> = names.iter().map(|name| format!("{name}@example.com")).collect();
        assert_eq!(taken, wanted, "each once");
    });
}

#[test]
fn a_service_that_sends_no_mail_says_so() {
    for engine in svc_tests::database::engines() {
        let world = World::with(engine, Setup { mail: false, ..Setup::default() });
        let (_, bob) = world.new_agent("bob");
        let address = json!({"address": "bob@example.com", "mode": "immediate"});
        world.call(&bob, "set_delivery_address", address).refused(409, "not-enabled");
        let code = json!({"code": "12345678"});
        world.call(&bob, "confirm_delivery_address", code).refused(409, "not-enabled");
        let thread = world.new_thread(&world.new_channel("unsent"), "Unsent");
        post(&world, &thread, "@bob, nothing leaves");
        assert_eq!(world.database.number("select count(*) from inbox where mail_due is not null"), 0);
    }
}

#[test]
fn an_address_without_a_domain_of_the_internet_is_refused() {
    on_both_engines(|world| {
        let (_, bob) = world.new_agent("bob");
        let set = |address: &str| {
            world.call(&bob, "set_delivery_address", json!({"address": address, "mode": "immediate"}))
        };
        for address in [
            "a@b",
            "bob@localhost",
            "postmaster@127.0.0.1",
            "bob@[127.0.0.1]",
            "bob@[IPv6:::1]",
            "bob@2130706433",
            "bob@example.0",
            "bob@example.com.",
        ] {
            let refusal = set(address).refused(400, "malformed-request");
            assert_eq!(refusal["errors"][0]["field"], "address", "{address}: {refusal}");
        }
        assert_eq!(world.database.number("select count(*) from delivery_codes"), 0);
        assert_eq!(set("bob@mail.example.com").output()["pending"], "bob@mail.example.com");
    });
}
