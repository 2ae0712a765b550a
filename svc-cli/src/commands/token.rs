//! Implements `svc token`, which administers tokens.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use svc_core::api::{MintToken, MintedToken, NewQuotas, Quotas};
use svc_core::capability::{Capabilities, Capability, CapabilitySet};
use svc_core::config::board_link;
use svc_core::data_dir::PublishedAddress;

use svc_core::setup::{self, TokenRequest, Variables};
use svc_core::text::Count;
use svc_core::{Error, Result};

use super::{TargetMember, invalid_argument_error};
use crate::output::Printer;

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

/// Mint a token for a member, and print its secret, which is shown only once.
///
/// Acts as the member of the token in SVC_TOKEN, which must have the capability token:admin, or with
/// --as-instance with the rights of the machine's administrator.
#[derive(Args)]
pub struct Mint {
    /// Member that the token will act as.
    #[command(flatten)]
    target: TargetMember,
    /// Purpose of the token, which helps you to identify the token later.
    #[arg(long)]
    label: Option<String>,
    /// Named set of capabilities for the token. Without --set and --capabilities: the set for the member's
    /// kind.
    #[arg(long, value_name = "NAME", value_parser = parse_capability_set, conflicts_with = "capabilities")]
    set: Option<CapabilitySet>,
    /// Exact capabilities of the token, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_capability)]
    capabilities: Option<Vec<Capability>>,
    /// Maximum requests per rate window of the token and all tokens derived from it together.
    #[arg(long, value_name = "NUMBER")]
    requests: Option<i64>,
    /// Print a link to the board that signs a browser in with the token, instead of the token's secret.
    ///
    /// If SVC_PUBLIC_URL is not set, the link contains the address of the running server that was last
    /// started on the data folder, or else the configured address.
    #[arg(long)]
    link: bool,
}

/// Runs `svc token mint`: mints a token, and prints the token's secret or a link.
pub fn run(command: &Token, variables: &Variables, output: &Printer) -> Result<()> {
    let Action::Mint(mint) = &command.action;
    let minted = if mint.target.as_instance {
        let config = mint.target.folder.config(variables)?;
        let made = setup::open(&config)?.mint_as_instance(&requested_token(mint)?)?;
        serde_json::to_value(made)
    } else {
        serde_json::to_value(mint_as_member(mint, variables)?)
    };
    let mut minted = minted.map_err(Error::internal)?;
    if mint.link {
        let config = mint.target.folder.config(variables)?;
        let secret = minted.get("secret").and_then(Value::as_str).unwrap_or_default();
        let listens = PublishedAddress::find(&config.data_dir).unwrap_or(config.listen_addr);
        let link = board_link(config.public_url.as_ref(), listens, secret);
        if let Some(minted) = minted.as_object_mut() {
            minted.remove("secret");
            minted.insert("link".to_owned(), json!(link));
        }
    }
    let text = |field: &str| minted.get(field).and_then(Value::as_str).unwrap_or_default();
    let lost = || {
        format!(
            "the token {} was minted for {}, but its secret could not be shown, so nobody has seen it: \
             revoke it, and mint another one",
            text("id"),
            mint.target.member
        )
    };
    output.print_secret_result(&minted, text(if mint.link { "link" } else { "secret" }), lost)
}

fn requested_token(mint: &Mint) -> Result<TokenRequest> {
    Ok(TokenRequest {
        workspace_id: mint.target.workspace,
        member: mint.target.member.clone(),
        label: mint.label.clone(),
        capabilities: requested_capabilities(mint),
        capability_set: mint.set,
        expires_at: None,
        quotas: requested_quotas(mint)?,
    })
}

fn requested_quotas(mint: &Mint) -> Result<Option<Quotas>> {
    let requests = mint.requests.map(Count::new).transpose().map_err(invalid_argument_error("requests"))?;
    Ok(requests.map(Quotas::new))
}

fn requested_capabilities(mint: &Mint) -> Option<Capabilities> {
    mint.capabilities.as_ref().map(|names| names.iter().copied().collect())
}

/// Mints a token as the member of the token in the environment variables.
fn mint_as_member(mint: &Mint, variables: &Variables) -> Result<MintedToken> {
    let (caller, member) = mint.target.find(variables)?;
    let mut wanted = MintToken::new(member.id).workspace_id(member.workspace_id);
    if let Some(label) = &mint.label {
        wanted = wanted.label(label);
    }
    if let Some(capabilities) = &mint.capabilities {
        wanted = wanted.capabilities(capabilities.iter().copied());
    }
    if let Some(set) = mint.set {
        wanted = wanted.capability_set(set);
    }
    if let Some(requests) = mint.requests {
        wanted = wanted.quotas(NewQuotas::new(requests));
    }
    caller.call(&wanted)
}

fn parse_capability_set(name: &str) -> Result<CapabilitySet, String> {
    serde_json::from_value(json!(name)).map_err(|_| {
        let names: Vec<String> = CapabilitySet::ALL.iter().map(|set| json!(set).to_string()).collect();
        format!("expected {}", names.join(" or "))
    })
}

fn parse_capability(name: &str) -> Result<Capability, String> {
    name.parse().map_err(|error: Error| error.detail().to_owned())
}
