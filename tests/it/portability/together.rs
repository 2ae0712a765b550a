//! Two services on one database: work that both start at once on a workspace is done once, and completely.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::id::WorkspaceId;
use svc_core::{Code, Engine, Service};
use svc_tests::client::Answer;
use svc_tests::database::engines;
use svc_tests::{Setup, World, answer_of, call, in_parallel, text};

use crate::portability::origin::{Origin, elsewhere, export, verify};

const DAY: Duration = Duration::from_secs(86_400);

/// A time after the leases of all periodic work.
const LATER: Duration = Duration::from_secs(20);

/// Returns a world, and another service on its database.
fn two(engine: Engine, seed: u64) -> (World, Service) {
    let world = World::with(engine, Setup { seed, ..Setup::default() });
    let other = world.another_service(seed + 1);
    (world, other)
}

/// Runs periodic work on both services at once, several times.
fn both_keep_house(services: [&Service; 2]) {
    in_parallel(2, |number| {
        for _ in 0..5 {
            match services[number].housekeep() {
                Ok(()) => {}
                // The other service has taken over, or the workspace is gone.
                Err(error) => {
                    let code = error.code();
                    assert!(
                        [Code::Unavailable, Code::NotFound].contains(&code),
                        "{error}: {:?}",
                        error.cause()
                    );
                }
            }
        }
    });
}

/// Runs the same call on both services at once.
fn both(services: [&Service; 2], token: &str, operation: &str, input: &Value) -> Vec<Answer> {
    in_parallel(2, |number| answer_of(call(services[number], Some(token), operation, input)))
}

#[test]
fn a_log_is_pruned_once_by_two_services() {
    for engine in engines() {
        let (world, other) = two(engine, 61);
        let workspace = world.id("workspace");
        in_parallel(4, |_| {
            for _ in 0..300 {
                world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "goes"}));
            }
        });
        let keep = json!({"workspace_id": workspace, "messages_days": 1, "events_days": 1});
        world.admin("set_retention_policy", keep);
        let before = world.lsn();
        world.clock.advance(2 * DAY);
        both_keep_house([&world.service, &other]);
        world.pass(LATER);
        verify(&world);
        let id = world.database.id(workspace);
        let count = |what: &str| {
            world.database.number(&format!("select count(*) from {what} where workspace_id = {id}"))
        };
        assert_eq!(count("messages"), 0);
        let declared = world.kinds_after(before);
        for kind in ["MessagesPruned", "EventsPruned"] {
            assert_eq!(declared.iter().filter(|found| *found == kind).count(), 1, "{declared:?}");
        }
        assert_eq!(count("events"), i64::try_from(declared.len()).unwrap(), "nothing else is left");
    }
}

#[test]
fn a_workspace_is_erased_once_by_two_services() {
    for engine in engines() {
        let origin = Origin::new(engine, 62);
        let world = &origin.world;
        let workspace = origin.workspace;
        let other = world.another_service(63);
        let keep = json!({"workspace_id": workspace, "messages_days": 1, "events_days": 1});
        origin.call("set_retention_policy", keep);
        world.clock.advance(2 * DAY);
        let services = [&world.service, &other];
        let erase = json!({"workspace_id": workspace, "confirm": "Moving"});
        // Both also prune it at the same time.
        let answers = std::thread::scope(|scope| {
            let keeping = scope.spawn(|| both_keep_house(services));
            let answers = both(services, &origin.token, "erase_workspace", &erase);
            keeping.join().unwrap();
            answers
        });
        let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        statuses.sort_unstable();
        assert!(statuses[0] == 200 && [401, 404].contains(&statuses[1]), "{statuses:?}");
        both_keep_house(services);
        world.pass(LATER);
        world.pass(LATER);
        let id = world.database.id(workspace);
        for table in ["events", "heads", "messages", "threads", "members", "tokens", "shelves"] {
            let left = format!("select count(*) from {table} where workspace_id = {id}");
            assert_eq!(world.database.number(&left), 0, "{table}");
        }
        let erased = "select count(*) from events where kind = 'WorkspaceErased'";
        assert_eq!(world.database.number(erased), 1);
        verify(world);
    }
}

#[test]
fn a_file_is_imported_once_by_two_services() {
    for engine in engines() {
        let origin = Origin::new(engine, 64);
        let file = export(&origin.world, origin.workspace);
        for mode in ["restore", "new"] {
            let world = elsewhere(engine);
            let other = world.another_service(65);
            let services = [&world.service, &other];
            let input = json!({"mode": mode, "envelope": file, "import_id": "the move"});
            let answers = std::thread::scope(|scope| {
                let keeping = scope.spawn(|| both_keep_house(services));
                let answers = both(services, &world.people.admin, "import_workspace", &input);
                keeping.join().unwrap();
                answers
            });
            for answer in &answers {
                assert!([200, 201, 503].contains(&answer.status), "{mode}: {}", answer.body);
            }
            let created = answers.iter().filter(|answer| answer.body["created"] == true).count();
            assert_eq!(
                created,
                1,
                "{mode}: {:?}",
                answers.iter().map(|answer| &answer.body).collect::<Vec<_>>()
            );
            let again = world.admin("import_workspace", input);
            assert_eq!(again["created"], false);
            let workspace: WorkspaceId = text(&again["workspace_id"]).parse().unwrap();
            assert_eq!(again["head_hash"] == file["header"]["head"]["content_hash"], mode == "restore");
            world.pass(LATER);
            let named = "select count(*) from workspaces where name = 'Moving'";
            assert_eq!(world.database.number(named), 1, "{mode}");
            let id = world.database.id(workspace);
            let messages = format!("select count(*) from messages where workspace_id = {id}");
            let source = origin.world.database.id(origin.workspace);
            let before = format!("select count(*) from messages where workspace_id = {source}");
            assert_eq!(world.database.number(&messages), origin.world.database.number(&before));
            verify(&world);
        }
    }
}
