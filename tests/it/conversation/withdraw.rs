//! A withdrawal leaves nothing.
//!
//! Plaintext is sealed from the beginning and is never in a file. Once a message is withdrawn, its key is not
//! in a file either, so the remaining ciphertext cannot be opened.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::sealed::{KEK_ID_BYTES, LEVELS, keys_down, message_key, message_row, shelf, way_down};
use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::database::{TestDatabase, engines};
use svc_tests::process::until;
use svc_tests::search::{Needle, found_below, found_in};
use svc_tests::site::{Caller, Server, Site};
use svc_tests::{Setup, World, in_parallel, on_both_engines, text};

/// The body of the message, at first and after each edit; these texts occur nowhere else.
pub const PLAINTEXTS: [&str; 3] = ["zephyr-quixote-4711", "umbrella-pianoforte-4712", "wyvern-marzipan-4713"];
/// A control: it is not sealed, so a search of the right files finds it.
const TITLE: &str = "Rehearse the overture";

fn plaintexts() -> Vec<Needle> {
    PLAINTEXTS.iter().map(|plaintext| Needle::new(*plaintext, *plaintext)).collect()
}

/// Returns the folder of the database's files, once all of their content is on disk.
fn files(database: &TestDatabase) -> PathBuf {
    match database.engine() {
        Engine::Sqlite => database.file().unwrap().parent().unwrap().to_owned(),
        Engine::Postgres => {
            // As the manual says: close the current WAL segment, and retire it by a checkpoint.
            for statement in ["select pg_switch_wal()", "checkpoint", "checkpoint"] {
                database.execute(statement);
            }
            database.rows("show data_directory")[0][0].as_str().unwrap().into()
        }
    }
}

/// Returns the needles that are in the database's files.
pub fn found(database: &TestDatabase, needles: &[Needle]) -> Vec<(String, PathBuf)> {
    found_below(&files(database), needles)
}

/// Posts a message and edits it twice, with others after it. Returns its id.
fn post_and_edit(caller: Caller<'_>, workspace_id: &str) -> String {
    let channel = caller.post(&format!("/workspaces/{workspace_id}/channels"), json!({"name": "stage"}));
    let threads = format!("/channels/{}/threads", channel["id"].as_str().unwrap());
    let thread = caller.post(&threads, json!({"title": TITLE}));
    let messages = format!("/threads/{}/messages", thread["id"].as_str().unwrap());
    let message = caller.post(&messages, json!({"body": PLAINTEXTS[0], "metadata": {"note": PLAINTEXTS[0]}}));
    let message = message["id"].as_str().unwrap().to_owned();
    for plaintext in &PLAINTEXTS[1..] {
        caller.ask("PATCH", &format!("/messages/{message}"), Some(&json!({"body": plaintext}))).output();
    }
    assert_eq!(caller.get(&messages)["items"][0]["body"], json!(PLAINTEXTS[2]));
    for other in 0..10 {
        caller.post(&messages, json!({"body": format!("message {other}")}));
    }
    message
}

/// Returns whether every withdrawal is finished.
pub fn is_scrubbed(database: &TestDatabase) -> bool {
    database.number("select count(*) from scrubs") == 0
}

fn nothing_is_left(engine: Engine) {
    let site = Site::found(engine);
    let mut server = site.serve(&[("SVC_LOG", "trace")]);
    let admin = server.caller(&site.founders.admin);
    let message = post_and_edit(admin, &site.founders.workspace_id);

    // The engine's own statistics may contain samples of a table.
    site.database.execute("analyze");

    let before = shelf(&site.database, &message);
    let lsn = message_row(&site.database, &message, "lsn")[0].as_i64().unwrap();
    let nodes = before.nodes(site.kek());
    assert_eq!(nodes.keys().copied().collect::<Vec<_>>(), [1], "a new shelf is its root");
    let keys = keys_down(&nodes[&1], lsn);
    let raw = message_key(&site.database, &message, &keys[LEVELS]);
    let mut secrets = plaintexts();
    secrets.extend(Needle::pieces("the key", &raw));
    secrets.extend(keys.iter().flat_map(|key| Needle::pieces("a node", key)));
    let nodes = keys.iter().flat_map(|key| Needle::spellings("a node", key));
    let spellings: Vec<Needle> = Needle::spellings("the key", &raw).into_iter().chain(nodes).collect();
    let sealed = Needle::pieces("the sealed nodes", &before.sealed[KEK_ID_BYTES..]);
    let control = [Needle::new(TITLE, TITLE)];

    assert_eq!(found(&site.database, &secrets), [], "sealed at rest");
    assert!(!found(&site.database, &control).is_empty(), "the search does not find what is there");
    assert!(!found(&site.database, &sealed).is_empty(), "the search does not find the nodes that are there");

    let withdrawn = admin.ask("DELETE", &format!("/messages/{message}"), None).output();
    assert_eq!((&withdrawn["withdrawn"], &withdrawn["body"]), (&json!(true), &json!("")));
    until("the scrub", || is_scrubbed(&site.database));

    assert_eq!(found(&site.database, &secrets), []);
    assert_eq!(found(&site.database, &sealed), []);
    assert!(!found(&site.database, &control).is_empty());
    let left = shelf(&site.database, &message).nodes(site.kek());
    assert_eq!(left.len(), LEVELS, "the siblings on the way down are left");
    assert!(left.keys().all(|number| !way_down(lsn).contains(number)), "{:?}", left.keys());
    let edits = admin.get(&format!("/messages/{message}/edits"));
    let bodies: Vec<&Value> = edits["items"].as_array().unwrap().iter().map(|edit| &edit["body"]).collect();
    assert_eq!(bodies, [&json!(""), &json!("")]);
    let others = admin.get(&format!("/threads/{}/messages", text(&withdrawn["thread_id"])));
    let bodies = others["items"].as_array().unwrap().iter().map(|other| text(&other["body"]));
    assert_eq!(bodies.filter(|body| body.starts_with("message ")).count(), 10, "others are still read");
    let verified = site.svc(&["verify", "--json"]);
    assert_eq!(verified.code, Some(0), "{verified:?}");

    provoke_a_line(&server);
    server.running.kill();
    let trace = server.running.err.whole();
    secrets.extend(spellings);
    secrets.extend(sealed);
    assert_eq!(found_in(trace.as_bytes(), &secrets), Vec::<String>::new());
}

/// Makes the server write a line to its log, to show that the log is read.
fn provoke_a_line(server: &Server) {
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"this is no HTTP\r\n\r\n").unwrap();
    drop(stream);
    until("a line in the log", || server.running.err.text().contains("a connection was lost"));
}

#[test]
fn nothing_of_a_withdrawn_message_is_left_in_files_or_logs() {
    for engine in engines() {
        nothing_is_left(engine);
    }
}

pub fn post(world: &World, body: &str) -> String {
    let thread = world.id("thread");
    text(&world.admin("post_message", json!({"thread_id": thread, "body": body}))["id"])
}

/// Posts a message in a world, withdraws it, and returns needles for the nodes that gave its key.
fn withdraw(world: &World) -> Vec<Needle> {
    // The first withdrawal draws nodes that no other world has; worlds of one server may be copies of each
    // other.
    for body in [PLAINTEXTS[1], PLAINTEXTS[0]] {
        let message = post(world, body);
        let sealed = shelf(&world.database, &message).sealed;
        world.admin("delete_message", json!({"message_id": message}));
        if body == PLAINTEXTS[0] {
            return Needle::pieces("the sealed nodes", &sealed[KEK_ID_BYTES..]);
        }
    }
    unreachable!("the second message was withdrawn")
}

/// A reader with an open transaction, which keeps its snapshot of the database.
struct OpenReader(Option<Reading>);

enum Reading {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl OpenReader {
    fn begin(database: &TestDatabase) -> Self {
        let Some(file) = database.file() else { return Self(Some(Reading::Postgres(snapshot(database)))) };
        let conn = rusqlite::Connection::open(file).unwrap();
        conn.execute_batch("begin; select count(*) from events").unwrap();
        Self(Some(Reading::Sqlite(conn)))
    }

    fn end(mut self) {
        match self.0.take() {
            Some(Reading::Sqlite(conn)) => conn.execute_batch("commit").unwrap(),
            Some(Reading::Postgres(client)) => {
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
fn an_open_read_transaction_delays_the_scrub_and_nothing_else() {
    for engine in engines() {
        // With a different seed: worlds with the same seed draw the same keys, and share a Postgres server.
        let world = &World::with(engine, Setup { seed: 4714, ..Setup::default() });
        world.service.housekeep().unwrap();
        let reader = OpenReader::begin(&world.database);
        let key = withdraw(world);
        world.service.housekeep().unwrap();
        assert!(!is_scrubbed(&world.database), "the key's bytes cannot be gone on {}", engine.name());
        assert_ne!(found(&world.database, &key), [], "nothing holds the key on {}", engine.name());
        world.new_thread(&world.id("channel").to_string(), "work goes on");
        reader.end();
        // Transactions of other databases delay it too.
        until("the scrub", || {
            world.service.housekeep().unwrap();
            is_scrubbed(&world.database)
        });
        assert_eq!(found(&world.database, &key), []);
    }
}

#[test]
fn a_table_that_cannot_be_rewritten_delays_no_other() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let world = &World::with(Engine::Postgres, Setup { seed: 4722, ..Setup::default() });
    let nobody = world.database.id(uuid::Uuid::nil());
    world.database.execute(&format!(
        "alter table shelves_00 rename to shelves_out_of_reach;
         insert into scrubs (key_table, workspace_id, lsn)
         values ('shelves_00', {nobody}, 1), ('shelves_01', {nobody}, 1), ('shelves_15', {nobody}, 1)"
    ));
    let left = || world.database.rows("select key_table from scrubs");
    until("the scrub of the others", || {
        world.service.housekeep().unwrap();
        left().len() == 1
    });
    assert_eq!(left(), [[json!("shelves_00")]]);
    world.database.execute("alter table shelves_out_of_reach rename to shelves_00");
    until("the scrub", || {
        world.service.housekeep().unwrap();
        is_scrubbed(&world.database)
    });
}

#[test]
fn a_lock_on_the_shelves_delays_the_scrub_and_neither_posts_nor_reads() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let world = &World::with(Engine::Postgres, Setup { seed: 4717, ..Setup::default() });
    world.service.housekeep().unwrap();
    let kept = post(world, "stays");
    let holder = svc_tests::runtime().block_on(async {
        let client = world.database.connect().await;
        client.batch_execute("begin; lock table shelves in access share mode").await.unwrap();
        client
    });
    let message = post(world, PLAINTEXTS[0]);
    world.admin("delete_message", json!({"message_id": message}));
    let mut slowest = Duration::ZERO;
    in_parallel(2, |side| match side {
        0 => (0..20).for_each(|_| world.service.housekeep().unwrap()),
        _ => (0..200).for_each(|number| {
            post(world, &format!("work goes on {number}"));
            world.admin("get_message", json!({"message_id": kept}));
        }),
    });
    assert!(!is_scrubbed(&world.database), "the shelf cannot have been rewritten");
    for _ in 0..50 {
        let begun = Instant::now();
        post(world, "and on");
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < Duration::from_secs(10), "posts waited for the scrub: {slowest:?}");
    svc_tests::runtime().block_on(holder.batch_execute("commit")).unwrap();
    until("the scrub", || {
        world.service.housekeep().unwrap();
        is_scrubbed(&world.database)
    });
}

#[test]
fn the_notice_of_a_cancel_is_erased_with_its_message() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.id("channel").to_string(), "a bad idea");
        // Not one of PLAINTEXTS: notices are not sealed, and other tests search all of the server's files for
        // those.
        let reason = "superseded by a better one";
        world.admin("cancel_thread", json!({"thread_id": thread, "reason": reason}));
        let notice = || world.admin("get_thread", json!({"thread_id": thread}))["notices"][0].clone();
        assert_eq!((&notice()["kind"], &notice()["text"]), (&json!("cancelled"), &json!(reason)));
        let messages = world.admin("list_messages", json!({"thread_id": thread}));
        world.admin("delete_message", json!({"message_id": messages["items"][0]["id"]}));
        assert_eq!((&notice()["kind"], &notice()["text"]), (&json!("cancelled"), &json!("")));
        let stored = "select count(*) from thread_notices where text like '%superseded%'";
        assert_eq!(world.database.number(stored), 0);
    });
}
