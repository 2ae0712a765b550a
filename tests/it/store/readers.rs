//! Reads that share a transaction.
//!
//! A failure of one does not affect the others, each sees everything that was committed before it was sent,
//! and the cache of a connection ends with the rows that it was loaded from.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_core::limits::{POSTGRES_READERS, READERS};
use svc_core::op::{Feature, Read, Request, Surface, read};
use svc_core::{Engine, Result, Service};
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::{Setup, World, answer_of, on_both_engines, runtime, text};

/// Fails.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Stumble {}

svc_core::without_requests! { Stumble }

/// Never returned.
#[derive(Serialize, JsonSchema)]
struct Nothing {}

fn fail(cx: &Read<'_>, _: &Stumble) -> Result<Nothing> {
    cx.query::<(i64,)>("select no_column from heads", &[])?;
    Ok(Nothing {})
}

fn panic(_: &Read<'_>, _: &Stumble) -> Result<Nothing> {
    panic!("a read that panics")
}

/// Number of reads that hold a reader or have held one.
static HOLDING: AtomicUsize = AtomicUsize::new(0);
/// Locked while they hold it.
static HOLD: Mutex<()> = Mutex::new(());

fn hold(_: &Read<'_>, _: &Stumble) -> Result<Nothing> {
    HOLDING.fetch_add(1, Ordering::SeqCst);
    drop(HOLD.lock());
    Ok(Nothing {})
}

fn features() -> Vec<Feature> {
    let operations = vec![
        read("fail", fail).title("Fail").get("/fail"),
        read("fail_quickly", fail).quick().title("Fail quickly").get("/fail-quickly"),
        read("hold", hold).title("Hold").get("/hold"),
        read("panic", panic).title("Panic").get("/panic"),
        read("panic_quickly", panic).quick().title("Panic quickly").get("/panic-quickly"),
    ];
    vec![Feature::new().operations("stumbles", operations)]
}

async fn ask(service: &Service, token: &str, operation: &str, input: &Value) -> (u16, Value) {
    let request = Request::json(Surface::Rest, Some(token.to_owned().into()), input.to_string());
    let answer = answer_of(service.ask(service.operation(operation).unwrap(), request).await);
    (answer.status, answer.body)
}

#[test]
fn a_read_that_fails_fails_alone() {
    for engine in engines() {
        let world = World::with(engine, Setup { features, ..Setup::default() });
        let service = &world.service;
        let token = world.people.admin.as_str();
        let operations = ["whoami", "fail", "fail_quickly", "panic", "list_workspaces", "panic_quickly"];
        let asked = (0..120).map(|number| async move {
            let operation = operations[number % operations.len()];
            (operation, ask(service, token, operation, &json!({})).await.0)
        });
        for (operation, status) in runtime().block_on(futures_util::future::join_all(asked)) {
            let wanted =
                if operation.starts_with("fail") || operation.starts_with("panic") { 500 } else { 200 };
            assert_eq!(status, wanted, "{operation} on {}", engine.name());
        }
    }
}

#[test]
fn health_does_not_wait_for_other_reads() {
    for engine in engines() {
        let world = World::with(engine, Setup { features, ..Setup::default() });
        let readers = if engine == Engine::Sqlite { READERS } else { POSTGRES_READERS };
        let before = HOLDING.load(Ordering::SeqCst);
        let held = HOLD.lock().unwrap();
        // The last free reader is for a workspace without one.
        let reads: Vec<_> = (0..readers)
            .map(|number| {
                let input = json!({"name": format!("team {number}"), "admin_handle": "boss"});
                let token = text(&world.admin("create_workspace", input)["token"]["secret"]);
                let service = world.service.clone();
                runtime().spawn(async move { ask(&service, &token, "hold", &json!({})).await.0 })
            })
            .collect();
        until("all readers are held", || HOLDING.load(Ordering::SeqCst) - before == readers);
        let health = world.rest().send(None, "GET", "/health", &[], None);
        assert_eq!(health.status, 200, "{engine:?}: {:#}", health.body);
        assert_eq!(HOLDING.load(Ordering::SeqCst) - before, readers, "they are held still");
        drop(held);
        let ended = runtime().block_on(futures_util::future::join_all(reads));
        assert!(ended.into_iter().all(|status| status.unwrap() == 200));
    }
}

#[test]
fn a_client_that_received_an_event_sees_the_change() {
    on_both_engines(|world| {
        let channel = world.new_channel("news");
        let thread = world.new_thread(&channel, "latest");
        let service = &world.service;
        let token = world.people.admin.as_str();
        let talks = (0..24).map(|_| {
            let post = json!({"thread_id": thread, "body": "hear, hear"});
            async move {
                for _ in 0..5 {
                    let (status, posted) = ask(service, token, "post_message", &post).await;
                    assert_eq!(status, 201, "{posted}");
                    let asked = json!({"message_id": posted["id"]});
                    let (status, read) = ask(service, token, "get_message", &asked).await;
                    assert_eq!((status, &read["id"]), (200, &posted["id"]), "{read}");
                }
            }
        });
        runtime().block_on(futures_util::future::join_all(talks));
    });
}

/// The position beside an answer is not beyond the data that was read.
///
/// Otherwise a client that keeps the answer would ignore the event of a change that it has not seen.
#[test]
fn a_read_is_never_older_than_the_position_beside_it() {
    on_both_engines(|world| {
        let channel = world.new_channel("news");
        let mut made = BTreeSet::new();
        let is_over = AtomicBool::new(false);
        let shown = AtomicUsize::new(0);
        let reads: Vec<(i64, i64)> = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..4)
                .map(|_| {
                    let input = json!({"channel_id": channel, "newest_first": true, "limit": 1});
                    let is_over = &is_over;
                    let shown = &shown;
                    scope.spawn(move || {
                        let mut seen = Vec::new();
                        while !is_over.load(Ordering::Relaxed) {
                            let row = world.operation("list_threads");
                            let answer = world.rest().call(Some(&world.people.admin), row, &input);
                            let newest = answer.body["items"][0]["lsn"].as_i64().unwrap_or(0);
                            seen.push((answer.lsn().unwrap(), newest));
                            shown.fetch_add(usize::from(newest > 0), Ordering::Relaxed);
                        }
                        seen
                    })
                })
                .collect();
            // On a busy machine the readers may begin late.
            let enough = |number| number >= 60 && shown.load(Ordering::Relaxed) > 20;
            for number in (0..5_000).take_while(|number| !enough(*number)) {
                let input = json!({"channel_id": channel, "title": format!("thread {number}")});
                let thread = world.admin("create_thread", input);
                made.insert(thread["lsn"].as_i64().unwrap());
            }
            is_over.store(true, Ordering::Relaxed);
            readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect()
        });
        let mut between = 0;
        for (lsn, newest) in &reads {
            let due = made.range(..=lsn).next_back().map_or(0, |lsn| *lsn);
            assert!(*newest >= due, "a read at {lsn} shows {newest}, and {due} was there");
            between += usize::from(due > 0 && due < *made.last().unwrap());
        }
        assert!(between > 10, "{between} of {} reads were while something was written", reads.len());
    });
}

#[test]
fn the_cache_of_a_connection_is_invalidated_in_time() {
    on_both_engines(|world| {
        let channel = text(
            &world.admin(
                "create_channel",
                json!({"workspace_id": world.id("workspace"), "name": "den", "private": true}),
            )["id"],
        );
        let (member, token) = world.new_agent("guest");
        let membership = json!({"channel_id": channel, "member_id": member});
        world.admin("add_channel_member", membership.clone());
        let thread = world.new_thread(&channel, "secrets");
        let message = world.admin("post_message", json!({"thread_id": thread, "body": "hush"}));
        let read = || {
            let asked = json!({"message_id": message["id"]});
            // Often enough that every connection has cached the member.
            let reads = (0..64).map(|_| ask(&world.service, &token, "get_message", &asked));
            let mut statuses: Vec<u16> = runtime()
                .block_on(futures_util::future::join_all(reads))
                .into_iter()
                .map(|(s, _)| s)
                .collect();
            statuses.dedup();
            statuses
        };
        assert_eq!(read(), [200]);
        world.admin("remove_channel_member", membership.clone());
        assert_eq!(read(), [404]);
        world.admin("add_channel_member", membership);
        assert_eq!(read(), [200]);
        let tokens =
            world.admin("list_tokens", json!({"workspace_id": world.id("workspace"), "member_id": member}));
        for token in tokens["items"].as_array().unwrap() {
            world.admin("revoke_token", json!({"token_id": token["id"]}));
        }
        assert_eq!(read(), [401]);
    });
}
