//! Reactions and pins: their counts, their refusals, and their removal with their message.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::{Database, Engine, RateSettings};
use svc_tests::client::Answer;
use svc_tests::database::engines;
use svc_tests::ordeal::proxy::Proxy;
use svc_tests::{Setup, World, answer_of, call, on_both_engines, text};

const DAY: Duration = Duration::from_secs(86_400);

fn post(world: &World, thread: &Value, body: &str) -> Value {
    world.agent("post_message", json!({"thread_id": thread, "body": body}))["id"].clone()
}

fn react(world: &World, token: &str, message: &Value, emoji: &str) -> Answer {
    world.call(token, "add_reaction", json!({"message_id": message, "emoji": emoji}))
}

fn read(world: &World, message: &Value) -> Value {
    world.agent("get_message", json!({"message_id": message}))
}

fn count(world: &World, table: &str, message: &Value) -> i64 {
    let id = world.database.id(text(message).parse::<svc_core::id::MessageId>().unwrap());
    world.database.number(&format!("select count(*) from {table} where message_id = {id}"))
}

#[test]
fn spellings_of_an_emoji_are_one_reaction_and_each_member_has_it_once() {
    on_both_engines(|world| {
        let admin = &*world.people.admin;
        let agent = &*world.people.agent;
        let message = post(world, &json!(world.id("thread")), "done");
        let before = world.lsn();
        let first = react(world, agent, &message, "tada").output();
        assert_eq!((&first["emoji"], &first["member_id"]), (&json!("🎉"), &json!(world.id("agent"))));
        assert_eq!(react(world, agent, &message, "🎉").output(), first, "the same again changes nothing");
        assert_eq!(world.kinds_after(before), ["ReactionAdded"]);
        react(world, admin, &message, "shipit").output();
        react(world, admin, &message, "🎉").output();
        let counts = json!([{"emoji": "🎉", "count": 2}, {"emoji": "shipit", "count": 1}]);
        assert_eq!(read(world, &message)["reactions"], counts);
        let page = world.agent("list_messages", json!({"thread_id": world.id("thread"), "limit": 500}));
        let listed = page["items"].as_array().unwrap().iter().find(|item| item["id"] == message).unwrap();
        assert_eq!(listed["reactions"], counts);
        let edited = world.agent("edit_message", json!({"message_id": message, "body": "done, and fast"}));
        assert_eq!(edited["reactions"], counts);
        let listed = world.agent("list_reactions", json!({"message_id": message}));
        let [agent_id, admin_id] = [world.id("agent"), world.id("admin")];
        assert_eq!(
            listed,
            json!({"next_cursor": null, "items": [
                {"emoji": "🎉", "count": 2, "member_ids": [agent_id, admin_id], "lsn": before + 1},
                {"emoji": "shipit", "count": 1, "member_ids": [admin_id], "lsn": before + 2},
            ]})
        );
        // The event is about the author of the message.
        let events = json!({"workspace_id": world.id("workspace"), "after_id": before, "limit": 3});
        let event = world.admin("list_events", events)["items"][1]["payload"].clone();
        assert_eq!(event["$chain"]["member_id"], json!(agent_id));
        assert_eq!((&event["member_id"], &event["emoji"]), (&json!(admin_id), &json!("shipit")));

        let remove = |token: &str| {
            world.call(token, "remove_reaction", json!({"message_id": message, "emoji": "tada"}))
        };
        let before = world.lsn();
        assert_eq!(remove(agent).output()["emoji"], "🎉");
        remove(agent).refused(404, "not-found");
        assert_eq!(world.kinds_after(before), ["ReactionRemoved"]);
        remove(admin).output();
        let left = json!([{"emoji": "shipit", "count": 1}]);
        assert_eq!(read(world, &message)["reactions"], left);
        react(world, agent, &message, "Tada!").refused(400, "malformed-request");
    });
}

#[test]
fn a_message_has_fifty_kinds_of_reactions_and_lists_fifty_members_of_each() {
    on_both_engines(|world| {
        let admin = &*world.people.admin;
        let agent = &*world.people.agent;
        let message = post(world, &json!(world.id("thread")), "a poll");
        for number in 0..50 {
            react(world, agent, &message, &format!("option-{number}")).output();
        }
        react(world, admin, &message, "option-50").refused(409, "wrong-state");
        react(world, admin, &message, "option-49").output();
        world.agent("remove_reaction", json!({"message_id": message, "emoji": "option-0"}));
        for number in 0..50 {
            let (_, token) = world.new_agent(&format!("voter-{number}"));
            react(world, &token, &message, "option-1").output();
        }
        let listed = world.agent("list_reactions", json!({"message_id": message}));
        assert_eq!(listed["items"].as_array().unwrap().len(), 49);
        let most = &listed["items"][0];
        let members = most["member_ids"].as_array().unwrap();
        assert_eq!((&most["count"], members.len()), (&json!(51), 50));
        assert_eq!(members[0], json!(world.id("agent")), "who reacted first is listed first");
    });
}

fn pin(world: &World, message: &Value) -> Answer {
    world.call(&world.people.agent, "pin_message", json!({"message_id": message}))
}

/// Returns the pins of a channel, in the order of the list.
fn pinned(world: &World, channel: &str) -> Vec<Value> {
    let mut found = Vec::new();
    let mut cursor = json!(null);
    loop {
        let page = world.agent("list_pins", json!({"channel_id": channel, "limit": 40, "cursor": cursor}));
        found.extend(page["items"].as_array().unwrap().iter().map(|item| item["message"]["id"].clone()));
        cursor = page["next_cursor"].clone();
        if cursor.is_null() {
            return found;
        }
    }
}

#[test]
fn a_channel_has_a_hundred_pins_and_a_thread_shows_the_last_of_its_channel() {
    on_both_engines(|world| {
        let channel = world.new_channel("pins");
        let [thread, other] = ["one", "another"].map(|title| json!(world.new_thread(&channel, title)));
        let messages: Vec<Value> =
            (0..=100).map(|number| post(world, &thread, &format!("note {number}"))).collect();
        let before = world.lsn();
        let first = pin(world, &messages[0]).output();
        assert_eq!(first["pinned_by"], json!(world.id("agent")));
        assert_eq!(pin(world, &messages[0]).output(), first, "the same again changes nothing");
        assert_eq!(world.kinds_after(before), ["MessagePinned"]);
        assert_eq!(read(world, &messages[0])["pinned"], true);
        messages[1..100].iter().for_each(|message| drop(pin(world, message).output()));
        pin(world, &messages[100]).refused(409, "wrong-state");
        assert_eq!(pinned(world, &channel), messages[..100]);
        let context = world.agent("get_thread_context", json!({"thread_id": other}));
        let shown: Vec<&Value> =
            context["pins"].as_array().unwrap().iter().map(|pin| &pin["message"]["body"]).collect();
        let last: Vec<String> = (90..100).rev().map(|number| format!("note {number}")).collect();
        assert_eq!(shown, last.iter().collect::<Vec<_>>());

        let unpin = json!({"message_id": messages[0]});
        let before = world.lsn();
        world.admin("unpin_message", unpin.clone());
        world.call(&world.people.admin, "unpin_message", unpin).refused(404, "not-found");
        assert_eq!(world.kinds_after(before), ["MessageUnpinned"]);
        assert_eq!(read(world, &messages[0])["pinned"], false);
        pin(world, &messages[100]).output();
        assert_eq!(pinned(world, &channel), messages[1..]);
    });
}

#[test]
fn nothing_is_put_on_a_message_that_is_withdrawn_or_in_an_archived_channel() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let channel = world.new_channel("attic to be");
        let thread = json!(world.new_thread(&channel, "old"));
        let [marked, bare, withdrawn] = ["one", "two", "three"].map(|body| post(world, &thread, body));
        for message in [&marked, &withdrawn] {
            react(world, agent, message, "eyes").output();
            pin(world, message).output();
        }
        let gone = world.agent("delete_message", json!({"message_id": withdrawn}));
        assert_eq!((&gone["reactions"], &gone["pinned"]), (&json!([]), &json!(false)));
        assert_eq!(pinned(world, &channel), std::slice::from_ref(&marked));
        world.admin("archive_channel", json!({"channel_id": channel}));
        let before = world.lsn();
        for message in [&withdrawn, &bare] {
            react(world, agent, message, "eyes").refused(409, "wrong-state");
            pin(world, message).refused(409, "wrong-state");
        }
        // Existing reactions stay, and can be removed.
        react(world, agent, &marked, "eyes").output();
        pin(world, &marked).output();
        assert_eq!(world.lsn(), before);
        world.agent("remove_reaction", json!({"message_id": marked, "emoji": "eyes"}));
        world.agent("unpin_message", json!({"message_id": marked}));
        for operation in ["remove_reaction", "unpin_message"] {
            let input = json!({"message_id": withdrawn, "emoji": "eyes"});
            let input = if operation == "unpin_message" { json!({"message_id": withdrawn}) } else { input };
            world.call(agent, operation, input).refused(404, "not-found");
        }
        assert_eq!(world.agent("list_reactions", json!({"message_id": withdrawn}))["items"], json!([]));
    });
}

/// However a message is removed, its reactions and pins go with it; under a hold the message stays, with all
/// of them.
#[test]
fn reactions_and_pins_go_with_their_message() {
    let withdraw = |world: &World, message: &Value| {
        let input = json!({"message_id": message});
        let workspace = world.id("workspace");
        let admin = &world.people.admin;
        let hold = world.admin("place_legal_hold", json!({"workspace_id": workspace, "reason": "a dispute"}));
        world.call(admin, "delete_message", input.clone()).refused(409, "legal-hold");
        assert_eq!((count(world, "reactions", message), count(world, "pins", message)), (1, 1));
        world.admin("release_legal_hold", json!({"workspace_id": workspace, "hold_id": hold["id"]}));
        world.admin("delete_message", input);
    };
    let prune = |world: &World, _: &Value| {
        let keep = json!({"workspace_id": world.id("workspace"), "messages_days": 10});
        world.admin("set_retention_policy", keep);
        world.clock.advance(11 * DAY);
        world.pass(Duration::ZERO);
    };
    let purge = |world: &World, _: &Value| {
        let input = json!({"workspace_id": world.id("workspace"), "confirm": "Night shift"});
        world.admin("purge_workspace", input);
    };
    let ways: [(&str, &(dyn Fn(&World, &Value) + Sync)); 3] =
        [("withdrawn", &withdraw), ("pruned", &prune), ("purged", &purge)];
    for (way, go) in ways {
        on_both_engines(|world| {
            let channel = world.id("channel").to_string();
            let message = post(world, &json!(world.id("thread")), "for now");
            react(world, &world.people.agent, &message, "eyes").output();
            pin(world, &message).output();
            go(world, &message);
            assert_eq!(
                (count(world, "reactions", &message), count(world, "pins", &message)),
                (0, 0),
                "{way}"
            );
            assert!(!pinned(world, &channel).contains(&message), "{way}");
            let verified = world.agent("verify_event_chain", json!({"workspace_id": world.id("workspace")}));
            assert_eq!(verified["valid"], true, "{way}");
        });
    }
}

/// Between the pruning and the removal of its rows, neither a message nor its pin is found.
#[test]
fn a_pin_of_a_pruned_message_is_not_listed_while_its_row_is_there() {
    on_both_engines(|world| {
        let channel = world.id("channel").to_string();
        let workspace = world.id("workspace");
        let message = post(world, &json!(world.id("thread")), "for now");
        pin(world, &message).output();
        let workspace = world.database.id(workspace);
        let floor = format!("update heads set words_floor = lsn where workspace_id = {workspace}");
        assert!(pinned(world, &channel).contains(&message));
        world.database.execute(&floor);
        assert_eq!(count(world, "pins", &message), 1);
        assert_eq!(pinned(world, &channel), [json!(null); 0]);
        let context = world.agent("get_thread_context", json!({"thread_id": world.id("thread")}));
        assert_eq!(context["pins"], json!([]));
    });
}

/// A citation names the cited text by the event that contains it.
#[test]
fn a_message_has_the_hash_of_the_event_with_its_words() {
    on_both_engines(|world| {
        let thread = world.id("thread");
        let hash_at = |lsn: i64| {
            let events = json!({"workspace_id": world.id("workspace"), "after_id": lsn - 1, "limit": 1});
            world.admin("list_events", events)["items"][0]["content_hash"].clone()
        };
        let posted = world.agent("post_message", json!({"thread_id": thread, "body": "first"}));
        let first = hash_at(posted["lsn"].as_i64().unwrap());
        assert_eq!(posted["content_hash"], first);
        let input = json!({"message_id": posted["id"]});
        assert_eq!(read(world, &posted["id"])["content_hash"], first);
        let edit = json!({"message_id": posted["id"], "body": "second"});
        let edited = world.agent("edit_message", edit.clone());
        let second = hash_at(world.lsn());
        assert!(first != second && edited["content_hash"] == second, "{edited}");
        assert_eq!(world.agent("edit_message", edit)["content_hash"], second);
        react(world, &world.people.agent, &posted["id"], "eyes").output();
        assert_eq!(world.agent("delete_message", input)["content_hash"], second);
        assert_eq!(read(world, &posted["id"])["content_hash"], second);
    });
}

/// Reading messages without reactions and pins costs nothing extra, and a page pays once.
#[test]
fn marks_cost_one_statement_for_all_messages_of_a_page() {
    for engine in engines().into_iter().filter(|engine| *engine == Engine::Postgres) {
        let world = World::with(engine, Setup { seed: 48, ..Setup::default() });
        let channel = world.new_channel("costs");
        let thread = json!(world.new_thread(&channel, "of messages"));
        let messages: Vec<Value> = (0..5).map(|n| post(&world, &thread, &format!("no {n}"))).collect();
        let proxy = Proxy::start(&world.database.url());
        let rates = RateSettings { per_client: 0, per_workspace: 0, window: DAY };
        let service = world.another_service_at(Database::Postgres(proxy.url(&[]).into()), rates);
        let cost = |operation: &str, input: &Value| {
            let ask = || answer_of(call(&service, Some(&world.people.agent), operation, input));
            ask().output();
            let before = proxy.statements();
            ask().output();
            proxy.statements() - before
        };
        let one = json!({"message_id": messages[0]});
        let all = json!({"thread_id": thread});
        let costs = || (cost("get_message", &one), cost("list_messages", &all));
        let unmarked = costs();
        assert!(unmarked.0 > 0 && unmarked.1 > 0);
        for message in &messages {
            react(&world, &world.people.agent, message, "eyes").output();
            pin(&world, message).output();
        }
        assert_eq!(costs(), (unmarked.0 + 1, unmarked.1 + 1));
    }
}
