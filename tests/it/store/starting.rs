//! Starting the programs: their errors for folders and databases without a proper set-up, simultaneous
//! starts, and the reports of a server that should be replaced.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::database::{TestDatabase, engines};
use svc_tests::process::{ExitedProgram, RunningProgram, program, run, until};
use svc_tests::site::{Site, command};
use svc_tests::{in_parallel, runtime};

/// Repetitions of races, because some show only rarely.
const ROUNDS: usize = 3;
/// A key that no set-up used.
const OTHER_KEY: &str = "0808080808080808080808080808080808080808080808080808080808080808";

/// Every way to start a program on a set-up.
pub const STARTS: [(&str, &[&str]); 5] = [
    ("svc-http", &["--listen", "127.0.0.1:0"]),
    ("svc", &["mcp-stdio"]),
    ("svc-mcp-stdio", &[]),
    ("svc", &["token", "mint", "--member", "worker", "--as-instance"]),
    VERIFY,
];
pub const VERIFY: (&str, &[&str]) = ("svc", &["verify"]);

/// Starts a program that must refuse to start, and returns its outcome.
fn refused(site: &Site, (name, arguments): (&str, &[&str]), variables: &[(&str, &str)]) -> ExitedProgram {
    let mut command = site.command(name, arguments);
    command.env("SVC_TOKEN", &site.founders.agent).env("SVC_LOG", "error").envs(variables.iter().copied());
    let outcome = RunningProgram::start(&mut command).ended();
    assert_eq!(outcome.out, "", "{name} {arguments:?}: {outcome:?}");
    assert_eq!(outcome.err.trim_end().lines().count(), 1, "{name} {arguments:?}: {outcome:?}");
    assert!(outcome.err.starts_with(&format!("{name}: ")), "{outcome:?}");
    assert!(!outcome.err.contains("log has the cause"), "{outcome:?}");
    outcome
}

/// Checks that every program refuses to start with `code` and a line that contains `message`.
#[track_caller]
fn all_refused(site: &Site, variables: &[(&str, &str)], code: i32, message: &str) {
    for start in STARTS {
        let outcome = refused(site, start, variables);
        assert_eq!(outcome.code, Some(code), "{start:?}: {outcome:?}");
        assert!(outcome.err.contains(message), "{start:?} does not say \"{message}\": {outcome:?}");
    }
}

/// Checks the same for every way to serve a set-up; `svc verify` needs no keys and writes nothing.
#[track_caller]
pub fn not_served(site: &Site, variables: &[(&str, &str)], code: i32, message: &str) {
    for start in STARTS.into_iter().filter(|start| *start != VERIFY) {
        let outcome = refused(site, start, variables);
        assert_eq!(outcome.code, Some(code), "{start:?}: {outcome:?}");
        assert!(outcome.err.contains(message), "{start:?} does not say \"{message}\": {outcome:?}");
    }
}

/// Returns every file below `path`, with its content.
pub fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// Returns a folder whose server was killed: its newest writes are only in the log of the database.
pub fn crashed() -> (Site, i64) {
    let site = Site::found(Engine::Sqlite);
    let mut server = site.serve(&[]);
    let lsn = post(&site, &server.rest);
    server.running.kill();
    assert!(std::fs::metadata(site.path().join("svc.db-wal")).unwrap().len() > 0);
    (site, lsn)
}

/// Posts a message in a new thread, and returns its position.
fn post(site: &Site, rest: &svc_tests::client::rest::Rest) -> i64 {
    let send = |target: &str, body: Value| {
        rest.send(Some(&site.founders.admin), "POST", target, &[], Some(&body)).output()
    };
    let channel =
        send(&format!("/workspaces/{}/channels", site.founders.workspace_id), json!({"name": "work"}));
    let thread =
        send(&format!("/channels/{}/threads", channel["id"].as_str().unwrap()), json!({"title": "Work"}));
    let message =
        send(&format!("/threads/{}/messages", thread["id"].as_str().unwrap()), json!({"body": "kept"}));
    message["lsn"].as_i64().unwrap()
}

/// Returns the end of the workspace's log according to `svc verify`.
pub fn verified(site: &Site, command: &mut Command) -> i64 {
    let outcome = run(command);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let found: Value = serde_json::from_str(&outcome.out).unwrap();
    let logs = found["logs"].as_array().unwrap();
    let log = logs.iter().find(|log| log["workspace_id"] == site.founders.workspace_id.as_str()).unwrap();
    log["head"]["lsn"].as_i64().unwrap()
}

#[test]
fn a_folder_without_its_database_is_rejected_and_left_alone() {
    let (site, lsn) = crashed();
    let file = site.path().join("svc.db");
    let kept = std::fs::read(&file).unwrap();
    let damages: [(&str, i32, &str, fn(&Path)); 5] = [
        ("missing", 4, "there is no database at", |file| std::fs::remove_file(file).unwrap()),
        ("empty", 4, "is empty", |file| std::fs::write(file, "").unwrap()),
        ("garbage", 2, "is not a SQLite database", |file| std::fs::write(file, "x".repeat(9000)).unwrap()),
        ("cut", 2, "is not a SQLite database", |file| std::fs::write(file, "SQLite").unwrap()),
        ("a folder", 2, "it is a folder where a file is expected", |file| {
            std::fs::remove_file(file).unwrap();
            std::fs::create_dir(file).unwrap();
        }),
    ];
    for (what, code, message, damage) in damages {
        damage(&file);
        let before = files(site.path());
        all_refused(&site, &[], code, message);
        assert_eq!(files(site.path()), before, "{what}: something was touched");
        let init = site.svc(&["init"]);
        assert_eq!((init.code, files(site.path()) == before), (Some(5), true), "{what}: {init:?}");
        if file.is_dir() {
            std::fs::remove_dir(&file).unwrap();
        }
        std::fs::write(&file, &kept).unwrap();
    }
    assert_eq!(verified(&site, &mut site.command("svc", &["verify", "--json"])), lsn, "the log was kept");
    assert!(site.serve(&[]).rest.send(None, "GET", "/health/ready", &[], None).is_success());
}

#[test]
fn a_database_without_a_schema_is_rejected_and_left_alone() {
    let site = Site::found(Engine::Sqlite);
    let file = site.path().join("svc.db");
    std::fs::remove_file(&file).unwrap();
    rusqlite::Connection::open(&file).unwrap().execute_batch("create table other (n)").unwrap();
    let before = files(site.path());
    all_refused(&site, &[], 4, "has no schema");
    assert_eq!(files(site.path()), before);
}

#[test]
fn only_a_set_up_initializes_an_empty_postgres() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let site = Site::found(Engine::Postgres);
    let empty = TestDatabase::postgres();
    all_refused(&site, &[("DATABASE_URL", &empty.url())], 4, "the database is not set up; run `svc init`");
    assert_eq!(empty.dump().len(), 0, "something was created");
}

#[test]
fn each_refusal_of_postgres_is_reported_specifically_and_without_the_password() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let site = Site::found(Engine::Postgres);
    let url = site.database.url();
    let (before, after) = url.split_once("svc@").unwrap();
    let (host, options) = after.split_once('/').unwrap();
    let options = options.split_once('?').map_or(String::new(), |(_, options)| format!("?{options}"));
    let cases = [
        (format!("{before}svc:hunter2@{host}/nowhere{options}"), 2, "does not exist: create it"),
        (format!("{before}nobody:hunter2@{after}"), 2, "rejects the user in DATABASE_URL"),
        ("postgres://svc:hunter2@127.0.0.1:1/svc".to_owned(), 1, "cannot be reached"),
        ("postgres://svc:hunter2@127.0.0.1:none/svc".to_owned(), 2, "has a port that is no number"),
    ];
    for (url, code, message) in &cases {
        all_refused(&site, &[("DATABASE_URL", url)], *code, message);
        for start in STARTS {
            let outcome = refused(&site, start, &[("DATABASE_URL", url)]);
            assert!(!outcome.err.contains("hunter2"), "{outcome:?}");
        }
    }
    let role =
        "do $$ begin create role svc_test_stranger login; exception when duplicate_object then null; end $$";
    site.database.execute(role);
    let stranger = url.replacen("svc@", "svc_test_stranger@", 1);
    let mint = refused(&site, STARTS[3], &[("DATABASE_URL", &stranger)]);
    assert_eq!(mint.code, Some(2), "{mint:?}");
    assert!(mint.err.contains("must own the tables of svc"), "{mint:?}");
    let report = run(site.command("svc", &["verify", "--json"]).env("DATABASE_URL", &cases[0].0));
    let problem: Value = serde_json::from_str(&report.err).unwrap();
    assert!(problem["causes"].to_string().contains("\\\"nowhere\\\" does not exist"), "{problem}");
}

#[test]
fn a_newer_database_is_rejected_with_the_name_of_its_migration() {
    for engine in engines() {
        let site = Site::found(engine);
        site.database.execute(LATER);
        all_refused(&site, &[], 5, "a newer version of svc: this one does not know its migration 9000_later");
        site.database.execute("delete from schema_migrations where version = 9000");
        site.database.execute("update schema_migrations set checksum = 'x' where version = 72");
        all_refused(&site, &[], 5, "the migration 0072_store is not the one that was applied");
    }
}

#[test]
fn a_first_start_fits_on_a_screen() {
    for engine in engines() {
        let database = TestDatabase::on(engine);
        let folder = tempfile::tempdir().unwrap();
        let mut start = command(program("svc-http"), &["--dev", "--listen", "127.0.0.1:0"], &database);
        let mut server = RunningProgram::start(start.arg("--data").arg(folder.path().join("data")));
        server.next_line();
        server.signal("TERM");
        let outcome = server.ended();
        let printed: Vec<&str> = outcome.out.lines().collect();
        let starts = |with: &str| printed.iter().filter(|line| line.starts_with(with)).count();
        assert_eq!(
            (starts("listening on "), starts("board "), starts("token of ")),
            (1, 1, 2),
            "{printed:?}"
        );
        let configuration: Value = serde_json::from_str(&printed[printed.len() - 4..].concat()).unwrap();
        assert_eq!(configuration["mcpServers"].as_object().unwrap().len(), 2, "{printed:?}");
        // A shutdown in the middle of a start logs more.
        let logged: Vec<&str> =
            outcome.err.lines().take_while(|line| !line.contains("shutting down")).collect();
        let of_the_schema = logged.iter().filter(|line| line.contains("schema") || line.contains("migrat"));
        assert_eq!(of_the_schema.count(), 1, "{logged:?}");
        assert!(logged.len() <= 6 && printed.len() + logged.len() <= 25, "{printed:?} {logged:?}");
    }
}

#[test]
fn a_database_of_an_earlier_build_is_rejected_with_what_to_do() {
    for engine in engines() {
        let site = Site::found(engine);
        site.database.execute(
            "delete from schema_migrations;
             insert into schema_migrations (version, name, checksum, applied_at)
                 values (1, '0001_spine', 'x', 0), (71, '0071_mail_refusals', 'x', 0)",
        );
        let before = site.database.dump();
        all_refused(
            &site,
            &[],
            5,
            "the database was made by an earlier build of svc, whose schema this one does not migrate: \
             export each workspace with that build (`svc export`), and import the files here into a new \
             database (`svc import`)",
        );
        assert_eq!(site.svc(&["init"]).code, Some(5));
        assert_eq!(site.database.dump(), before);
    }
}

const LATER: &str =
    "insert into schema_migrations (version, name, checksum, applied_at) values (9000, '9000_later', 'x', 0)";

#[test]
fn a_wrong_key_is_rejected_before_anything_is_written() {
    for engine in engines() {
        let site = Site::found(engine);
        let old = hex::encode(site.kek());
        drop(site.serve(&[]));
        let other = [("SVC_CONTENT_KEK", OTHER_KEY)];
        let before = site.database.dump();
        for start in STARTS.into_iter().filter(|start| *start != VERIFY) {
            let outcome = refused(&site, start, &other);
            assert_eq!(outcome.code, Some(2), "{start:?}: {outcome:?}");
            assert!(outcome.err.contains("is not the key that this database was used with"), "{outcome:?}");
            assert!(!outcome.err.contains(OTHER_KEY) && !outcome.err.contains(&old), "{outcome:?}");
        }
        assert_eq!(site.database.dump(), before);
    }
}

#[test]
fn a_new_key_needs_the_old_one_and_running_servers_report_that_they_lack_it() {
    for engine in engines() {
        let site = Site::found(engine);
        let old = hex::encode(site.kek());
        let running = site.serve(&[]);
        post(&site, &running.rest);
        let both = [("SVC_CONTENT_KEK", OTHER_KEY), ("SVC_CONTENT_KEK_PREVIOUS", old.as_str())];
        let ready = |rest: &svc_tests::client::rest::Rest| rest.send(None, "GET", "/health/ready", &[], None);
        assert_eq!(ready(&running.rest).status, 200);
        let new = site.serve(&both);
        assert_eq!(ready(&new.rest).status, 200);
        assert_eq!(site.database.number("select count(*) from key_checks"), 2);
        let report = ready(&running.rest);
        assert_eq!((report.status, &report.body["checks"]["schema"]), (503, &json!("ok")), "{report:?}");
        assert!(
            report.body["checks"]["keys"].as_str().unwrap().contains("SVC_CONTENT_KEK_PREVIOUS"),
            "{report:?}"
        );
        drop((running, new));
        for start in STARTS.into_iter().filter(|start| *start != VERIFY) {
            assert_eq!(refused(&site, start, &[]).code, Some(2));
        }
        assert_eq!(ready(&site.serve(&both).rest).status, 200);
    }
}

#[test]
fn a_running_server_reports_that_a_newer_version_has_migrated() {
    for engine in engines() {
        let site = Site::found(engine);
        let server = site.serve(&[]);
        site.database.execute(LATER);
        let report = server.rest.send(None, "GET", "/health", &[], None);
        assert_eq!((report.status, &report.body["status"]), (503, &json!("unavailable")), "{report:?}");
        assert!(report.body["checks"]["schema"].as_str().unwrap().contains("9000_later"), "{report:?}");
        let admin = Some(site.founders.admin.as_str());
        let status = server.rest.send(admin, "GET", "/operator/status", &[], None).output();
        assert_eq!((&status["phase"], &status["checks"]), (&json!("degraded"), &report.body["checks"]));
        server.caller(&site.founders.agent).get("/me");
    }
}

#[test]
fn of_many_set_ups_at_once_one_wins() {
    for _ in 0..ROUNDS {
        if engines().contains(&Engine::Postgres) {
            let database = TestDatabase::postgres();
            let folders = tempfile::tempdir().unwrap();
            let codes = set_ups(8, &database, |number| folders.path().join(number.to_string()));
            assert_eq!(codes, [0, 5, 5, 5, 5, 5, 5, 5]);
            assert_eq!(std::fs::read_dir(folders.path()).unwrap().count(), 1, "the others left nothing");
            assert_eq!(database.number("select count(*) from key_checks"), 1);
        }
        let database = TestDatabase::sqlite();
        let folder = database.file().unwrap().parent().unwrap().to_owned();
        assert_eq!(set_ups(3, &database, |_| folder.clone()), [0, 5, 5]);
    }
}

/// Sets up `count` times at once, and returns the sorted exit codes.
fn set_ups(count: usize, database: &TestDatabase, folder: impl Fn(usize) -> PathBuf + Sync) -> Vec<i32> {
    let mut codes = in_parallel(count, |number| {
        let outcome = run(command(program("svc"), &["init"], database).arg("--data").arg(folder(number)));
        assert!(matches!(outcome.code, Some(0 | 5)), "{outcome:?}");
        assert_eq!(outcome.code == Some(0), outcome.err.is_empty(), "{outcome:?}");
        outcome.code.unwrap()
    });
    codes.sort_unstable();
    codes
}

/// Statements that revert an early migration, and the newest one.
const OLDER: [&str; 2] = [
    "drop table rate_windows; delete from schema_migrations where version = 72",
    "drop table preferences; drop table inbox_rules; drop table delivery_addresses; drop table delivery_codes;
     drop table web_push;
     delete from schema_migrations where version = (select max(version) from schema_migrations)",
];

#[test]
fn many_servers_that_find_an_older_schema_all_start() {
    for engine in engines() {
        let site = Site::found(engine);
        let migrations = site.database.number("select count(*) from schema_migrations");
        for older in (0..ROUNDS).flat_map(|_| OLDER) {
            site.database.execute(older);
            assert_eq!(site.database.number("select count(*) from schema_migrations"), migrations - 1);
            let answers =
                in_parallel(8, |_| site.serve(&[]).rest.send(None, "GET", "/health/ready", &[], None).status);
            assert_eq!(answers, [200; 8]);
            assert_eq!(site.database.number("select count(*) from key_checks"), 1);
            assert_eq!(site.database.number("select count(*) from schema_migrations"), migrations);
        }
    }
}

#[test]
fn references_are_checked_on_sqlite_alone() {
    for engine in engines() {
        let site = Site::found(engine);
        let references = site.database.number(match engine {
            Engine::Sqlite => {
                "select count(*) from sqlite_master where type = 'table' and sql like '% references %'"
            }
            Engine::Postgres => "select count(*) from pg_constraint where contype = 'f'",
        });
        assert_eq!(references > 0, engine == Engine::Sqlite, "{engine:?}: {references}");
    }
}

#[test]
fn a_migration_waits_longer_than_a_request_may() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let site = Site::found(Engine::Postgres);
    site.database.execute(OLDER[0]);
    let url = site.database.url();
    // Milliseconds.
    let limit = 2000;
    let separator = if url.contains('?') { '&' } else { '?' };
    let url =
        format!("{url}{separator}options=-c%20statement_timeout%3D{limit}%20-c%20lock_timeout%3D{limit}");
    let holder = runtime().block_on(site.database.connect());
    // A migration that another server runs.
    let begin = "begin; select pg_advisory_xact_lock(7233071290617)";
    runtime().block_on(holder.batch_execute(begin)).unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(|| site.serve(&[("DATABASE_URL", &url)]));
        let waits = format!(
            "select count(*) from pg_stat_activity where datname = current_database()
                and wait_event_type = 'Lock'
                     and wait_event = 'advisory'
                         and clock_timestamp() - query_start > interval '{limit} ms' * 1.5"
        );
        until("the start waits", || site.database.number(&waits) == 1);
        runtime().block_on(holder.batch_execute("commit")).unwrap();
        assert!(server.join().unwrap().rest.send(None, "GET", "/health/ready", &[], None).is_success());
    });
}

#[test]
fn an_agent_starts_beside_a_long_writer() {
    let site = Site::found(Engine::Sqlite);
    let writer = rusqlite::Connection::open(site.path().join("svc.db")).unwrap();
    writer.execute_batch("begin immediate; update heads set epoch = epoch").unwrap();
    let mut agent = site.mcp_stdio(&site.founders.agent);
    agent.say(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#);
    let answer: Value = serde_json::from_str(&agent.next_line()).unwrap();
    assert_eq!(answer["id"], 7);
    assert_eq!(verified(&site, &mut site.command("svc", &["verify", "--json"])), site_lsn(&site));
    writer.execute_batch("rollback").unwrap();
}

fn site_lsn(site: &Site) -> i64 {
    let workspace = site.database.id(site.founders.workspace_id.parse::<uuid::Uuid>().unwrap());
    site.database.number(&format!("select lsn from heads where workspace_id = {workspace}"))
}

/// The sessions of a database, suspended until this is dropped.
struct SilentSessions(Vec<String>);

impl SilentSessions {
    fn sessions(database: &TestDatabase) -> Self {
        let pids = database.rows(
            "select pid from pg_stat_activity where datname = current_database()
                and application_name = 'svc'",
        );
        let silent = Self(pids.iter().map(|row| row[0].to_string()).collect());
        assert!(!silent.0.is_empty());
        silent.signal("-STOP");
        silent
    }

    fn signal(&self, name: &str) {
        run(Command::new("kill").arg(name).args(&self.0));
    }
}

impl Drop for SilentSessions {
    fn drop(&mut self) {
        self.signal("-CONT");
    }
}

#[test]
fn a_second_signal_ends_a_server_whose_database_does_not_respond() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let site = Site::found(Engine::Postgres);
    let server = site.serve(&[]);
    let mut agent = site.mcp_stdio(&site.founders.agent);
    agent.say(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    agent.next_line();
    let silent = SilentSessions::sessions(&site.database);
    let mut waiting = TcpStream::connect(server.address()).unwrap();
    let request = format!(
        "GET /me HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\r\n",
        server.address(),
        site.founders.agent
    );
    waiting.write_all(request.as_bytes()).unwrap();
    let mut running = server.running;
    running.signal("TERM");
    assert!(running.err.by_ref().any(|line| line.contains("a second signal ends at once")));
    let begun = Instant::now();
    running.signal("TERM");
    assert_eq!(running.ended().code, Some(0));
    agent.signal("TERM");
    agent.ended();
    // Long before the timeout of the database.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    drop(silent);
}
