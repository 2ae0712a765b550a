//! File modes: a database that others can write to is not served; one that this user cannot write to can be
//! verified, but not served.

use std::path::Path;
use std::process::Command;

use super::starting::{STARTS, VERIFY, crashed, files, not_served, verified};
use svc_core::Engine;
use svc_tests::database::{TestDatabase, engines};
use svc_tests::process::{RunningProgram, program, run};
use svc_tests::site::{Site, command, through};

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn files_that_others_can_write_are_not_served_and_files_they_can_read_are_reported() {
    for engine in engines() {
        let site = Site::found(engine);
        for (path, own) in [(site.path().to_owned(), 0o700), (site.path().join("keys/content.kek"), 0o600)] {
            set_mode(&path, own | 0o022);
            not_served(&site, &[], 2, "users other than the owner can write");
            set_mode(&path, own | 0o044);
            let outcome = RunningProgram::start(
                site.command("svc", &["mcp-stdio"]).env("SVC_TOKEN", &site.founders.agent),
            )
            .ended();
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            let named =
                format!("users other than its owner can read it: chmod go-rwx path={}", path.display());
            assert!(outcome.err.contains(&named), "{outcome:?}");
            set_mode(&path, own);
        }
    }
}

#[test]
fn a_set_up_makes_an_empty_folder_private() {
    let database = TestDatabase::on(Engine::Sqlite);
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("data");
    let init = || run(command(program("svc"), &["init", "--data"], &database).arg(&folder));
    std::fs::create_dir(&folder).unwrap();
    set_mode(&folder, 0o777);
    std::fs::write(folder.join("note"), "mine").unwrap();
    let outcome = init();
    assert_eq!((outcome.code, files(&folder).len()), (Some(2), 1), "{outcome:?}");
    std::fs::remove_file(folder.join("note")).unwrap();
    assert_eq!(init().code, Some(0));
    let mode = std::os::unix::fs::MetadataExt::mode(&folder.metadata().unwrap());
    assert_eq!(mode & 0o777, 0o700);
}

/// Makes a folder read-only for this program's commands.
fn make_read_only(folder: &Path) {
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    for file in files(folder).keys() {
        mode(file, 0o444);
        mode(file.parent().unwrap(), 0o555);
    }
    mode(folder, 0o555);
}

/// Returns the command as a user that is not root, and so cannot write to read-only files.
fn as_somebody(command: Command) -> Command {
    if !is_root() {
        return command;
    }
    through("setpriv", &["--reuid=65534", "--regid=65534", "--clear-groups", "--"], &command)
}

fn is_root() -> bool {
    run(Command::new("id").arg("-u")).out.trim() == "0"
}

/// Gives a folder to the user of [`as_somebody`].
fn give_away(folder: &Path) {
    if is_root() {
        let outcome = run(Command::new("chown").args(["-R", "65534:65534"]).arg(folder));
        assert_eq!(outcome.code, Some(0), "{outcome:?}");
    }
}

#[test]
fn a_read_only_database_is_verified_and_not_served() {
    let (site, lsn) = crashed();
    let folder = tempfile::tempdir().unwrap();
    let svc = folder.path().join("svc");
    // Not every user can read the folder of the built programs.
    std::fs::copy(program("svc"), &svc).unwrap();
    let verify = |data: &Path| {
        let mut command = command(&svc, &["verify", "--json", "--data"], &site.database);
        command.arg(data);
        verified(&site, &mut as_somebody(command))
    };
    let copies = [("log", true, false), ("log and index", true, true), ("file alone", false, false)];
    for (name, with_log, with_index) in copies {
        let data = folder.path().join(name);
        std::fs::create_dir(&data).unwrap();
        if !with_log {
            site.database.rows("select 1");
        }
        for (file, wanted) in [("svc.db", true), ("svc.db-wal", with_log), ("svc.db-shm", with_index)] {
            if wanted {
                std::fs::copy(site.path().join(file), data.join(file)).unwrap();
            }
        }
        make_read_only(&data);
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let before = files(&data);
        assert_eq!(verify(&data), lsn, "{name}");
        assert_eq!(files(&data), before, "{name}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_to_is_not_served() {
    let site = Site::found(Engine::Sqlite);
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(program("svc"), folder.path().join("svc")).unwrap();
    make_read_only(site.path());
    for path in [folder.path(), &folder.path().join("svc")] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let before = files(site.path());
    let mut command = command(folder.path().join("svc"), &["mcp-stdio", "--data"], &site.database);
    command.arg(site.path()).env("SVC_TOKEN", &site.founders.agent);
    let outcome = run(&mut as_somebody(command));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.err.contains("must be writable for this user"), "{outcome:?}");
    assert_eq!(files(site.path()), before);
}

#[test]
fn a_file_that_cannot_be_written_to_is_not_served() {
    let site = Site::found(Engine::Sqlite);
    let programs = tempfile::tempdir().unwrap();
    set_mode(programs.path(), 0o755);
    for name in ["svc", "svc-http"] {
        std::fs::copy(program(name), programs.path().join(name)).unwrap();
    }
    let start = |name: &str, arguments: &[&str]| {
        let mut command = command(programs.path().join(name), arguments, &site.database);
        command.arg("--data").arg(site.path()).env("SVC_TOKEN", &site.founders.agent).env("SVC_LOG", "error");
        as_somebody(command)
    };
    give_away(site.path());
    set_mode(&site.path().join("svc.db"), 0o400);
    for (name, arguments) in STARTS.into_iter().filter(|(name, _)| *name != "svc-mcp-stdio") {
        let outcome = RunningProgram::start(&mut start(name, arguments)).ended();
        if (name, arguments) == VERIFY {
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
        } else {
            assert_eq!(outcome.code, Some(2), "{name} {arguments:?}: {outcome:?}");
            assert!(
                outcome.err.contains("must be writable for this user"),
                "{name} {arguments:?}: {outcome:?}"
            );
        }
    }
}
