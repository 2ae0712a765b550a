//! Consumers of the log: an index inside the service with a durable position, and a writer of a stream that
//! resumes at the position of its last complete event.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::api::WaitForEvent;
use svc_core::id::WorkspaceId;
use svc_core::op::{Chore, ChoreProcesses, ChoreRound, Feature, StepOutcome};
use svc_core::ops::{ConsumedPage, InternalConsumer};
use svc_core::{Error, EventFilter, Result};
use svc_tests::database::engines;
use svc_tests::{Setup, World};

/// An index of the posted messages, which is written in the transactions that move its position.
const INDEX: InternalConsumer = InternalConsumer("test-index");

const ADD: &str = "insert into indexed (lsn) values ($1)";
const CLEAR: &str = "delete from indexed";

/// The workspace that is indexed, if any.
static WORKSPACE: Mutex<Option<WorkspaceId>> = Mutex::new(None);
/// The calls of the index other than those with events.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Number of its next writes that fail.
static FAILS: Mutex<usize> = Mutex::new(0);

fn told(what: String) {
    TOLD.lock().unwrap().push(what);
}

fn index(round: &ChoreRound<'_>) -> Result<StepOutcome> {
    let Some(workspace) = *WORKSPACE.lock().unwrap() else { return Ok(StepOutcome::Done) };
    let filter = EventFilter::on(Some("MessagePosted"));
    let page = round.read(move |cx| INDEX.read(cx, workspace, &filter))?;
    let Some(lead) = round.lead()? else { return Ok(StepOutcome::Done) };
    match page {
        ConsumedPage::Events { from, up_to, .. } if from == up_to => Ok(StepOutcome::Done),
        ConsumedPage::Events { events, from, up_to } => {
            lead.write(workspace, move |cx| {
                for event in &events {
                    cx.execute(1, ADD, &[&event.lsn])?;
                }
                INDEX.advance(cx, from, up_to)?;
                let mut fails = FAILS.lock().unwrap();
                if *fails > 0 {
                    *fails -= 1;
                    return Err(Error::internal("the write fails after all"));
                }
                Ok(())
            })?;
            Ok(StepOutcome::More)
        }
        ConsumedPage::Rebuild(position) => {
            told(format!("rebuild after {}", position.lsn));
            lead.write(workspace, move |cx| {
                cx.execute_any(CLEAR, &[])?;
                INDEX.store_position(cx, position)
            })?;
            Ok(StepOutcome::More)
        }
        ConsumedPage::Broken(broken) => {
            told(format!("broken at {}", broken.lsn));
            Ok(StepOutcome::Done)
        }
    }
}

fn feature() -> Vec<Feature> {
    vec![Feature::new().chore(Chore {
        name: "test-index",
        every: |_| None,
        lease: Duration::from_secs(5),
        who: ChoreProcesses::OneLeader,
        run: Box::new(index),
    })]
}

/// Returns the positions in the index, and those of the messages in the log.
fn indexed(world: &World) -> (Vec<i64>, Vec<i64>) {
    let positions = |sql: &str| -> Vec<i64> {
        world.database.rows(sql).iter().map(|row| row[0].as_i64().unwrap()).collect()
    };
    (
        positions("select lsn from indexed order by lsn"),
        positions("select lsn from events where kind = 'MessagePosted' order by lsn"),
    )
}

fn post(world: &World, count: usize) {
    for _ in 0..count {
        world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "a word"}));
    }
}

#[test]
fn an_index_has_each_event_once_and_is_rebuilt_where_it_cannot_go_on() {
    for engine in engines() {
        let world = World::with(engine, Setup { features: feature, ..Setup::default() });
        world.database.execute("create table indexed (lsn bigint primary key)");
        *WORKSPACE.lock().unwrap() = Some(world.id("workspace").into());
        TOLD.lock().unwrap().clear();
        let agrees = |what: &str| {
            let (index, log) = indexed(&world);
            assert_eq!(index, log, "{what} on {engine:?}");
        };
        world.service.housekeep().unwrap();
        agrees("from the beginning on");
        post(&world, 5);
        *FAILS.lock().unwrap() = 2;
        for _ in 0..2 {
            world.service.housekeep().expect_err("a transaction that fails keeps nothing");
        }
        world.service.housekeep().unwrap();
        agrees("after failures");
        assert_eq!(*TOLD.lock().unwrap(), Vec::<String>::new());

        // Pruned beyond its position.
        let keep = json!({"workspace_id": world.id("workspace"), "events_days": 1});
        world.admin("set_retention_policy", keep);
        post(&world, 3);
        *WORKSPACE.lock().unwrap() = None;
        world.pass(Duration::from_secs(3 * 86_400));
        post(&world, 2);
        *WORKSPACE.lock().unwrap() = Some(world.id("workspace").into());
        world.service.housekeep().unwrap();
        agrees("after a pruning");
        let floor = world.admin("get_room", json!({"workspace_id": world.id("workspace")}))["floor"].clone();
        let rebuilt = format!("rebuild after {}", floor.as_i64().unwrap() - 1);
        assert_eq!(*TOLD.lock().unwrap(), std::slice::from_ref(&rebuilt));

        // The log is broken: the index stops there, and continues after the repair.
        post(&world, 4);
        let workspace = world.database.id(world.id("workspace"));
        let last = world.lsn();
        let tamper = |from: &str, to: &str| {
            world.database.execute(&format!(
                "update events set payload = replace(payload, '{from}', '{to}')
                 where workspace_id = {workspace} and lsn = {}",
                last - 1
            ));
        };
        tamper("attribution", "attributiom");
        world.service.housekeep().unwrap();
        let (index, log) = indexed(&world);
        assert_eq!(index, log[..log.len() - 2], "what is before the break was read");
        let broken = format!("broken at {}", last - 1);
        assert_eq!(*TOLD.lock().unwrap(), [rebuilt.clone(), broken.clone()]);
        tamper("attributiom", "attribution");
        world.service.housekeep().unwrap();
        agrees("once the log is mended");

        // Another history: the log was cut, and continued differently.
        world.database.execute(&format!(
            "update heads set lsn = {0}, hash = (select content_hash from events
                 where workspace_id = {workspace} and lsn = {0}) where workspace_id = {workspace};
             delete from messages where workspace_id = {workspace} and lsn > {0};
             delete from events where workspace_id = {workspace} and lsn > {0}",
            last - 3
        ));
        let again = World::another_service(&world, 11);
        let token = &world.people.agent;
        let thread = world.id("thread");
        for number in 0..4 {
            let input = json!({"thread_id": thread, "body": format!("another history {number}")});
            svc_tests::answer_of(svc_tests::call(&again, Some(token), "post_message", &input)).output();
        }
        drop(again);
        world.service.housekeep().unwrap();
        agrees("after another history");
        assert_eq!(*TOLD.lock().unwrap(), [rebuilt.clone(), broken, rebuilt]);
    }
}

/// Returns frames as a writer of server-sent events (HTML, section 9.2) formats them.
fn as_stream(frames: &[Value]) -> String {
    frames.iter().map(|frame| format!("id: {}\ndata: {frame}\n\n", frame["lsn"])).collect()
}

/// Returns the position of the last complete event, which `Last-Event-ID` names.
fn last_event_id(received: &str) -> Option<i64> {
    let whole = received.rfind("\n\n").and_then(|end| received.get(..end))?;
    whole.lines().rev().find_map(|line| line.strip_prefix("id: "))?.parse().ok()
}

#[test]
fn a_stream_that_breaks_anywhere_is_resumed_by_the_id_of_its_last_event() {
    use svc_core::ops::{BatchBounds, FrameForm, StartPosition, Subscription};
    for engine in engines() {
        let world = World::open(engine);
        post(&world, 30);
        let mut received = Vec::new();
        let last = world.lsn();
        for cut in [10, 333, 1000, 1777, 4000, 4001, 9000, usize::MAX] {
            let begin = StartPosition::After(received.last().copied().unwrap_or(0));
            let wanted = serde_json::from_value(json!({"workspace_id": world.id("workspace")})).unwrap();
            let subscription =
                Subscription { wanted: Some(wanted), begin, form: FrameForm::Full, consumer: None };
            let head = svc_core::op::RequestHead {
                credential: Some(world.people.admin.clone().into()).into(),
                peer: Some([127, 0, 0, 1].into()),
                surface: svc_core::op::Surface::Rest,
                ..Default::default()
            };
            let mut stream = String::new();
            svc_tests::runtime().block_on(async {
                let admission = world.service.admit_for::<WaitForEvent>(head).await.unwrap();
                let mut subscriber =
                    world.service.subscribe(admission, subscription).await.unwrap().subscriber;
                while stream.len() < cut && subscriber.position() < last {
                    let bounds = BatchBounds { events: 7, bytes: 1 << 20 };
                    let batch = subscriber.next(bounds, Duration::ZERO).await.unwrap();
                    let frames = batch.frames.iter().map(|(_, frame)| serde_json::from_slice(frame).unwrap());
                    stream += &as_stream(&frames.collect::<Vec<Value>>());
                }
            });
            let came = stream.get(..cut.min(stream.len())).unwrap_or_default();
            let until = last_event_id(came).unwrap_or(received.last().copied().unwrap_or(0));
            let begins = received.last().copied().unwrap_or(0);
            received.extend(begins + 1..=until);
        }
        assert_eq!(received, (1..=world.lsn()).collect::<Vec<i64>>());
    }
}
