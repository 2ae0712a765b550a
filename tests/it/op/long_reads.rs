//! Long reads: a verification, or another read of more than a page, delays no other request.
//!
//! Each of its pages is a separate transaction, in which its caller is authenticated again. A workspace has
//! one long read at a time, and each has a time limit.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_core::capability::Capability::WorkspaceRead;
use svc_core::chain::Link;
use svc_core::id::WorkspaceId;
use svc_core::limits::LONG_READ_MAX;
use svc_core::op::{Feature, Read, reading};
use svc_core::time::Time;
use svc_core::{Attribution, Engine, EventPayload, Result, Subject};
use svc_tests::client::Answer;
use svc_tests::database::{TestDatabase, engines};
use svc_tests::process::until;
use svc_tests::{Setup, World, text};

use crate::conversation::withdraw::is_scrubbed;

/// Reads page after page until a workspace has this many messages.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FollowMessages {
    /// The workspace.
    workspace_id: WorkspaceId,
    /// The number of messages to wait for.
    messages: i64,
}

svc_core::without_requests! { FollowMessages }

/// The number of messages in the end.
#[derive(Serialize, JsonSchema)]
struct Followed {
    /// Number of messages.
    messages: i64,
}

/// Pages read since this was set to 0.
static PAGES: AtomicUsize = AtomicUsize::new(0);

/// Ends all following, because the test is over or has failed.
static OVER: AtomicBool = AtomicBool::new(false);

fn follow(cx: &Read<'_>, input: &FollowMessages, (): &mut ()) -> Result<Option<Followed>> {
    let found =
        cx.one::<(i64,)>("select count(*) from messages where workspace_id = $1", &[&input.workspace_id])?;
    let messages = found.map_or(0, |(messages,)| messages);
    PAGES.fetch_add(1, Ordering::SeqCst);
    let done = messages >= input.messages || OVER.load(Ordering::SeqCst);
    Ok(done.then_some(Followed { messages }))
}

fn features() -> Vec<Feature> {
    let operation = reading("follow_messages")
        .prepare(|_: &FollowMessages, _, _| Ok(()))
        .in_pages(follow)
        .title("Follow messages")
        .get("/workspaces/{workspace_id}/messages/follow")
        .needs(&[WorkspaceRead])
        .example(|w| json!({"workspace_id": w.id("workspace"), "messages": 0}));
    vec![Feature::new().operations("follow", vec![operation])]
}

fn messages_of(world: &World) -> i64 {
    let workspace = world.database.id(world.id("workspace"));
    world.database.number(&format!("select count(*) from messages where workspace_id = {workspace}"))
}

fn post(world: &World) -> Value {
    world.admin("post_message", json!({"thread_id": world.id("thread"), "body": "news"}))
}

/// Follows as the holder of `token` until there is one message more, and runs `meanwhile` between two pages.
///
/// Returns the outcome of following.
fn following(world: &World, token: &str, meanwhile: impl FnOnce()) -> Answer {
    let input = json!({"workspace_id": world.id("workspace"), "messages": messages_of(world) + 1});
    PAGES.store(0, Ordering::SeqCst);
    OVER.store(false, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let followed = scope.spawn(|| world.call(token, "follow_messages", input));
        let _ends = RepeatGuard(&OVER);
        until("the second page", || PAGES.load(Ordering::SeqCst) > 1);
        meanwhile();
        followed.join().unwrap()
    })
}

#[test]
fn each_page_is_a_transaction_of_its_own() {
    for engine in engines() {
        let world = &World::with(engine, Setup { features, ..Setup::default() });
        let admin = &world.people.admin;
        let message = post(world);
        world.service.housekeep().unwrap();
        let followed = following(world, admin, || {
            // Another workspace takes turns with it, and has its own long read.
            let whose = world.call(&world.people.outsider, "whoami", json!({})).output();
            let other = json!({"workspace_id": whose["workspace_id"], "messages": 0});
            world.call(&world.people.outsider, "follow_messages", other).output();
            let verify = json!({"workspace_id": world.id("workspace")});
            let refusal = world.call(admin, "verify_event_chain", verify).refused(429, "rate-limited");
            assert_eq!(refusal["retry_after_secs"], 1, "{refusal}");

            world.admin("delete_message", json!({"message_id": message["id"]}));
            until("the scrub", || {
                world.service.housekeep().unwrap();
                is_scrubbed(&world.database)
            });
            post(world);
        });
        assert_eq!(followed.output()["messages"], messages_of(world));
        world.admin("verify_event_chain", json!({"workspace_id": world.id("workspace")}));
    }
}

#[test]
fn a_token_revoked_meanwhile_gets_nothing_and_a_long_read_ends() {
    for engine in engines() {
        let world = &World::with(engine, Setup { features, ..Setup::default() });
        let agent = world.people.agent.clone();
        let revoked = following(world, &agent, || {
            world.admin("revoke_token", json!({"token_id": world.id("agent_token")}));
        });
        revoked.refused(401, "unauthenticated");
        let endless = following(world, &world.people.admin, || world.clock.advance(LONG_READ_MAX));
        let refusal = endless.refused(503, "overloaded");
        assert!(text(&refusal["detail"]).contains("svc verify"), "{refusal}");
        world.admin("verify_event_chain", json!({"workspace_id": world.id("workspace")}));
    }
}

/// An event of which the log gets many.
#[derive(Serialize, JsonSchema)]
struct MemberThought {
    /// The subject of the thought.
    matter: String,
}

impl EventPayload for MemberThought {
    const KIND: &'static str = "MemberThought";

    fn replay(_: &svc_core::ReplayedEvent<'_>) -> svc_core::Result<()> {
        Ok(())
    }
}

/// Extends a log by `count` events, as the service would have written them.
fn lengthen(world: &World, count: i64) {
    let workspace_id = WorkspaceId::from(world.id("workspace"));
    let database = &world.database;
    let workspace = database.id(workspace_id);
    let head = &database.rows(&format!("select lsn, hash from heads where workspace_id = {workspace}"))[0];
    let mut prev_hash: [u8; 32] = hex::decode(text(&head[1])).unwrap().try_into().unwrap();
    let bytes = |hash: &[u8; 32]| match world.engine() {
        Engine::Sqlite => format!("x'{}'", hex::encode(hash)),
        Engine::Postgres => format!("'\\x{}'::bytea", hex::encode(hash)),
    };
    let last = head[0].as_i64().unwrap() + count;
    let mut sql = String::from("begin;");
    for lsn in last - count + 1..=last {
        let at = Time::from_micros(1_795_000_000_000_000);
        let link =
            Link { workspace_id, lsn, kind: MemberThought::KIND, at, subject: Subject::WORKSPACE, prev_hash };
        let event = MemberThought { matter: "x".repeat(400) };
        let payload = link.payload(&Attribution::default(), &event).unwrap();
        let hash = svc_core::hash::sha256(payload.as_bytes());
        let before = bytes(&prev_hash);
        let own = bytes(&hash);
        let columns = "workspace_id, lsn, kind, at, prev_hash, content_hash, payload";
        let values =
            format!("{workspace}, {lsn}, '{}', {}, {before}, {own}, '{payload}'", link.kind, at.micros());
        write!(sql, "insert into events ({columns}) values ({values});").unwrap();
        prev_hash = hash;
    }
    let head = format!("lsn = {last}, hash = {}", bytes(&prev_hash));
    write!(sql, "update heads set {head} where workspace_id = {workspace}; commit;").unwrap();
    database.execute(&sql);
}

/// Returns the size of SQLite's write-ahead log, or 0 on Postgres.
fn log_bytes(database: &TestDatabase) -> u64 {
    let log = database.file().map(|file| file.with_extension("db-wal"));
    log.and_then(|log| std::fs::metadata(log).ok()).map_or(0, |log| log.len())
}

/// Ends a repeated task, also when the test fails.
struct RepeatGuard<'a>(&'a AtomicBool);

impl Drop for RepeatGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn repeat(over: &AtomicBool, work: impl Fn()) {
    while !over.load(Ordering::SeqCst) {
        work();
    }
}

#[test]
fn repeated_verification_delays_no_withdrawal() {
    for engine in engines() {
        let world = &World::open(engine);
        lengthen(world, 6000);
        let input = json!({"workspace_id": world.id("workspace")});
        let over = AtomicBool::new(false);
        let verified = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                repeat(&over, || {
                    world.call(&world.people.reader, "verify_event_chain", input.clone()).output();
                    verified.fetch_add(1, Ordering::SeqCst);
                });
            });
            scope.spawn(|| repeat(&over, || drop(post(world))));
            let _ends = RepeatGuard(&over);
            for _ in 0..3 {
                let before = verified.load(Ordering::SeqCst);
                let message = post(world);
                world.admin("delete_message", json!({"message_id": message["id"]}));
                until("the scrub", || {
                    world.service.housekeep().unwrap();
                    is_scrubbed(&world.database)
                });
                assert!(log_bytes(&world.database) < 32 << 20);
                until("a verification", || verified.load(Ordering::SeqCst) > before);
            }
        });
    }
}
