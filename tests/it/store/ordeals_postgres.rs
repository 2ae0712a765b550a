//! Ordeals on Postgres: broken connections, a silent network, a suspended server.
//!
//! Connections end at random and at every point within a transaction; a server is suspended for longer than a
//! transaction may last. In every case acknowledged writes are kept, and rejected ones are absent.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::client::kept::KeptConnection;
use svc_tests::client::ws::{Received, Ws, first_frame};
use svc_tests::database::{TestDatabase, engines};
use svc_tests::ordeal::callers::{CALLERS, Caller, Progress, Workload, WriteProbe, summary, write_during};
use svc_tests::ordeal::checker::{Defect, assert_sound, check, internal_errors, late};
use svc_tests::ordeal::proxy::Proxy;
use svc_tests::ordeal::{for_a_while, rounds};
use svc_tests::process::{TEST_TIMEOUT, until};
use svc_tests::site::{Server, Site};
use svc_tests::{in_parallel, runtime, text};

/// Maximum delay of the end of a call.
///
/// It may have to wait for another call in progress, and be retried once. It is less than the silence of the
/// network.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs an ordeal on a separate site, for each round, if this run can test Postgres.
fn on_postgres(ordeal: impl Fn(&Site)) {
    if engines().contains(&Engine::Postgres) {
        (0..rounds()).for_each(|_| ordeal(&Site::found(Engine::Postgres)));
    }
}

/// Returns the callers, half of them at each server.
fn callers<'a>(workload: &'a Workload, servers: &[Server; 2]) -> Vec<Caller<'a>> {
    (0..CALLERS).map(|number| workload.caller(number, servers[number % 2].address())).collect()
}

/// Lets all callers write during `happens`, and then checks everything.
///
/// `happens` may return further defects.
fn suffer(
    what: &str,
    site: &Site,
    workload: &Workload,
    servers: [Server; 2],
    happens: impl FnOnce(&Progress, &[Server; 2]) -> Vec<Defect>,
) {
    let (mut records, (more, mut defects)) = write_during(callers(workload, &servers), |progress| {
        assert!(progress.wait_for(CALLERS, TEST_TIMEOUT), "nothing was acknowledged before the ordeal began");
        let numbered = servers.iter().enumerate();
        let mut probes: Vec<WriteProbe<'_>> = numbered
            .map(|(number, server)| WriteProbe::prepare(workload.caller(CALLERS + number, server.address())))
            .collect();
        let mut found = happens(progress, &servers);
        // The callers continue during that time.
        found.extend(probes.iter_mut().filter_map(WriteProbe::check_recovery));
        (probes.into_iter().flat_map(|probe| probe.caller.records).collect::<Vec<_>>(), found)
    });
    records.extend(more);
    drop(servers);
    defects.extend(late(&records, CALL_TIMEOUT));
    defects.extend(internal_errors(&records));
    eprintln!("{what}: {}", summary(&records));
    defects.extend(check(site, &records));
    assert_sound(what, &defects);
}

/// Ends one session of the service: any, or preferably one within a transaction. Returns how many were ended.
fn terminate(database: &TestDatabase, at_work: bool) -> usize {
    let order = if at_work { "(state = 'idle'), random()" } else { "random()" };
    let sql = format!(
        "select pg_terminate_backend(pid) from (
             select pid from pg_stat_activity where datname = current_database() and application_name = 'svc'
             order by {order} limit 1) one"
    );
    database.rows(&sql).len()
}

/// Minimum number of sessions that are ended.
const SESSIONS_ENDED: usize = 40;

#[test]
fn sessions_that_are_ended_at_random_lose_nothing() {
    on_postgres(|site| {
        let workload = Workload::prepare(site, CALLERS + 2);
        let servers = [site.serve(&[]), site.serve(&[])];
        suffer("sessions ended at random", site, &workload, servers, |_, servers| {
            let last = AtomicI64::new(i64::MAX);
            std::thread::scope(|scope| {
                let subscriber = scope.spawn(|| subscribe(site, &servers[0], &last));
                let mut ended = 0;
                let mut turn = 0;
                let mut end_one = || {
                    turn += 1;
                    ended += terminate(&site.database, turn % 2 == 0);
                    ended >= SESSIONS_ENDED
                };
                for_a_while(Duration::from_secs(20), Duration::from_millis(333), || {
                    end_one();
                });
                // On a slow machine there were fewer rounds.
                until("enough sessions have been ended", end_one);
                last.store(site.database.number(&head_of(&site.founders.workspace_id)), Ordering::SeqCst);
                subscriber.join().unwrap()
            })
        });
    });
}

fn head_of(workspace: &str) -> String {
    format!("select lsn from heads where workspace_id = '{workspace}'")
}

/// Receives the whole log as it grows, up to at least `last`.
///
/// Each position must come once, and in order.
fn subscribe(site: &Site, server: &Server, last: &AtomicI64) -> Vec<Defect> {
    let first = first_frame(&site.founders.admin, &site.founders.workspace_id, Some(0));
    let mut ws = Ws::subscribe(server.address(), &first);
    assert_eq!(ws.frame()["type"], "subscribe_ack");
    let mut seen = 0;
    while seen < last.load(Ordering::SeqCst) {
        let Received::Frame(frame) = ws.receive() else {
            return vec![Defect::Late(format!("a subscription was closed after {seen}"))];
        };
        let lsn = frame["lsn"].as_i64().unwrap();
        if lsn != seen + 1 {
            return vec![Defect::Impossible { kind: format!("{} behind {seen}", text(&frame["kind"])), lsn }];
        }
        seen = lsn;
    }
    eprintln!("a subscriber received {seen} events, each once");
    Vec::new()
}

/// The writes during which connections end.
const WRITES: [(&str, fn(&mut Caller<'_>) -> bool, fn(&mut Caller<'_>) -> bool); 5] = [
    ("create_thread", |_| true, |caller| caller.create_thread()),
    ("post_message", |_| true, |caller| caller.post()),
    ("cancel_thread", |caller| caller.create_thread(), |caller| caller.cancel()),
    ("claim_next_workspace_thread", |caller| caller.create_thread(), |caller| caller.claim()),
    ("delete_message", |caller| caller.post(), |caller| caller.withdraw()),
];
/// Replies of a transaction behind which its connection ends.
const ANSWERS: usize = 12;
/// Number of times that it ends after each reply.
///
/// A statement is prepared once, so the replies differ the second time.
const PASSES: usize = 3;

#[test]
fn connections_that_end_after_a_reply_lose_nothing() {
    on_postgres(|site| {
        let workload = Workload::prepare(site, 1);
        let proxy = Proxy::start(&site.database.url());
        let server = site.serve(&[("DATABASE_URL", &proxy.url(&[]))]);
        let mut probe = WriteProbe::prepare(workload.caller(0, server.address()));
        let caller = &mut probe.caller;
        let mut cuts = BTreeMap::<&str, usize>::new();
        'all: for (name, prepare, write) in WRITES {
            for behind in (0..PASSES).flat_map(|_| 1..=ANSWERS) {
                let deadline = Instant::now() + TEST_TIMEOUT;
                while !prepare(caller) {
                    assert!(Instant::now() < deadline, "no write succeeds any more: {:?}", caller.last());
                }
                let before = proxy.cuts();
                proxy.cut_behind(behind);
                write(caller);
                proxy.cut_behind(0);
                *cuts.entry(name).or_default() += proxy.cuts() - before;
                if caller.last().is_some_and(|record| record.took > CALL_TIMEOUT) {
                    break 'all;
                }
            }
        }
        let mut defects: Vec<Defect> = probe.check_recovery().into_iter().collect();
        let caller = &probe.caller;
        defects.extend(late(&caller.records, CALL_TIMEOUT));
        defects.extend(internal_errors(&caller.records));
        drop(server);
        eprintln!("cut behind answers: {cuts:?}; {}", summary(&caller.records));
        defects.extend(check(site, &caller.records));
        assert_sound("connections that end behind an answer", &defects);
        assert!(cuts.len() == WRITES.len() && cuts.values().all(|cuts| *cuts >= PASSES * 2), "{cuts:?}");
    });
}

/// Duration of the silence of the network.
const SILENCE: Duration = Duration::from_secs(26);
/// The service's timeout for a statement, shortened in the address.
const LIMIT: Duration = Duration::from_secs(2);
/// Duration of a wait for an event that does not come.
const WAIT: Duration = Duration::from_secs(5);
/// Maximum delay of the end of a wait.
const SLACK: Duration = Duration::from_secs(8);

#[test]
fn a_silent_network_delays_nobody_beyond_the_timeouts() {
    on_postgres(|site| {
        let workload = Workload::prepare(site, CALLERS + 2);
        let proxy = Proxy::start(&site.database.url());
        let limit = LIMIT.as_millis().to_string();
        let url = proxy.url(&[("statement_timeout", &limit), ("lock_timeout", &limit)]);
        let url = format!("{url}&connect_timeout={}", LIMIT.as_secs());
        let servers = [site.serve(&[("DATABASE_URL", &url)]), site.serve(&[("DATABASE_URL", &url)])];
        suffer("a silent network", site, &workload, servers, |progress, servers| {
            let waiting = wait_for_nothing(site, &servers[0]);
            assert!(progress.wait_for(2 * CALLERS, TEST_TIMEOUT), "the callers have stalled");
            proxy.hold(true);
            for_a_while(SILENCE, SILENCE, || {});
            proxy.hold(false);
            let took = runtime().block_on(waiting).unwrap();
            (took > WAIT + SLACK).then(|| Defect::Late(format!("a wait took {took:?}"))).into_iter().collect()
        });
    });
}

/// Waits for an event of a kind that never comes.
fn wait_for_nothing(site: &Site, server: &Server) -> tokio::task::JoinHandle<Duration> {
    let address = server.address();
    let token = site.founders.admin.clone();
    let workspace = &site.founders.workspace_id;
    let secs = WAIT.as_secs();
    let target = format!("/workspaces/{workspace}/wait/event?kind=Nothing&timeout_secs={secs}");
    let mut kept = runtime().block_on(KeptConnection::open(address, &token)).unwrap();
    runtime().spawn(async move {
        let began = Instant::now();
        let answered = tokio::time::timeout(2 * SILENCE, kept.get(&target)).await;
        drop::<Option<Result<(u16, Value), _>>>(answered.ok());
        began.elapsed()
    })
}

/// Returns the sessions within a transaction, and their starts.
fn within_transactions(database: &TestDatabase) -> Vec<String> {
    let rows = database.rows(
        "select pid || ' since ' || state_change from pg_stat_activity
         where datname = current_database() and application_name = 'svc'
             and state like 'idle in transaction%'",
    );
    rows.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect()
}

/// How often a server must be suspended within a transaction.
const CAUGHT: usize = 3;
/// The timeout of an idle transaction, shortened in the address.
const IDLE_IN_TRANSACTION: &str = "1000";

#[test]
fn a_server_that_was_suspended_within_a_transaction_loses_nothing() {
    on_postgres(|site| {
        let workload = Workload::prepare(site, CALLERS + 2);
        let url = format!(
            "{}?options=-c%20idle_in_transaction_session_timeout%3D{IDLE_IN_TRANSACTION}",
            site.database.url()
        );
        let variables = [("DATABASE_URL", url.as_str())];
        let servers = [site.serve(&variables), site.serve(&variables)];
        suffer("a suspended server", site, &workload, servers, |progress, servers| {
            let deadline = Instant::now() + TEST_TIMEOUT;
            let mut caught = 0;
            while caught < CAUGHT && Instant::now() < deadline {
                caught += usize::from(suspend(&site.database, &servers[0]));
                progress.wait_for(CALLERS, Duration::from_secs(1));
            }
            assert!(caught >= CAUGHT, "a server was caught within a transaction only {caught} times");
            Vec::new()
        });
    });
}

/// Suspends a server until the database has ended its open transactions.
///
/// Returns whether it had one.
fn suspend(database: &TestDatabase, server: &Server) -> bool {
    server.running.pause();
    let began = Instant::now();
    let within = within_transactions(database);
    until("the transactions have ended", || {
        let now = within_transactions(database);
        within.iter().all(|session| !now.contains(session))
    });
    let caught = began.elapsed() > Duration::from_millis(800);
    server.running.resume();
    caught
}

/// Ends every session of the service, and waits until they are gone.
fn terminate_all(database: &TestDatabase) -> usize {
    let ended = database.rows(
        "select pid, pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and application_name = 'svc'",
    );
    let pids: Vec<String> = ended.iter().map(|row| row[0].to_string()).collect();
    let left = format!("select count(*) from pg_stat_activity where pid in ({})", pids.join(", "));
    until("the sessions have ended", || database.number(&left) == 0);
    pids.len()
}

#[test]
fn sessions_that_ended_while_idle_are_replaced_without_an_error() {
    on_postgres(|site| {
        let server = site.serve(&[]);
        let admin = server.caller(&site.founders.admin);
        let channels = format!("/workspaces/{}/channels", site.founders.workspace_id);
        let channel = format!("/channels/{}", text(&admin.post(&channels, json!({"name": "idle"}))["id"]));
        let wait = format!("/workspaces/{}/wait/event?after_id=0", site.founders.workspace_id);
        let first = first_frame(&site.founders.admin, &site.founders.workspace_id, Some(0));
        for round in 0..8 {
            // Every reader has a session, not only the first.
            in_parallel(8, |_| admin.get(&channel));
            let ended = terminate_all(&site.database);
            assert!(ended > 2, "only {ended} sessions were there to end");
            match round % 4 {
                0 => (0..8).for_each(|_| drop(admin.get(&channel))),
                1 => drop(in_parallel(8, |_| admin.get(&channel))),
                2 => drop(in_parallel(8, |_| admin.get(&wait))),
                _ => drop(in_parallel(8, |_| {
                    let mut ws = Ws::subscribe(server.address(), &first);
                    assert_eq!(ws.frame()["type"], "subscribe_ack");
                })),
            }
            admin.post(&format!("{channel}/threads"), json!({"title": "still here"}));
        }
    });
}
