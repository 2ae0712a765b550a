//! Withdrawing leaves nothing: words are sealed from the beginning and are in no file at any time, and once a
//! message is withdrawn its key is in no file either, so that what is left of the words cannot be opened.

use std::io::Write;
use std::path::PathBuf;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::id::MessageId;
use svc_tests::database::{TestDatabase, engines};
use svc_tests::process::until;
use svc_tests::search::{Needle, found_below, found_in};
use svc_tests::site::{Caller, Server, Site};
use svc_tests::{Setup, World};

/// What the message says, first and after each edit. None of it occurs anywhere else.
const WORDS: [&str; 3] = ["zephyr-quixote-4711", "umbrella-pianoforte-4712", "wyvern-marzipan-4713"];
/// What is not sealed, and so must be found by whoever looks in the right files.
const TITLE: &str = "Rehearse the overture";

/// The key of a message as the database keeps it: the id of the key-encryption key, a nonce, and the wrapped key.
const KEK_ID_BYTES: usize = 8;
const NONCE_BYTES: usize = 12;

fn stored_key(database: &TestDatabase, message: &str) -> Vec<u8> {
    let message = database.id(message.parse::<uuid::Uuid>().unwrap());
    let rows = database.rows(&format!("select wrapped from message_keys where message_id = {message}"));
    hex::decode(rows[0][0].as_str().unwrap()).unwrap()
}

/// Unwraps a key the way anybody with the key-encryption key could.
fn unwrap(kek: [u8; 32], message: &str, wrapped: &[u8]) -> Vec<u8> {
    let message: MessageId = message.parse().unwrap();
    let (nonce, sealed) = wrapped[KEK_ID_BYTES..].split_at(NONCE_BYTES);
    let nonce: [u8; NONCE_BYTES] = nonce.try_into().unwrap();
    let aad = [b"svc.message-key/1".as_slice(), message.uuid().as_bytes()].concat();
    let payload = Payload { msg: sealed, aad: &aad };
    Aes256Gcm::new(&Key::<Aes256Gcm>::from(kek)).decrypt(&Nonce::from(nonce), payload).unwrap()
}

fn words() -> Vec<Needle> {
    WORDS.iter().map(|words| Needle::new(*words, *words)).collect()
}

/// The folder of the database's files, all of whose content is on disk when this comes back.
fn files(database: &TestDatabase) -> PathBuf {
    match database.engine() {
        Engine::Sqlite => database.file().unwrap().parent().unwrap().to_owned(),
        Engine::Postgres => {
            // As the manual tells operators: the log's present segment is closed, and a checkpoint retires it.
            for statement in ["select pg_switch_wal()", "checkpoint", "checkpoint"] {
                database.execute(statement);
            }
            database.rows("show data_directory")[0][0].as_str().unwrap().into()
        }
    }
}

/// The needles that are found in the database's files.
fn found(database: &TestDatabase, needles: &[Needle]) -> Vec<(String, PathBuf)> {
    found_below(&files(database), needles)
}

/// A message that was posted and edited twice, with others after it.
fn post_and_edit(caller: Caller<'_>, workspace_id: &str) -> String {
    let channel = caller.post(&format!("/workspaces/{workspace_id}/channels"), json!({"name": "stage"}));
    let threads = format!("/channels/{}/threads", channel["id"].as_str().unwrap());
    let thread = caller.post(&threads, json!({"title": TITLE}));
    let messages = format!("/threads/{}/messages", thread["id"].as_str().unwrap());
    let message = caller.post(&messages, json!({"body": WORDS[0], "metadata": {"note": WORDS[0]}}));
    let message = message["id"].as_str().unwrap().to_owned();
    for words in &WORDS[1..] {
        caller.ask("PATCH", &format!("/messages/{message}"), Some(&json!({"body": words}))).output();
    }
    assert_eq!(caller.get(&messages)["items"][0]["body"], json!(WORDS[2]));
    for other in 0..10 {
        caller.post(&messages, json!({"body": format!("message {other}")}));
    }
    message
}

/// Whether every withdrawal is finished.
fn is_scrubbed(database: &TestDatabase) -> bool {
    let waiting = database.number("select count(*) from chores where name = 'scrub' and asked > done");
    let asked = database.number("select count(*) from chores where name = 'scrub'");
    asked == 1 && waiting == 0
}

fn nothing_is_left(engine: Engine) {
    let site = Site::found(engine);
    let mut server = site.serve(&[("SVC_LOG", "trace")]);
    let admin = server.caller(&site.founders.admin);
    let message = post_and_edit(admin, &site.founders.workspace_id);

    // The engine's own statistics may take samples of what a table holds.
    site.database.execute("analyze");

    let wrapped = stored_key(&site.database, &message);
    let raw = unwrap(site.kek(), &message, &wrapped);
    let mut secrets = words();
    secrets.extend(Needle::pieces("the key", &raw));
    let spellings = [Needle::spellings("the key", &raw), Needle::spellings("the wrapped key", &wrapped)];
    let wrapped = Needle::pieces("the wrapped key", &wrapped[KEK_ID_BYTES..]);
    let control = [Needle::new(TITLE, TITLE)];

    assert_eq!(found(&site.database, &secrets), [], "sealed at rest");
    assert!(!found(&site.database, &control).is_empty(), "the search does not find what is there");
    assert!(!found(&site.database, &wrapped).is_empty(), "the search does not find the key that is there");

    let withdrawn = admin.ask("DELETE", &format!("/messages/{message}"), None).output();
    assert_eq!((&withdrawn["withdrawn"], &withdrawn["body"]), (&json!(true), &json!("")));
    until("the scrub", || is_scrubbed(&site.database));

    assert_eq!(found(&site.database, &secrets), []);
    assert_eq!(found(&site.database, &wrapped), []);
    assert!(!found(&site.database, &control).is_empty());
    let edits = admin.get(&format!("/messages/{message}/edits"));
    let bodies: Vec<&Value> = edits["items"].as_array().unwrap().iter().map(|edit| &edit["body"]).collect();
    assert_eq!(bodies, [&json!(""), &json!("")]);
    let verified = site.svc(&["verify", "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");

    provoke_a_line(&server);
    server.running.kill();
    let trace = server.running.err.whole();
    secrets.extend(spellings.into_iter().flatten());
    secrets.extend(wrapped);
    assert_eq!(found_in(trace.as_bytes(), &secrets), Vec::<String>::new());
}

/// Makes the server say something in its trace, to show that it is heard.
fn provoke_a_line(server: &Server) {
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"this is no HTTP\r\n\r\n").unwrap();
    drop(stream);
    until("a line in the trace", || server.running.err.text().contains("a connection broke off"));
}

#[test]
fn of_a_withdrawn_message_nothing_is_left_in_files_and_trace() {
    for engine in engines() {
        nothing_is_left(engine);
    }
}

/// Posts a message in a world, withdraws it, and answers how its wrapped key is found.
fn withdraw(world: &World) -> Vec<Needle> {
    let thread = world.fixture.thread_id;
    let message = world.admin("post_message", json!({"thread_id": thread, "body": WORDS[0]}));
    let wrapped = stored_key(&world.database, message["id"].as_str().unwrap());
    world.admin("delete_message", json!({"message_id": message["id"]}));
    Needle::pieces("the wrapped key", &wrapped[KEK_ID_BYTES..])
}

/// Somebody else who looks at the database and goes on seeing it as it was.
struct Onlooker(Option<Looking>);

enum Looking {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Onlooker {
    fn begin(database: &TestDatabase) -> Self {
        let Some(file) = database.file() else { return Self(Some(Looking::Postgres(snapshot(database)))) };
        let conn = rusqlite::Connection::open(file).unwrap();
        conn.execute_batch("begin; select count(*) from events").unwrap();
        Self(Some(Looking::Sqlite(conn)))
    }

    fn end(mut self) {
        match self.0.take() {
            Some(Looking::Sqlite(conn)) => conn.execute_batch("commit").unwrap(),
            Some(Looking::Postgres(client)) => {
                svc_tests::runtime().block_on(client.batch_execute("commit")).unwrap();
            }
            None => {}
        }
    }
}

fn snapshot(database: &TestDatabase) -> tokio_postgres::Client {
    svc_tests::runtime().block_on(async {
        let client = database.connect().await;
        client
            .batch_execute("begin isolation level repeatable read read only; select count(*) from events")
            .await
            .unwrap();
        client
    })
}

#[test]
fn somebody_who_looks_on_delays_the_scrub_and_nothing_else() {
    for engine in engines() {
        // With a seed of its own: worlds of one seed draw the same keys, and share a Postgres server.
        let world = &World::with(engine, Setup { seed: 4714, ..Setup::default() });
        world.service.housekeep().unwrap();
        let onlooker = Onlooker::begin(&world.database);
        let key = withdraw(world);
        world.service.housekeep().unwrap();
        assert!(!is_scrubbed(&world.database), "the key's bytes cannot be gone on {}", engine.name());
        assert_ne!(found(&world.database, &key), [], "nothing holds the key on {}", engine.name());
        world.new_thread(&world.fixture.channel_id.to_string(), "work goes on");
        onlooker.end();
        // Transactions of other databases delay it too.
        until("the scrub", || {
            world.service.housekeep().unwrap();
            is_scrubbed(&world.database)
        });
        assert_eq!(found(&world.database, &key), []);
    }
}
