//! The status of a server for its operator: its phase, its checks and its load.

use serde_json::{Value, json};
use svc_core::limits::WAITS_MAX;
use svc_core::op::{CheckMethod, Depth, Feature, HealthCheck};
use svc_http::HttpSettings;
use svc_tests::client::ws::{Ws, first_frame};
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::{Setup, World, on_both_engines};

/// Returns the status of the world's server, over REST.
fn status(world: &World) -> Value {
    let operation = world.operation("get_operator_status");
    world.rest().call(Some(&world.people.admin), operation, &json!({})).output()
}

/// Returns a count of the status, and its limit.
fn depth(status: &Value, name: &str) -> (Option<u64>, Option<u64>) {
    let depth = &status["queue_depths"][name];
    assert!(depth.is_object(), "{name}: {status:#}");
    (depth["count"].as_u64(), depth["limit"].as_u64())
}

#[test]
fn the_status_shows_how_full_the_server_is() {
    for engine in engines() {
        let http = HttpSettings { ws_connections: 7, ..HttpSettings::default() };
        let world = &World::with(engine, Setup { http, ..Setup::default() });
        let idle = status(world);
        assert_eq!(
            (&idle["phase"], &idle["version"]),
            (&json!("serving"), &json!(env!("CARGO_PKG_VERSION")))
        );
        let checks =
            json!({"bus": "ok", "clock": "ok", "database": "ok", "disk": "ok", "keys": "ok", "schema": "ok"});
        assert_eq!(idle["checks"], checks);
        assert_eq!(depth(&idle, "websocket_connections"), (Some(0), Some(7)));
        assert_eq!(depth(&idle, "parked_waits"), (Some(0), u64::try_from(WAITS_MAX).ok()));
        // The request itself is one of them.
        let own = |name: &str| depth(&idle, name).0 >= Some(1) && depth(&idle, name).1 >= Some(1);
        assert!(own("requests_in_flight") && own("connections"), "{idle:#}");
        for queue in ["queued_reads", "queued_writes"] {
            // Each workspace has its own limit.
            assert_eq!(depth(&idle, queue), (Some(0), None), "{queue}: {idle:#}");
        }

        let sockets: Vec<Ws> = (0..3).map(|_| subscribed(world)).collect();
        assert_eq!(depth(&status(world), "websocket_connections"), (Some(3), Some(7)));
        drop(sockets);
        until("the sockets are closed", || depth(&status(world), "websocket_connections").0 == Some(0));

        let lsn = world.lsn();
        std::thread::scope(|scope| {
            let event = json!({"workspace_id": world.id("workspace"), "after_id": lsn, "timeout_secs": 300});
            let waiting = scope.spawn(|| world.call(&world.people.agent, "wait_for_event", event));
            until("the wait is parked", || world.service.parked_waits() == 1 || waiting.is_finished());
            assert_eq!(depth(&status(world), "parked_waits").0, Some(1));
            world.new_channel("wakes it");
            waiting.join().unwrap().output();
        });
    }
}

fn subscribed(world: &World) -> Ws {
    let first = first_frame(&world.people.agent, world.id("workspace"), None);
    let mut socket = Ws::subscribe(world.address(), &first);
    assert_eq!(socket.frame()["type"], "subscribe_ack");
    socket
}

/// Returns a failing health check, and one that counts.
fn parts() -> Vec<Feature> {
    let oven = HealthCheck {
        name: "oven",
        health: CheckMethod::InProcess(Box::new(|| Some("it is cold".to_owned()))),
        status: None,
    };
    let ask = |cx: &svc_core::op::Read<'_>| Ok(cx.one::<(i64,)>(MEMBERS, &[])?.map(|_| "eaten".to_owned()));
    let bread = HealthCheck {
        name: "bread",
        health: CheckMethod::InDatabase(ask),
        status: Some(Box::new(|| Depth::new(3, None))),
    };
    vec![Feature::new().part(oven).part(bread)]
}

const MEMBERS: &str = "select 1 from members limit 1";

#[test]
fn a_part_of_a_feature_is_in_the_status_and_in_readiness() {
    for engine in engines() {
        let world = &World::with(engine, Setup { features: parts, ..Setup::default() });
        let status = status(world);
        assert_eq!(status["phase"], "degraded");
        let checks = &status["checks"];
        let shown = (&checks["oven"], &checks["bread"], &checks["database"]);
        assert_eq!(shown, (&json!("it is cold"), &json!("eaten"), &json!("ok")));
        assert_eq!(depth(&status, "bread"), (Some(3), None));
        let ready = world.rest().send(None, "GET", "/health/ready", &[], None);
        assert_eq!((ready.status, &ready.body["checks"]), (503, checks));
    }
}

#[test]
fn the_status_is_for_the_operator_of_the_instance() {
    on_both_engines(|world| {
        for (capability, status) in
            [("operator:global", 200), ("audit:read-global", 403), ("token:admin", 403)]
        {
            let token = world.new_token(vec![capability]);
            let answer = world.rest().send(Some(&token), "GET", "/operator/status", &[], None);
            assert_eq!(answer.status, status, "{capability}");
        }
    });
}
