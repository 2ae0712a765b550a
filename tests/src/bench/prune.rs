//! Posts while 1,000,000 events are pruned, beside the same posts in a workspace of which nothing is.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use svc_core::chain::Link;
use svc_core::time::{Clock, Time};
use svc_core::{Attribution, Engine, Event, OpenMode, Options, RateSettings, Service, Subject};
use tokio::runtime::Runtime;

use super::posts::callers;
use super::stage::{Stage, body};
use super::{Finding, Sample, alternate};
use crate::database::TestDatabase;

const EVENTS: i64 = 1_000_000;
/// Events that are stored with one statement.
const CHUNK: i64 = 500;
const WRITERS: usize = 64;
const SPAN: Duration = Duration::from_millis(1500);
/// How old the events are that are pruned.
const AGE: Duration = Duration::from_secs(10 * 86_400);

/// An old event.
#[derive(Serialize, JsonSchema)]
struct Old {
    number: i64,
    text: &'static str,
}

impl Event for Old {
    const KIND: &'static str = "Old";
}

pub fn run(engine: Engine, pairs: usize, runtime: &Runtime) -> Finding {
    let (database, other) = (TestDatabase::on(engine), TestDatabase::on(engine));
    let alone = Stage::build(&other);
    let stage = with_old_events(&database);
    let kept = json!({"workspace_id": stage.workspace_id, "events_days": 1});
    stage.call("set_retention_policy", kept);
    let workspace = database.id(stage.workspace_id);
    let left = || database.number(&format!("select min(lsn) from events where workspace_id = {workspace}"));
    let floor = || database.number(&format!("select floor from heads where workspace_id = {workspace}"));
    // Pruning is measured from the first event that it removes.
    while floor() == 1 {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    let (begun, before) = (Instant::now(), left());
    let measured = alternate(pairs, || posts(&stage, runtime), || posts(&alone, runtime));
    let removed = left() - before;
    let rate = f64::from(i32::try_from(removed).unwrap_or(i32::MAX)) / begun.elapsed().as_secs_f64();
    Finding {
        name: "prune",
        engine,
        pairs: measured,
        floor_is: "the same posts while nothing is pruned",
        extra: json!({"events": EVENTS, "removed_while_measured": removed, "removed_per_second": rate.round(),
            "was_pruning_to_the_end": left() < floor()}),
    }
}

fn posts(stage: &Stage, runtime: &Runtime) -> Sample {
    let stage = stage.clone();
    callers(runtime, WRITERS, SPAN, move |caller, number| {
        let stage = stage.clone();
        async move {
            let input = json!({"thread_id": stage.thread_id, "body": body(caller * 1_000_000 + number)});
            let _: Value = stage.ask(&stage.token, "post_message", input).await;
        }
    })
}

/// Opens a stage whose log has old events that it is about to prune.
fn with_old_events(database: &TestDatabase) -> Stage {
    let past = Clock::System.now().shifted(-i64::try_from(AGE.as_micros()).expect("a span"));
    let stage = Stage::build_at(database, Clock::mock(past));
    let workspace = stage.workspace_id;
    let head = &database
        .rows(&format!("select lsn, hash, at from heads where workspace_id = {}", database.id(workspace)))[0];
    let (mut lsn, at) = (number(&head[0]), Time::from_micros(number(&head[2])));
    let mut prev_hash: [u8; 32] =
        hex::decode(head[1].as_str().expect("a hash")).expect("hex").try_into().expect("32 bytes");
    for _ in 0..EVENTS / CHUNK {
        let mut rows = Vec::new();
        for _ in 0..CHUNK {
            lsn += 1;
            let link = Link {
                workspace_id: workspace,
                lsn,
                kind: Old::KIND,
                at,
                subject: Subject::WORKSPACE,
                prev_hash,
            };
            let event =
                Old { number: lsn, text: "as long as what usually stands in the payload of an event" };
            let payload = link.payload(&Attribution::default(), &event).expect("a payload");
            let hash = svc_core::hash::sha256(payload.as_bytes());
            rows.push(format!(
                "({}, {lsn}, 'Old', {}, {}, {}, '{payload}')",
                database.id(workspace),
                at.micros(),
                database.bytes(&prev_hash),
                database.bytes(&hash),
            ));
            prev_hash = hash;
        }
        database.execute(&format!(
            "insert into events (workspace_id, lsn, kind, at, prev_hash, content_hash, payload) values {}",
            rows.join(",")
        ));
    }
    database.execute(&format!(
        "update heads set lsn = {lsn}, hash = {} where workspace_id = {}",
        database.bytes(&prev_hash),
        database.id(workspace)
    ));
    reopened(database, stage)
}

fn number(value: &Value) -> i64 {
    value.as_i64().expect("a number")
}

/// The stage in the present, with a service that prunes.
fn reopened(database: &TestDatabase, stage: Stage) -> Stage {
    let Stage { service, token, workspace_id, admin_id, channel_id, thread_id } = stage;
    drop(service);
    let mut options = Options::new(database.address(), [7; 32]);
    options.mode = OpenMode::Existing;
    options.rates = RateSettings { per_client: 0, per_workspace: 0, ..RateSettings::default() };
    options.settings.retention_tick = Some(Duration::from_secs(1));
    let service = Service::open(options).expect("the service opens");
    Stage { service, token, workspace_id, admin_id, channel_id, thread_id }
}
