//! Contention: many callers and processes that compete for the same tasks.
//!
//! One of them claims each task, and no task is left over. Processes on one database share the work and see
//! each other's events. A member that has lost a claim can no longer change anything under it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::client::Answer;
use svc_tests::client::agent::Agent;
use svc_tests::client::kept::KeptConnection;
use svc_tests::database::{TestDatabase, engines};
use svc_tests::process::until;
use svc_tests::site::{Caller, Server, Site};
use svc_tests::witness::{self, ClockHistory, assert_kept};
use svc_tests::{World, answer_of, call, in_parallel, on_both_engines, runtime};
use tokio::task::JoinSet;

const TASKS: usize = 1000;
const CLAIMERS: usize = 64;

/// Returns the threads of a channel that can be claimed now.
fn ready(database: &TestDatabase, channel: &str) -> BTreeSet<String> {
    let channel = database.id(channel.parse::<uuid::Uuid>().unwrap());
    let rows = database.rows(&format!("select thread_id from ready where channel_id = {channel}"));
    rows.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect()
}

fn id_of(thread: &Value) -> Option<String> {
    thread["id"].as_str().map(|id| id.replace('-', ""))
}

/// Checks that every task was claimed exactly once.
#[track_caller]
fn check_claimed(claimed: Vec<String>, wanted: &BTreeSet<String>) {
    let distinct: BTreeSet<String> = claimed.iter().cloned().collect();
    assert_eq!(claimed.len(), distinct.len(), "a task was claimed twice");
    let left: Vec<&String> = wanted.difference(&distinct).collect();
    assert!(left.is_empty(), "{} tasks are left, such as {}", left.len(), left[0]);
    assert_eq!(&distinct, wanted);
}

/// Claims until no task is left.
fn claim_all(world: &World, token: &str, channel: &str) -> Vec<String> {
    let next = json!({"channel_id": channel});
    let claim = || id_of(&world.call(token, "claim_next_thread", next.clone()).output());
    std::iter::from_fn(claim).collect()
}

#[test]
fn many_claimers_in_one_service_get_each_task_once() {
    on_both_engines(|world| {
        let tokens: Vec<String> =
            (0..CLAIMERS).map(|number| world.new_agent(&format!("claimer-{number}")).1).collect();
        let channel = world.new_channel("contended");
        std::thread::scope(|scope| {
            for part in 0..CLAIMERS {
                let titles = (part..TASKS).step_by(CLAIMERS).map(|number| format!("task {number}"));
                let channel = &channel;
                scope.spawn(move || titles.for_each(|title| drop(world.new_thread(channel, &title))));
            }
        });
        let wanted = ready(&world.database, &channel);
        assert_eq!(wanted.len(), TASKS);
        let channel = &channel;
        let claimed: Vec<String> = std::thread::scope(|scope| {
            let claimers: Vec<_> =
                tokens.iter().map(|token| scope.spawn(move || claim_all(world, token, channel))).collect();
            claimers.into_iter().flat_map(|claimer| claimer.join().unwrap()).collect()
        });
        check_claimed(claimed, &wanted);
        assert!(ready(&world.database, channel).is_empty());
    });
}

/// Creates tasks through a server, by many callers at once.
async fn make_tasks(address: SocketAddr, token: &str, channel: &str) {
    let target = format!("/channels/{channel}/threads");
    let mut makers = JoinSet::new();
    for part in 0..CLAIMERS {
        let mut kept = KeptConnection::open(address, token).await.unwrap();
        let target = target.clone();
        makers.spawn(async move {
            for number in (part..TASKS).step_by(CLAIMERS) {
                let made = kept.post(&target, &json!({"title": format!("task {number}")})).await.unwrap();
                assert_eq!(made.0, 201, "{}", made.1);
            }
        });
    }
    makers.join_all().await;
}

/// Claims from one server until no task is left.
async fn claim_from(mut kept: KeptConnection, target: String) -> Vec<String> {
    let mut claimed = Vec::new();
    loop {
        let (status, answer) = kept.post(&target, &json!({})).await.unwrap();
        assert_eq!(status, 200, "{answer}");
        match id_of(&answer) {
            Some(id) => claimed.push(id),
            None => return claimed,
        }
    }
}

/// Returns the threads that each of two servers has granted, to half of the claimers each, which begin
/// together.
async fn race(servers: [SocketAddr; 2], token: &str, workspace_id: &str) -> [Vec<String>; 2] {
    let target = format!("/workspaces/{workspace_id}/claim-next");
    let mut lines = Vec::new();
    for number in 0..CLAIMERS {
        lines.push((number % 2, KeptConnection::open(servers[number % 2], token).await.unwrap()));
    }
    let mut claimers = JoinSet::new();
    for (server, kept) in lines {
        let claiming = claim_from(kept, target.clone());
        claimers.spawn(async move { (server, claiming.await) });
    }
    let mut claimed = [Vec::new(), Vec::new()];
    for (server, ids) in claimers.join_all().await {
        claimed[server].extend(ids);
    }
    claimed
}

fn new_channel(admin: Caller<'_>, site: &Site, name: &str) -> String {
    let channels = format!("/workspaces/{}/channels", site.founders.workspace_id);
    admin.post(&channels, json!({"name": name}))["id"].as_str().unwrap().to_owned()
}

#[test]
fn two_servers_on_one_database_share_the_tasks() {
    for engine in engines() {
        let site = Site::found(engine);
        let servers = [site.serve(&[]), site.serve(&[])];
        let token = &site.founders.admin;
        let channel = new_channel(servers[0].caller(token), &site, "tasks");
        runtime().block_on(make_tasks(servers[0].address(), token, &channel));
        let wanted = ready(&site.database, &channel);
        assert_eq!(wanted.len(), TASKS);
        let addresses = [servers[0].address(), servers[1].address()];
        let claimed = runtime().block_on(race(addresses, token, &site.founders.workspace_id));
        for share in &claimed {
            let share = share.len();
            let engine = engine.name();
            assert!(share * 5 >= TASKS, "one of two servers gave out {share} of {TASKS} on {engine}");
        }
        check_claimed(claimed.concat(), &wanted);
        assert!(ready(&site.database, &channel).is_empty());
    }
}

/// Tasks with footprints: fewer, because most wait for others.
const FOOTPRINTS: usize = 96;

/// Returns the footprint of the task with this number. Many conflict, and some need a slot.
fn footprint(number: usize) -> Value {
    let path = json!({"kind": "path", "value": format!("src/{}", number % 11)});
    let items = match number % 4 {
        0 => json!([path]),
        1 => json!([{"kind": "glob", "value": format!("src/{}*", number % 3)}]),
        2 => json!([path, {"kind": "slot", "value": "gpu"}]),
        _ => json!([{"kind": "slot", "value": "GPU"}]),
    };
    let mode = if number.is_multiple_of(5) { "shared" } else { "exclusive" };
    json!({"repo": "acme/app", "mode": mode, "items": items})
}

/// Claims from a server and finishes its claims, until all created tasks are done.
fn work_off(caller: Caller<'_>, workspace_id: &str, done: &AtomicUsize) {
    let mut turn = 0;
    while done.load(Ordering::SeqCst) < FOOTPRINTS {
        let claimed = caller.post(&format!("/workspaces/{workspace_id}/claim-next"), json!({}));
        let Some(id) = claimed["id"].as_str() else {
            let wait = format!("/workspaces/{workspace_id}/wait/ready?timeout_secs=1");
            let waited = caller.ask("GET", &wait, None);
            // A busy machine may not reach the last poll in time.
            assert!([200, 503].contains(&waited.status), "{:#}", waited.body);
            continue;
        };
        let lease = &claimed["claim_lease_id"];
        turn += 1;
        if turn % 4 == 0 {
            caller.post(&format!("/threads/{id}/claim/release"), json!({"claim_lease_id": lease}));
        } else {
            let result = json!({"claim_lease_id": lease, "result": {"done": true}});
            caller.put(&format!("/threads/{id}/result"), result);
            done.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Changes capacities and pauses whenever a task is done.
fn obstruct(caller: Caller<'_>, workspace_id: &str, done: &AtomicUsize) {
    let workspace = format!("/workspaces/{workspace_id}");
    let mut seen = 0;
    while seen < FOOTPRINTS {
        until("more is done", || done.load(Ordering::SeqCst) > seen);
        seen = done.load(Ordering::SeqCst);
        caller.put(&format!("{workspace}/slots"), json!({"slot": "gpu", "capacity": 1 + seen % 3}));
        caller.put(&format!("{workspace}/repo-pauses"), json!({"repo": "acme/app"}));
        let resumed = caller.ask("DELETE", &format!("{workspace}/repo-pauses?repo=acme/app"), None);
        assert!(resumed.is_success(), "{:#}", resumed.body);
    }
}

#[test]
fn claims_of_two_servers_keep_footprints_slots_and_pauses() {
    for engine in engines() {
        let site = Site::found(engine);
        let servers = [site.serve(&[]), site.serve(&[])];
        let token = &site.founders.admin;
        let workspace_id = &site.founders.workspace_id;
        let admin = servers[0].caller(token);
        let channel = new_channel(admin, &site, "tasks");
        for number in 0..FOOTPRINTS {
            let task = json!({"title": format!("task {number}"), "footprint": footprint(number)});
            admin.post(&format!("/channels/{channel}/threads"), task);
        }
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let done = &done;
            for number in 0..12 {
                let caller = servers[number % 2].caller(token);
                scope.spawn(move || work_off(caller, workspace_id, done));
            }
            scope.spawn(move || obstruct(admin, workspace_id, done));
        });
        let events = witness::events(&site.open(), token, workspace_id, 0);
        let claims = u64::try_from(FOOTPRINTS).unwrap();
        assert_kept(engine.name(), &events, ClockHistory::Steady, claims);
    }
}

#[test]
fn a_wait_in_one_process_wakes_at_a_commit_in_the_other() {
    for engine in engines() {
        let site = Site::found(engine);
        let server = site.serve(&[]);
        let admin = server.caller(&site.founders.admin);
        let channel = new_channel(admin, &site, "news");
        let workspace_id = &site.founders.workspace_id;
        let mut agent = Agent::start(&site, &site.founders.agent);
        for round in 0..10 {
            let known = agent.call("list_events", json!({"workspace_id": workspace_id, "kind": "Nothing"}));
            let wait = json!({"workspace_id": workspace_id, "after_id": known["room_lsn"], "timeout_secs": 60,
                              "kind": "ThreadCreated"});
            let wait = agent.ask("wait_for_event", wait);
            // A call that returns after the wait was sent finds the wait in place, or nearly so.
            admin.get(&format!("/channels/{channel}"));
            let title = format!("news {round}");
            admin.post(&format!("/channels/{channel}/threads"), json!({"title": title}));
            let received = agent.answer(wait);
            assert_eq!(
                received["items"][0]["payload"]["title"],
                json!(title),
                "{}: {received:#}",
                engine.name()
            );
        }
        let (mcp, http) = wait_at_the_server(&mut agent, &server, &site, &channel);
        assert_eq!(mcp, http, "{}", engine.name());
    }
}

/// Waits at the server for a message of the agent over standard input and output.
///
/// Returns the message that it posted, and the one that the wait returned.
fn wait_at_the_server(agent: &mut Agent, server: &Server, site: &Site, channel: &str) -> (Value, Value) {
    let admin = server.caller(&site.founders.admin);
    let thread = admin.post(&format!("/channels/{channel}/threads"), json!({"title": "Answer"}));
    let target = format!(
        "/workspaces/{}/wait/event?after_id={}&kind=MessagePosted&timeout_secs=60",
        site.founders.workspace_id, thread["lsn"]
    );
    let address = server.address();
    let token = site.founders.admin.clone();
    let waiting = runtime().spawn(async move {
        let mut kept = KeptConnection::open(address, &token).await.unwrap();
        kept.get(&target).await.unwrap()
    });
    let posted = agent.call("post_message", json!({"thread_id": thread["id"], "body": "here I am"}));
    let (status, received) = runtime().block_on(waiting).unwrap();
    assert_eq!(status, 200, "{received}");
    (posted["id"].clone(), received["items"][0]["payload"]["message_id"].clone())
}

/// Returns every change of a thread by its holder, under the named lease.
fn holders_writes(thread: &str, lease: &Value, to: &str) -> Vec<(&'static str, String, Value)> {
    let claim = |write: &str| format!("/threads/{thread}/claim/{write}");
    vec![
        ("POST", claim("acknowledge"), json!({"claim_lease_id": lease})),
        ("POST", claim("renew"), json!({"claim_lease_id": lease, "lease_secs": 600})),
        ("POST", claim("release"), json!({"claim_lease_id": lease})),
        ("POST", claim("hand-off"), json!({"claim_lease_id": lease, "to_member_id": to})),
        (
            "PUT",
            format!("/threads/{thread}/result"),
            json!({"claim_lease_id": lease, "result": {"late": true}}),
        ),
        ("POST", format!("/threads/{thread}"), json!({"claim_lease_id": lease, "action": "start_review"})),
    ]
}

/// Returns a thread, and the end of its workspace's log.
fn state(caller: Caller<'_>, thread: &str) -> (Value, Option<i64>) {
    let Answer { body, headers, status } = caller.ask("GET", &format!("/threads/{thread}"), None);
    assert_eq!(status, 200, "{body:#}");
    let lsn = headers.get("svc-room-lsn").and_then(|lsn| lsn.to_str().ok()?.parse().ok());
    (body, lsn)
}

#[test]
fn a_holder_whose_lease_has_lapsed_changes_nothing() {
    for engine in engines() {
        lapsed(&Site::found(engine));
    }
}

fn lapsed(site: &Site) {
    let server = site.serve(&[("SVC_CLAIM_REAP_TICK_SECS", "1")]);
    let admin = server.caller(&site.founders.admin);
    let agent = server.caller(&site.founders.agent);
    let channel = new_channel(admin, site, "leases");
    let made = admin.post(&format!("/channels/{channel}/threads"), json!({"title": "Be slow"}));
    let thread = made["id"].as_str().unwrap();
    let claimed = agent.post(&format!("/threads/{thread}/claim"), json!({"lease_secs": 1}));
    let lease = &claimed["claim_lease_id"];
    let expired = admin.get(&format!(
        "/workspaces/{}/wait/event?after_id={}&kind=ClaimExpired&thread_id={thread}&timeout_secs=60",
        site.founders.workspace_id, made["lsn"]
    ));
    assert_eq!(&expired["items"][0]["payload"]["claim_lease_id"], lease, "{expired:#}");

    let refused = |why: &str| {
        let before = state(admin, thread);
        assert!(before.1.is_some());
        for (method, target, body) in holders_writes(thread, lease, &site.founders.admin_id) {
            let answer = agent.ask(method, &target, Some(&body));
            assert_eq!(
                (answer.status, answer.code()),
                (409, "stale-claim"),
                "{why}, {target}: {:#}",
                answer.body
            );
        }
        assert_eq!(state(admin, thread), before, "{why}");
    };
    refused("the lease has lapsed");
    let again = admin.post(&format!("/threads/{thread}/claim"), json!({}));
    assert_ne!(&again["claim_lease_id"], lease);
    refused("another member has claimed the thread");
    let mine = agent.post(&format!("/channels/{channel}/threads"), json!({"title": "Still allowed"}));
    assert_eq!(mine["title"], json!("Still allowed"), "on {}", Engine::name(site.engine()));
}

#[test]
fn a_process_has_at_most_seventeen_connections_to_postgres() {
    for engine in engines().into_iter().filter(|engine| *engine == Engine::Postgres) {
        let world = World::open(engine);
        let count = "select count(*) from pg_stat_activity
                     where datname = current_database() and application_name = 'svc'";
        let workspace = json!({"workspace_id": world.id("workspace")});
        in_parallel(64, |_| drop(world.admin("list_channels", workspace.clone())));
        let opened = world.database.number(count);
        assert!(opened > 4 && opened <= 17, "{opened}");
    }
}

#[test]
fn a_locked_workspace_delays_no_other() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let world = World::open(Engine::Postgres);
    let others: Vec<(String, String)> = (0..8).map(|number| other_workspace(&world, number)).collect();
    let held = world.database.id(world.id("workspace"));
    let holder = runtime().block_on(world.database.connect());
    let hold = format!("begin; select lsn from heads where workspace_id = {held} for update");
    runtime().block_on(holder.batch_execute(&hold)).unwrap();
    let channel = |workspace: &str| json!({"workspace_id": workspace, "name": "meanwhile"});
    std::thread::scope(|scope| {
        let own = world.id("workspace").to_string();
        let world = &world;
        let channel = &channel;
        let waiting = scope.spawn(move || world.call(&world.people.admin, "create_channel", channel(&own)));
        for round in 0..5 {
            for (workspace, token) in &others {
                let made = world.call(token, "create_channel", channel(workspace));
                assert_eq!(made.status, 201, "round {round}: {:#}", made.body);
            }
        }
        assert!(!waiting.is_finished(), "its head is locked");
        runtime().block_on(holder.batch_execute("rollback")).unwrap();
        let made = waiting.join().unwrap();
        assert_eq!(made.status, 201, "{:#}", made.body);
    });
}

/// Returns another workspace, and a token of its admin.
fn other_workspace(world: &World, number: usize) -> (String, String) {
    let made =
        world.admin("create_workspace", json!({"name": format!("Team {number}"), "admin_handle": "eve"}));
    (svc_tests::text(&made["workspace"]["id"]), svc_tests::text(&made["token"]["secret"]))
}

#[test]
fn workspaces_that_two_servers_create_at_once_do_not_deadlock() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let world = World::open(Engine::Postgres);
    let servers = [world.another_service(11), world.another_service(12)];
    let workspace = world.id("workspace");
    let World { service, people, database, .. } = world;
    drop(service);
    in_parallel(8, |caller| {
        for number in 0..8 {
            let ask = |operation: &str, input: Value| {
                answer_of(call(&servers[caller % 2], Some(&people.admin), operation, &input)).output();
            };
            let name = format!("made-{caller}-{number}");
            ask("create_workspace", json!({"name": name, "admin_handle": "eve"}));
            ask("create_channel", json!({"workspace_id": workspace, "name": name}));
        }
    });
    drop(servers);
    // Sessions report their statistics when they end.
    let sessions = "select count(*) from pg_stat_activity where datname = current_database()
        and application_name = 'svc'";
    until("all sessions have ended", || database.number(sessions) == 0);
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    assert_eq!(database.number(deadlocks), 0);
}
