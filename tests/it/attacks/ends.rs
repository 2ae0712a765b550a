//! Requests that never become complete: the limit on their bytes, and their end with the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use serde_json::json;
use svc_core::Engine;
use svc_tests::attacks::ground::AttackSize;
use svc_tests::attacks::places::{HEADS, asking_to_go_on, stopped_bodies};
use svc_tests::attacks::wire::{head, head_of_json};
use svc_tests::attacks::{AttackHandle, AttackNeeds, prepare};
use svc_tests::database::{TestDatabase, engines};
use svc_tests::process::{TEST_TIMEOUT, until};
use svc_tests::site::Site;

/// Maximum growth of a server's memory by bodies. All bytes that are sent at once are 1.2 GB.
///
/// The counted bytes are 144 MiB: one client alone has three quarters of the share of its workspace, which is
/// three quarters of 256 MiB. Read buffers, and memory that the allocator has not returned yet, are
/// additional.
const GROWTH_MAX_KIB: u64 = 384 << 10;

/// Returns a line of a process's status, in KiB.
fn memory(process: u32, name: &str) -> u64 {
    svc_tests::bench::memory::kib(&format!("/proc/{process}/status"), name)
}

#[test]
fn bodies_count_from_their_first_byte() {
    svc_http::raise_descriptor_limit();
    for engine in engines() {
        let site = Site::found(engine);
        let size = AttackSize { tasks: 20, ..AttackSize::SMALL };
        let mut ground = prepare(&site.open(), &site.founders.admin, AttackNeeds::Nothing, size);
        let server = site.serve(&[("SVC_MAX_CONNECTIONS", "0")]);
        ground.addresses.push(server.address());
        let ground = Arc::new(ground);
        let idle = memory(server.running.id(), "VmRSS:");
        let attack = AttackHandle::new(|ground, tally| Box::pin(stopped_bodies(ground, tally)), &ground);
        until("bodies have stopped", || attack.tally.all() >= 60);
        for _ in 0..3 {
            for wanted in ground.victim.requests() {
                let caller = server.caller(&wanted.token);
                let answer = caller.ask(wanted.method.as_str(), &wanted.target, wanted.body.as_ref());
                assert!(answer.is_success(), "{}: {} {:#}", wanted.name, answer.status, answer.body);
            }
        }
        let growth = memory(server.running.id(), "VmHWM:").saturating_sub(idle);
        assert!(growth < GROWTH_MAX_KIB, "{growth} KiB: {}", attack.tally.report());
    }
}

/// A lock that blocks all commits of a site.
enum CommitLock<'a> {
    Sqlite(rusqlite::Connection),
    Postgres(&'a TestDatabase),
}

impl<'a> CommitLock<'a> {
    fn take(database: &'a TestDatabase) -> Self {
        match (database.engine(), database.file()) {
            (Engine::Sqlite, Some(file)) => {
                let conn = rusqlite::Connection::open(file).unwrap();
                conn.execute_batch("begin immediate").unwrap();
                Self::Sqlite(conn)
            }
            _ => {
                database.execute("begin; select lsn from heads for update");
                Self::Postgres(database)
            }
        }
    }

    fn release(self) {
        match self {
            Self::Sqlite(conn) => conn.execute_batch("rollback").unwrap(),
            Self::Postgres(database) => database.execute("rollback"),
        }
    }
}

fn connect(site: &svc_tests::site::Server) -> TcpStream {
    let stream = TcpStream::connect(site.address()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

/// Begins to create a channel under a lock, and returns once the body has been sent.
fn begin_change(site: &Site, server: &svc_tests::site::Server) -> TcpStream {
    let founders = &site.founders;
    let target = format!("/workspaces/{}/channels", founders.workspace_id);
    let body = json!({"name": "in-flight"}).to_string();
    let begun = head_of_json(&target, &founders.admin, body.len());
    let mut change = connect(server);
    change.write_all(asking_to_go_on(&begun).as_bytes()).unwrap();
    let mut line = [0; 25];
    change.read_exact(&mut line).unwrap();
    assert_eq!(line, *b"HTTP/1.1 100 Continue\r\n\r\n", "its body is being read");
    change.write_all(body.as_bytes()).unwrap();
    change
}

fn check_created(change: &mut TcpStream) {
    let mut answer = [0; 12];
    change.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"HTTP/1.1 201");
}

/// A change in flight is finished, and incomplete heads do not wait for it.
#[test]
fn heads_that_are_not_whole_end_with_the_listener() {
    for engine in engines() {
        let site = Site::found(engine);
        let server = site.serve(&[]);
        let whole = head("GET", "/me", None, "");
        let heads: Vec<TcpStream> = (0..HEADS)
            .map(|_| {
                let mut stream = connect(&server);
                stream.write_all(&whole.as_bytes()[..whole.len() - 2]).unwrap();
                stream
            })
            .collect();
        let lock = CommitLock::take(&site.database);
        let mut change = begin_change(&site, &server);
        server.running.signal("TERM");
        for mut head in heads {
            let mut rest = Vec::new();
            // The cause of its end does not matter, but nothing else may be sent.
            let _ = head.read_to_end(&mut rest);
        }
        change.set_nonblocking(true).unwrap();
        let early = change.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(early, Err(std::io::ErrorKind::WouldBlock), "the change waits for the lock");
        change.set_nonblocking(false).unwrap();
        lock.release();
        check_created(&mut change);
        drop(change);
        assert_eq!(server.running.ended().code, Some(0));
    }
}

/// Makes each read of a glossary with a term take the maximum time of a statement.
fn slow_down_glossaries(database: &TestDatabase) {
    let endless = match database.engine() {
        Engine::Sqlite => {
            "with recursive c (n) as (select 1 union all select n + 1 from c) select count(*) from c"
        }
        Engine::Postgres => "select count(*) from generate_series(1, 100) where pg_sleep(1) is null",
    };
    database.execute(&format!(
        "alter table glossary rename to terms;
         create view glossary as select * from terms where lsn > 0 and ({endless}) = 0"
    ));
}

#[test]
fn a_process_ends_although_its_readers_are_busy() {
    const READS: u64 = 100;
    for engine in engines() {
        let site = Site::found(engine);
        let service = site.open();
        let ground = prepare(
            &service,
            &site.founders.admin,
            AttackNeeds::Nothing,
            AttackSize { tasks: 1, ..AttackSize::SMALL },
        );
        let attacker = &ground.attacker;
        let term =
            json!({"workspace_id": attacker.workspace_id, "term": "end", "definition": "there is none"});
        attacker.does(&service, "set_glossary_term", term);
        drop(service);
        slow_down_glossaries(&site.database);
        let server = site.serve(&[("SVC_READ_BUDGET_MS", "0")]);
        let target = format!("/workspaces/{}/glossary", attacker.workspace_id);
        let reads: Vec<TcpStream> = (0..READS)
            .map(|_| {
                let mut stream = connect(&server);
                stream.write_all(head("GET", &target, Some(&attacker.admin), "").as_bytes()).unwrap();
                stream
            })
            .collect();
        until("its readers are busy", || {
            let depths = &server.caller(&site.founders.admin).get("/operator/status")["queue_depths"];
            let count = |name: &str| depths[name]["count"].as_u64().unwrap();
            count("requests_in_flight") >= READS && count("queued_reads") > 0
        });
        let lock = CommitLock::take(&site.database);
        let mut change = begin_change(&site, &server);
        server.running.signal("TERM");
        lock.release();
        check_created(&mut change);
        drop(change);
        let ended = server.running.ended();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        // The reads were interrupted: otherwise only a timer would end the process.
        assert!(!ended.err.contains("did not end in time"), "{ended:?}");
        let made = site.database.number("select count(*) from channels where name = 'in-flight'");
        assert_eq!(made, 1);
        drop(reads);
    }
}
