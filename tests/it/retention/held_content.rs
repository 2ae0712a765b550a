//! Legal holds, table by table: every table that a purge empties keeps its content, whichever operation
//! replaces, changes or deletes it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::op::Class;
use svc_tests::{World, on_both_engines};
use uuid::Uuid;

/// A test of a table: it creates content with the word, places a hold, and calls each operation that could
/// lose the content.
type Case = fn(&World, &str);

/// One case for each table with content that a purge empties.
const CASES: [(&str, Case); 8] = [
    ("boots", boot),
    ("claim_checkpoints", checkpoint),
    ("glossary", glossary),
    ("held_texts", held_text),
    ("memory_blocks", memory_block),
    ("message_edits", message),
    ("messages", message),
    ("results", result),
];

/// The tables whose rows are removed with a message, and are tested with it.
const WITH_MESSAGES: [&str; 8] =
    ["approval_gates", "inbox", "pins", "reactions", "relations", "reviews", "thread_notices", "votes"];

fn hold(world: &World) -> Value {
    world.admin("place_legal_hold", json!({"workspace_id": world.id("workspace"), "reason": "one"}))
}

/// Calls an operation that destroys content. Fails unless the hold forbids it.
fn refused(world: &World, operation: &str, input: Value) {
    world.call(&world.people.admin, operation, input).refused(409, "legal-hold");
}

/// Returns the number of rows that have a word unencrypted.
fn rows_with(world: &World, word: &str) -> usize {
    let dump = world.database.dump();
    dump.values().flatten().filter(|row| row.contains(word)).count()
}

/// Checks that each of these words is still in a row.
fn check_kept(world: &World, words: &[String]) {
    for word in words {
        assert!(rows_with(world, word) > 0, "{word} is lost");
    }
}

fn boot(world: &World, word: &str) {
    let set = |said: &str| {
        world.agent("set_channel_boot", json!({"channel_id": world.id("channel"), "text": said}));
    };
    let words = [format!("{word}-1"), format!("{word}-2"), format!("{word}-3")];
    set(&words[0]);
    hold(world);
    set(&words[1]);
    set(&words[2]);
    set("");
    check_kept(world, &words);
}

fn glossary(world: &World, word: &str) {
    let workspace = world.id("workspace");
    let set = |said: &str| {
        let input = json!({"workspace_id": workspace, "term": "held", "definition": said});
        world.agent("set_glossary_term", input);
    };
    let words = [format!("{word}-1"), format!("{word}-2"), format!("{word}-3")];
    set(&words[0]);
    hold(world);
    set(&words[1]);
    set(&words[2]);
    refused(world, "delete_glossary_term", json!({"workspace_id": workspace, "term": "held"}));
    check_kept(world, &words);
}

fn memory_block(world: &World, word: &str) {
    let workspace = world.id("workspace");
    let [value, described, value_2] = [1, 2, 3].map(|number| format!("{word}-{number}"));
    let block = json!({"workspace_id": workspace, "label": "held", "value": value, "description": described});
    let block = world.agent("create_memory_block", block)["id"].clone();
    hold(world);
    let named = |more: Value| {
        let mut input = json!({"workspace_id": workspace, "block_id": block});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    world.agent("set_memory_block", named(json!({"value": value_2})));
    world.agent("set_memory_block", named(json!({"value": "", "description": null})));
    refused(world, "delete_memory_block", named(json!({})));
    check_kept(world, &[value, described, value_2]);
}

/// Replaces a checkpoint by each operation that stores one, and by each end of a claim.
fn checkpoint(world: &World, word: &str) {
    let channel = world.new_channel("held");
    let thread = world.new_thread(&channel, "held");
    let mut words = Vec::new();
    let mut left = || {
        words.push(format!("{word}-{:02}", words.len()));
        json!({"at": words.last()})
    };
    let claim = |caller: &str| {
        let input = json!({"thread_id": thread, "lease_secs": 60});
        world.call(caller, "claim_thread", input).output()["claim_lease_id"].clone()
    };
    let call = |caller: &str, operation: &str, lease: &Value, more: Value| {
        let mut input = json!({"thread_id": thread, "claim_lease_id": lease});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        world.call(caller, operation, input).output()
    };
    let agent = &world.people.agent;
    let admin = &world.people.admin;
    let lease = claim(agent);
    call(agent, "renew_claim", &lease, json!({"checkpoint": left()}));
    hold(world);
    let before = rows_with(world, word);
    call(agent, "renew_claim", &lease, json!({"checkpoint": left()}));
    let to = json!({"to_member_id": world.id("admin"), "checkpoint": left()});
    let lease = call(agent, "hand_off_claim", &lease, to)["claim_lease_id"].clone();
    call(admin, "release_claim", &lease, json!({"checkpoint": left()}));
    let lease = claim(agent);
    call(agent, "renew_claim", &lease, json!({"lease_secs": 60, "checkpoint": left()}));
    // The claim lapses.
    world.pass(Duration::from_secs(61));
    let lease = claim(admin);
    call(admin, "renew_claim", &lease, json!({"checkpoint": left()}));
    call(admin, "set_thread_result", &lease, json!({"result": {}}));
    reopen(world, &thread);
    let lease = claim(agent);
    let last = left();
    call(agent, "renew_claim", &lease, json!({"checkpoint": last}));
    let held = rows_with(world, word);
    assert_eq!(held, before + 6, "each one that was replaced is kept once");
    // The same checkpoint again replaces nothing.
    call(agent, "renew_claim", &lease, json!({"checkpoint": last}));
    assert_eq!(rows_with(world, word), held);
    world.admin("cancel_thread", json!({"thread_id": thread, "reason": "over"}));
    check_kept(world, &words);
}

fn reopen(world: &World, thread: &str) {
    for action in ["close", "reopen"] {
        world.admin("transition_thread", json!({"thread_id": thread, "action": action}));
    }
}

fn result(world: &World, word: &str) {
    let thread = world.new_thread(&world.new_channel("held"), "held");
    let words = [format!("{word}-1"), format!("{word}-2")];
    for (number, said) in words.iter().enumerate() {
        let claim = world.agent("claim_thread", json!({"thread_id": thread}));
        let lease = &claim["claim_lease_id"];
        let input = json!({"thread_id": thread, "claim_lease_id": lease, "result": {"said": said}});
        world.agent("set_thread_result", input);
        if number == 0 {
            hold(world);
        }
        reopen(world, &thread);
    }
    check_kept(world, &words);
}

/// Checks that a kept text stays until the last hold is released.
fn held_text(world: &World, word: &str) {
    let holds = [hold(world), hold(world)];
    boot(world, word);
    let kept =
        || world.database.rows("select kind, object_id, version, text from held_texts order by version");
    let before = kept();
    assert!(before.len() > 2);
    for hold in &holds {
        let input = json!({"workspace_id": world.id("workspace"), "hold_id": hold["id"]});
        world.admin("release_legal_hold", input);
        world.pass(Duration::from_secs(60));
    }
    assert_eq!(kept(), before, "there is the hold of the boot");
}

/// Checks a message and its edits, which are sealed and so are read as members do.
fn message(world: &World, word: &str) {
    let said = |number: u32| format!("{word}-{number}");
    let message = world.agent("post_message", json!({"thread_id": world.id("thread"), "body": said(1)}));
    let input = json!({"message_id": message["id"]});
    world.agent("edit_message", json!({"message_id": message["id"], "body": said(2)}));
    hold(world);
    world.agent("edit_message", json!({"message_id": message["id"], "body": said(3)}));
    refused(world, "delete_message", input.clone());
    let purge = json!({"message_id": world.id("withdrawn_message")});
    refused(world, "purge_message", purge);
    let days = json!({"workspace_id": world.id("workspace"), "messages_days": 1});
    world.call(&world.people.admin, "set_retention_policy", days).output();
    world.pass(Duration::from_secs(3 * 86_400));
    assert_eq!(world.admin("get_message", input.clone())["body"], json!(said(3)));
    let edits = world.admin("list_message_edits", input);
    let bodies: Vec<&Value> = edits["items"].as_array().unwrap().iter().map(|edit| &edit["body"]).collect();
    assert_eq!(bodies, [&json!(said(1)), &json!(said(2))]);
}

/// Returns the tables that a purge empties, and those whose rows are removed with messages.
fn emptied(world: &World) -> BTreeSet<&str> {
    let table = world.service.table();
    let words = table
        .records()
        .iter()
        .filter(|records| records.columns().any(|(_, class)| matches!(class, Class::Words | Class::Sealed)));
    words.map(|records| records.name()).chain(table.cleaned_tables()).collect()
}

#[test]
fn every_table_that_a_purge_empties_has_a_case() {
    on_both_engines(|world| {
        let cases = CASES.iter().map(|(table, _)| *table).chain(WITH_MESSAGES);
        assert_eq!(emptied(world), cases.collect());
    });
}

#[test]
fn nothing_that_was_said_is_lost_under_a_hold() {
    for (table, case) in CASES {
        on_both_engines(|world| case(world, &format!("xolotl-of-{}", table.replace('_', "-"))));
    }
}

/// Returns the messages that a table names, by its rows.
fn messages_of(world: &World, table: &str) -> Vec<String> {
    let column = if table == "relations" { "from_id" } else { "message_id" };
    let sql = format!("select distinct {column} from {table} where {column} is not null");
    let id = |row: &Vec<Value>| Uuid::parse_str(row[0].as_str().unwrap()).unwrap().to_string();
    world.database.rows(&sql).iter().map(id).collect()
}

#[test]
fn rows_that_go_with_a_message_stay_under_a_hold() {
    on_both_engines(|world| {
        hold(world);
        let tables = emptied(world);
        let rows = || -> Vec<i64> {
            tables
                .iter()
                .map(|table| world.database.number(&format!("select count(*) from {table}")))
                .collect()
        };
        let before = rows();
        let mut tried = 0;
        for table in WITH_MESSAGES {
            for message in messages_of(world, table) {
                let input = json!({"message_id": message});
                let found = world.call(&world.people.admin, "get_message", input.clone());
                // A message of another workspace, or in a channel that the administrator does not see.
                if found.status != 200 || found.body["withdrawn"] == json!(true) {
                    continue;
                }
                refused(world, "delete_message", input);
                tried += 1;
            }
        }
        assert!(tried >= 5, "only {tried} messages were tried");
        let workspace = json!({"workspace_id": world.id("workspace"), "confirm": "Night shift"});
        refused(world, "purge_workspace", workspace.clone());
        refused(world, "erase_workspace", workspace);
        world.pass(Duration::from_secs(86_400));
        let after = rows();
        assert!(before.iter().zip(&after).all(|(before, after)| before <= after), "{before:?} {after:?}");
    });
}
