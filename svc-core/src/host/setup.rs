//! What only an administrator of the machine may ask of a service, without any token: to set it up, and to mint
//! a token for somebody who has none any more. Audited like everything else, as done by the instance. Here too is
//! what every shell begins with: from variables and a data folder to a service.

use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;

use crate::capability::{Capabilities, CapabilitySet};
use crate::config::Config;
use crate::data_dir::{self, DataDir, Setup};
use crate::entropy::Entropy;
use crate::error::{Code, Error, Result};
use crate::host::opening;
use crate::host::service::{Options, Service};
use crate::id::{MemberId, TokenId, WorkspaceId};
use crate::identity::members::Member;
use crate::identity::setup::{self, InstanceMint, SetupNames};
use crate::identity::tokens::MintedToken;
use crate::op::Surface;
use crate::store::refusal::refusal;
use crate::store::{Database, OpenMode, Opener};
use crate::text::{Handle, Text};
use crate::time::Time;

/// What a set-up has made. The secrets are shown this once.
#[derive(Clone, Debug, Serialize)]
pub struct Established {
    /// The first workspace.
    pub workspace: NamedWorkspace,
    /// Its administrator.
    pub admin: NamedMember,
    /// The administrator's token, which can do everything.
    pub token: IssuedToken,
    /// The first agent.
    pub agent: NamedMember,
    /// The agent's token, which can do what a worker does.
    pub agent_token: IssuedToken,
}

/// A workspace by id and name.
#[derive(Clone, Debug, Serialize)]
pub struct NamedWorkspace {
    pub id: WorkspaceId,
    pub name: String,
}

/// A member by id and handle.
#[derive(Clone, Debug, Serialize)]
pub struct NamedMember {
    pub id: MemberId,
    pub handle: String,
}

/// A token with its secret.
#[derive(Clone, Serialize)]
pub struct IssuedToken {
    pub id: TokenId,
    pub secret: String,
}

impl std::fmt::Debug for IssuedToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IssuedToken({})", self.id)
    }
}

/// The variables of a process, as the system has them.
pub type Variables = [(OsString, OsString)];

/// The service that `config` describes. Refuses what is not set up: a data folder, or a database without schema.
pub fn open(config: &Config) -> Result<Service> {
    if config.database_url.is_none() {
        DataDir::open(&config.data_dir)?;
    }
    for path in data_dir::open_to_others(&config.data_dir, &config.secret_files)? {
        tracing::warn!(path = %path.display(), "others than its owner can read it: chmod go-rwx");
    }
    Service::open(Options::configured(config)?)
}

/// The service that `variables` and `data_dir` describe, in bootstrap mode: a folder that was never set up, or a
/// database without schema, is begun, and the first workspace comes later, from whoever asks.
#[cfg(feature = "bootstrap")]
pub fn open_or_begin(variables: &Variables, data_dir: &Path) -> Result<(Config, Service)> {
    let read = || Config::read(variables.iter().cloned(), data_dir);
    let begin =
        |config: &Config| Service::open(Options { mode: OpenMode::Create, ..Options::configured(config)? });
    let config = read()?;
    if config.database_url.is_some() {
        let service = begin(&config)?;
        return Ok((config, service));
    }
    match DataDir::create(data_dir, &Entropy::System) {
        Ok(mut setup) => {
            setup.make_database()?;
            let config = read()?;
            let service = begin(&config)?;
            setup.finish()?;
            Ok((config, service))
        }
        Err(error) if error.code() == Code::AlreadyInitialised => {
            let service = open(&config)?;
            Ok((config, service))
        }
        Err(error) => Err(error),
    }
}

/// Sets up what `variables` and `data_dir` describe: the folder with its keys, the database, and in it the first
/// workspace, named `workspace`, with its administrator, called `admin`. Refuses what is set up already and then
/// changes nothing; after an interruption it can be repeated.
pub fn init(
    variables: &Variables,
    data_dir: &Path,
    workspace: &str,
    admin: &str,
) -> Result<(Config, Service, Established)> {
    // What can be refused without a trace is refused first.
    SetupNames::new(workspace, admin)?;
    Config::read(variables.iter().cloned(), data_dir)?;
    let mut setup = DataDir::create(data_dir, &Entropy::System)?;
    let config = Config::read(variables.iter().cloned(), data_dir)?;
    let own_database = config.database_url.is_none();
    if own_database {
        setup.make_database()?;
    }
    match begin(&config, workspace, admin) {
        Ok((service, made)) => {
            setup.finish()?;
            Ok((config, service, made))
        }
        Err(error) => Err(settle(setup, own_database, error)),
    }
}

fn begin(config: &Config, workspace: &str, admin: &str) -> Result<(Service, Established)> {
    let options = Options { mode: OpenMode::Create, ..Options::configured(config)? };
    if config.database_url.is_some() {
        // The folder says nothing about a database that lies elsewhere.
        check_is_new(&options.database)?;
    }
    let service = Service::open(options)?;
    let made = service.establish(workspace, admin)?;
    Ok((service, made))
}

fn check_is_new(database: &Database) -> Result<()> {
    let found = Opener::new(database).and_then(|opener| opening::check_is_new(&opener));
    found.map_err(|error| refusal(error, database))
}

/// Leaves a set-up that was refused in the right state. A workspace in the folder's own database can only have
/// been made by an earlier run of this set-up, which is thereby complete. Where another database has a workspace
/// or cannot be reached, the folder becomes what it was. After anything else the set-up can be gone on with.
fn settle(setup: Setup, own_database: bool, refusal: Error) -> Error {
    let settled = match (refusal.code(), own_database) {
        (Code::AlreadyInitialised, true) => setup.finish().map(drop),
        (Code::AlreadyInitialised | Code::Unavailable, false) => setup.undo(),
        _ => Ok(()),
    };
    settled.err().unwrap_or(refusal)
}

/// A token that the administrator of the machine asks for.
#[derive(Clone, Debug, Default)]
pub struct WantedToken {
    /// The workspace; may be left out while there is only one.
    pub workspace_id: Option<WorkspaceId>,
    /// The handle of the member that the token will act as.
    pub member: String,
    /// What it is for.
    pub label: Option<String>,
    /// What it can do.
    pub capabilities: Option<Capabilities>,
    /// A named set of what it can do, instead.
    pub capability_set: Option<CapabilitySet>,
    /// When it ends; it does not end by itself if left out.
    pub expires_at: Option<Time>,
}

impl Service {
    /// Creates the first workspace with a human administrator and a worker agent. Refuses, and changes nothing,
    /// when there is a workspace already.
    pub fn establish(&self, workspace: &str, admin: &str) -> Result<Established> {
        let names = SetupNames::new(workspace, admin)?;
        let run = move |cx: &mut crate::op::Write<'_>| setup::establish(cx, &names, Surface::Cli);
        let made = self.dispatch().as_instance(WorkspaceId::INSTANCE, Surface::Cli, run)?;
        Ok(Established {
            workspace: NamedWorkspace { id: made.workspace.id, name: made.workspace.name },
            admin: named(made.admin),
            token: issued(made.admin_token),
            agent: named(made.agent),
            agent_token: issued(made.agent_token),
        })
    }

    /// Mints a token by the authority of whoever administers the machine.
    pub fn mint_as_instance(&self, wanted: &WantedToken) -> Result<IssuedToken> {
        let refused =
            |what: &'static str| move |error: String| Error::malformed(format!("the {what}: {error}"));
        let named = wanted.workspace_id;
        // Known before the queue, so that the writer locks the head of this workspace and no other.
        let workspace_id = self.dispatch().read_as_instance(move |cx| setup::the_workspace(cx, named))?;
        let mint = InstanceMint {
            workspace_id,
            handle: Handle::new(&wanted.member).map_err(refused("member's handle"))?,
            label: wanted.label.clone().map(Text::new).transpose().map_err(refused("label"))?,
            capabilities: wanted.capabilities.or(wanted.capability_set.map(CapabilitySet::capabilities)),
            expires_at: wanted.expires_at,
        };
        let run = move |cx: &mut crate::op::Write<'_>| setup::mint_as_instance(cx, &mint, Surface::Cli);
        self.dispatch().as_instance(workspace_id, Surface::Cli, run).map(issued)
    }
}

fn named(member: Member) -> NamedMember {
    NamedMember { id: member.id, handle: member.handle }
}

fn issued(token: MintedToken) -> IssuedToken {
    IssuedToken { id: token.id, secret: token.secret }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "bootstrap")]
    use serde_json::json;

    use super::*;

    fn service(folder: &tempfile::TempDir) -> Service {
        let database = Database::Sqlite(folder.path().join("svc.db"));
        Service::open(Options { mode: OpenMode::Create, ..Options::new(database, [7; 32]) }).unwrap()
    }

    #[test]
    fn a_second_set_up_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(&folder);
        let made = service.establish("Team", "ada").unwrap();
        assert_eq!(service.establish("Other", "bob").unwrap_err().code(), Code::AlreadyInitialised);
        let wanted = WantedToken { member: "ada".to_owned(), ..WantedToken::default() };
        assert_ne!(service.mint_as_instance(&wanted).unwrap().id, made.token.id);
        let stranger = WantedToken { member: "bob".to_owned(), ..WantedToken::default() };
        assert_eq!(service.mint_as_instance(&stranger).unwrap_err().code(), Code::NotFound);
    }

    #[cfg(not(feature = "bootstrap"))]
    #[test]
    fn nobody_gets_in_without_a_credential() {
        let table = crate::operation_table().unwrap();
        assert!(table.operations().all(|row| row.needed() != crate::capability::Needs::Nothing));
    }

    #[cfg(feature = "bootstrap")]
    #[test]
    fn bootstrap_begins_a_folder_and_opens_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let (_, service) = open_or_begin(&[], folder.path()).unwrap();
        drop(service);
        let (config, service) = open_or_begin(&[], folder.path()).unwrap();
        service.establish("Team", "ada").unwrap();
        drop(service);
        assert!(open(&config).is_ok());
    }

    #[cfg(feature = "bootstrap")]
    #[test]
    fn bootstrap_closes_once_somebody_can_administer() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(&folder);
        let call = |operation: &str, input: serde_json::Value| {
            let request = crate::op::Request::json(Surface::Rest, None, input.to_string());
            let reply =
                service.call(service.operation(operation).unwrap(), request).map_err(|error| error.code())?;
            Ok::<_, Code>(serde_json::from_slice::<serde_json::Value>(&reply.body().unwrap()).unwrap())
        };
        let workspace = call("bootstrap_workspace", json!({"name": "Team"})).unwrap();
        assert_eq!(call("bootstrap_workspace", json!({"name": "Second"})), Err(Code::Forbidden));
        let member = |handle: &str, kind: &str| {
            call("bootstrap_member", json!({"workspace_id": workspace["id"], "handle": handle, "kind": kind}))
        };
        assert!(member("worker", "agent").unwrap()["token"]["secret"].is_string());
        assert_eq!(member("worker", "agent"), Err(Code::HandleTaken));
        assert!(member("ada", "human").unwrap()["token"]["secret"].is_string());
        assert_eq!(member("bob", "human"), Err(Code::Forbidden));
    }
}
