//! The hooks of a feature, shown by one that is not built in.
//!
//! They are a guard before changes, a projector over events, and a condition before a thread changes its
//! state.

use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_core::capability::Capability::WorkspaceWrite;
use svc_core::id::{ChannelId, ThreadId, WorkspaceId};
use svc_core::op::{Condition, Feature, GuardedCall, Operation, Read, UnmetRequirement, Write, write};
use svc_core::{Engine, Error, EventKind, EventPayload, RecordedEvent, Result, Subject};
use svc_tests::database::engines;
use svc_tests::{Setup, World, text};

/// A bell was rung.
#[derive(Serialize, JsonSchema)]
struct BellRung {
    /// Number of echoes.
    echoes: i64,
}

impl EventPayload for BellRung {
    const KIND: &'static str = "BellRung";

    fn replay(_: &svc_core::ReplayedEvent<'_>) -> svc_core::Result<()> {
        Ok(())
    }
}

/// Events were projected in a workspace.
#[derive(Serialize, JsonSchema)]
struct BellHeard {
    /// The kinds that were projected together.
    kinds: Vec<String>,
    /// The workspace of those events.
    workspace_id: WorkspaceId,
    /// The position of the first of them.
    first: i64,
}

impl EventPayload for BellHeard {
    const KIND: &'static str = "BellHeard";

    fn replay(_: &svc_core::ReplayedEvent<'_>) -> svc_core::Result<()> {
        Ok(())
    }
}

/// Rings twice.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RingBell {
    /// The channel to ring in.
    channel_id: ChannelId,
}

svc_core::without_requests! { RingBell }

svc_tests::keeps_nothing!(RingBell => Value);

fn ring_bell(cx: &mut Write<'_>, input: &RingBell) -> Result<Value> {
    cx.emit(Subject::channel(input.channel_id), &BellRung { echoes: 1 })?;
    cx.emit(Subject::channel(input.channel_id), &BellRung { echoes: 0 })?;
    Ok(json!({}))
}

/// Rejects bells in private channels.
fn keep_quiet(cx: &Read<'_>, operation: &Operation, call: &GuardedCall) -> Result<()> {
    let Some(channel) = call.id::<ChannelId>("channel_id") else { return Ok(()) };
    let found: Option<(bool,)> = cx.one("select private from channels where id = $1", &[&channel])?;
    if operation.name() == "ring_bell" && found == Some((true,)) {
        return Err(Error::not_found("bell"));
    }
    Ok(())
}

fn project(cx: &mut Write<'_>, events: &[RecordedEvent]) -> Result<()> {
    let first = events.first().ok_or_else(|| Error::internal("called for nothing"))?;
    assert!(
        events.iter().all(|event| event.workspace_id == cx.caller().workspace_id && event.at == cx.now())
    );
    let kinds = events.iter().map(|event| event.kind.to_owned()).collect();
    cx.emit(first.subject, &BellHeard { kinds, workspace_id: first.workspace_id, first: first.lsn })?;
    Ok(())
}

/// Returns a reason if a thread is not named after the bell.
fn unnamed(cx: &Read<'_>, thread: ThreadId) -> Result<Vec<UnmetRequirement>> {
    let named: Option<(i64,)> =
        cx.one("select cast(1 as bigint) from threads where id = $1 and title like '%bell%'", &[&thread])?;
    let unmet = UnmetRequirement {
        detail: "its title does not name the bell".to_owned(),
        ids: vec![thread.to_string()],
    };
    Ok(if named.is_some() { Vec::new() } else { vec![unmet] })
}

fn features() -> Vec<Feature> {
    let operation = write("ring_bell", ring_bell)
        .title("Ring a bell")
        .post("/channels/{channel_id}/bell")
        .needs(&[WorkspaceWrite])
        .example(|w| json!({"channel_id": w.id("channel")}));
    let bell = Feature::new()
        .operations("bells", vec![operation])
        .events(vec![EventKind::of::<BellRung>(), EventKind::of::<BellHeard>()])
        .guard(keep_quiet)
        .projector(&[BellRung::KIND, "WorkspaceCreated"], project)
        .condition(Condition { name: "bell", action: "close", unmet: unnamed })
        .condition(Condition { name: "bell", action: "start_review", unmet: unnamed });
    vec![bell]
}

fn on_each_engine(test: impl Fn(&World)) {
    for engine in engines() {
        test(&World::with(engine, Setup { features, ..Setup::default() }));
    }
}

#[test]
fn a_guard_sees_the_ids_of_a_call_and_rejects_it() {
    on_each_engine(|world| {
        let private = json!({"channel_id": world.id("private_channel")});
        let public = json!({"channel_id": world.id("channel")});
        let operation = world.operation("ring_bell");
        let admin = Some(&*world.people.admin);
        let before = world.lsn();
        world.rest().call(admin, operation, &private).refused(404, "not-found");
        world.mcp().call(admin, operation, &private).refused(404, "not-found");
        assert_eq!(world.lsn(), before, "a rejected change leaves no event");
        world.rest().call(admin, operation, &public).output();
        world.mcp().call(admin, operation, &public).output();
        let thread = json!({"channel_id": world.id("private_channel"), "title": "t"});
        world.admin("create_thread", thread);
    });
}

fn projected(world: &World, workspace: &str) -> Vec<Value> {
    let workspace = world.database.id(workspace.parse::<uuid::Uuid>().unwrap());
    let sql = format!(
        "select payload from events where workspace_id = {workspace} and kind = 'BellHeard' order by lsn"
    );
    world
        .database
        .rows(&sql)
        .iter()
        .map(|row| serde_json::from_str(row[0].as_str().unwrap()).unwrap())
        .collect()
}

#[test]
fn a_projector_gets_the_events_of_its_kinds_by_workspace() {
    on_each_engine(|world| {
        let before = world.lsn();
        world.admin("ring_bell", json!({"channel_id": world.id("channel")}));
        world.admin("update_workspace", json!({"workspace_id": world.id("workspace"), "name": "Bells"}));
        let kinds = ["BellRung", "BellRung", "BellHeard", "WorkspaceUpdated"];
        assert_eq!(world.kinds_after(before), kinds);
        let found = projected(world, &world.id("workspace").to_string());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["kinds"], json!(["BellRung", "BellRung"]));
        assert_eq!(found[0]["first"], json!(before + 1));

        // One job changes two logs: the instance's and the new workspace's.
        let made = world.admin("create_workspace", json!({"name": "Tower", "admin_handle": "quasimodo"}));
        for workspace in [text(&made["workspace"]["id"]), WorkspaceId::INSTANCE.to_string()] {
            let found = projected(world, &workspace);
            assert_eq!(found.len(), 1, "{workspace}");
            assert_eq!(found[0]["workspace_id"], json!(workspace));
            assert_eq!(found[0]["$chain"]["workspace_id"], json!(workspace));
            assert_eq!(found[0]["kinds"], json!(["WorkspaceCreated"]));
        }
    });
}

#[test]
fn a_condition_is_checked_before_a_thread_moves_and_in_its_next_actions() {
    on_each_engine(|world| {
        let channel = world.id("channel").to_string();
        let parent = world.new_thread(&channel, "cast a gong");
        let child = world.admin("create_child_thread", json!({"thread_id": parent, "title": "cast a bell"}));
        let go = |thread: &Value, action: &str| {
            let input = json!({"thread_id": thread, "action": action});
            world.call(&world.people.admin, "transition_thread", input)
        };
        let parent = json!(parent);
        let child = child["id"].clone();
        let refused = go(&parent, "close").refused(409, "close-refused");
        let wanted = json!([
            {"condition": "children", "detail": "a child thread is not closed", "ids": [child]},
            {"condition": "bell", "detail": "its title does not name the bell", "ids": [parent]},
        ]);
        assert_eq!(refused["reasons"], wanted);
        let refused = go(&parent, "start_review").refused(409, "wrong-state");
        assert_eq!(refused["reasons"][0]["condition"], "bell");
        let possible = |thread: &Value| {
            world.admin("get_thread_context", json!({"thread_id": thread}))["fsm"]["transitions"].clone()
        };
        assert_eq!(possible(&parent), json!([]));
        assert_eq!(possible(&child), json!(["start_review", "close"]));
        go(&child, "close").output();
        go(&parent, "close").refused(409, "close-refused");
        world.admin("cancel_thread", json!({"thread_id": parent, "reason": "around every condition"}));
        let refused = go(&child, "reopen").refused(409, "wrong-state");
        assert_eq!(refused["reasons"][0]["condition"], "parent");
    });
}

/// Number of evaluations of a condition.
static ASKED: AtomicUsize = AtomicUsize::new(0);

#[test]
fn the_context_of_a_thread_asks_a_condition_of_its_close_once() {
    fn counted(_: &Read<'_>, _: ThreadId) -> Result<Vec<UnmetRequirement>> {
        ASKED.fetch_add(1, Ordering::SeqCst);
        Ok(Vec::new())
    }
    fn features() -> Vec<Feature> {
        vec![Feature::new().condition(Condition { name: "counted", action: "close", unmet: counted })]
    }
    for engine in engines() {
        let world = World::with(engine, Setup { features, ..Setup::default() });
        let thread = world.new_thread(&world.id("channel").to_string(), "cast a gong");
        let before = ASKED.load(Ordering::SeqCst);
        let context = world.admin("get_thread_context", json!({"thread_id": thread}));
        assert!(context["fsm"]["transitions"].as_array().unwrap().contains(&json!("close")), "{context:#}");
        assert_eq!(ASKED.load(Ordering::SeqCst) - before, 1);
    }
}

#[test]
fn a_table_with_a_hook_that_cannot_work_is_rejected() {
    let built = |feature: Feature| svc_core::op::Table::build(vec![feature]).map(|_| ());
    let unknown = Feature::new().projector(&["NoSuchKind"], project);
    assert!(built(unknown).is_err(), "a projector of a kind that nobody emits");
    let condition = Condition { name: "bell", action: "close", unmet: unnamed };
    assert!(built(Feature::new().condition(condition)).is_ok());
    assert!(built(Feature::new().condition(condition).condition(condition)).is_err(), "two of one name");
}

#[test]
fn an_event_of_no_feature_is_not_emitted() {
    fn strays() -> Vec<Feature> {
        let operation = write("ring_bell", ring_bell)
            .title("Ring a bell")
            .post("/channels/{channel_id}/bell")
            .needs(&[WorkspaceWrite])
            .example(|w| json!({"channel_id": w.id("channel")}));
        vec![Feature::new().operations("bells", vec![operation])]
    }
    let world = World::with(Engine::Sqlite, Setup { features: strays, ..Setup::default() });
    let input = json!({"channel_id": world.id("channel")});
    world.call(&world.people.admin, "ring_bell", input).refused(500, "internal");
}
