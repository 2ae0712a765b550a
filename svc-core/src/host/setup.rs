//! Set-up and other work that only an administrator of the machine may do, without a token.
//!
//! This module sets up a service, and creates a token for a member who has lost the last one; `typed_calls`
//! calls other operations as the instance. All of this is audited like other work, with the instance as the
//! actor. The module also opens a service from variables and a data folder, with which every shell begins.

use std::ffi::OsString;
use std::path::Path;

use serde::Serialize;

use crate::capability::{Capabilities, CapabilitySet};
use crate::config::Config;
use crate::data_access::DataAccess;
use crate::data_dir::{self, DataDir, UnfinishedSetup};
use crate::entropy::Entropy;
use crate::error::{Code, Error, Result};
use crate::host::service::{Service, ServiceOptions};
use crate::host::start_checks;
use crate::id::{MemberId, TokenId, WorkspaceId};
use crate::identity::members::{AnyHandle, Member};
use crate::identity::setup::{self, InstanceTokenRequest, SetupNames};
use crate::identity::tokens::{MintedToken, Quotas};
use crate::op::Surface;
use crate::store::refusal::refusal;
use crate::store::{Database, OpenMode, Opener};
use crate::text::Text;
use crate::time::Time;

/// The result of a set-up. The secrets are shown only here.
#[derive(Clone, Debug, Serialize)]
pub struct Established {
    /// The first workspace. More workspaces can be created later.
    pub workspace: NamedWorkspace,
    /// The human administrator of the workspace.
    pub admin: NamedMember,
    /// The administrator's token, which has every capability.
    pub token: IssuedToken,
    /// The first agent of the workspace.
    pub agent: NamedMember,
    /// The agent's token, which has a worker's capabilities.
    pub agent_token: IssuedToken,
}

/// A workspace, identified by id and name.
#[derive(Clone, Debug, Serialize)]
pub struct NamedWorkspace {
    pub id: WorkspaceId,
    pub name: String,
}

/// A member, identified by id and handle.
#[derive(Clone, Debug, Serialize)]
pub struct NamedMember {
    pub id: MemberId,
    pub handle: String,
}

/// A token together with its secret.
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

/// The environment variables of a process, as returned by the system.
pub type Variables = [(OsString, OsString)];

/// Opens the service that `config` describes.
///
/// Rejects a data folder that is not set up, and a database without schema.
pub fn open(config: &Config) -> Result<Service> {
    open_with(config, |options| options)
}

/// Opens a service as [`open`] does, with the options that `adjust` returns.
pub(crate) fn open_with(
    config: &Config,
    adjust: impl FnOnce(ServiceOptions) -> ServiceOptions,
) -> Result<Service> {
    if config.database_url.is_none() {
        DataDir::open(&config.data_dir)?;
    }
    warn_of_access(config)?;
    Service::with_options(adjust(ServiceOptions::from_config(config)?))
}

/// Logs the files of a data folder that other users can read. Fails if other users can write some.
fn warn_of_access(config: &Config) -> Result<()> {
    for path in data_dir::check_access_of_others(&config.data_dir, &config.secret_files, config.data_access)?
    {
        let path = path.display();
        match config.data_access {
            DataAccess::Owner => {
                tracing::warn!(%path, "users other than its owner can read it: chmod go-rwx")
            }
            DataAccess::Group => {
                tracing::warn!(%path, "users other than its owner and its group can read it: chmod o-rwx");
            }
        }
    }
    Ok(())
}

/// Opens the service that `variables` and `data_dir` describe, in bootstrap mode.
///
/// A folder that was never set up and a database without schema are initialised, and any caller can later
/// create the first workspace.
#[cfg(feature = "bootstrap")]
pub fn open_or_create(variables: &Variables, data_dir: &Path) -> Result<(Config, Service)> {
    let read = || Config::read(variables.iter().cloned(), data_dir);
    let create = |config: &Config| {
        Service::with_options(ServiceOptions {
            mode: OpenMode::Create,
            ..ServiceOptions::from_config(config)?
        })
    };
    let config = read()?;
    if config.database_url.is_some() {
        let service = create(&config)?;
        return Ok((config, service));
    }
    match DataDir::create(data_dir, config.data_access, &Entropy::System) {
        Ok(mut setup) => {
            setup.create_database_file()?;
            let config = read()?;
            let service = create(&config)?;
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

/// Sets up the service that `variables` and `data_dir` describe.
///
/// The set-up creates the folder with its keys, and the database with the first workspace, named `workspace`,
/// and its administrator, with the handle `admin`. An existing set-up is rejected without changing anything.
/// After an interruption, the call can be repeated.
pub fn init(
    variables: &Variables,
    data_dir: &Path,
    workspace: &str,
    admin: &str,
) -> Result<(Config, Service, Established)> {
    init_with(variables, data_dir, workspace, admin, |options| options)
}

/// Sets up a service as [`init`] does, and opens it with the options that `adjust` returns.
pub(crate) fn init_with(
    variables: &Variables,
    data_dir: &Path,
    workspace: &str,
    admin: &str,
    adjust: impl FnOnce(ServiceOptions) -> ServiceOptions,
) -> Result<(Config, Service, Established)> {
    // Checks without side effects come first.
    SetupNames::new(workspace, admin)?;
    let access = Config::read(variables.iter().cloned(), data_dir)?.data_access;
    let mut setup = DataDir::create(data_dir, access, &Entropy::System)?;
    let config = Config::read(variables.iter().cloned(), data_dir)?;
    let uses_own_database = config.database_url.is_none();
    if uses_own_database {
        setup.create_database_file()?;
    }
    match create_first_workspace(&config, workspace, admin, adjust) {
        Ok((service, made)) => {
            setup.finish()?;
            Ok((config, service, made))
        }
        Err(error) => Err(resolve_rejected_setup(setup, uses_own_database, error)),
    }
}

/// Opens the service in a new database, and creates the first workspace.
fn create_first_workspace(
    config: &Config,
    workspace: &str,
    admin: &str,
    adjust: impl FnOnce(ServiceOptions) -> ServiceOptions,
) -> Result<(Service, Established)> {
    let options = ServiceOptions { mode: OpenMode::Create, ..adjust(ServiceOptions::from_config(config)?) };
    if config.database_url.is_some() {
        // The data folder does not show whether a separate database is set up.
        check_not_set_up(&options.database)?;
    }
    let service = Service::with_options(options)?;
    let made = service.establish(workspace, admin)?;
    Ok((service, made))
}

/// Rejects a database that has been set up, without changing it.
fn check_not_set_up(database: &Database) -> Result<()> {
    let found = Opener::new(database).and_then(|opener| start_checks::check_not_set_up(&opener));
    found.map_err(|error| refusal(error, database))
}

/// Finishes, undoes or keeps a set-up that was rejected.
///
/// A workspace in the folder's database can only have been created by an earlier run of this set-up, which is
/// thereby complete. If a separate database contains a workspace, or cannot be reached or used, the folder is
/// restored to its previous state. After any other refusal the set-up can be resumed.
fn resolve_rejected_setup(setup: UnfinishedSetup, uses_own_database: bool, refusal: Error) -> Error {
    let settled = match (refusal.code(), uses_own_database) {
        (Code::AlreadyInitialised, true) => setup.finish().map(drop),
        (Code::AlreadyInitialised | Code::Unavailable | Code::Configuration, false) => setup.undo(),
        _ => Ok(()),
    };
    settled.err().unwrap_or(refusal)
}

/// A request for a token by the administrator of the machine.
#[derive(Clone, Debug, Default)]
pub struct TokenRequest {
    /// The workspace of the token. May be omitted if there is only one workspace.
    pub workspace_id: Option<WorkspaceId>,
    /// The handle of the member that the token will act as.
    pub member: String,
    /// The purpose of the token.
    pub label: Option<String>,
    /// The capabilities of the token.
    pub capabilities: Option<Capabilities>,
    /// A named set of capabilities, as an alternative to `capabilities`.
    pub capability_set: Option<CapabilitySet>,
    /// Time at which the token expires, or `None` if it never expires.
    pub expires_at: Option<Time>,
    /// The limits on the use of the token.
    pub quotas: Option<Quotas>,
}

impl Service {
    /// Creates the first workspace with a human administrator and a worker agent.
    ///
    /// Fails without changing anything if there is already a workspace.
    pub fn establish(&self, workspace: &str, admin: &str) -> Result<Established> {
        let names = SetupNames::new(workspace, admin)?;
        let run = move |cx: &mut crate::op::Write<'_>| setup::establish(cx, &names, Surface::Cli);
        let made = self.dispatch().change_as_instance(WorkspaceId::INSTANCE, Surface::Cli, run)?;
        Ok(Established {
            workspace: NamedWorkspace { id: made.workspace.id, name: made.workspace.name },
            admin: named_member(made.admin),
            token: issued_token(made.admin_token),
            agent: named_member(made.agent),
            agent_token: issued_token(made.agent_token),
        })
    }

    /// Returns the workspace `named`, or the only workspace if `named` is `None`.
    pub fn find_workspace(&self, named: Option<WorkspaceId>) -> Result<WorkspaceId> {
        self.dispatch().read_as_instance(move |cx| setup::find_workspace(cx, named))
    }

    /// Creates a token for a member, as the administrator of the machine.
    pub fn mint_as_instance(&self, wanted: &TokenRequest) -> Result<IssuedToken> {
        let invalid = |field: &'static str| move |error: String| Error::in_field(field, error);
        // Determined before the task is queued, so that the writer locks only the head of this workspace.
        let workspace_id = self.find_workspace(wanted.workspace_id)?;
        let mint = InstanceTokenRequest {
            workspace_id,
            handle: AnyHandle::new(&wanted.member).map_err(invalid("member"))?,
            label: wanted.label.clone().map(Text::new).transpose().map_err(invalid("label"))?,
            capabilities: wanted.capabilities.or(wanted.capability_set.map(CapabilitySet::capabilities)),
            expires_at: wanted.expires_at,
            quotas: wanted.quotas,
        };
        let run = move |cx: &mut crate::op::Write<'_>| setup::mint_as_instance(cx, &mint, Surface::Cli);
        self.dispatch().change_as_instance(workspace_id, Surface::Cli, run).map(issued_token)
    }
}

fn named_member(member: Member) -> NamedMember {
    NamedMember { id: member.id, handle: member.handle }
}

fn issued_token(token: MintedToken) -> IssuedToken {
    IssuedToken { id: token.id, secret: token.secret }
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "bootstrap")]
    use serde_json::json;

    use super::*;

    fn service(folder: &tempfile::TempDir) -> Service {
        let database = Database::Sqlite(folder.path().join("svc.db"));
        Service::with_options(ServiceOptions {
            mode: OpenMode::Create,
            ..ServiceOptions::new(database, [7; 32])
        })
        .unwrap()
    }

    #[test]
    fn a_second_setup_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(&folder);
        let made = service.establish("Team", "ada").unwrap();
        assert_eq!(service.establish("Other", "bob").unwrap_err().code(), Code::AlreadyInitialised);
        let wanted = TokenRequest { member: "ada".to_owned(), ..TokenRequest::default() };
        assert_ne!(service.mint_as_instance(&wanted).unwrap().id, made.token.id);
        let stranger = TokenRequest { member: "bob".to_owned(), ..TokenRequest::default() };
        assert_eq!(service.mint_as_instance(&stranger).unwrap_err().code(), Code::NotFound);
        let garbled = TokenRequest { member: "bad handle".to_owned(), ..wanted };
        let error = service.mint_as_instance(&garbled).unwrap_err();
        assert!(error.code() == Code::Malformed && error.detail().starts_with("`member`: "), "{error}");
    }

    #[cfg(not(feature = "bootstrap"))]
    #[test]
    fn every_operation_needs_a_credential() {
        let table = crate::operation_table().unwrap();
        assert!(table.operations().all(|row| row.access().needs != crate::capability::Needs::Nothing));
    }

    #[cfg(feature = "bootstrap")]
    #[test]
    fn bootstrap_initialises_a_folder_and_reopens_it() {
        let folder = tempfile::tempdir().unwrap();
        let (_, service) = open_or_create(&[], folder.path()).unwrap();
        drop(service);
        let (config, service) = open_or_create(&[], folder.path()).unwrap();
        service.establish("Team", "ada").unwrap();
        drop(service);
        assert!(open(&config).is_ok());
    }

    #[cfg(feature = "bootstrap")]
    #[test]
    fn bootstrap_ends_once_there_is_an_administrator() {
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
