//! Snapshots: the state of a log, its graph and hash as an independent program computes it, and its signed
//! checkpoint.

use std::time::Duration;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_core::Engine;
use svc_core::signed_note::NoteSigner;
use svc_core::verify::{ExpectedFound, sign_checkpoint, verify_checkpoint};
use svc_tests::database::engines;
use svc_tests::{SIGNS, Setup, World, in_parallel, on_both_engines, text};

const DAY: Duration = Duration::from_secs(86_400);

fn snapshot(world: &World) -> Value {
    world.admin("get_log_snapshot", json!({"workspace_id": world.id("workspace")}))
}

fn with_graph(world: &World) -> Value {
    world.admin("get_log_snapshot", json!({"workspace_id": world.id("workspace"), "include_graph": true}))
}

fn post(world: &World, thread: &str) -> Value {
    world.admin("post_message", json!({"thread_id": thread, "body": "a word"}))["id"].clone()
}

fn post_many(world: &World, count: usize) {
    let thread = world.id("thread").to_string();
    in_parallel(8, |_| (0..count / 8).for_each(|_| drop(post(world, &thread))));
}

/// Returns the hash of a graph by the definition in the manual, without relying on the order of its parts.
fn hash_of(graph: &Value) -> String {
    let sorted = |name: &str, keys: [&str; 3]| -> Vec<Value> {
        let mut items = graph[name].as_array().unwrap().clone();
        let number = |item: &Value, key: &str| item[key].as_i64().unwrap_or(0);
        let key = |item: &Value| keys.map(|key| (number(item, key), item[key].as_str().map(str::to_owned)));
        items.sort_by_key(key);
        items
    };
    // Members are sorted, which is the canonical form for the contents of graphs.
    let graph = json!({
        "nodes": sorted("nodes", ["type", "lsn", "id"]),
        "edges": sorted("edges", ["type", "from", "to"]),
    });
    format!("sha256:{}", hex::encode(Sha256::digest(graph.to_string())))
}

/// Returns the state and the parent of the node with an id.
fn node(snapshot: &Value, id: &Value) -> Option<(String, Value)> {
    let nodes = snapshot["graph"]["nodes"].as_array().unwrap();
    let node = nodes.iter().find(|node| node["id"] == *id)?;
    Some((text(&node["state"]), node["parent_id"].clone()))
}

fn has_edge(snapshot: &Value, kind: &str, from: &Value, to: &Value) -> bool {
    let edges = snapshot["graph"]["edges"].as_array().unwrap();
    edges.contains(&json!({"type": kind, "from": from, "to": to}))
}

#[test]
fn a_stranger_hashes_the_graph_as_the_service_does() {
    on_both_engines(|world| {
        let [workspace, admin, thread] = ["workspace", "admin", "thread"].map(|name| json!(world.id(name)));
        let channel = world.admin("get_thread", json!({"thread_id": thread}))["channel_id"].clone();
        let said = post(world, thread.as_str().unwrap());
        let hidden = post(world, &world.people.private_thread_id.to_string());
        let before = with_graph(world);
        let place = |state: &str, parent: &Value| Some((state.to_owned(), parent.clone()));
        assert_eq!(before["type"], "svc.event-log.snapshot/1");
        assert_eq!(node(&before, &workspace), place("live", &Value::Null));
        assert_eq!(node(&before, &admin), place("active", &workspace));
        assert_eq!(node(&before, &channel), place("active", &workspace));
        assert_eq!(node(&before, &json!(world.id("archived_channel"))), place("archived", &workspace));
        assert_eq!(node(&before, &json!(world.id("withdrawn_message"))).unwrap().0, "withdrawn");
        assert_eq!(node(&before, &hidden), place("posted", &json!(world.people.private_thread_id)));
        assert!(has_edge(&before, "author", &said, &admin));
        let private = json!(world.id("private_channel"));
        assert!(has_edge(&before, "member_of", &json!(world.id("agent")), &private));
        assert_eq!(hash_of(&before["graph"]), before["graph_hash"]);
        // A caller who may not see the graph still gets its hash.
        let input = json!({"workspace_id": workspace});
        let seen = world.call(&world.people.reader, "get_log_snapshot", input).output();
        assert_eq!((&seen["graph_hash"], seen.get("graph")), (&before["graph_hash"], None));

        world.admin("edit_message", json!({"message_id": said, "body": "another word"}));
        let child = world.admin("create_thread", json!({"channel_id": channel, "title": "a part"}));
        world.admin("add_thread_dependency", json!({"thread_id": child["id"], "depends_on_id": thread}));
        let after = with_graph(world);
        assert_eq!(node(&after, &said), place("edited", &thread));
        assert_eq!(node(&after, &child["id"]).unwrap().1, channel);
        assert!(has_edge(&after, "depends_on", &child["id"], &thread));
        assert_ne!(after["graph_hash"], before["graph_hash"]);
        assert_eq!(hash_of(&after["graph"]), after["graph_hash"]);
        world.admin("delete_message", json!({"message_id": said}));
        assert_eq!(node(&with_graph(world), &said), place("withdrawn", &thread));
    });
}

#[test]
fn only_who_administers_tokens_gets_the_graph() {
    on_both_engines(|world| {
        let input = json!({"workspace_id": world.id("workspace"), "include_graph": true});
        let refused = world.call(&world.people.reader, "get_log_snapshot", input.clone());
        assert_eq!(refused.refused(403, "missing-capability")["required_capability"], "token:admin");
        world.call(&world.people.outsider, "get_log_snapshot", input).refused(404, "not-found");
    });
}

/// Adds this many messages without an event, which the service never does.
fn stuff(world: &World, count: usize) {
    let (numbers, id) = match world.engine() {
        Engine::Sqlite => {
            let numbers = format!(
                "(with recursive n(i) as (select 1 union all select i + 1 from n where i < {count}) \
                 select i from n)"
            );
            (numbers, "randomblob(16)")
        }
        Engine::Postgres => (format!("(select generate_series(1, {count}) as i)"), "gen_random_uuid()"),
    };
    world.database.execute(&format!(
        "insert into messages (id, workspace_id, channel_id, thread_id, author_id, posted_at, edits, lsn)
         select {id}, m.workspace_id, m.channel_id, m.thread_id, m.author_id, m.posted_at, 0, m.lsn
         from {numbers} numbers, (select * from messages order by lsn desc limit 1) m"
    ));
}

#[test]
fn a_graph_is_hashed_once_for_a_head_and_included_up_to_its_bound() {
    on_both_engines(|world| {
        let thread = world.id("thread").to_string();
        post(world, &thread);
        let before = snapshot(world)["graph_hash"].clone();
        stuff(world, 10_001);
        assert_eq!(snapshot(world)["graph_hash"], before, "nothing has happened, so it is not hashed again");
        post(world, &thread);
        let after = snapshot(world)["graph_hash"].clone();
        assert_ne!(after, before);
        // Each message is a node and an edge.
        let input = json!({"workspace_id": world.id("workspace"), "include_graph": true});
        let refused = world.call(&world.people.admin, "get_log_snapshot", input);
        assert!(refused.refused(409, "wrong-state")["detail"].to_string().contains("20000"));
        assert_eq!(snapshot(world)["graph_hash"], after);
    });
}

/// Asserts that the checkpoint of a snapshot is equal to the output of `svc checkpoint`, which reads the
/// whole log.
fn is_signed_as_walked(world: &World, what: &str) -> Value {
    let snapshot = snapshot(world);
    let workspace = Some(world.id("workspace").into());
    let signed = sign_checkpoint(&world.database.address(), workspace, &NoteSigner::new(&SIGNS)).unwrap();
    assert_eq!(snapshot["checkpoint"], signed.note, "{what}");
    assert_eq!(snapshot["head"]["lsn"], world.lsn(), "{what}");
    snapshot
}

#[test]
fn a_checkpoint_is_over_the_head_pruned_or_not_and_whatever_is_kept_of_its_tree() {
    on_both_engines(|world| {
        let kept = || world.database.number("select coalesce(max(lsn), 0) from checkpoints");
        let keep = json!({"workspace_id": world.id("workspace"), "events_days": 10});
        world.admin("set_retention_policy", keep);
        let early = is_signed_as_walked(world, "before anything is kept");
        post_many(world, 1000);
        assert_eq!(kept(), 0);
        is_signed_as_walked(world, "of more events than a page, before anything is kept");
        world.pass(Duration::ZERO);
        let first = kept();
        assert!(first > 900, "{first}");
        is_signed_as_walked(world, "once the most are kept");
        for broken in ["frontier = substr(frontier, 2)", "lsn = lsn + 100000", "lsn = -1", "lsn = 0"] {
            world.database.execute(&format!("update checkpoints set {broken}"));
            is_signed_as_walked(world, broken);
        }
        post_many(world, 1000);
        world.pass(6 * DAY);
        assert!(kept() > first, "what did not fit is replaced");
        post_many(world, 80);
        world.pass(5 * DAY);
        let pruned = is_signed_as_walked(world, "once the oldest are pruned");
        assert!(pruned["floor"]["lsn"].as_i64().unwrap() > 1);
        world.database.execute("update checkpoints set lsn = 1");
        is_signed_as_walked(world, "below the floor");
        let note = text(&pruned["checkpoint"]);
        let keys = [NoteSigner::new(&SIGNS).public()];
        let verify = |note: &str| verify_checkpoint(&world.database.address(), note, &keys).unwrap();
        assert_eq!(verify(&note).expected, Some(ExpectedFound::Contained));
        assert_eq!(verify(&text(&early["checkpoint"])).expected, Some(ExpectedFound::BelowFloor));
    });
}

#[test]
fn nothing_is_signed_without_a_key_and_nothing_that_is_broken() {
    for engine in engines() {
        let world = World::with(engine, Setup { signs: false, ..Setup::default() });
        assert_eq!(snapshot(&world)["checkpoint"], Value::Null);
    }
    on_both_engines(|world| {
        let input = json!({"workspace_id": world.id("workspace")});
        let broken = world.lsn() - 1;
        let select = format!("where lsn = {broken} and kind <> 'WorkspaceCreated'");
        world.database.execute(&format!("update events set payload = payload || ' ' {select}"));
        let refused = world.call(&world.people.admin, "get_log_snapshot", input);
        assert_eq!(refused.refused(409, "event-log-broken")["lsn"], broken);
    });
}

#[test]
fn who_is_told_to_fetch_again_finds_what_to_read_and_where_to_go_on() {
    on_both_engines(|world| {
        let keep = json!({"workspace_id": world.id("workspace"), "events_days": 1});
        world.admin("set_retention_policy", keep);
        post_many(world, 16);
        world.pass(2 * DAY);
        let rest = world.rest();
        let admin = Some(world.people.admin.as_str());
        let get = |path: &str| rest.send(admin, "GET", path, &[], None);
        for old in ["events?after_id=1", "wait/event?after_id=1", "events/catch-up?after_lsn=1"] {
            let path = format!("/workspaces/{}/{old}", world.id("workspace"));
            let told = get(&path);
            assert_eq!(told.status, 409, "{path}");
            let snapshot = get(&text(&told.body["snapshot"])).output();
            assert_eq!(snapshot["floor"]["lsn"], told.body["floor"]);
            let all = get(&text(&snapshot["floor"]["href"])).output();
            assert_eq!(all["items"][0]["prev_hash"], snapshot["floor"]["prev_hash"]);
            let last = all["items"].as_array().unwrap().last().unwrap().clone();
            assert_eq!(last["content_hash"], snapshot["head"]["content_hash"]);
            assert_eq!(get(&text(&snapshot["head"]["href"])).output()["items"], json!([]));
        }
    });
}
