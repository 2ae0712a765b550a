//! A crowd of clients over real sockets, of two servers: no client misses an event or gets events out of
//! order, and a client below the floor is notified.
//!
//! The clients are those of another library, in another language, and so is the check of the received events.
//! On Postgres one server gets no notifications. `SVC_TEST_CROWD` is the number of clients, which follow
//! about a hundred times as many events; without it there are only a few.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::time::Clock;
use svc_tests::database::{engines, skipped};
use svc_tests::in_parallel;
use svc_tests::ordeal::proxy::Proxy;
use svc_tests::process::RunningProgram;
use svc_tests::site::{Site, done};

/// The variable with the path of the Python that has the packages of the tests.
const PYTHON: &str = "SVC_TEST_PYTHON";
/// The variable with the number of clients.
const CROWD: &str = "SVC_TEST_CROWD";
const FEW: usize = 12;
/// The age of the first event; each round of writing is a part of a day later.
const AGE: Duration = Duration::from_secs(400 * 86_400);
const ROUND: Duration = Duration::from_secs(3 * 3600);
const WRITERS: usize = 8;

#[test]
fn a_crowd_misses_nothing_but_what_it_is_told_was_pruned() {
    let Some(python) = std::env::var_os(PYTHON) else { return skipped("the crowd of subscribers", PYTHON) };
    let crowd = std::env::var(CROWD).ok().map(|number| number.parse().unwrap());
    let (crowd, each, rounds) = crowd.map_or((FEW, 3, 20), |crowd: usize| (crowd, (crowd / 15).max(1), 200));
    for engine in engines() {
        let site = Site::found(engine);
        let past = Clock::system().now().shifted(-i64::try_from(AGE.as_micros()).unwrap());
        let clock = Clock::mock(past);
        let service = site.open_at(clock.clone());
        let call = |token: &str, operation: &str, input: Value| done(&service, token, operation, input);
        let admin = &site.founders.admin;
        let made = call(admin, "create_workspace", json!({"name": "Crowded", "admin_handle": "ada"}));
        let workspace = made["workspace"]["id"].clone();
        let admin = made["token"]["secret"].as_str().unwrap();
        let channel = call(admin, "create_channel", json!({"workspace_id": workspace, "name": "general"}));
        let thread = call(admin, "create_thread", json!({"channel_id": channel["id"], "title": "a task"}));
        call(admin, "set_retention_policy", json!({"workspace_id": workspace, "events_days": 1}));

        let deaf = (engine == Engine::Postgres).then(|| Proxy::start(&site.database.url()));
        deaf.iter().for_each(Proxy::deafen);
        let address = deaf.as_ref().map(|proxy| proxy.url(&[]));
        // The writing server also prunes, by its own time.
        let shared = [("SVC_RETENTION_TICK_SECS", "0"), ("SVC_MAX_CONNECTIONS", "0")];
        let variables = shared.into_iter().chain(address.iter().map(|address| ("DATABASE_URL", &**address)));
        let servers = [site.serve(&shared), site.serve(&variables.collect::<Vec<_>>())];
        let config = json!({
            "servers": servers.each_ref().map(|server| server.address().to_string()),
            "token": admin, "workspace_id": workspace, "begins": 0, "subscribers": crowd,
            "stall_secs": if crowd == FEW { 1 } else { 10 }, "seed": 7,
        });
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/py/subscribers.py");
        let mut clients = RunningProgram::start(Command::new(&python).arg(script).arg(config.to_string()));
        for _ in 0..rounds {
            in_parallel(WRITERS, |_| {
                for _ in 0..each {
                    call(admin, "post_message", json!({"thread_id": thread["id"], "body": "a word"}));
                }
            });
            clock.advance(ROUND);
            service.housekeep().unwrap_or_else(|error| panic!("{error}: {:?}", error.cause()));
        }
        let room = call(admin, "get_room", json!({"workspace_id": workspace}));
        clients.say(&room["head"]["lsn"].to_string());
        let report: Value = serde_json::from_str(&clients.next_line()).unwrap();
        println!("on {engine:?}, to {} with the floor at {}: {report:#}", room["head"]["lsn"], room["floor"]);
        assert_eq!(report["faults"], json!([]), "on {engine:?}");
        assert!(report["told"].as_i64() > Some(0), "nobody fell below the floor on {engine:?}");
        for (what, control) in report["controls"].as_object().unwrap() {
            let broken = control["broken"].as_i64();
            assert!(broken > Some(0) && control["found"].as_i64() == broken, "{what}: {control}");
        }
    }
}
