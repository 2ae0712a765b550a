//! The disk space of files while they are moved, and their verification while they arrive.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::spool::{DiskSize, SpoolFolder, SpoolLimits};
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::{Setup, World, call, on_both_engines, text};

use super::exports::{export, lived_in};

const VERIFY: &str = "/workspaces/export/verify";

/// Returns a world whose spools have this budget, on a disk with `free` bytes of free space.
fn limited(
    engine: Engine,
    max: u64,
    reserve: u64,
    free: &Arc<AtomicU64>,
) -> (tempfile::TempDir, SpoolFolder, World) {
    let folder = tempfile::tempdir().unwrap();
    let free = Arc::clone(free);
    let measure = move |_: &Path| Ok(DiskSize { free: free.load(Ordering::Relaxed), total: 1 << 40 });
    let limits = SpoolLimits { max_bytes: Some(max), reserve_bytes: Some(reserve) };
    let spools = SpoolFolder::measured(folder.path().to_owned(), limits, Arc::new(measure));
    let world = World::with(engine, Setup { spools: Some(spools.clone()), ..Setup::default() });
    lived_in(&world);
    (folder, spools, world)
}

/// Returns the file of a world with the default setup.
fn file_of(engine: Engine) -> String {
    let world = World::open(engine);
    lived_in(&world);
    export(&world, "all")
}

/// Sends a file for verification.
fn verify(world: &World, token: &str, file: &str) -> svc_tests::client::Answer {
    let body: Value = serde_json::from_str(file).unwrap();
    world.rest().send(Some(token), "POST", VERIFY, &[], Some(&body))
}

#[test]
fn a_workspace_has_half_of_the_budget_and_leaves_the_rest_to_others() {
    for engine in engines() {
        let file = file_of(engine);
        let size = u64::try_from(file.len()).unwrap();
        let free = Arc::new(AtomicU64::new(1 << 40));
        // Half of it has space for one file, but not for two.
        let (_folder, spools, world) = limited(engine, 3 * size, 0, &free);
        let admin = &world.people.admin;
        let made = world.admin("create_workspace", json!({"name": "Other", "admin_handle": "ada"}));
        let other = text(&made["token"]["secret"]);
        let other_id = text(&made["workspace"]["id"]);
        let export_of = |token: &str, id: &str| {
            call(&world.service, Some(token), "export_workspace", &json!({"workspace_id": id}))
        };
        let id = world.id("workspace").to_string();
        // It was not read yet.
        let unread = export_of(admin, &id).unwrap();
        let held = spools.taken();
        assert!(held > size / 2, "{held} of {size}");
        let refused = export_of(admin, &id).unwrap_err();
        assert_eq!(refused.code(), svc_core::Code::InsufficientStorage);
        let refused = verify(&world, admin, &file).refused(507, "insufficient-storage");
        assert!(text(&refused["detail"]).contains("SVC_SPOOL_MAX_BYTES"), "{refused}");
        assert_eq!(spools.taken(), held, "what was refused takes nothing");
        assert_eq!(verify(&world, &other, &file).status, 200, "another workspace has its own half");
        drop(export_of(&other, &other_id).unwrap());
        drop(unread);
        assert_eq!(spools.taken(), 0);
        assert_eq!(verify(&world, admin, &file).status, 200);
    }
}

#[test]
fn what_an_import_writes_beside_the_file_counts_too() {
    for engine in engines() {
        let file = file_of(engine);
        let size = u64::try_from(file.len()).unwrap();
        for (budget, status) in [(3 * size, 507), (16 * size, 201)] {
            let (_folder, spools, world) = limited(engine, budget, 0, &Arc::new(AtomicU64::new(1 << 40)));
            let made = world.admin("create_workspace", json!({"name": "Other", "admin_handle": "ada"}));
            let other = text(&made["token"]["secret"]);
            assert_eq!(verify(&world, &other, &file).status, 200, "the file alone fits");
            let body: Value = serde_json::from_str(&file).unwrap();
            let path = "/workspaces/import?mode=new";
            let imported = world.rest().send(Some(&other), "POST", path, &[], Some(&body));
            assert_eq!(imported.status, status, "{}", imported.body);
            // The last step of an import releases its files after the response.
            until("their space is returned", || spools.taken() == 0);
        }
    }
}

#[test]
fn only_the_database_uses_the_reserve_of_the_disk() {
    for engine in engines() {
        let file = file_of(engine);
        let free = Arc::new(AtomicU64::new(1 << 40));
        let (_folder, spools, world) = limited(engine, 1 << 40, 1 << 30, &free);
        let admin = &world.people.admin;
        assert_eq!(verify(&world, admin, &file).status, 200);
        free.store((1 << 30) - 1, Ordering::Relaxed);
        let refused = verify(&world, admin, &file).refused(507, "insufficient-storage");
        assert!(text(&refused["detail"]).contains("SVC_DISK_RESERVE_BYTES"), "{refused}");
        let input = json!({"workspace_id": world.id("workspace")});
        world.call(admin, "export_workspace", input.clone()).refused(507, "insufficient-storage");
        let envelope: Value = serde_json::from_str(&file).unwrap();
        let input_of_verify = json!({"envelope": envelope});
        world.call(admin, "verify_workspace_export", input_of_verify).refused(507, "insufficient-storage");
        let import = json!({"mode": "new", "envelope": envelope});
        world.call(admin, "import_workspace", import.clone()).refused(507, "insufficient-storage");
        world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "still works"}));
        free.store(1 << 40, Ordering::Relaxed);
        world.call(admin, "export_workspace", input).output();
        world.call(admin, "import_workspace", import).output();
        assert_eq!(spools.taken(), 0);
    }
}

/// Sends the head of a request with a large file, and the beginning of the file.
fn begun(world: &World, token: &str, path: &str, begin: &str) -> TcpStream {
    let mut stream = TcpStream::connect(world.address()).unwrap();
    // A client that waits for 100 Continue gets the response without sending more of the body.
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n{begin}",
        world.address(),
        token,
        64 << 20
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream
}

#[test]
fn a_file_is_refused_at_its_first_bad_bytes() {
    on_both_engines(|world| {
        for path in [VERIFY, "/workspaces/import?mode=new"] {
            // The rest of the 64 MiB is never sent.
            for begin in ["x".repeat(8 << 10), "{\"type\":\"other\",".repeat(500), " ".repeat(160 << 10)] {
                let mut answer = String::new();
                // The connection may be reset after the response, because the server did not read everything.
                let _ = begun(world, &world.people.admin, path, &begin).read_to_string(&mut answer);
                assert!(answer.contains("HTTP/1.1 400 "), "{path} {begin:.20}: {answer}");
                assert!(answer.contains("export-invalid") && answer.contains("not-an-export"), "{answer}");
            }
        }
    });
}

#[test]
fn who_may_not_import_sends_no_file() {
    for engine in engines() {
        let file: Value = serde_json::from_str(&file_of(engine)).unwrap();
        let world = World::with(engine, Setup { import_workspaces: 1, ..Setup::default() });
        let made = world.admin("create_workspace", json!({"name": "Other", "admin_handle": "ada"}));
        let other = text(&made["token"]["secret"]);
        let path = "/workspaces/import?mode=new&import_id=first";
        let refused = |token: &str, path: &str| {
            let mut line = [0; 12];
            begun(&world, token, path, "").read_exact(&mut line).unwrap();
            String::from_utf8_lossy(&line[9..]).parse::<u16>().unwrap()
        };
        assert_eq!(refused(&other, path), 100, "a control: it is asked to send the file");
        assert_eq!(refused(&world.people.agent, path), 403);
        assert_eq!(refused(&other, "/workspaces/import?mode=new&unknown=x"), 100, "that is found out later");
        assert_eq!(world.rest().send(Some(&other), "POST", path, &[], Some(&file)).status, 201);
        assert_eq!(refused(&other, "/workspaces/import?mode=new"), 429);
        // Repeating an import returns its outcome.
        let again = world.rest().send(Some(&other), "POST", path, &[], Some(&file));
        assert_eq!((again.status, &again.body["created"]), (201, &json!(false)), "{}", again.body);
    }
}
