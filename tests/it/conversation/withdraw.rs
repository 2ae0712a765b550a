//! Withdrawing leaves nothing: words are sealed from the beginning and are in no file at any time, and once a
//! message is withdrawn its key is in no file either, so that what is left of the words cannot be opened.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_core::entropy::Entropy;
use svc_core::{Engine, Options, RateSettings, Service};
use svc_tests::database::{TestDatabase, engines};
use svc_tests::process::until;
use svc_tests::search::{Needle, found_below, found_in};
use svc_tests::site::{Caller, Server, Site};
use svc_tests::{Setup, World, answer_of, call, in_parallel, on_both_engines, text};

/// What the message says, first and after each edit. None of it occurs anywhere else.
const WORDS: [&str; 3] = ["zephyr-quixote-4711", "umbrella-pianoforte-4712", "wyvern-marzipan-4713"];
/// What is not sealed, and so must be found by whoever reads the right files.
const TITLE: &str = "Rehearse the overture";

/// What stands before sealed bytes: the id of the key-encryption key, and a nonce.
const KEK_ID_BYTES: usize = 8;
const NONCE_BYTES: usize = 12;
/// Positions on a shelf, and the halvings of its key tree from the root to one of them.
const SHELF: i64 = 4096;
const LEVELS: usize = 12;

fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}

fn message_row(database: &TestDatabase, message: &str, columns: &str) -> Vec<Value> {
    let message = database.id(message.parse::<uuid::Uuid>().unwrap());
    database.rows(&format!("select {columns} from messages where id = {message}")).remove(0)
}

/// The row of the shelf that a message's key hangs on.
struct Shelf {
    workspace: uuid::Uuid,
    number: i64,
    version: i64,
    sealed: Vec<u8>,
}

fn shelf(database: &TestDatabase, message: &str) -> Shelf {
    let row = message_row(database, message, "lsn, workspace_id");
    let (number, workspace) = (row[0].as_i64().unwrap() / SHELF, text(&row[1]).parse().unwrap());
    let found = database.rows(&format!(
        "select version, sealed from shelves where workspace_id = {} and shelf = {number}",
        database.id(workspace)
    ));
    Shelf { workspace, number, version: found[0][0].as_i64().unwrap(), sealed: bytes(&found[0][1]) }
}

fn decrypt(key: &[u8], aad: &[u8], sealed: &[u8]) -> Vec<u8> {
    let key: [u8; 32] = key.try_into().unwrap();
    let (nonce, sealed) = sealed.split_at(NONCE_BYTES);
    let nonce: [u8; NONCE_BYTES] = nonce.try_into().unwrap();
    let payload = Payload { msg: sealed, aad };
    Aes256Gcm::new(&Key::<Aes256Gcm>::from(key)).decrypt(&Nonce::from(nonce), payload).unwrap()
}

impl Shelf {
    /// The nodes that are left, by number, opened the way anybody with the key-encryption key could.
    fn nodes(&self, kek: [u8; 32]) -> BTreeMap<u16, Vec<u8>> {
        let numbers = [self.number.to_be_bytes(), self.version.to_be_bytes()].concat();
        let aad = [b"svc.shelf/1".as_slice(), self.workspace.as_bytes(), &numbers].concat();
        let plain = decrypt(&kek, &aad, &self.sealed[KEK_ID_BYTES..]);
        let nodes = plain.chunks_exact(34);
        nodes.map(|node| (u16::from_be_bytes([node[0], node[1]]), node[2..].to_vec())).collect()
    }
}

/// The numbers of the nodes from a tree's root to the leaf of a position.
fn way_down(lsn: i64) -> Vec<u16> {
    let leaf = u16::try_from(lsn % SHELF + SHELF).unwrap();
    (0..=LEVELS).rev().map(|height| leaf >> height).collect()
}

/// The keys of the nodes from a whole tree's root to the leaf of a position.
fn keys_down(root: &[u8], lsn: i64) -> Vec<Vec<u8>> {
    let mut keys = vec![root.to_vec()];
    for number in &way_down(lsn)[1..] {
        let side = u8::from(number % 2 == 1);
        let child = Sha256::digest([b"svc.shelf-node/1".as_slice(), &[side], &keys[keys.len() - 1]].concat());
        keys.push(child.to_vec());
    }
    keys
}

/// A message's key, opened the way anybody with its leaf could.
fn message_key(database: &TestDatabase, message: &str, leaf: &[u8]) -> Vec<u8> {
    let row = message_row(database, message, "workspace_id, thread_id, author_id, id, wrapped");
    let bound =
        [b"svc.message-key/2".to_vec(), bytes(&row[0]), bytes(&row[1]), bytes(&row[2]), bytes(&row[3])];
    decrypt(leaf, &bound.concat(), &bytes(&row[4]))
}

fn words() -> Vec<Needle> {
    WORDS.iter().map(|words| Needle::new(*words, *words)).collect()
}

/// The folder of the database's files, all of whose content is on disk when this comes back.
fn files(database: &TestDatabase) -> PathBuf {
    match database.engine() {
        Engine::Sqlite => database.file().unwrap().parent().unwrap().to_owned(),
        Engine::Postgres => {
            // As the manual tells operators: the log's present segment is closed, and a checkpoint retires
            // it.
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
pub fn is_scrubbed(database: &TestDatabase) -> bool {
    database.number("select count(*) from scrubs") == 0
}

fn nothing_is_left(engine: Engine) {
    let site = Site::found(engine);
    let mut server = site.serve(&[("SVC_LOG", "trace")]);
    let admin = server.caller(&site.founders.admin);
    let message = post_and_edit(admin, &site.founders.workspace_id);

    // The engine's own statistics may take samples of what a table holds.
    site.database.execute("analyze");

    let before = shelf(&site.database, &message);
    let lsn = message_row(&site.database, &message, "lsn")[0].as_i64().unwrap();
    let nodes = before.nodes(site.kek());
    assert_eq!(nodes.keys().copied().collect::<Vec<_>>(), [1], "a new shelf is its root");
    let keys = keys_down(&nodes[&1], lsn);
    let raw = message_key(&site.database, &message, &keys[LEVELS]);
    let mut secrets = words();
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

/// Makes the server say something in its trace, to show that it is heard.
fn provoke_a_line(server: &Server) {
    let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"this is no HTTP\r\n\r\n").unwrap();
    drop(stream);
    until("a line in the trace", || server.running.err.text().contains("a connection was lost"));
}

#[test]
fn of_a_withdrawn_message_nothing_is_left_in_files_and_trace() {
    for engine in engines() {
        nothing_is_left(engine);
    }
}

fn post(world: &World, body: &str) -> String {
    let thread = world.id("thread");
    text(&world.admin("post_message", json!({"thread_id": thread, "body": body}))["id"])
}

/// Posts a message in a world, withdraws it, and returns how the nodes are found that gave its key.
fn withdraw(world: &World) -> Vec<Needle> {
    // The first withdrawal draws nodes that no other world has, from which worlds of one server may be
    // copies.
    for body in [WORDS[1], WORDS[0]] {
        let message = post(world, body);
        let sealed = shelf(&world.database, &message).sealed;
        world.admin("delete_message", json!({"message_id": message}));
        if body == WORDS[0] {
            return Needle::pieces("the sealed nodes", &sealed[KEK_ID_BYTES..]);
        }
    }
    unreachable!("the second message was withdrawn")
}

/// Somebody else who reads the database and goes on seeing it as it was.
struct Onlooker(Option<Reading>);

enum Reading {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Onlooker {
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
        world.new_thread(&world.id("channel").to_string(), "work goes on");
        onlooker.end();
        // Transactions of other databases delay it too.
        until("the scrub", || {
            world.service.housekeep().unwrap();
            is_scrubbed(&world.database)
        });
        assert_eq!(found(&world.database, &key), []);
    }
}

/// Another process's service on the database of a world.
fn second_service(world: &World) -> Service {
    let mut options = Options::new(world.database.address(), [7; 32]);
    options.rates = RateSettings { per_client: 0, per_workspace: 0, ..RateSettings::default() };
    options.clock = world.clock.clone();
    options.entropy = Entropy::seeded(4715);
    options.reap_tick = None;
    Service::open(options).unwrap()
}

/// Puts a message's key back to where keys were before there were shelves, and returns it as it is stored
/// then.
fn make_old(world: &World, message: &str) -> Vec<u8> {
    let database = &world.database;
    let row = message_row(database, message, "lsn, id");
    let nodes = shelf(database, message).nodes([7; 32]);
    let lsn = row[0].as_i64().unwrap();
    let way = way_down(lsn);
    let (depth, node) =
        way.iter().enumerate().find_map(|(depth, number)| nodes.get(number).map(|key| (depth, key))).unwrap();
    let mut leaf = node.clone();
    for number in &way[depth + 1..] {
        let side = u8::from(number % 2 == 1);
        leaf = Sha256::digest([b"svc.shelf-node/1".as_slice(), &[side], &leaf].concat()).to_vec();
    }
    let key = message_key(database, message, &leaf);
    let kek_id = &Sha256::digest([b"svc.kek-id/1".as_slice(), &[7; 32]].concat())[..KEK_ID_BYTES];
    let aad = [b"svc.message-key/1".to_vec(), bytes(&row[1])].concat();
    let nonce: [u8; NONCE_BYTES] = Entropy::System.bytes().unwrap();
    let kek = Aes256Gcm::new(&Key::<Aes256Gcm>::from([7; 32]));
    let sealed = kek.encrypt(&Nonce::from(nonce), Payload { msg: &key, aad: &aad }).unwrap();
    let wrapped = [kek_id, &nonce, &sealed].concat();
    let (id, old) = (database.id(message.parse::<uuid::Uuid>().unwrap()), database.bytes(&wrapped));
    database.execute(&format!(
        "insert into message_keys (message_id, wrapped) values ({id}, {old});
         update messages set wrapped = null where id = {id}"
    ));
    wrapped
}

#[test]
fn keys_from_before_there_were_shelves_open_and_are_moved() {
    for engine in engines() {
        let world = &World::with(engine, Setup { seed: 4716, ..Setup::default() });
        world.service.housekeep().unwrap();
        let messages: Vec<String> = (0..4).map(|number| post(world, &format!("old {number}"))).collect();
        world.admin("edit_message", json!({"message_id": messages[0], "body": "old but edited"}));
        let old: Vec<Vec<u8>> = messages.iter().map(|message| make_old(world, message)).collect();
        let read = |service: &Service, message: &str| {
            let input = json!({"message_id": message});
            let answer = answer_of(call(service, Some(&world.people.admin), "get_message", &input)).output();
            (text(&answer["body"]), answer["unreadable"].as_bool().unwrap())
        };
        // While they are where they were: read, edited and withdrawn like any other.
        assert_eq!(read(&world.service, &messages[0]), ("old but edited".to_owned(), false));
        let then = [("old 0".to_owned(), false), ("old but edited".to_owned(), false)];
        assert_eq!(beside_events(world, &messages[0]), then);
        world.admin("edit_message", json!({"message_id": messages[1], "body": "edited since"}));
        world.admin("delete_message", json!({"message_id": messages[2]}));
        assert_eq!(world.database.number("select count(*) from message_keys"), 3);

        let service = second_service(world);
        until("the move and the scrub", || {
            // Whoever did the last scrub holds its lease.
            [&service, &world.service].into_iter().for_each(|service| service.housekeep().unwrap());
            world.database.number("select count(*) from message_keys") == 0 && is_scrubbed(&world.database)
        });
        assert_eq!(beside_events(world, &messages[0]), then);
        let moved = "select count(*) from messages where wrapped is null and withdrawn_at is null";
        assert_eq!(world.database.number(moved), 0);
        for (message, body) in [(0, "old but edited"), (1, "edited since"), (3, "old 3")] {
            for service in [&service, &world.service] {
                assert_eq!(read(service, &messages[message]), (body.to_owned(), false));
            }
        }
        let edits = world.admin("list_message_edits", json!({"message_id": messages[0]}));
        assert_eq!(edits["items"][0]["body"], "old 0");
        let needles: Vec<Needle> =
            old.iter().flat_map(|old| Needle::pieces("an old key", &old[KEK_ID_BYTES..])).collect();
        assert_eq!(found(&world.database, &needles), []);
        world.admin("delete_message", json!({"message_id": messages[3]}));
        assert_eq!(read(&service, &messages[3]), (String::new(), false));
    }
}

/// How many old keys there are.
fn old_keys(world: &World) -> i64 {
    world.database.number("select count(*) from message_keys")
}

#[test]
fn old_keys_that_cannot_be_moved_hold_up_no_scrub() {
    for engine in engines() {
        let world = &World::with(engine, Setup { seed: 4720, ..Setup::default() });
        world.service.housekeep().unwrap();
        let message = post(world, WORDS[0]);
        make_old(world, &message);
        world.database.execute(match engine {
            Engine::Sqlite => {
                "with recursive n(i) as (select 1 union all select i + 1 from n where i < 5001)
                 insert into message_keys select randomblob(16), x'00' from n"
            }
            Engine::Postgres => {
                "insert into message_keys select gen_random_uuid(), '\\x00' from generate_series(1, 5001)"
            }
        });
        world.admin("delete_message", json!({"message_id": message}));
        assert!(!is_scrubbed(&world.database));
        until("the scrub", || {
            world.service.housekeep().unwrap();
            is_scrubbed(&world.database)
        });
        assert_eq!(old_keys(world), 5001);
    }
}

#[test]
fn old_keys_that_were_not_moved_are_tried_again_later() {
    for engine in engines() {
        let world = &World::with(engine, Setup { seed: 4721, ..Setup::default() });
        let message = post(world, WORDS[0]);
        make_old(world, &message);
        let service = second_service(world);
        world.database.execute("alter table shelves rename to shelves_out_of_reach");
        service.housekeep().unwrap();
        world.database.execute("alter table shelves_out_of_reach rename to shelves");
        service.housekeep().unwrap();
        assert_eq!(old_keys(world), 1, "it is left alone for a while");
        world.clock.advance(Duration::from_secs(61));
        service.housekeep().unwrap();
        assert_eq!(old_keys(world), 0);
    }
}

#[test]
fn a_table_that_cannot_be_rewritten_holds_up_no_other() {
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

/// Whether a message reads as it was written.
fn reads_as(world: &World, message: &str, body: &str) -> bool {
    let read = world.admin("get_message", json!({"message_id": message}));
    assert_eq!(read["unreadable"], json!(read["body"] != body), "{read}");
    read["body"] == body
}

#[test]
fn a_damaged_shelf_stops_no_post_and_no_withdrawal() {
    for engine in engines() {
        let world = &World::with(engine, Setup { seed: 4724, ..Setup::default() });
        let before = [post(world, "before"), post(world, "withdrawn")];
        let whole = shelf(&world.database, &before[0]);
        let set = |sealed: &[u8]| {
            let (workspace, sealed) = (world.database.id(whole.workspace), world.database.bytes(sealed));
            world.database.execute(&format!(
                "update shelves set sealed = {sealed} where workspace_id = {workspace} and shelf = {}",
                whole.number
            ));
            // Open trees are used for a while.
            world.clock.advance(Duration::from_secs(11));
        };
        let mut damaged = whole.sealed.clone();
        damaged[40] ^= 1;
        set(&damaged);
        assert!(!reads_as(world, &before[0], "before"));
        let after = [post(world, "after"), post(world, WORDS[0])];
        let stands_in = || {
            let sql = format!("select sealed from shelves where shelf = {}", -1 - whole.number);
            bytes(&world.database.rows(&sql)[0][0])
        };
        assert!(reads_as(world, &after[0], "after"));
        let nodes = Needle::pieces("the sealed nodes", &stands_in()[KEK_ID_BYTES..]);
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

#[test]
fn each_move_of_old_keys_asks_for_a_scrub_of_its_own() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let world = &World::with(Engine::Postgres, Setup { seed: 4723, ..Setup::default() });
    until("nothing is left to scrub", || {
        world.service.housekeep().unwrap();
        is_scrubbed(&world.database)
    });
    let messages = [post(world, WORDS[0]), post(world, WORDS[1])];
    // A transaction that may still see the keys keeps the scrub waiting.
    let holder = svc_tests::runtime().block_on(async {
        let client = world.database.connect().await;
        client.batch_execute("begin isolation level repeatable read; select 1").await.unwrap();
        client
    });
    for (asked, message) in (1..).zip(&messages) {
        make_old(world, message);
        let service = second_service(world);
        until("the move", || {
            service.housekeep().unwrap();
            old_keys(world) == 0
        });
        assert_eq!(world.database.number("select count(*) from scrubs"), asked);
    }
    drop(holder);
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
    let message = post(world, WORDS[0]);
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

/// The bodies of a thread's messages, and whether each is unreadable.
fn listed(world: &World, thread: &str) -> Vec<(String, bool)> {
    let list = world.admin("list_messages", json!({"thread_id": thread}));
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| (text(&item["body"]), item["unreadable"].as_bool().unwrap())).collect()
}

/// What stands beside the events of a message, and whether each is unreadable.
fn beside_events(world: &World, message: &str) -> Vec<(String, bool)> {
    let list = world.admin("list_events", json!({"workspace_id": world.id("workspace"), "limit": 500}));
    let events = list["items"].as_array().unwrap();
    let spoken = events.iter().filter(|event| event["payload"]["message_id"] == message);
    spoken
        .filter_map(|event| event.get("message"))
        .map(|said| (text(&said["body"]), said["unreadable"].as_bool().unwrap()))
        .collect()
}

#[test]
fn a_message_that_does_not_open_is_unreadable_and_hides_no_other() {
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
        let (home, author) = (
            world.database.id(text(&stored[0]).parse::<uuid::Uuid>().unwrap()),
            world.database.id(text(&stored[1]).parse::<uuid::Uuid>().unwrap()),
        );
        let (wrapped, sealed) = (bytes(&stored[2]), bytes(&stored[3]));
        let whole = |bytes: &[u8]| world.database.bytes(bytes);
        let flipped = |bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            *bytes.last_mut().unwrap() ^= 1;
            world.database.bytes(&bytes)
        };
        let (fine, gone) = (("third".to_owned(), false), (String::new(), true));
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
            // Events have their words themselves; of the row they need what gives the key.
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

#[test]
fn the_notice_of_a_cancel_goes_with_its_message() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.id("channel").to_string(), "a bad idea");
        // Not of WORDS: notices are not sealed, and other tests search all of the server's files for those.
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
