//! The features of the service.
//!
//! To add an operation or a hook, extend its feature. To add a feature, add a line here.

use std::io::Read;
use std::sync::OnceLock;

use crate::audit::state::{self, Difference, StateReport};
use crate::host::core_health;
use crate::id::WorkspaceId;
use crate::log::signed_note::PublicKey;
use crate::op::{Feature, Table};
use crate::portability::{ExportReport, verify_file};
use crate::store::Database;
use crate::{
    Result, audit, conversation, coordination, gates, identity, outreach, portability, retention, sharing,
    stream,
};

/// Returns every feature, in the order of the layers.
pub(crate) fn features() -> Vec<Feature> {
    vec![
        identity::workspaces::feature(),
        identity::members::feature(),
        identity::whoami::feature(),
        identity::tokens::feature(),
        identity::delegation::feature(),
        identity::sessions::feature(),
        identity::member_ends::feature(),
        identity::enrol::feature(),
        identity::apps::feature(),
        identity::setup::feature(),
        identity::oidc::feature(),
        identity::operator::feature(),
        identity::scim::feature(),
        conversation::presence::feature(),
        conversation::inbox::feature(),
        conversation::channels::feature(),
        conversation::messages::feature(),
        conversation::formatting::feature(),
        conversation::addresses::feature(),
        conversation::votes::feature(),
        conversation::follows::feature(),
        conversation::glossary::feature(),
        conversation::boot::feature(),
        conversation::memory::feature(),
        conversation::messages::reactions::feature(),
        conversation::messages::pins::feature(),
        conversation::notifications::feature(),
        coordination::dependencies::feature(),
        coordination::notices::feature(),
        coordination::dead_letters::feature(),
        coordination::checkpoint::feature(),
        coordination::claim_ops::feature(),
        coordination::claims::feature(),
        coordination::freeze::feature(),
        coordination::member_deactivation::feature(),
        coordination::token_revocation::feature(),
        coordination::footprint_ops::feature(),
        coordination::slots::feature(),
        coordination::pauses::feature(),
        coordination::deferred::feature(),
        coordination::budget_ops::thread::feature(),
        coordination::budget_ops::usage::feature(),
        coordination::budget_ops::spawn::feature(),
        coordination::results::feature(),
        coordination::lifecycle::feature(),
        coordination::lifecycle::transition::feature(),
        coordination::lifecycle::cancel::feature(),
        coordination::dms::feature(),
        coordination::thread_reads::feature(),
        coordination::occupancy::feature(),
        coordination::wait_for_ready::feature(),
        coordination::queue_projector::feature(),
        coordination::reaper::feature(),
        gates::reviews::feature(),
        gates::land_gate::feature(),
        gates::approvals::feature(),
        gates::relations::feature(),
        gates::backlinks::feature(),
        gates::context::feature(),
        stream::events::feature(),
        stream::census::feature(),
        stream::checkpoints::feature(),
        stream::snapshot::feature(),
        stream::workspace_address::feature(),
        stream::subscriptions::feature(),
        stream::resource_subscriptions::feature(),
        retention::idempotency_keys::feature(),
        audit::feature(),
        retention::holds::feature(),
        retention::feature(),
        retention::purge::feature(),
        portability::feature(),
        sharing::feature(),
        outreach::delivery_address::feature(),
        outreach::preferences::feature(),
        outreach::unsubscribe::feature(),
        outreach::web_push::feature(),
        outreach::board::feature(),
        core_health::database_checks(),
    ]
}

/// Builds the operation table from all features, without a service.
pub fn operation_table() -> Result<Table> {
    Table::build(features())
}

/// Verifies an export without a database, and returns an [`ExportReport`]. One of `keys` must have signed the
/// export.
///
/// Fails with `export-invalid`, with its `reason`.
pub fn verify_export(file: impl Read, keys: &[PublicKey]) -> Result<ExportReport> {
    verify_file(file, shared_operation_table()?.records(), keys)
}

/// Compares the tables of one or all workspaces with the values that their logs determine, and reports each
/// difference.
///
/// Only reads, in one snapshot per workspace, and may run while the service runs. Fails with
/// `event-log-broken` if a log does not verify, with `not-found` if the workspace does not exist, and with
/// `wrong-state` if the database is of an older version.
pub fn verify_state(
    database: &Database,
    workspace: Option<WorkspaceId>,
    report: &mut dyn FnMut(Difference) -> Result<()>,
) -> Result<Vec<StateReport>> {
    state::verify_state(database, shared_operation_table()?, workspace, report)
}

/// Returns the operation table of all features, which is built once.
fn shared_operation_table() -> Result<&'static Table> {
    static TABLE: OnceLock<Table> = OnceLock::new();
    match TABLE.get() {
        Some(table) => Ok(table),
        None => {
            let built = operation_table()?;
            Ok(TABLE.get_or_init(|| built))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    /// The documentation of an operation lists the refusals that the operation declares.
    ///
    /// Agents plan by the documentation and clients by the declaration, so a difference between them would
    /// mislead.
    #[test]
    fn a_description_names_the_refusals_that_the_operation_declares() {
        for operation in operation_table().unwrap().rows() {
            let schema = operation.input_schema();
            let description = schema["description"].as_str().unwrap().replace('\n', " ");
            let fails = description.split_once("Fails with ").map_or("", |(_, fails)| fails);
            let parts: Vec<&str> = fails.split('`').collect();
            let named = parts.windows(2).filter_map(|two| Some((two[0], Code::named(two[1])?)));
            let named: Vec<Code> = named
                .map(|(before, code)| {
                    let status = before.split_whitespace().next_back();
                    assert_eq!(status, Some(&*code.status().to_string()), "{operation:?}: {code:?}");
                    code
                })
                .collect();
            assert_eq!(named, operation.docs().refuses, "{operation:?}");
            let in_order: Vec<Code> = Code::ALL.iter().copied().filter(|code| named.contains(code)).collect();
            assert_eq!(named, in_order, "{operation:?}: each once, in the order of all codes");
        }
    }
}
