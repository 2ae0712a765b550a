//! Creating, opening and closing a service.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use svc_core::api::{CreateChannel, ListMembers, WaitForReady, Whoami};
use svc_core::{Code, Service};

use super::{Embedded, on_engines};

#[test]
fn a_service_is_created_once_and_opened_again() {
    on_engines(|engine| {
        let embedded = Embedded::new(engine);
        let builder = || embedded.place.builder();
        assert_eq!(embedded.established.workspace.name, "Team");
        assert_eq!(embedded.admin.id(), embedded.established.admin.id);
        assert_eq!(embedded.agent.workspace_id(), embedded.established.workspace.id);
        embedded.service.clone().close().unwrap();
        let refused = builder().create("Other", "bob").unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyInitialised);
        let service = builder().open().unwrap();
        let token = service.mint_token("ada").unwrap();
        assert_ne!(token.id, embedded.established.token.id);
        assert_eq!(service.member(&token.secret).unwrap().id(), embedded.established.admin.id);
        assert_eq!(service.mint_token("nobody").unwrap_err().code(), Code::NotFound);
        for dead in ["", "svc_unknown", &token.secret[1..]] {
            assert_eq!(service.member(dead).unwrap_err().code(), Code::Unauthenticated, "{dead}");
        }
        let shown = format!("{token:?} {:?} {:?}", embedded.established, embedded.admin);
        assert!(!shown.contains(&token.secret) && !shown.contains(&embedded.established.token.secret));
    });
}

#[test]
fn a_folder_that_is_missing_or_not_set_up_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Service::open(folder.path().join("none")).unwrap_err().code(), Code::NotFound);
    assert_eq!(Service::open(folder.path()).unwrap_err().code(), Code::NotFound);
    assert_eq!(Service::builder().open().unwrap_err().code(), Code::Configuration);
    let invalid = Service::builder().folder(folder.path()).set("SVC_LEASE_SECS", "soon");
    assert_eq!(invalid.create("Team", "ada").unwrap_err().code(), Code::Configuration);
    let unknown = Service::builder().folder(folder.path()).set("SVC_NO_SUCH_THING", "1");
    assert_eq!(unknown.create("Team", "ada").unwrap_err().code(), Code::Configuration);
    assert_eq!(Service::create(folder.path(), "", "ada").unwrap_err().code(), Code::Malformed);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was left");
    let (service, _) = Service::create(folder.path(), "Team", "ada").unwrap();
    drop(service);
    Service::open(folder.path()).unwrap();
}

#[test]
fn a_service_in_memory_leaves_no_file() {
    let (service, established) = Service::in_memory().unwrap();
    let member = service.member(&established.token.secret).unwrap();
    member.call(&CreateChannel::new("general")).unwrap();
    let database = open_database();
    assert!(database.exists());
    service.close().unwrap();
    assert!(!database.exists());
    // A second one is another service.
    let (service, other) = Service::in_memory().unwrap();
    assert_eq!(service.member(&established.token.secret).unwrap_err().code(), Code::Unauthenticated);
    let member = service.member(&other.token.secret).unwrap();
    let database = open_database();
    drop(service);
    member.call(&Whoami::new()).unwrap();
    drop(member);
    assert!(!database.exists(), "the last handle removes it");
}

/// Returns the path of the database file that this process has open.
fn open_database() -> PathBuf {
    let files = std::fs::read_dir("/proc/self/fd").unwrap();
    let mut paths = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    paths.find(|path| path.ends_with("svc.db")).unwrap()
}

#[test]
fn closing_ends_waits_and_rejects_other_handles() {
    on_engines(|engine| {
        let Embedded { service, admin, agent, place, .. } = Embedded::new(engine);
        let (sender, receiver) = mpsc::channel();
        let waiting = {
            let (agent, sender) = (agent.clone(), sender.clone());
            std::thread::spawn(move || {
                sender.send("begins").unwrap();
                agent.call(&WaitForReady::new().timeout_secs(60))
            })
        };
        receiver.recv().unwrap();
        while service.parked_waits() == 0 {
            std::thread::yield_now();
        }
        let began = Instant::now();
        service.clone().close().unwrap();
        assert_eq!(waiting.join().unwrap().unwrap_err().code(), Code::Closing);
        assert!(began.elapsed() < Duration::from_secs(30), "the wait was not waited for");
        for refused in [
            admin.call(&Whoami::new()).map(drop),
            admin.call_json("whoami", &serde_json::json!({})).map(drop),
            admin.list(ListMembers::new()).next().unwrap().map(drop),
            svc_tests::runtime().block_on(admin.call_async(&Whoami::new())).map(drop),
            service.mint_token("ada").map(drop),
            service.member("svc_any").map(drop),
        ] {
            assert_eq!(refused.unwrap_err().code(), Code::Closing);
        }
        service.close().unwrap();
        place.builder().open().unwrap();
    });
}
