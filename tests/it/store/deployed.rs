//! The places of deployed services: mounts and volumes of other users, a read-only root, and the variables of
//! a cluster.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use svc_core::Engine;
use svc_tests::process::{ExitedProgram, RunningProgram, program, run};
use svc_tests::site::{Site, command, through};
use tempfile::TempDir;

use super::starting::STARTS;

/// The user of the programs, who owns the data folder, unless this test does not run as root.
pub const SOMEBODY: u32 = 65534;
const SOMEBODY_ELSE: u32 = 65533;
/// The group of a volume.
const GROUP: u32 = 2000;

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o7777
}

/// A set-up, and the programs in a folder where every user can run them.
pub struct DeployedSetup {
    site: Site,
    root: TempDir,
}

impl DeployedSetup {
    pub fn new() -> Self {
        let site = Site::found(Engine::Sqlite);
        let root = tempfile::tempdir().unwrap();
        chmod(root.path(), 0o755);
        for name in ["svc", "svc-http"] {
            fs::copy(program(name), root.path().join(name)).unwrap();
        }
        Self { site, root }
    }

    /// Copies the data folder, in its state after a set-up by the user of the programs.
    pub fn copy(&self) -> PathBuf {
        let copy = self.root.path().join("data");
        if copy.is_dir() {
            fs::remove_dir_all(&copy).unwrap();
        } else if copy.is_symlink() || copy.exists() {
            fs::remove_file(&copy).unwrap();
        }
        let copied = run(Command::new("cp").arg("-a").arg(self.site.path()).arg(&copy));
        assert_eq!(copied.code, Some(0), "{copied:?}");
        if is_root() {
            let owner = format!("{SOMEBODY}:{SOMEBODY}");
            assert_eq!(run(Command::new("chown").arg("-R").arg(owner).arg(&copy)).code, Some(0));
        }
        copy
    }

    fn command(&self, name: &str, arguments: &[&str], data: &Path) -> Command {
        let mut command = command(self.root.path().join(name), arguments, &self.site.database);
        command.arg("--data").arg(data).env("SVC_TOKEN", &self.site.founders.agent);
        command
    }

    /// Runs a program as a user with groups, if this test runs as root.
    fn run_as(&self, user: u32, groups: &str, command: &Command) -> ExitedProgram {
        let (user, group) = (format!("--reuid={user}"), format!("--regid={user}"));
        let mut command = match is_root() {
            true => through("setpriv", &[&user, &group, groups, "--"], command),
            false => through("env", &[], command),
        };
        RunningProgram::start(&mut command).ended()
    }

    pub fn start(&self, data: &Path, variables: &[(&str, String)]) -> ExitedProgram {
        let mut command = self.command("svc", &["mcp-stdio"], data);
        command.env("SVC_LOG", "error").envs(variables.iter().map(|(name, value)| (*name, value)));
        self.run_as(SOMEBODY, "--clear-groups", &command)
    }
}

/// Changes a volume with `fsGroup` as kubelet does when it mounts it.
fn pass_of_kubelet(path: &Path) {
    chown(path, None, Some(GROUP)).unwrap();
    let more = if path.is_dir() { 0o2770 } else { 0o660 };
    chmod(path, mode(path) | more);
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| pass_of_kubelet(&entry.unwrap().path()));
    }
}

#[test]
fn a_volume_of_a_cluster_is_set_up_and_served_by_any_user_of_its_group() {
    if !is_root() {
        eprintln!("SKIPPED volumes: only root can make folders of other users");
        return;
    }
    let place = DeployedSetup::new();
    let volume = place.root.path().join("volume");
    fs::create_dir(&volume).unwrap();
    fs::create_dir(volume.join("lost+found")).unwrap();
    let groups = format!("--groups={GROUP}");
    let run = |user, line: &[&str], flag: Option<&str>, data: &Path| {
        let mut command = place.command("svc", line, data);
        flag_of(&mut command, flag).env("SVC_LOG", "warn");
        place.run_as(user, &groups, &command)
    };
    let empty = |volume: &Path| fs::read_dir(volume).unwrap().count() == 1;
    // Root owns it, and the group may write.
    chmod(&volume, 0o755);
    pass_of_kubelet(&volume);
    assert_eq!(mode(&volume), 0o2775);
    let refused = run(SOMEBODY, &["init"], None, &volume);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for wanted in
        ["(owner 0, group 2000, mode 2775)", "`chmod go-w ", "set SVC_DATA_GROUP_ACCESS=1", "/volume/svc"]
    {
        assert!(refused.err.contains(wanted), "{wanted}: {refused:?}");
    }
    assert!(empty(&volume), "something was left");
    let made = run(SOMEBODY, &["init"], Some("1"), &volume);
    assert_eq!(made.code, Some(0), "{made:?}");
    let token = made.out.lines().find_map(|line| line.strip_prefix("token ")).unwrap().trim().to_owned();
    assert_eq!((mode(&volume.join("keys")), mode(&volume.join("svc.db"))), (0o2770, 0o660));
    pass_of_kubelet(&volume);
    let serve = |user, flag| {
        let mut command = place.command("svc", &["mcp-stdio"], &volume);
        flag_of(&mut command, flag).env("SVC_TOKEN", &token).env("SVC_LOG", "warn");
        place.run_as(user, &groups, &command)
    };
    for user in [SOMEBODY, SOMEBODY_ELSE] {
        let served = serve(user, Some("1"));
        assert_eq!((served.code, served.err.lines().count()), (Some(0), 1), "{served:?}");
        assert!(served.err.contains("and its group can read it: chmod o-rwx path="), "{served:?}");
        let refused = serve(user, None);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains("SVC_DATA_GROUP_ACCESS=1"), "{refused:?}");
    }
    // Other users never may.
    chmod(&volume.join("svc.db"), 0o666);
    let refused = serve(SOMEBODY, Some("1"));
    assert!(refused.code == Some(2) && refused.err.contains("`chmod o-w "), "{refused:?}");
    // A user who may write to the folder cannot permit that in it.
    chmod(&volume.join("svc.db"), 0o660);
    let settings = fs::read_to_string(volume.join("svc.env")).unwrap();
    fs::write(volume.join("svc.env"), format!("{settings}SVC_DATA_GROUP_ACCESS=1\n")).unwrap();
    let refused = serve(SOMEBODY, None);
    assert!(refused.code == Some(2) && refused.err.contains("set it in the environment"), "{refused:?}");
}

/// New files belong to the group of the folder, even if the folder is not set-group-id.
#[test]
fn what_is_created_in_a_folder_of_a_group_is_given_to_that_group() {
    if !is_root() {
        eprintln!("SKIPPED groups: only root can make folders of other groups");
        return;
    }
    let place = DeployedSetup::new();
    let folder = place.root.path().join("folder");
    let run = |user, groups: &str, line: &[&str], token: &str| {
        let mut command = place.command("svc", line, &folder);
        flag_of(&mut command, Some("1")).env("SVC_TOKEN", token).env("SVC_LOG", "warn");
        place.run_as(user, groups, &command)
    };
    let groups = format!("--groups={GROUP}");
    fs::create_dir(&folder).unwrap();
    chown(&folder, Some(SOMEBODY), Some(GROUP)).unwrap();
    chmod(&folder, 0o770);
    let refused = run(SOMEBODY, "--clear-groups", &["init"], "");
    assert_eq!((refused.code, fs::read_dir(&folder).unwrap().count()), (Some(2), 0), "{refused:?}");
    let fix = format!("or run `chgrp {SOMEBODY} {}` as root", folder.display());
    for wanted in ["folder/keys cannot be written: it cannot be given to group 2000, which ", &fix] {
        assert!(refused.err.contains(wanted), "{wanted}: {refused:?}");
    }
    let made = run(SOMEBODY, &groups, &["init"], "");
    assert_eq!(made.code, Some(0), "{made:?}");
    let token = made.out.lines().find_map(|line| line.strip_prefix("token ")).unwrap().trim().to_owned();
    for name in ["keys", "artifacts", "svc.env", "svc.db", "keys/content.kek"] {
        assert_eq!(folder.join(name).metadata().unwrap().gid(), GROUP, "{name}");
    }
    for user in [SOMEBODY, SOMEBODY_ELSE] {
        let served = run(user, &groups, &["mcp-stdio"], &token);
        assert_eq!(served.code, Some(0), "{served:?}");
    }
    let database = folder.join("svc.db");
    chown(&database, None, Some(SOMEBODY)).unwrap();
    let refused = run(SOMEBODY, &groups, &["mcp-stdio"], &token);
    let fix = format!("`chgrp {GROUP} {}`", database.display());
    assert!(refused.code == Some(2) && refused.err.contains(&fix), "{refused:?}");
}

fn flag_of<'c>(command: &'c mut Command, flag: Option<&str>) -> &'c mut Command {
    if let Some(flag) = flag {
        command.env("SVC_DATA_GROUP_ACCESS", flag);
    }
    command
}

#[test]
fn a_mount_of_root_is_used_or_the_error_says_what_to_do() {
    if !is_root() {
        eprintln!("SKIPPED mounts: only root can make folders of other users");
        return;
    }
    let place = DeployedSetup::new();
    let mount = place.root.path().join("mount");
    let init = |mode, data: &Path| {
        if !mount.exists() {
            fs::create_dir(&mount).unwrap();
        }
        chmod(&mount, mode);
        let outcome = place.run_as(SOMEBODY, "--clear-groups", &place.command("svc", &["init"], data));
        assert!(!outcome.err.contains("internal error"), "{outcome:?}");
        outcome
    };
    let refused = init(0o777, &mount);
    assert_eq!((refused.code, fs::read_dir(&mount).unwrap().count()), (Some(2), 0), "{refused:?}");
    let inside = mount.join("svc");
    for wanted in ["(owner 0, group 0, mode 0777)", "`chmod go-w ", &format!("--data {}", inside.display())] {
        assert!(refused.err.contains(wanted), "{wanted}: {refused:?}");
    }
    let made = init(0o1777, &inside);
    assert_eq!((made.code, mode(&inside)), (Some(0), 0o700), "{made:?}");
    fs::remove_dir_all(&mount).unwrap();
    let refused = init(0o755, &mount);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for wanted in ["denies this user access (owner 0, group 0, mode 0755)", "`chown 65534:65534 "] {
        assert!(refused.err.contains(wanted), "{wanted}: {refused:?}");
    }
    // A system folder is not given away.
    let refused = init(0o755, Path::new("/svc-data-of-a-test"));
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let fix = "`install -d -m 700 -o 65534 -g 65534 /svc-data-of-a-test` as root";
    assert!(refused.err.contains("/ denies this user access") && refused.err.contains(fix), "{refused:?}");
    // A separate folder in a volume, whose owner alone may change the mode of its files.
    chown(&mount, None, Some(SOMEBODY)).unwrap();
    let refused = init(0o770, &mount);
    assert!(refused.code == Some(2) && refused.err.contains("SVC_DATA_GROUP_ACCESS=1"), "{refused:?}");
    // Root itself.
    fs::remove_dir_all(&mount).unwrap();
    fs::create_dir(&mount).unwrap();
    chmod(&mount, 0o755);
    let made = run(&mut place.command("svc", &["init"], &mount));
    assert_eq!((made.code, mode(&mount)), (Some(0), 0o700), "{made:?}");
}

/// Runs a script of mounts before a program, in a separate namespace. Returns `None` where that is not
/// allowed.
fn among_mounts(script: &str, data: &Path, command: &Command) -> Option<Command> {
    let is_possible = is_root() && run(Command::new("unshare").args(["-m", "true"])).code == Some(0);
    if !is_possible {
        eprintln!("SKIPPED mounts: this user may not mount");
        return None;
    }
    let script = format!(
        "set -e; data=$0; {script}; exec setpriv --reuid={SOMEBODY} --regid={SOMEBODY} \
        --clear-groups -- \"$@\""
    );
    let data = data.display().to_string();
    Some(through("unshare", &["-m", "sh", "-c", &script, &data], command))
}

#[test]
fn a_read_only_root_is_enough_and_what_is_full_or_read_only_is_named() {
    const READ_ONLY_ROOT: &str = "mount --bind \"$data\" \"$data\"; for at in / /tmp; do \
        ! mountpoint -q $at || mount -o remount,bind,ro $at; done";
    let place = DeployedSetup::new();
    let data = place.copy();
    let ready = place.command("svc", &["verify"], &data);
    let Some(mut verify) = among_mounts(READ_ONLY_ROOT, &data, &ready) else { return };
    let verified = run(&mut verify);
    assert_eq!(verified.code, Some(0), "{verified:?}");
    // Its sort files are in the folder for temporary files, which its error names.
    let state = place.command("svc", &["verify", "--state"], &data);
    let refused = run(&mut among_mounts(READ_ONLY_ROOT, &data, &state).unwrap());
    assert!(refused.code == Some(2) && refused.err.contains("TMPDIR"), "{refused:?}");
    assert!(refused.err.contains("read-only file system"), "{refused:?}");
    let mut state = among_mounts(READ_ONLY_ROOT, &data, &state).unwrap();
    let compared = run(state.env("TMPDIR", &data));
    assert_eq!(compared.code, Some(0), "{compared:?}");
    // A server needs only the data folder, also for uploads.
    let file = data.join("team.json").display().to_string();
    let export = place.command("svc", &["export", "--as-instance", "--output", &file], &data);
    let exported = run(&mut among_mounts(READ_ONLY_ROOT, &data, &export).unwrap());
    assert_eq!(exported.code, Some(0), "{exported:?}");
    let mut serve = place.command("svc-http", &["--listen", "127.0.0.1:0"], &data);
    serve.env("SVC_IMPORT_MAX_BYTES", "1048576");
    let mut server =
        svc_tests::site::Server::begin(&mut among_mounts(READ_ONLY_ROOT, &data, &serve).unwrap());
    let export = fs::read_to_string(data.join("team.json")).unwrap();
    let export = serde_json::from_str(&export).unwrap();
    let path = "/workspaces/import?mode=new";
    let answer = server.rest.send(Some(&place.site.founders.admin), "POST", path, &[], Some(&export));
    assert!(answer.status < 300, "{answer:?}");
    assert!(data.join("spool").is_dir(), "{answer:?}");
    server.running.end();
    // Nothing in the folder can be written.
    let read_only = "mount --bind \"$data\" \"$data\"; mount -o remount,bind,ro \"$data\"";
    let start = place.command("svc", &["mcp-stdio"], &data);
    let refused = run(&mut among_mounts(read_only, &data, &start).unwrap());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for wanted in ["must be writable for this user", "it is on a read-only file system (owner 65534"] {
        assert!(refused.err.contains(wanted), "{wanted}: {refused:?}");
    }
    // The disk has no space.
    let full = "mount -t tmpfs -o size=64k,mode=0700,uid=65534,gid=65534 tmpfs \"$data\"";
    let init = place.command("svc", &["init"], &data);
    let refused = run(&mut among_mounts(full, &data, &init).unwrap());
    assert!(matches!(refused.code, Some(1 | 2)), "{refused:?}");
    assert!(
        refused.err.contains(&format!("the disk of {} is full: make room", data.display())),
        "{refused:?}"
    );
}

/// The variables of a Service called `svc` with two ports, and of one called `svc-http`.
const INJECTED: [(&str, &str); 9] = [
    ("SVC_SERVICE_HOST", "10.96.0.7"),
    ("SVC_SERVICE_PORT", "8080"),
    ("SVC_SERVICE_PORT_HTTP", "8080"),
    ("SVC_PORT", "tcp://10.96.0.7:8080"),
    ("SVC_PORT_8080_TCP", "tcp://10.96.0.7:8080"),
    ("SVC_PORT_8080_TCP_PROTO", "tcp"),
    ("SVC_PORT_8080_TCP_PORT", "8080"),
    ("SVC_PORT_8080_TCP_ADDR", "10.96.0.7"),
    ("SVC_HTTP_PORT", "tcp://10.96.0.8:80"),
];

#[test]
fn variables_of_a_cluster_are_ignored_with_one_line_and_others_are_refused() {
    let site = Site::found(Engine::Sqlite);
    let said = |log: &str| {
        log.matches("ignored the variables that Kubernetes sets for a Service: SVC_HTTP_PORT, ").count()
    };
    for (name, arguments) in STARTS {
        let mut command = site.command(name, arguments);
        command.env("SVC_TOKEN", &site.founders.agent).envs(INJECTED);
        let mut running = RunningProgram::start(&mut command);
        if name == "svc-http" {
            running.next_line();
            running.end();
        }
        let outcome = running.ended();
        assert_eq!((outcome.code, said(&outcome.err)), (Some(0), 1), "{name} {arguments:?}: {outcome:?}");
        for (variable, value) in
            [("SVC_PORT", "8080"), ("SVC_SERVICE_HOST", "svc.example"), ("SVC_LISTEN_ADR", "x")]
        {
            let refused =
                RunningProgram::start(site.command(name, arguments).envs(INJECTED).env(variable, value))
                    .ended();
            assert_eq!(refused.code, Some(2), "{name} {variable}: {refused:?}");
            assert!(refused.err.contains(&format!("unknown variable {variable}")), "{refused:?}");
        }
    }
    let settings = fs::read_to_string(site.path().join("svc.env")).unwrap();
    fs::write(site.path().join("svc.env"), format!("{settings}SVC_PORT=tcp://10.96.0.7:8080\n")).unwrap();
    let refused = site.svc(&["verify"]);
    assert!(
        refused.code == Some(2) && refused.err.contains("unknown variable SVC_PORT in svc.env"),
        "{refused:?}"
    );
}

#[test]
fn what_an_address_says_to_other_programs_is_ignored_with_one_line() {
    let place = Site::found(Engine::Sqlite);
    let url = "postgres://u:hunter2@127.0.0.1:1/d?connection_limit=5&schema=public&pool_timeout=1\n";
    let mut command = place.command("svc", &["mcp-stdio"]);
    let outcome =
        RunningProgram::start(command.env("SVC_TOKEN", &place.founders.agent).env("DATABASE_URL", url))
            .ended();
    assert_eq!(outcome.code, Some(1), "{outcome:?}");
    let line = "ignored what DATABASE_URL says to other programs: connection_limit, pool_timeout";
    assert!(outcome.err.contains(line) && outcome.err.contains("cannot be reached"), "{outcome:?}");
    assert!(!outcome.err.contains("hunter2"), "{outcome:?}");
}
