//! Clocks that are wrong: only the times of the log never go back.
//!
//! Leases, expiry and due times follow the clock, and on Postgres that is the database's, for reads as for
//! writes.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::op::Credential;
use svc_core::time::{Clock, Time};
use svc_core::{Engine, Service};
use svc_tests::{Setup, World, on_both_engines, runtime, text};

const DAY: Duration = Duration::from_secs(86_400);

/// Returns the times of the workspace's events, in the log's order.
fn event_times(world: &World) -> Vec<i64> {
    let workspace = world.database.id(world.id("workspace"));
    let sql = format!("select at from events where workspace_id = {workspace} order by lsn");
    world.database.rows(&sql).iter().map(|row| row[0].as_i64().unwrap()).collect()
}

fn token_until(world: &World, until: Time) -> Value {
    json!({"workspace_id": world.id("workspace"), "member_id": world.id("agent"), "label": "short",
        "capabilities": ["workspace:read"], "expires_at": until.to_string()})
}

#[test]
fn a_clock_that_was_ahead_for_a_moment_extends_nothing() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let thread = world.new_thread(&channel, "a task");
        let right = world.clock.now();
        world.clock.set(right.plus(DAY));
        world.new_thread(&channel, "written a day ahead");
        world.clock.set(right);

        let claim = world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": 5}));
        assert_eq!(claim["assignment_expires_at"], json!(right.plus(Duration::from_secs(5))));
        let until = right.plus(Duration::from_secs(30));
        let token = text(&world.admin("mint_token", token_until(world, until))["secret"]);
        world.call(&token, "whoami", json!({})).output();

        world.pass(Duration::from_secs(5));
        let again = world.agent("claim_next_thread", json!({"channel_id": channel}));
        assert_eq!(again["id"], thread, "the lease ended after its 5 seconds");
        world.clock.advance(Duration::from_secs(25));
        world.call(&token, "whoami", json!({})).refused(401, "unauthenticated");

        let times = event_times(world);
        assert!(times.is_sorted(), "the times of the log never go back: {times:?}");
        assert_eq!(*times.last().unwrap(), right.plus(DAY).micros());
        let verified = world.admin("verify_event_chain", json!({"workspace_id": world.id("workspace")}));
        assert_eq!(verified["valid"], true);
    });
}

#[test]
fn a_lapsed_claim_is_shown_as_none_before_the_reaper_runs() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let agent = world.id("agent");
        let channel = world.new_channel("queue");
        let thread = world.new_thread(&channel, "a task");
        world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": 60}));
        let held = json!({"workspace_id": workspace, "assignee_id": agent, "limit": 500});
        let is_held = |world: &World| {
            let list = world.agent("list_workspace_threads", held.clone());
            list["items"].as_array().unwrap().iter().any(|item| item["id"] == thread.as_str())
        };
        let shown = |world: &World| {
            let one = world.agent("get_thread", json!({"thread_id": thread}));
            let context = world.agent("get_thread_context", json!({"thread_id": thread}))["thread"].take();
            let listed = world.agent("list_threads", json!({"channel_id": channel}))["items"][0].take();
            [one, context, listed]
        };
        assert!(is_held(world) && shown(world).iter().all(|thread| !thread["assignee_id"].is_null()));
        world.clock.advance(Duration::from_secs(60));
        assert!(!is_held(world));
        for thread in shown(world) {
            for field in ["assignee_id", "claim_lease_id", "assignment_expires_at", "acknowledged_at"] {
                assert!(thread[field].is_null(), "{field}: {thread:#}");
            }
        }
    });
}

#[test]
fn servers_on_postgres_follow_the_clock_of_the_database() {
    for ahead in [86_400_000_000, -86_400_000_000] {
        if !svc_tests::database::engines().contains(&Engine::Postgres) {
            return;
        }
        let clock = Clock::wrong(ahead);
        let world = World::with(Engine::Postgres, Setup { clock, ..Setup::default() });
        let right = Clock::system().now();
        let until = right.plus(Duration::from_secs(3600));
        let token = text(&world.admin("mint_token", token_until(&world, until))["secret"]);
        world.call(&token, "whoami", json!({})).output();
        let thread = world.new_thread(&world.new_channel("queue"), "a task");
        world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": 600}));
        let claim = world.agent("get_claim", json!({"thread_id": thread}));
        let lapses: Time = serde_json::from_value(claim["lease_expires_at"].clone()).unwrap();
        assert!(lapses.since(right) < Duration::from_secs(900), "{lapses} by a clock {ahead} us ahead");
    }
}

/// Sets the clock that counts: the machine's, or on Postgres the database's.
fn step(world: &World, micros: i64) {
    match world.engine() {
        Engine::Sqlite => world.clock.step(micros),
        Engine::Postgres => world.clock.step_database(micros),
    }
}

/// Returns the report of readiness about the clock, which never makes a server unready.
fn clock_in_health(world: &World) -> String {
    let ready = world.rest().send(None, "GET", "/health", &[], None);
    assert_eq!((ready.status, &ready.body["status"]), (200, &json!("ok")), "{:#}", ready.body);
    let status =
        world.rest().call(Some(&world.people.admin), world.operation("get_operator_status"), &json!({}));
    let status = status.output();
    assert_eq!(
        (&status["phase"], &status["checks"]["clock"]),
        (&json!("serving"), &ready.body["checks"]["clock"])
    );
    text(&ready.body["checks"]["clock"])
}

/// A world with a claim, a token and a session that end within a day, and a message that is pruned.
struct EndingWorld {
    lease: Value,
    token: String,
    session: Credential,
    message: String,
}

impl EndingWorld {
    fn begun(world: &World) -> Self {
        let channel = world.new_channel("queue");
        let thread = world.new_thread(&channel, "a task");
        let claim = world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": 600}));
        let until = world.clock.now().plus(Duration::from_secs(3600));
        let token = text(&world.admin("mint_token", token_until(world, until))["secret"]);
        let session = world.new_session(None);
        let said = world.agent("post_message", json!({"thread_id": thread, "body": "kept for a day"}));
        let message = text(&said["id"]);
        let kept = json!({"workspace_id": world.id("workspace"), "messages_days": 1});
        world.admin("set_retention_policy", kept);
        let lease = json!({"thread_id": thread, "claim_lease_id": claim["claim_lease_id"]});
        Self { lease, token, session: Credential::Session(session), message }
    }

    /// Returns whether each is still live: the claim, the token, the session, and the message.
    fn live(&self, world: &World) -> [bool; 4] {
        world.service.housekeep().unwrap();
        let claim = world.call(&world.people.agent, "renew_claim", self.lease.clone());
        [
            claim.is_success(),
            world.call(&self.token, "whoami", json!({})).is_success(),
            world.call_by(self.session.clone(), "whoami", &json!({})).is_success(),
            world.call(&world.people.agent, "get_message", json!({"message_id": self.message})).is_success(),
        ]
    }
}

const MOMENT: Duration = Duration::from_secs(6);
const TWO_DAYS: i64 = 2 * 86_400_000_000;

#[test]
fn a_clock_that_is_ahead_for_six_seconds_ends_nothing() {
    on_both_engines(|world| {
        let ending = EndingWorld::begun(world);
        assert_eq!((ending.live(world), clock_in_health(world)), ([true; 4], "ok".to_owned()));
        step(world, TWO_DAYS);
        assert_eq!(ending.live(world), [true; 4]);
        let said = clock_in_health(world);
        assert!(said.contains("was set 172800 s ahead, which does not count yet"), "{said}");
        world.clock.advance(MOMENT);
        assert_eq!(ending.live(world), [true; 4]);
        step(world, -TWO_DAYS);
        assert_eq!((ending.live(world), clock_in_health(world)), ([true; 4], "ok".to_owned()));
        world.clock.advance(Duration::from_secs(120));
        assert_eq!((ending.live(world), clock_in_health(world)), ([true; 4], "ok".to_owned()));
    });
}

#[test]
fn a_clock_that_was_set_ahead_counts_after_a_minute() {
    on_both_engines(|world| {
        let ending = EndingWorld::begun(world);
        step(world, TWO_DAYS);
        assert_eq!(ending.live(world), [true; 4]);
        world.clock.advance(Duration::from_secs(59));
        assert_eq!(ending.live(world), [true; 4]);
        world.clock.advance(Duration::from_secs(1));
        assert_eq!((ending.live(world), clock_in_health(world)), ([false; 4], "ok".to_owned()));
    });
}

#[test]
fn a_clock_that_was_set_back_counts_after_a_minute() {
    on_both_engines(|world| {
        let start = world.clock.now();
        let claimed_until = |world: &World| -> Time {
            let thread = world.new_thread(&world.new_channel("queue"), "a task");
            let claim = world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": 300}));
            serde_json::from_value(claim["assignment_expires_at"].clone()).unwrap()
        };
        step(world, -TWO_DAYS);
        assert_eq!(claimed_until(world), start.plus(Duration::from_secs(300)));
        let said = clock_in_health(world);
        assert!(said.contains("was set 172800 s back, which does not count yet"), "{said}");
        world.clock.advance(Duration::from_secs(60));
        world.service.housekeep().unwrap();
        assert_eq!(claimed_until(world), start.plus(Duration::from_secs(360)).shifted(-TWO_DAYS));
        let said = clock_in_health(world);
        assert!(said.contains("which lie in the future"), "{said}");
        assert!(event_times(world).is_sorted());
    });
}

/// Returns the report of a service's readiness about its clock; all other checks must pass.
fn clock_of(service: &Service) -> Option<String> {
    let parts = runtime().block_on(service.health());
    assert!(parts.iter().all(|part| part.fault.is_none()), "{parts:?}");
    parts.into_iter().find(|part| part.name == "clock").unwrap().remark
}

#[test]
fn a_start_before_the_newest_stored_time_is_shown_until_that_has_come() {
    on_both_engines(|world| {
        let now = world.clock.now();
        assert_eq!(clock_of(&world.another_service_by(2, Clock::mock(now))), None);
        let early = Clock::mock(now.before(DAY));
        let service = world.another_service_by(3, early.clone());
        let said = clock_of(&service).unwrap();
        assert!(said.contains("which lie in the future"), "{said}");
        early.advance(DAY);
        assert_eq!(clock_of(&service), None);
    });
}

#[test]
fn a_server_on_postgres_whose_own_machine_is_wrong_ends_nothing_for_others() {
    if !svc_tests::database::engines().contains(&Engine::Postgres) {
        return;
    }
    let world = &World::open(Engine::Postgres);
    let ending = EndingWorld::begun(world);
    let clock = Clock::mock(world.clock.now());
    let other = world.another_service_by(2, clock.clone());
    clock.step(TWO_DAYS);
    for _ in 0..2 {
        other.housekeep().unwrap();
        assert_eq!(ending.live(world), [true; 4]);
        assert!(clock_of(&other).is_none_or(|said| said.contains("the machine's clock was set")));
        [&clock, &world.clock].iter().for_each(|clock| clock.advance(Duration::from_secs(60)));
    }
    // The database's clock counts for both.
    [&clock, &world.clock].iter().for_each(|clock| clock.step_database(TWO_DAYS));
    other.housekeep().unwrap();
    assert_eq!(ending.live(world), [true; 4]);
    [&clock, &world.clock].iter().for_each(|clock| clock.advance(Duration::from_secs(60)));
    other.housekeep().unwrap();
    assert_eq!(ending.live(world), [false; 4]);
}
