//! The features of the service.
//!
//! A new operation or hook is added to its feature; a new feature is added as a line here.

use crate::op::{Feature, Table};
use crate::{Result, conversation, coordination, identity, integrity};

/// Returns every feature, in the order of the layers.
pub(crate) fn features() -> Vec<Feature> {
    vec![
        identity::workspaces::feature(),
        identity::members::feature(),
        identity::whoami::feature(),
        identity::tokens::feature(),
        identity::setup::feature(),
        conversation::channels::feature(),
        conversation::messages::feature(),
        coordination::thread::feature(),
        coordination::queue::feature(),
        coordination::skill_sets::feature(),
        coordination::thread::transition::feature(),
        coordination::thread::cancel::feature(),
        coordination::dependencies::feature(),
        coordination::notices::feature(),
        coordination::thread::views::feature(),
        coordination::claims::feature(),
        coordination::results::feature(),
        coordination::reaper::feature(),
        integrity::events::feature(),
        integrity::audit::feature(),
    ]
}

/// Builds the table of every feature, without a service behind it.
pub fn operation_table() -> Result<Table> {
    Table::build(features())
}
