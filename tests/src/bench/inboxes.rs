//! Inboxes: posts that mention all of a channel of 1,000, and posts without mentions while 1,000 members
//! follow the channel and wait for mentions.
//!
//! The floor of the first is a bare insert of the same rows, one statement and one commit for those of a
//! post; that of the second the same posts without followers and waits.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::{Value, json};
use svc_core::op::MailSettings;
use svc_core::{Engine, ServiceOptions};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::posts::{callers, poster};
use super::stage::{Stage, body};
use super::{Finding, Sample, alternate};
use crate::database::TestDatabase;
use crate::push_service;

const MEMBERS: usize = 1000;
/// Posts of one round.
const POSTS: usize = 20;
const CALLERS: usize = 64;
const SPAN: Duration = Duration::from_millis(2500);
/// Calls in parallel while the stage is set up.
const AT_ONCE: usize = 64;

/// Measures posts with `@channel` in a channel of 1,000 members, who get mail and push notifications.
pub fn fanout(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let other = TestDatabase::on(engine);
    let [stage, bare] = [&database, &other].map(|database| {
        let stage = Stage::build_where(database, notify);
        let tokens = crowd(&stage, runtime);
        open_ways(&stage, database, tokens, runtime);
        stage
    });
    let mut floor = InboxFloor::of(&bare, &other, runtime);
    let measured = alternate(
        pairs,
        || {
            database.execute(NO_ITEMS);
            let begun = Instant::now();
            post_to_all(&stage);
            rate(begun)
        },
        || {
            other.execute(NO_ITEMS);
            let begun = Instant::now();
            floor.insert(runtime);
            rate(begun)
        },
    );
    let [items, mails, pushes] = ["*", "mail_due", "push_due"]
        .map(|column| database.number(&format!("select count({column}) from inbox")));
    Finding {
        name: "fanout",
        engine,
        pairs: measured,
        floor_is: "an insert of the same rows out of a table, by one statement and one commit a post",
        extra: json!({"members": MEMBERS, "posts": POSTS, "items": items, "mails": mails, "pushes": pushes,
                      "unit": "items/s"}),
    }
}

/// Enables mail and push in a service.
fn notify(options: &mut ServiceOptions) {
    let public_url = "https://svc.example.org".to_owned();
    options.settings.mail = Some(MailSettings { delay: Duration::from_secs(120), public_url });
    options.settings.vapid_public_key = Some(push_service::public_key());
}

/// Opens both delivery channels of all members, who choose to be notified when their channel is mentioned.
fn open_ways(stage: &Stage, database: &TestDatabase, tokens: Vec<String>, runtime: &Runtime) {
    let rules = json!({"rules": [{"reason": "group_mention", "mail": true, "push": true}]});
    let wants = tokens.into_iter().map(|token| (token, "set_notification_preferences", rules.clone()));
    ask_all(stage, wants.collect(), runtime);
    database.execute(
        "insert into delivery_addresses (member_id, mode, address, confirmed_at, tries, notice_failures,
             failures, suspended, sent)
         select m.id, 'immediate', m.handle || '@example.org', 1, 0, 0, 0, false, 0 from members m",
    );
    let id = database.any_id();
    let bytes = database.any_bytes();
    database.execute(&format!(
        "insert into web_push (id, member_id, endpoint, p256dh, auth, failures, at)
         select {id}, m.id, 'https://push.example.org/' || m.handle, {bytes}, {bytes}, 0, 1 from members m"
    ));
}

const NO_ITEMS: &str = "delete from inbox";

/// Measures posts without mentions, while 1,000 members follow the channel and wait for mentions.
pub fn followed(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let other = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    let alone = Stage::build(&other);
    let tokens = crowd(&stage, runtime);
    crowd(&alone, runtime);
    let follow = json!({"target_id": stage.channel_id});
    let follows = tokens.iter().map(|token| (token.clone(), "follow", follow.clone()));
    ask_all(&stage, follows.collect(), runtime);
    let waits = wait_all(&stage, tokens, runtime);
    let posts = |stage: &Stage| callers(runtime, CALLERS, SPAN, poster(stage));
    let measured = alternate(pairs, || posts(&stage), || posts(&alone));
    let waiting = stage.service.parked_waits();
    drop(waits);
    Finding {
        name: "posts-followed",
        engine,
        pairs: measured,
        floor_is: "the same posts where nobody follows and nobody waits",
        extra: json!({"followers": MEMBERS, "waiting": waiting}),
    }
}

/// Adds 1,000 members to the stage's channel, and returns their tokens.
fn crowd(stage: &Stage, runtime: &Runtime) -> Vec<String> {
    let create = |number| {
        let handle = format!("member-{number}");
        let input = json!({"workspace_id": stage.workspace_id, "handle": handle, "display_name": handle});
        (stage.token.clone(), "create_agent", input)
    };
    let made = ask_all(stage, (0..MEMBERS).map(create).collect(), runtime);
    let join = |made: &Value| {
        let input = json!({"channel_id": stage.channel_id, "member_id": made["member"]["id"]});
        (stage.token.clone(), "add_channel_member", input)
    };
    ask_all(stage, made.iter().map(join).collect(), runtime);
    made.iter().map(|made| made["token"]["secret"].as_str().expect("a secret").to_owned()).collect()
}

/// Calls operations, many in parallel.
fn ask_all(stage: &Stage, calls: Vec<(String, &'static str, Value)>, runtime: &Runtime) -> Vec<Value> {
    let mut answers = Vec::new();
    for some in calls.chunks(AT_ONCE) {
        let asked = some.iter().map(|(token, operation, input)| stage.ask(token, operation, input.clone()));
        answers.extend(runtime.block_on(futures_util::future::join_all(asked)));
    }
    answers
}

/// Starts a wait for mentions with each token, until the result is dropped.
fn wait_all(stage: &Stage, tokens: Vec<String>, runtime: &Runtime) -> JoinSet<()> {
    let mut waits = JoinSet::new();
    runtime.block_on(async {
        for token in tokens {
            let stage = stage.clone();
            waits.spawn(async move {
                loop {
                    stage.ask(&token, "wait_for_mention", json!({"timeout_secs": 300})).await;
                }
            });
        }
        while stage.service.parked_waits() < MEMBERS {
            tokio::task::yield_now().await;
        }
    });
    waits
}

fn post_to_all(stage: &Stage) {
    for number in 0..POSTS {
        let input = json!({"thread_id": stage.thread_id, "body": format!("@channel {}", body(number))});
        stage.call("post_message", input);
    }
}

fn rate(begun: Instant) -> Sample {
    let items = f64::from(u32::try_from(MEMBERS * POSTS).expect("a number of items"));
    Sample { per_second: items / begun.elapsed().as_secs_f64(), ..Sample::default() }
}

/// The inbox items of a round, and a connection that inserts them.
struct InboxFloor {
    conn: BareInsert,
    /// The positions of the posts.
    lsns: Vec<i64>,
}

enum BareInsert {
    Sqlite(Connection),
    Postgres(tokio_postgres::Client, tokio_postgres::Statement),
}

const INSERT: &str = "insert into inbox select * from kept where lsn = $1";

impl InboxFloor {
    /// Makes the service create the items of a round, and keeps them.
    fn of(stage: &Stage, database: &TestDatabase, runtime: &Runtime) -> Self {
        database.execute(NO_ITEMS);
        post_to_all(stage);
        database.execute("create table kept as select * from inbox");
        database.execute("create index kept_at on kept (lsn)");
        let lsns = database.rows("select distinct lsn from kept order by lsn");
        let lsns: Vec<i64> = lsns.iter().map(|row| row[0].as_i64().expect("a position")).collect();
        assert_eq!(lsns.len(), POSTS);
        let conn = match database.engine() {
            Engine::Sqlite => {
                let conn = database.connect_sqlite();
                conn.execute_batch(
                    "pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = 10000;
                     pragma secure_delete = on; pragma foreign_keys = on; pragma mmap_size = 0;
                     pragma temp_store = memory; pragma cache_size = -65536;",
                )
                .expect("settings");
                BareInsert::Sqlite(conn)
            }
            Engine::Postgres => runtime.block_on(async {
                let client = database.connect().await;
                let insert = client.prepare(INSERT).await.expect("a statement");
                BareInsert::Postgres(client, insert)
            }),
        };
        Self { conn, lsns }
    }

    /// Inserts the items of a round.
    fn insert(&mut self, runtime: &Runtime) {
        for lsn in &self.lsns {
            let rows = match &self.conn {
                BareInsert::Sqlite(conn) => {
                    let mut insert = conn.prepare_cached(INSERT).expect("a statement");
                    u64::try_from(insert.execute([lsn]).expect("new rows")).expect("a number of rows")
                }
                BareInsert::Postgres(client, insert) => {
                    runtime.block_on(client.execute(insert, &[lsn])).expect("new rows")
                }
            };
            assert_eq!(rows, MEMBERS as u64);
        }
    }
}
