//! `svc token`.

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use svc_core::capability::{Capability, CapabilitySet};
use svc_core::id::WorkspaceId;
use svc_core::op::{Request, Surface};
use svc_core::setup::{self, Variables, WantedToken};
use svc_core::{Error, Result, Service};

use super::{Folder, credential};
use crate::output::Output;

/// Administer tokens.
#[derive(Args)]
pub struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    Mint(Mint),
}

/// Mint a token for a member; its secret is shown only this once.
///
/// Acts as the member of the token in SVC_TOKEN, which must have the capability token:admin, or with
/// --as-instance on the authority of the machine's administrator.
#[derive(Args)]
pub struct Mint {
    #[command(flatten)]
    folder: Folder,
    /// Handle of the member that the token will act as.
    #[arg(long, value_name = "HANDLE")]
    member: String,
    /// The member's workspace. May be omitted if there is only one possible.
    #[arg(long, value_name = "ID")]
    workspace: Option<WorkspaceId>,
    /// What the token is for, to identify it later.
    #[arg(long)]
    label: Option<String>,
    /// The named set to mint from; without --set and --capabilities, the one for the member's kind.
    #[arg(long, value_name = "NAME", value_parser = named_set, conflicts_with = "capabilities")]
    set: Option<CapabilitySet>,
    /// The exact capabilities of the token, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = capability)]
    capabilities: Option<Vec<Capability>>,
    /// Act as the instance, without a token. The audit trail records this.
    #[arg(long)]
    as_instance: bool,
}

/// Runs the command.
pub fn run(command: &Token, variables: &Variables, output: &Output) -> Result<()> {
    let Action::Mint(mint) = &command.action;
    let config = mint.folder.config(variables)?;
    let minted = if mint.as_instance {
        let made = setup::open(&config)?.mint_as_instance(&wanted(mint))?;
        serde_json::to_value(made).map_err(Error::internal)?
    } else {
        let credential = credential(&config)?;
        let member = Caller { service: setup::open(&config)?, credential };
        member.mint(mint)?
    };
    let text = |field: &str| minted.get(field).and_then(Value::as_str).unwrap_or_default();
    let lost = || {
        format!(
            "the token {} was minted for {}, but its secret could not be shown, so nobody has seen it: \
             revoke it, and mint another one",
            text("id"),
            mint.member
        )
    };
    output.show_once(&minted, text("secret"), lost)
}

fn wanted(mint: &Mint) -> WantedToken {
    WantedToken {
        workspace_id: mint.workspace,
        member: mint.member.clone(),
        label: mint.label.clone(),
        capabilities: mint.capabilities.as_ref().map(|names| names.iter().copied().collect()),
        capability_set: mint.set,
        expires_at: None,
    }
}

/// The member whose token the command acts as.
struct Caller {
    service: Service,
    credential: secrecy::SecretString,
}

impl Caller {
    fn mint(&self, mint: &Mint) -> Result<Value> {
        let workspace_id = match mint.workspace {
            Some(id) => json!(id),
            None => field(&self.call("whoami", &json!({}))?, "/workspace_id")?,
        };
        let members =
            self.call("list_members", &json!({"workspace_id": workspace_id, "handle": mint.member}))?;
        let member_id = field(&members, "/items/0/id").map_err(|_| Error::not_found("member"))?;
        let mut input = Map::new();
        input.insert("workspace_id".to_owned(), workspace_id);
        input.insert("member_id".to_owned(), member_id);
        let optional = [
            ("label", mint.label.as_ref().map(|label| json!(label))),
            ("capabilities", mint.capabilities.as_ref().map(|names| json!(names))),
            ("capability_set", mint.set.map(|set| json!(set))),
        ];
        input.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        self.call("mint_token", &Value::Object(input))
    }

    fn call(&self, operation: &str, input: &Value) -> Result<Value> {
        let body = serde_json::to_vec(input).map_err(Error::internal)?;
        let reply = self.service.call(
            self.service.operation(operation)?,
            Request::json(Surface::Cli, Some(self.credential.clone()), body),
        )?;
        serde_json::from_slice(&reply.body()?).map_err(Error::internal)
    }
}

fn field(reply: &Value, pointer: &str) -> Result<Value> {
    let found = reply.pointer(pointer).cloned();
    found.ok_or_else(|| Error::internal(format!("the reply has no {pointer}")))
}

fn named_set(name: &str) -> Result<CapabilitySet, String> {
    serde_json::from_value(json!(name)).map_err(|_| {
        let names: Vec<String> = CapabilitySet::ALL.iter().map(|set| json!(set).to_string()).collect();
        format!("expected {}", names.join(" or "))
    })
}

fn capability(name: &str) -> Result<Capability, String> {
    name.parse().map_err(|error: Error| error.detail().to_owned())
}
