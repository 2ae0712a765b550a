//! The readable parts of a damaged database.
//!
//! A message that cannot be opened is reported as unreadable; it blocks nothing and hides no other.

use std::time::Duration;

use super::sealed::{KEK_ID_BYTES, bytes, message_row, shelf};
use super::withdraw::{PLAINTEXTS, found, is_scrubbed, post};
use serde_json::json;
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::search::Needle;
use svc_tests::{Setup, World, on_both_engines, text};

/// Returns whether a message reads as it was written.
fn reads_as(world: &World, message: &str, body: &str) -> bool {
    let read = world.admin("get_message", json!({"message_id": message}));
    assert_eq!(read["unreadable"], json!(read["body"] != body), "{read}");
    read["body"] == body
}

#[test]
fn a_damaged_shelf_stops_neither_posts_nor_withdrawals() {
    for engine in engines() {
        let world = &World::with(engine, Setup { seed: 4724, ..Setup::default() });
        let before = [post(world, "before"), post(world, "withdrawn")];
        let whole = shelf(&world.database, &before[0]);
        let set = |sealed: &[u8]| {
            let workspace = world.database.id(whole.workspace);
            let sealed = world.database.bytes(sealed);
            world.database.execute(&format!(
                "update shelves set sealed = {sealed} where workspace_id = {workspace} and shelf = {}",
                whole.number
            ));
            // Opened trees stay cached for a while.
            world.clock.advance(Duration::from_secs(11));
        };
        let mut damaged = whole.sealed.clone();
        damaged[40] ^= 1;
        set(&damaged);
        assert!(!reads_as(world, &before[0], "before"));
        let after = [post(world, "after"), post(world, PLAINTEXTS[0])];
        let replacement = || {
            let sql = format!("select sealed from shelves where shelf = {}", -1 - whole.number);
            bytes(&world.database.rows(&sql)[0][0])
        };
        assert!(reads_as(world, &after[0], "after"));
        let nodes = Needle::pieces("the sealed nodes", &replacement()[KEK_ID_BYTES..]);
        for message in [&before[1], &after[1]] {
            let withdrawn = world.admin("delete_message", json!({"message_id": message}));
            assert_eq!(withdrawn["withdrawn"], true);
        }
        until("the scrub", || {
            world.service.housekeep().unwrap();
            is_scrubbed(&world.database)
        });
        assert_eq!(found(&world.database, &nodes), []);
        world.clock.advance(Duration::from_secs(11));
        assert!(reads_as(world, &after[0], "after"));
        set(&whole.sealed);
        assert!(reads_as(world, &before[0], "before") && reads_as(world, &after[0], "after"));
        assert!(reads_as(world, &post(world, "at last"), "at last"));
    }
}

/// Returns the bodies of a thread's messages, and whether each is unreadable.
fn listed(world: &World, thread: &str) -> Vec<(String, bool)> {
    let list = world.admin("list_messages", json!({"thread_id": thread}));
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| (text(&item["body"]), item["unreadable"].as_bool().unwrap())).collect()
}

/// Returns the plaintext beside the events of a message, and whether each is unreadable.
pub fn beside_events(world: &World, message: &str) -> Vec<(String, bool)> {
    let list = world.admin("list_events", json!({"workspace_id": world.id("workspace"), "limit": 500}));
    let events = list["items"].as_array().unwrap();
    let spoken = events.iter().filter(|event| event["payload"]["message_id"] == message);
    spoken
        .filter_map(|event| event.get("message"))
        .map(|said| (text(&said["body"]), said["unreadable"].as_bool().unwrap()))
        .collect()
}

#[test]
fn a_message_that_cannot_be_opened_is_unreadable_and_hides_no_other() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.id("channel").to_string(), "damaged");
        let post = |body: &str| {
            let input = json!({"thread_id": thread, "body": body, "metadata": {"n": 1}});
            text(&world.admin("post_message", input)["id"])
        };
        let first = post("1st");
        // Its event is at a position that no message has.
        world.admin("edit_message", json!({"message_id": first, "body": "first"}));
        let ids = [first, post("second"), post("third")];
        world.admin("edit_message", json!({"message_id": ids[1], "body": "second again"}));
        let row = |id: &str| world.database.id(id.parse::<uuid::Uuid>().unwrap());
        let set = |id: &str, change: &str| {
            world.database.execute(&format!("update messages set {change} where id = {}", row(id)));
        };
        let member = world.database.id(world.id("agent"));
        let thread_id = world.database.id(world.id("thread"));
        let stored = message_row(&world.database, &ids[1], "thread_id, author_id, wrapped, sealed");
        let home = world.database.id(text(&stored[0]).parse::<uuid::Uuid>().unwrap());
        let author = world.database.id(text(&stored[1]).parse::<uuid::Uuid>().unwrap());
        let wrapped = bytes(&stored[2]);
        let sealed = bytes(&stored[3]);
        let whole = |bytes: &[u8]| world.database.bytes(bytes);
        let flipped = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            *bytes.last_mut().unwrap() ^= 1;
            world.database.bytes(&bytes)
        };
        let fine = ("third".to_owned(), false);
        let gone = (String::new(), true);
        let damages = [
            ("another author", format!("author_id = {member}"), format!("author_id = {author}")),
            ("the service as author", "author_id = null".to_owned(), format!("author_id = {author}")),
            (
                "a flipped bit in the key",
                format!("wrapped = {}", flipped(&wrapped)),
                format!("wrapped = {}", whole(&wrapped)),
            ),
            ("no key", "wrapped = null".to_owned(), format!("wrapped = {}", whole(&wrapped))),
            (
                "a flipped bit in the text",
                format!("sealed = {}", flipped(&sealed)),
                format!("sealed = {}", whole(&sealed)),
            ),
            ("no text", "sealed = null".to_owned(), format!("sealed = {}", whole(&sealed))),
            ("an earlier edit", "edits = 0".to_owned(), "edits = 1".to_owned()),
            ("a position on the same shelf", "lsn = lsn - 1".to_owned(), "lsn = lsn + 1".to_owned()),
        ];
        for (name, damage, repair) in damages {
            set(&ids[1], &damage);
            let list = listed(world, &thread);
            assert_eq!(list[1..], [gone.clone(), fine.clone()], "{name}");
            let read = world.admin("get_message", json!({"message_id": ids[1]}));
            assert_eq!((&read["unreadable"], &read["metadata"]), (&json!(true), &json!({})), "{name}");
            let context = world.admin("get_thread_context", json!({"thread_id": thread}));
            assert_eq!(context["messages"][1]["unreadable"], true, "{name}");
            assert_eq!(context["messages"][2]["body"], "third", "{name}");
            // Events carry their own plaintext; from the row they need only the columns that give the key.
            let is_of_key = ["author_id", "wrapped", "lsn"].iter().any(|column| damage.starts_with(column));
            let then = [("second".to_owned(), false), ("second again".to_owned(), false)];
            let beside = if is_of_key { [gone.clone(), gone.clone()] } else { then };
            assert_eq!(beside_events(world, &ids[1]), beside, "{name}");
            assert_eq!(beside_events(world, &ids[2]), std::slice::from_ref(&fine), "{name}");
            if !damage.starts_with("author_id") {
                let edit = json!({"message_id": ids[1], "body": "mended"});
                world.call(&world.people.admin, "edit_message", edit).refused(409, "wrong-state");
            }
            set(&ids[1], &repair);
            assert_eq!(listed(world, &thread)[1], ("second again".to_owned(), false), "{name}");
        }
        set(&ids[1], &format!("thread_id = {thread_id}"));
        let list = listed(world, &world.id("thread").to_string());
        assert_eq!(list.last(), Some(&gone), "moved to another thread");
        set(&ids[1], &format!("thread_id = {home}"));

        let of_second = row(&ids[1]);
        world.database.execute(&format!(
            "update message_edits set sealed = {} where message_id = {of_second}",
            flipped(&sealed)
        ));
        let edits = world.admin("list_message_edits", json!({"message_id": ids[1]}));
        assert_eq!(
            (&edits["items"][0]["unreadable"], &edits["items"][0]["body"]),
            (&json!(true), &json!(""))
        );

        set(&ids[1], "sealed = null");
        let withdrawn = world.admin("delete_message", json!({"message_id": ids[1]}));
        assert_eq!((&withdrawn["withdrawn"], &withdrawn["unreadable"]), (&json!(true), &json!(false)));
        assert_eq!(listed(world, &thread), [("first".to_owned(), false), (String::new(), false), fine]);
    });
}
