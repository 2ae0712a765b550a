//! A process that embeds the service and is killed loses nothing that it has acknowledged.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use svc_core::api::{CreateChannel, CreateThread, GetMessage, MessageId, ThreadId};
use svc_core::{ClaimOptions, Member, Service};
use svc_tests::ordeal::rounds;

use super::{Embedded, Place, on_engines};

/// The variable with which this test runs itself as the process to be killed: the folder, the database URL if
/// there is one, and the token.
const CHILD: &str = "SVC_TEST_EMBEDDING_PROCESS";

/// Number of messages after which the process is killed.
const POSTS: usize = 20;

/// Claims the task, and posts messages in it until the process is killed. Prints the id of each.
fn post_until_killed(child: &str) {
    let [folder, url, token] = child.split('\n').collect::<Vec<_>>()[..] else { panic!("{child}") };
    let builder = Service::builder().folder(folder);
    let builder = if url.is_empty() { builder } else { builder.postgres(url) };
    let member = builder.open().unwrap().member(token).unwrap();
    let claim = member.claim_next(&ClaimOptions::new().resume(true)).unwrap().unwrap();
    println!("lease {}", claim.lease_id());
    loop {
        let message = claim.post("still here").unwrap();
        println!("posted {message}");
        std::io::stdout().flush().unwrap();
    }
}

/// Starts the process, kills it after some messages, and returns its lease and the ids of its messages.
fn kill_after_posts(place: &Place, token: &str) -> (String, Vec<String>) {
    let url = match place.database.address() {
        svc_core::Database::Postgres(url) => secrecy::ExposeSecret::expose_secret(&url).to_owned(),
        svc_core::Database::Sqlite(_) => String::new(),
    };
    let child = format!("{}\n{url}\n{token}", place.folder.path().join("data").display());
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["embed::killed::what_an_embedding_process_has_acknowledged_survives_a_kill", "--exact"])
        .args(["--nocapture", "--test-threads=1"])
        .env(CHILD, child)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut lease = None;
    let mut posted = Vec::new();
    for line in BufReader::new(process.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        // The test program prints its own lines too, and the first of ours behind one of them.
        if let Some((_, id)) = line.split_once("lease ") {
            lease = Some(id.to_owned());
        }
        if let Some((_, id)) = line.split_once("posted ") {
            posted.push(id.to_owned());
        }
        if posted.len() == POSTS {
            process.kill().unwrap();
        }
    }
    process.wait().unwrap();
    (lease.expect("a lease"), posted)
}

fn check_messages(member: &Member, posted: &[String]) {
    for id in posted {
        let id: MessageId = id.parse().unwrap();
        member.call(&GetMessage::new(id)).unwrap();
    }
}

#[test]
fn what_an_embedding_process_has_acknowledged_survives_a_kill() {
    if let Ok(child) = std::env::var(CHILD) {
        return post_until_killed(&child);
    }
    let rounds = rounds().max(3);
    on_engines(|engine| {
        let Embedded { service, established, admin, place, .. } = Embedded::new(engine);
        let channel = admin.call(&CreateChannel::new("general")).unwrap();
        let thread: ThreadId = admin.call(&CreateThread::new(channel.id, "Task")).unwrap().id;
        drop(admin);
        service.close().unwrap();
        let mut leases = Vec::new();
        for _ in 0..rounds {
            let (lease, posted) = kill_after_posts(&place, &established.agent_token.secret);
            assert!(posted.len() >= POSTS);
            let service = place.builder().open().unwrap();
            check_messages(&service.member(&established.token.secret).unwrap(), &posted);
            service.close().unwrap();
            leases.push(lease);
        }
        leases.dedup();
        assert_eq!(leases.len(), 1, "each process resumes the claim of the one before");
        let service = place.builder().open().unwrap();
        let agent = service.member(&established.agent_token.secret).unwrap();
        let claim = agent.claim_next(&ClaimOptions::new().resume(true)).unwrap().unwrap();
        assert_eq!(claim.thread().id, thread);
    });
}
