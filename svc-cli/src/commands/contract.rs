//! Implements `svc contract`, which prints machine-readable contracts.

use clap::{Args, ValueEnum};
use serde_json::Value;
use svc_core::op::{contract, routes};
use svc_core::ops::subscription_contract;
use svc_core::{Error, Result, operation_table};

use crate::output::Printer;

/// Print a machine-readable contract of this build, as a JSON array.
#[derive(Args)]
pub struct Contract {
    /// The contract to print.
    what: ContractPart,
}

#[derive(Clone, Copy, ValueEnum)]
enum ContractPart {
    /// Every operation: name, method, path, capability, effect.
    Operations,
    /// Every route: method, path, credential, capability, read or change.
    Routes,
    /// Every kind of event, with the schema of its payload.
    Events,
    /// Every frame of a subscription over WebSocket, with its schema.
    Subscribe,
    /// Every capability, with the named sets that contain the capability.
    Capabilities,
    /// Every table of a workspace: the columns that events determine, and for other columns the reason why
    /// events do not.
    Tables,
}

/// Runs `svc contract`: prints a contract, which is JSON with and without `--json`.
pub fn run(command: &Contract, output: &Printer) -> Result<()> {
    let table = operation_table()?;
    let contract: Value = match command.what {
        ContractPart::Operations => contract::operations(&table),
        ContractPart::Routes => routes::routes(&table),
        ContractPart::Events => contract::events(&table),
        ContractPart::Subscribe => subscription_contract(),
        ContractPart::Capabilities => contract::capabilities(),
        ContractPart::Tables => contract::tables(&table),
    };
    let text = serde_json::to_string_pretty(&contract).map_err(Error::internal)?;
    output.print_result(&contract, &text)
}
