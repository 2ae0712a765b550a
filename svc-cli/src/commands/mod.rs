//! Contains the commands, one per file. The doc comments of arguments are the help texts.

pub mod checkpoint;
pub mod contract;
pub mod export;
pub mod freeze;
pub mod import;
pub mod init;
pub mod mcp_stdio;
pub mod rewrap;
pub mod token;
pub mod verify;

use std::path::PathBuf;

use clap::Args;
use secrecy::SecretString;
use svc_core::api::{ListMembers, Member, Request, Whoami};
use svc_core::config::Config;
use svc_core::data_dir;
use svc_core::id::WorkspaceId;
use svc_core::op::{Credential, RequestHead, Surface};

use svc_core::setup::{self, Variables};
use svc_core::{Error, Result, Service};

/// Option for the data folder that a command uses.
#[derive(Args)]
pub struct DataFolder {
    /// Folder that contains the settings, the keys and, unless DATABASE_URL is set, the database.
    #[arg(long, value_name = "DIR", default_value = data_dir::DEFAULT)]
    pub data: PathBuf,
}

impl DataFolder {
    /// Reads the configuration from the environment variables and the data folder.
    pub fn config(&self, variables: &Variables) -> Result<Config> {
        Config::read(variables.iter().cloned(), &self.data)
    }
}

/// Options for the member that a command changes, and for the authority of the caller.
#[derive(Args)]
struct TargetMember {
    #[command(flatten)]
    folder: DataFolder,
    /// Handle of the member, such as worker, ada@corp.example or app:triage.
    #[arg(long, value_name = "HANDLE")]
    member: String,
    /// Id of the member's workspace. May be omitted if only one workspace is possible.
    #[arg(long, value_name = "ID")]
    workspace: Option<WorkspaceId>,
    /// Act as the instance, without a token. The audit trail records this.
    #[arg(long)]
    as_instance: bool,
}

impl TargetMember {
    /// Returns the caller of the command, and the member that the command changes.
    fn find(&self, variables: &Variables) -> Result<(CommandCaller, Member)> {
        let config = self.folder.config(variables)?;
        let caller = match self.as_instance {
            true => CommandCaller::open_as_instance(&config, self.workspace)?,
            false => CommandCaller::open_as_member(&config)?,
        };
        let member = caller.find_member(caller.workspace(self.workspace)?, &self.member)?;
        Ok((caller, member))
    }
}

/// Caller of a command, with the service that the command uses.
struct CommandCaller {
    service: Service,
    authority: CommandAuthority,
}

/// Authority with which a command acts.
enum CommandAuthority {
    /// The token of a member.
    Token(SecretString),
    /// The rights of the machine's administrator over this workspace.
    Instance(WorkspaceId),
}

impl CommandCaller {
    /// Opens the service to act as the member of the token in the configuration.
    fn open_as_member(config: &Config) -> Result<Self> {
        let token = config.token()?;
        Ok(Self { service: setup::open(config)?, authority: CommandAuthority::Token(token) })
    }

    /// Opens the service to act as the instance on the workspace `named`, or else on the only workspace.
    fn open_as_instance(config: &Config, named: Option<WorkspaceId>) -> Result<Self> {
        let service = setup::open(config)?;
        let workspace = service.find_workspace(named)?;
        Ok(Self { service, authority: CommandAuthority::Instance(workspace) })
    }

    /// Opens the service to act as the instance, independent of a workspace.
    fn open_as_whole_instance(config: &Config) -> Result<Self> {
        Ok(Self {
            service: setup::open(config)?,
            authority: CommandAuthority::Instance(WorkspaceId::INSTANCE),
        })
    }

    /// Returns the workspace `named`, or else the workspace of the caller.
    fn workspace(&self, named: Option<WorkspaceId>) -> Result<WorkspaceId> {
        match (named, &self.authority) {
            (Some(id), _) => Ok(id),
            (None, CommandAuthority::Instance(id)) => Ok(*id),
            (None, CommandAuthority::Token(_)) => Ok(self.call(&Whoami::new())?.workspace_id),
        }
    }

    /// Returns the member of a workspace with the handle `handle`. Fails if the workspace has no such member.
    fn find_member(&self, workspace_id: WorkspaceId, handle: &str) -> Result<Member> {
        let request = ListMembers::new().workspace_id(workspace_id).handle(handle);
        let found = self.call(&request).map_err(|error| match error.field() {
            // The option has another name than the field.
            Some("handle") => Error::malformed(error.detail().replacen("`handle`", "`member`", 1)),
            _ => error,
        })?;
        found.items.first().cloned().ok_or_else(|| Error::not_found("member"))
    }

    /// Calls an operation.
    fn call<R: Request>(&self, request: &R) -> Result<R::Output> {
        match &self.authority {
            CommandAuthority::Instance(workspace) => self.service.call_as_instance(*workspace, request),
            CommandAuthority::Token(token) => {
                let head = RequestHead {
                    credential: Credential::Bearer(token.clone()),
                    surface: Surface::Cli,
                    ..RequestHead::default()
                };
                self.service.call_typed(head, request)
            }
        }
    }
}

/// Returns a function that creates the error for an invalid argument.
fn invalid_argument_error(field: &str) -> impl Fn(String) -> Error {
    move |error| Error::malformed(format!("`{field}`: {error}"))
}
