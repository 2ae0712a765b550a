//! Message keys from before shelves existed.
//!
//! They open their messages until they are moved to a shelf, and moving them leaves no trace of them.

use std::time::Duration;

use super::sealed::{KEK_ID_BYTES, NONCE_BYTES, bytes, message_key, message_row, shelf, way_down};
use super::unreadable::beside_events;
use super::withdraw::{PLAINTEXTS, found, is_scrubbed, post};
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use serde_json::json;
use sha2::{Digest, Sha256};
use svc_core::entropy::Entropy;
use svc_core::{Engine, Options, RateSettings, Service};
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::search::Needle;
use svc_tests::{Setup, World, answer_of, call, text};

/// Another process's service on the database of a world.
fn second_service(world: &World) -> Service {
    let mut options = Options::new(world.database.address(), [7; 32]);
    options.rates = RateSettings { per_client: 0, per_workspace: 0, ..RateSettings::default() };
    options.clock = world.clock.clone();
    options.entropy = Entropy::seeded(4715);
    options.reap_tick = None;
    Service::open(options).unwrap()
}

/// Stores a message's key as it was stored before shelves existed, and returns the stored bytes.
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
fn keys_from_before_shelves_existed_open_and_are_moved() {
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
        // Before they are moved: read, edited and withdrawn like any other.
        assert_eq!(read(&world.service, &messages[0]), ("old but edited".to_owned(), false));
        let then = [("old 0".to_owned(), false), ("old but edited".to_owned(), false)];
        assert_eq!(beside_events(world, &messages[0]), then);
        world.admin("edit_message", json!({"message_id": messages[1], "body": "edited since"}));
        world.admin("delete_message", json!({"message_id": messages[2]}));
        assert_eq!(world.database.number("select count(*) from message_keys"), 3);

        let service = second_service(world);
        until("the move and the scrub", || {
            // The service that did the last scrub holds its lease.
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
fn old_keys_that_cannot_be_moved_do_not_delay_the_scrub() {
    for engine in engines() {
        let world = &World::with(engine, Setup { seed: 4720, ..Setup::default() });
        world.service.housekeep().unwrap();
        let message = post(world, PLAINTEXTS[0]);
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
fn old_keys_that_were_not_moved_are_retried_later() {
    for engine in engines() {
        let world = &World::with(engine, Setup { seed: 4721, ..Setup::default() });
        let message = post(world, PLAINTEXTS[0]);
        make_old(world, &message);
        let service = second_service(world);
        world.database.execute("alter table shelves rename to shelves_out_of_reach");
        service.housekeep().unwrap();
        world.database.execute("alter table shelves_out_of_reach rename to shelves");
        service.housekeep().unwrap();
        assert_eq!(old_keys(world), 1, "it is not retried at once");
        world.clock.advance(Duration::from_secs(61));
        // The other service may hold the lease of the chore just then.
        until("the move", || {
            service.housekeep().unwrap();
            old_keys(world) == 0
        });
    }
}

#[test]
fn each_move_of_old_keys_requests_its_own_scrub() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let world = &World::with(Engine::Postgres, Setup { seed: 4723, ..Setup::default() });
    until("nothing is left to scrub", || {
        world.service.housekeep().unwrap();
        is_scrubbed(&world.database)
    });
    let messages = [post(world, PLAINTEXTS[0]), post(world, PLAINTEXTS[1])];
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
