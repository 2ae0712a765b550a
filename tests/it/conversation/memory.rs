//! Memory blocks: their life, their threads, and their treatment by holds, purges and context packs.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, text};

use crate::op::waits::wait_while;

fn create(world: &World, token: &str, more: Value) -> Answer {
    let mut input = json!({"workspace_id": world.id("workspace"), "label": "notes"});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.call(token, "create_memory_block", input)
}

/// Calls an operation on a block.
fn on(world: &World, token: &str, operation: &str, block: &Value, more: Value) -> Answer {
    let mut input = json!({"workspace_id": world.id("workspace"), "block_id": block["id"]});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.call(token, operation, input)
}

fn attach(world: &World, thread: &str, block: &Value) -> Answer {
    let input = json!({"thread_id": thread, "block_id": block["id"]});
    world.call(&world.people.agent, "attach_memory_block", input)
}

fn blocks_of(world: &World, thread: &str) -> Vec<String> {
    let page = world.agent("list_thread_memory_blocks", json!({"thread_id": thread}));
    page["items"].as_array().unwrap().iter().map(|block| text(&block["id"])).collect()
}

#[test]
fn the_last_writer_wins_unless_it_names_a_version_that_is_not_the_present_one() {
    on_both_engines(|world| {
        let admin = &world.people.admin;
        let agent = &world.people.agent;
        let before = world.lsn();
        let block = create(world, agent, json!({"value": "quetzal one"})).output();
        assert_eq!((&block["version"], &block["limit"]), (&json!(1), &json!(5000)));
        assert_eq!((&block["read_only"], &block["description"]), (&json!(false), &Value::Null));
        let set = |token: &str, more: Value| on(world, token, "set_memory_block", &block, more);
        let two = set(admin, json!({"value": "quetzal two", "expected_version": 1})).output();
        assert_eq!((&two["version"], &two["updated_by"]), (&json!(2), &json!(world.id("admin"))));
        assert_eq!(two["created_by"], json!(world.id("agent")));
        for stale in ["quetzal three", "quetzal two"] {
            let stale = set(agent, json!({"value": stale, "expected_version": 1}));
            let problem = stale.refused(409, "version-conflict");
            assert_eq!((&problem["version"], &problem["updated_by"]), (&two["version"], &two["updated_by"]));
        }
        assert_eq!(set(agent, json!({"value": "quetzal two"})).output(), two, "nothing changes");
        assert_eq!(set(agent, json!({})).output(), two);
        let three = set(agent, json!({"value": "", "label": "log", "description": "quetzal"})).output();
        assert_eq!((&three["version"], &three["value"]), (&json!(3), &json!("")));
        let four = set(agent, json!({"description": null, "limit": 7, "value": "ééééééé"})).output();
        assert_eq!((&four["description"], &four["label"]), (&Value::Null, &json!("log")));
        assert_eq!(on(world, agent, "get_memory_block", &block, json!({})).output(), four);
        let listed = world.agent("list_memory_blocks", json!({"workspace_id": world.id("workspace")}));
        assert_eq!(listed["items"].as_array().unwrap().last(), Some(&four));

        let updated = "MemoryBlockUpdated";
        assert_eq!(world.kinds_after(before), ["MemoryBlockCreated", updated, updated, updated]);
        let events = json!({"workspace_id": world.id("workspace"), "after_id": before});
        let events = world.admin("list_events", events);
        let payload = &events["items"][3]["payload"];
        for (field, value) in [("version", json!(4)), ("size", json!(7)), ("label", json!("log"))] {
            assert_eq!(payload[field], value, "{field}");
        }
        assert!(!events.to_string().contains("quetzal"));
    });
}

#[test]
fn a_value_is_as_long_as_the_limit_of_its_block() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        for bad in [
            json!({"value": "x".repeat(5001)}),
            json!({"limit": 3, "value": "four"}),
            json!({"limit": 0}),
            json!({"limit": 100_001}),
            json!({"label": ""}),
            json!({"description": "x".repeat(1001)}),
        ] {
            create(world, agent, bad).refused(400, "malformed-request");
        }
        let block = create(world, agent, json!({"limit": 100_000, "value": "é".repeat(100_000)})).output();
        for bad in [json!({"value": "x".repeat(100_001)}), json!({"limit": 99_999})] {
            on(world, agent, "set_memory_block", &block, bad).refused(400, "malformed-request");
        }
        assert_eq!(on(world, agent, "get_memory_block", &block, json!({})).output(), block);
        let both = json!({"limit": 2, "value": "ab"});
        assert_eq!(on(world, agent, "set_memory_block", &block, both).output()["version"], 2);
    });
}

#[test]
fn only_its_creator_and_channel_admins_change_a_read_only_block() {
    on_both_engines(|world| {
        let (_, other) = world.new_agent("other");
        let admin = &world.people.admin;
        let agent = &world.people.agent;
        let block = create(world, agent, json!({"read_only": true, "value": "mine"})).output();
        let set = |token: &str, more: Value| on(world, token, "set_memory_block", &block, more);
        for refused in [json!({"value": "theirs"}), json!({"read_only": false})] {
            set(&other, refused).refused(403, "forbidden");
        }
        on(world, &other, "delete_memory_block", &block, json!({})).refused(403, "forbidden");
        set(agent, json!({"value": "still mine"})).output();
        set(admin, json!({"read_only": false})).output();
        set(&other, json!({"value": "theirs"})).output();
        set(&other, json!({"read_only": true})).refused(403, "forbidden");
        set(agent, json!({"read_only": true})).output();
        on(world, agent, "delete_memory_block", &block, json!({})).output();
        on(world, agent, "get_memory_block", &block, json!({})).refused(404, "not-found");
        set(agent, json!({})).refused(404, "not-found");
    });
}

#[test]
fn a_thread_has_20_blocks_and_loses_those_that_are_deleted() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let thread = world.new_thread(&world.new_channel("crowded"), "crowded");
        let blocks: Vec<Value> = (0..21).map(|_| create(world, agent, json!({})).output()).collect();
        let before = world.lsn();
        let first = attach(world, &thread, &blocks[0]).output();
        assert_eq!((&first["thread_id"], &first["lsn"]), (&json!(thread), &json!(before + 1)));
        assert_eq!(attach(world, &thread, &blocks[0]).output(), first, "it has it");
        blocks[1..20].iter().for_each(|block| drop(attach(world, &thread, block).output()));
        attach(world, &thread, &blocks[20]).refused(409, "wrong-state");
        let ids: Vec<String> = blocks.iter().map(|block| text(&block["id"])).collect();
        assert_eq!(blocks_of(world, &thread), ids[..20]);

        let detach = |block: &Value| {
            let input = json!({"thread_id": thread, "block_id": block["id"]});
            world.call(agent, "detach_memory_block", input)
        };
        assert_eq!(detach(&blocks[0]).output(), first);
        detach(&blocks[0]).refused(404, "not-found");
        attach(world, &thread, &blocks[20]).output();
        on(world, agent, "delete_memory_block", &blocks[1], json!({})).output();
        assert_eq!(blocks_of(world, &thread), ids[2..]);
        attach(world, &thread, &blocks[1]).refused(404, "not-found");
        let page = world.agent("list_thread_memory_blocks", json!({"thread_id": thread, "limit": 18}));
        let rest = json!({"thread_id": thread, "cursor": page["next_cursor"]});
        let rest = world.agent("list_thread_memory_blocks", rest);
        assert_eq!(rest["items"][0]["id"], blocks[20]["id"]);
        let kinds = world.kinds_after(before);
        let tail = ["MemoryBlockDetached", "MemoryBlockAttached", "MemoryBlockDeleted"];
        assert_eq!((&kinds[20..], kinds.len()), (&tail.map(str::to_owned)[..], 23));
    });
}

#[test]
fn a_block_of_a_hidden_thread_shows_nobody_that_it_is_there() {
    on_both_engines(|world| {
        let channel = world.new_private_channel("den");
        let thread = world.new_thread(&channel, "hidden");
        let block = create(world, &world.people.admin, json!({"value": "for all"})).output();
        attach(world, &thread, &block).refused(404, "not-found");
        let input = json!({"thread_id": thread, "block_id": block["id"]});
        world.admin("attach_memory_block", input.clone());
        let agent = &world.people.agent;
        world.call(agent, "detach_memory_block", input.clone()).refused(404, "not-found");
        let list = json!({"thread_id": thread});
        world.call(agent, "list_thread_memory_blocks", list).refused(404, "not-found");
        let got = on(world, agent, "get_memory_block", &block, json!({})).output();
        assert_eq!(got, block, "the block itself is of the workspace");
        let outsider = &world.people.outsider;
        on(world, outsider, "get_memory_block", &block, json!({})).refused(404, "not-found");
        world.admin("archive_channel", json!({"channel_id": channel}));
        let admin = &world.people.admin;
        world.call(admin, "detach_memory_block", input.clone()).refused(409, "wrong-state");
        assert_eq!(world.admin("attach_memory_block", input)["block_id"], block["id"], "it has it");
        let more = create(world, admin, json!({})).output();
        let more = json!({"thread_id": thread, "block_id": more["id"]});
        world.call(admin, "attach_memory_block", more).refused(409, "wrong-state");
    });
}

#[test]
fn a_wait_for_a_memory_block_ends_with_its_next_version_or_its_end() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let create = json!({"workspace_id": workspace, "label": "notes", "value": "one"});
        let block = world.admin("create_memory_block", create);
        let about = |more: Value| {
            let mut input = json!({"workspace_id": workspace, "block_id": block["id"]});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            input
        };
        let set = |value: &str| world.admin("set_memory_block", about(json!({"value": value})));
        let agent = &world.people.agent;
        let wait = |more: Value, meanwhile: &dyn Fn()| {
            wait_while(world, agent, "wait_for_memory_block", about(more), meanwhile)
        };
        let past = world.agent("wait_for_memory_block", about(json!({"after_version": 0})));
        assert_eq!(past, block, "a past version is returned at once");
        let other = json!({"workspace_id": workspace, "label": "others"});
        let next = wait(json!({"after_version": 1}), &|| {
            world.admin("create_memory_block", other.clone());
            set("two");
        });
        assert_eq!((&next.body["version"], &next.body["value"]), (&json!(2), &json!("two")));
        let next = wait(json!({}), &|| drop(set("three")));
        assert_eq!(next.output()["version"], 3, "by default it waits for the next one");
        let over = wait(json!({"timeout_secs": 5}), &|| {
            set("three");
            world.clock.advance(Duration::from_secs(5));
        });
        assert_eq!(over.output(), json!({"timed_out": true}), "nothing has changed");
        let gone = wait(json!({}), &|| drop(world.admin("delete_memory_block", about(json!({})))));
        gone.refused(404, "not-found");
    });
}

#[test]
fn under_a_hold_what_is_replaced_is_kept_and_nothing_is_deleted() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let agent = &world.people.agent;
        let channel = world.new_channel("held");
        let said = |number: i64| {
            let term = format!("meaning {number}");
            let boot = format!("arrival {number}");
            let term = json!({"workspace_id": workspace, "term": "held", "definition": term});
            world.agent("set_glossary_term", term);
            world.agent("set_channel_boot", json!({"channel_id": channel, "text": boot}));
        };
        let texts = |number: i64| json!({"value": format!("value {number}"), "description": "kept once"});
        said(0);
        let block = create(world, agent, texts(0)).output();
        let hold = world.admin("place_legal_hold", json!({"workspace_id": workspace, "reason": "a dispute"}));
        for number in 1..3 {
            said(number);
            on(world, agent, "set_memory_block", &block, texts(number)).output();
        }
        on(world, agent, "set_memory_block", &block, json!({"description": null})).output();
        let rows = world.database.rows("select text from held_texts order by text");
        let kept: Vec<String> = rows.iter().map(|row| text(&row[0])).collect();
        let wanted = ["arrival 0", "arrival 1", "kept once", "meaning 0", "meaning 1", "value 0", "value 1"];
        assert_eq!(kept, wanted);
        let term = json!({"workspace_id": workspace, "term": "held"});
        world.call(agent, "delete_glossary_term", term.clone()).refused(409, "legal-hold");
        on(world, agent, "delete_memory_block", &block, json!({})).refused(409, "legal-hold");
        world.admin("release_legal_hold", json!({"workspace_id": workspace, "hold_id": hold["id"]}));
        world.agent("delete_glossary_term", term);
        on(world, agent, "delete_memory_block", &block, json!({})).output();
    });
}

#[test]
fn the_context_of_a_thread_has_what_its_reader_needs_to_know() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let agent = &world.people.agent;
        let channel = world.new_channel("informed");
        let thread = world.new_thread(&channel, "Port the zapotec lexer");
        let context = |glossary| {
            world.agent("get_thread_context", json!({"thread_id": thread, "include_glossary": glossary}))
        };
        let before = context(false);
        assert_eq!((&before["boot"], &before["memory_blocks"]), (&Value::Null, &json!([])));
        assert!(before.get("glossary").is_none());

        let block = create(world, agent, json!({"value": "Mixtec names."})).output();
        let attached = attach(world, &thread, &block).output();
        let boot = json!({"channel_id": channel, "text": "Every aztec branch has a thread."});
        let boot = world.agent("set_channel_boot", boot);
        world.agent("post_message", json!({"thread_id": thread, "body": "the OLMEC state is not reached"}));
        let terms: Vec<String> = (0..110).map(|number| format!("a{number:03}")).collect();
        for term in terms.iter().map(|term| &**term).chain(["zapotec", "mixtec", "aztec", "olmec", "toltec"])
        {
            let input = json!({"workspace_id": workspace, "term": term, "definition": "of a people"});
            world.agent("set_glossary_term", input);
        }
        let after = context(true);
        assert_eq!(after["boot"], boot);
        let mut listed = block.clone();
        listed["attached_lsn"] = attached["lsn"].clone();
        assert_eq!(after["memory_blocks"], json!([listed]));
        let keys: Vec<String> =
            after["glossary"].as_array().unwrap().iter().map(|term| text(&term["key"])).collect();
        assert_eq!(keys.len(), 100);
        assert_eq!(keys[..6], ["aztec", "mixtec", "olmec", "zapotec", "a000", "a001"]);

        let long = json!({"limit": 100_000, "value": "x".repeat(100_000)});
        let longs: Vec<Value> = (0..15).map(|_| create(world, agent, long.clone()).output()).collect();
        longs.iter().for_each(|block| drop(attach(world, &thread, block).output()));
        let full = context(false);
        let blocks = full["memory_blocks"].as_array().unwrap().len();
        assert!((10..15).contains(&blocks), "{blocks} of 16");
    });
}
