//! A limit of file sizes (`ulimit -f`), reached during work: like a full disk.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::database::TestDatabase;
use svc_tests::process::{RunningProgram, program, run, until};
use svc_tests::site::{Server, Site, command, through};

/// Bytes that a file may have beyond the size of the database.
const MARGIN: u64 = 1 << 20;

/// Returns the command with a limit of `bytes` per file, until that is lifted.
fn limited(command: &Command, bytes: u64) -> Command {
    through("prlimit", &[&format!("--fsize={bytes}:unlimited"), "--"], command)
}

fn lift(running: &RunningProgram) {
    let outcome =
        run(Command::new("prlimit").arg(format!("--pid={}", running.id())).arg("--fsize=unlimited"));
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
}

#[test]
fn a_program_whose_files_cannot_grow_fails_and_is_not_killed() {
    let site = Site::found(Engine::Sqlite);
    let starts: [(&str, &[&str]); 4] = [
        ("svc-http", &["--listen", "127.0.0.1:0"]),
        ("svc", &["mcp-stdio"]),
        ("svc-mcp-stdio", &[]),
        ("svc", &["token", "mint", "--member", "worker", "--as-instance"]),
    ];
    for (name, arguments) in starts {
        let mut start = limited(&site.command(name, arguments), 1);
        let outcome = RunningProgram::start(start.env("SVC_TOKEN", &site.founders.agent)).ended();
        assert_eq!(outcome.code, Some(1), "{name} {arguments:?}: {outcome:?}");
        assert!(outcome.err.starts_with(&format!("{name}: ")), "{outcome:?}");
    }
    let database = TestDatabase::sqlite();
    let folder = tempfile::tempdir().unwrap();
    let init = |data: &Path| {
        let mut init = command(program("svc"), &["init", "--data"], &database);
        init.arg(data);
        run(&mut limited(&init, 8192))
    };
    let outcome = init(&folder.path().join("data"));
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
}

#[test]
fn a_server_at_the_limit_responds_and_recovers_when_it_is_lifted() {
    let site = Site::found(Engine::Sqlite);
    let size = std::fs::metadata(site.path().join("svc.db")).unwrap().len();
    let mut start = limited(&site.command("svc-http", &["--listen", "127.0.0.1:0"]), size + MARGIN);
    let server = Server::begin(&mut start);
    let caller = server.caller(&site.founders.admin);
    let workspace = &site.founders.workspace_id;
    let channel = caller.post(&format!("/workspaces/{workspace}/channels"), json!({"name": "work"}));
    let id = |made: &Value| made["id"].as_str().unwrap().to_owned();
    let thread = caller.post(&format!("/channels/{}/threads", id(&channel)), json!({"title": "Work"}));
    let messages = format!("/threads/{}/messages", id(&thread));
    let body = json!({"body": "x".repeat(50_000)});
    let mut posted = 0;
    let refused = loop {
        let answer = caller.ask("POST", &messages, Some(&body));
        if !answer.is_success() {
            break answer;
        }
        posted += 1;
        assert!(posted < 200, "nothing was rejected");
    };
    assert_eq!(refused.status, 503, "{refused:?}");
    caller.get("/me");
    lift(&server.running);
    until("it recovers by itself", || caller.ask("POST", &messages, Some(&body)).is_success());
    assert_eq!(caller.ask("GET", "/health/ready", None).status, 200);
    drop(server);
    assert_eq!(site.svc(&["verify"]).code, Some(0));
}
