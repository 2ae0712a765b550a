//! The built `svc` program: its output, its files and its exit codes.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use svc_core::data_access::DataAccess;
use svc_core::data_dir::DataDir;
use svc_core::entropy::Entropy;
use svc_core::{Database, Engine};
use svc_tests::database::{TestDatabase, engines};
use tempfile::TempDir;

/// A folder to set up, and the database of its rows.
struct SetupFolder {
    root: TempDir,
    database: Option<TestDatabase>,
}

/// The end of a command.
#[derive(Debug)]
struct CommandEnd {
    code: i32,
    out: String,
    err: String,
}

impl CommandEnd {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl SetupFolder {
    fn on(engine: Engine) -> Self {
        let database = (engine == Engine::Postgres).then(TestDatabase::postgres);
        Self { root: tempfile::tempdir().unwrap(), database }
    }

    fn set_up(engine: Engine) -> (Self, Value) {
        let place = Self::on(engine);
        let ended = place.run(&["init", "--json"], &[]);
        assert_eq!(ended.code, 0, "{ended:?}");
        let made = ended.json();
        (place, made)
    }

    fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    fn execute(&self, sql: &str) {
        match &self.database {
            Some(database) => database.execute(sql),
            None => {
                rusqlite::Connection::open(self.data().join("svc.db")).unwrap().execute_batch(sql).unwrap()
            }
        }
    }

    fn url(&self) -> Option<String> {
        match self.database.as_ref()?.address() {
            Database::Postgres(url) => Some(url.expose_secret().to_owned()),
            Database::Sqlite(_) => None,
        }
    }

    /// Runs `svc` on the folder, with `vars` set and no other variable of svc.
    fn run(&self, arguments: &[&str], vars: &[(&str, &str)]) -> CommandEnd {
        self.run_on(&self.data(), arguments, vars, "")
    }

    fn run_on(&self, data: &Path, arguments: &[&str], vars: &[(&str, &str)], input: &str) -> CommandEnd {
        let mut command = Command::new(program());
        command.args(arguments).env_clear().envs(vars.iter().copied());
        if arguments.first() != Some(&"contract") {
            command.arg("--data").arg(data);
        }
        if let Some(url) = self.url() {
            command.env("DATABASE_URL", url);
        }
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        CommandEnd {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Returns the path of the program, which is built along with the tests.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().and_then(Path::parent).unwrap().join("svc");
    assert!(program.exists(), "{} is not built: cargo build --workspace --bins", program.display());
    program
}

fn on_both_engines(test: impl Fn(Engine)) {
    engines().into_iter().for_each(test);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Returns every file below `path`, with its mode.
fn files(path: &Path) -> Vec<(PathBuf, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            found.push((path, mode));
        }
    }
    found.sort();
    found
}

#[test]
fn a_set_up_prints_everything_once_and_leaves_private_files() {
    on_both_engines(|engine| {
        let (place, made) = SetupFolder::set_up(engine);
        assert_eq!(made["data_dir"], json!(place.data()));
        assert_eq!(
            (&made["workspace"]["name"], &made["admin"]["handle"]),
            (&json!("Workspace"), &json!("admin"))
        );
        assert_eq!(made["agent"]["handle"], "worker");
        for token in ["token", "agent_token"] {
            assert!(text(&made[token]["secret"]).starts_with("svc_") && made[token]["id"].is_string());
        }
        let files = files(&place.data());
        assert!(files.iter().all(|(_, mode)| *mode == 0o600), "{files:?}");
        assert_eq!(place.data().join("svc.db").exists(), engine == Engine::Sqlite);
        for (file, _) in files.iter().filter(|(file, _)| !file.ends_with("svc.db")) {
            let content = fs::read_to_string(file).unwrap();
            assert!(!content.contains("postgres://") && !content.contains("svc_"), "{}", file.display());
        }
    });
}

#[test]
fn a_second_set_up_is_rejected_and_changes_nothing() {
    on_both_engines(|engine| {
        let (place, _) = SetupFolder::set_up(engine);
        let heads = place.run(&["verify", "--json"], &[]).json();
        let before = files(&place.data());
        let again = place.run(&["init", "--json"], &[]);
        assert_eq!((again.code, again.out.as_str()), (5, ""));
        let problem: Value = serde_json::from_str(&again.err).unwrap();
        assert_eq!(problem["type"], "/problems/already-initialised");
        assert_eq!(files(&place.data()), before);
        if engine == Engine::Postgres {
            let other = place.root.path().join("other");
            assert_eq!(place.run_on(&other, &["init"], &[], "").code, 5);
            assert!(!other.exists());
        }
        assert_eq!(place.run(&["verify", "--json"], &[]).json(), heads);
    });
}

#[test]
fn an_interrupted_set_up_is_not_used_and_can_be_repeated() {
    on_both_engines(|engine| {
        let place = SetupFolder::on(engine);
        drop(DataDir::create(&place.data(), DataAccess::Owner, &Entropy::System).unwrap());
        if engine == Engine::Sqlite {
            assert_eq!(place.run(&["token", "mint", "--member", "admin", "--as-instance"], &[]).code, 5);
        }
        assert_eq!(place.run(&["init"], &[]).code, 0);
        assert_eq!(place.run(&["token", "mint", "--member", "admin", "--as-instance"], &[]).code, 0);
    });
}

#[test]
fn a_failed_set_up_leaves_nothing_behind() {
    let place = SetupFolder::on(Engine::Sqlite);
    let refused: [(&[&str], &[(&str, &str)]); 4] = [
        (&["init", "--admin", "not a handle"], &[]),
        (&["init", "--name", ""], &[]),
        (&["init"], &[("SVC_LISTEN_ADR", "x")]),
        (&["init"], &[("SVC_CONTENT_KEK", "short")]),
    ];
    for (arguments, vars) in refused {
        let ended = place.run(arguments, vars);
        assert_eq!(ended.code, 2, "{arguments:?}: {ended:?}");
        assert!(!place.data().exists(), "{arguments:?}");
    }
    let unreachable = [("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none")];
    assert_eq!(place.run(&["init"], &unreachable).code, 1);
    assert!(!place.data().exists());
}

/// The seed of a signing key, and another.
const SIGNING: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const OTHER: &str = "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb";
/// The public key of the first, from section 7.1 of RFC 8032.
const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

#[test]
fn a_checkpoint_is_signed_and_verified_without_a_token() {
    on_both_engines(|engine| {
        let (place, made) = SetupFolder::set_up(engine);
        let signs = [("SVC_EXPORT_SIGNING_KEY", SIGNING)];
        assert_eq!(place.run(&["checkpoint"], &[]).code, 0, "by the key that the set-up has made");
        assert_eq!(place.run(&["checkpoint"], &[("SVC_EXPORT_SIGNING_KEY", "short")]).code, 2);
        let signed = place.run(&["checkpoint"], &signs);
        assert_eq!((signed.code, signed.err.as_str()), (0, ""));
        let workspace = text(&made["workspace"]["id"]);
        assert!(signed.out.starts_with(&format!("svc/{workspace}\n")), "{}", signed.out);
        let printed = place.run(&["checkpoint", "--json", "--workspace", workspace], &signs).json();
        assert_eq!(printed["note"], signed.out);
        assert!(text(&printed["verifier_key"]).starts_with(&format!("svc/{workspace}+")));
        let file = place.root.path().join("checkpoint");
        let file = file.to_str().unwrap();
        fs::write(file, &signed.out).unwrap();
        let verify = |more: &[&str], vars: &[(&str, &str)]| {
            place.run(&[&["verify", "--json", "--checkpoint", file], more].concat(), vars)
        };
        for (more, vars) in [
            (&["--key", PUBLIC][..], &[][..]),
            (&[], &signs[..]),
            (&[], &[("SVC_EXPORT_VERIFY_KEYS", PUBLIC)]),
            (&[], &[("SVC_EXPORT_SIGNING_KEY", OTHER), ("SVC_EXPORT_VERIFY_KEYS", PUBLIC)]),
        ] {
            let found = verify(more, vars);
            assert_eq!(
                (found.code, &found.json()["logs"][0]["expected"]),
                (0, &json!("contained")),
                "{found:?}"
            );
        }
        for (more, vars) in [
            (&[][..], &[][..]),
            (&[], &[("SVC_EXPORT_SIGNING_KEY", OTHER)]),
            (&["--key", OTHER], &signs[..]),
            (&["--key", "short"], &signs[..]),
            (&["--expect-head", "1:00"], &signs[..]),
        ] {
            assert_eq!(verify(more, vars).code, 2, "{more:?} {vars:?}");
        }
        fs::write(file, signed.out.replace("svc/", "svd/")).unwrap();
        assert_eq!(verify(&[], &signs).code, 2);
        let settings = place.data().join("svc.env");
        let without: String = fs::read_to_string(&settings)
            .unwrap()
            .lines()
            .filter(|line| !line.contains("EXPORT"))
            .fold(String::new(), |text, line| text + line + "\n");
        fs::write(&settings, without).unwrap();
        let unsigned = place.run(&["checkpoint"], &[]);
        assert_eq!((unsigned.code, unsigned.out.as_str()), (5, ""));
        assert!(unsigned.err.contains("SVC_EXPORT_SIGNING_KEY"), "{unsigned:?}");
        fs::remove_file(file).unwrap();
        let missing = verify(&[], &signs);
        assert!(missing.code == 2 && missing.err.contains("cannot be read"), "{missing:?}");
    });
}

#[test]
fn a_log_is_verified_without_keys_against_a_kept_head() {
    on_both_engines(|engine| {
        let (place, made) = SetupFolder::set_up(engine);
        fs::remove_dir_all(place.data().join("keys")).unwrap();
        let found = place.run(&["verify", "--json"], &[]);
        assert_eq!(found.code, 0, "{found:?}");
        assert_eq!(found.json()["valid"], true);
        let workspace = text(&made["workspace"]["id"]);
        let logs = found.json()["logs"].as_array().unwrap().clone();
        let log = logs.iter().find(|log| log["workspace_id"] == workspace).unwrap();
        let lsn = log["head"]["lsn"].as_i64().unwrap();
        let hash = text(&log["head"]["hash"]);
        let check = |head: String| {
            place.run(&["verify", "--json", "--workspace", workspace, "--expect-head", &head], &[])
        };
        assert_eq!(check(format!("{lsn}:{hash}")).code, 0);
        let other = check(format!("{}:{hash}", lsn + 1));
        assert_eq!((other.code, &other.json()["valid"]), (3, &json!(false)));
        assert_eq!(check("1:no-hash".to_owned()).code, 2);
    });
    let nothing = SetupFolder::on(Engine::Sqlite);
    assert_eq!(nothing.run(&["verify"], &[]).code, 4);
    assert!(!nothing.data().exists());
}

#[test]
fn tokens_are_minted_as_the_caller_or_as_the_instance() {
    on_both_engines(|engine| {
        let (place, made) = SetupFolder::set_up(engine);
        let admin = [("SVC_TOKEN", text(&made["token"]["secret"]))];
        let mint = ["token", "mint", "--json", "--member", "worker"];
        let refused: [(&[(&str, &str)], i32); 3] = [
            (&[], 6),
            (&[("SVC_TOKEN", "svc_unknown")], 6),
            (&[("SVC_TOKEN", text(&made["agent_token"]["secret"]))], 6),
        ];
        for (vars, code) in refused {
            assert_eq!(place.run(&mint, vars).code, code, "{vars:?}");
        }
        // An error of the credential comes first.
        let wrong =
            ["token", "mint", "--member", "bad handle", "--workspace", text(&made["workspace"]["id"])];
        assert_eq!(place.run(&wrong, &[("SVC_TOKEN", "svc_unknown")]).code, 6);
        let unlabelled = [mint.as_slice(), &["--label", ""]].concat();
        assert_eq!(place.run(&unlabelled, &[("SVC_TOKEN", text(&made["agent_token"]["secret"]))]).code, 6);
        for authority in [vec![], vec!["--as-instance"]] {
            for (arguments, field) in [(&wrong[..], "`member`: "), (&unlabelled, "`label`: ")] {
                let garbled = place.run(&[arguments, &authority].concat(), &admin);
                assert!(garbled.code == 2 && garbled.err.contains(field), "{garbled:?}");
            }
        }
        let minted = place
            .run(&[mint.as_slice(), &["--capabilities", "token:admin", "--label", "ci"]].concat(), &admin);
        assert_eq!(minted.code, 0, "{minted:?}");
        assert_eq!(minted.json()["capabilities"], json!(["token:admin"]));
        let secret = minted.json();
        let too_much = [mint.as_slice(), &["--capabilities", "operator:global"]].concat();
        assert_eq!(place.run(&too_much, &[("SVC_TOKEN", text(&secret["secret"]))]).code, 6);
        let set = place.run(&[mint.as_slice(), &["--set", "svc.agent.worker"]].concat(), &admin);
        assert_eq!(set.json()["capabilities"].as_array().unwrap().len(), 7);
        let by_instance = place.run(&[mint.as_slice(), &["--as-instance"]].concat(), &[]);
        assert!(text(&by_instance.json()["secret"]).starts_with("svc_"), "{by_instance:?}");
        assert_eq!(place.run(&["token", "mint", "--member", "nobody"], &admin).code, 4);
    });
}

#[test]
fn members_are_frozen_and_unfrozen_as_the_caller_or_as_the_instance() {
    on_both_engines(|engine| {
        let (place, made) = SetupFolder::set_up(engine);
        let admin = [("SVC_TOKEN", text(&made["token"]["secret"]))];
        let agent = [("SVC_TOKEN", text(&made["agent_token"]["secret"]))];
        let freeze = ["freeze", "--json", "--member", "worker", "--reason", "It loops."];
        let unfreeze = ["unfreeze", "--json", "--member", "worker"];
        for (vars, code) in [(&[][..], 6), (&[("SVC_TOKEN", "svc_unknown")], 6), (&agent, 6)] {
            assert_eq!(place.run(&freeze, vars).code, code, "{vars:?}");
        }
        for authority in [vec![], vec!["--as-instance"]] {
            let run = |arguments: &[&str]| place.run(&[arguments, &authority].concat(), &admin);
            let frozen = run(&freeze);
            assert_eq!(frozen.code, 0, "{frozen:?}");
            let by = if authority.is_empty() { made["admin"]["id"].clone() } else { Value::Null };
            let frozen = frozen.json();
            assert_eq!((&frozen["frozen_by"], &frozen["reason"]), (&by, &json!("It loops.")));
            assert_eq!((&frozen["handle"], &frozen["claims_released"]), (&json!("worker"), &json!(0)));
            let mine = ["unfreeze", "--member", "worker"];
            assert_eq!(place.run(&mine, &agent).code, 6, "it lacks the capability");
            assert_eq!(run(&unfreeze).json()["frozen"], json!(false));
            let told = run(&["freeze", "--member", "worker"]);
            assert_eq!(told.out, "worker is frozen. Claims released: 0.\n");
            assert_eq!(run(&["unfreeze", "--member", "worker"]).out, "worker is not frozen.\n");
            assert_eq!(run(&["freeze", "--member", "nobody"]).code, 4);
            assert_eq!(run(&["freeze", "--member", "bad handle"]).code, 2);
            let garbled = run(&["freeze", "--member", "worker", "--reason", ""]);
            assert!(garbled.code == 2 && garbled.err.contains("`reason`: "), "{garbled:?}");
        }
        let oneself = place.run(&["freeze", "--member", "admin"], &admin);
        assert_eq!(oneself.code, 6, "{oneself:?}");
    });
}

/// Directories and sign-ins create people whose handles are never typed, and the service assigns the handles
/// of apps.
#[test]
fn any_member_is_named_by_its_handle_in_any_case() {
    on_both_engines(|engine| {
        let (place, made) = SetupFolder::set_up(engine);
        let admin = [("SVC_TOKEN", text(&made["token"]["secret"]))];
        let mut called = "worker";
        for (handle, named, minted) in [
            ("ada@corp.example", "Ada@Corp.Example", 0),
            ("ädä@corp.example", "ÄDÄ@corp.example", 0),
            ("app:triage", "App:Triage", 5),
        ] {
            place.execute(&format!("update members set handle = '{handle}' where handle = '{called}'"));
            called = handle;
            for command in ["freeze", "unfreeze"] {
                for authority in [vec![], vec!["--as-instance"]] {
                    let run = [&[command, "--json", "--member", named], &*authority].concat();
                    let done = place.run(&run, &admin);
                    assert_eq!((done.code, &done.json()["handle"]), (0, &json!(handle)), "{run:?} {done:?}");
                }
            }
            for authority in [vec![], vec!["--as-instance"]] {
                let run = [&["token", "mint", "--member", named], &*authority].concat();
                let done = place.run(&run, &admin);
                assert_eq!(done.code, minted, "{run:?} {done:?}");
            }
        }
    });
}

/// Runs `svc` on the folder with an output that cannot be written.
fn run_mute(place: &SetupFolder, arguments: &[&str], out: Stdio) -> CommandEnd {
    let mut command = Command::new(program());
    command.args(arguments).env_clear().stdin(Stdio::null()).stdout(out);
    if arguments.first() != Some(&"contract") {
        command.arg("--data").arg(place.data());
    }
    let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    CommandEnd { code: output.status.code().unwrap(), out: String::new(), err }
}

/// Returns a pipe without a reader.
fn broken_pipe() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

fn full_disk() -> Stdio {
    fs::OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn a_secret_that_could_not_be_shown_is_a_failure() {
    for out in [broken_pipe, full_disk] {
        let place = SetupFolder::on(Engine::Sqlite);
        let init = run_mute(&place, &["init"], out());
        let message = format!(
            "{} is set up, but the tokens could not be shown, so nobody has seen them: mint others with \
             `svc token mint --as-instance --member admin --data {}`",
            place.data().display(),
            place.data().display()
        );
        assert_eq!(
            (init.code, init.err.contains(&message), init.err.lines().count()),
            (1, true, 1),
            "{init:?}"
        );
        let mint = ["token", "mint", "--member", "worker", "--as-instance"];
        for arguments in [mint.to_vec(), [mint.as_slice(), &["--json"]].concat()] {
            let minted = run_mute(&place, &arguments, out());
            assert_eq!((minted.code, minted.err.lines().count()), (1, 1), "{minted:?}");
            assert!(
                minted.err.contains("was minted for worker, but its secret could not be shown"),
                "{minted:?}"
            );
        }
        assert_eq!(place.run(&mint, &[]).code, 0);
    }
    let place = SetupFolder::on(Engine::Sqlite);
    assert_eq!(
        run_mute(&place, &["contract", "operations"], broken_pipe()).code,
        0,
        "a reader that closes the pipe early is no error"
    );
    assert_eq!(run_mute(&place, &["contract", "operations"], full_disk()).code, 1);
}

#[test]
fn contracts_are_arrays() {
    let place = SetupFolder::on(Engine::Sqlite);
    for (what, key) in [("operations", "name"), ("events", "kind"), ("capabilities", "name")] {
        let plain = place.run(&["contract", what], &[]).json();
        assert_eq!(place.run(&["contract", what, "--json"], &[]).json(), plain);
        let names: Vec<&str> = plain.as_array().unwrap().iter().map(|row| text(&row[key])).collect();
        assert!(
            names.len() > 10
                && names.contains(&match what {
                    "operations" => "claim_next_thread",
                    "events" => "MessagePosted",
                    _ => "workspace:read",
                }),
            "{names:?}"
        );
    }
}

#[test]
fn an_agent_is_served_over_standard_input_and_output() {
    on_both_engines(|engine| {
        let (place, made) = SetupFolder::set_up(engine);
        let token = [("SVC_TOKEN", text(&made["agent_token"]["secret"]))];
        let ping = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n";
        let served = place.run_on(&place.data(), &["mcp-stdio"], &token, ping);
        assert_eq!((served.code, &served.json()["id"]), (0, &json!(7)), "{served:?}");
        assert_eq!(place.run(&["mcp-stdio"], &[]).code, 6);
    });
    let nothing = SetupFolder::on(Engine::Sqlite);
    assert_eq!(nothing.run(&["mcp-stdio"], &[("SVC_TOKEN", "svc_x")]).code, 4);
}

#[test]
fn a_misspelt_command_line_or_variable_is_reported() {
    let place = SetupFolder::on(Engine::Sqlite);
    assert_eq!(place.run(&["verfy"], &[]).code, 2);
    let ended = place.run(&["verify"], &[("SVC_TOKN", "x")]);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("did you mean SVC_TOKEN?"), "{}", ended.err);
}
