//! The inbox: its items and their reasons, reading, and retention.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

use crate::conversation::mentions::unread;
use crate::op::waits::wait_while;

const DAY: Duration = Duration::from_secs(86_400);

fn post(world: &World, token: &str, thread: &str, body: &str) -> Value {
    world.call(token, "post_message", json!({"thread_id": thread, "body": body})).output()
}

fn items(world: &World, token: &str, operation: &str, input: Value) -> Vec<Value> {
    world.call(token, operation, input).output()["items"].as_array().unwrap().clone()
}

#[test]
fn items_are_listed_marked_and_counted() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let (bob_id, bob) = world.new_agent("bob");
        let channel = world.new_channel("listed");
        let one = world.new_thread(&channel, "One");
        let two = world.new_thread(&channel, "Two");
        world.admin("add_channel_member", json!({"channel_id": channel, "member_id": bob_id}));
        let long = format!("@bob {}", "ä".repeat(300));
        let posted: Vec<Value> = [(&one, "@bob, first"), (&two, &long), (&one, "@bob, last")]
            .map(|(thread, body)| post(world, agent, thread, body))
            .to_vec();
        let all = items(world, &bob, "list_inbox", json!({}));
        let reasons: Vec<&Value> = all.iter().map(|item| &item["reason"]).collect();
        assert_eq!(reasons, ["added", "mention", "mention", "mention"]);
        let first = &all[1];
        assert_eq!(
            *first,
            json!({
                "lsn": posted[0]["lsn"], "at": posted[0]["posted_at"], "reason": "mention",
                "channel_id": channel, "thread_id": one, "message_id": posted[0]["id"],
                "actor_id": world.id("agent"), "read": false, "preview": "@bob, first",
            })
        );
        assert_eq!(text(&all[2]["preview"]).chars().count(), 200);
        assert_eq!((&all[0]["message_id"], &all[0]["preview"]), (&Value::Null, &Value::Null));
        let edited = json!({"message_id": posted[0]["id"], "body": "@bob, anew"});
        world.agent("edit_message", edited);
        let mentions = items(world, &bob, "list_mentions", json!({"newest_first": true, "limit": 2}));
        assert_eq!(mentions.len(), 2);
        assert_eq!(mentions[0]["message_id"], posted[2]["id"]);
        let oldest = items(world, &bob, "list_mentions", json!({"limit": 1}));
        assert_eq!(oldest[0]["preview"], "@bob, anew", "as it reads now");
        let added = items(world, &bob, "list_inbox", json!({"reason": "added"}));
        assert_eq!(added.len(), 1);
        assert!(items(world, &bob, "list_mentions", json!({"reason": "added"})).is_empty());

        let mark = |operation: &str, input: Value| world.call(&bob, operation, input);
        assert_eq!(mark("mark_mentions_read", json!({"target_id": two})).output()["unread"], 2);
        assert_eq!(mark("mark_inbox_read", json!({"lsns": [posted[0]["lsn"]]})).output()["unread"], 2);
        assert_eq!(mark("mark_mentions_read", json!({"up_to_lsn": world.lsn()})).output()["unread"], 0);
        assert_eq!(unread(world, &bob).len(), 1, "that it was added is no mention");
        let read = items(world, &bob, "list_inbox", json!({"unread": false}));
        assert_eq!(read.len(), 3);
        assert_eq!(mark("mark_inbox_read", json!({"target_id": channel})).output()["unread"], 0);
        for malformed in [json!({}), json!({"up_to_lsn": 1, "lsns": [1]})] {
            mark("mark_inbox_read", malformed).refused(400, "malformed-request");
        }
    });
}

#[test]
fn any_number_of_items_are_marked_at_once() {
    on_both_engines(|world| {
        post(world, &world.people.agent, &world.id("thread").to_string(), "@ada, look");
        let admin = world.database.id(world.id("admin"));
        let channel = world.database.id(world.id("channel"));
        world.database.insert_many(
            2500,
            &format!(
                "insert into inbox (workspace_id, member_id, lsn, reasons, channel_id, at)
                 select workspace_id, member_id, 1000000 + n.i, reasons, channel_id, at
                 from (select * from inbox where member_id = {admin} and channel_id = {channel} limit 1) s
                 cross join n where true"
            ),
        );
        let left = || {
            let unread = "select count(*) from inbox where read_at is null and lsn > 1000000";
            world.database.number(&format!("{unread} and member_id = {admin}"))
        };
        assert_eq!(left(), 2500);
        world.admin("mark_mentions_read", json!({"up_to_lsn": 1_002_000}));
        assert_eq!(left(), 500);
        world.admin("mark_inbox_read", json!({"target_id": world.id("channel")}));
        assert_eq!(left(), 0);
    });
}

#[test]
fn what_is_seen_no_more_is_neither_listed_nor_counted() {
    on_both_engines(|world| {
        let (bob_id, bob) = world.new_agent("bob");
        let channel = world.new_private_channel("closed");
        let member = json!({"channel_id": channel, "member_id": bob_id});
        world.admin("add_channel_member", member.clone());
        let thread = world.new_thread(&channel, "Closed");
        post(world, &world.people.admin, &thread, "@bob, look");
        assert_eq!(unread(world, &bob).len(), 2);
        world.admin("remove_channel_member", member.clone());
        assert!(unread(world, &bob).is_empty());
        world.admin("add_channel_member", member.clone());
        assert_eq!(unread(world, &bob).len(), 3);

        // Nor does a large number of such items hide a newer visible one.
        let row = |id: &str| world.database.id(id.parse::<uuid::Uuid>().unwrap());
        let bob_id = row(&bob_id);
        let channel_id = row(&channel);
        let copies = "workspace_id, member_id, n.i - 5000, reasons, channel_id, thread_id, at";
        let mention = format!(
            "select * from inbox
             where member_id = {bob_id} and channel_id = {channel_id} and message_id is not null"
        );
        world.database.insert_many(
            2500,
            &format!(
                "insert into inbox (workspace_id, member_id, lsn, reasons, channel_id, thread_id, at)
                 select {copies} from ({mention}) s cross join n where true"
            ),
        );
        world.admin("remove_channel_member", member);
        let open = world.new_thread(&world.new_channel("open"), "Open");
        post(world, &world.people.admin, &open, "@bob, here");
        let found = world.call(&bob, "wait_for_mention", json!({"timeout_secs": 1})).output();
        assert_eq!((&found["unread"], &found["items"][0]["preview"]), (&json!(1), &json!("@bob, here")));
    });
}

#[test]
fn an_inbox_is_its_members_own() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let (bob_id, bob) = world.new_agent("bob");
        let nobody = uuid::Uuid::from_u128(7).to_string();
        let trail = || {
            let input = json!({"workspace_id": world.id("workspace"), "limit": 1});
            world.admin("list_audit", input)["items"][0].clone()
        };
        for (operation, input) in [
            ("list_inbox", json!({})),
            ("list_mentions", json!({})),
            ("mark_inbox_read", json!({"up_to_lsn": 1})),
            ("mark_mentions_read", json!({"up_to_lsn": 1})),
        ] {
            let naming = |member: &str| {
                let mut input = input.clone();
                input["member_id"] = json!(member);
                world.call(agent, operation, input)
            };
            let own = naming(&world.id("agent").to_string());
            own.output();
            if operation.starts_with("mark") {
                let row = trail()["metadata"].clone();
                assert!(!row.to_string().contains(&world.id("agent").to_string()), "{row}");
            }
            let refusals = [bob_id.as_str(), nobody.as_str()].map(|member| naming(member).body);
            assert_eq!(refusals[0], refusals[1], "existing or not");
            naming(&bob_id).refused(403, "forbidden");
        }
        assert!(unread(world, &bob).is_empty());
    });
}

#[test]
fn a_wait_ends_when_somebody_speaks_to_its_member_and_to_nobody_else() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let (_, bob) = world.new_agent("bob");
        let (_, carol) = world.new_agent("carol");
        let thread = world.new_thread(&world.new_channel("waited"), "Wait");
        let over = wait_while(world, &carol, "wait_for_mention", json!({"timeout_secs": 60}), || {
            let found = wait_while(world, &bob, "wait_for_mention", json!({"timeout_secs": 60}), || {
                post(world, agent, &thread, "nobody in particular");
                post(world, agent, &thread, "@bob, look");
            });
            let found = found.output();
            assert_eq!((&found["unread"], &found["items"][0]["preview"]), (&json!(1), &json!("@bob, look")));
            let again = world.call(&bob, "wait_for_mention", json!({})).output();
            assert_eq!(again, found, "it marks nothing as read");
            world.clock.advance(Duration::from_secs(60));
        });
        assert_eq!(over.output(), json!({"timed_out": true}));
        world.call(&bob, "mark_mentions_read", json!({"up_to_lsn": world.lsn()})).output();
        // Another process on the same database.
        let other = world.another_service(5);
        let input = json!({"thread_id": thread, "body": "@bob, from elsewhere"});
        let found = wait_while(world, &bob, "wait_for_mention", json!({"timeout_secs": 60}), || {
            svc_tests::call(&other, Some(agent), "post_message", &input).unwrap();
            // Other processes' commits are polled by the clock.
            world.clock.advance(Duration::from_secs(2));
        });
        assert_eq!(found.output()["items"][0]["preview"], "@bob, from elsewhere");
    });
}

#[test]
fn each_reason_has_its_moment() {
    on_both_engines(|world| {
        let admin = &*world.people.admin;
        let agent = &*world.people.agent;
        let (bob_id, bob) = world.new_agent("bob");
        let channel = world.new_channel("work");
        let last = |token: &str| unread(world, token).last().map(|(reason, _)| reason.clone());
        let thread = |title: &str| world.new_thread(&channel, title);

        let own = thread("Own");
        world.admin("set_thread_owner", json!({"thread_id": own, "owner_id": bob_id}));
        assert_eq!(last(&bob).as_deref(), Some("owner"));

        let handed = thread("Handed over");
        world.agent("claim_thread", json!({"thread_id": handed}));
        world.agent("hand_off_claim", json!({"thread_id": handed, "to_member_id": bob_id}));
        assert_eq!(last(&bob).as_deref(), Some("assigned"));

        world.admin("add_reviewer", json!({"thread_id": handed, "member_id": bob_id}));
        assert_eq!(last(&bob).as_deref(), Some("review_requested"));

        let claim = world.agent("claim_thread", json!({"thread_id": own}));
        let lease = &claim["claim_lease_id"];
        let result = json!({"thread_id": own, "claim_lease_id": lease, "result": {"n": 1}});
        world.agent("set_thread_result", result);
        assert_eq!(last(&bob).as_deref(), Some("result"), "to the owner");
        assert_eq!(last(admin).as_deref(), Some("result"), "and to who created it");

        let asked = thread("Asked");
        let question = json!({"thread_id": asked, "question": "may I, @bob?"});
        let gate = world.agent("request_approval", question);
        assert_eq!(last(admin).as_deref(), Some("approval_requested"));
        assert_eq!(last(&bob).as_deref(), Some("mention"), "whose token does not carry approval:grant");
        let listed = items(world, admin, "list_inbox", json!({"reason": "approval_requested"}));
        assert_eq!(listed.last().unwrap()["message_id"], gate["message_id"]);

        let lapsing = thread("Lapsing");
        world.agent("claim_thread", json!({"thread_id": lapsing, "lease_secs": 3600}));
        world.pass(Duration::from_secs(1800));
        let threads = |reason: &str| -> Vec<String> {
            let listed = items(world, admin, "list_inbox", json!({"reason": reason}));
            listed.iter().map(|item| text(&item["thread_id"])).collect()
        };
        assert!(threads("claim_unacknowledged").contains(&lapsing));
        assert!(!threads("claim_expired").contains(&lapsing));
        world.pass(Duration::from_secs(3600));
        assert!(threads("claim_expired").contains(&lapsing));
        assert!(unread(world, agent).iter().all(|(reason, _)| reason != "claim_expired"));
    });
}

#[test]
fn items_go_a_month_after_they_are_read_and_after_three_unread() {
    on_both_engines(|world| {
        let (_, bob) = world.new_agent("bob");
        let thread = world.new_thread(&world.new_channel("kept"), "Kept");
        let first = post(world, &world.people.agent, &thread, "@bob, read this");
        post(world, &world.people.agent, &thread, "@bob, or not");
        let mark = json!({"lsns": [first["lsn"]]});
        world.call(&bob, "mark_inbox_read", mark).output();
        let count = || items(world, &bob, "list_inbox", json!({})).len();
        world.pass(DAY * 29);
        assert_eq!(count(), 2);
        world.pass(DAY * 2);
        assert_eq!(count(), 1);
        world.pass(DAY * 58);
        assert_eq!(count(), 1);
        world.pass(DAY * 2);
        assert_eq!(count(), 0);
    });
}

#[test]
fn of_what_is_muted_only_mentions_by_name_come() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let (bob_id, bob) = world.new_agent("bob");
        let channel = world.new_channel("loud");
        world.admin("add_channel_member", json!({"channel_id": channel, "member_id": bob_id}));
        let muted = world.new_thread(&channel, "Muted");
        let other = world.new_thread(&channel, "Other");
        world.call(&bob, "mark_inbox_read", json!({"up_to_lsn": world.lsn()})).output();
        let set = |input: Value| world.call(&bob, "set_notification_preferences", input);
        let usual = world.call(&bob, "get_notification_preferences", json!({})).output();
        assert_eq!((&usual["muted"], &usual["show_words"]), (&json!([]), &json!(false)));
        set(json!({"muted": [muted]})).output();
        let told = |thread: &str, body: &str| {
            post(world, agent, thread, body);
            let count = unread(world, &bob).len();
            world.call(&bob, "mark_inbox_read", json!({"up_to_lsn": world.lsn()})).output();
            count
        };
        assert_eq!([told(&muted, "@channel"), told(&muted, "@bob"), told(&other, "@channel")], [0, 1, 1]);
        set(json!({"muted": [channel]})).output();
        assert_eq!([told(&other, "@channel"), told(&other, "@bob")], [0, 1]);
        let review = json!({"thread_id": other, "member_id": bob_id});
        world.admin("add_reviewer", review);
        assert!(unread(world, &bob).is_empty());
        set(json!({})).output();
        assert_eq!(told(&other, "@channel"), 1);
        set(json!({"muted": [uuid::Uuid::from_u128(7)]})).refused(404, "not-found");
    });
}

#[test]
fn preferences_are_set_as_a_whole_and_checked() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let set = |input: Value| world.call(agent, "set_notification_preferences", input);
        let own = || {
            let mut own = world.agent("get_notification_preferences", json!({}));
            own.as_object_mut().unwrap().retain(|name, _| !["delivery", "web_push"].contains(&name.as_str()));
            own
        };
        let usual = own();
        let wanted = json!({
            "rules": [{"reason": "mention", "mail": false, "push": true}],
            "quiet_hours": {"start": "22:00", "end": "07:00", "time_zone": "europe/berlin",
                            "days": ["fri", "sat"]},
            "digest": {"every": "week", "at": "08:30"}, "show_words": false,
        });
        let kept = set(wanted.clone()).output();
        assert_eq!(kept["quiet_hours"]["time_zone"], "Europe/Berlin");
        assert_eq!(kept["rules"][0], wanted["rules"][0]);
        assert_eq!(kept["rules"].as_array().unwrap().len(), usual["rules"].as_array().unwrap().len());
        assert_eq!(own(), kept);
        for (malformed, said) in [
            (
                json!({"quiet_hours": {"start": "22:00", "end": "07:00", "time_zone": "Europe/Berln"}}),
                "Europe/Berlin",
            ),
            (json!({"quiet_hours": {"start": "24:00", "end": "07:00", "time_zone": "UTC"}}), "23:59"),
            (json!({"quiet_hours": {"start": "07:00", "end": "24:01", "time_zone": "UTC"}}), "24:00"),
            (json!({"digest": {"every": "day", "at": "8:30"}}), "23:59"),
            (
                json!({"rules": [{"reason": "dm", "mail": true, "push": true},
                                 {"reason": "dm", "mail": true, "push": true}]}),
                "twice",
            ),
        ] {
            let answer = set(malformed);
            assert!(answer.body["detail"].to_string().contains(said), "{:#}", answer.body);
            answer.refused(400, "malformed-request");
        }
        assert_eq!(set(json!({})).output(), usual, "what is absent is as it always was");
    });
}

/// Returns how many rows or steps each read of mentions takes, with `items` unread items of another reason.
fn cost_of_mentions(engine: svc_core::Engine, items: i64) -> Vec<(&'static str, u64)> {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(0_u64));
    let sum = std::sync::Arc::clone(&seen);
    let watcher =
        std::sync::Arc::new(move |ran: &svc_core::ExecutedStatement| *sum.lock().unwrap() += ran.cost);
    let postgres_options = Some("-c enable_seqscan=off -c enable_bitmapscan=off");
    let setup = svc_tests::Setup { watcher: Some(watcher), postgres_options, ..svc_tests::Setup::default() };
    let world = World::with(engine, setup);
    let (bob_id, bob) = world.new_agent("bob");
    let row = |id: &str| world.database.id(id.parse::<uuid::Uuid>().unwrap());
    // 256 is `result`: the results of tasks that the member has given to others.
    world.database.insert_many(
        items,
        &format!(
            "insert into inbox (workspace_id, member_id, lsn, reasons, channel_id, at)
             select t.workspace_id, {}, n.i - 1000000, 256, t.channel_id, 1
             from threads t cross join n where t.id = {}",
            row(&bob_id),
            world.database.id(world.id("thread"))
        ),
    );
    if engine == svc_core::Engine::Postgres {
        // Like autovacuum after this many rows.
        world.database.execute("analyze inbox");
    }
    let thread = world.new_thread(&world.new_channel("open"), "Open");
    post(&world, &world.people.admin, &thread, "@bob, here");
    let inputs = [
        ("wait_for_mention", json!({"timeout_secs": 1})),
        ("list_mentions", json!({"unread": true})),
        ("mark_mentions_read", json!({"lsns": [1]})),
    ];
    inputs
        .into_iter()
        .map(|(operation, input)| {
            *seen.lock().unwrap() = 0;
            world.call(&bob, operation, input).output();
            let cost = *seen.lock().unwrap();
            (operation, cost)
        })
        .collect()
}

#[test]
fn unread_items_of_other_reasons_make_the_reads_of_mentions_no_dearer() {
    for engine in svc_tests::database::engines() {
        let costs = cost_of_mentions(engine, 60_000);
        let most = if engine == svc_core::Engine::Sqlite { 100_000 } else { 10_000 };
        assert!(costs.iter().all(|(_, cost)| *cost <= most), "{}: {costs:?}", engine.name());
    }
}
