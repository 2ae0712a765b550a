//! Reading the whole record: the chain with its keys, without withdrawn content, and its visibility.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_core::signed_note::NoteSigner;
use svc_tests::{SIGNS, World, on_both_engines, text};

fn catch_up(world: &World, more: Value) -> Value {
    let mut input = json!({"workspace_id": world.id("workspace"), "limit": 7});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.admin("catch_up_events", input)
}

/// Returns the whole log, page by page.
fn whole(world: &World) -> Vec<Value> {
    let mut events = Vec::new();
    let mut after = 0;
    loop {
        let page = catch_up(world, json!({"after_lsn": after}));
        assert_eq!((&page["type"], &page["floor"]), (&json!("svc.event-log.catch-up/1"), &json!(1)));
        events.extend(page["items"].as_array().unwrap().clone());
        after = page["after_lsn"].as_i64().unwrap();
        assert_eq!(page["next_cursor"].is_null(), after == world.lsn());
        if page["after_lsn"] == page["room_lsn"] {
            return events;
        }
    }
}

#[test]
fn catching_up_returns_a_chain_without_gaps() {
    on_both_engines(|world| {
        world.admin(
            "post_message",
            json!({"thread_id": world.people.private_thread_id, "body": "in private"}),
        );
        let mut previous = format!("sha256:{}", hex::encode(Sha256::digest(b"svc.event-log.genesis/1")));
        let events = whole(world);
        assert_eq!(events.len(), usize::try_from(world.lsn()).unwrap());
        for event in events {
            assert_eq!(event["prev_hash"], previous);
            // Members are sorted, which is the canonical form for the contents of payloads.
            let hash = Sha256::digest(event["payload"].to_string());
            previous = format!("sha256:{}", hex::encode(hash));
            assert_eq!(event["content_hash"], previous);
        }
    });
}

/// Returns the sealed content of an event, opened with only the key beside it.
fn opened(event: &Value) -> Option<Value> {
    let key = STANDARD.decode(event["content_key"].as_str()?).unwrap();
    let sealed = STANDARD.decode(text(&event["payload"]["sealed"])).unwrap();
    let (nonce, sealed) = sealed.split_at(12);
    let message: uuid::Uuid = text(&event["payload"]["message_id"]).parse().unwrap();
    let edit = event["payload"]["edit"].as_i64().unwrap_or(0);
    let aad = [b"svc.sealed/1", &message.as_bytes()[..], &edit.to_be_bytes(), b"words"].concat();
    let nonce: [u8; 12] = nonce.try_into().unwrap();
    let cipher = Aes256Gcm::new_from_slice(&key).unwrap();
    let plain = cipher.decrypt(&Nonce::from(nonce), Payload { msg: sealed, aad: &aad }).unwrap();
    Some(serde_json::from_slice(&plain).unwrap())
}

#[test]
fn a_key_opens_what_a_living_message_says_and_no_more() {
    on_both_engines(|world| {
        let before = world.lsn();
        let thread = json!(world.id("thread"));
        let post = |body: &str| world.agent("post_message", json!({"thread_id": thread, "body": body}));
        let kept = post("kept");
        let withdrawn = post("withdrawn");
        world.agent("edit_message", json!({"message_id": kept["id"], "body": "edited"}));
        world.agent("delete_message", json!({"message_id": withdrawn["id"]}));
        let page = catch_up(world, json!({"after_lsn": before}));
        let words: Vec<Option<Value>> = page["items"].as_array().unwrap().iter().map(opened).collect();
        let bodies: Vec<Value> = words.iter().flatten().map(|words| words["body"].clone()).collect();
        assert_eq!(bodies, ["kept", "edited"]);
        assert_eq!(words.len(), 4);
    });
}

#[test]
fn only_a_position_in_the_log_is_continued_from() {
    on_both_engines(|world| {
        let input = json!({"workspace_id": world.id("workspace"), "after_lsn": world.lsn() + 1});
        world.call(&world.people.admin, "catch_up_events", input).refused(409, "must_refetch");
        let end = catch_up(world, json!({"after_lsn": world.lsn()}));
        assert_eq!((&end["items"], &end["after_lsn"]), (&json!([]), &json!(world.lsn())));
    });
}

#[test]
fn tombstones_tell_what_was_withdrawn_to_who_may_see_it() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let listed = |token: &str, more: Value| {
            let mut input = json!({"workspace_id": workspace});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let page = world.call(token, "list_tombstones", input).output();
            page["items"].as_array().unwrap().clone()
        };
        let before = listed(&world.people.admin, json!({"include_purged": true})).len();
        let withdraw = |thread: &Value| {
            let posted = world.admin("post_message", json!({"thread_id": thread, "body": "a word"}));
            world.admin("delete_message", json!({"message_id": posted["id"]}));
            posted["id"].clone()
        };
        let public = json!(world.id("thread"));
        let private = json!(world.people.private_thread_id);
        let [first, second, hidden] = [withdraw(&public), withdraw(&public), withdraw(&private)];
        world.admin("purge_message", json!({"message_id": first}));
        let ids = |found: Vec<Value>| -> Vec<Value> {
            found.iter().map(|tombstone| tombstone["message_id"].clone()).collect()
        };
        let admin = &world.people.admin;
        let all = listed(admin, json!({"include_purged": true}));
        assert_eq!(ids(all[before..].to_vec()), [first.clone(), second.clone(), hidden.clone()]);
        assert_eq!((&all[before]["purged"], &all[before + 1]["purged"]), (&json!(true), &json!(false)));
        assert_eq!(all[before]["withdrawn_by"], json!(world.id("admin")));
        assert_eq!(ids(listed(admin, json!({"thread_id": private}))), std::slice::from_ref(&hidden));
        assert!(!ids(listed(admin, json!({}))).contains(&first), "unless it is asked for");
        let seen = ids(listed(&world.people.bystander, json!({"include_purged": true})));
        assert!(seen.contains(&first) && !seen.contains(&hidden));
    });
}

#[test]
fn the_card_says_where_the_record_is_and_how_far_it_goes() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let card = world.call(&world.people.reader, "get_room", json!({"workspace_id": workspace})).output();
        let verified = world.admin("verify_event_chain", json!({"workspace_id": workspace}));
        assert_eq!((&card["head"], &card["floor"]), (&verified["head"], &json!(1)));
        assert_eq!(card["uri"], format!("svc://{workspace}"));
        let rest = world.rest();
        for name in ["self", "events", "catch_up", "verify", "snapshot"] {
            let path = text(&card["links"][name]);
            assert_eq!(rest.send(Some(&world.people.admin), "GET", &path, &[], None).status, 200, "{path}");
        }
        let scheme = rest.send(None, "GET", "/.well-known/svc-room", &[], None);
        assert_eq!(scheme.headers["cache-control"], "public, max-age=3600");
        assert!(!scheme.headers.contains_key("svc-room-lsn"));
        let scheme = scheme.output();
        assert!(!scheme.to_string().contains(&workspace.to_string()));
        let key = STANDARD.encode(NoteSigner::new(&SIGNS).public());
        assert_eq!(scheme["export_key"], json!(key));
        let template = text(&scheme["links"]["self"]).replace("{workspace_id}", &workspace.to_string());
        assert_eq!(template, text(&card["links"]["self"]));
    });
}
