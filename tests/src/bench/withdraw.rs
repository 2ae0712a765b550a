//! Compares posts from 64 callers while messages are withdrawn one after another with posts alone.
//!
//! The workspace has 1,000,000 messages, and the key segments of 20,000,000. SQL creates the rows of
//! messages: they are never opened, and a withdrawal needs only the key segment. Then one withdrawal is
//! observed until its scrub is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use svc_core::Engine;
use svc_core::entropy::Entropy;
use svc_core::key_tree::{KeyTree, LEAVES};
use svc_core::seal::Sealer;
use tokio::runtime::Runtime;

use super::posts::{callers, poster};
use super::stage::{Stage, body};
use super::{Finding, Sample, alternate, round};
use crate::database::TestDatabase;
use crate::process::until;

const SPAN: Duration = Duration::from_millis(2500);
const CALLERS: usize = 64;
const MESSAGES: usize = 1_000_000;
/// Number of key segments of 20,000,000 messages.
const SHELVES: i64 = 20_000_000 / LEAVES + 1;
/// The first key segment that is created here; the log does not reach it.
const FIRST_SHELF: i64 = 100_000;
/// Step through the messages that jumps between key segments.
const STRIDE: usize = 611_953;

/// A workspace with many messages.
struct WithdrawBench {
    stage: Stage,
    withdrawn: Arc<AtomicUsize>,
    database: TestDatabase,
}

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let field = WithdrawBench::fill(engine);
    let before = field.withdrawn.load(Ordering::Relaxed);
    let measured = alternate(pairs, || field.sample(runtime, true), || field.sample(runtime, false));
    let withdrawn = field.withdrawn.load(Ordering::Relaxed) - before;
    let slowest = |side: fn(&(Sample, Sample)) -> &Sample| {
        let slowest = measured.iter().flat_map(|pair| &side(pair).latencies).max().copied();
        round(slowest.unwrap_or_default().as_secs_f64() * 1000.0)
    };
    let slowest_ours = slowest(|pair| &pair.0);
    let slowest_floor = slowest(|pair| &pair.1);
    let (finished, waited) = field.watch_one(runtime);
    Finding {
        name: "withdraw",
        engine,
        pairs: measured,
        floor_is: "the same posts without withdrawals",
        extra: json!({
            "messages": MESSAGES,
            "shelves": SHELVES,
            "withdrawals_per_second": round(withdrawn as f64 / SPAN.as_secs_f64() / (pairs + 1) as f64),
            "slowest_post_ms": {"ours": slowest_ours, "floor": slowest_floor},
            "one_withdrawal": {"finished_ms": round(finished.as_secs_f64() * 1000.0),
                               "slowest_wait_ms": waited},
        }),
    }
}

impl WithdrawBench {
    fn fill(engine: Engine) -> Self {
        let database = TestDatabase::on(engine);
        let stage = Stage::build(&database);
        let begun = Instant::now();
        make_shelves(&database, &stage);
        make_messages(&database, &stage);
        eprintln!("{MESSAGES} messages, {SHELVES} shelves after {:.0} s", begun.elapsed().as_secs_f64());
        Self { stage, withdrawn: Arc::default(), database }
    }

    /// Posts per second, with or without withdrawals beside them.
    fn sample(&self, runtime: &Runtime, withdrawing: bool) -> Sample {
        let over = Arc::new(AtomicBool::new(!withdrawing));
        let withdrawer = runtime.spawn({
            let stage = self.stage.clone();
            let over = Arc::clone(&over);
            let withdrawn = Arc::clone(&self.withdrawn);
            async move {
                while !over.load(Ordering::Relaxed) {
                    withdraw(&stage, withdrawn.fetch_add(1, Ordering::Relaxed)).await;
                }
            }
        });
        let sample = callers(runtime, CALLERS, SPAN, poster(&self.stage));
        over.store(true, Ordering::Relaxed);
        runtime.block_on(withdrawer).expect("the withdrawals");
        sample
    }

    /// Returns the time until the scrub of a withdrawal is done, and the slowest post or read during it.
    fn watch_one(&self, runtime: &Runtime) -> (Duration, f64) {
        let pending = || self.database.number("select count(*) from scrubs") > 0;
        until("earlier scrubs", || !pending());
        let over = Arc::new(AtomicBool::new(false));
        let watched = runtime.spawn({
            let stage = self.stage.clone();
            let over = Arc::clone(&over);
            async move {
                let mut slowest = Duration::ZERO;
                let mut number = 0;
                while !over.load(Ordering::Relaxed) {
                    number += 1;
                    let begun = Instant::now();
                    let posted = json!({"thread_id": stage.thread_id, "body": body(number)});
                    let posted = stage.ask(&stage.token, "post_message", posted).await;
                    slowest = slowest.max(begun.elapsed());
                    let begun = Instant::now();
                    stage.ask(&stage.token, "get_message", json!({"message_id": posted["id"]})).await;
                    slowest = slowest.max(begun.elapsed());
                }
                slowest
            }
        });
        let begun = Instant::now();
        runtime.block_on(withdraw(&self.stage, self.withdrawn.fetch_add(1, Ordering::Relaxed)));
        until("the scrub", || !pending());
        let finished = begun.elapsed();
        over.store(true, Ordering::Relaxed);
        let slowest = runtime.block_on(watched).expect("the watch");
        (finished, round(slowest.as_secs_f64() * 1000.0))
    }
}

/// Withdraws the n-th message in the order of the stride.
async fn withdraw(stage: &Stage, number: usize) {
    let message = (number * STRIDE) % MESSAGES;
    let id = uuid::Uuid::from_u128(message as u128);
    stage.ask(&stage.token, "delete_message", json!({"message_id": id})).await;
}

fn make_shelves(database: &TestDatabase, stage: &Stage) {
    let entropy = Entropy::System;
    let sealer = Sealer::new([7; 32], &[], entropy.clone());
    let workspace = database.id(stage.workspace_id);
    let row = |shelf: i64| {
        let tree = KeyTree::grow(&entropy).expect("a tree");
        let sealed = sealer.seal_tree(stage.workspace_id, shelf, 1, &tree).expect("a sealed tree");
        format!("({workspace}, {shelf}, 1, {})", database.bytes(&sealed))
    };
    let rows: Vec<String> = (FIRST_SHELF..FIRST_SHELF + SHELVES).map(row).collect();
    for rows in rows.chunks(500) {
        let rows = rows.join(", ");
        database
            .execute(&format!("insert into shelves (workspace_id, shelf, version, sealed) values {rows}"));
    }
}

fn make_messages(database: &TestDatabase, stage: &Stage) {
    let workspace = database.id(stage.workspace_id);
    let channel = database.id(stage.channel_id);
    let thread = database.id(stage.thread_id);
    let author = database.id(stage.admin_id);
    let (numbers, id, sealed, wrapped) = match database.engine() {
        Engine::Sqlite => (
            format!(
                "with recursive numbers (n) as (select 0 union all select n + 1 from numbers
                    where n + 1 < {MESSAGES})"
            ),
            "unhex(printf('%032x', n))",
            "randomblob(380)",
            "randomblob(60)",
        ),
        Engine::Postgres => (
            format!("with numbers (n) as (select generate_series(0, {MESSAGES} - 1))"),
            "cast(lpad(to_hex(n), 32, '0') as uuid)",
            "decode(repeat(md5(cast(n as text)), 24), 'hex')",
            "decode(repeat(md5(cast(-n as text)), 4), 'hex')",
        ),
    };
    let first = FIRST_SHELF * LEAVES;
    database.execute(&format!(
        "{numbers}
         insert into messages (id, workspace_id, channel_id,
             thread_id, author_id, posted_at, edits, sealed, lsn, wrapped)
         select {id}, {workspace}, {channel}, {thread}, {author}, 1, 0, {sealed}, {first} + n, {wrapped}
             from numbers"
    ));
}
