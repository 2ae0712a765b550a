//! A site: a data folder and a database as `svc init` leaves them, and the real programs on them.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use secrecy::ExposeSecret;
use serde_json::Value;
use svc_core::signed_note::NoteSigner;
use svc_core::time::Clock;
use svc_core::{Database, Engine, RateSettings, Service, ServiceOptions};
use tempfile::TempDir;

use crate::client::Answer;
use crate::client::rest::Rest;
use crate::database::TestDatabase;
use crate::process::{ExitedProgram, RunningProgram, program, run};
use crate::world::{SIGNS, answer_of, call, text};

/// The members after a set-up.
#[derive(Clone, Debug)]
pub struct Founders {
    /// The first workspace.
    pub workspace_id: String,
    /// Its administrator.
    pub admin_id: String,
    /// The secret of the administrator's token.
    pub admin: String,
    /// The first agent.
    pub agent_id: String,
    /// The secret of the agent's token.
    pub agent: String,
}

impl Founders {
    fn read(printed: &Value) -> Self {
        Self {
            workspace_id: text(&printed["workspace"]["id"]),
            admin_id: text(&printed["admin"]["id"]),
            admin: text(&printed["token"]["secret"]),
            agent_id: text(&printed["agent"]["id"]),
            agent: text(&printed["agent_token"]["secret"]),
        }
    }
}

/// A data folder with its database.
pub struct Site {
    /// The database.
    pub database: TestDatabase,
    /// The members after the set-up.
    pub founders: Founders,
    folder: Folder,
}

/// The data folder: on SQLite it is the one that the database is in.
enum Folder {
    OfDatabase(PathBuf),
    Own(TempDir),
}

impl Folder {
    fn of(database: &TestDatabase) -> Self {
        match database.file() {
            Some(file) => Self::OfDatabase(file.parent().unwrap().to_owned()),
            None => Self::Own(tempfile::tempdir().unwrap()),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::OfDatabase(path) => path,
            Self::Own(folder) => folder.path(),
        }
    }
}

impl Site {
    /// Runs `svc init` on an empty database.
    pub fn found(engine: Engine) -> Self {
        let database = TestDatabase::on(engine);
        let folder = Folder::of(&database);
        let outcome = run(&mut ours("svc", &["init", "--json"], folder.path(), &database));
        assert_eq!(outcome.code, Some(0), "svc init: {outcome:?}");
        let printed: Value =
            serde_json::from_str(&outcome.out).unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
        Self { database, founders: Founders::read(&printed), folder }
    }

    /// Returns the data folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the engine beneath.
    pub fn engine(&self) -> Engine {
        self.database.engine()
    }

    /// Returns the key-encryption key.
    pub fn kek(&self) -> [u8; 32] {
        let digits = std::fs::read_to_string(self.path().join("keys/content.kek")).unwrap();
        hex::decode(digits.trim()).unwrap().try_into().unwrap()
    }

    /// Runs `svc` with these arguments to its end.
    pub fn svc(&self, arguments: &[&str]) -> ExitedProgram {
        run(&mut self.command("svc", arguments))
    }

    /// Returns one of our programs with these arguments, on this site.
    pub fn command(&self, name: &str, arguments: &[&str]) -> Command {
        ours(name, arguments, self.path(), &self.database)
    }

    /// Starts a server, with variables in addition to those of the tests.
    pub fn serve(&self, variables: &[(&str, &str)]) -> Server {
        let mut command = self.command("svc-http", &["--listen", "127.0.0.1:0"]);
        Server::begin(command.envs(variables.iter().copied()))
    }

    /// Starts `svc mcp-stdio` for the bearer of `token`.
    pub fn mcp_stdio(&self, token: &str) -> RunningProgram {
        RunningProgram::start(self.command("svc", &["mcp-stdio"]).env("SVC_TOKEN", token))
    }

    /// Starts an independent client for the bearer of `token`; it starts `svc mcp-stdio` in turn.
    pub fn outside_agent(&self, python: &str, token: &str) -> RunningProgram {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/py/mcp_agent.py");
        let mut command = command(python, &[script], &self.database);
        RunningProgram::start(
            command.arg(program("svc")).arg("--data").arg(self.path()).env("SVC_TOKEN", token),
        )
    }

    /// Opens the service in this process.
    pub fn open(&self) -> Service {
        self.open_at(Clock::system())
    }

    /// Opens the service in this process, with a key to sign with.
    pub fn open_signing(&self) -> Service {
        self.open_where(|options| options.settings.signer = Some(NoteSigner::new(&SIGNS)))
    }

    /// Opens the service in this process, with this clock.
    pub fn open_at(&self, clock: Clock) -> Service {
        self.open_where(|options| options.clock = clock)
    }

    fn open_where(&self, change: impl FnOnce(&mut ServiceOptions)) -> Service {
        let mut options = ServiceOptions::new(self.database.address(), self.kek());
        change(&mut options);
        options.rates = RateSettings { per_client: 0, per_workspace: 0, ..RateSettings::default() };
        Service::with_options(options).unwrap_or_else(|error| panic!("{error}: {:?}", error.cause()))
    }
}

/// Calls an operation in process. The call must succeed.
#[track_caller]
pub fn done(service: &Service, token: &str, operation: &str, input: Value) -> Value {
    answer_of(call(service, Some(token), operation, &input)).output()
}

/// Returns one of our programs on a data folder and a database.
fn ours(name: &str, arguments: &[&str], folder: &Path, database: &TestDatabase) -> Command {
    let mut command = command(program(name), arguments, database);
    command.arg("--data").arg(folder);
    command
}

/// Returns a program in an environment that has the variables of a site and no other variables of svc.
pub fn command(program: impl AsRef<OsStr>, arguments: &[&str], database: &TestDatabase) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    for (variable, _) in std::env::vars_os() {
        let ours = variable
            .to_str()
            .is_some_and(|name| name.starts_with("SVC_") || name.starts_with("DATABASE_URL"));
        if ours {
            command.env_remove(variable);
        }
    }
    command.env("SVC_RATE_LIMIT_MAX", "0").env("SVC_WORKSPACE_RATE_LIMIT_MAX", "0");
    // Tests must not depend on the free space of this machine's disk.
    command.env("SVC_DISK_RESERVE_BYTES", "0");
    if let Database::Postgres(address) = database.address() {
        command.env("DATABASE_URL", address.expose_secret());
    }
    command
}

/// Returns the command, started by another program that changes its limits or its user.
pub fn through(program: &str, arguments: &[&str], command: &Command) -> Command {
    let mut other = Command::new(program);
    other.args(arguments).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    other
}

fn address_in(line: &str) -> Option<SocketAddr> {
    let words = line.split_whitespace().map(|word| word.trim_start_matches("http://").trim_end_matches('/'));
    words.filter_map(|word| word.parse().ok()).next()
}

/// A running server on a site.
pub struct Server {
    /// The process.
    pub running: RunningProgram,
    /// A client of it.
    pub rest: Rest,
}

impl Server {
    /// Starts the server of a command, and waits until it listens.
    pub fn begin(command: &mut Command) -> Self {
        let mut running = RunningProgram::start(command);
        let line = running.next_line();
        let address = address_in(&line).unwrap_or_else(|| panic!("no address in the first line: {line}"));
        Self { running, rest: Rest { address } }
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.rest.address
    }

    /// Returns a caller of this server.
    pub fn caller<'a>(&self, token: &'a str) -> Caller<'a> {
        Caller { rest: self.rest, token }
    }
}

/// A caller of a server, by method and path.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    rest: Rest,
    token: &'a str,
}

impl Caller<'_> {
    /// Sends a request and returns its response.
    pub fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> Answer {
        self.rest.send(Some(self.token), method, target, &[], body)
    }

    /// Gets an object that must exist.
    #[track_caller]
    pub fn get(&self, target: &str) -> Value {
        self.ask("GET", target, None).output()
    }

    /// Sends a POST request, which must succeed.
    #[track_caller]
    pub fn post(&self, target: &str, body: Value) -> Value {
        self.ask("POST", target, Some(&body)).output()
    }

    /// Sends a PUT request, which must succeed.
    #[track_caller]
    pub fn put(&self, target: &str, body: Value) -> Value {
        self.ask("PUT", target, Some(&body)).output()
    }
}
