//! Compares posts with bare loops that write the same rows.
//!
//! On SQLite: over HTTP with 64 connections, against one bare loop that commits 64 at a time. On Postgres: 64
//! callers in process on one workspace, against one transaction per post on 16 connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use svc_core::Engine;
use tokio::runtime::Runtime;

use super::stage::{Stage, body};
use super::{Finding, Sample, alternate, floor, load};
use crate::database::TestDatabase;
use crate::server::Server;
use svc_http::HttpSettings;

const SPAN: Duration = Duration::from_millis(2500);
const CALLERS: usize = 64;

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    match engine {
        Engine::Sqlite => over_http(pairs, runtime),
        Engine::Postgres => in_process(pairs, runtime),
    }
}

fn over_http(pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::sqlite();
    let stage = Stage::build(&database);
    let copy = database.copy_file("floor.db");
    let server = Server::start(stage.service.clone(), HttpSettings::default());
    let path = format!("/threads/{}/messages", stage.thread_id);
    let token = stage.token.clone();
    let address = server.address();
    let request = move |connection: usize, number: usize| {
        let body = json!({"body": body(connection * 1_000_000 + number)}).to_string();
        post_bytes(&path, &token, &body)
    };
    let before = stage.service.statement_counts();
    let measured = alternate(
        pairs,
        || load::drive(runtime, address, CALLERS, SPAN, request.clone()),
        || floor::sqlite_posts(&stage, &copy, SPAN),
    );
    let after = stage.service.statement_counts();
    let re_prepared = after.re_prepared - before.re_prepared;
    Finding {
        name: "posts",
        engine: Engine::Sqlite,
        pairs: measured,
        floor_is: "the same rows in one bare loop, 64 per commit",
        extra: json!({"statements_re_prepared": re_prepared}),
    }
}

/// Compares posts with an idempotency key each with the same posts without one.
pub fn keyed(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    let server = Server::start(stage.service.clone(), HttpSettings::default());
    let path = format!("/threads/{}/messages", stage.thread_id);
    let token = stage.token.clone();
    let address = server.address();
    // Each post of the benchmark has a different key, in each of its spans.
    let spans = AtomicUsize::new(0);
    let posts = |with_keys: bool| {
        let path = path.clone();
        let token = token.clone();
        let of_span = spans.fetch_add(1, Ordering::Relaxed);
        let request = move |connection: usize, number: usize| {
            let body = json!({"body": body(connection * 1_000_000 + number)}).to_string();
            let key = with_keys.then(|| format!("Idempotency-Key: {of_span}-{connection}-{number}\r\n"));
            post_with(&path, &token, &key.unwrap_or_default(), &body)
        };
        load::drive(runtime, address, CALLERS, SPAN, request)
    };
    let measured = alternate(pairs, || posts(true), || posts(false));
    Finding {
        name: "posts-keyed",
        engine,
        pairs: measured,
        floor_is: "the same posts without keys",
        extra: json!({}),
    }
}

/// Returns the bytes of a POST with a JSON body.
pub fn post_bytes(path: &str, token: &str, body: &str) -> Vec<u8> {
    post_with(path, token, "", body)
}

/// Returns the bytes of a POST with a JSON body and additional lines in its head.
fn post_with(path: &str, token: &str, more: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n{more}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn in_process(pairs: usize, runtime: &Runtime) -> Finding {
    let database = TestDatabase::postgres();
    let other = TestDatabase::postgres();
    let stage = Stage::build(&database);
    let floor_stage = Stage::build(&other);
    let measured = alternate(
        pairs,
        || callers(runtime, CALLERS, SPAN, poster(&stage)),
        || floor::postgres_posts(runtime, &other.url(), &floor_stage, SPAN),
    );
    Finding {
        name: "posts",
        engine: Engine::Postgres,
        pairs: measured,
        floor_is: "one transaction per post on 16 prepared connections",
        extra: json!({}),
    }
}

/// Returns a function that posts another message to the thread of a stage with each call.
pub fn poster(
    stage: &Stage,
) -> impl Fn(usize, usize) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Clone + Send + 'static {
    let stage = stage.clone();
    move |caller, number| {
        let stage = stage.clone();
        Box::pin(async move {
            let input = json!({"thread_id": stage.thread_id, "body": body(caller * 1_000_000 + number)});
            stage.ask(&stage.token, "post_message", input).await;
        })
    }
}

/// Repeats `call` from `callers` tasks for `span`.
pub fn callers<F, C>(runtime: &Runtime, callers: usize, span: Duration, call: F) -> Sample
where
    F: Fn(usize, usize) -> C + Clone + Send + 'static,
    C: Future<Output = ()> + Send,
{
    runtime.block_on(async {
        let begun = Instant::now();
        let mut tasks = Vec::new();
        for caller in 0..callers {
            let call = call.clone();
            tasks.push(tokio::spawn(async move {
                let mut latencies = Vec::new();
                while begun.elapsed() < span {
                    let sent = Instant::now();
                    call(caller, latencies.len()).await;
                    latencies.push(sent.elapsed());
                }
                latencies
            }));
        }
        let mut latencies = Vec::new();
        for task in tasks {
            latencies.extend(task.await.expect("a caller's task"));
        }
        Sample { per_second: latencies.len() as f64 / begun.elapsed().as_secs_f64(), latencies, cpu_us: None }
    })
}
