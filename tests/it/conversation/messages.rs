//! Messages: each is sealed separately, and destroyed when it is withdrawn.

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::{World, on_both_engines, text};

fn post(world: &World, token: &str, body: &str) -> Value {
    let input = json!({"thread_id": world.id("thread"), "body": body, "metadata": {"mood": "calm"}});
    world.call(token, "post_message", input).output()
}

#[test]
fn only_the_author_edits_and_an_administrator_may_withdraw() {
    on_both_engines(|world| {
        let people = &world.people;
        let message = post(world, &people.agent, "the agent's words");
        assert_eq!(message["author_id"], world.id("agent").to_string());
        let id = &message["id"];
        let edit = json!({"message_id": id, "body": "put into its mouth"});
        world.call(&people.admin, "edit_message", edit).refused(403, "forbidden");

        let poster =
            world.call(&people.bystander, "attenuate_token", json!({"capabilities": ["message:post"]}));
        let poster = text(&poster.output()["secret"]);
        world.call(&poster, "delete_message", json!({"message_id": id})).refused(403, "forbidden");
        let channel_admin = world.new_token(vec!["channel:admin", "workspace:read"]);
        let withdrawn = world.call(&channel_admin, "delete_message", json!({"message_id": id})).output();
        assert_eq!((&withdrawn["withdrawn"], &withdrawn["body"]), (&json!(true), &json!("")));
        let lsn = world.lsn();
        assert_eq!(
            world.call(&channel_admin, "delete_message", json!({"message_id": id})).output(),
            withdrawn
        );
        assert_eq!(world.lsn(), lsn, "a second withdrawal changes nothing");
        let edit = json!({"message_id": id, "body": "still there"});
        world.call(&people.agent, "edit_message", edit).refused(409, "wrong-state");
    });
}

#[test]
fn an_edit_keeps_the_history_and_the_place() {
    on_both_engines(|world| {
        let first = post(world, &world.people.agent, "one");
        post(world, &world.people.agent, "two");
        for body in ["uno", "eins"] {
            world.agent("edit_message", json!({"message_id": first["id"], "body": body}));
        }
        let listed = world.agent("list_messages", json!({"thread_id": world.id("thread"), "limit": 500}));
        let bodies: Vec<&str> = listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["body"].as_str().unwrap())
            .collect();
        assert_eq!(bodies[bodies.len() - 2..], ["eins", "two"]);
        let edits = world.agent("list_message_edits", json!({"message_id": first["id"]}));
        let bodies: Vec<&Value> =
            edits["items"].as_array().unwrap().iter().map(|edit| &edit["body"]).collect();
        assert!(bodies.contains(&&json!("one")) && bodies.contains(&&json!("uno")), "{edits:#}");
        let lsn = world.lsn();
        world.agent("edit_message", json!({"message_id": first["id"], "body": "eins"}));
        assert_eq!(world.lsn(), lsn, "an edit to the same body changes nothing");
    });
}

#[test]
fn a_withdrawal_destroys_the_plaintext_and_the_log_still_verifies() {
    on_both_engines(|world| {
        let plaintext = "the password is swordfish";
        let message = post(world, &world.people.agent, plaintext);
        let id = text(&message["id"]);
        let input = || json!({"message_id": id});
        world.agent("edit_message", json!({"message_id": id, "body": "the password is mackerel"}));
        let row = |what: &str| {
            let id = world.database.id(uuid(&id));
            world.database.rows(&format!("select {what} from messages where id = {id}")).remove(0)
        };
        let lsn = row("lsn")[0].as_i64().unwrap();
        let workspace = world.database.id(world.id("workspace"));
        let nodes = || {
            let shelf = lsn / 4096;
            let sql =
                format!("select sealed from shelves where workspace_id = {workspace} and shelf = {shelf}");
            hex::decode(world.database.rows(&sql)[0][0].as_str().unwrap()).unwrap()
        };
        let before = nodes();
        assert!(!stored_anywhere(world, plaintext.as_bytes()), "the plaintext is stored sealed");
        if world.engine() == Engine::Sqlite {
            assert!(stored_anywhere(world, &before), "the search finds the nodes");
        }

        world.agent("delete_message", input());
        assert_eq!(row("wrapped, sealed"), [Value::Null, Value::Null]);
        assert_ne!(nodes(), before);
        // An open read transaction delays the scrub until the next round.
        let pending = || world.database.number("select count(*) from scrubs") > 0;
        for _ in 0..100 {
            if pending() {
                world.service.housekeep().unwrap();
            }
        }
        assert!(!pending(), "the scrub is done");
        if world.engine() == Engine::Sqlite {
            assert!(!stored_anywhere(world, &before), "the nodes' bytes are gone from the file");
        }
        let read = world.agent("get_message", input());
        assert_eq!((&read["body"], &read["withdrawn"]), (&json!(""), &json!(true)));
        let edits = world.agent("list_message_edits", input());
        assert!(!edits.to_string().contains("password"), "{edits:#}");
        let context = world.agent("get_thread_context", json!({"thread_id": world.id("thread")}));
        assert!(!context.to_string().contains("password"));

        let verified = || world.agent("verify_event_chain", json!({"workspace_id": world.id("workspace")}));
        assert_eq!(verified()["valid"], true);
        world
            .call(&world.people.admin, "purge_message", json!({"message_id": world.id("message")}))
            .refused(409, "wrong-state");
        world.admin("purge_message", input());
        world.call(&world.people.agent, "get_message", input()).refused(404, "not-found");
        assert_eq!(verified()["valid"], true);
    });
}

fn uuid(text: &str) -> svc_core::id::MessageId {
    text.parse().unwrap()
}

/// Returns whether the bytes are in the database's files, or on Postgres in any of its rows.
fn stored_anywhere(world: &World, bytes: &[u8]) -> bool {
    let Some(file) = world.database.file() else {
        let hexed = hex::encode(bytes);
        let plain = String::from_utf8_lossy(bytes).into_owned();
        return world
            .database
            .dump()
            .values()
            .flatten()
            .any(|row| row.contains(&hexed) || row.contains(&plain));
    };
    let files = ["", "-wal"].map(|end| format!("{}{end}", file.display()));
    files.iter().any(|file| {
        let content = std::fs::read(file).unwrap_or_default();
        content.windows(bytes.len()).any(|window| window == bytes)
    })
}
