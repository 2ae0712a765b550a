//! Long work that is killed: exporting, importing, erasing, pruning. Its result is complete or absent.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use svc_core::signed_note::NoteSigner;
use svc_core::time::Clock;
use svc_core::{Engine, Service};
use svc_tests::database::engines;
use svc_tests::ordeal::{any_below, any_moment_of, rounds};
use svc_tests::process::{RunningProgram, run, until};
use svc_tests::search::Needle;
use svc_tests::site::{Server, Site, done};
use svc_tests::{SIGNS, in_parallel};

use crate::conversation::withdraw::{found, is_scrubbed};

/// Messages of a workspace, more than a step writes or removes at once.
const MESSAGES: usize = 1500;
/// Text that occurs nowhere else, including the databases of other tests on the same server.
const ERASED: &str = "huitzilopochtli-of-the-killed";
/// The age of the pruned events.
const AGE: Duration = Duration::from_secs(10 * 86_400);
const MOVED: &str = "words of a workspace that moves";

/// A workspace beside the first one of a site.
struct FilledWorkspace {
    id: String,
    admin: String,
}

fn fill(site: &Site, words: &str) -> FilledWorkspace {
    fill_with(&site.open(), site, words)
}

fn fill_with(service: &Service, site: &Site, words: &str) -> FilledWorkspace {
    let call = |token: &str, operation: &str, input: Value| done(service, token, operation, input);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let made =
        call(&site.founders.admin, "create_workspace", json!({"name": "Moving", "admin_handle": "ada"}));
    let id = text(&made["workspace"]["id"]);
    let admin = text(&made["token"]["secret"]);
    let channel = call(&admin, "create_channel", json!({"workspace_id": id, "name": "general"}));
    let thread = call(&admin, "create_thread", json!({"channel_id": channel["id"], "title": "a task"}));
    let claim = call(&admin, "claim_thread", json!({"thread_id": thread["id"]}));
    let lease = &claim["claim_lease_id"];
    let result = json!({"thread_id": thread["id"], "claim_lease_id": lease, "result": {"words": words}});
    call(&admin, "set_thread_result", result);
    in_parallel(10, |_| {
        for _ in 0..MESSAGES / 10 {
            call(&admin, "post_message", json!({"thread_id": thread["id"], "body": words}));
        }
    });
    FilledWorkspace { id, admin }
}

fn count(site: &Site, table: &str) -> i64 {
    site.database.number(&format!("select count(*) from {table}"))
}

fn verified(site: &Site) {
    let outcome = site.svc(&["verify"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

fn export(site: &Site, workspace: &FilledWorkspace, file: &Path) -> Command {
    let mut command = site.command("svc", &["export", "--as-instance", "--workspace", &workspace.id]);
    command.arg("--output").arg(file).env("SVC_EXPORT_SIGNING_KEY", hex::encode(SIGNS));
    command
}

fn import(site: &Site, file: &Path, mode: &str) -> Command {
    let mut command = site.command("svc", &["import", "--as-instance", "--mode", mode]);
    let key = hex::encode(NoteSigner::new(&SIGNS).public());
    command.arg(file).env("SVC_EXPORT_VERIFY_KEYS", key);
    command
}

/// Runs a command to its end, and returns the time that it took.
fn timed(command: &mut Command) -> Duration {
    let began = Instant::now();
    let outcome = run(command);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    began.elapsed()
}

/// Runs a command, and kills it at a random moment.
fn cut_off(command: &mut Command, span: Duration) {
    let mut running = RunningProgram::start(command);
    any_moment_of(span);
    running.kill();
}

fn verify_file(site: &Site, file: &Path) {
    let key = hex::encode(NoteSigner::new(&SIGNS).public());
    let outcome = site.svc(&["verify", file.to_str().unwrap(), "--key", &key]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The file is complete or absent under its name, and remains of a killed export do not block the next one.
#[test]
fn a_workspace_that_is_exported_is_whole_although_that_is_killed() {
    for engine in engines() {
        let site = Site::found(engine);
        let folder = tempfile::tempdir().unwrap();
        let workspace = fill(&site, MOVED);
        let file = |name: &str| folder.path().join(name);
        let span = timed(&mut export(&site, &workspace, &file("whole.json")));
        for round in 0..rounds() {
            let name = format!("{round}.json");
            let mut command = export(&site, &workspace, &file(&name));
            cut_off(&mut command, span);
            let mut running = RunningProgram::start(&mut command);
            until("it is being written, or is", || {
                names_in(folder.path()).iter().any(|it| it.starts_with(&name))
            });
            running.kill();
            if !file(&name).exists() {
                timed(&mut command);
            }
            verify_file(&site, &file(&name));
            assert!(!names_in(folder.path()).contains(&format!("{name}.part")));
        }
        verified(&site);
    }
}

/// A client of a killed server gets a part of the file, and nothing of the file remains on the disk.
#[test]
fn a_file_that_a_killed_server_was_sending_is_sent_by_the_next() {
    let key = hex::encode(SIGNS);
    for engine in engines() {
        let site = Site::found(engine);
        let workspace = fill(&site, MOVED);
        let path = format!("/workspaces/{}/export", workspace.id);
        let begin = |server: &Server| {
            let mut stream = TcpStream::connect(server.address()).unwrap();
            let request = format!(
                "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
                server.address(),
                workspace.admin
            );
            stream.write_all(request.as_bytes()).unwrap();
            stream
        };
        let mut span = Duration::from_secs(2);
        for round in 0..=rounds() {
            let mut server = site.serve(&[("SVC_EXPORT_SIGNING_KEY", &key)]);
            let began = Instant::now();
            let mut stream = begin(&server);
            let mut whole = Vec::new();
            if round > 0 {
                any_moment_of(span);
                server.running.kill();
                // It may have ended in the middle.
                let _ = stream.read_to_end(&mut whole);
                server = site.serve(&[("SVC_EXPORT_SIGNING_KEY", &key)]);
                (whole, stream) = (Vec::new(), begin(&server));
            }
            stream.read_to_end(&mut whole).unwrap();
            if round == 0 {
                span = began.elapsed();
            }
            assert!(whole.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&whole[..200]));
            assert_eq!(names_in(&site.path().join("spool")), Vec::<String>::new());
            verified(&site);
        }
    }
}

/// Checks that an import that is killed leaves nothing visible, and does not block the next one.
fn moved(engine: Engine, mode: &str) {
    let source = Site::found(engine);
    let folder = tempfile::tempdir().unwrap();
    let workspace = fill(&source, MOVED);
    let file = folder.path().join("moving.json");
    timed(&mut export(&source, &workspace, &file));
    let mut span = None;
    for _ in 0..=rounds() {
        let site = Site::found(engine);
        let before = ["workspaces", "messages", "threads"].map(|table| count(&site, table));
        match span {
            None => span = Some(timed(&mut import(&site, &file, mode))),
            Some(span) => {
                cut_off(&mut import(&site, &file, mode), span);
                verified(&site);
                if site.database.number("select count(*) from imports where outcome is null") > 0 {
                    assert_eq!(count(&site, "workspaces where state = 'live'"), before[0]);
                }
                // The next one waits until it is sure that this one has ended, and needs no server.
                timed(&mut import(&site, &file, mode));
            }
        }
        assert_eq!(count(&site, "messages"), before[1] + i64::try_from(MESSAGES).unwrap());
        assert_eq!(count(&site, "workspaces"), before[0] + 1);
        assert_eq!(site.database.number("select count(*) from imports where outcome is null"), 0);
        verified(&site);
    }
}

#[test]
fn a_workspace_that_moves_arrives_whole_or_not_at_all() {
    let ways: Vec<(Engine, &str)> =
        engines().into_iter().flat_map(|engine| ["restore", "new"].map(|mode| (engine, mode))).collect();
    in_parallel(ways.len(), |number| moved(ways[number].0, ways[number].1));
}

/// From the response on the workspace is hidden, and finally none of its bytes remain, however often the work
/// is interrupted.
#[test]
fn a_workspace_that_is_erased_is_gone_although_servers_are_killed() {
    for engine in engines() {
        let site = Site::found(engine);
        for _ in 0..rounds() {
            let workspace = fill(&site, ERASED);
            let words = [Needle::new("the words", ERASED)];
            assert!(!found(&site.database, &words).is_empty(), "the search finds the result");
            let mut server = site.serve(&[]);
            let path = format!("/workspaces/{}/erase", workspace.id);
            let confirm = json!({"confirm": "Moving"});
            server.rest.send(Some(&workspace.admin), "POST", &path, &[], Some(&confirm)).output();
            let left = || {
                let id = site.database.id(workspace.id.parse::<uuid::Uuid>().unwrap());
                site.database.number(&format!("select count(*) from messages where workspace_id = {id}"))
            };
            let some = i64::try_from(any_below(u64::try_from(MESSAGES).unwrap())).unwrap();
            until("some is removed", || left() <= some);
            server.running.kill();
            verified(&site);
            let server = site.serve(&[]);
            let refused = server.rest.send(Some(&workspace.admin), "GET", "/me", &[], None);
            assert_eq!(refused.status, 401);
            until("all of it is gone", || {
                site.database.number("select count(*) from workspaces where state <> 'live'") == 0
                    && is_scrubbed(&site.database)
            });
            assert_eq!((left(), count(&site, "results")), (0, 0));
            drop(server);
            assert_eq!(found(&site.database, &words), []);
            verified(&site);
        }
    }
}

/// The floor moves first, so after an interruption nothing below it is shown, and the remaining events below
/// it have no gaps and link to it.
#[test]
fn a_log_that_is_pruned_verifies_although_servers_are_killed() {
    for engine in engines() {
        let site = Site::found(engine);
        for _ in 0..rounds() {
            let past = Clock::system().now().shifted(-i64::try_from(AGE.as_micros()).unwrap());
            let service = site.open_at(Clock::mock(past));
            let workspace = fill_with(&service, &site, "words of a workspace that keeps little");
            let keep = json!({"workspace_id": workspace.id, "events_days": 1, "messages_days": 1});
            done(&service, &workspace.admin, "set_retention_policy", keep);
            drop(service);
            let id = site.database.id(workspace.id.parse::<uuid::Uuid>().unwrap());
            let of_workspace =
                |select: &str| site.database.number(&format!("{select} where workspace_id = {id}"));
            let lowest = || of_workspace("select coalesce(min(lsn), 0) from events");
            let floor = || of_workspace("select floor from heads");
            let mut server = site.serve(&[("SVC_RETENTION_TICK_SECS", "1")]);
            let some = i64::try_from(any_below(u64::try_from(MESSAGES).unwrap())).unwrap();
            until("some is removed", || lowest() > some + 1);
            server.running.kill();
            verified(&site);
            // Rows remain in most rounds; a fast machine may have removed them all.
            assert!(floor() >= lowest() && floor() > 1, "{} {}", floor(), lowest());
            let server = site.serve(&[("SVC_RETENTION_TICK_SECS", "1")]);
            let first = server.rest.send(
                Some(&workspace.admin),
                "GET",
                &format!("/workspaces/{}/events", workspace.id),
                &[],
                None,
            );
            assert!(first.output()["items"][0]["lsn"].as_i64().unwrap() >= floor());
            until("all of it is gone", || {
                lowest() == floor()
                    && of_workspace("select count(*) from messages") == 0
                    && is_scrubbed(&site.database)
            });
            drop(server);
            verified(&site);
        }
    }
}

/// A client that repeats a request with its key, after the server was killed, changes nothing twice.
///
/// The key is never stored in plaintext, neither on the disk nor in an export, and stays valid after the
/// key-encryption key was replaced.
#[test]
fn a_change_whose_server_was_killed_is_made_once() {
    const KEY: &str = "xiuhtecuhtli-of-the-retries";
    for engine in engines() {
        let site = Site::found(engine);
        let admin = site.founders.admin.clone();
        let call = |operation: &str, input: Value| done(&site.open(), &admin, operation, input);
        let channel = json!({"workspace_id": site.founders.workspace_id, "name": "retries"});
        let channel = call("create_channel", channel);
        let thread = call("create_thread", json!({"channel_id": channel["id"], "title": "a task"}));
        let path = format!("/threads/{}/messages", thread["id"].as_str().unwrap());
        let send = |server: &Server, round: usize| {
            let key = format!("{KEY}-{round}");
            let body = json!({"body": format!("round {round}")});
            server.rest.send(Some(&admin), "POST", &path, &[("idempotency-key", &key)], Some(&body))
        };
        let most = rounds().max(3);
        let mut first = Value::Null;
        for round in 0..most {
            let mut server = site.serve(&[]);
            let body = json!({"body": format!("round {round}")}).to_string();
            let request = format!(
                "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {admin}\r\n\
                 idempotency-key: {KEY}-{round}\r\ncontent-type: application/json\r\n\
                 content-length: {}\r\n\r\n{body}",
                server.address(),
                body.len()
            );
            let mut stream = TcpStream::connect(server.address()).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            any_moment_of(Duration::from_millis(8));
            server.running.kill();
            let mut server = site.serve(&[]);
            let again = send(&server, round).output();
            let repeated = send(&server, round);
            assert_eq!((repeated.status, &repeated.body), (201, &again));
            assert_eq!(repeated.headers["idempotency-replayed"], "true");
            assert_eq!(count(&site, "messages"), i64::try_from(round + 1).unwrap());
            first = if round == 0 { again } else { first };
            server.running.kill();
        }
        let needles = [Needle::new("the key", KEY)].into_iter();
        let needles: Vec<Needle> = needles.chain(Needle::spellings("the key", KEY.as_bytes())).collect();
        assert_eq!(found(&site.database, &needles), []);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("export.json");
        let workspace = FilledWorkspace { id: site.founders.workspace_id.clone(), admin: admin.clone() };
        timed(&mut export(&site, &workspace, &file));
        let exported = std::fs::read(&file).unwrap();
        assert_eq!(svc_tests::search::found_in(&exported, &needles), [""; 0]);
        let old = hex::encode(site.kek());
        let both = [("SVC_CONTENT_KEK", "7".repeat(64)), ("SVC_CONTENT_KEK_PREVIOUS", old)];
        let server = site.serve(&both.each_ref().map(|(name, value)| (*name, value.as_str())));
        let again = send(&server, 0);
        assert_eq!((again.status, &again.body), (201, &first), "after the key-encryption key was replaced");
        assert_eq!(count(&site, "messages"), i64::try_from(most).unwrap());
    }
}
