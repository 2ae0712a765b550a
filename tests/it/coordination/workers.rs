//! Workers: every member that claimed a thread, received it or set its result stays on record.

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::database::{TestDatabase, engines};
use svc_tests::{World, on_both_engines, text};

use crate::coordination::budgets::{claim, limited, with};

/// The workers of a thread, in the order in which they began.
fn workers(world: &World, thread: &str) -> Vec<String> {
    let thread = world.database.id(thread.parse::<uuid::Uuid>().unwrap());
    let sql =
        format!("select member_id from thread_workers where thread_id = {thread} order by lsn, member_id");
    world
        .database
        .rows(&sql)
        .iter()
        .map(|row| uuid::Uuid::parse_str(&text(&row[0])).unwrap().to_string())
        .collect()
}

#[test]
fn claimers_receivers_and_authors_of_results_are_workers() {
    on_both_engines(|world| {
        let (agent, admin) = (world.id("agent").to_string(), world.id("admin").to_string());
        let (third, token) = world.new_agent("third");
        let channel = world.new_channel("workshop");
        let thread = world.new_thread(&channel, "build");
        let about = |more: Value| {
            let mut input = json!({"thread_id": thread});
            input.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            input
        };
        assert_eq!(workers(world, &thread), [""; 0], "opening a thread makes no worker");
        world.agent("claim_thread", about(json!({})));
        assert_eq!(workers(world, &thread), std::slice::from_ref(&agent));
        world.agent("hand_off_claim", about(json!({"to_member_id": third})));
        assert_eq!(workers(world, &thread), [agent.clone(), third.clone()]);
        world.call(&token, "set_thread_result", about(json!({"result": {}}))).output();
        world.admin("transition_thread", about(json!({"action": "close"})));
        assert_eq!(
            workers(world, &thread),
            [agent.clone(), third.clone()],
            "closing a thread makes no worker"
        );
        world.admin("transition_thread", about(json!({"action": "reopen"})));
        world.agent("claim_next_thread", json!({"channel_id": channel}));
        assert_eq!(workers(world, &thread), [agent.clone(), third.clone()], "a second claim adds no worker");
        let lease = world.admin("get_thread", about(json!({})))["claim_lease_id"].clone();
        world.agent("release_claim", about(json!({"claim_lease_id": lease})));
        world.admin("claim_thread", about(json!({})));
        assert_eq!(workers(world, &thread), [agent, third, admin]);
    });
}

/// A member, and a token by which it acts for the agent.
fn delegate_of_the_agent(world: &World) -> (String, String) {
    let (delegate, token) = world.new_agent("delegate");
    let work = ["workspace:read", "thread:transition"];
    let lent = world.exchange(&token, &world.new_grant(&world.id("agent").to_string(), &delegate, &work));
    (delegate, lent)
}

#[test]
fn a_delegate_is_a_worker_beside_the_member_it_acts_for() {
    on_both_engines(|world| {
        let (delegate, token) = delegate_of_the_agent(world);
        let mut both = [world.id("agent").to_string(), delegate];
        both.sort();
        let thread = world.new_thread(&world.id("channel").to_string(), "errand");
        world.call(&token, "claim_thread", json!({"thread_id": thread})).output();
        assert_eq!(workers(world, &thread), both);

        // A renewal counts even if nothing is left to add to the lease.
        let thread = limited(world, &world.id("channel").to_string(), json!({"max_wall_secs": 60}));
        let lease = claim(world, &thread, 60);
        let until = world.agent("get_claim", with(&thread, json!({})))["lease_expires_at"].clone();
        let renewal = with(&thread, json!({"claim_lease_id": lease, "lease_secs": 600}));
        for _ in 0..2 {
            let renewed = world.call(&token, "renew_claim", renewal.clone()).output();
            assert_eq!(renewed["lease_expires_at"], until);
        }
        let mut found = workers(world, &thread);
        found.sort();
        assert_eq!(found, both);
        let lsn = world.lsn();
        world.call(&token, "renew_claim", renewal).output();
        assert_eq!(world.lsn(), lsn, "recorded once");
    });
}

/// Workers from before they were recorded are found in the log and in the results.
#[test]
fn earlier_workers_are_found_on_postgres() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let database = TestDatabase::postgres();
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("migrations/postgres");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (before, after): (Vec<_>, Vec<_>) =
        files.iter().partition(|file| file.file_name().unwrap().to_str().unwrap() < "0005");
    let run = |files: &[&std::path::PathBuf]| {
        files.iter().for_each(|file| database.execute(&std::fs::read_to_string(file).unwrap()));
    };
    run(&before);
    let id = |n: u128| database.id(uuid::Uuid::from_u128(n));
    let [workspace, channel, thread, a, b, c] = [1, 2, 3, 10, 11, 12].map(id);
    database.execute(&format!(
        "insert into workspaces (id, name, created_at, lsn) values ({workspace}, 'w', 0, 1);
         insert into members (id, workspace_id, handle, kind, created_at, lsn) values
             ({a}, {workspace}, 'a', 'agent', 0, 1), ({b}, {workspace}, 'b', 'agent', 0, 2),
             ({c}, {workspace}, 'c', 'agent', 0, 3);
         insert into channels (id, workspace_id, name, private, created_at, lsn)
             values ({channel}, {workspace}, 'c', false, 0, 4);
         insert into threads (id, workspace_id, channel_id, depth,
             title, state, priority, skill_set, blocked, settled,
             worked_micros, created_at, lsn)
             values ({thread}, {workspace}, {channel}, 1, 't', 'open', 0, 1, 0, false, 0, 0, 5);
         insert into events (workspace_id, lsn, kind, at, thread_id,
             member_id, prev_hash, content_hash, payload) values
             ({workspace}, 5, 'ThreadCreated', 0, {thread}, {c}, '', '', ''),
             ({workspace}, 6, 'ThreadAssignmentChanged', 0, {thread}, {a}, '', '', ''),
             ({workspace}, 7, 'ThreadAssignmentChanged', 0, {thread}, {a}, '', '', '');
         insert into results (thread_id, lsn, workspace_id, result, produced_by, produced_at) values
             ({thread}, 8, {workspace}, '{{}}', {a}, 0), ({thread}, 9, {workspace}, '{{}}', {b}, 0);
         insert into skill_sets (workspace_id, id, skills) values
             ({workspace}, 1, ''), ({workspace}, 2, 'go,rust')"
    ));
    run(&after);
    let found = database.rows("select member_id, lsn from thread_workers order by lsn");
    let hex = |n: u128| uuid::Uuid::from_u128(n).simple().to_string();
    assert_eq!(json!(found), json!([[hex(10), 6], [hex(11), 9]]));
    let hash = database.rows("select hash from skill_sets where id = 2");
    let wanted = svc_core::hash::sha256(b"go,rust");
    assert_eq!(hash[0][0], json!(hex::encode(wanted)));
}
