//! Chores: periodic work, done by one process at a time.
//!
//! Another process takes over soon after that one ends. A failure in one workspace does not affect the
//! others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Service;
use svc_core::op::{Chore, ChoreProcesses, Feature, StepOutcome};
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::site::Site;
use svc_tests::{Setup, World, on_both_engines, text};

/// Creates a thread of the workspace whose claim lapses in `secs` seconds.
fn lapsing(world: &World, secs: i64) -> String {
    let thread = world.new_thread(&world.id("channel").to_string(), "soon over");
    world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": secs}));
    thread
}

/// Returns whether the thread's row has a holder, lapsed or not.
fn is_held(world: &World, thread: &str) -> bool {
    let thread = world.database.id(thread.parse::<uuid::Uuid>().unwrap());
    let sql = format!("select count(*) from threads where id = {thread} and assignee_id is not null");
    world.database.number(&sql) == 1
}

fn housekeep(service: &Service) {
    service.housekeep().unwrap_or_else(|error| panic!("{error}: {:?}", error.cause()));
}

#[test]
fn a_leader_is_alone_and_replaced_at_once_when_it_shuts_down() {
    on_both_engines(|world| {
        let leader = world.another_service(7);
        let first = lapsing(world, 1);
        let second = lapsing(world, 4);
        world.clock.advance(Duration::from_secs(2));
        housekeep(&leader);
        assert!(!is_held(world, &first) && is_held(world, &second));
        world.clock.advance(Duration::from_secs(3));
        housekeep(&world.service);
        assert!(is_held(world, &second), "another process holds the lease");
        // The last handle is dropped inside a runtime, which must not block on a database.
        tokio::runtime::Runtime::new().unwrap().block_on(async move { drop(leader) });
        housekeep(&world.service);
        assert!(!is_held(world, &second), "it released its lease");
    });
}

#[test]
fn a_server_that_shuts_down_releases_its_leases() {
    for engine in engines() {
        let site = Site::found(engine);
        let mut server = site.serve(&[("SVC_CLAIM_REAP_TICK_SECS", "1")]);
        let admin = server.caller(&site.founders.admin);
        let workspace = &site.founders.workspace_id;
        let channel = admin.post(&format!("/workspaces/{workspace}/channels"), json!({"name": "c"}));
        let threads = format!("/channels/{}/threads", text(&channel["id"]));
        let thread = text(&admin.post(&threads, json!({"title": "soon over"}))["id"]);
        admin.post(&format!("/threads/{thread}/claim"), json!({"lease_secs": 1}));
        let expired =
            format!("/workspaces/{workspace}/wait/event?after_id=0&kind=ClaimExpired&timeout_secs=60");
        assert_eq!(text(&admin.get(&expired)["items"][0]["kind"]), "ClaimExpired");
        let leases = || site.database.number("select count(*) from leases where name = 'reaper'");
        assert_eq!(leases(), 1);
        server.running.end();
        assert_eq!(leases(), 0, "on {}", engine.name());
    }
}

/// Puts another holder into the lease row of the reaper, as a killed process leaves it.
fn leave_lease(world: &World, span: Duration) {
    let until = world.clock.now().plus(span).micros();
    let holder = world.database.id(uuid::Uuid::from_u128(99));
    world.database.execute(&format!(
        "delete from leases; insert into leases (name, holder, until) values ('reaper', {holder}, {until})"
    ));
}

#[test]
fn a_killed_leader_is_replaced_within_two_ticks() {
    on_both_engines(|world| {
        let thread = lapsing(world, 1);
        world.clock.advance(Duration::from_secs(2));
        leave_lease(world, Duration::from_secs(10));
        housekeep(&world.service);
        assert!(is_held(world, &thread));
        world.pass(Duration::from_secs(10));
        assert!(!is_held(world, &thread));
    });
}

#[test]
fn a_lease_that_ends_in_the_far_future_is_ignored() {
    on_both_engines(|world| {
        for span in [Duration::from_secs(12), Duration::from_secs(86_400)] {
            let thread = lapsing(world, 1);
            world.clock.advance(Duration::from_secs(2));
            leave_lease(world, span);
            housekeep(&world.service);
            assert!(!is_held(world, &thread), "{span:?}");
        }
    });
}

/// Copies the row of a claimed thread `count` times.
///
/// The copies have different positions after the thread's, and claims until `until`.
pub fn copy_claim(world: &World, thread: &str, count: i64, until: i64) {
    let columns =
        "workspace_id, channel_id, depth, title, state, priority, skill_set, blocked, has_result, assignee_id,
        claim_lease_id, claimed_at, worked_micros, created_at";
    world.database.execute(&format!(
        "insert into threads (id, {columns}, assignment_expires_at, lsn)
             with recursive n (n) as (select 1 union all select n + 1 from n where n < {count})
             select {}, {columns}, {until}, lsn + n from threads cross join n where id = {}",
        world.database.any_id(),
        world.database.id(thread.parse::<uuid::Uuid>().unwrap())
    ));
}

/// Creates a workspace whose log cannot be extended, with `count` claims that lapsed before any other.
fn broken_workspace(world: &World, count: i64) {
    let made = world.admin("create_workspace", json!({"name": "Broken", "admin_handle": "eve"}));
    let workspace = text(&made["workspace"]["id"]);
    let token = text(&made["token"]["secret"]);
    let ask = |operation: &str, input: Value| world.call(&token, operation, input).output();
    let channel = ask("create_channel", json!({"workspace_id": workspace, "name": "c"}))["id"].clone();
    let thread = text(&ask("create_thread", json!({"channel_id": channel, "title": "t"}))["id"]);
    ask("claim_thread", json!({"thread_id": thread, "lease_secs": 1}));
    copy_claim(world, &thread, count, 1);
    let workspace = world.database.id(workspace.parse::<uuid::Uuid>().unwrap());
    world.database.execute(&format!("update heads set lsn = 1 where workspace_id = {workspace}"));
}

#[test]
fn a_workspace_that_fails_stops_the_reaper_for_no_other() {
    on_both_engines(|world| {
        // More than a step processes.
        broken_workspace(world, 1200);
        let thread = lapsing(world, 1);
        world.clock.advance(Duration::from_secs(2));
        world.service.housekeep().expect_err("a workspace cannot be reaped, and that is reported");
        assert!(!is_held(world, &thread));
        assert!(world.kinds_after(world.lsn() - 2).contains(&"ClaimExpired".to_owned()));
    });
}

#[test]
fn more_workspaces_that_fail_than_a_tick_handles_stop_the_reaper_for_no_other() {
    on_both_engines(|world| {
        let thread = lapsing(world, 1);
        let row = world.database.id(thread.parse::<uuid::Uuid>().unwrap());
        let id = world.database.any_id();
        let columns =
            "channel_id, depth, title, state, priority, skill_set, blocked, has_result, assignee_id,
            claim_lease_id, claimed_at, worked_micros, created_at";
        // Each is in a separate workspace, which has no log, and lapsed before any other.
        world.database.insert_many(
            svc_core::limits::REAP_MAX + 100,
            &format!(
                "insert into threads (id, workspace_id, {columns}, assignment_expires_at, lsn)
                 select {id}, {id}, {columns}, 1, lsn + i from threads cross join n where id = {row}"
            ),
        );
        world.database.execute(
            "insert into workspaces (id, name, created_at, lsn, state)
             select t.workspace_id, 'Broken', 1, 100000 + row_number() over (order by t.workspace_id), 'live'
             from threads t where not exists (select 1 from workspaces w where w.id = t.workspace_id)",
        );
        world.clock.advance(Duration::from_secs(2));
        world.service.housekeep().expect_err("workspaces cannot be reaped, and that is reported");
        assert!(!is_held(world, &thread));
    });
}

#[test]
fn a_tick_of_the_reaper_ends_no_more_claims_than_it_may() {
    on_both_engines(|world| {
        let most = svc_core::limits::REAP_MAX;
        let thread = lapsing(world, 1);
        copy_claim(world, &thread, most, 1);
        world.clock.advance(Duration::from_secs(2));
        let held = || world.database.number("select count(*) from threads where assignment_expires_at <= 1");
        assert_eq!(held(), most);
        housekeep(&world.service);
        assert!(is_held(world, &thread), "those that lapsed before are ended first");
        assert_eq!(held(), 0);
        housekeep(&world.service);
        assert!(!is_held(world, &thread));
    });
}

static ROUNDS: AtomicUsize = AtomicUsize::new(0);

/// Returns a chore of three steps that writes under its lease, and one that fails.
fn features() -> Vec<Feature> {
    let count = Chore {
        name: "count",
        every: |_| Some(Duration::from_secs(30)),
        lease: Duration::from_secs(3),
        who: ChoreProcesses::OneLeader,
        run: Box::new(|round| {
            let Some(lead) = round.lead()? else { return Ok(StepOutcome::Done) };
            lead.write(svc_core::id::WorkspaceId::INSTANCE, |cx| cx.audit("counted", json!({})))?;
            let rounds = ROUNDS.fetch_add(1, Ordering::SeqCst) + 1;
            Ok(if rounds.is_multiple_of(3) { StepOutcome::Done } else { StepOutcome::More })
        }),
    };
    let fail = Chore {
        name: "fail",
        every: |_| Some(Duration::from_secs(30)),
        lease: Duration::from_secs(3),
        who: ChoreProcesses::EveryProcess,
        run: Box::new(|_| Err(svc_core::Error::not_found("anything"))),
    };
    let off = Chore {
        name: "off",
        every: |_| None,
        lease: Duration::from_secs(3),
        who: ChoreProcesses::EveryProcess,
        run: Box::new(|_| Ok(StepOutcome::Done)),
    };
    vec![Feature::new().chore(fail).chore(count).chore(off)]
}

#[test]
fn a_chore_of_a_feature_runs_by_the_clock_until_all_its_steps_are_done() {
    for engine in engines() {
        let world = World::with(engine, Setup { features, ..Setup::default() });
        let counted = || world.database.number("select count(*) from audit where action = 'counted'");
        let before = counted();
        for rounds in 1..=3 {
            until("the chore has run", || {
                world.clock.advance(Duration::from_secs(30));
                counted() >= before + 3 * rounds
            });
        }
    }
}

#[test]
fn chores_are_checked_like_all_of_the_table() {
    let chore = |name, secs| Chore {
        name,
        every: |_| None,
        lease: Duration::from_secs(secs),
        who: ChoreProcesses::OneLeader,
        run: Box::new(|_| Ok(StepOutcome::Done)),
    };
    let built = |chores: Vec<Chore>| {
        let feature = chores.into_iter().fold(Feature::new(), Feature::chore);
        svc_core::op::Table::build(vec![feature]).map(|_| ()).is_ok()
    };
    assert!(built(vec![chore("a", 15), chore("b", 1)]));
    assert!(!built(vec![chore("a", 15), chore("a", 1)]), "two of one name would share a lease");
    assert!(!built(vec![chore("a", 16)]), "work would stop for too long");
}
