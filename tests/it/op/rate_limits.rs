//! Rate limits across servers, and their headers in responses.

use std::time::Duration;

use serde_json::json;
use svc_core::limits::RATE_LIMIT_SHARING_RETRY;
use svc_core::{Database, Engine, RateSettings, Service};
use svc_tests::database::engines;
use svc_tests::ordeal::proxy::Proxy;
use svc_tests::{Setup, World, answer_of, call};

/// Requests of a client in a window.
const PER_CLIENT: i64 = 100;
/// Requests that a server may admit before it reports to the others.
const SHARE: i64 = PER_CLIENT / 20;
const WINDOW: Duration = Duration::from_secs(3600);

fn world(engine: Engine) -> World {
    let rates = RateSettings { per_client: PER_CLIENT, per_workspace: 0, window: WINDOW };
    World::with(engine, Setup { rates, ..Setup::default() })
}

/// Returns the status of a request of the agent.
fn status(world: &World, service: &Service) -> u16 {
    answer_of(call(service, Some(&world.people.agent), "whoami", &json!({}))).status
}

/// Sends requests to these servers in turn until all of them reject one, and returns how many were admitted.
fn admitted(world: &World, services: &[&Service]) -> i64 {
    let mut admitted = 0;
    loop {
        let statuses: Vec<u16> = services.iter().map(|service| status(world, service)).collect();
        assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
        let round = statuses.iter().filter(|status| **status == 200).count();
        if round == 0 {
            return admitted;
        }
        admitted += i64::try_from(round).unwrap();
    }
}

fn rows(world: &World) -> i64 {
    world.database.number("select count(*) from rate_windows")
}

/// SQLite, where nothing is shared, is the control.
#[test]
fn a_client_of_two_servers_has_one_limit() {
    for engine in engines() {
        let world = world(engine);
        let other = world.another_service(2);
        let servers = [&world.service, &other];
        let first = admitted(&world, &servers);
        world.clock.advance(WINDOW / 2);
        let second = admitted(&world, &servers);
        match engine {
            Engine::Sqlite => assert_eq!((first, second), (2 * PER_CLIENT, PER_CLIENT)),
            Engine::Postgres => {
                assert!((PER_CLIENT - SHARE..=PER_CLIENT * 11 / 10).contains(&first), "{first}");
                // Each server may be ahead by a share again.
                assert!(
                    (PER_CLIENT / 2 - 2 * SHARE..=PER_CLIENT / 2 + 2 * SHARE).contains(&second),
                    "{second}"
                );
            }
        }
    }
}

#[test]
fn a_client_below_a_share_of_its_limit_costs_no_statement() {
    for engine in engines() {
        let world = world(engine);
        for _ in 1..SHARE {
            assert_eq!(status(&world, &world.service), 200);
        }
        assert_eq!(rows(&world), 0);
        assert_eq!(status(&world, &world.service), 200);
        let told = i64::from(engine == Engine::Postgres);
        assert_eq!(rows(&world), told);
        // A limit that has recovered is no longer shared.
        world.clock.advance(WINDOW * 2);
        world.service.housekeep().unwrap();
        for _ in 1..SHARE {
            assert_eq!(status(&world, &world.service), 200);
        }
    }
}

/// Returns how many statements `reads` of the agent cost, by a service with such limits.
fn cost(world: &World, per_client: i64, reads: i64) -> usize {
    let proxy = Proxy::start(&world.database.url());
    let rates = RateSettings { per_client, per_workspace: 0, window: WINDOW };
    let service = world.another_service_at(Database::Postgres(proxy.url(&[]).into()), rates);
    let ask = |count: i64| (0..count).for_each(|_| assert_eq!(status(world, &service), 200));
    // Everything is cached from then on.
    ask(2);
    let before = proxy.statements();
    ask(reads);
    proxy.statements() - before
}

/// Every statement counts, whatever its table. Reads above a share, which is reported, are the control.
#[test]
fn reads_below_a_share_of_a_limit_cost_no_statement_more_than_without_limits() {
    for engine in engines().into_iter().filter(|engine| *engine == Engine::Postgres) {
        let world = world(engine);
        let reads = 100;
        let share = 110;
        let without = cost(&world, 0, reads);
        assert!(without > 0);
        assert_eq!(cost(&world, share * 20, reads), without);
        assert!(cost(&world, (reads - 10) * 20, reads) > without, "it tells the others");
    }
}

/// The connection for reports of rate limits is the only one that has ever named their table.
const OWN_CONNECTION: &str = "select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and query like '%rate_windows%'";

#[test]
fn without_the_database_each_server_limits_by_itself() {
    for engine in engines().into_iter().filter(|engine| *engine == Engine::Postgres) {
        let world = world(engine);
        let ask = |count: i64| (0..count).for_each(|_| assert_eq!(status(&world, &world.service), 200));
        ask(SHARE);
        assert_eq!(rows(&world), 1);
        world.database.execute(OWN_CONNECTION);
        world.database.execute("delete from rate_windows");
        ask(2 * SHARE);
        assert_eq!(rows(&world), 0, "it has told nobody");
        // Then it reports to the others again, including the requests that it has not reported yet.
        world.clock.advance(RATE_LIMIT_SHARING_RETRY);
        let tries = (0..PER_CLIENT - 3 * SHARE).find(|_| {
            ask(1);
            rows(&world) == 1
        });
        assert!(tries.is_some(), "it never tells again");
    }
}

#[test]
fn a_table_that_is_locked_holds_nobody_up_for_long() {
    for engine in engines().into_iter().filter(|engine| *engine == Engine::Postgres) {
        let world = world(engine);
        let runtime = svc_tests::runtime();
        let locker = runtime.block_on(world.database.connect());
        runtime.block_on(locker.batch_execute("begin; lock table rate_windows")).unwrap();
        let other = world.another_service(2);
        assert_eq!(admitted(&world, &[&world.service]), PER_CLIENT);
        assert_eq!(admitted(&world, &[&other]), PER_CLIENT);
        runtime.block_on(locker.batch_execute("rollback")).unwrap();
    }
}

#[test]
fn an_authenticated_response_says_what_is_left() {
    for engine in engines() {
        let rates = RateSettings { per_client: 6, per_workspace: 12, window: Duration::from_secs(60) };
        let world = World::with(engine, Setup { rates, ..Setup::default() });
        let agent = Some(world.people.agent.as_str());
        let rest = world.rest();
        let policy = r#""client";q=6;w=60, "workspace";q=12;w=60"#;
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        for (method, path, body, status, left) in [
            ("GET", "/me", None, 200, r#""client";r=5;t=10, "workspace";r=11;t=5"#),
            ("POST", "/mcp", Some(&list), 200, r#""client";r=4;t=20, "workspace";r=10;t=10"#),
            ("GET", "/threads/0", None, 400, r#""client";r=3;t=30, "workspace";r=9;t=15"#),
            ("PUT", "/me", None, 405, r#""client";r=2;t=40, "workspace";r=8;t=20"#),
            ("GET", "/nothing", None, 404, r#""client";r=1;t=50, "workspace";r=7;t=25"#),
            ("POST", "/workspaces/0/agents", None, 403, r#""client";r=0;t=60, "workspace";r=6;t=30"#),
            // Requests that were rejected by the client's limit do not count for the workspace.
            ("GET", "/me", None, 429, r#""client";r=0;t=60"#),
            ("POST", "/mcp", Some(&list), 429, r#""client";r=0;t=60"#),
            ("GET", "/scim/v2/Users", None, 429, r#""client";r=0;t=60"#),
        ] {
            let answer = rest.send(agent, method, path, &[], body);
            assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
            let header = |name: &str| answer.headers.get(name).map_or("", |value| value.to_str().unwrap());
            assert_eq!(header("ratelimit"), left, "{method} {path}");
            let limits = if status == 429 { r#""client";q=6;w=60"# } else { policy };
            assert_eq!(header("ratelimit-policy"), limits, "{method} {path}");
        }
        let unknown = rest.send(Some("svc_unknown"), "GET", "/me", &[], None);
        assert!(unknown.status == 401 && unknown.headers.get("ratelimit").is_none(), "nobody is known");
        let open = rest.send(None, "GET", "/openapi.json", &[], None);
        assert!(open.headers.get("ratelimit").is_none(), "nobody is known");
    }
}
