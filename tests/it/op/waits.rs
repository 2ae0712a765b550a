//! Waits: they return when their event has come, end empty at their timeout, and show nothing hidden.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::capability::Capability;
use svc_core::op::{Feature, Read, Request, RequestHandle, Surface, read};
use svc_core::{Code, Engine, Result, limits};
use svc_tests::client::Answer;
use svc_tests::client::ws::{Received, Ws, first_frame};
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::{Setup, World, on_both_engines, runtime, text};

/// Waits on a separate thread, runs `meanwhile`, and returns the outcome of the wait.
pub fn wait_while(
    world: &World,
    token: &str,
    operation: &str,
    input: Value,
    meanwhile: impl FnOnce(),
) -> Answer {
    std::thread::scope(|scope| {
        let before = world.service.parked_waits();
        let waiting = scope.spawn(|| world.call(token, operation, input));
        until("the wait", || world.service.parked_waits() > before || waiting.is_finished());
        assert!(!waiting.is_finished(), "{operation} had nothing to wait for");
        meanwhile();
        waiting.join().unwrap()
    })
}

#[test]
fn the_awaited_event_ends_the_wait() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let workspace = world.id("workspace");
        let channel = world.new_channel("queue");
        let ready = json!({"workspace_id": workspace, "channel_id": channel});
        let mut thread = String::new();
        let found = wait_while(world, agent, "wait_for_ready", ready.clone(), || {
            thread = world.new_thread(&channel, "at last");
        });
        assert_eq!(found.output()["thread_id"], thread);
        let found = world.call(agent, "wait_for_ready", ready).output();
        assert_eq!(found["thread_id"], thread, "a past event is returned at once");

        let claim = world.agent("claim_thread", json!({"thread_id": thread}));
        let result = json!({"thread_id": thread});
        let set = wait_while(world, &world.people.reader, "wait_for_result", result, || {
            let input =
                json!({"thread_id": thread, "claim_lease_id": claim["claim_lease_id"], "result": {"n": 1}});
            world.agent("set_thread_result", input);
        });
        assert_eq!(set.output()["result"], json!({"n": 1}));

        let from = world.lsn();
        let event = json!({"workspace_id": workspace, "after_id": from, "kind": "MessagePosted"});
        let seen = wait_while(world, agent, "wait_for_event", event, || {
            world.new_thread(&channel, "not a message");
            world.agent("post_message", json!({"thread_id": thread, "body": "hello"}));
        });
        assert_eq!(seen.output()["items"][0]["kind"], "MessagePosted");
    });
}

#[test]
fn a_wait_that_times_out_says_so() {
    on_both_engines(|world| {
        let channel = world.new_channel("empty");
        let input =
            json!({"workspace_id": world.id("workspace"), "channel_id": channel, "timeout_secs": 300});
        let over = wait_while(world, &world.people.agent, "wait_for_ready", input, || {
            world.clock.advance(Duration::from_secs(299));
            assert_eq!(world.service.parked_waits(), 1, "its timeout has not passed yet");
            world.clock.advance(Duration::from_secs(1));
        });
        assert_eq!(over.output(), json!({"timed_out": true}));
    });
}

#[test]
fn a_member_that_lost_access_meanwhile_receives_nothing() {
    on_both_engines(|world| {
        let token = text(
            &world
                .call(&world.people.agent, "attenuate_token", json!({"capabilities": ["workspace:read"]}))
                .output()["secret"],
        );
        let me = world.call(&token, "whoami", json!({})).output();
        let channel = world.new_channel("queue");
        let input = json!({"workspace_id": world.id("workspace"), "channel_id": channel, "timeout_secs": 5});
        let refused = wait_while(world, &token, "wait_for_ready", input, || {
            world.admin("revoke_token", json!({"token_id": me["token_id"]}));
            world.new_thread(&channel, "not for you");
        });
        refused.refused(401, "unauthenticated");

        let private = json!({"workspace_id": world.id("workspace"), "name": "den", "private": true});
        let den = text(&world.admin("create_channel", private)["id"]);
        let agent = world.id("agent");
        world.admin("add_channel_member", json!({"channel_id": den, "member_id": agent}));
        let input = json!({"workspace_id": world.id("workspace"), "channel_id": den, "timeout_secs": 1});
        let hidden = wait_while(world, &world.people.agent, "wait_for_ready", input, || {
            world.admin("remove_channel_member", json!({"channel_id": den, "member_id": agent}));
            world.new_thread(&den, "behind the door");
        });
        let problem = hidden.body.to_string();
        assert!(hidden.status == 404 || problem.contains("timed_out"), "{problem}");
    });
}

/// Waits that were submitted at once; their outcomes come with their number.
struct WaitCrowd {
    tickets: Vec<RequestHandle>,
    sender: Sender<(usize, Result<String>)>,
    receiver: Receiver<(usize, Result<String>)>,
}

impl WaitCrowd {
    fn new() -> Self {
        let (sender, receiver) = channel();
        Self { tickets: Vec::new(), sender, receiver }
    }

    /// Submits `count` waits of agents, up to its share for each agent.
    fn gather(world: &World, count: usize, operation: &str, input: &Value) -> Self {
        let agents: Vec<String> = (0..count.div_ceil(limits::WAITS_PER_CLIENT_MAX))
            .map(|number| world.new_agent(&format!("waiting-{number}")).1)
            .collect();
        let mut crowd = Self::new();
        (0..count).for_each(|number| crowd.add_of(world, &agents[number % agents.len()], operation, input));
        crowd
    }

    /// Adds a wait of the agent.
    fn add(&mut self, world: &World, operation: &str, input: &Value) {
        self.add_of(world, &world.people.agent, operation, input);
    }

    /// Adds a wait of the bearer of `token`.
    fn add_of(&mut self, world: &World, token: &str, operation: &str, input: &Value) {
        let credential = Some(SecretString::from(token));
        let request = Request::json(Surface::Rest, credential, input.to_string());
        let number = self.tickets.len();
        let sender = self.sender.clone();
        let ticket =
            world.service.submit(world.service.operation(operation).unwrap(), request, move |outcome| {
                let body = outcome.and_then(|reply| reply.body());
                // The test may be over.
                let _ = sender.send((number, body.map(|bytes| String::from_utf8(bytes).unwrap())));
            });
        self.tickets.push(ticket);
    }

    /// Returns the next outcome, which must be a success.
    fn next(&self) -> (usize, Value) {
        let (number, outcome) = self.receiver.recv_timeout(Duration::from_secs(60)).unwrap();
        (number, serde_json::from_str(&outcome.unwrap()).unwrap())
    }

    /// Returns the next outcome after the clock has jumped: a poll that was queued then has been queued for
    /// too long, so polling continues only when some more time has passed.
    fn next_after_jump(&self, world: &World) -> Result<String> {
        let mut next = None;
        until("the next outcome", || {
            next = self.receiver.recv_timeout(Duration::from_secs(1)).ok();
            if next.is_none() {
                world.clock.advance(Duration::from_millis(100));
            }
            next.is_some()
        });
        next.unwrap().1
    }

    fn is_silent(&self) -> bool {
        self.receiver.try_recv().is_err()
    }
}

const CROWD: usize = 12_000;

#[test]
fn one_new_thread_wakes_one_of_thousands_of_waits() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let ready = json!({"workspace_id": world.id("workspace"), "channel_id": channel,
            "timeout_secs": 300});
        let begun = world.clock.now();
        let crowd = WaitCrowd::gather(world, CROWD, "wait_for_ready", &ready);
        until("all waits are parked", || world.service.parked_waits() == CROWD);
        // Reads are served while all waits are parked.
        world.agent("whoami", json!({}));

        let before = world.service.wait_counts();
        let thread = world.new_thread(&channel, "for one of you");
        let (first, found) = crowd.next();
        assert_eq!((first, &found["thread_id"]), (0, &json!(thread)), "the wait that came first");
        let claim = world.agent("claim_thread", json!({"thread_id": thread}));
        world.clock.advance(Duration::from_secs(1));
        until("the queue is done", || world.service.parked_waits() == CROWD - 1);
        let after = world.service.wait_counts();
        println!(
            "{} waits, one new thread, {:?}: {} polled in {} transactions",
            CROWD,
            world.engine(),
            after.asked - before.asked,
            after.rounds - before.rounds
        );
        assert_eq!(after.asked - before.asked, 1);
        assert!(crowd.is_silent());

        // It is released, and not claimed: after a second the next wait is polled, and so on.
        let lease = &claim["claim_lease_id"];
        world.agent("release_claim", json!({"thread_id": thread, "claim_lease_id": lease}));
        assert_eq!(crowd.next().0, 1);
        let mut number = 2;
        for _ in 0..3 {
            until("the next one", || {
                world.clock.advance(Duration::from_millis(250));
                match crowd.receiver.try_recv() {
                    Ok((found, outcome)) => {
                        assert_eq!(found, number, "in the order in which they came");
                        assert!(outcome.is_ok());
                        number += 1;
                        true
                    }
                    Err(_) => false,
                }
            });
        }
        world.agent("claim_thread", json!({"thread_id": thread}));

        let passed = world.clock.now().since(begun);
        world.clock.advance(Duration::from_secs(300) - passed);
        let mut late = 0;
        for _ in number..CROWD {
            let outcome = crowd.next_after_jump(world).unwrap();
            late += usize::from(outcome == r#"{"timed_out":true}"#);
        }
        // A wait that was being polled when the thread was claimed may still have returned it: one in each
        // second until then.
        let returned = CROWD - number - late;
        assert!(
            returned <= 1 + usize::try_from(passed.as_secs()).unwrap(),
            "{returned} more returned in {passed:?}"
        );
        assert_eq!(world.service.parked_waits(), 0);
    });
}

#[test]
fn only_a_client_with_too_many_waits_is_rejected() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let less = json!({"capabilities": ["workspace:read", "event:subscribe"]});
        let derived = text(&world.agent("attenuate_token", less)["secret"]);
        let [admin, agent] = ["admin", "agent"].map(|sample| world.id(sample).to_string());
        let grant = world.new_grant(&admin, &agent, &["workspace:read", "event:subscribe"]);
        let lent = world.exchange(&world.people.agent, &grant);
        let event = json!({"workspace_id": workspace, "after_id": world.lsn(), "timeout_secs": 300});
        let mut crowd = WaitCrowd::new();
        (0..limits::WAITS_PER_CLIENT_MAX).for_each(|_| crowd.add(world, "wait_for_event", &event));
        until("all waits are parked", || world.service.parked_waits() == limits::WAITS_PER_CLIENT_MAX);
        for token in [&world.people.agent, &derived, &lent] {
            crowd.add_of(world, token, "wait_for_event", &event);
            let (_, outcome) = crowd.receiver.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(outcome.unwrap_err().code(), Code::Overloaded);
        }
        let decisions = json!({"workspace_id": workspace, "action": "authorization.decision"});
        let decisions = world.admin("list_audit", decisions)["items"].clone();
        assert_eq!(decisions.as_array().unwrap().len(), 1, "the delegate's wait is recorded, though refused");
        assert_eq!(decisions[0]["metadata"]["problem"], "overloaded");
        let before = world.service.parked_waits();
        crowd.add_of(world, &world.people.admin, "wait_for_event", &event);
        until("another one waits", || world.service.parked_waits() == before + 1);
        // Cancelling one frees its slot.
        drop(crowd.tickets.swap_remove(0));
        crowd.add(world, "wait_for_event", &event);
        until("it waits", || world.service.parked_waits() == before + 1);
        assert!(crowd.is_silent());
    });
}

#[test]
fn waits_for_the_same_event_are_polled_together() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let wanted = json!({"workspace_id": world.id("workspace"), "after_id": world.lsn(),
            "channel_id": channel, "kind": "ThreadCreated", "timeout_secs": 300});
        let crowd = WaitCrowd::gather(world, 5000, "wait_for_event", &wanted);
        until("all waits are parked", || world.service.parked_waits() == 5000);
        let before = world.service.wait_counts();
        world.new_thread(&channel, "for all of you");
        (0..5000).for_each(|_| assert_eq!(crowd.next().1["items"][0]["kind"], "ThreadCreated"));
        let after = world.service.wait_counts();
        assert_eq!(after.asked - before.asked, 5000);
        let rounds = after.rounds - before.rounds;
        println!("5000 waits for one event, {:?}: polled in {rounds} transactions", world.engine());
        assert!(rounds < 500, "{rounds} transactions");
    });
}

#[test]
fn readiness_reports_that_the_thread_which_wakes_waits_hangs() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let world = &World::open(Engine::Postgres);
    let fault = || {
        let parts = runtime().block_on(world.service.health());
        parts.into_iter().find(|part| part.name == "bus").unwrap().fault
    };
    let workspace = world.id("workspace");
    let lsn = world.lsn();
    let event = json!({"workspace_id": workspace, "after_id": lsn, "kind": "Nothing", "timeout_secs": 300});
    let ended = wait_while(world, &world.people.agent, "wait_for_event", event, || {
        let holder = runtime().block_on(world.database.connect());
        let lock = "begin; lock table events in access exclusive mode";
        runtime().block_on(holder.batch_execute(lock)).unwrap();
        world.database.execute(&format!("select pg_notify('svc_log', '{workspace}:{}')", lsn + 1));
        let blocked = "select count(*) from pg_stat_activity
                       where datname = current_database() and wait_event_type = 'Lock'
                           and query like '%from events%'";
        until("it waits for the lock", || world.database.number(blocked) == 1);
        assert_eq!(fault(), None);
        world.clock.advance(Duration::from_secs(11));
        assert!(fault().is_some_and(|fault| fault.contains("is stuck")));
        runtime().block_on(holder.batch_execute("commit")).unwrap();
        until("it goes on", || fault().is_none());
        world.clock.advance(Duration::from_secs(289));
    });
    assert_eq!(ended.output()["timed_out"], true);
}

/// Blocks a reader until the gate opens.
#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct HoldReader {}

svc_core::without_requests! { HoldReader }

/// An empty output.
#[derive(serde::Serialize, schemars::JsonSchema)]
struct Held {}

/// The number of blocked readers, and whether they may continue.
static GATE: (Mutex<(usize, bool)>, Condvar) = (Mutex::new((0, true)), Condvar::new());

fn hold_reader(_: &Read<'_>, _: &HoldReader) -> svc_core::Result<Held> {
    let mut gate = GATE.0.lock().unwrap();
    gate.0 += 1;
    GATE.1.notify_all();
    let mut gate = GATE.1.wait_while(gate, |(_, open)| !*open).unwrap();
    gate.0 -= 1;
    Ok(Held {})
}

fn holding() -> Vec<Feature> {
    let operation = read("hold_reader", hold_reader)
        .title("Hold a reader")
        .get("/hold")
        .needs(&[Capability::WorkspaceRead])
        .example(|_| json!({}));
    vec![Feature::new().operations("holding", vec![operation])]
}

/// Releases the readers, also when the test fails, because closing the service waits for them.
struct ReleasedReaders;

impl Drop for ReleasedReaders {
    fn drop(&mut self) {
        GATE.0.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        GATE.1.notify_all();
    }
}

/// Runs `meanwhile` while the database returns no read, and returns when all readers are free again.
fn while_silent(world: &World, meanwhile: impl FnOnce(&mut WaitCrowd)) {
    // One test at a time uses the gate.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    GATE.0.lock().unwrap().1 = false;
    let gate = ReleasedReaders;
    let is_local = world.engine() == Engine::Sqlite;
    let readers = if is_local { limits::READERS } else { limits::POSTGRES_READERS };
    let mut held = WaitCrowd::new();
    let made = world.admin("create_workspace", json!({"name": "Third", "admin_handle": "third"}));
    let tokens = [&world.people.agent, &world.people.outsider, &text(&made["token"]["secret"])];
    for number in 0..readers {
        // A workspace takes half of them, and not the last one.
        let taken_by = usize::from(number >= readers.div_ceil(2)) + usize::from(number + 1 == readers);
        held.add_of(world, tokens[taken_by], "hold_reader", &json!({}));
        let count = GATE.0.lock().unwrap();
        drop(GATE.1.wait_while(count, |(count, _)| *count <= number).unwrap());
    }
    meanwhile(&mut held);
    drop(gate);
    held.tickets.iter().for_each(|_| drop(held.receiver.recv_timeout(Duration::from_secs(60)).unwrap()));
}

#[test]
fn waits_outlive_a_full_queue_and_end_on_time_whatever_the_database_does() {
    for engine in engines() {
        let world = &World::with(engine, Setup { features: holding, ..Setup::default() });
        let channel = world.new_channel("queue");
        let ready = json!({"workspace_id": world.id("workspace"), "channel_id": channel,
            "timeout_secs": 30});
        let mut crowd = WaitCrowd::new();
        crowd.add(world, "wait_for_ready", &ready);
        until("it waits", || world.service.parked_waits() == 1);
        while_silent(world, |held| {
            // The queue is full, so the wait cannot be polled: it keeps its place.
            (0..limits::READS_QUEUED_MAX).for_each(|_| held.add(world, "hold_reader", &json!({})));
            let queued = &mut WaitCrowd::new();
            queued.add(world, "hold_reader", &json!({}));
            assert!(queued.receiver.recv().unwrap().1.is_err(), "the queue is full");
            world.new_thread(&channel, "for you");
        });
        until("it is polled again", || {
            world.clock.advance(Duration::from_millis(100));
            world.service.parked_waits() == 0
        });
        let (_, found) = crowd.next();
        assert_eq!(found["ready"], true);

        let event = json!({"workspace_id": world.id("workspace"), "after_id": world.lsn(),
            "kind": "MemberCreated", "timeout_secs": 30});
        crowd.add(world, "wait_for_event", &event);
        until("it waits", || world.service.parked_waits() == 1);
        while_silent(world, |_| {
            world.clock.advance(Duration::from_secs(30));
            assert!(crowd.is_silent(), "the last query is on its way");
            world.clock.advance(Duration::from_secs(2));
            let (_, outcome) = crowd.receiver.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(outcome.unwrap_err().code(), Code::Unavailable);
        });
    }
}

#[test]
fn a_subscription_outlives_a_silent_database_and_a_new_one_is_closed() {
    for engine in engines() {
        let world = &World::with(engine, Setup { features: holding, ..Setup::default() });
        let first = first_frame(&world.people.agent, world.id("workspace"), None);
        let mut begun = Ws::subscribe(world.address(), &first);
        begun.frame();
        while_silent(world, |_| {
            let received = std::thread::scope(|scope| {
                let new = scope.spawn(|| Ws::subscribe(world.address(), &first).receive());
                until("the new one is closed", || {
                    world.clock.advance(Duration::from_millis(100));
                    new.is_finished()
                });
                new.join().unwrap()
            });
            assert_eq!(received, Received::Closed(1013));
            // The other wait checks its credential, and reads remote commits.
            world.clock.advance(Duration::from_secs(20));
        });
        world.admin("post_message", json!({"thread_id": world.id("thread"), "body": "still there?"}));
        assert_eq!(begun.frame()["lsn"], world.lsn());
    }
}

#[test]
fn the_input_of_a_wait_is_small() {
    on_both_engines(|world| {
        let rest = world.rest();
        let token = &world.people.agent;
        let arguments = json!({"workspace_id": world.id("workspace"), "after_id": 0, "timeout_secs": 300});
        let wait = |more: usize| {
            let params =
                json!({"name": "wait_for_event", "arguments": arguments, "_meta": {"m": "m".repeat(more)}});
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        };
        let post = |message: &Value| rest.send(Some(token), "POST", "/mcp", &[], Some(message));
        let path = format!("/workspaces/{}/wait/event?after_id=0", world.id("workspace"));
        rest.send(Some(token), "GET", &path, &[], Some(&json!("m".repeat(4096))))
            .refused(413, "body-too-large");
        post(&wait(4096)).refused(413, "body-too-large");
        assert!(post(&wait(3000)).output()["result"]["structuredContent"].is_object());
        let answers = post(&json!([wait(4096), wait(3000)])).output();
        let problem = text(&answers[0]["error"]["data"]["type"]);
        assert!(problem.ends_with("body-too-large"), "{answers}");
        assert!(answers[1]["result"]["structuredContent"].is_object(), "{answers}");
        let ping =
            json!({"jsonrpc": "2.0", "id": 2, "method": "ping", "params": {"m": "m".repeat(64 << 10)}});
        post(&json!([ping, wait(0)])).refused(413, "body-too-large");
        assert_eq!(post(&json!([ping])).status, 200);
        // A caller without a live token is rejected for that first.
        rest.send(Some("svc_unknown"), "POST", "/mcp", &[], Some(&wait(4096)))
            .refused(401, "unauthenticated");
        let mut large = arguments.clone();
        large["kind"] = json!("k".repeat(4096));
        let large = json!({"name": "wait_for_event", "arguments": large});
        let refused = world.stdio(token).request("tools/call", large);
        let problem = text(&refused["result"]["_meta"]["svc/problem"]["type"]);
        assert!(problem.ends_with("body-too-large"), "{refused}");
        assert_eq!(world.service.parked_waits(), 0);
    });
}
